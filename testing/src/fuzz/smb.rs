//! What strangers say to the SMB server before it knows them.

use smb::security::acceptor::{Acceptor, Step};
use smb::security::ntlm::Server;
use smb::security::spnego::{self, Token};

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
