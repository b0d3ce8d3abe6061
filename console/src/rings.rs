//! The last requests of each account, and the last that were refused because of what others did.
//!
//! Invariants:
//! 1. Memory is bounded: so many accounts, so many requests of each, so many bytes of each request.
//! 2. No signature and no key is kept, and a string to sign only of the newest.
//! 3. Numbers grow, also over restarts: whoever asks for what came after one misses nothing that is still kept.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use contract::operations::OperationId;
use contract::{ErrorCode, Service};
use env::{Id, TICKS_PER_SECOND, Timestamp};
use http::observe::{Seen, without_signature};
use serde_json::{Value, json};

/// What is kept of each account.
const REQUESTS_MAX: usize = 1000;
const REFUSED_MAX: usize = 500;
/// The newest requests whose strings to sign are kept, each string up to so many bytes.
const STRINGS_MAX: usize = 100;
const STRING_BYTES_MAX: usize = 4096;
/// Accounts that something is kept of; the one that was quiet for longest makes room.
const ACCOUNTS_MAX: usize = 64;

const PATH_BYTES_MAX: usize = 512;
const AGENT_BYTES_MAX: usize = 120;
const REASON_BYTES_MAX: usize = 400;
const METHOD_BYTES_MAX: usize = 16;

pub struct Rings {
    accounts: RwLock<HashMap<String, Arc<Mutex<Account>>>>,
    /// Numbers begin with the time of the start, in milliseconds: later than any of an earlier run.
    first: u64,
}

struct Account {
    next: u64,
    last: Timestamp,
    requests: VecDeque<Entry>,
    refused: VecDeque<Entry>,
    /// How many of `requests` may still have a string to sign.
    strings: VecDeque<u64>,
}

#[derive(Clone)]
struct Entry {
    number: u64,
    id: Id,
    began: Timestamp,
    ticks: u64,
    service: Service,
    operation: Option<OperationId>,
    status: u16,
    code: Option<&'static str>,
    client: Option<IpAddr>,
    bytes_in: u64,
    bytes_out: u64,
    /// Method, path, agent and reason in one piece, which is used again when the entry has to go; and where each ends.
    text: String,
    ends: [u16; 4],
    string_to_sign: Option<Box<str>>,
}

impl Rings {
    pub fn new(now: Timestamp) -> Rings {
        Rings { accounts: RwLock::default(), first: now.ticks() / (TICKS_PER_SECOND / 1000) }
    }

    /// Of an account of which nothing is kept yet, as a rule.
    fn account(&self, name: &str, now: Timestamp) -> Arc<Mutex<Account>> {
        let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        if accounts.len() >= ACCOUNTS_MAX && !accounts.contains_key(name) {
            let quiet = accounts.iter().min_by_key(|(_, account)| lock(account).last).map(|(name, _)| name.clone());
            quiet.and_then(|name| accounts.remove(&name));
        }
        let new = || {
            let (requests, refused, strings) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
            Arc::new(Mutex::new(Account { next: self.first, last: now, requests, refused, strings }))
        };
        accounts.entry(name.to_string()).or_insert_with(new).clone()
    }

    pub fn note(&self, seen: &Seen<'_>) {
        let Some(name) = seen.account else { return };
        if let Some(account) = self.accounts.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return lock(account).note(seen);
        }
        let account = self.account(name, seen.began);
        lock(&account).note(seen);
    }

    /// Those after a number, the oldest first; without one the last. And the number to go on from.
    pub fn list(&self, name: &str, after: Option<u64>, refused: bool, limit: usize) -> (u64, Vec<Value>) {
        let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
        let Some(account) = accounts.get(name).cloned() else {
            return (after.unwrap_or(0).max(self.first), Vec::new());
        };
        drop(accounts);
        let (newest, found) = lock(&account).list(after, refused, limit);
        let next = found.last().map_or(newest, |entry| entry.number);
        (next, found.iter().map(Entry::shown).collect())
    }
}

impl Account {
    fn note(&mut self, seen: &Seen<'_>) {
        self.next += 1;
        self.last = seen.began;
        let mut text = match self.requests.len() < REQUESTS_MAX {
            true => String::new(),
            false => self.requests.pop_front().map(|entry| entry.text).unwrap_or_default(),
        };
        let (number, ends) = (self.next, write_text(&mut text, seen));
        let string_to_sign = seen.string_to_sign.map(|string| cut(string, STRING_BYTES_MAX).into());
        if string_to_sign.is_some() {
            self.strings.push_back(number);
            if self.strings.len() > STRINGS_MAX {
                self.forget_string();
            }
        }
        let entry = Entry {
            number,
            id: seen.id,
            began: seen.began,
            ticks: seen.ticks,
            service: seen.service,
            operation: seen.operation,
            status: seen.status,
            code: seen.code.and_then(known),
            client: seen.client,
            bytes_in: seen.bytes_in,
            bytes_out: seen.bytes_out,
            text,
            ends,
            string_to_sign,
        };
        if is_refused(seen) {
            if self.refused.len() >= REFUSED_MAX {
                self.refused.pop_front();
            }
            self.refused.push_back(Entry { string_to_sign: None, ..entry.clone() });
        }
        self.requests.push_back(entry);
    }

