//! SESSION_SETUP: a client proves who it is, for a new session, once more for one it has, or for one more connection of it
//! (MS-SMB2 3.3.5.5).

use std::sync::Arc;

use bytes::Bytes;

use crate::chain::{self, Reply};
use crate::connection::{Ended, Reading, Room, lock};
use crate::security::acceptor::{Acceptor, Step};
use crate::security::kdf::PreauthHash;
use crate::security::ntlm;
use crate::session::Session;
use crate::status::Status;
use crate::wire::header::{Header, flag};
use crate::wire::session::{SetupRequest, setup_response};

/// Sessions on one connection, and those who would like to have one.
const SESSIONS_MAX: usize = 1024;
/// Who would like to have one where nobody has any yet: a client asks for one and waits.
const STRANGERS_MAX: usize = 16;

/// A client that is being asked who it is.
pub struct Authentication {
    acceptor: Acceptor,
    preauth: PreauthHash,
    purpose: Purpose,
}

/// What it is asked for.
enum Purpose {
    NewSession,
    /// It has this session here already.
    Again(Arc<Session>),
    /// It has this session on another connection.
    Bind(Arc<Session>),
}

impl Purpose {
    fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Purpose::NewSession => None,
            Purpose::Again(session) | Purpose::Bind(session) => Some(session),
        }
    }
}

impl Reading {
    pub async fn set_up(
        &mut self,
        header: &Header,
        message: &Bytes,
        sealed_by: Option<&Arc<Session>>,
        room: Room,
    ) -> Result<(), Ended> {
        let connection = self.connection.clone();
        if connection.agreed().is_none() {
            return Err(Ended::Broken("it did not negotiate"));
        }
        // What is encrypted for another session says nothing for this one.
        let is_sealed = sealed_by.is_some_and(|session| session.id == header.session_id);
        // Only who has a session's key is answered with its signature.
        let vouched = self.vouched(header, message);
        let outcome = match SetupRequest::decode(message) {
            Some(request) => self.take_step(header, message, &request, vouched.as_ref(), is_sealed).await,
            None => Err(Status::INVALID_PARAMETER),
        };
        let mut answer = *header;
        let (reply, signed_by) = match outcome {
            Ok(Stepped { session_id, status, token, session, .. }) => {
                answer.session_id = session_id;
                let encrypts = session.as_ref().is_some_and(|session| session.encrypts);
                let signed_by = session.filter(|_| status == Status::SUCCESS).or(vouched);
                (Reply { status, ..Reply::of(setup_response(encrypts, &token)) }, signed_by)
            }
            Err(status) => {
                // Who failed begins anew.
                self.authentications.remove(&header.session_id);
                (Reply::error(status), vouched)
            }
        };
        let is_over = reply.status == Status::SUCCESS;
        let sent = chain::answer_setup(&connection, &answer, reply, signed_by.as_ref(), sealed_by, room);
        match self.authentications.get_mut(&answer.session_id) {
            Some(authentication) if !is_over => authentication.preauth.absorb(&sent),
            _ => {}
        }
        Ok(())
    }

    async fn take_step(
        &mut self,
        header: &Header,
        message: &Bytes,
        request: &SetupRequest<'_>,
        vouched: Option<&Arc<Session>>,
        is_sealed: bool,
    ) -> Result<Stepped, Status> {
        let session_id = self.begin(header, request, vouched, is_sealed)?;
        let connection = self.connection.clone();
        let server = connection.server.clone();
        let authentication = self.authentications.get_mut(&session_id).ok_or(Status::USER_SESSION_DELETED)?;
        authentication.preauth.absorb(message);
        let step = authentication.acceptor.step(request.token, |user| server.passwords(user));
        let (user, key, token) = match step {
            Step::Continue(token) => {
                return Ok(Stepped {
                    session_id,
                    status: Status::MORE_PROCESSING_REQUIRED,
                    token,
                    session: authentication.purpose.session().cloned(),
                });
            }
            Step::Done { user, session_key, token } => (user, session_key, token),
            Step::Denied => return Err(self.denied(session_id, Status::LOGON_FAILURE).await),
            Step::Malformed => return Err(self.denied(session_id, Status::INVALID_PARAMETER).await),
        };
        let Some(Authentication { preauth, purpose, .. }) = self.authentications.remove(&session_id) else {
            return Err(Status::USER_SESSION_DELETED);
        };
        let account = server.account(&user).ok_or(Status::LOGON_FAILURE)?;
        let agreed = connection.agreed().ok_or(Status::USER_SESSION_DELETED)?;
        let session = match purpose {
            Purpose::Again(session) | Purpose::Bind(session) if session.account != account => {
                return Err(if session.has_channel(connection.id) {
                    self.denied_session(&session).await
                } else {
                    Status::ACCESS_DENIED
                });
            }
            Purpose::Again(session) => session,
            Purpose::Bind(session) => {
                let signer = Session::signer(agreed, &key, &preauth);
                if session.is_over() || !session.add_channel(&connection, Arc::new(signer)) {
                    return Err(Status::INSUFFICIENT_RESOURCES);
                }
                connection.memory.grow();
                session
            }
            Purpose::NewSession => {
                let required = server.requires_encryption();
                if required && agreed.is_3() && agreed.cipher.is_none() {
                    return Err(Status::ACCESS_DENIED);
                }
                let session = Session::new(session_id, account.clone(), agreed, key, &preauth, required);
                let session = Arc::new(session);
                session.add_channel(&connection, session.signer.clone());
                server.add_session(&session);
                connection.memory.grow();
                session
            }
        };
        if request.previous != 0 && request.previous != session.id {
            server.end_previous(request.previous, &account).await;
        }
        Ok(Stepped { session_id, status: Status::SUCCESS, token, session: Some(session) })
    }

