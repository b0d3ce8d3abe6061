//! A frame's requests, one after the other, and what they are answered: each finds its session, its share and its open,
//! is handed to its handler, and its answer is signed or encrypted as it was itself (MS-SMB2 3.3.5.2).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;

use crate::command::{Command, Row};
use crate::connection::{Arrived, Cancel, Connection, Frame, Outgoing, Room, TRANSFER_BYTES_MAX, lock};
use crate::handlers;
use crate::memory::{FRAME_OUT_BYTES_MAX, may_wait_for_ever};
use crate::open::{Arrival, Open};
use crate::security::sign::{Signer, SigningNonce};
use crate::session::{Session, Share, Tree};
use crate::status::Status;
use crate::wire::create::FileId;
use crate::wire::header::{HEADER_BYTES, Header, SEALED_BYTES, SIGNATURE, flag};
use crate::wire::{Cursor, Put};

/// What a request is answered.
pub struct Reply {
    pub status: Status,
    pub body: Vec<u8>,
    /// What was read, behind the body.
    pub payload: Vec<Bytes>,
    /// The open that the next request of the chain may mean.
    pub file: Option<FileId>,
    /// The tree it may mean.
    pub tree: Option<u32>,
    /// What it takes besides what was set aside for it when it was asked for.
    pub room: Option<Room>,
}

impl Reply {
    pub fn of(body: Vec<u8>) -> Reply {
        Reply { status: Status::SUCCESS, body, payload: Vec::new(), file: None, tree: None, room: None }
    }

    pub fn error(status: Status) -> Reply {
        Reply { status, ..Reply::of(error_body(&[])) }
    }

    /// An error that says more.
    pub fn error_with(status: Status, data: &[u8]) -> Reply {
        Reply { status, ..Reply::of(error_body(data)) }
    }
}

fn error_body(data: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(9 + data.len());
    body.put_u16(9);
    body.put_u16(0);
    body.put_u32(data.len() as u32);
    body.put(if data.is_empty() { &[0] } else { data });
    body
}

/// A request with everything that belongs to it.
pub struct Request {
    pub connection: Arc<Connection>,
    pub header: Header,
    pub message: Bytes,
    pub row: &'static Row,
    pub session: Option<Arc<Session>>,
    pub tree: Option<Arc<Tree>>,
    pub open: Option<Arc<Open>>,
    is_sealed: bool,
    pending: Option<(u64, Arc<Cancel>)>,
    is_async: AtomicBool,
    /// Under which try of the client's it is counted with its open.
    counted: Mutex<Option<u64>>,
    /// Its place among those at work on its open.
    pub arrival: Option<Arrival>,
    /// The open of the request before, if this one may mean it.
    pub related_file: Option<Result<FileId, Status>>,
    /// The answers to those before it in the chain, if it is the last, and the chain's room.
    earlier: Mutex<Option<FrameOut>>,
    room: Mutex<Option<Room>>,
    is_last: bool,
}

impl Request {
    pub fn session(&self) -> Result<&Arc<Session>, Status> {
        self.session.as_ref().ok_or(Status::USER_SESSION_DELETED)
    }

    pub fn tree(&self) -> Result<&Arc<Tree>, Status> {
        self.tree.as_ref().ok_or(Status::NETWORK_NAME_DELETED)
    }

    pub fn share(&self) -> Result<&Arc<Share>, Status> {
        match &self.tree()?.to {
            crate::session::ConnectedTo::Share(share) => Ok(share),
            crate::session::ConnectedTo::Server => Err(Status::ACCESS_DENIED),
        }
    }

