//! The other gateways of a cluster: how a request is vouched for that one passes on to another, and how one asks another for a share.
//!
//! A request that is passed on says for whom, in a header that is signed with a secret which lives in the cluster. Whoever has the secret may
//! say which address a client has, and ask for shares; it opens nothing that the request's own credential does not open. The header
//! counts on the port of peers alone. Elsewhere it means nothing, like any header that no operation knows.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::BytesMut;
use engine::{BoxFuture, GroupId};
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use partition::file::tenure::Neighbours;
use sha2::Sha256;

use crate::wire::link::{Answered, Links, NotAnswered, Rest, has_body};
use crate::wire::{Body, BodyKind, Head};

/// For whom, how the client came, and a signature over both and over the request's line.
pub const FORWARDED: &str = "x-lazuli-forwarded";
/// Who owns the share, where whoever was asked does not any more.
pub const OWNER: &str = "x-lazuli-owner";
/// Headers between gateways, which no client sends or sees.
const OURS: &str = "x-lazuli-";

/// `POST /.lazuli/let-go?group=`: asks for a share. No account has such a name.
const LET_GO: &str = "/.lazuli/let-go?group=";

/// A client, as the gateway that it is connected to sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Client {
    pub address: IpAddr,
    pub tls: bool,
}

impl Client {
    fn scheme(self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

pub struct Peers {
    mac: Hmac<Sha256>,
    links: Arc<Links>,
}

impl Peers {
    pub fn new(secret: [u8; 32]) -> Peers {
        let mac = Hmac::new_from_slice(&secret).expect("a key of any length is taken");
        Peers { mac, links: Arc::default() }
    }

    fn signed(&self, client: Client, method: &str, target: &str) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(format!("{method}\n{target}\n{}\n{}", client.address, client.scheme()).as_bytes());
        mac
    }

    fn vouch(&self, client: Client, method: &str, target: &str) -> String {
        let signature = self.signed(client, method, target).finalize().into_bytes();
        format!("{} {} {}", client.address, client.scheme(), STANDARD.encode(signature))
    }

    /// The client that a request was passed on for; `None` if no gateway of this cluster says so.
    pub fn visitor(&self, head: &Head) -> Option<Client> {
        let mut words = head.header(FORWARDED)?.split(' ');
        let address = words.next()?.parse().ok()?;
        let tls = match words.next()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let client = Client { address, tls };
        let signature = STANDARD.decode(words.next()?).ok()?;
        self.signed(client, head.method(), head.target()).verify_slice(&signature).ok()?;
        Some(client)
    }

    /// The head as it goes on to another gateway: as it came, but for what is between two ends of one connection.
    fn head(&self, client: Client, head: &Head) -> Vec<u8> {
        const BETWEEN_ENDS: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "expect", "host"];
        let (method, target) = (head.method(), head.target());
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n", head.header("host").unwrap_or_default());
        text.push_str(&format!("{FORWARDED}: {}\r\n", self.vouch(client, method, target)));
        for (name, value) in head.all_headers() {
            let lower = name.to_ascii_lowercase();
            if !BETWEEN_ENDS.contains(&lower.as_str()) && !lower.starts_with(OURS) {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        text.push_str(if has_body(head.body) { "Expect: 100-continue\r\n\r\n" } else { "\r\n" });
        text.into()
    }

    /// Passes a request on.
    pub async fn forward(
        &self,
        address: &str,
        client: Client,
        head: &Head,
        body: &mut Body<'_>,
    ) -> Result<(Answered, Rest), NotAnswered> {
        let bytes = self.head(client, head);
        let (mut answered, rest) = self.links.ask(address, head.method(), &bytes, body, head.body).await?;
        answered
            .headers
            .retain(|(name, _)| !["content-length", "connection"].contains(&name.to_ascii_lowercase().as_str()));
        Ok((answered, rest))
    }

    async fn ask_for(&self, address: &str, group: &GroupId) -> Result<bool, NotAnswered> {
        let target = format!("{LET_GO}{}", URL_SAFE_NO_PAD.encode(&group.0));
        let this = Client { address: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), tls: false };
        let vouched = self.vouch(this, "POST", &target);
        let head = format!("POST {target} HTTP/1.1\r\nHost: {address}\r\n{FORWARDED}: {vouched}\r\n\r\n");
        let (mut nothing, mut buffer) = (tokio::io::empty(), BytesMut::new());
        let mut body = Body::new(&mut nothing, &mut buffer, BodyKind::Absent, false, std::time::Duration::ZERO);
        let (answered, _) = self.links.ask(address, "POST", head.as_bytes(), &mut body, BodyKind::Absent).await?;
        Ok(answered.status == 200)
    }
}

/// The share that a request of another gateway asks for.
pub fn asked_for(head: &Head) -> Option<GroupId> {
    let group = head.target().strip_prefix(LET_GO).filter(|_| head.method() == "POST")?;
    Some(GroupId(URL_SAFE_NO_PAD.decode(group).ok()?.into()))
}

impl Neighbours for Peers {
    fn ask<'a>(&'a self, address: &'a str, group: &'a GroupId) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            self.ask_for(address, group).await.unwrap_or_else(|error| {
                tracing::warn!(address, ?error, "the owner of a share could not be asked for it");
                false
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head::parse(format!("{}\r\n\r\n", text.replace('\n', "\r\n")).as_bytes()).expect("right").expect("whole").0
    }

    fn client(address: &str, tls: bool) -> Client {
        Client { address: address.parse().expect("an address"), tls }
    }

    #[test]
    fn a_head_goes_on_as_it_came() {
        let peers = Peers::new([7; 32]);
        let came = head(
            "PUT /a%2fb?x=%20 HTTP/1.1\nHost: h:1\nConnection: close\nExpect: 100-continue\nx-ms-meta-Hello: W  d\n\
             x-lazuli-forwarded: 1.2.3.4 https x\nContent-Length: 7",
        );
        let sent = String::from_utf8(peers.head(client("10.0.0.9", true), &came)).expect("text");
        let vouched = peers.vouch(client("10.0.0.9", true), "PUT", "/a%2fb?x=%20");
        let expected = format!(
            "PUT /a%2fb?x=%20 HTTP/1.1\nHost: h:1\nx-lazuli-forwarded: {vouched}\nx-ms-meta-Hello: W  d\nContent-Length: 7\n\
             Expect: 100-continue\n\n"
        );
        assert_eq!(sent, expected.replace('\n', "\r\n"));
        let without = peers.head(client("::1", false), &head("GET / HTTP/1.0"));
        assert!(!String::from_utf8(without).expect("text").contains("Expect"));
    }

    #[test]
    fn whom_a_gateway_vouches_for() {
        let (peers, others) = (Peers::new([7; 32]), Peers::new([8; 32]));
        let of = |client, target: &str| peers.vouch(client, "GET", target);
        let (near, far) = (client("10.0.0.9", false), client("2001:db8::1", true));
        for (value, expected) in [
            (of(near, "/a/b"), Some(near)),
            (of(far, "/a/b"), Some(far)),
            (of(near, "/a/c"), None),
            (of(near, "/a/b").replace("10.0.0.9", "10.0.0.8"), None),
            (of(near, "/a/b").replace("http", "https"), None),
            (others.vouch(near, "GET", "/a/b"), None),
            ("10.0.0.9 http".into(), None),
            ("10.0.0.9 http !".into(), None),
            ("10.0.0.9 gopher AAAA".into(), None),
            (String::new(), None),
        ] {
            let came = head(&format!("GET /a/b HTTP/1.1\nHost: h\nx-lazuli-forwarded: {value}"));
            assert_eq!(peers.visitor(&came), expected, "{value}");
        }
        assert_eq!(peers.visitor(&head("GET /a/b HTTP/1.1\nHost: h")), None);
    }

    #[test]
    fn shares_are_asked_for() {
        for (line, expected) in [
            ("POST /.lazuli/let-go?group=ZmE", Some("fa")),
            ("GET /.lazuli/let-go?group=ZmE", None),
            ("POST /.lazuli/let-go?group=%", None),
            ("POST /account/share", None),
        ] {
            let group = asked_for(&head(&format!("{line} HTTP/1.1\nHost: h")));
            assert_eq!(group, expected.map(|text| GroupId(text.as_bytes().to_vec().into())), "{line}");
        }
    }
}
