//! Files in shares, over REST. No request of this service replaces a file by another in one step, but a rename: so a file is
//! made under a name of its own, written range by range, and renamed to where it belongs, whatever was there before.

use crate::client::Client;
use crate::store::{Answer, Condition, Found, Listed, Store};

/// The service takes no more in one request.
const RANGE_BYTES_MAX: usize = 1 << 20;
/// Files on their way; a cut may leave any of them, in any state.
const UNDER_WAY: &str = "under-way-";

pub struct Files {
    client: Client,
}

impl Files {
    pub fn new(port: u16) -> Files {
        Files { client: Client::new(port) }
    }

    fn write(&mut self, path: &str, operation: usize, body: &[u8]) -> Result<(), Answer> {
        let (operation, bytes) = (operation.to_string(), body.len().to_string());
        let headers = [
            ("x-ms-type", "file"),
            ("x-ms-content-length", bytes.as_str()),
            ("x-ms-meta-operation", operation.as_str()),
        ];
        self.client.attempt("PUT", path, &[], &headers, &[])?;
        for (number, range) in body.chunks(RANGE_BYTES_MAX).enumerate() {
            let first = number * RANGE_BYTES_MAX;
            put_range(&mut self.client, path, first, range)?;
        }
        Ok(())
    }
}

pub fn put_range(client: &mut Client, path: &str, first: usize, bytes: &[u8]) -> Result<(), Answer> {
    let range = format!("bytes={first}-{}", first + bytes.len() - 1);
    client.attempt("PUT", path, &[("comp", "range")], &[("x-ms-write", "update"), ("x-ms-range", &range)], bytes)?;
    Ok(())
}

/// One directory holds them all.
fn path(share: &str, name: &str) -> String {
    format!("/{share}/{}", name.replace('/', "+"))
}

impl Store for Files {
    fn create_container(&mut self, share: &str) -> Answer {
        self.client.change("PUT", &format!("/{share}"), &[("restype", "share")], &[], &[])
    }

    fn delete_container(&mut self, share: &str) -> Answer {
        self.client.change("DELETE", &format!("/{share}"), &[("restype", "share")], &[], &[])
    }

    fn put(&mut self, share: &str, name: &str, operation: usize, body: &[u8], condition: &Condition) -> Answer {
        let source = format!("/{share}/{UNDER_WAY}{operation}");
        if let Err(answer) = self.write(&source, operation, body) {
            return answer;
        }
        let replaces = match condition {
            Condition::None => "true",
            Condition::Absent => "false",
            Condition::Is(_) => unreachable!("files know no ETags in conditions"),
        };
        let from = self.client.url(&source);
        let headers = [("x-ms-file-rename-source", from.as_str()), ("x-ms-file-rename-replace-if-exists", replaces)];
        let answer = self.client.change("PUT", &path(share, name), &[("comp", "rename")], &headers, &[]);
        if matches!(answer, Answer::Refused { .. }) {
            // What is not wanted any more; if it stays, it is only left over.
            let _ = self.client.attempt("DELETE", &source, &[], &[], &[]);
        }
        answer
    }

    fn delete(&mut self, share: &str, name: &str, _condition: &Condition) -> Answer {
        self.client.change("DELETE", &path(share, name), &[], &[], &[])
    }

    fn get(&mut self, share: &str, name: &str) -> Result<Option<Found>, String> {
        self.client.find(&path(share, name), &[])
    }

    fn list_containers(&mut self) -> Result<Vec<Listed>, String> {
        self.client.walk("/", &[("comp", "list")], "Share")
    }

    fn list(&mut self, share: &str) -> Result<Vec<Listed>, String> {
        let query = [("restype", "directory"), ("comp", "list"), ("include", "Etag")];
        let listed = self.client.walk(&format!("/{share}"), &query, "File")?.into_iter();
        let listed = listed.filter(|file| !file.name.starts_with(UNDER_WAY));
        Ok(listed.map(|file| Listed { name: file.name.replace('+', "/"), ..file }).collect())
    }
}