    /// Does it pay a credit for every 64 KiB that it brings or asks for (MS-SMB2 3.3.5.2.5)? What is paid for there is room for.
    pub fn pays_for(&self, bytes: u32) -> Result<(), Status> {
        let is_paid = bytes.div_ceil(65536) <= u32::from(self.header.credit_charge.max(1));
        if is_paid && bytes <= TRANSFER_BYTES_MAX { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
    }

    pub fn open(&self) -> Result<&Arc<Open>, Status> {
        self.open.as_ref().ok_or(Status::FILE_CLOSED)
    }

    /// The open that a message names.
    pub fn find_open(&self, named: FileId) -> Result<Arc<Open>, Status> {
        let id = match (named, &self.related_file) {
            (FileId::RELATED, Some(related)) => (*related)?,
            (named, _) => named,
        };
        let open = self.session()?.open(id).ok_or(Status::FILE_CLOSED)?;
        // Who uses it has heard of it.
        self.connection.server.durables.used(&open);
        match open.tree() == self.tree()?.id {
            true => Ok(open),
            false => Err(Status::FILE_CLOSED),
        }
    }

    /// Tells the client that the answer will come later, once. What others of the same chain wait for does not wait for anybody itself, but
    /// for CREATE, whose wait has an end (MS-SMB2 3.3.5.2.7).
    pub fn answer_later(&self) -> Result<Arc<Cancel>, Status> {
        if !self.is_last && self.row.command != Command::Create {
            return Err(Status::INTERNAL_ERROR);
        }
        let Some((async_id, cancel)) = &self.pending else { return Err(Status::INSUFFICIENT_RESOURCES) };
        if !self.is_async.swap(true, Ordering::AcqRel) {
            let mut header = response_header(&self.connection, &self.header, Status::PENDING);
            // Not signed: the last answer has the same message id, and GMAC must not sign twice under one (MS-SMB2 3.1.4.1).
            header.flags = header.flags & !flag::SIGNED | flag::ASYNC;
            header.async_id = *async_id;
            // What came before it in the chain is not to wait, too, if nothing comes after it.
            let earlier = lock(&self.earlier).take();
            let mut frame = earlier.unwrap_or_else(|| FrameOut::new(self.sealing()));
            frame.push(header, error_body(&[]), Vec::new(), None, true);
            // Who may wait for ever waits without what others could use.
            let room = if may_wait_for_ever(self.row.command) { lock(&self.room).take() } else { None };
            frame.send(&self.connection, self.sealing(), room);
        }
        Ok(cancel.clone())
    }

    /// Waits, telling the client so, unless it is cancelled first.
    pub async fn wait<T>(&self, until: impl Future<Output = T>) -> Result<T, Status> {
        let mut until = std::pin::pin!(until);
        // What is over at once is not worth a word.
        if let Some(over) = now(until.as_mut()).await {
            return Ok(over);
        }
        let cancel = self.answer_later()?;
        tokio::select! {
            biased; // what is done is done
            over = until => Ok(over),
            () = cancel.cancelled() => Err(Status::CANCELLED),
        }
    }

    /// Counts it with the open it is about.
    fn begin_on_open(&self) -> Result<(), Status> {
        let Some(open) = &self.open else { return Ok(()) };
        if self.session()?.agreed.is_3() {
            let is_replay = self.header.has(flag::REPLAY);
            let counted = open.begin(self.header.channel_sequence(), self.row.changes, is_replay)?;
            *lock(&self.counted) = counted;
        }
        Ok(())
    }

    fn sealing(&self) -> Option<&Arc<Session>> {
        self.session.as_ref().filter(|_| self.is_sealed)
    }

    fn signing(&self) -> Option<Arc<Signer>> {
        let is_signed = self.header.has(flag::SIGNED) && !self.is_sealed;
        self.session.as_ref().filter(|_| is_signed)?.signer_on(self.connection.id)
    }
}

/// What comes of a future that does not wait; `None` if it would.
pub async fn now<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// What a request in a chain may take over from the one before.
#[derive(Clone, Copy)]
struct Before {
    session_id: u64,
    tree_id: u32,
    file: Result<FileId, Status>,
}

pub async fn run(connection: Arc<Connection>, frame: Frame) {
    let Frame { requests, sealed_by, room } = frame;
    let mut room = Some(room);
    let mut out = FrameOut::new(sealed_by.as_ref());
    let (mut before, count) = (None, requests.len());
    for (at, arrived) in requests.into_iter().enumerate() {
        let message_id = arrived.header.message_id;
        let is_last = at + 1 == count;
        let (request, judged) = prepare(&connection, arrived, sealed_by.as_ref(), before, is_last);
        if is_last {
            *lock(&request.room) = room.take();
        }
        if is_last && at > 0 {
            *lock(&request.earlier) = Some(std::mem::replace(&mut out, FrameOut::new(sealed_by.as_ref())));
        }
        let mut reply = match judged {
            Ok(()) => handlers::handle(&request).await.unwrap_or_else(Reply::error),
            Err(status) => Reply::error(status),
        };
        connection.leave(message_id);
        // Nothing was changed by what is answered at such length.
        if request.row.answers_much && !out.has_room_for(lock(&request.earlier).as_ref(), &reply) {
            reply = Reply::error(Status::INSUFFICIENT_RESOURCES);
        }
        if let (Some(open), Some(counted)) = (&request.open, lock(&request.counted).take()) {
            open.end(counted);
        }
        before = Some(after(&request, before, &reply));
        let mut header = match request.is_async.load(Ordering::Acquire) {
            false => response_header(&connection, &request.header, reply.status),
            true => {
                // The credits came with the first answer.
                let mut header = header_without_credits(&request.header, reply.status);
                header.flags |= flag::ASYNC;
                header.async_id = request.pending.as_ref().map_or(0, |(id, _)| *id);
                header
            }
        };
        if let Some(tree) = reply.tree {
            header.tree_id = tree;
        }
        if is_last {
            room = lock(&request.room).take();
        }
        if let Some(more) = reply.room {
            room.get_or_insert_default().merge(more);
        }
        if let Some(earlier) = lock(&request.earlier).take() {
            out = earlier;
        }
        out.push(header, reply.body, reply.payload, request.signing().as_deref(), is_last);
    }
    out.send(&connection, sealed_by.as_ref(), room);
}

/// Finds what the request is about, and whether anybody may look at it.
fn prepare(
    connection: &Arc<Connection>,
    arrived: Arrived,
    sealed_by: Option<&Arc<Session>>,
    before: Option<Before>,
    is_last: bool,
) -> (Request, Result<(), Status>) {
    let Arrived { mut header, message, row, pending, arrival } = arrived;
    let signed_header = header;
    let related = header.has(flag::RELATED).then_some(before).flatten();
    let (session_id, tree_id) = match (&related, header.has(flag::RELATED)) {
        (Some(before), _) => (before.session_id, before.tree_id),
        // There is nothing that it, or what comes after it, could relate to.
        (None, true) => (0, 0),
        (None, false) => (header.session_id, header.tree_id),
    };
    if related.is_some() {
        (header.session_id, header.tree_id) = (session_id, tree_id);
    }
    let session = connection.session(session_id);
    let tree = session.as_ref().and_then(|session| session.tree(tree_id));
    let mut request = Request {
        connection: connection.clone(),
        header,
        message,
        row,
        session,
        tree,
        open: None,
        is_sealed: sealed_by.is_some(),
        pending,
        is_async: AtomicBool::new(false),
        counted: Mutex::default(),
        arrival,
        related_file: related.map(|before| before.file),
        earlier: Mutex::default(),
        room: Mutex::default(),
        is_last,
    };
    let judged = judge(&mut request, &signed_header, sealed_by);
    (request, judged)
}

fn judge(request: &mut Request, signed_header: &Header, sealed_by: Option<&Arc<Session>>) -> Result<(), Status> {
    let (row, header) = (request.row, request.header);
    if matches!(row.command, Command::Negotiate | Command::SessionSetup | Command::Cancel) {
        // They come alone.
        return Err(Status::INVALID_PARAMETER);
    }
    if let Some(session) = &request.session {
        judge_speaker(&request.connection, session, signed_header, &request.message, sealed_by)?;
    } else if header.has(flag::RELATED) && row.needs_session {
        return Err(Status::INVALID_PARAMETER);
    } else if row.needs_session || header.has(flag::SIGNED) {
        return Err(Status::USER_SESSION_DELETED);
    }
    if row.needs_tree && request.tree.is_none() {
        return Err(Status::NETWORK_NAME_DELETED);
    }
    if let Some(at) = row.file_at {
        let named = Cursor::at(&request.message, at).and_then(|mut cursor| FileId::decode(&mut cursor));
        let open = request.find_open(named.ok_or(Status::INVALID_PARAMETER)?)?;
        request.open = Some(open);
    }
    request.begin_on_open()?;
    Ok(())
}

/// May a message speak for a session? It must be encrypted for it or, where that is not asked for, signed with its key.
pub fn judge_speaker(
    connection: &Connection,
    session: &Session,
    header: &Header,
    message: &[u8],
    sealed_by: Option<&Arc<Session>>,
) -> Result<(), Status> {
    let is_right = match sealed_by {
        Some(sealed_by) => sealed_by.id == session.id,
        None if session.encrypts || !header.has(flag::SIGNED) => false,
        None => {
            let signer = session.signer_on(connection.id).ok_or(Status::USER_SESSION_DELETED)?;
            is_signed_well(&signer, header, message)
        }
    };
    if is_right { Ok(()) } else { Err(Status::ACCESS_DENIED) }
}

fn after(request: &Request, before: Option<Before>, reply: &Reply) -> Before {
    let is_error = reply.status.0 >> 30 == 3;
    let inherited = request.related_file.or(before.filter(|_| request.header.has(flag::RELATED)).map(|b| b.file));
    let file = match (&reply.file, &request.open) {
        (Some(file), _) => Ok(*file),
        (None, Some(open)) => Ok(open.id),
        // What was not made cannot be used.
        (None, None) if is_error && (request.row.command == Command::Create || inherited.is_none()) => {
            Err(reply.status)
        }
        (None, None) => inherited.unwrap_or(Err(Status::INVALID_PARAMETER)),
    };
    let session_id = request.session.as_ref().map_or(0, |session| session.id);
    Before { session_id, tree_id: reply.tree.unwrap_or(request.header.tree_id), file }
}

fn response_header(connection: &Connection, request: &Header, status: Status) -> Header {
    // Whoever is not known yet gets as much as it used.
    let may_grow = match request.command {
        0 => false,
        1 => status == Status::SUCCESS,
        _ => true,
    };
    let credits = lock(&connection.credits).grant(request.credit_charge, request.credits, may_grow);
    Header { credits, ..header_without_credits(request, status) }
}

fn header_without_credits(request: &Header, status: Status) -> Header {
    Header {
        credit_charge: request.credit_charge,
        status: status.0,
        credits: 0,
        // Where there is no key to sign with, the client gets its own signature back, by which it knows.
        flags: flag::RESPONSE | request.flags & !flag::ASYNC,
        next: 0,
        async_id: 0,
        ..*request
    }
}

fn nonce(header: &Header, is_server: bool) -> SigningNonce {
    let is_cancel = header.command == Command::Cancel as u16;
    SigningNonce { message_id: header.message_id, is_server, is_cancel }
}

pub fn is_signed_well(signer: &Signer, header: &Header, message: &[u8]) -> bool {
    let (before, after) = (&message[..SIGNATURE.start], &message[SIGNATURE.end..]);
    signer.verify(&[before, &[0; 16], after], nonce(header, false), &header.signature)
}

/// Responses on their way into one frame.
struct FrameOut {
    frame: Vec<u8>,
    begin: usize,
    is_sealed: bool,
    /// What was read, behind the last of them. What is encrypted is so in place, and has none.
    payload: Vec<Bytes>,
}

/// What was read in pieces of this length is sent from where it lies. A small piece may be part of a large one that would stay
/// in memory with it: it is copied.
const PIECE_BYTES_MIN: usize = 64 << 10;

/// The length that every frame begins with.
const PREFIX_BYTES: usize = 4;

impl FrameOut {
    fn new(sealing: Option<&Arc<Session>>) -> FrameOut {
        let begin = PREFIX_BYTES + if sealing.is_some() { SEALED_BYTES } else { 0 };
        FrameOut { frame: vec![0; begin], begin, is_sealed: sealing.is_some(), payload: Vec::new() }
    }