    /// The session whose key a request is signed with: the channel's, or the session's if this is no channel of it yet.
    fn vouched(&self, header: &Header, message: &Bytes) -> Option<Arc<Session>> {
        let session = self.connection.server.session(header.session_id).filter(|_| header.has(flag::SIGNED))?;
        let signer = session.signer_on(self.connection.id).unwrap_or_else(|| session.signer.clone());
        chain::is_signed_well(&signer, header, message).then_some(session)
    }

    /// The session a request is about, with somebody who is being asked.
    fn begin(
        &mut self,
        header: &Header,
        request: &SetupRequest<'_>,
        vouched: Option<&Arc<Session>>,
        is_sealed: bool,
    ) -> Result<u64, Status> {
        let connection = self.connection.clone();
        let server = &connection.server;
        if header.session_id == 0 {
            if request.is_binding {
                return Err(Status::INVALID_PARAMETER);
            }
            let (asked, sessions) = (self.authentications.len(), lock(&connection.sessions).len());
            let is_full = if sessions == 0 { asked >= STRANGERS_MAX } else { asked + sessions >= SESSIONS_MAX };
            if is_full {
                return Err(Status::INSUFFICIENT_RESOURCES);
            }
            let id = server.next_session_id();
            self.ask(id, Purpose::NewSession);
            return Ok(id);
        }
        let id = header.session_id;
        let here = connection.session(id);
        if here.is_some() && !header.has(flag::SIGNED) && !is_sealed {
            return Err(Status::ACCESS_DENIED);
        }
        if header.has(flag::SIGNED) && vouched.is_none() && server.session(id).is_some() {
            return Err(Status::ACCESS_DENIED);
        }
        if request.is_binding {
            self.judge_binding(header, server.session(id))?;
        }
        if let Some(begun) = self.authentications.get(&id) {
            // Whoever binds has the session's key in every word.
            return match begun.purpose {
                Purpose::Bind(_) if vouched.is_none() => Err(Status::ACCESS_DENIED),
                _ => Ok(id),
            };
        }
        let purpose = match (here, request.is_binding) {
            (Some(session), false) => Purpose::Again(session),
            (None, true) => Purpose::Bind(server.session(id).ok_or(Status::USER_SESSION_DELETED)?),
            (Some(_), true) => return Err(Status::REQUEST_NOT_ACCEPTED),
            (None, false) => return Err(Status::USER_SESSION_DELETED),
        };
        self.ask(id, purpose);
        Ok(id)
    }

    fn ask(&mut self, id: u64, purpose: Purpose) {
        let server = &self.connection.server;
        let challenge = (server.shell.ids.next().0 as u64).to_le_bytes();
        let now = server.shell.clock.now().filetime();
        let acceptor = Acceptor::new(ntlm::Server { name: server.name.clone(), challenge, now });
        self.authentications.insert(id, Authentication { acceptor, preauth: self.preauth.clone(), purpose });
    }

    /// May this connection become one of the session's? Everything it agreed on must be the same.
    fn judge_binding(&self, header: &Header, session: Option<Arc<Session>>) -> Result<(), Status> {
        use crate::security::sign::SigningAlgorithm::AesGmac;
        let session = session.ok_or(Status::USER_SESSION_DELETED)?;
        let here = self.connection.agreed().ok_or(Status::USER_SESSION_DELETED)?;
        let there = &session.agreed;
        if there.signing == AesGmac && here.signing != AesGmac {
            return Err(Status::REQUEST_OUT_OF_SEQUENCE);
        }
        if here.signing == AesGmac && there.signing != AesGmac {
            return Err(Status::NOT_SUPPORTED);
        }
        if !here.is_3() {
            return Err(Status::REQUEST_NOT_ACCEPTED);
        }
        let is_same = here.dialect == there.dialect && here.cipher == there.cipher && here.client == there.client;
        if !header.has(flag::SIGNED) || !is_same {
            return Err(Status::INVALID_PARAMETER);
        }
        Ok(())
    }

    /// Nothing is kept of it, with the first word either. Who has a session here and cannot prove once more to be its owner loses it.
    async fn denied(&mut self, session_id: u64, status: Status) -> Status {
        if let Some(Authentication { purpose: Purpose::Again(session), .. }) = self.authentications.remove(&session_id)
        {
            self.denied_session(&session).await;
        }
        status
    }

    async fn denied_session(&mut self, session: &Arc<Session>) -> Status {
        self.connection.server.end_session(session).await;
        Status::LOGON_FAILURE
    }
}

struct Stepped {
    session_id: u64,
    status: Status,
    token: Vec<u8>,
    /// What it is signed for.
    session: Option<Arc<Session>>,
}
