//! Objects that are changed piece by piece, each as a container of its pieces: the slots of a page blob or of a file, which are
//! written over and cleared in place, and the blocks of an append blob. Each piece begins with a line that says its name, its
//! operation and its length.
//!
//! An object is made once and never deleted. All of them lie in one container or share, which nobody else sees.

use crate::client::Client;
use crate::files::put_range;
use crate::store::{Answer, Condition, Found, Listed, Store};
use std::collections::BTreeMap;

const BOX: &str = "objects";
const HEAD_BYTES: usize = 64;
pub const SLOT_BYTES: usize = 32 * 1024;
pub const SLOTS: usize = 24;
const OBJECT_BYTES: usize = SLOTS * SLOT_BYTES;
/// Objects have no ETag that would stay theirs; there is one creation of each.
const ETAG: &str = "made once";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pages,
    Blocks,
    File,
}

pub struct Objects {
    blobs: Client,
    files: Client,
    /// What the last look at an object showed, until this connection changes something.
    looked: BTreeMap<String, BTreeMap<String, Found>>,
}

fn kind_of(object: &str) -> Option<Kind> {
    let kinds = [("pages", Kind::Pages), ("append", Kind::Blocks), ("file", Kind::File)];
    kinds.into_iter().find(|(prefix, _)| object.starts_with(prefix)).map(|(_, kind)| kind)
}

fn kind(object: &str) -> Kind {
    kind_of(object).expect("whose names are asked for here was asked before")
}

fn path(object: &str) -> String {
    format!("/{BOX}/{object}")
}

/// The slot of a name that ends with its number.
fn slot(name: &str) -> usize {
    let number = name.rsplit('s').next().and_then(|number| number.parse::<usize>().ok()).expect("a name of a slot");
    assert!(number < SLOTS, "no such slot: {name}");
    number * SLOT_BYTES
}

/// A piece as it is stored, without what fills up a slot.
fn piece(name: &str, operation: usize, body: &[u8]) -> Vec<u8> {
    let mut piece = format!("{name} {operation} {}", body.len()).into_bytes();
    assert!(piece.len() < HEAD_BYTES, "a short name");
    piece.resize(HEAD_BYTES - 1, b' ');
    piece.push(b'\n');
    piece.extend_from_slice(body);
    piece
}

/// The piece at the beginning of these bytes, with its name and its own length. A head that cannot be read is nobody's piece, and
/// so damage: only zeros are nothing.
fn parse(bytes: &[u8]) -> Result<Option<(String, Found, usize)>, String> {
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    if head.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let bad = || format!("not the head of a piece: {:?}", String::from_utf8_lossy(head));
    let words: Vec<&str> = std::str::from_utf8(head).map_err(|_| bad())?.split_whitespace().collect();
    let [name, operation, length] = words[..] else { return Err(bad()) };
    let (Ok(operation), Ok(length)) = (operation.parse::<usize>(), length.parse::<usize>()) else { return Err(bad()) };
    let body = bytes.get(HEAD_BYTES..HEAD_BYTES + length).ok_or_else(bad)?.to_vec();
    Ok(Some((name.to_string(), Found { etag: etag(operation), operation: Some(operation), body }, HEAD_BYTES + length)))
}

fn etag(operation: usize) -> String {
    format!("piece {operation}")
}

/// All pieces of an object.
fn pieces(kind: Kind, bytes: &[u8]) -> Result<BTreeMap<String, Found>, String> {
    let mut found = BTreeMap::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = if kind == Kind::Blocks { bytes.len() } else { bytes.len().min(at + SLOT_BYTES) };
        match parse(&bytes[at..end])? {
            Some((name, piece, length)) => {
                if kind != Kind::Blocks && slot(&name) != at {
                    return Err(format!("{name} lies at {at}"));
                }
                if found.insert(name.clone(), piece).is_some() {
                    return Err(format!("{name} is there twice"));
                }
                at = if kind == Kind::Blocks { at + length } else { end };
            }
            None if kind == Kind::Blocks => return Err(format!("zeros at {at} of {}", bytes.len())),
            None => at = end,
        }
    }
    Ok(found)
}

impl Objects {
    pub fn new(blobs: u16, files: u16) -> Objects {
        Objects { blobs: Client::new(blobs), files: Client::new(files), looked: BTreeMap::new() }
    }

    pub fn holds(container: &str) -> bool {
        kind_of(container).is_some()
    }

    /// What all objects lie in is none of the workload's.
    pub fn is_box(container: &str) -> bool {
        container == BOX
    }

    fn look(&mut self, object: &str) -> Result<&BTreeMap<String, Found>, String> {
        if !self.looked.contains_key(object) {
            let client = if kind(object) == Kind::File { &mut self.files } else { &mut self.blobs };
            let bytes = client.find(&path(object), &[])?.map(|found| found.body).unwrap_or_default();
            let pieces = pieces(kind(object), &bytes).map_err(|damage| format!("get {object}: {damage}"))?;
            self.looked.insert(object.to_string(), pieces);
        }
        Ok(&self.looked[object])
    }