    fn push(
        &mut self,
        mut header: Header,
        body: Vec<u8>,
        mut payload: Vec<Bytes>,
        signer: Option<&Signer>,
        is_last: bool,
    ) {
        let begin = self.frame.len();
        let payload_bytes = payload.iter().map(Bytes::len).sum::<usize>();
        let is_in_large_pieces = payload_bytes >= payload.len().max(1) * PIECE_BYTES_MIN;
        if is_last && !self.is_sealed && is_in_large_pieces {
            self.payload = std::mem::take(&mut payload);
        }
        if signer.is_some() {
            header.flags |= flag::SIGNED;
            header.signature = [0; 16];
        }
        self.frame.reserve(HEADER_BYTES + body.len() + payload.iter().map(Bytes::len).sum::<usize>() + 64);
        header.encode(&mut self.frame);
        self.frame.put(&body);
        payload.iter().for_each(|bytes| self.frame.put(bytes));
        if !is_last {
            let length = (self.frame.len() - begin).next_multiple_of(8);
            self.frame.resize(begin + length, 0);
            self.frame.set_u32(begin + 20, length as u32);
        }
        if let Some(signer) = signer {
            let message: Vec<&[u8]> =
                std::iter::once(&self.frame[begin..]).chain(self.payload.iter().map(Bytes::as_ref)).collect();
            let signature = signer.signature(&message, nonce(&header, true));
            self.frame[begin + SIGNATURE.start..begin + SIGNATURE.end].copy_from_slice(&signature);
        }
    }

