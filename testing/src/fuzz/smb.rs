//! What strangers say to the SMB server before it knows them.

use bytes::Bytes;
use partition::file::security::DescriptorParts;
use smb::handlers::directory::matches;
use smb::security::acceptor::{Acceptor, Step};
use smb::security::ntlm::Server;
use smb::security::spnego::{self, Token};
use smb::wire::header::{Sealed, split};
use smb::wire::{create, info, io, negotiate, query, session};

/// The conversation that Microsoft published, without its envelope. Its last message is the one that is let in.
const NEGOTIATE: &[u8] = include_bytes!("../../../fuzz/seeds/ntlm_message/negotiate");
const AUTHENTICATE: &[u8] = include_bytes!("../../../fuzz/seeds/ntlm_message/authenticate");
const INIT: &[u8] = include_bytes!("../../../fuzz/seeds/spnego_token/init");

fn acceptor() -> Acceptor {
    let challenge = [0x0d, 0x1d, 0x8b, 0xa3, 0x11, 0x79, 0xd0, 0x08];
    Acceptor::new(Server { name: "SUT311".into(), challenge, now: 0x01d0_aecb_adf5_a1a1 })
}

fn passwords(user: &str) -> Vec<String> {
    if user == "administrator" { vec!["Password01!".into()] } else { Vec::new() }
}

/// A message of NTLM, as the first and as the last: only the very one that was proved is let in, for its MIC is over all.
pub fn ntlm_message(bytes: &[u8]) {
    let first = acceptor().step(bytes, passwords);
    assert!(!matches!(first, Step::Done { .. }), "let in without a challenge");
    let mut acceptor = acceptor();
    assert!(matches!(acceptor.step(NEGOTIATE, passwords), Step::Continue(_)));
    let last = acceptor.step(bytes, passwords);
    assert_eq!(matches!(last, Step::Done { .. }), bytes == AUTHENTICATE, "{last:?}");
}

/// A token, as the first, after a list alone, and as the last: what is let in has the right message in its envelope.
pub fn spnego_token(bytes: &[u8]) {
    let mut begun = acceptor();
    let first = begun.step(bytes, passwords);
    assert!(!matches!(first, Step::Done { .. }), "let in without a challenge");
    if matches!(first, Step::Continue(_)) {
        // Neither a challenge nor a choice is followed by a first token.
        assert_eq!(begun.step(INIT, passwords), Step::Malformed);
    }
    let mut acceptor = acceptor();
    assert!(matches!(acceptor.step(INIT, passwords), Step::Continue(_)));
    if let Step::Done { .. } = acceptor.step(bytes, passwords) {
        let Some(Token::Response(response)) = spnego::read(bytes) else { panic!("let in without an envelope") };
        assert_eq!(response.token, Some(AUTHENTICATE));
    }
}

/// A frame, and every message in it as if it were of each kind: what is read of it lies inside it.
pub fn smb_message(bytes: &[u8]) {
    let frame = Bytes::copy_from_slice(bytes);
    let _ = Sealed::decode(bytes);
    let _ = negotiate::offers_smb2(bytes);
    let Ok(messages) = split(&frame) else { return };
    assert_eq!(messages.iter().map(|(_, message)| message.len()).sum::<usize>(), frame.len());
    for (_, message) in messages {
        read_as_every_kind(&message);
    }
}

fn read_as_every_kind(message: &Bytes) {
    let bytes = message.len();
    let _ = negotiate::Request::decode(message);
    let _ = session::tree_connect_request(message);
    let _ = io::close_request(message);
    let _ = io::ReadRequest::decode(message);
    let _ = io::LockRequest::decode(message).is_none_or(|lock| lock.elements.len() * 24 <= bytes);
    let _ = io::NotifyRequest::decode(message);
    let _ = io::Acknowledgment::decode(message);
    let _ = query::QueryRequest::decode(message);
    assert!(session::SetupRequest::decode(message).is_none_or(|setup| setup.token.len() <= bytes));
    assert!(io::WriteRequest::decode(message).is_none_or(|write| write.data.len() <= bytes));
    if let Some(create) = create::Request::decode(message) {
        assert!(create.name.len() <= bytes);
        let _ = create.contexts.descriptor.and_then(DescriptorParts::parse).map(|parts| parts.to_binary());
    }
    if let Some(ioctl) = io::IoctlRequest::decode(message) {
        let _ = negotiate::Validation::decode(ioctl.input);
        let chunks = io::CopyRequest::decode(ioctl.input).and_then(|copy| copy.chunks());
        assert!(chunks.is_none_or(|chunks| chunks.len() * 24 <= bytes));
    }
    if let Some(directory) = query::DirectoryRequest::decode(message) {
        let pattern: Vec<char> = directory.pattern.chars().collect();
        matches(&pattern, "a name of some length.txt");
    }
    if let Some(set) = query::SetRequest::decode(message) {
        let _ = (info::Basic::decode(set.input), query::Rename::decode(set.input), DescriptorParts::parse(set.input));
    }
}
