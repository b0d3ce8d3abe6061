//! Locks that expire by the cluster's clock, and what that clock shows.
//!
//! RADOS keeps a lock as an attribute of an object, and the OSD that is the object's primary decides by its own clock
//! whether it has expired. It has no call that tells the time, but a lock that was just taken for so long tells when it
//! expires.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use rustix::io::Errno;

use crate::connect::{Connection, Librados, blocking, name};
use crate::errno::{errno, op_error};
use crate::library::TimeValue;
use crate::{BoxFuture, OpError, Pool};

/// The object whose primary has the clock that all gateways go by.
const CLOCK: &CStr = c"lazuli.clock";
const CLOCK_LOCK: &CStr = c"time";
/// Long enough that it has not expired when it is read, short enough that gateways that are gone are soon forgotten.
const CLOCK_HELD: Duration = Duration::from_secs(60);

/// LIBRADOS_LOCK_FLAG_MAY_RENEW
const MAY_RENEW: u8 = 1;
/// LIBRADOS_LOCK_FLAG_MUST_RENEW
const MUST_RENEW: u8 = 2;
/// What is told of a lock fits easily: some hundred bytes for each holder.
const INFO_BYTES_MAX: usize = 256 * 1024;

/// Who holds a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// As `Librados::instance` gives it.
    pub client: u64,
    pub cookie: String,
    /// By the cluster's clock, since the Unix epoch; zero stands for never.
    pub expires: Duration,
}

/// Locks are on objects of the records pool.
impl Librados {
    /// The cluster's clock, in nanoseconds since the Unix epoch: that of the primary of one object, the same for all.
    /// It was read at some moment between the call and the answer, so half the time between them is the error.
    pub fn time(&self) -> BoxFuture<'static, Result<u64, OpError>> {
        let client = self.instance();
        Box::pin(blocking(self.connection.clone(), move |connection| {
            let pool = connection.pool(Pool::Records);
            // Every gateway holds the lock beside the others, under its own client's name.
            // SAFETY: the pool is open, the strings end with a zero, the duration lives as long as the call.
            done(unsafe {
                let (object, lock, none) = (CLOCK.as_ptr(), CLOCK_LOCK.as_ptr(), c"".as_ptr());
                (connection.library.rados_lock_shared)(
                    pool,
                    object,
                    lock,
                    none,
                    none,
                    none,
                    &mut held(CLOCK_HELD),
                    MAY_RENEW,
                )
            })?;
            let holders = holders(connection, CLOCK, CLOCK_LOCK)?;
            let own = holders.iter().find(|holder| holder.client == client).ok_or(OpError::Missing)?;
            Ok(own.expires.saturating_sub(CLOCK_HELD).as_nanos() as u64) // enough until the year 2554
        }))
    }

    /// Takes a lock, or with `renew` holds one longer that this client and cookie hold. `Guard`: somebody else has it;
    /// `Exists`: it was to be taken and is ours already; `Missing`: it was to be renewed and is not ours (any more).
    /// Makes the object if need be.
    pub fn lock(
        &self,
        object: &str,
        lock: &str,
        cookie: &str,
        duration: Duration,
        renew: bool,
    ) -> BoxFuture<'static, Result<(), OpError>> {
        let flags = if renew { MUST_RENEW } else { 0 };
        self.on_lock(object, lock, cookie, move |connection, object, lock, cookie| {
            let (pool, none) = (connection.pool(Pool::Records), c"".as_ptr());
            // SAFETY: the pool is open, the strings end with a zero, the duration lives as long as the call.
            let code = unsafe {
                let take = connection.library.rados_lock_exclusive;
                take(pool, object.as_ptr(), lock.as_ptr(), cookie.as_ptr(), none, &mut held(duration), flags)
            };
            if errno(code) == Errno::BUSY { Err(OpError::Guard) } else { done(code) }
        })
    }

    /// Gives a lock back; `Missing` if this client and cookie do not hold it.
    pub fn unlock(&self, object: &str, lock: &str, cookie: &str) -> BoxFuture<'static, Result<(), OpError>> {
        self.on_lock(object, lock, cookie, |connection, object, lock, cookie| {
            let pool = connection.pool(Pool::Records);
            // SAFETY: the pool is open, the strings end with a zero.
            done(unsafe { (connection.library.rados_unlock)(pool, object.as_ptr(), lock.as_ptr(), cookie.as_ptr()) })
        })
    }

    /// Takes a lock away from its holder; `Missing` if they do not hold it.
    pub fn break_lock(&self, object: &str, lock: &str, holder: &Holder) -> BoxFuture<'static, Result<(), OpError>> {
        let client = CString::new(format!("client.{}", holder.client)).expect("digits hold no zero byte");
        self.on_lock(object, lock, &holder.cookie, move |connection, object, lock, cookie| {
            let pool = connection.pool(Pool::Records);
            // SAFETY: the pool is open, the strings end with a zero.
            done(unsafe {
                let take = connection.library.rados_break_lock;
                take(pool, object.as_ptr(), lock.as_ptr(), client.as_ptr(), cookie.as_ptr())
            })
        })
    }

    /// Who holds a lock; nobody counts whose time is up. `Missing` without the object.
    pub fn holders(&self, object: &str, lock: &str) -> BoxFuture<'static, Result<Vec<Holder>, OpError>> {
        self.on_lock(object, lock, "", |connection, object, lock, _| holders(connection, object, lock))
    }

    fn on_lock<T: Send + 'static>(
        &self,
        object: &str,
        lock: &str,
        cookie: &str,
        call: impl FnOnce(&Connection, &CStr, &CStr, &CStr) -> Result<T, OpError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, OpError>> {
        let connection: Arc<Connection> = self.connection.clone();
        let names = [name(object), name(lock), name(cookie)];
        Box::pin(async move {
            let [object, lock, cookie] = names;
            let (object, lock, cookie) = (object?, lock?, cookie?);
            blocking(connection, move |connection| call(connection, &object, &lock, &cookie)).await
        })
    }
}