    fn forget_string(&mut self) {
        let Some(number) = self.strings.pop_front() else { return };
        if let Ok(at) = self.requests.binary_search_by_key(&number, |entry| entry.number) {
            self.requests[at].string_to_sign = None;
        }
    }

    fn list(&self, after: Option<u64>, refused: bool, limit: usize) -> (u64, Vec<Entry>) {
        let ring = if refused { &self.refused } else { &self.requests };
        let found = match after {
            Some(after) => {
                let start = ring.partition_point(|entry| entry.number <= after);
                ring.iter().skip(start).take(limit).cloned().collect()
            }
            None => ring.iter().skip(ring.len().saturating_sub(limit)).cloned().collect(),
        };
        (self.next, found)
    }
}

/// Refused because of what others did or hold: a condition, a lease, a lock, an open file, a receipt that is not the newest.
pub fn is_refused(seen: &Seen<'_>) -> bool {
    let is_stale_receipt = |refusal: &contract::Refusal| {
        refusal.code == ErrorCode::MessageNotFound && refusal.reason.0.is_some()
            || refusal.code == ErrorCode::ClientCacheFlushDelay
    };
    matches!(seen.status, 409 | 412) || seen.refusal.is_some_and(is_stale_receipt)
}

/// Why, in the words of the place that decided it; else in those that the client was told.
fn put_reason(text: &mut String, seen: &Seen<'_>) {
    let Some(refusal) = seen.refusal else { return };
    if let Some(reason) = &refusal.reason.0 {
        return text.push_str(cut(reason, REASON_BYTES_MAX));
    }
    let start = text.len();
    text.push_str(cut(refusal.message(), REASON_BYTES_MAX));
    // A string to sign is shown on its own.
    let details =
        refusal.detail.iter().filter(|(_, value)| !(seen.string_to_sign.is_some() && value.contains("tring to sign")));
    for (name, value) in details {
        let left = REASON_BYTES_MAX.saturating_sub(text.len() - start + name.len() + 4);
        if left == 0 {
            break;
        }
        text.push_str(&format!(" {name}: {}", cut(value, left)));
    }
}

/// The same text, of the program's own: another gateway's answer brings its own.
fn known(code: &str) -> Option<&'static str> {
    ErrorCode::ALL.iter().map(|known| known.name()).find(|known| *known == code)
}

fn write_text(text: &mut String, seen: &Seen<'_>) -> [u16; 4] {
    text.clear();
    let mut ends = [0; 4];
    if let Some(head) = seen.head {
        let agent = head.header("user-agent").unwrap_or_default();
        text.reserve(METHOD_BYTES_MAX + head.target().len().min(PATH_BYTES_MAX) + agent.len().min(AGENT_BYTES_MAX));
        text.push_str(cut(head.method(), METHOD_BYTES_MAX));
        ends[0] = text.len() as u16;
        let target = head.target();
        match target.contains('?') || target.contains('%') {
            true => text.push_str(cut(&without_signature(target), PATH_BYTES_MAX)),
            false => text.push_str(cut(target, PATH_BYTES_MAX)),
        }
        ends[1] = text.len() as u16;
        text.push_str(cut(agent, AGENT_BYTES_MAX));
        ends[2] = text.len() as u16;
    }
    put_reason(text, seen);
    ends[3] = text.len() as u16;
    ends
}

impl Entry {
    fn part(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(usize::from(start)..usize::from(self.ends[at])).unwrap_or_default()
    }

    fn shown(&self) -> Value {
        let client = self.client.map(|client| client.to_string());
        let reason = Some(self.part(3)).filter(|reason| !reason.is_empty());
        json!({
            "seq": self.number,
            "id": self.id.to_string(),
            "time": self.began.iso8601(),
            "service": self.service.name(),
            "operation": self.operation.map(|operation| format!("{operation:?}")),
            "method": self.part(0),
            "path": self.part(1),
            "status": self.status,
            "code": self.code,
            "reason": reason,
            "milliseconds": self.ticks as f64 / (TICKS_PER_SECOND / 1000) as f64,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "client": client,
            "agent": self.part(2),
            "string_to_sign": self.string_to_sign,
        })
    }
}

