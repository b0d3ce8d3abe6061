//! The workloads, one row each. A later service adds its rows here and, if its requests are new, one function in
//! request.rs.

use std::sync::Arc;

use crate::file;
use crate::queue::Deed;
use crate::request::Signer;
use crate::smb::{self, Protection};
use crate::table;

pub const CONTAINER: &str = "/bench";
pub const LISTED: &str = "/listed";
/// Blobs with a lease on them, one for each connection that renews.
pub const LEASED: u64 = 32;
const LEASE: &str = "5c1f8a36-0c5c-4f0e-9a39-6f4f6f1c2b7d";
pub const KIB: usize = 1024;
pub const MIB: usize = 1024 * 1024;

/// What is measured, and so in which unit and which way is better.
#[derive(Clone, Copy)]
pub enum Measure {
    /// Requests per second: more is better.
    Load(Load),
    /// Milliseconds from spawn to first answer on an empty directory: less is better, as below.
    Start,
    /// MiB of resident memory after the first answer, when nothing goes on.
    Memory,
    /// Milliseconds from spawn to first answer after kill -9, with many blobs.
    Restart,
    /// Deeds per second on a queue: more is better.
    Queue(Deed),
    /// Requests per second on a table: more is better.
    Table(table::Deed),
    /// Requests or, of large ones, MB per second on a share: more is better.
    File(file::Deed),
    /// Deeds or, of large files, MB per second over SMB: more is better.
    Smb(smb::Deed, Protection),
    /// Milliseconds for one Put Block List of many blocks: less is better.
    Commit,
    /// MB per second of one very large Put Blob: more is better.
    Large,
}

#[derive(Clone, Copy)]
pub struct Load {
    pub connections: usize,
    pub traffic: What,
    pub expect: u16,
    pub body_bytes: usize,
    /// The write also has the append alone as a floor (floor.rs).
    pub appends: bool,
}

#[derive(Clone, Copy)]
pub enum What {
    /// One signed request, again and again.
    Repeat(fn(&Signer) -> Vec<u8>),
    /// A request per number, so that every name is new.
    Distinct(fn(&Signer, u64) -> Vec<u8>),
}

/// What the project promises of Lazuli's figure.
#[derive(Clone, Copy)]
pub enum Goal {
    TimesAzurite(f64),
    OfFloor(f64),
    Below(f64),
    AtLeast(f64),
    /// Of the same on a queue of ten messages.
    OfTen(f64),
    /// Of Samba's server, asked the same by the same client.
    OfSmbd(f64),
}

pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// Where it says `many`, an option says how many.
    pub title: &'static str,
    pub measure: Measure,
    pub goals: &'static [Goal],
}

impl Workload {
    /// Whether a name on the command line means it: its own or its group's.
    pub fn is_named(&self, name: &str) -> bool {
        let is_grouped = || self.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
        self.name == name || GROUPS.contains(&name) && is_grouped()
    }
}

const fn row(name: &'static str, title: &'static str, measure: Measure, goals: &'static [Goal]) -> Workload {
    Workload { name, title, measure, goals }
}

const fn load(connections: usize, traffic: What, expect: u16, body_bytes: usize, appends: bool) -> Measure {
    Measure::Load(Load { connections, traffic, expect, body_bytes, appends })
}

use Goal::{AtLeast, Below, OfFloor, OfSmbd, OfTen, TimesAzurite};
use Protection::{Encrypted, Signed};
use What::{Distinct, Repeat};

/// Names that stand for all workloads whose names begin with them.
pub const GROUPS: [&str; 4] = ["queue", "table", "file", "smb"];

