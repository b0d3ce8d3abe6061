//! The envelope around NTLM: negotiation of mechanisms (RFC 4178, MS-SPNG), of which we have one.
//!
//! Just as much DER as that takes: definite lengths in their shortest form, nothing after the end, no recursion.

/// 1.3.6.1.5.5.2
const SPNEGO: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x02];
/// 1.3.6.1.4.1.311.2.2.10
const NTLMSSP: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0a];

const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const SEQUENCE: u8 = 0x30;
/// The GSS-API's frame around a first token (RFC 2743 3.1).
const APPLICATION_0: u8 = 0x60;

/// A field's number as a tag.
const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// What a client sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token<'a> {
    Init(Init<'a>),
    Response(Response<'a>),
}

/// A client's first token: which mechanisms it knows, best first, and perhaps the first one's first token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Init<'a> {
    /// The list as it was sent: what the MIC is over.
    pub mechanisms: &'a [u8],
    pub ntlm: Preference,
    pub token: Option<&'a [u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preference {
    First,
    Later,
    Absent,
}

/// Its tokens after that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response<'a> {
    pub state: Option<State>,
    pub token: Option<&'a [u8]>,
    pub mic: Option<&'a [u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Completed,
    Incomplete,
    Reject,
    RequestMic,
}

impl State {
    const ALL: [State; 4] = [State::Completed, State::Incomplete, State::Reject, State::RequestMic];

    fn number(self) -> u8 {
        match self {
            State::Completed => 0,
            State::Incomplete => 1,
            State::Reject => 2,
            State::RequestMic => 3,
        }
    }
}

/// What responses to NEGOTIATE carry: the mechanisms of the server.
pub fn hint() -> Vec<u8> {
    let mechanisms = tlv(context(0), &[&tlv(SEQUENCE, &[&tlv(OBJECT_ID, &[NTLMSSP])])]);
    tlv(APPLICATION_0, &[&tlv(OBJECT_ID, &[SPNEGO]), &tlv(context(0), &[&tlv(SEQUENCE, &[&mechanisms])])])
}

/// A token of the server. `chooses` names NTLM as the mechanism.
pub fn response(state: State, chooses: bool, token: Option<&[u8]>, mic: Option<&[u8]>) -> Vec<u8> {
    let mut fields = tlv(context(0), &[&tlv(ENUMERATED, &[&[state.number()]])]);
    if chooses {
        fields.extend(tlv(context(1), &[&tlv(OBJECT_ID, &[NTLMSSP])]));
    }
    for (number, bytes) in [(2, token), (3, mic)] {
        fields.extend(bytes.map(|bytes| tlv(context(number), &[&tlv(OCTET_STRING, &[bytes])])).unwrap_or_default());
    }
    tlv(context(1), &[&tlv(SEQUENCE, &[&fields])])
}

/// `None` if it is neither.
pub fn read(token: &[u8]) -> Option<Token<'_>> {
    match token.first()? {
        &APPLICATION_0 => read_init(token).map(Token::Init),
        _ => read_response(token).map(Token::Response),
    }
}

fn read_init(token: &[u8]) -> Option<Init<'_>> {
    let mut frame = Der(Der(token).only(APPLICATION_0)?);
    if frame.take(OBJECT_ID)? != SPNEGO {
        return None;
    }
    let mut fields = Der(Der(frame.only(context(0))?).only(SEQUENCE)?);
    let mechanisms = fields.take(context(0))?;
    let ntlm = preference(mechanisms)?;
    // What the client asks of the context (reqFlags): SMB does not let it choose.
    fields.optional(context(1))?;
    let token = fields.optional_octets(context(2))?;
    // A MIC (or, in Microsoft's own kind of this token, a hint and a MIC) means something only if the mechanism is done
    // with its first token. NTLM never is.
    fields.optional(context(3))?;
    fields.optional(context(4))?;
    fields.is_empty().then_some(Init { mechanisms, ntlm, token })
}

fn preference(mechanisms: &[u8]) -> Option<Preference> {
    let mut list = Der(Der(mechanisms).only(SEQUENCE)?);
    let mut found = Preference::Absent;
    let mut at = Preference::First;
    while !list.is_empty() {
        if list.take(OBJECT_ID)? == NTLMSSP && found == Preference::Absent {
            found = at;
        }
        at = Preference::Later;
    }
    Some(found)
}

fn read_response(token: &[u8]) -> Option<Response<'_>> {
    let mut fields = Der(Der(Der(token).only(context(1))?).only(SEQUENCE)?);
    let state = match fields.optional(context(0))? {
        None => None,
        Some(field) => {
            let number = Der(field).only(ENUMERATED)?;
            Some(State::ALL.into_iter().find(|state| [state.number()] == *number)?)
        }
    };
    if fields.optional(context(1))?.is_some_and(|mechanism| Der(mechanism).only(OBJECT_ID) != Some(NTLMSSP)) {
        return None;
    }
    let token = fields.optional_octets(context(2))?;
    let mic = fields.optional_octets(context(3))?;
    fields.is_empty().then_some(Response { state, token, mic })
}

