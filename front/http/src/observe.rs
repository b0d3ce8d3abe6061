//! What became of each request, told to whoever looks. Nobody is told as a rule, and then a request pays for one look at whether somebody
//! is.

use std::net::IpAddr;

use contract::operations::OperationId;
use contract::{Refusal, Service};
use env::{Id, Timestamp};

use crate::app::App;
use crate::respond::Context;
use crate::wire::{Head, Response};

/// Hears of every answer, on the request's own time: it must be quick, and it never waits.
pub trait Observer: Send + Sync {
    fn answered(&self, seen: &Seen<'_>);
}

/// One request and its answer, as the answer goes out. `head` has what the client sent, secrets included: whoever keeps it keeps `target`
/// without them (`without_signature`).
pub struct Seen<'a> {
    pub id: Id,
    /// When its head had been read.
    pub began: Timestamp,
    /// Until the answer's first byte could be sent, in ticks of 100 ns.
    pub ticks: u64,
    pub service: Service,
    /// `None` if it never came so far.
    pub operation: Option<OperationId>,
    /// The account it was addressed to, whoever sent it; `None` if there is no such account.
    pub account: Option<&'a str>,
    /// `None` if what came was no request.
    pub head: Option<&'a Head>,
    pub client: Option<IpAddr>,
    /// Of the refusal, where an answer brings one inside: a refused transaction of entities is 202 outside.
    pub status: u16,
    pub code: Option<&'a str>,
    pub refusal: Option<&'a Refusal>,
    /// What the server would have signed, if a signature was refused. No key is in it, nor what clients send as secrets.
    pub string_to_sign: Option<&'a str>,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl App {
    /// Somebody looks. Set once, before anybody is served.
    pub fn set_observer(&self, observer: std::sync::Arc<dyn Observer>) {
        let _ = self.observer.set(observer); // the first one stays
    }

    pub(crate) fn is_observed(&self) -> bool {
        self.observer.get().is_some()
    }

    pub(crate) fn observe(&self, context: &Context<'_>, client: Option<IpAddr>, bytes_in: u64, response: &Response) {
        let Some(observer) = self.observer.get() else { return };
        let refusal = response.refusal.as_deref();
        let relayed = || {
            let headers = if response.is_relayed { response.headers.as_slice() } else { &[] };
            let header = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-ms-error-code"));
            header.map(|(_, code)| code.as_ref())
        };
        observer.answered(&Seen {
            id: context.id,
            began: context.now,
            ticks: self.shell.clock.now().ticks().saturating_sub(context.now.ticks()),
            service: context.service,
            operation: context.operation,
            account: context.account.as_ref().map(|account| account.name.as_str()),
            head: context.head,
            client,
            status: refusal.map_or(response.status, |refusal| refusal.status),
            code: refusal.map(|refusal| refusal.code.name()).or_else(relayed),
            refusal,
            string_to_sign: context.string_to_sign.as_deref(),
            bytes_in,
            bytes_out: response.body_bytes(),
        });
    }
}

/// A target without the signature of a SAS, wherever in it that stands: as a parameter, or in an address that a client escaped by mistake.
pub fn without_signature(target: &str) -> String {
    let mut shown = String::with_capacity(target.len());
    let mut rest = target;
    while let Some((at, length)) = signature_in(rest) {
        shown.push_str(&rest[..at]);
        shown.push_str("...");
        rest = &rest[at + length..];
    }
    shown.push_str(rest);
    shown
}

/// Where the next value of `sig` is, and how long it is. A name that ends so is taken for one: too much hidden does no harm.
fn signature_in(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    // The letters may be escaped, each on its own, and escapes escaped again.
    let letter = |at: usize, wanted: u8| {
        let mut next = at;
        if bytes.get(next) == Some(&b'%') {
            next += 1;
            while bytes.get(next..next + 2) == Some(b"25") {
                next += 2;
            }
            let digits = std::str::from_utf8(bytes.get(next..next + 2)?).ok()?;
            let byte = u8::from_str_radix(digits, 16).ok()?;
            return (byte.to_ascii_lowercase() == wanted).then_some(next + 2);
        }
        (bytes.get(next)?.to_ascii_lowercase() == wanted).then_some(next + 1)
    };
    (0..bytes.len()).find_map(|start| {
        let end = b"sig=".iter().try_fold(start, |at, wanted| letter(at, *wanted))?;
        let length = text[end..].find('&').unwrap_or(text.len() - end);
        Some((end, length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_left_out() {
        for (target, expected) in [
            ("/a/c/b", "/a/c/b"),
            ("/a/c/b?sv=1&sig=secret%3D&se=2", "/a/c/b?sv=1&sig=...&se=2"),
            ("/a/c/b?sv=1&SIG=secret", "/a/c/b?sv=1&SIG=..."),
            ("/a/c/b?%73ig=secret&x=1", "/a/c/b?%73ig=...&x=1"),
            ("/a/c/b?s%69%47=secret", "/a/c/b?s%69%47=..."),
            ("/a/c/b?sig=one&sig=two", "/a/c/b?sig=...&sig=..."),
            ("/a/c/b%3Fsv%3D1%26sig%3Dsecret%26se%3D2", "/a/c/b%3Fsv%3D1%26sig%3D..."),
            ("/a/c/b?x=c%252Fb%253Fsig%253Dsecret&y=1", "/a/c/b?x=c%252Fb%253Fsig%253D...&y=1"),
            ("/a/c/b?sig%3Dsecret", "/a/c/b?sig%3D..."),
            ("/a/c/design=1/sig", "/a/c/design=1/sig"),
            ("/a/c?sig", "/a/c?sig"),
            ("/a/c?sig=", "/a/c?sig=..."),
            ("/a/é%", "/a/é%"),
        ] {
            assert_eq!(without_signature(target), expected, "{target}");
            assert!(!without_signature(target).contains("secret"), "{target}");
        }
    }
}
