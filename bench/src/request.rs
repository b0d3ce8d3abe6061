//! Requests as bytes, signed before the clock runs.
//!
//! The load generator shares two cores with the server it measures, so everything that can be done beforehand is:
//! a read is one buffer sent again and again, a write is a signed head made in advance and a body all writes share.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub const ACCOUNT: &str = "devstoreaccount1";
pub const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const VERSION: &str = "2021-12-02";

/// What to ask for. `path` follows the account and is already encoded; `query` is as it is signed, sorted by name.
pub struct Ask<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub query: &'a [(&'a str, &'a str)],
    /// Headers that begin with `x-ms-`, sorted by name, without date and version.
    pub headers: &'a [(&'a str, &'a str)],
    pub if_match: &'a str,
    pub if_none_match: &'a str,
    pub body_bytes: usize,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Ask { method: "GET", path: "", query: &[], headers: &[], if_match: "", if_none_match: "", body_bytes: 0 }
    }
}

/// Signs requests for one server with the development account's key.
#[derive(Clone)]
pub struct Signer {
    pub host: String,
    mac: Hmac<Sha256>,
    date: String,
}

impl Signer {
    /// The date is fixed here: requests stay valid for a quarter of an hour, far longer than a round.
    pub fn new(port: u16) -> Self {
        let key = BASE64.decode(KEY).expect("the published key is Base64");
        Signer {
            host: format!("127.0.0.1:{port}"),
            mac: Hmac::new_from_slice(&key).expect("HMAC takes a key of any length"),
            date: http_date(SystemTime::now()),
        }
    }

    /// The head of the request, up to and with the empty line.
    pub fn head(&self, ask: &Ask) -> Vec<u8> {
        let Ask { method, path, query, headers, if_match, if_none_match, body_bytes } = ask;
        let length = if *body_bytes == 0 { String::new() } else { body_bytes.to_string() };
        let mut lines: Vec<(&str, &str)> = headers.to_vec();
        lines.push(("x-ms-date", &self.date));
        lines.push(("x-ms-version", VERSION));
        lines.sort();

        let mut signed = format!("{method}\n\n\n{length}\n\n\n\n\n{if_match}\n{if_none_match}\n\n\n");
        for (name, value) in &lines {
            signed += &format!("{name}:{value}\n");
        }
        signed += &format!("/{ACCOUNT}/{ACCOUNT}{path}");
        for (name, value) in query.iter() {
            signed += &format!("\n{name}:{value}");
        }
        let mut mac = self.mac.clone();
        mac.update(signed.as_bytes());
        let signature = BASE64.encode(mac.finalize().into_bytes());

        let mut head = format!("{method} /{ACCOUNT}{path}");
        for (n, (name, value)) in query.iter().enumerate() {
            let value = value.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
            head += &format!("{}{name}={value}", if n == 0 { '?' } else { '&' });
        }
        head += &format!(" HTTP/1.1\r\nHost: {}\r\nAuthorization: SharedKey {ACCOUNT}:{signature}\r\n", self.host);
        for (name, value) in &lines {
            head += &format!("{name}: {value}\r\n");
        }
        for (name, value) in [("If-Match", if_match), ("If-None-Match", if_none_match)] {
            if !value.is_empty() {
                head += &format!("{name}: {value}\r\n");
            }
        }
        if *body_bytes > 0 || *method == "PUT" {
            head += &format!("Content-Length: {body_bytes}\r\n");
        }
        head += "\r\n";
        head.into_bytes()
    }

    pub fn put_blob(&self, path: &str, if_none_match: &str, body_bytes: usize) -> Vec<u8> {
        self.head(&Ask {
            method: "PUT",
            path,
            headers: &[("x-ms-blob-type", "BlockBlob")],
            if_none_match,
            body_bytes,
            ..Ask::default()
        })
    }

    /// A Put Blob of 1 KiB on what the blob was once.
    pub fn put_stale(&self, path: &str) -> Vec<u8> {
        self.head(&Ask {
            method: "PUT",
            path,
            headers: &[("x-ms-blob-type", "BlockBlob")],
            if_match: "\"0x8D6D418B6C08663\"",
            body_bytes: 1024,
            ..Ask::default()
        })
    }

    /// Acquires an infinite lease under this id, or renews it.
    pub fn lease(&self, path: &str, action: &str, id: &str) -> Vec<u8> {
        let headers: &[(&str, &str)] = match action {
            "acquire" => {
                &[("x-ms-lease-action", action), ("x-ms-lease-duration", "-1"), ("x-ms-proposed-lease-id", id)]
            }
            _ => &[("x-ms-lease-action", action), ("x-ms-lease-id", id)],
        };
        self.head(&Ask { method: "PUT", path, query: &[("comp", "lease")], headers, ..Ask::default() })
    }