/// What is left to read.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The content of the next element, which has this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&found, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // No token is as long as four bytes could say.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
                let is_shortest = bytes[0] != 0 && length >= 0x80;
                (is_shortest.then_some(length)?, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (found == tag).then_some(content)
    }

    /// The content of an element that is alone.
    fn only(mut self, tag: u8) -> Option<&'a [u8]> {
        let content = self.take(tag)?;
        self.is_empty().then_some(content)
    }

    /// The content of the next element, if it has this tag.
    fn optional(&mut self, tag: u8) -> Option<Option<&'a [u8]>> {
        if self.0.first() == Some(&tag) { self.take(tag).map(Some) } else { Some(None) }
    }

    fn optional_octets(&mut self, tag: u8) -> Option<Option<&'a [u8]>> {
        match self.optional(tag)? {
            None => Some(None),
            Some(field) => Der(field).only(OCTET_STRING).map(Some),
        }
    }
}

/// An element: tag, length, and a content in parts.
fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut element = vec![tag];
    if length < 0x80 {
        element.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        element.push(0x80 | (bytes.len() - zeros) as u8);
        element.extend(&bytes[zeros..]);
    }
    parts.iter().for_each(|part| element.extend(*part));
    element
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::vectors::{self, hex};

    #[test]
    fn the_hint_names_ntlm_alone() {
        let hint = hint();
        assert_eq!(hint, hex("601c 06062b0601050502 a012 3010 a00e 300c 060a2b06010401823702020a"));
        let Some(Token::Init(init)) = read(&hint) else { panic!("it is a first token") };
        assert_eq!((init.ntlm, init.token), (Preference::First, None));
    }

    #[test]
    fn the_published_tokens_are_read_and_written() {
        let conversation = vectors::conversation();
        let Some(Token::Init(init)) = read(&conversation.init) else { panic!("a first token") };
        assert_eq!((init.ntlm, init.mechanisms), (Preference::First, &*hex("300c060a2b06010401823702020a")));
        assert!(init.token.is_some_and(|token| token.starts_with(b"NTLMSSP\0\x01")));

        let Some(Token::Response(challenge)) = read(&conversation.challenge) else { panic!("a response") };
        assert_eq!((challenge.state, challenge.mic), (Some(State::Incomplete), None));
        assert_eq!(response(State::Incomplete, true, challenge.token, None), conversation.challenge);

        let Some(Token::Response(authenticate)) = read(&conversation.authenticate) else { panic!("a response") };
        assert!(authenticate.token.is_some_and(|token| token.starts_with(b"NTLMSSP\0\x03")));
        assert_eq!(authenticate.mic, Some(&*hex("0100000063775A9A5FD97F0600000000")));
        let Some(Token::Response(done)) = read(&conversation.done) else { panic!("a response") };
        assert_eq!(response(State::Completed, false, None, done.mic), conversation.done);
    }

    #[test]
    fn where_ntlm_stands_among_the_mechanisms() {
        const NTLM: &str = "060a2b06010401823702020a";
        const KERBEROS: &str = "06092a864886f712010202";
        for (list, expected) in [
            (vec![NTLM], Preference::First),
            (vec![NTLM, KERBEROS, NTLM], Preference::First),
            (vec![KERBEROS, NTLM], Preference::Later),
            (vec![KERBEROS], Preference::Absent),
            (vec![], Preference::Absent),
        ] {
            assert_eq!(preference(&tlv(SEQUENCE, &[&hex(&list.concat())])), Some(expected), "{list:?}");
        }
    }

    #[test]
    fn lengths_in_their_shortest_form_and_no_longer_than_what_is_there() {
        for (text, expected) in [
            ("0400", Some(0)),
            ("0401ff", Some(1)),
            ("0402ff", None),
            ("04", None),
            ("0480", None),
            ("048101ff", None),
            ("0481", None),
            ("04820080", None),
            ("0484000000010f", None),
            ("0488ffffffffffffffff", None),
            ("0401ff00", None),
            ("0501ff", None),
        ] {
            assert_eq!(Der(&hex(text)).only(OCTET_STRING).map(<[u8]>::len), expected, "{text}");
        }
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff, 0x10000] {
            let content = vec![7; length];
            assert_eq!(Der(&tlv(OCTET_STRING, &[&content])).only(OCTET_STRING), Some(&*content), "{length}");
        }
    }

    #[test]
    fn what_is_not_right_is_nothing() {
        for (what, text) in [
            ("nothing", ""),
            ("another mechanism's frame", "6012 06062a8648860505 a008 3006 a004 3002 0500"),
            ("bytes after the end", "a107 3005 a003 0a0100 00"),
            ("an unknown state", "a107 3005 a003 0a0104"),
            ("a state of two bytes", "a108 3006 a004 0a020000"),
            ("fields in another order", "a10d 300b a2040402 0102 a0030a0100"),
            ("a field of another kind", "a107 3005 a203 020100"),
            ("another mechanism chosen", "a10f 300d a10b 06092a864886f712010202"),
            ("a list that is none", "6012 06062b0601050502 a008 3006 a004 0402 0500"),
        ] {
            assert_eq!(read(&hex(text)), None, "{what}");
        }
        assert_eq!(
            read(&hex("a1023000")),
            Some(Token::Response(Response { state: None, token: None, mic: None })),
            "an empty response"
        );
    }

    #[test]
    fn no_truncated_token_is_one() {
        let conversation = vectors::conversation();
        for token in [hint(), conversation.init, conversation.challenge, conversation.authenticate, conversation.done] {
            for end in 0..token.len() {
                assert_eq!(read(&token[..end]), None);
            }
        }
    }
}
