//! One connection: frames in, each chain of requests a task of its own, frames out.
//!
//! 1. Requests are checked in the order they arrive: message ids, signatures, encryption. Nothing else depends on order,
//!    except inside a chain.
//! 2. Who a client is is settled here, one message at a time; every other command needs a session that is settled.
//! 3. What a connection may hold in memory is bounded, and so is what all of them hold: requests wait in the socket until there
//!    is room for them and for what they are answered (`memory`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;

use crate::chain;
use crate::command::{Command, Row};
use crate::credits::Credits;
pub use crate::memory::Room;
use crate::memory::{self, Memory};
use crate::negotiate::{self, Negotiated};
use crate::open::Arrival;
use crate::security::kdf::PreauthHash;
use crate::server::Server;
use crate::session::Session;
use crate::setup::Authentication;
use crate::wire::Cursor;
use crate::wire::create::FileId;
use crate::wire::header::{
    HEADER_BYTES, Header, PROTOCOL_1, PROTOCOL_SEALED, SEALED_BYTES, SEALED_OPEN, Sealed, flag, split,
};

/// The longest read, write or other transfer.
pub const TRANSFER_BYTES_MAX: u32 = 8 << 20;
/// A transfer and all that may stand around it.
const FRAME_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + (128 << 10);
/// Before a client is known it has little to say.
const UNKNOWN_FRAME_BYTES_MAX: usize = 64 << 10;
/// A small frame comes with its length in one read; what is longer is read to where it stays.
const READ_AHEAD_BYTES: usize = memory::SMALL_FRAME_BYTES;
/// Requests of one connection that wait for something.
const PENDING_MAX: usize = 512;

/// How long a client is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Between requests, of a client that has nothing open. One that has may rest for as long as it likes.
    pub idle: Duration,
    /// Without a byte moving in the middle of a frame, in either direction. Who has not said who it is gets half of it for each word.
    pub stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { idle: Duration::from_secs(900), stall: Duration::from_secs(60) }
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A wish to end what is waited for.
#[derive(Default)]
pub struct Cancel {
    is_wanted: AtomicBool,
    wanted: Notify,
}

impl Cancel {
    pub fn cancel(&self) {
        self.is_wanted.store(true, Ordering::Release);
        self.wanted.notify_waiters();
    }

    pub fn is_cancelled(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    pub async fn cancelled(&self) {
        loop {
            let mut wanted = std::pin::pin!(self.wanted.notified());
            wanted.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            wanted.await;
        }
    }
}

/// A frame on its way out, and the room it takes.
pub struct Outgoing {
    pub frame: Vec<u8>,
    /// What comes behind it, from where it lies.
    pub payload: Vec<Bytes>,
    pub room: Option<Room>,
}

pub struct Connection {
    pub id: u64,
    pub server: Arc<Server>,
    pub client: SocketAddr,
    pub negotiated: OnceLock<Negotiated>,
    pub credits: Mutex<Credits>,
    /// Requests that may be cancelled, by their message ids.
    pending: Mutex<BTreeMap<u64, Pending>>,
    last_async: AtomicU64,
    outbox: mpsc::UnboundedSender<Outgoing>,
    pub memory: Memory,
    /// Sessions that this connection is a channel of.
    pub sessions: Mutex<BTreeSet<u64>>,
    /// Said by whoever finds that the connection cannot go on.
    pub broken: Arc<Cancel>,
}

struct Pending {
    async_id: u64,
    cancel: Arc<Cancel>,
    /// Among those of all connections.
    _place: OwnedSemaphorePermit,
}

impl Connection {
    pub fn send(&self, outgoing: Outgoing) {
        // Nobody listens any more: the connection ends.
        let _ = self.outbox.send(outgoing);
    }

    pub fn is_open(&self) -> bool {
        !self.outbox.is_closed() && !self.broken.is_cancelled()
    }

    /// What was agreed on. Nothing but NEGOTIATE is looked at before.
    pub fn agreed(&self) -> Option<&Negotiated> {
        self.negotiated.get()
    }