    /// Would the answer fit behind those before it, and all others that say little?
    fn has_room_for(&self, earlier: Option<&FrameOut>, reply: &Reply) -> bool {
        const LITTLE_BYTES: usize = 128 << 10;
        let before = earlier.unwrap_or(self).frame.len();
        let answer = reply.body.len() + reply.payload.iter().map(Bytes::len).sum::<usize>();
        before + answer + LITTLE_BYTES <= FRAME_OUT_BYTES_MAX
    }

    /// Gives back what is sent, before encryption, where nothing was read.
    fn message(&self) -> &[u8] {
        &self.frame[self.begin..]
    }

    fn send(mut self, connection: &Connection, sealing: Option<&Arc<Session>>, room: Option<Room>) {
        if let Some(session) = sealing {
            let Some(sealed) = session.seal(&mut self.frame[self.begin..]) else { return };
            let mut header = Vec::with_capacity(SEALED_BYTES);
            sealed.encode(&mut header);
            self.frame[PREFIX_BYTES..self.begin].copy_from_slice(&header);
        }
        let payload_bytes = self.payload.iter().map(Bytes::len).sum::<usize>();
        let length = (self.frame.len() - PREFIX_BYTES + payload_bytes) as u32;
        self.frame[..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
        connection.send(Outgoing { frame: self.frame, payload: self.payload, room });
    }
}

/// Answers a message that nobody signs. Gives back what is sent.
pub fn answer_plain(connection: &Connection, header: &Header, reply: Reply, room: Room) -> Vec<u8> {
    let header = response_header(connection, header, reply.status);
    send_plain(connection, header, reply.body, Some(room))
}

pub fn send_plain(connection: &Connection, header: Header, body: Vec<u8>, room: Option<Room>) -> Vec<u8> {
    let mut out = FrameOut::new(None);
    out.push(header, body, Vec::new(), None, true);
    let sent = out.message().to_vec();
    out.send(connection, None, room);
    sent
}

/// Answers SESSION_SETUP: the last of its answers is signed.
pub fn answer_setup(
    connection: &Connection,
    header: &Header,
    reply: Reply,
    signed_by: Option<&Arc<Session>>,
    sealed_by: Option<&Arc<Session>>,
    room: Room,
) -> Vec<u8> {
    let signer = signed_by.filter(|_| sealed_by.is_none());
    let signer = signer.map(|session| session.signer_on(connection.id).unwrap_or_else(|| session.signer.clone()));
    let mut out = FrameOut::new(sealed_by);
    let header = response_header(connection, header, reply.status);
    out.push(header, reply.body, Vec::new(), signer.as_deref(), true);
    let sent = out.message().to_vec();
    out.send(connection, sealed_by, Some(room));
    sent
}

/// Tells a client something it did not ask for.
pub fn tell(connection: &Connection, session: &Arc<Session>, body: Vec<u8>) {
    let header = Header {
        credit_charge: 0,
        status: 0,
        command: Command::OplockBreak as u16,
        credits: 0,
        flags: flag::RESPONSE,
        next: 0,
        message_id: crate::wire::header::UNASKED,
        async_id: 0,
        tree_id: 0,
        session_id: 0,
        signature: [0; 16],
    };
    let sealing = session.encrypts.then_some(session);
    let mut out = FrameOut::new(sealing);
    out.push(header, body, Vec::new(), None, true);
    out.send(connection, sealing, None);
}
