//! What a SAS signs, as the service's reference lists it: for each kind, service and version the fields in their order. A client's side
//! of it, which shares nothing with the server's.

use std::collections::BTreeMap;

use contract::Service;

use crate::request::{ACCOUNT, sign};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Account,
    Service,
    UserDelegation,
}

/// From this version on, these fields: `res` is the resource, `snap` the request's snapshot or version, SRH and SRQ what `srh` and `srq` name.
type Shape = (&'static str, &'static str);

const ACCOUNT_SHAPES: &[Shape] =
    &[("2020-12-06", "sp ss srt st se sip spr sv ses"), ("2015-04-05", "sp ss srt st se sip spr sv")];
const BLOB: &[Shape] = &[
    ("2020-12-06", "sp st se res si sip spr sv sr snap ses rscc rscd rsce rscl rsct"),
    ("2018-11-09", "sp st se res si sip spr sv sr snap rscc rscd rsce rscl rsct"),
    ("2015-04-05", "sp st se res si sip spr sv rscc rscd rsce rscl rsct"),
    ("2013-08-15", "sp st se res si sv rscc rscd rsce rscl rsct"),
    ("2012-02-12", "sp st se res si sv"),
];
const FILE: &[Shape] = &[
    ("2015-04-05", "sp st se res si sip spr sv rscc rscd rsce rscl rsct"),
    ("2015-02-21", "sp st se res si sv rscc rscd rsce rscl rsct"),
];
const QUEUE: &[Shape] = &[("2015-04-05", "sp st se res si sip spr sv"), ("2012-02-12", "sp st se res si sv")];
const TABLE: &[Shape] = &[
    ("2015-04-05", "sp st se res si sip spr sv spk srk epk erk"),
    ("2012-02-12", "sp st se res si sv spk srk epk erk"),
];
const DELEGATED_BLOB: &[Shape] = &[
    (
        "2026-04-06",
        "sp st se res skoid sktid skt ske sks skv saoid suoid scid skdutid sduoid sip spr sv sr snap ses SRH SRQ rscc rscd rsce rscl rsct",
    ),
    (
        "2025-07-05",
        "sp st se res skoid sktid skt ske sks skv saoid suoid scid skdutid sduoid sip spr sv sr snap ses rscc rscd rsce rscl rsct",
    ),
    (
        "2020-12-06",
        "sp st se res skoid sktid skt ske sks skv saoid suoid scid sip spr sv sr snap ses rscc rscd rsce rscl rsct",
    ),
    (
        "2020-02-10",
        "sp st se res skoid sktid skt ske sks skv saoid suoid scid sip spr sv sr snap rscc rscd rsce rscl rsct",
    ),
    ("2018-11-09", "sp st se res skoid sktid skt ske sks skv sip spr sv sr snap rscc rscd rsce rscl rsct"),
];
const DELEGATED_QUEUE: &[Shape] =
    &[("2025-07-05", "sp st se res skoid sktid skt ske sks skv skdutid sduoid sip spr sv")];
const DELEGATED_FILE: &[Shape] =
    &[("2025-07-05", "sp st se res skoid sktid skt ske sks skv skdutid sduoid sip spr sv rscc rscd rsce rscl rsct")];

fn shapes(kind: Kind, service: Service) -> &'static [Shape] {
    match (kind, service) {
        (Kind::Account, _) => ACCOUNT_SHAPES,
        (Kind::Service, Service::Blob) => BLOB,
        (Kind::Service, Service::File) => FILE,
        (Kind::Service, Service::Queue) => QUEUE,
        (Kind::Service, Service::Table) => TABLE,
        (Kind::UserDelegation, Service::Blob) => DELEGATED_BLOB,
        (Kind::UserDelegation, Service::Queue) => DELEGATED_QUEUE,
        (Kind::UserDelegation, Service::File) => DELEGATED_FILE,
        (Kind::UserDelegation, Service::Table) => &[],
    }
}

/// The versions at which the fields change.
pub fn versions(kind: Kind, service: Service) -> impl Iterator<Item = &'static str> {
    shapes(kind, service).iter().map(|(version, _)| *version)
}

/// The fields that a token of this version signs; `None` where the version has no such token.
pub fn fields(kind: Kind, service: Service, version: &str) -> Option<impl Iterator<Item = &'static str>> {
    let shape = shapes(kind, service).iter().find(|(from, _)| version >= *from)?;
    Some(shape.1.split(' '))
}

/// What is signed. `name` is the decoded name of the resource; `header` gives the request's headers for `srh`.
pub fn string_to_sign(
    kind: Kind,
    service: Service,
    name: &str,
    query: &BTreeMap<String, String>,
    header: impl Fn(&str) -> String,
) -> Option<String> {
    let field = |name: &str| query.get(name).cloned().unwrap_or_default();
    let version = field("sv");
    let mut lines: Vec<String> = Vec::new();
    for wanted in fields(kind, service, &version)? {
        lines.push(match wanted {
            "res" if version.as_str() >= "2015-02-21" => format!("/{}/{ACCOUNT}/{name}", service.name()),
            "res" => format!("/{ACCOUNT}/{name}"),
            "snap" if field("sr") == "bs" => field("snapshot"),
            "snap" if field("sr") == "bv" => field("versionid"),
            "snap" => String::new(),
            "SRH" => {
                field("srh").split(',').filter(|n| !n.is_empty()).map(|n| format!("{n}:{}\n", header(n))).collect()
            }
            "SRQ" => field("srq").split(',').filter(|n| !n.is_empty()).map(|n| format!("\n{n}:{}", field(n))).collect(),
            other => field(other),
        });
    }
    Some(match kind {
        Kind::Account => format!("{ACCOUNT}\n{}\n", lines.join("\n")),
        _ => lines.join("\n"),
    })
}

pub fn signature(key: &str, string_to_sign: &str) -> String {
    sign(key, string_to_sign)
}