#[rustfmt::skip]
pub const WORKLOADS: &[Workload] = &[
    //  name         title                                          connections, request, expected status, body, appends  goals
    row("get-1k",    "GET 1 KiB, 32 connections",              load(32, Repeat(get_1k),   200, 0,       false), &[TimesAzurite(40.0), OfFloor(0.60)]),
    row("get-1m",    "GET 1 MiB, 8 connections",               load(8,  Repeat(get_1m),   200, 0,       false), &[TimesAzurite(5.0), OfFloor(0.80)]),
    row("put-1k",    "PUT 1 KiB, 32 connections",              load(32, Distinct(put_1k), 201, KIB,     true),  &[TimesAzurite(40.0), OfFloor(0.50)]),
    row("put-1k-1",  "PUT 1 KiB, 1 connection",                load(1,  Distinct(put_1k), 201, KIB,     true),  &[TimesAzurite(8.0), OfFloor(0.60)]),
    row("put-1m",    "PUT 1 MiB, 8 connections",               load(8,  Distinct(put_1m), 201, MIB,     true),  &[]),
    row("put-4m",    "PUT 4 MiB, 4 connections",               load(4,  Distinct(put_4m), 201, 4 * MIB, true),  &[TimesAzurite(2.0), OfFloor(0.80)]),
    row("refused",   "PUT refused by If-None-Match: *, 32",    load(32, Repeat(refused),  409, KIB,     false), &[TimesAzurite(60.0)]),
    row("stale",     "PUT refused by a stale If-Match, 32",    load(32, Repeat(stale),    412, KIB,     false), &[TimesAzurite(60.0)]),
    row("lease-renew", "renew a lease, 32 holders",            load(LEASED as usize, Distinct(renew), 200, 0, false), &[TimesAzurite(20.0)]),
    row("list",      "list 1,000 of many blobs, 4 connections", load(4, Repeat(list),     200, 0,       false), &[TimesAzurite(40.0)]),
    row("commit",    "commit a list of many blocks",           Measure::Commit,                                 &[]),
    row("put-1g",    "PUT many MiB, 1 connection",             Measure::Large,                                  &[]),
    row("queue-put", "queue: put 1 KiB, 32 connections",       Measure::Queue(Deed::Put),                       &[TimesAzurite(20.0), AtLeast(2000.0)]),
    row("queue-use", "queue: get, delete and put, 16 consumers", Measure::Queue(Deed::Cycle),                   &[TimesAzurite(60.0), AtLeast(2000.0)]),
    row("queue-get", "queue: get and give back, 4, many messages", Measure::Queue(Deed::GiveBack),              &[OfTen(0.80)]),
    row("table-insert", "table: insert in one partition, 32",   Measure::Table(table::Deed::Insert),             &[TimesAzurite(10.0), AtLeast(2000.0)]),
    row("table-get", "table: point get, 32 connections",       Measure::Table(table::Deed::Get),                &[TimesAzurite(25.0)]),
    row("table-merge", "table: merge, 32 connections",         Measure::Table(table::Deed::Merge),              &[TimesAzurite(8.0)]),
    row("table-transact", "table: transactions of 100, 8 connections", Measure::Table(table::Deed::Transact),   &[]),
    row("table-query", "table: 10 of 1,000 in a partition by a property, 4", Measure::Table(table::Deed::Query), &[]),
    row("table-half", "table: 500 of 1,000 in a partition by a property, 4", Measure::Table(table::Deed::Half), &[TimesAzurite(10.0)]),
    row("table-scan", "table: a page of 1,000, 4 connections", Measure::Table(table::Deed::Scan),               &[]),
    row("file-create", "file: create empty ones, 32 connections", Measure::File(file::Deed::Create),             &[]),
    row("file-delete", "file: delete them, 32 connections",    Measure::File(file::Deed::Delete),               &[]),
    row("file-4k",   "file: write 4 KiB at random in 1 GiB, 16", Measure::File(file::Deed::Write4k),            &[]),
    row("file-4m",   "file: write ranges of 4 MiB, 4 connections", Measure::File(file::Deed::Write4m),          &[]),
    row("file-read", "file: read 64 MiB, 2 connections",       Measure::File(file::Deed::Read64m),              &[]),
    row("file-list", "file: list 5,000 of many files, 4 connections", Measure::File(file::Deed::List),          &[]),
    row("smb-put",   "smb: put many MiB, encrypted",           Measure::Smb(smb::Deed::Put, Encrypted),         &[OfSmbd(1.0)]),
    row("smb-get",   "smb: get many MiB, encrypted",           Measure::Smb(smb::Deed::Get, Encrypted),         &[OfSmbd(1.0)]),
    row("smb-put-signed", "smb: put many MiB, signed",         Measure::Smb(smb::Deed::Put, Signed),            &[OfSmbd(1.0)]),
    row("smb-get-signed", "smb: get many MiB, signed",         Measure::Smb(smb::Deed::Get, Signed),            &[OfSmbd(1.0)]),
    row("smb-make",  "smb: make 1,000 files of 4 KiB, 1",      Measure::Smb(smb::Deed::Make, Encrypted),        &[OfSmbd(1.0)]),
    row("smb-make-through", "smb: make them, write-through, 1", Measure::Smb(smb::Deed::MakeThrough, Encrypted), &[OfSmbd(1.0)]),
    row("smb-look",  "smb: open, read and close them, 1",      Measure::Smb(smb::Deed::Look, Encrypted),        &[OfSmbd(1.0)]),
    row("smb-read",  "smb: read 4 KiB at random in 256 MiB, 4", Measure::Smb(smb::Deed::Read, Encrypted),       &[OfSmbd(1.0)]),
    row("smb-write", "smb: write 4 KiB at random in 256 MiB, 4", Measure::Smb(smb::Deed::Write, Encrypted),     &[OfSmbd(1.0)]),
    row("smb-write-through", "smb: the same, write-through, 4", Measure::Smb(smb::Deed::WriteThrough, Encrypted), &[OfSmbd(1.0)]),
    row("start",     "start to first answer, empty directory", Measure::Start,                                  &[Below(100.0), TimesAzurite(10.0)]),
    row("memory",    "idle memory",                            Measure::Memory,                                 &[Below(30.0), TimesAzurite(6.0)]),
    row("restart",   "restart after kill -9, many blobs",       Measure::Restart,                                &[Below(1000.0)]),
];