    /// `None` if too many wait already.
    fn enter(&self, message_id: u64) -> Option<(u64, Arc<Cancel>)> {
        let mut pending = lock(&self.pending);
        if pending.len() >= PENDING_MAX {
            return None;
        }
        let place = self.server.budget.pending()?;
        let async_id = self.last_async.fetch_add(1, Ordering::Relaxed) + 1;
        let cancel = Arc::new(Cancel::default());
        pending.insert(message_id, Pending { async_id, cancel: cancel.clone(), _place: place });
        Some((async_id, cancel))
    }

    pub fn leave(&self, message_id: u64) {
        lock(&self.pending).remove(&message_id);
    }

    fn cancel(&self, header: &Header) {
        let pending = lock(&self.pending);
        let found = match header.has(flag::ASYNC) {
            true => pending.values().find(|pending| pending.async_id == header.async_id),
            false => pending.get(&header.message_id),
        };
        if let Some(found) = found {
            found.cancel.cancel();
        }
    }

    /// Do its sessions have anything open?
    fn has_opens(&self) -> bool {
        let sessions: Vec<u64> = lock(&self.sessions).iter().copied().collect();
        sessions.into_iter().filter_map(|id| self.server.session(id)).any(|session| session.has_opens())
    }

    pub fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.server.session(id).filter(|session| session.has_channel(self.id))
    }
}

/// A request as it arrived, verified.
pub struct Arrived {
    pub header: Header,
    /// With its header, up to the next one.
    pub message: Bytes,
    pub row: &'static Row,
    /// May be cancelled, and answered under this number later.
    pub pending: Option<(u64, Arc<Cancel>)>,
    /// Its place among those at work on the same open.
    pub arrival: Option<Arrival>,
}

/// The requests of a frame.
pub struct Frame {
    pub requests: Vec<Arrived>,
    /// The session it was encrypted for.
    pub sealed_by: Option<Arc<Session>>,
    pub room: Room,
}

/// Why a connection ends.
#[derive(Debug)]
pub enum Ended {
    Io(io::Error),
    /// It broke the rules in a way that has no answer.
    Broken(&'static str),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Io(error)
    }
}

/// Serves a connection to its end: what it says, and where it listens.
pub async fn serve(
    server: Arc<Server>,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    client: SocketAddr,
    limits: Limits,
    mut draining: watch::Receiver<bool>,
) -> Result<(), Ended> {
    let (outbox, outgoing) = mpsc::unbounded_channel();
    let connection = Arc::new(Connection {
        id: server.next_id(),
        server: server.clone(),
        client,
        negotiated: OnceLock::new(),
        credits: Mutex::default(),
        pending: Mutex::default(),
        last_async: AtomicU64::new(0),
        outbox,
        memory: Memory::new(server.budget.clone()),
        sessions: Mutex::default(),
        broken: Arc::default(),
    });
    let writing = server.spawn(write(connection.broken.clone(), writer, outgoing, limits.stall));
    let mut reading = Reading {
        connection: connection.clone(),
        limits,
        preauth: PreauthHash::new(),
        authentications: HashMap::new(),
    };
    let outcome = tokio::select! {
        biased; // whatever it still sends
        () = connection.broken.cancelled() => Err(Ended::Broken("it was given up")),
        _ = draining.wait_for(|draining| *draining) => Ok(()),
        outcome = reading.run(BufReader::with_capacity(READ_AHEAD_BYTES, reader)) => outcome,
    };
    // What waits goes on for sessions that have other connections; the others end it with their opens.
    connection.broken.cancel();
    server.connection_ended(&connection).await;
    drop(reading);
    drop(connection);
    // What was answered already may still be on its way; who does not take it is not waited for.
    let _ = timeout(Duration::from_secs(5), writing).await;
    outcome
}

async fn write(
    broken: Arc<Cancel>,
    mut socket: impl AsyncWrite + Unpin,
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    stall: Duration,
) {
    while let Some(Outgoing { frame, payload, room }) = outgoing.recv().await {
        let bytes = frame.len() + payload.iter().map(Bytes::len).sum::<usize>();
        let written = timeout(memory::pace(stall, bytes), write_frame(&mut socket, &frame, &payload, stall)).await;
        if !matches!(written, Ok(Ok(()))) {
            // Who takes no answers sends no requests.
            broken.cancel();
            return;
        }
        drop((payload, room));
    }
    let _ = socket.shutdown().await; // the client may be gone
}

