//! Blobs in containers: put whole or as a list of blocks, in turn. A name with a moment behind it is a snapshot.

use crate::client::Client;
use crate::store::{self, Answer, Condition, Found, Listed, Store};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Into so many blocks a body is cut at most.
const BLOCKS: usize = 3;

pub struct Blobs {
    client: Client,
}

impl Blobs {
    pub fn new(port: u16) -> Blobs {
        Blobs { client: Client::new(port) }
    }

    /// Each block is staged by itself, then the list of them takes the name at once.
    fn put_blocks(&mut self, path: &str, operation: usize, body: &[u8], headers: &[(&str, &str)]) -> Answer {
        let mut list = String::from("<BlockList>");
        for (number, block) in body.chunks(body.len().div_ceil(BLOCKS)).enumerate() {
            // Named after the operation: another writer of this name stages blocks of its own.
            let id = BASE64.encode(format!("{operation:08}-{number}"));
            let query = [("comp", "block"), ("blockid", id.as_str())];
            if let Err(answer) = self.client.attempt("PUT", path, &query, &[], block) {
                return answer;
            }
            list += &format!("<Latest>{id}</Latest>");
        }
        list += "</BlockList>";
        self.client.change("PUT", path, &[("comp", "blocklist")], headers, list.as_bytes())
    }
}

impl Store for Blobs {
    fn create_container(&mut self, container: &str) -> Answer {
        self.client.change("PUT", &format!("/{container}"), &[("restype", "container")], &[], &[])
    }

    fn delete_container(&mut self, container: &str) -> Answer {
        self.client.change("DELETE", &format!("/{container}"), &[("restype", "container")], &[], &[])
    }

    fn put(&mut self, container: &str, name: &str, operation: usize, body: &[u8], condition: &Condition) -> Answer {
        let (path, number) = (format!("/{container}/{name}"), operation.to_string());
        let mut headers = vec![("x-ms-meta-operation", number.as_str())];
        headers.extend(condition_header(condition));
        if operation.is_multiple_of(3) && !body.is_empty() {
            return self.put_blocks(&path, operation, body, &headers);
        }
        headers.push(("x-ms-blob-type", "BlockBlob"));
        self.client.change("PUT", &path, &[], &headers, body)
    }

    fn delete(&mut self, container: &str, name: &str, condition: &Condition) -> Answer {
        let mut headers = vec![("x-ms-delete-snapshots", "include")];
        headers.extend(condition_header(condition));
        self.client.change("DELETE", &format!("/{container}/{name}"), &[], &headers, &[])
    }

    fn get(&mut self, container: &str, name: &str) -> Result<Option<Found>, String> {
        match store::snapshot_parts(name) {
            // Asked for and never answered: its moment is not known.
            Some((_, "")) => Ok(None),
            Some((base, moment)) => self.client.find(&format!("/{container}/{base}"), &[("snapshot", moment)]),
            None => self.client.find(&format!("/{container}/{name}"), &[]),
        }
    }

    fn list_containers(&mut self) -> Result<Vec<Listed>, String> {
        self.client.walk("/", &[("comp", "list")], "Container")
    }

    fn list(&mut self, container: &str) -> Result<Vec<Listed>, String> {
        let query = [("restype", "container"), ("comp", "list"), ("include", "snapshots")];
        self.client.walk(&format!("/{container}"), &query, "Blob")
    }

    fn snapshot(&mut self, container: &str, name: &str) -> Option<Result<String, Answer>> {
        let taken = self.client.attempt("PUT", &format!("/{container}/{name}"), &[("comp", "snapshot")], &[], &[]);
        Some(taken.map(|response| response.header("x-ms-snapshot").unwrap_or("").to_string()))
    }
}

fn condition_header(condition: &Condition) -> Option<(&str, &str)> {
    match condition {
        Condition::None => None,
        Condition::Absent => Some(("if-none-match", "*")),
        Condition::Is(etag) => Some(("if-match", etag)),
    }
}