/// At most so many bytes of it, and no half of a character.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn lock(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Refusal;
    use http::wire::Head;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH.plus_seconds(1_000_000 + seconds)
    }

    fn head(target: &str, agent: &str) -> Head {
        let text = format!("PUT {target} HTTP/1.1\r\nHost: h\r\nUser-Agent: {agent}\r\n\r\n");
        Head::parse(text.as_bytes()).expect("a head").expect("whole").0
    }

    fn note(
        rings: &Rings,
        account: &str,
        head: &Head,
        refusal: Option<&Refusal>,
        string: Option<&str>,
        when: Timestamp,
    ) {
        rings.note(&Seen {
            id: Id(7),
            began: when,
            ticks: 12_345,
            service: Service::Blob,
            operation: Some(OperationId::PutBlockBlob),
            account: Some(account),
            head: Some(head),
            client: Some(IpAddr::from([127, 0, 0, 1])),
            status: refusal.map_or(201, |refusal| refusal.status),
            code: refusal.map(|refusal| refusal.code.name()),
            refusal,
            string_to_sign: string,
            bytes_in: 3,
            bytes_out: 4,
        });
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let rings = Rings::new(at(0));
        let long = head(&format!("/abc/c/{}?sig={}", "é".repeat(4000), "s3cret".repeat(100)), &"a".repeat(4000));
        let refusal = ErrorCode::ConditionNotMet.because("r".repeat(10_000));
        let string = "s".repeat(50_000);
        for _ in 0..3000 {
            note(&rings, "abc", &long, Some(&refusal), Some(&string), at(1));
        }
        let account = rings.account("abc", at(1));
        let account = lock(&account);
        assert_eq!((account.requests.len(), account.refused.len()), (REQUESTS_MAX, REFUSED_MAX));
        let entries = || account.requests.iter().chain(&account.refused);
        let per_entry = PATH_BYTES_MAX + AGENT_BYTES_MAX + REASON_BYTES_MAX + METHOD_BYTES_MAX;
        assert!(entries().all(|entry| entry.text.len() <= per_entry));
        assert!(entries().map(|entry| entry.text.capacity()).sum::<usize>() <= 1500 * 2 * per_entry);
        assert_eq!(entries().filter(|entry| entry.string_to_sign.is_some()).count(), STRINGS_MAX);
        assert!(entries().all(|entry| !entry.text.contains("s3cret")));
        drop(account);
        for i in 0..10 * ACCOUNTS_MAX {
            note(&rings, &format!("account{i}"), &long, None, None, at(2 + i as u64));
        }
        let accounts = rings.accounts.read().expect("not poisoned");
        assert_eq!(accounts.len(), ACCOUNTS_MAX);
        assert!(accounts.contains_key(&format!("account{}", 10 * ACCOUNTS_MAX - 1)) && !accounts.contains_key("abc"));
    }

    #[test]
    fn pages_follow_each_other() {
        let rings = Rings::new(at(0));
        let seen = head("/abc/c/b", "test");
        let refusal = ErrorCode::LeaseIdMissing.because("leased");
        for i in 0..10u64 {
            note(&rings, "abc", &seen, i.is_multiple_of(2).then_some(&refusal), None, at(i));
        }
        let numbers =
            |values: &[Value]| values.iter().map(|v| v["seq"].as_u64().expect("a number")).collect::<Vec<_>>();
        let (next, last) = rings.list("abc", None, false, 3);
        let all = numbers(&rings.list("abc", Some(0), false, 100).1);
        assert_eq!((numbers(&last), next), (all[7..].to_vec(), all[9]));
        let (next, page) = rings.list("abc", Some(all[1]), false, 4);
        assert_eq!((numbers(&page), next), (all[2..6].to_vec(), all[5]));
        assert_eq!(rings.list("abc", Some(all[9]), false, 4).0, all[9]);
        assert_eq!(rings.list("abc", None, true, 100).1.len(), 5);
        assert_eq!(rings.list("other", None, false, 100).1.len(), 0, "another account's are not seen");
        let shown = &last[1];
        assert_eq!((shown["reason"].as_str(), shown["code"].as_str()), (Some("leased"), Some("LeaseIdMissing")));
        assert_eq!((shown["milliseconds"].as_f64(), shown["path"].as_str()), (Some(1.2345), Some("/abc/c/b")));
        let later = Rings::new(at(60));
        note(&later, "abc", &seen, None, None, at(60));
        assert_eq!(later.list("abc", Some(all[9]), false, 9).1.len(), 1, "numbers grow over restarts");
    }
}