    fn write(&mut self, object: &str, name: &str, bytes: Option<Vec<u8>>) -> Result<(), Answer> {
        let (path, first) = (path(object), slot(name));
        let range = format!("bytes={first}-{}", first + SLOT_BYTES - 1);
        match (kind(object), bytes) {
            (Kind::File, Some(bytes)) => put_range(&mut self.files, &path, first, &bytes)?,
            (Kind::File, None) => {
                let headers = [("x-ms-write", "clear"), ("x-ms-range", range.as_str())];
                self.files.attempt("PUT", &path, &[("comp", "range")], &headers, &[])?;
            }
            (_, bytes) => {
                let deed = if bytes.is_some() { "update" } else { "clear" };
                let headers = [("x-ms-page-write", deed), ("x-ms-range", range.as_str())];
                let body = bytes.unwrap_or_default();
                self.blobs.attempt("PUT", &path, &[("comp", "page")], &headers, &body)?;
            }
        }
        Ok(())
    }
}

fn done(outcome: Result<(), Answer>, etag: String) -> Answer {
    outcome.map_or_else(|answer| answer, |()| Answer::Done { etag })
}

impl Store for Objects {
    fn create_container(&mut self, object: &str) -> Answer {
        // There after the first of them.
        self.blobs.change("PUT", &format!("/{BOX}"), &[("restype", "container")], &[], &[]);
        self.files.change("PUT", &format!("/{BOX}"), &[("restype", "share")], &[], &[]);
        let (path, bytes) = (path(object), OBJECT_BYTES.to_string());
        let made = match kind(object) {
            Kind::File => {
                let headers = [("x-ms-type", "file"), ("x-ms-content-length", bytes.as_str())];
                self.files.attempt("PUT", &path, &[], &headers, &[])
            }
            Kind::Pages => {
                let headers = [("x-ms-blob-type", "PageBlob"), ("x-ms-blob-content-length", bytes.as_str())];
                self.blobs.attempt("PUT", &path, &[], &headers, &[])
            }
            Kind::Blocks => self.blobs.attempt("PUT", &path, &[], &[("x-ms-blob-type", "AppendBlob")], &[]),
        };
        done(made.map(drop), ETAG.into())
    }

    fn delete_container(&mut self, object: &str) -> Answer {
        unreachable!("{object} stays for good")
    }

    fn put(&mut self, object: &str, name: &str, operation: usize, body: &[u8], _condition: &Condition) -> Answer {
        self.looked.clear();
        let mut piece = piece(name, operation, body);
        let outcome = if kind(object) == Kind::Blocks {
            self.blobs.attempt("PUT", &path(object), &[("comp", "appendblock")], &[], &piece).map(drop)
        } else {
            piece.resize(SLOT_BYTES, 0);
            self.write(object, name, Some(piece))
        };
        done(outcome, etag(operation))
    }

    fn delete(&mut self, object: &str, name: &str, _condition: &Condition) -> Answer {
        self.looked.clear();
        done(self.write(object, name, None), String::new())
    }

    fn get(&mut self, object: &str, name: &str) -> Result<Option<Found>, String> {
        Ok(self.look(object)?.get(name).cloned())
    }

    fn list_containers(&mut self) -> Result<Vec<Listed>, String> {
        let missing = |listed: Result<Vec<Listed>, String>| match listed {
            Err(error) if error.contains(": 404") => Ok(Vec::new()), // before the first of them is made
            listed => listed,
        };
        let path = format!("/{BOX}");
        let mut listed = missing(self.blobs.walk(&path, &[("restype", "container"), ("comp", "list")], "Blob"))?;
        listed.extend(missing(self.files.walk(&path, &[("restype", "directory"), ("comp", "list")], "File"))?);
        Ok(listed.into_iter().map(|object| Listed { etag: ETAG.into(), bytes: None, ..object }).collect())
    }

    fn list(&mut self, object: &str) -> Result<Vec<Listed>, String> {
        self.looked.clear();
        let listed = |(name, found): (&String, &Found)| Listed {
            name: name.clone(),
            etag: found.etag.clone(),
            bytes: Some(found.body.len() as u64),
        };
        Ok(self.look(object)?.iter().map(listed).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_found_as_they_were_written_and_damage_is_told() {
        let mut blob = vec![0; 3 * SLOT_BYTES];
        let second = piece("w0s1", 7, b"content");
        blob[SLOT_BYTES..SLOT_BYTES + second.len()].copy_from_slice(&second);
        let found = pieces(Kind::Pages, &blob).expect("sound");
        assert_eq!(found.len(), 1);
        assert_eq!((found["w0s1"].operation, found["w0s1"].body.as_slice()), (Some(7), &b"content"[..]));

        blob[SLOT_BYTES] = 0xff;
        assert!(pieces(Kind::Pages, &blob).is_err(), "a head that cannot be read");
        blob[SLOT_BYTES..SLOT_BYTES + 64].fill(0);
        assert!(pieces(Kind::Pages, &blob).expect("only zeros are nothing").is_empty());
        blob[..second.len()].copy_from_slice(&second);
        assert!(pieces(Kind::Pages, &blob).is_err(), "a piece in another's slot");

        let log = [piece("a", 1, b"x"), piece("b", 2, b"")].concat();
        assert_eq!(pieces(Kind::Blocks, &log).expect("sound").len(), 2);
        assert!(pieces(Kind::Blocks, &log[..log.len() - 1]).is_err(), "a torn end");
        assert!(pieces(Kind::Blocks, &[log.clone(), log.clone()].concat()).is_err(), "an append that happened twice");
        assert!(pieces(Kind::Blocks, &[log, vec![0; 100]].concat()).is_err(), "zeros between blocks");
    }
}
