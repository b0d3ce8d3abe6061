//! Whole conversations.

use super::*;
use crate::security::ntlm::tests::{Client, keys, server};
use crate::security::vectors::{self, array, hex};

const KERBEROS_THEN_NTLM: &str = "06092a864886f712010202 060a2b06010401823702020a";
const NTLM: &str = "060a2b06010401823702020a";

/// A first token.
fn init(mechanisms: &str, token: Option<&[u8]>) -> Vec<u8> {
    let element = |tag: u8, content: &[u8]| {
        let mut bytes = vec![tag];
        match content.len() {
            length @ 0..0x80 => bytes.push(length as u8),
            length => bytes.extend([0x82, (length >> 8) as u8, length as u8]),
        }
        // Long enough for two bytes of length, or short enough for none.
        assert!(!(0x80..0x100).contains(&content.len()));
        bytes.extend(content);
        bytes
    };
    let mut fields = element(0xa0, &list(mechanisms));
    fields.extend(token.map(|token| element(0xa2, &element(0x04, token))).unwrap_or_default());
    let spnego = hex("06062b0601050502");
    element(0x60, &[spnego, element(0xa0, &element(0x30, &fields))].concat())
}

fn list(mechanisms: &str) -> Vec<u8> {
    let mechanisms = hex(mechanisms);
    [vec![0x30, mechanisms.len() as u8], mechanisms].concat()
}

fn response(token: &[u8], mic: Option<&[u8]>) -> Vec<u8> {
    spnego::response(Negotiation::Incomplete, false, Some(token), mic)
}

/// The NTLM message in a token of the server.
fn inner(step: Step) -> Vec<u8> {
    let Step::Continue(token) = step else { panic!("it goes on") };
    let Some(Token::Response(response)) = spnego::read(&token) else { panic!("a response") };
    response.token.expect("a challenge").to_vec()
}

/// Byte for byte, and in the end the session key that was published.
#[test]
fn the_published_conversation() {
    let conversation = vectors::conversation();
    let mut acceptor = Acceptor::new(Server {
        name: "SUT311".into(),
        challenge: array("0D1D8BA31179D008"),
        now: 0x01D0_AECB_ADF5_A1A1,
    });
    let passwords = |user: &str| {
        assert_eq!(user, vectors::USER);
        vec!["another".into(), vectors::PASSWORD.into(), "a third".into()]
    };
    assert_eq!(acceptor.step(&conversation.init, passwords), Step::Continue(conversation.challenge));
    assert_eq!(
        acceptor.step(&conversation.authenticate, passwords),
        Step::Done { user: vectors::USER.into(), session_key: array(vectors::SESSION_KEY), token: conversation.done }
    );
}

#[test]
fn ntlm_without_an_envelope() {
    let (client, mut acceptor) = (Client::new("account", "key two=="), Acceptor::new(server()));
    let negotiate = client.negotiate();
    let Step::Continue(challenge) = acceptor.step(&negotiate, keys) else { panic!("a challenge") };
    let (message, session_key) = client.authenticate(&negotiate, &challenge);
    let done = Step::Done { user: "account".into(), session_key, token: Vec::new() };
    assert_eq!(acceptor.step(&message, keys), done);
    assert_eq!(acceptor.step(&message, keys), Step::Malformed, "it is over");
}

#[test]
fn no_more_is_kept_than_a_client_needs() {
    let long = |token: Vec<u8>, bytes| [token, vec![0; bytes]].concat();
    let negotiate = Client::new("account", "key two==").negotiate();
    for (bytes, is_kept) in [(1000, true), (KEPT_BYTES_MAX, false)] {
        let mut acceptor = Acceptor::new(server());
        let step = acceptor.step(&long(negotiate.clone(), bytes), keys);
        assert_eq!(matches!(step, Step::Continue(_)), is_kept, "{bytes}");
    }
}

