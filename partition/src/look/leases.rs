//! Who holds which lease: containers and their blobs, then shares and their files.
//!
//! Leases are parts of what they are on, so whoever wants all of them looks at everything there is; a call looks at so many records. A
//! lease on blocks that are no blob yet is not looked for, nor one on a snapshot of a share.

use std::collections::HashMap;

use bytes::Bytes;
use contract::Service;
use contract::limits::FILE_PATH_DEPTH_MAX;
use contract::names::AccountName;
use engine::{Family, Fault, GroupId, GroupRange, Page, ScanStart};
use env::Timestamp;

use super::{pack, unpack};
use crate::execute::{Failure, Shell};
use crate::file::versions::Versioned;
use crate::key::{self, container, directory, share};
use crate::lease::{Lease, LeaseState, seconds_left};
use crate::record::{BlobHead, ContainerHead, Entry, FileId, Node, ShareHead, corrupt};

/// Records looked at in one call, give or take a scan.
const RECORDS_MAX: usize = 5000;
/// Names of a share that are gone through for the paths of what is leased in it.
const NAMES_MAX: usize = 20_000;
const SCAN_ROWS: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leased {
    Container,
    Blob,
    Share,
    File,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldLease {
    pub on: Leased,
    /// With its container or share.
    pub name: String,
    pub id: String,
    pub is_breaking: bool,
    /// `None` for one without end.
    pub seconds_left: Option<u64>,
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Leases {
    pub leases: Vec<HeldLease>,
    pub next: Option<String>,
    pub looked_at: usize,
}

/// A record of a group: its partition and its key.
type Position = (Bytes, Bytes);

/// Where a look goes on: in this service's directory, from this name on, and in what it names after this record.
struct Spot {
    service: Service,
    name: Vec<u8>,
    inside: Option<Position>,
}

impl Spot {
    fn marker(&self) -> String {
        let (has, partition, key) = match &self.inside {
            Some((partition, key)) => (&b"\x01"[..], partition.as_ref(), key.as_ref()),
            None => (&b""[..], &b""[..], &b""[..]),
        };
        pack(&[&[self.service.letter() as u8], &self.name, has, partition, key])
    }

    fn read(marker: &str) -> Option<Spot> {
        let [service, name, has, partition, key] = unpack(marker)?;
        let service = match service.as_slice() {
            b"b" => Service::Blob,
            b"f" => Service::File,
            _ => return None,
        };
        let inside = (!has.is_empty()).then(|| (Bytes::from(partition), Bytes::from(key)));
        Some(Spot { service, name, inside })
    }
}

/// `None` if the marker is none of ours.
pub async fn leases(shell: &Shell, account: &AccountName, marker: Option<&str>) -> Result<Option<Leases>, Failure> {
    let start = |service| Spot { service, name: Vec::new(), inside: None };
    let Some(mut spot) = marker.map_or_else(|| Some(start(Service::Blob)), Spot::read) else { return Ok(None) };
    let mut look = Look { shell, account, now: shell.clock.now(), found: Leases::default() };
    if spot.service == Service::Blob {
        if let Some(stopped) = look.through(spot).await? {
            look.found.next = Some(stopped.marker());
            return Ok(Some(look.found));
        }
        spot = start(Service::File);
    }
    look.found.next = look.through(spot).await?.map(|stopped| stopped.marker());
    Ok(Some(look.found))
}

struct Look<'a> {
    shell: &'a Shell,
    account: &'a AccountName,
    now: Timestamp,
    found: Leases,
}

impl Look<'_> {
    async fn scan(&mut self, group: &GroupId, family: Family, start: ScanStart) -> Result<Page, Fault> {
        let range = GroupRange { group: group.clone(), family, start, before_partition: None };
        let page = self.shell.engine.scan(&range, SCAN_ROWS).await?;
        self.found.looked_at += page.rows.len();
        Ok(page)
    }

    fn is_tired(&self) -> bool {
        self.found.looked_at >= RECORDS_MAX
    }

    fn note(&mut self, on: Leased, name: String, lease: Option<&Lease>) {
        let state = LeaseState::of(lease, self.now);
        let Some(lease) = lease.filter(|_| state.is_locked()) else { return };
        self.found.leases.push(HeldLease {
            on,
            name,
            id: lease.id.as_str().to_string(),
            is_breaking: state == LeaseState::Breaking,
            seconds_left: seconds_left(lease, self.now),
        });
    }

    /// Through one service, from a spot on; where it stopped, if it is not at the end.
    async fn through(&mut self, spot: Spot) -> Result<Option<Spot>, Fault> {
        let Spot { service, name, mut inside } = spot;
        // What was begun may be gone by now; then what follows it is begun at its beginning.
        inside = inside.filter(|_| !name.is_empty());
        let begun_in = Bytes::from(name);
        let heads = key::directory_group(service, self.account);
        let mut start = ScanStart::AtPartition(begun_in.clone());
        loop {
            let page = self.scan(&heads, directory::HEAD, start).await?;
            let mut last = None;
            for row in page.rows {
                let name = String::from_utf8(row.partition.to_vec()).map_err(|_| corrupt("a name", &row.partition))?;
                let begun = inside.take().filter(|_| row.partition == begun_in);
                if self.is_tired() {
                    return Ok(Some(Spot { service, name: row.partition.to_vec(), inside: begun }));
                }
                let (on, lease, incarnation) = match service {
                    Service::File => {
                        let head = ShareHead::decode(&row.record.value)?;
                        (Leased::Share, head.lease, head.incarnation)
                    }
                    _ => {
                        let head = ContainerHead::decode(&row.record.value)?;
                        (Leased::Container, head.lease, head.incarnation)
                    }
                };
                // Of what was begun before this call its own lease was told then.
                if begun.is_none() {
                    self.note(on, name.clone(), lease.as_ref());
                }
                let group = key::contents_group(service, self.account, incarnation);
                let stopped = match service {
                    Service::File => self.files(&name, &group, begun).await?,
                    _ => self.blobs(&name, &group, begun).await?,
                };
                if stopped.is_some() {
                    return Ok(Some(Spot { service, name: row.partition.to_vec(), inside: stopped }));
                }
                last = Some((row.partition, row.key));
            }
            match last {
                Some((partition, key)) if page.more => start = ScanStart::After { partition, key },
                _ => return Ok(None),
            }
        }
    }

    async fn blobs(
        &mut self,
        container: &str,
        group: &GroupId,
        begun: Option<Position>,
    ) -> Result<Option<Position>, Fault> {
        let mut start = from(begun);
        loop {
            let page = self.scan(group, container::HEAD, start).await?;
            for row in &page.rows {
                let head = BlobHead::decode(&row.record.value)?;
                if head.lease.is_some() {
                    let name = format!("{container}/{}", String::from_utf8_lossy(&row.partition));
                    self.note(Leased::Blob, name, head.lease.as_ref());
                }
            }
            match page.rows.last() {
                Some(row) if page.more && self.is_tired() => return Ok(Some((row.partition.clone(), row.key.clone()))),
                Some(row) if page.more => {
                    start = ScanStart::After { partition: row.partition.clone(), key: row.key.clone() };
                }
                _ => return Ok(None),
            }
        }
    }

    async fn files(
        &mut self,
        share: &str,
        group: &GroupId,
        begun: Option<Position>,
    ) -> Result<Option<Position>, Fault> {
        let mut start = from(begun);
        let mut leased: Vec<(FileId, Lease)> = Vec::new();
        let stopped = loop {
            let page = self.scan(group, share::NODE, start).await?;
            let last = page.rows.last().map(|row| (row.partition.clone(), row.key.clone()));
            for row in page.rows {
                let node = Node::decode(&Versioned::read(row.record)?.value)?;
                leased.extend(node.lease.map(|lease| (node.id, lease)));
            }
            match last {
                Some(last) if page.more && self.is_tired() => break Some(last),
                Some((partition, key)) if page.more => start = ScanStart::After { partition, key },
                _ => break None,
            }
        };
        let now = self.now;
        leased.retain(|(_, lease)| LeaseState::of(Some(lease), now).is_locked());
        if !leased.is_empty() {
            let paths = self.paths(group, leased.iter().map(|(id, _)| *id).collect()).await?;
            for (id, lease) in leased {
                let path = paths.get(&id).cloned().unwrap_or_else(|| format!("(file {})", id.0));
                self.note(Leased::File, format!("{share}/{path}"), Some(&lease));
            }
        }
        Ok(stopped)
    }

    /// The paths of files: of their names and those of all directories, as far as the look goes.
    async fn paths(&mut self, group: &GroupId, wanted: Vec<FileId>) -> Result<HashMap<FileId, String>, Fault> {
        let mut names: HashMap<FileId, (FileId, String)> = HashMap::new();
        let mut start = from(None);
        let mut gone_through = 0;
        while gone_through < NAMES_MAX {
            let page = self.scan(group, share::ENTRY, start).await?;
            gone_through += page.rows.len();
            let last = page.rows.last().map(|row| (row.partition.clone(), row.key.clone()));
            for row in page.rows {
                let parent = row.key.get(..8).and_then(|id| id.try_into().ok()).map(u64::from_be_bytes);
                let parent = FileId(parent.ok_or_else(|| corrupt("a name's key in a share", &row.key))?);
                let entry = Entry::decode(&Versioned::read(row.record)?.value)?;
                if entry.is_directory || wanted.contains(&entry.id) {
                    names.insert(entry.id, (parent, entry.name));
                }
            }
            match last {
                Some((partition, key)) if page.more => start = ScanStart::After { partition, key },
                _ => break,
            }
        }
        let path = |id: FileId| {
            let (mut parts, mut at) = (Vec::new(), id);
            // No deeper than a path can be, whatever is stored.
            while at != FileId::ROOT && parts.len() <= FILE_PATH_DEPTH_MAX {
                let (parent, name) = names.get(&at)?;
                parts.push(name.as_str());
                at = *parent;
            }
            parts.reverse();
            Some(parts.join("/"))
        };
        Ok(wanted.into_iter().filter_map(|id| Some((id, path(id)?))).collect())
    }
}

fn from(begun: Option<Position>) -> ScanStart {
    match begun {
        Some((partition, key)) => ScanStart::After { partition, key },
        None => ScanStart::AtPartition(Bytes::new()),
    }
}
