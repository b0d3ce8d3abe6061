//! Who is signed in. A session is of one account, was opened with one of its keys, and lives in memory only.
//!
//! Invariants:
//! 1. What opens a session is not kept: neither the key (a signature with it is) nor the cookie (its hash is).
//! 2. A session is no more than its key: once the account or the key is gone, so is the session.
//! 3. The number of sessions is bounded, and so is what is remembered of those who failed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use env::Timestamp;
use http::account::{Account, AccountKey};
use sha2::{Digest, Sha256};

const LIFE_SECONDS_MAX: u64 = 12 * 60 * 60;
const IDLE_SECONDS_MAX: u64 = 60 * 60;
const SESSIONS_MAX: usize = 1000;

/// From one address within a minute.
const FAILURES_MAX: u32 = 5;
const FAILURES_SECONDS: u64 = 60;
const ADDRESSES_MAX: usize = 1000;

pub struct Sessions {
    /// What keys are known by: their signature of it.
    challenge: String,
    open: Mutex<HashMap<[u8; 32], Session>>,
    failures: Mutex<HashMap<IpAddr, Failures>>,
}

struct Session {
    account: String,
    proof: Vec<u8>,
    begun: Timestamp,
    used: Timestamp,
}

#[derive(Clone, Copy)]
struct Failures {
    since: Timestamp,
    count: u32,
}

/// Somebody who is signed in.
pub struct Visitor {
    pub account: Arc<Account>,
    pub key: AccountKey,
    pub expires: Timestamp,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions {
            challenge: URL_SAFE_NO_PAD.encode(env::secret_bytes::<32>()),
            open: Mutex::default(),
            failures: Mutex::default(),
        }
    }
}

impl Sessions {
    /// The account's key that this is, if it is one of them. Takes the same time whatever it differs in.
    fn key_of<'a>(&self, account: &'a Account, proof: &[u8]) -> Option<&'a AccountKey> {
        account.keys.iter().find(|key| key.verifies(&self.challenge, proof))
    }

    /// Opens a session of the account, if the key is one of its. What is given back is the secret of the cookie.
    pub fn open(&self, account: &Account, key: &str, now: Timestamp) -> Option<String> {
        let signed = AccountKey::parse(key)?.sign(&self.challenge);
        let proof = STANDARD.decode(signed).ok()?;
        self.key_of(account, &proof)?;
        let secret = URL_SAFE_NO_PAD.encode(env::secret_bytes::<32>());
        let session = Session { account: account.name.as_str().to_string(), proof, begun: now, used: now };
        let mut open = lock(&self.open);
        if open.len() >= SESSIONS_MAX {
            open.retain(|_, session| !session.is_over(now));
        }
        if open.len() >= SESSIONS_MAX {
            let oldest = open.iter().min_by_key(|(_, session)| session.used).map(|(hash, _)| *hash);
            oldest.and_then(|hash| open.remove(&hash));
        }
        open.insert(hash(&secret), session);
        Some(secret)
    }

    /// Whose secret it is. `find` knows the accounts as they are now.
    pub fn visitor(
        &self,
        secret: &str,
        now: Timestamp,
        find: impl FnOnce(&str) -> Option<Arc<Account>>,
    ) -> Option<Visitor> {
        let hash = hash(secret);
        let mut open = lock(&self.open);
        let session = open.get_mut(&hash)?;
        let found = find(&session.account).filter(|_| !session.is_over(now));
        let visitor = found.and_then(|account| {
            let key = self.key_of(&account, &session.proof)?.clone();
            session.used = session.used.max(now);
            Some(Visitor { account, key, expires: session.ends() })
        });
        if visitor.is_none() {
            open.remove(&hash);
        }
        visitor
    }

    pub fn close(&self, secret: &str) {
        lock(&self.open).remove(&hash(secret));
    }

    /// Has the address failed too often? Then for how many seconds nobody from there is listened to.
    pub fn is_shut_out(&self, client: IpAddr, now: Timestamp) -> Option<u64> {
        let failures = lock(&self.failures).get(&door::counted_as(client)).copied()?;
        let until = failures.since.plus_seconds(FAILURES_SECONDS);
        (failures.count >= FAILURES_MAX && now < until).then(|| until.seconds().saturating_sub(now.seconds()).max(1))
    }

    pub fn note_failure(&self, client: IpAddr, now: Timestamp) {
        let mut failures = lock(&self.failures);
        let is_past = |failures: &Failures| now >= failures.since.plus_seconds(FAILURES_SECONDS);
        if failures.len() >= ADDRESSES_MAX {
            failures.retain(|_, failures| !is_past(failures));
        }
        if failures.len() >= ADDRESSES_MAX {
            failures.clear(); // so many addresses are not stopped by counting each
        }
        let noted = failures.entry(door::counted_as(client)).or_insert(Failures { since: now, count: 0 });
        if is_past(noted) {
            *noted = Failures { since: now, count: 0 };
        }
        noted.count += 1;
    }
}

