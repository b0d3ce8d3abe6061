//! Bearer tokens.

use contract::roles::ROLES;
use env::Clock;
use testing::{Issuer, Request};

use crate::{Watched, chance, others};

/// Every byte of a token, through the front end: 401, whatever it becomes. The last characters of the Base64 too: bits that decode to
/// nothing must be zero.
#[tokio::test]
async fn no_byte_of_a_token_can_be_changed() {
    let mut chance = chance("jwt");
    let (issuer, watched) = (Issuer::new(), Watched::new().await);
    watched.world.app.set_tokens(Some(issuer.tokens(&ROLES.iter().map(|role| role.name).collect::<Vec<_>>())));
    let token = issuer.token(&Issuer::claims(watched.world.clock.now()));
    let head = |token: &[u8]| {
        let start = "DELETE /devstoreaccount1/box/b HTTP/1.1\r\nHost: localhost\r\nx-ms-version: 2026-04-06\r\nAuthorization: Bearer ";
        [start.as_bytes(), token, b"\r\n\r\n"].concat()
    };
    for at in 0..token.len() {
        for other in others(&mut chance, token.as_bytes()[at], 4) {
            let mut changed = token.clone().into_bytes();
            changed[at] = other;
            // Blanks around a value do not count.
            if changed.trim_ascii() == token.as_bytes() {
                continue;
            }
            let commits = watched.engine.commits();
            let answer = watched.world.send_raw_over(contract::Service::Blob, true, &head(&changed)).await;
            // Bytes that no header may have make it no request, a line feed a shorter token and a header.
            let expected =
                if other < b' ' && other != b'\t' || other == 0x7f || other > 0x7f { [400, 401] } else { [401, 401] };
            assert!(expected.contains(&answer.status), "{at} {other:#x}: {}", answer.text());
            assert_eq!(watched.engine.commits(), commits, "{at} {other:#x}");
        }
    }
    let delete = Request::new("DELETE box/b").with_bearer(&token);
    assert_eq!(watched.world.send_secure(&delete).await.status, 202);
}
