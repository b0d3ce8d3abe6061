//! One authentication, from a client's first token to its end.
//!
//! ```text
//! Start ──init, NTLM first, with its token──────────────────────────▶ Challenged ──proof──▶ Over
//!   │  └──init without a token, or another mechanism first─▶ Chosen ──token──▲
//!   └─────NTLM without an envelope───────────────────────────────────────────┘
//! ```
//! Whatever else comes ends it.

use super::ntlm::{self, Refused, Server, Speaker};
use super::spnego::{self, Init, Preference, State as Negotiation, Token};

/// What is kept of a client between its tokens, piece by piece: strangers send them. Clients need some hundred bytes.
const KEPT_BYTES_MAX: usize = 2 << 10;

/// A copy to keep, unless it is longer than any client's.
fn kept(bytes: &[u8]) -> Result<Vec<u8>, Step> {
    if bytes.len() <= KEPT_BYTES_MAX { Ok(bytes.to_vec()) } else { Err(Step::Malformed) }
}

pub struct Acceptor {
    server: Server,
    state: State,
}

/// What follows from a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The client gets this and sends another.
    Continue(Vec<u8>),
    Done {
        /// As it was sent.
        user: String,
        session_key: [u8; 16],
        token: Vec<u8>,
    },
    /// The client is not who it says, or did not prove it as it must be proved today.
    Denied,
    /// That was no token, or none that could come now.
    Malformed,
}

enum State {
    Start,
    Chosen { envelope: Envelope },
    Challenged { envelope: Option<Envelope>, negotiate: Vec<u8>, challenge: Vec<u8> },
    Over,
}

/// What has to be kept of a negotiation of mechanisms.
struct Envelope {
    /// As the client listed them: what its MIC is over.
    mechanisms: Vec<u8>,
}

impl From<Refused> for Step {
    fn from(refused: Refused) -> Step {
        match refused {
            Refused::Malformed => Step::Malformed,
            Refused::Denied => Step::Denied,
        }
    }
}

impl Acceptor {
    pub fn new(server: Server) -> Acceptor {
        Acceptor { server, state: State::Start }
    }

    /// Takes the client's next token. `passwords` are those of a user as it was sent; nobody's if there is no such user.
    pub fn step(&mut self, token: &[u8], passwords: impl Fn(&str) -> Vec<String>) -> Step {
        let taken = match std::mem::replace(&mut self.state, State::Over) {
            State::Start => self.start(token),
            State::Chosen { envelope } => self.go_on(envelope, token),
            State::Challenged { envelope, negotiate, challenge } => {
                self.finish(envelope, &negotiate, &challenge, token, passwords)
            }
            State::Over => Err(Step::Malformed),
        };
        taken.unwrap_or_else(|refused| refused)
    }

    fn start(&mut self, token: &[u8]) -> Result<Step, Step> {
        if token.starts_with(ntlm::SIGNATURE) {
            return self.challenge(None, token);
        }
        let Some(Token::Init(Init { mechanisms, ntlm, token })) = spnego::read(token) else {
            return Err(Step::Malformed);
        };
        let envelope = Envelope { mechanisms: kept(mechanisms)? };
        match (ntlm, token) {
            (Preference::First, Some(token)) => self.challenge(Some(envelope), token),
            (Preference::First, None) => Ok(self.choose(envelope, Negotiation::Incomplete)),
            // The token is another mechanism's. Since the client would have liked that better, it is asked to confirm its list.
            (Preference::Later, _) => Ok(self.choose(envelope, Negotiation::RequestMic)),
            (Preference::Absent, _) => Err(Step::Denied),
        }
    }

    fn choose(&mut self, envelope: Envelope, negotiation: Negotiation) -> Step {
        self.state = State::Chosen { envelope };
        Step::Continue(spnego::response(negotiation, true, None, None))
    }

    fn go_on(&mut self, envelope: Envelope, token: &[u8]) -> Result<Step, Step> {
        let (token, _) = read_response(token)?;
        self.challenge(Some(envelope), token)
    }

    fn challenge(&mut self, envelope: Option<Envelope>, negotiate: &[u8]) -> Result<Step, Step> {
        let challenge = ntlm::challenge(negotiate, &self.server)?;
        let negotiate = kept(negotiate)?;
        let token = match &envelope {
            None => challenge.clone(),
            Some(_) => spnego::response(Negotiation::Incomplete, true, Some(&challenge), None),
        };
        self.state = State::Challenged { envelope, negotiate, challenge };
        Ok(Step::Continue(token))
    }

    fn finish(
        &self,
        envelope: Option<Envelope>,
        negotiate: &[u8],
        challenge: &[u8],
        token: &[u8],
        passwords: impl Fn(&str) -> Vec<String>,
    ) -> Result<Step, Step> {
        let (message, mic) = if envelope.is_some() { read_response(token)? } else { (token, None) };
        let authenticated = ntlm::authenticate(negotiate, challenge, &self.server, message, passwords)?;
        let token = match envelope {
            None => Vec::new(),
            Some(Envelope { mechanisms }) => {
                // Nobody gains by changing a list from which there is one thing to choose: a client that does not confirm it
                // is let in, one that confirms another is not.
                if mic.is_some_and(|mic| !authenticated.verify(Speaker::Client, &mechanisms, mic)) {
                    return Err(Step::Denied);
                }
                let ours = mic.map(|_| authenticated.sign(Speaker::Server, &mechanisms));
                spnego::response(Negotiation::Completed, false, None, ours.as_ref().map(<[u8; 16]>::as_slice))
            }
        };
        Ok(Step::Done { user: authenticated.user, session_key: authenticated.session_key, token })
    }
}

/// The token in a client's response, and its MIC.
fn read_response(token: &[u8]) -> Result<(&[u8], Option<&[u8]>), Step> {
    match spnego::read(token) {
        Some(Token::Response(response)) if response.state == Some(Negotiation::Reject) => Err(Step::Denied),
        Some(Token::Response(response)) => Ok((response.token.ok_or(Step::Malformed)?, response.mic)),
        _ => Err(Step::Malformed),
    }
}

#[cfg(test)]
mod tests;
