//! LOCK: ranges taken and given back (MS-SMB2 3.3.5.14).

use contract::rights as right;
use partition::file::opens::{ByteRange, Conflict, Io, LockKind};

use super::io::break_caches;
use crate::chain::{Reply, Request};
use crate::connection::lock as lock_mutex;
use crate::status::Status;
use crate::wire::io::{LockElement, LockRequest, lock_flag};
use crate::wire::session::empty_response;

/// What a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Asked {
    Lock {
        ranges: Vec<(ByteRange, LockKind)>,
        waits: bool,
    },
    /// Those before one that is to be locked; that is an error, but not one that gives anything back.
    Unlock {
        ranges: Vec<ByteRange>,
        is_mixed: bool,
    },
}

fn range(element: &LockElement) -> ByteRange {
    ByteRange { offset: element.offset, length: element.length }
}

/// What the flags of its elements come to; `None` if they contradict each other.
fn parse(elements: &[LockElement]) -> Option<Asked> {
    use lock_flag::{EXCLUSIVE, FAIL_IMMEDIATELY, SHARED, UNLOCK};
    if elements.first()?.flags == UNLOCK {
        let ranges: Vec<_> = elements.iter().take_while(|element| element.flags == UNLOCK).map(range).collect();
        return Some(Asked::Unlock { is_mixed: ranges.len() < elements.len(), ranges });
    }
    let one = |element: &LockElement| match element.flags & !FAIL_IMMEDIATELY {
        SHARED => Some((range(element), LockKind::Shared)),
        EXCLUSIVE => Some((range(element), LockKind::Exclusive)),
        _ => None,
    };
    let ranges = elements.iter().map(one).collect::<Option<Vec<_>>>()?;
    let waits = elements.iter().any(|element| element.flags & FAIL_IMMEDIATELY == 0);
    // Waiting for several at once could wait for ever.
    (!waits || elements.len() == 1).then_some(Asked::Lock { ranges, waits })
}

pub async fn lock(request: &Request) -> Result<Reply, Status> {
    let asked = LockRequest::decode(&request.message).ok_or(Status::INVALID_PARAMETER)?;
    let (open, server) = (request.open()?, &request.connection.server);
    let Some(handle) = open.handle else { return Err(Status::INVALID_DEVICE_REQUEST) };
    if open.is_directory {
        return Err(Status::INVALID_DEVICE_REQUEST);
    }
    let (index, number) = ((asked.sequence >> 4) as usize, (asked.sequence & 0xF) as u8);
    // Whoever may lose a connection, or has several, may ask twice.
    let may_repeat = lock_mutex(&open.durable).is_some() || request.session()?.agreed.is_3();
    let is_remembered = (1..=64).contains(&index) && may_repeat;
    if is_remembered && open.was_locked(index, number) {
        return Ok(Reply::of(empty_response()));
    }
    let parsed = parse(&asked.elements).ok_or(Status::INVALID_PARAMETER)?;
    // Who neither reads nor writes has no bytes to keep others from.
    open.needs(right::READ_DATA | right::EXECUTE | right::WRITE_DATA | right::APPEND_DATA)?;
    let (files, group) = (&server.shell.open_files, open.share.found.group());
    let taken = match parsed {
        Asked::Unlock { ranges, is_mixed } => {
            let unlocked = files.unlock(group, handle, &ranges);
            if unlocked.is_err() || is_mixed {
                // Those before it are given back all the same, also for whoever reads what was written down.
                open.write_down(server).await?;
                unlocked?;
                return Err(Status::INVALID_PARAMETER);
            }
            Vec::new()
        }
        Asked::Lock { ranges, waits } => loop {
            let wait = match files.lock(group, handle, &ranges) {
                Ok(()) => {
                    break_caches(server, open, Io::Lock)?;
                    break ranges;
                }
                Err(Conflict::WithShortOpen(wait)) => {
                    wait.over().await;
                    continue;
                }
                Err(Conflict::Locked(wait)) if waits => wait,
                Err(Conflict::Locked(_)) => return Err(Status::LOCK_NOT_GRANTED),
                Err(conflict) => return Err(conflict.into()),
            };
            let closed = request.wait(async {
                tokio::select! {
                    biased;
                    () = open.closing.cancelled() => true,
                    () = wait.over() => false,
                }
            });
            if closed.await? {
                return Err(Status::RANGE_NOT_LOCKED);
            }
        },
    };
    if let Err(status) = open.write_down(server).await {
        // What was not promised to last is not held either: who was refused does not give it back.
        let ranges: Vec<_> = taken.into_iter().map(|(range, _)| range).collect();
        let _ = files.unlock(group, handle, &ranges); // unless it is closed already
        return Err(status);
    }
    if is_remembered {
        open.note_locked(index, number);
    }
    Ok(Reply::of(empty_response()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_what_is_asked_for() {
        use lock_flag::{EXCLUSIVE, FAIL_IMMEDIATELY, SHARED, UNLOCK};
        let element = |flags| LockElement { offset: 0, length: 1, flags };
        for (flags, expected) in [
            (&[SHARED][..], Some(("lock", true))),
            (&[EXCLUSIVE | FAIL_IMMEDIATELY], Some(("lock", false))),
            (&[EXCLUSIVE | FAIL_IMMEDIATELY, SHARED | FAIL_IMMEDIATELY], Some(("lock", false))),
            (&[EXCLUSIVE, SHARED | FAIL_IMMEDIATELY], None),
            (&[UNLOCK], Some(("unlock", false))),
            (&[UNLOCK, UNLOCK], Some(("unlock", false))),
            (&[UNLOCK, SHARED | FAIL_IMMEDIATELY], Some(("unlock and more", false))),
            (&[SHARED | FAIL_IMMEDIATELY, UNLOCK], None),
            (&[UNLOCK | FAIL_IMMEDIATELY], None),
            (&[SHARED | EXCLUSIVE], None),
            (&[0], None),
            (&[FAIL_IMMEDIATELY], None),
            (&[0x20], None),
            (&[], None),
        ] {
            let elements: Vec<_> = flags.iter().map(|flags| element(*flags)).collect();
            let found = parse(&elements).map(|asked| match asked {
                Asked::Lock { waits, .. } => ("lock", waits),
                Asked::Unlock { is_mixed: true, .. } => ("unlock and more", false),
                Asked::Unlock { .. } => ("unlock", false),
            });
            assert_eq!(found, expected, "{flags:?}");
        }
    }
}