#[test]
fn a_list_without_a_token_and_ntlm_as_second_choice() {
    for (mechanisms, token, state) in [
        (NTLM, None, Negotiation::Incomplete),
        (KERBEROS_THEN_NTLM, None, Negotiation::RequestMic),
        (KERBEROS_THEN_NTLM, Some(&b"a ticket"[..]), Negotiation::RequestMic),
    ] {
        for confirms in [true, false] {
            let (client, mut acceptor) = (Client::new("account", "key one=="), Acceptor::new(server()));
            let chosen = spnego::response(state, true, None, None);
            assert_eq!(acceptor.step(&init(mechanisms, token), keys), Step::Continue(chosen));
            let negotiate = client.negotiate();
            let challenge = inner(acceptor.step(&response(&negotiate, None), keys));
            let (message, session_key) = client.authenticate(&negotiate, &challenge);
            let ours = ntlm::authenticate(&negotiate, &challenge, &server(), &message, keys).expect("it is right");
            let mic = ours.sign(Speaker::Client, &list(mechanisms));
            let step = acceptor.step(&response(&message, confirms.then_some(&mic)), keys);
            let Step::Done { user, session_key: key, token } = step else { panic!("{step:?}") };
            assert_eq!((user.as_str(), key), ("account", session_key));
            let Some(Token::Response(done)) = spnego::read(&token) else { panic!("a response") };
            assert_eq!((done.state, done.token), (Some(Negotiation::Completed), None));
            assert_eq!(done.mic.is_some(), confirms);
            assert!(done.mic.is_none_or(|mic| ours.verify(Speaker::Server, &list(mechanisms), mic)));
        }
    }
}

#[test]
fn a_list_that_was_changed_on_its_way() {
    let (client, mut acceptor) = (Client::new("account", "key one=="), Acceptor::new(server()));
    let negotiate = client.negotiate();
    let challenge = inner(acceptor.step(&init(NTLM, Some(&negotiate)), keys));
    let (message, _) = client.authenticate(&negotiate, &challenge);
    let ours = ntlm::authenticate(&negotiate, &challenge, &server(), &message, keys).expect("it is right");
    let mic = ours.sign(Speaker::Client, &list(KERBEROS_THEN_NTLM));
    assert_eq!(acceptor.step(&response(&message, Some(&mic)), keys), Step::Denied);
}

#[test]
fn what_ends_it() {
    let client = Client::new("account", "key one==");
    let negotiate = client.negotiate();
    let first = init(NTLM, Some(&negotiate));
    let challenge = ntlm::challenge(&negotiate, &server()).expect("it is right");
    for (what, tokens, expected) in [
        ("nothing", vec![vec![]], Step::Malformed),
        ("a mechanism we do not have", vec![init("06092a864886f712010202", None)], Step::Denied),
        ("a list of none", vec![init("", None)], Step::Denied),
        ("a response first", vec![response(&negotiate, None)], Step::Malformed),
        ("something else in the envelope", vec![init(NTLM, Some(b"NTLMSSP"))], Step::Malformed),
        ("an answer first", vec![client.authenticate(&negotiate, &challenge).0], Step::Malformed),
        ("a first token twice", vec![first.clone(), first.clone()], Step::Malformed),
        ("the envelope left away", vec![first.clone(), negotiate.clone()], Step::Malformed),
        ("no token", vec![first.clone(), hex("a1023000")], Step::Malformed),
        ("the client gave up", vec![first.clone(), hex("a1073005a0030a0102")], Step::Denied),
        ("a challenge for a challenge", vec![negotiate.clone(), negotiate.clone()], Step::Malformed),
    ] {
        let mut acceptor = Acceptor::new(server());
        let (last, before) = tokens.split_last().expect("one at least");
        for token in before {
            assert!(matches!(acceptor.step(token, keys), Step::Continue(_)), "{what}");
        }
        assert_eq!(acceptor.step(last, keys), expected, "{what}");
        assert_eq!(acceptor.step(&first, keys), Step::Malformed, "{what}: it is over");
    }
}

#[test]
fn no_truncated_token_is_let_in() {
    let conversation = vectors::conversation();
    for end in 0..conversation.authenticate.len() {
        let mut acceptor = Acceptor::new(server());
        acceptor.step(&conversation.init, keys);
        assert_eq!(acceptor.step(&conversation.authenticate[..end], keys), Step::Malformed, "{end} bytes");
    }
    for end in 0..conversation.init.len() {
        assert_eq!(Acceptor::new(server()).step(&conversation.init[..end], keys), Step::Malformed, "{end} bytes");
    }
}