fn get_1k(signer: &Signer) -> Vec<u8> {
    signer.get_blob("/bench/get-1k")
}

fn get_1m(signer: &Signer) -> Vec<u8> {
    signer.get_blob("/bench/get-1m")
}

fn put_1k(signer: &Signer, number: u64) -> Vec<u8> {
    signer.put_blob(&format!("/bench/put-1k/{number:09}"), "", KIB)
}

fn put_1m(signer: &Signer, number: u64) -> Vec<u8> {
    signer.put_blob(&format!("/bench/put-1m/{number:09}"), "", MIB)
}

fn put_4m(signer: &Signer, number: u64) -> Vec<u8> {
    signer.put_blob(&format!("/bench/put-4m/{number:09}"), "", 4 * MIB)
}

fn refused(signer: &Signer) -> Vec<u8> {
    signer.put_blob("/bench/get-1k", "*", KIB)
}

fn stale(signer: &Signer) -> Vec<u8> {
    signer.put_stale("/bench/get-1k")
}

/// The blob that a lease is on, and the request that acquires it.
pub fn leased(signer: &Signer, number: u64) -> (String, Vec<u8>) {
    let path = format!("/bench/leased/{:02}", number % LEASED);
    let acquire = signer.lease(&path, "acquire", LEASE);
    (path, acquire)
}

fn renew(signer: &Signer, number: u64) -> Vec<u8> {
    signer.lease(&format!("/bench/leased/{:02}", number % LEASED), "renew", LEASE)
}

fn list(signer: &Signer) -> Vec<u8> {
    signer.list_blobs(LISTED, "1000")
}

/// The numbered request of a fill, as a closure for a supply.
pub fn fill(signer: Signer, container: &'static str) -> Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync> {
    Arc::new(move |number| signer.put_blob(&format!("{container}/fill/{number:09}"), "", KIB))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_names_its_workloads_and_no_other() {
        for group in GROUPS {
            assert!(WORKLOADS.iter().any(|workload| workload.is_named(group)), "{group}");
        }
        let named = |name: &str| WORKLOADS.iter().filter(|workload| workload.is_named(name)).count();
        assert_eq!((named("smb-put"), named("put-1k"), named("get")), (1, 1, 0));
    }
}