fn done(code: c_int) -> Result<(), OpError> {
    if code < 0 { Err(op_error(code)) } else { Ok(()) }
}

fn held(duration: Duration) -> TimeValue {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    TimeValue { seconds, microseconds: i64::from(duration.subsec_micros()) }
}

fn holders(connection: &Connection, object: &CStr, lock: &CStr) -> Result<Vec<Holder>, OpError> {
    let (ask, mut told) = (info_request(lock.to_bytes()), vec![0_u8; INFO_BYTES_MAX]);
    // SAFETY: the pool is open, names end with a zero, both buffers are as long as is said.
    let code = unsafe {
        let (class, method) = (c"lock".as_ptr(), c"get_info".as_ptr());
        let (ask_at, told_at) = (ask.as_ptr().cast::<c_char>(), told.as_mut_ptr().cast::<c_char>());
        let pool = connection.pool(Pool::Records);
        (connection.library.rados_exec)(pool, object.as_ptr(), class, method, ask_at, ask.len(), told_at, told.len())
    };
    done(code)?;
    told.truncate(code.unsigned_abs() as usize);
    read_info(Bytes::from(told))
        .ok_or_else(|| OpError::Failed { why: "an OSD's words on a lock make no sense".to_owned() })
}

/// Ceph's encoding of a structure: its version, the oldest that can read it, its length, its fields.
fn info_request(lock: &[u8]) -> Vec<u8> {
    let mut out = vec![1, 1];
    out.put_u32_le(4 + lock.len() as u32);
    out.put_u32_le(lock.len() as u32);
    out.put_slice(lock);
    out
}

/// The holders: each a client's name (its type and its number) and cookie, then when it expires; the rest is of no
/// interest.
fn read_info(mut told: Bytes) -> Option<Vec<Holder>> {
    let mut info = structure(&mut told)?;
    let count = info.try_get_u32_le().ok()?;
    let mut holders = Vec::new();
    for _ in 0..count {
        let mut id = structure(&mut info)?;
        id.try_get_u8().ok()?;
        let client = id.try_get_u64_le().ok()?;
        let cookie_bytes = id.try_get_u32_le().ok()?;
        let cookie = String::from_utf8_lossy(&split(&mut id, cookie_bytes)?).into_owned();
        let mut about = structure(&mut info)?;
        let (seconds, nanoseconds) = (about.try_get_u32_le().ok()?, about.try_get_u32_le().ok()?);
        let expires = Duration::from_secs(u64::from(seconds)) + Duration::from_nanos(u64::from(nanoseconds));
        holders.push(Holder { client, cookie, expires });
    }
    Some(holders)
}

fn structure(from: &mut Bytes) -> Option<Bytes> {
    from.try_get_u16().ok()?;
    let bytes = from.try_get_u32_le().ok()?;
    split(from, bytes)
}

fn split(from: &mut Bytes, bytes: u32) -> Option<Bytes> {
    let bytes = bytes as usize;
    (bytes <= from.len()).then(|| from.split_to(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(fields: &[&[u8]]) -> Vec<u8> {
        let fields = fields.concat();
        let mut out = vec![1, 1];
        out.put_u32_le(fields.len() as u32);
        out.extend(fields);
        out
    }

    fn info() -> Vec<u8> {
        let id = wrapped(&[&[8], &4123_u64.to_le_bytes(), &2_u32.to_le_bytes(), b"me"]);
        let about = wrapped(&[&1_700_000_000_u32.to_le_bytes(), &5_u32.to_le_bytes(), b"an address"]);
        wrapped(&[&1_u32.to_le_bytes(), &id, &about, &[2], &0_u32.to_le_bytes()])
    }

    #[test]
    fn what_is_told_of_a_lock() {
        let expires = Duration::new(1_700_000_000, 5);
        let holder = Holder { client: 4123, cookie: "me".to_owned(), expires };
        assert_eq!(read_info(info().into()), Some(vec![holder]));
        assert_eq!(read_info(wrapped(&[&0_u32.to_le_bytes()]).into()), Some(vec![]));
        for end in 0..info().len() {
            assert_eq!(read_info(Bytes::from(info()).slice(..end)), None, "{end}");
        }
        assert_eq!(read_info(wrapped(&[&u32::MAX.to_le_bytes()]).into()), None);
    }

    #[test]
    fn what_is_asked_about_a_lock() {
        assert_eq!(info_request(b"ab"), [1, 1, 6, 0, 0, 0, 2, 0, 0, 0, b'a', b'b']);
    }
}