async fn write_frame(
    socket: &mut (impl AsyncWrite + Unpin),
    frame: &[u8],
    payload: &[Bytes],
    stall: Duration,
) -> io::Result<()> {
    let mut parts: Vec<IoSlice<'_>> =
        std::iter::once(frame).chain(payload.iter().map(Bytes::as_ref)).map(IoSlice::new).collect();
    let mut rest = parts.as_mut_slice();
    while !rest.is_empty() {
        let written = timeout(stall, socket.write_vectored(rest)).await;
        match written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            bytes => IoSlice::advance_slices(&mut rest, bytes),
        }
    }
    Ok(())
}

/// What only the reader of a connection knows.
pub struct Reading {
    pub connection: Arc<Connection>,
    limits: Limits,
    /// Of NEGOTIATE, where every session's begins.
    pub preauth: PreauthHash,
    /// Those who are being asked who they are, by the id of the session to be.
    pub authentications: HashMap<u64, Authentication>,
}

impl Reading {
    async fn run(&mut self, mut socket: impl AsyncRead + Unpin) -> Result<(), Ended> {
        loop {
            let is_known = !lock(&self.connection.sessions).is_empty();
            let memory = &self.connection.memory;
            let frame = match is_known {
                true => {
                    let Some(begun) = self.next_of_known(&mut socket).await? else { return Ok(()) };
                    read_frame(&mut socket, begun, FRAME_BYTES_MAX, self.limits.stall, memory).await?
                }
                false => {
                    let stall = self.limits.stall;
                    let word = async {
                        let Some(begun) = begin_frame(&mut socket).await? else { return Ok(None) };
                        read_frame(&mut socket, begun, UNKNOWN_FRAME_BYTES_MAX, stall, memory).await
                    };
                    timeout(stall / 2, word).await.map_err(|_| Ended::Broken("it did not say who it is"))??
                }
            };
            let Some((frame, room)) = frame else { return Ok(()) };
            self.take(frame, room).await?;
        }
    }

    /// The beginning of the next frame, however long a client that has something open takes.
    async fn next_of_known(&self, socket: &mut (impl AsyncRead + Unpin)) -> Result<Option<Begun>, Ended> {
        let mut reading = pin!(begin_frame(socket));
        loop {
            match timeout(self.limits.idle, reading.as_mut()).await {
                Ok(begun) => return Ok(begun?),
                Err(_) if self.connection.has_opens() => {}
                Err(_) => return Err(Ended::Broken("it was idle")),
            }
        }
    }

    async fn take(&mut self, frame: BytesMut, mut room: Room) -> Result<(), Ended> {
        let connection = self.connection.clone();
        if frame.starts_with(&PROTOCOL_1) {
            return negotiate::first_of_smb1(&connection, &frame);
        }
        let (messages, sealed_by) = match frame.starts_with(&PROTOCOL_SEALED) {
            true => {
                let (messages, session) = self.unseal(frame)?;
                (messages, Some(session))
            }
            false => (frame.freeze(), None),
        };
        let mut requests = split(&messages).map_err(Ended::Broken)?;
        if requests.len() == 1 && requests[0].0.command == Command::Cancel as u16 {
            let (header, message) = &requests[0];
            // It is not answered, so it is not refused either: who may not say it is not heard.
            let speaks_for =
                |session: &Session| chain::judge_speaker(&connection, session, header, message, sealed_by.as_ref());
            if connection.session(header.session_id).is_some_and(|session| speaks_for(&session).is_ok()) {
                connection.cancel(header);
            }
            return Ok(());
        }
        for (header, _) in &requests {
            if header.command != Command::Cancel as u16
                && !lock(&connection.credits).use_ids(header.message_id, header.credit_charge)
            {
                return Err(Ended::Broken("a message id that was not granted"));
            }
        }
        connection.memory.for_answers(&mut room, &requests).await.ok_or(NO_MEMORY)?;
        if requests.len() == 1 {
            let (header, message) = &requests[0];
            match header.command {
                0 => return negotiate::negotiate(self, header, message, room),
                1 => return self.set_up(header, message, sealed_by.as_ref(), room).await,
                _ => {}
            }
        }
        if connection.agreed().is_none() {
            return Err(Ended::Broken("it did not negotiate"));
        }
        let mut arrived = Vec::with_capacity(requests.len());
        for (header, message) in requests.drain(..) {
            let row = Row::of(header.command);
            let pending = if row.may_pend { connection.enter(header.message_id) } else { None };
            let arrival = self.arrival(row, &header, &message);
            arrived.push(Arrived { header, message: memory::kept(row, message), row, pending, arrival });
        }
        // Begun here, so that requests begin in the order they arrive; what has to wait goes on by itself.
        let server = connection.server.clone();
        let mut running = Box::pin(chain::run(connection, Frame { requests: arrived, sealed_by, room }));
        if chain::now(running.as_mut()).await.is_none() {
            server.spawn(running);
        }
        Ok(())
    }