impl Session {
    fn ends(&self) -> Timestamp {
        self.begun.plus_seconds(LIFE_SECONDS_MAX).min(self.used.plus_seconds(IDLE_SECONDS_MAX))
    }

    fn is_over(&self, now: Timestamp) -> bool {
        now >= self.ends()
    }
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "a2V5";
    const OTHER: &str = "b3RoZXI=";

    fn account(keys: &[&str]) -> Arc<Account> {
        Arc::new(Account::new("abc", keys).expect("an account"))
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH.plus_seconds(1_000_000 + seconds)
    }

    #[test]
    fn only_a_key_opens() {
        let sessions = Sessions::default();
        let ours = account(&[KEY, OTHER]);
        for wrong in ["", "a2V6", "not base64", "a2V5a2V5"] {
            assert!(sessions.open(&ours, wrong, at(0)).is_none(), "{wrong}");
        }
        for right in [KEY, OTHER] {
            let secret = sessions.open(&ours, right, at(0)).expect("a key of the account");
            assert!(secret.len() >= 43, "256 bits");
            let visitor = sessions.visitor(&secret, at(1), |_| Some(ours.clone())).expect("signed in");
            assert_eq!(visitor.key.reveal(), right);
        }
        assert!(sessions.visitor("", at(1), |_| Some(ours.clone())).is_none());
    }

    #[test]
    fn sessions_end() {
        let sessions = Sessions::default();
        let ours = account(&[KEY, OTHER]);
        let open = || sessions.open(&ours, KEY, at(0)).expect("opened");
        let is_in = |secret: &str, seconds: u64, account: Option<Arc<Account>>| {
            sessions.visitor(secret, at(seconds), |_| account).is_some()
        };
        let idle = open();
        assert!(is_in(&idle, 3599, Some(ours.clone())) && !is_in(&idle, 3599 + 3600, Some(ours.clone())));
        assert!(!is_in(&idle, 10, Some(ours.clone())), "what has ended stays ended");

        let busy = open();
        assert!((1..24).all(|half| is_in(&busy, half * 1800, Some(ours.clone()))));
        assert!(!is_in(&busy, 12 * 3600, Some(ours.clone())), "twelve hours are the end");

        let closed = open();
        sessions.close(&closed);
        assert!(!is_in(&closed, 1, Some(ours.clone())));

        let rotated = open();
        assert!(is_in(&rotated, 1, Some(account(&[KEY]))), "the other key is no matter");
        assert!(!is_in(&rotated, 2, Some(account(&[OTHER]))) && !is_in(&rotated, 3, Some(ours.clone())));

        let removed = open();
        assert!(!is_in(&removed, 1, None));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let sessions = Sessions::default();
        let ours = account(&[KEY]);
        let first = sessions.open(&ours, KEY, at(0)).expect("opened");
        let last = (0..SESSIONS_MAX as u64).map(|i| sessions.open(&ours, KEY, at(i + 1)).expect("opened")).last();
        assert_eq!(lock(&sessions.open).len(), SESSIONS_MAX);
        assert!(
            sessions.visitor(&first, at(2000), |_| Some(ours.clone())).is_none(),
            "the one used longest ago made room"
        );
        assert!(sessions.visitor(&last.expect("many"), at(2000), |_| Some(ours.clone())).is_some());
        for i in 0..10 * ADDRESSES_MAX as u32 {
            sessions.note_failure(IpAddr::from(i.to_be_bytes()), at(0));
        }
        assert!(lock(&sessions.failures).len() <= ADDRESSES_MAX);
    }

    #[test]
    fn who_fails_often_waits() {
        let sessions = Sessions::default();
        let (here, there) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        for _ in 0..FAILURES_MAX {
            assert_eq!(sessions.is_shut_out(here, at(0)), None);
            sessions.note_failure(here, at(0));
        }
        assert_eq!(sessions.is_shut_out(here, at(20)), Some(40));
        assert_eq!(sessions.is_shut_out(there, at(20)), None);
        assert_eq!(sessions.is_shut_out(here, at(60)), None);
        sessions.note_failure(here, at(61));
        assert_eq!(sessions.is_shut_out(here, at(61)), None, "counted anew");
    }
}