    pub fn put_block(&self, path: &str, id: &str, body_bytes: usize) -> Vec<u8> {
        let query = [("blockid", id), ("comp", "block")];
        self.head(&Ask { method: "PUT", path, query: &query, body_bytes, ..Ask::default() })
    }

    pub fn put_block_list(&self, path: &str, body_bytes: usize) -> Vec<u8> {
        self.head(&Ask { method: "PUT", path, query: &[("comp", "blocklist")], body_bytes, ..Ask::default() })
    }

    pub fn get_blob(&self, path: &str) -> Vec<u8> {
        self.head(&Ask { path, ..Ask::default() })
    }

    pub fn create_container(&self, path: &str) -> Vec<u8> {
        self.head(&Ask { method: "PUT", path, query: &[("restype", "container")], ..Ask::default() })
    }

    pub fn list_blobs(&self, path: &str, max_results: &str) -> Vec<u8> {
        let query = [("comp", "list"), ("maxresults", max_results), ("restype", "container")];
        self.head(&Ask { path, query: &query, ..Ask::default() })
    }

    pub fn create_queue(&self, path: &str) -> Vec<u8> {
        self.head(&Ask { method: "PUT", path, ..Ask::default() })
    }

    pub fn put_message(&self, queue: &str, body_bytes: usize) -> Vec<u8> {
        self.head(&Ask { method: "POST", path: &format!("{queue}/messages"), body_bytes, ..Ask::default() })
    }

    pub fn get_message(&self, queue: &str) -> Vec<u8> {
        self.head(&Ask { path: &format!("{queue}/messages"), ..Ask::default() })
    }

    pub fn delete_message(&self, queue: &str, id: &str, receipt: &str) -> Vec<u8> {
        let path = format!("{queue}/messages/{id}");
        self.head(&Ask { method: "DELETE", path: &path, query: &[("popreceipt", receipt)], ..Ask::default() })
    }

    /// Makes a received message visible again.
    pub fn show_message(&self, queue: &str, id: &str, receipt: &str) -> Vec<u8> {
        let query = [("popreceipt", receipt), ("visibilitytimeout", "0")];
        self.head(&Ask { method: "PUT", path: &format!("{queue}/messages/{id}"), query: &query, ..Ask::default() })
    }

    /// A whole request to the Table service, which signs less: the content type, the date and the path. `headers` are lines.
    pub fn table(
        &self,
        method: &str,
        path: &str,
        query: &str,
        headers: &str,
        content_type: &str,
        body: &str,
    ) -> Vec<u8> {
        let mut mac = self.mac.clone();
        mac.update(format!("{method}\n\n{content_type}\n{}\n/{ACCOUNT}/{ACCOUNT}{path}", self.date).as_bytes());
        let signature = BASE64.encode(mac.finalize().into_bytes());
        let mut head = format!("{method} /{ACCOUNT}{path}{query} HTTP/1.1\r\nHost: {}\r\n", self.host);
        head += &format!("Authorization: SharedKey {ACCOUNT}:{signature}\r\nx-ms-date: {}\r\n", self.date);
        head += &format!("x-ms-version: 2019-02-02\r\nAccept: application/json;odata=nometadata\r\n{headers}");
        if !content_type.is_empty() {
            head += &format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len());
        }
        format!("{head}\r\n{body}").into_bytes()
    }

    pub fn list_containers(&self) -> Vec<u8> {
        self.head(&Ask { path: "/", query: &[("comp", "list")], ..Ask::default() })
    }
}

/// RFC 1123, as `x-ms-date` wants it.
fn http_date(at: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = at.duration_since(UNIX_EPOCH).expect("the clock is past 1970").as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize - 1],
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Today, as `2026-01-31`.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970").as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// Year, month and day of a day counted from 1970 (proleptic Gregorian calendar, years that begin in March).
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let era = z / 146_097;
    let of_era = z % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_read_as_rfc_1123() {
        let at = |seconds| http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(at(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(at(1_435_361_952), "Fri, 26 Jun 2015 23:39:12 GMT");
    }

    /// A known signature of the development key: a Put Blob with If-None-Match, save for its content type.
    #[test]
    fn signature_covers_what_is_sent() {
        let mut signer = Signer::new(10_000);
        signer.date = "Fri, 26 Jun 2015 23:39:12 GMT".into();
        let head = String::from_utf8(signer.list_blobs("/cont", "5")).expect("heads are ASCII");
        assert!(head.starts_with("GET /devstoreaccount1/cont?comp=list&maxresults=5&restype=container HTTP/1.1\r\n"));
        assert!(head.ends_with("\r\n\r\n"));
        let put = String::from_utf8(signer.put_blob("/c/b", "*", 11)).expect("heads are ASCII");
        assert!(put.contains("If-None-Match: *\r\n") && put.contains("Content-Length: 11\r\n"));
    }
}
