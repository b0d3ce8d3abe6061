//! Operations under way: a call that librados answers later, on a thread of its own.
//!
//! 1. What librados reads from or writes to belongs to the flight, and the flight to librados until it lands. A future
//!    that is dropped leaves its flight to land by itself.
//! 2. There is room for so many at a time, in each pool; who finds none waits for it, without blocking a thread.
//! 3. Whoever waits is answered within the connection's time limit, whatever librados does.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::connect::{Connection, called_back};
use crate::errno::{op_error, words};
use crate::library::Handle;
use crate::slot::Slot;
use crate::{OpError, Pool};

/// Room for all flights of a connection to each of the pools: 128 MiB together.
pub(crate) const RECORDS_ROOM_KIB: u32 = 32 * 1024;
pub(crate) const BODIES_ROOM_KIB: u32 = 96 * 1024;
/// What the smallest takes of it, which makes 512 and 1,536 of those.
const LEAST_KIB: usize = 64;

/// What came back: the version of the object, and what was read.
pub(crate) struct Landed {
    pub version: u64,
    pub slots: Vec<Slot>,
}

struct Flight {
    answer: oneshot::Sender<(c_int, Landed)>,
    slots: Vec<Slot>,
    connection: Arc<Connection>,
    room: OwnedSemaphorePermit,
}

/// Sends an operation that carries `bytes` and fills `slots`, and waits for its answer. `send` gets a completion and
/// the place of the slots, which stay there until the flight has landed; it returns what librados did, and below zero
/// nothing was sent.
pub(crate) async fn fly(
    connection: &Arc<Connection>,
    pool: Pool,
    bytes: usize,
    slots: Vec<Slot>,
    send: impl FnOnce(Handle, *mut Slot) -> c_int,
) -> Result<Landed, OpError> {
    let deadline = Instant::now() + connection.deadline;
    let (room, room_kib) = match pool {
        Pool::Records => (&connection.rooms[0], RECORDS_ROOM_KIB),
        Pool::Bodies => (&connection.rooms[1], BODIES_ROOM_KIB),
    };
    let kib = (bytes / 1024 + 1).clamp(LEAST_KIB, room_kib as usize) as u32;
    let room = timeout_at(deadline, room.clone().acquire_many_owned(kib)).await;
    // Nobody closes the semaphore, so what is left is no room in time.
    let Ok(Ok(room)) = room else {
        return Err(OpError::Failed { why: "too many operations wait for the cluster".to_owned() });
    };
    let answer = take_off(connection.clone(), room, slots, send)?;
    match timeout_at(deadline, answer).await {
        Ok(Ok((code, landed))) if code >= 0 => Ok(landed),
        Ok(Ok((code, _))) => Err(op_error(code)),
        Ok(Err(_)) => Err(OpError::Unknown { why: "librados gave the operation up".to_owned() }),
        Err(_) => Err(op_error(-rustix::io::Errno::TIMEDOUT.raw_os_error())),
    }
}

fn take_off(
    connection: Arc<Connection>,
    room: OwnedSemaphorePermit,
    slots: Vec<Slot>,
    send: impl FnOnce(Handle, *mut Slot) -> c_int,
) -> Result<oneshot::Receiver<(c_int, Landed)>, OpError> {
    let library = connection.library;
    let (answer, answered) = oneshot::channel();
    let flight = Box::into_raw(Box::new(Flight { answer, slots, connection, room }));
    let mut completion = ptr::null_mut();
    // SAFETY: the flight stays where it is until `landed` takes it back, once, or until it is taken back below.
    let code =
        unsafe { (library.rados_aio_create_completion2)(flight.cast::<c_void>(), Some(landed), &mut completion) };
    if code < 0 {
        // SAFETY: librados has made nothing that could call `landed`.
        drop(unsafe { Box::from_raw(flight) });
        return Err(OpError::Failed { why: words(code) });
    }
    // SAFETY: nobody else uses the flight before something is sent; the vector is never grown, so its slots do not
    // move.
    let slots = unsafe { (*flight).slots.as_mut_ptr() };
    let code = send(completion, slots);
    if code < 0 {
        // SAFETY: nothing was sent, so `landed` is never called: the completion and the flight are ours alone.
        unsafe {
            (library.rados_aio_release)(completion);
            drop(Box::from_raw(flight));
        }
        return Err(op_error(code));
    }
    Ok(answered)
}

/// Called by librados, once for each flight that was sent. Nothing in it panics.
extern "C" fn landed(completion: Handle, flight: *mut c_void) {
    called_back(|| {
        // SAFETY: the argument is the flight that `take_off` gave away with this completion, and librados is done with
        // both.
        let Flight { answer, slots, connection, room } = *unsafe { Box::from_raw(flight.cast::<Flight>()) };
        let library = connection.library;
        // SAFETY: the completion is complete, and given back after its last use.
        let (code, version) = unsafe {
            let read = ((library.rados_aio_get_return_value)(completion), (library.rados_aio_get_version)(completion));
            (library.rados_aio_release)(completion);
            read
        };
        drop(room);
        // Whoever asked may have gone.
        let _ = answer.send((code, Landed { version, slots }));
    });
}