    /// The place of a request among those on its open. What waits for others has none: closing ends it.
    fn arrival(&self, row: &Row, header: &Header, message: &[u8]) -> Option<Arrival> {
        let at = row.file_at.filter(|_| !row.may_pend || row.command == Command::SetInfo)?;
        let file = Cursor::at(message, at).and_then(|mut cursor| FileId::decode(&mut cursor))?;
        Some(self.connection.session(header.session_id)?.open(file)?.arrive(row.may_pend))
    }

    fn unseal(&self, mut frame: BytesMut) -> Result<(Bytes, Arc<Session>), Ended> {
        let sealed = Sealed::decode(&frame).ok_or(Ended::Broken("an encrypted frame without its header"))?;
        let session = self.connection.session(sealed.session_id);
        let session = session.ok_or(Ended::Broken("encrypted for a session that is not"))?;
        let mut inside = frame.split_off(SEALED_BYTES);
        if inside.len() != sealed.bytes as usize {
            return Err(Ended::Broken("an encrypted frame of another length"));
        }
        match session.unseal(&sealed, &frame[SEALED_OPEN], &mut inside) {
            true => Ok((inside.freeze(), session)),
            false => Err(Ended::Broken("it cannot be decrypted")),
        }
    }
}

/// It is never closed while there are connections.
const NO_MEMORY: Ended = Ended::Broken("it has no memory");

/// The first bytes of a frame's length: all four, nearly always.
struct Begun {
    prefix: [u8; 4],
    bytes: usize,
}

/// `None` at the end.
async fn begin_frame(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Begun>> {
    let mut prefix = [0; 4];
    let bytes = socket.read(&mut prefix).await?;
    Ok((bytes > 0).then_some(Begun { prefix, bytes }))
}

/// The frame that has begun, and room for it if it is long; `None` if the client leaves in the middle of it.
async fn read_frame(
    socket: &mut (impl AsyncRead + Unpin),
    Begun { mut prefix, bytes }: Begun,
    bytes_max: usize,
    stall: Duration,
    memory: &Memory,
) -> Result<Option<(BytesMut, Room)>, Ended> {
    let stalled = |_| Ended::Broken("it stopped in the middle of a frame");
    match timeout(stall, socket.read_exact(&mut prefix[bytes..])).await.map_err(stalled)? {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let length = u32::from_be_bytes(prefix) as usize;
    if length > bytes_max {
        return Err(Ended::Broken("a frame that is too long"));
    }
    if length < HEADER_BYTES.min(SEALED_BYTES).min(32) {
        return Err(Ended::Broken("a frame that is too short"));
    }
    if length <= memory::SMALL_FRAME_BYTES {
        return Ok(read_rest(socket, length, stall).await?.map(|frame| (frame, Room::default())));
    }
    let room = memory.for_frame(length).await.ok_or(NO_MEMORY)?;
    let frame = timeout(memory::pace(stall, length), read_rest(socket, length, stall)).await;
    Ok(frame.map_err(|_| Ended::Broken("it sends a frame too slowly"))??.map(|frame| (frame, room)))
}

async fn read_rest(
    socket: &mut (impl AsyncRead + Unpin),
    length: usize,
    stall: Duration,
) -> Result<Option<BytesMut>, Ended> {
    let stalled = |_| Ended::Broken("it stopped in the middle of a frame");
    let mut frame = BytesMut::with_capacity(length);
    while frame.len() < length {
        let mut rest = (&mut *socket).take((length - frame.len()) as u64);
        if timeout(stall, rest.read_buf(&mut frame)).await.map_err(stalled)?? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(frame))
}
