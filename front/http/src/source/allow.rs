//! Which sources outside this server may be read: those that the configuration lists, and nothing by default.
//!
//! 1. A host that no entry names is refused before its name is looked up.
//! 2. An entry that names the host itself, or its address, allows it wherever it is. One that covers it with `*` allows it only at a public
//!    address: a name that anybody may register must not lead into the network that the server stands in.
//! 3. The address that was judged is the one that is connected to; a name is not looked up twice.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{SourceUrl, authority};

/// The entries of the list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AllowList(Vec<Entry>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    host: Pattern,
    /// `None` is the one of the scheme.
    port: Option<u16>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Pattern {
    /// `*`
    Any,
    /// `*.example.org`: every host whose name ends so, kept with its dot.
    Below(String),
    Host(String),
    Address(IpAddr),
}

impl AllowList {
    /// `host`, `host:port`, `*.example.org`, `[::1]:8080`, `*`.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<AllowList, String> {
        let entry = |text: &str| {
            let bad = || {
                format!("\"{text}\" is no source that could be allowed: HOST, HOST:PORT, *.DOMAIN, *.DOMAIN:PORT or *")
            };
            let (below, rest) = match text.strip_prefix('*') {
                Some(rest) => (true, rest),
                None => (false, text),
            };
            if below && (rest.is_empty() || rest.starts_with(':')) {
                let (_, port) = authority(&format!("any{rest}")).ok_or_else(bad)?;
                return Ok(Entry { host: Pattern::Any, port });
            }
            let (host, port) = authority(rest.strip_prefix('.').filter(|_| below).unwrap_or(rest)).ok_or_else(bad)?;
            let host = match (below, host.parse::<IpAddr>()) {
                (false, Ok(address)) => Pattern::Address(address),
                (false, Err(_)) => Pattern::Host(host),
                (true, Err(_)) if rest.starts_with('.') => Pattern::Below(format!(".{host}")),
                (true, _) => return Err(bad()),
            };
            Ok(Entry { host, port })
        };
        Ok(AllowList(entries.into_iter().map(entry).collect::<Result<_, _>>()?))
    }

    /// May the host be looked up at all?
    pub fn names(&self, url: &SourceUrl) -> bool {
        self.0.iter().any(|entry| entry.covers(url))
    }

    /// May this address be connected to, as one of the host's?
    pub fn admits(&self, url: &SourceUrl, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let covering: Vec<&Entry> = self.0.iter().filter(|entry| entry.covers(url)).collect();
        let is_named = |entry: &&Entry| matches!(entry.host, Pattern::Host(_) | Pattern::Address(_));
        if covering.iter().any(is_named) {
            return true;
        }
        let is_listed = |entry: &Entry| entry.host == Pattern::Address(address) && entry.is_port(url);
        !covering.is_empty() && (is_public(address) || self.0.iter().any(is_listed))
    }
}

impl Entry {
    fn is_port(&self, url: &SourceUrl) -> bool {
        self.port.unwrap_or(if url.https { 443 } else { 80 }) == url.port()
    }

    fn covers(&self, url: &SourceUrl) -> bool {
        let address = || url.host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        let is_host = match &self.host {
            Pattern::Any => true,
            Pattern::Below(end) => url.host.len() > end.len() && url.host.ends_with(end.as_str()),
            Pattern::Host(host) => *host == url.host,
            Pattern::Address(listed) => address() == Some(listed.to_canonical()),
        };
        is_host && self.is_port(url)
    }
}

/// An address of the internet at large: not this machine, not the network it stands in, nobody's in particular. An address that holds
/// another, so that a gateway would turn it into that, is what it holds.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let refused = a == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || a == 100 && (64..128).contains(&b) // shared by the customers of a provider
        || (a, b, c) == (192, 0, 0)           // protocol assignments
        || (a, b, c) == (192, 88, 99)         // relays of 6to4
        || a == 198 && (18..20).contains(&b)  // benchmarks
        || a >= 240; // reserved, and broadcast
    !refused
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let holds = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => holds(high, low), // NAT64
        [0x2002, high, low, ..] => holds(high, low),               // 6to4
        // What is given out globally; in it Teredo, benchmarks, ORCHID and documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> SourceUrl {
        SourceUrl::parse(text).expect("a url")
    }

    #[test]
    fn public_addresses() {
        for (address, expected) in [
            ("8.8.8.8", true),
            ("20.60.1.2", true),
            ("172.32.0.1", true),
            ("100.63.0.1", true),
            ("100.128.0.1", true),
            ("198.17.0.1", true),
            ("2606:4700::1111", true),
            ("2a00:1450::1", true),
            ("64:ff9b::808:808", true),
            ("::ffff:8.8.8.8", true),
            ("2002:808:808::1", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.0.0.1", false),
            ("100.64.0.1", false),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.168.1.1", false),
            ("192.0.0.8", false),
            ("192.0.2.1", false),
            ("192.88.99.1", false),
            ("198.18.0.1", false),
            ("198.51.100.1", false),
            ("203.0.113.1", false),
            ("224.0.0.1", false),
            ("239.255.255.255", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b:1::1", false),
            ("100::1", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("3fff::1", false),
            ("2002:7f00:1::1", false),
            ("2002:a00:1::1", false),
            ("fc00::1", false),
            ("fd12:3456::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().expect("an address")), expected, "{address}");
        }
    }

    /// The list, the source, the address its name was found to have: may it be looked up, and connected to?
    #[test]
    fn sources_and_their_addresses() {
        for (list, source, address, named, admitted) in [
            (&[][..], "http://example.org/a", "8.8.8.8", false, false),
            (&["example.org"], "http://example.org/a", "8.8.8.8", true, true),
            (&["example.org"], "https://example.org/a", "8.8.8.8", true, true),
            (&["example.org"], "https://EXAMPLE.org./a", "8.8.8.8", true, true),
            (&["example.org"], "http://example.org:8080/a", "8.8.8.8", false, false),
            (&["example.org:8080"], "http://example.org:8080/a", "8.8.8.8", true, true),
            (&["example.org:8080"], "http://example.org/a", "8.8.8.8", false, false),
            (&["example.org"], "http://www.example.org/a", "8.8.8.8", false, false),
            (&["*.example.org"], "http://www.example.org/a", "8.8.8.8", true, true),
            (&["*.example.org"], "http://a.b.example.org/a", "8.8.8.8", true, true),
            (&["*.example.org"], "http://example.org/a", "8.8.8.8", false, false),
            (&["*.example.org"], "http://notexample.org/a", "8.8.8.8", false, false),
            (&["*.example.org"], "http://example.org.evil.net/a", "8.8.8.8", false, false),
            // Covered, but the name leads inside.
            (&["*.example.org"], "http://www.example.org/a", "127.0.0.1", true, false),
            (&["*.example.org"], "http://www.example.org/a", "169.254.169.254", true, false),
            (&["*.example.org"], "http://www.example.org/a", "::ffff:10.0.0.1", true, false),
            (&["*.example.org", "10.0.0.1"], "http://www.example.org/a", "10.0.0.1", true, true),
            (&["*.example.org", "10.0.0.1:8080"], "http://www.example.org/a", "10.0.0.1", true, false),
            // Named itself: wherever it is.
            (&["files.intra:8080"], "http://files.intra:8080/a", "10.0.0.1", true, true),
            (&["127.0.0.1:8080"], "http://127.0.0.1:8080/a", "127.0.0.1", true, true),
            (&["127.0.0.1:8080"], "http://127.0.0.1:8081/a", "127.0.0.1", false, false),
            (&["127.0.0.1:8080"], "http://localhost:8080/a", "127.0.0.1", false, false),
            (&["127.0.0.1:8080"], "http://[::ffff:127.0.0.1]:8080/a", "127.0.0.1", true, true),
            (&["[::1]:8080"], "http://[::1]:8080/a", "::1", true, true),
            // Numbers that are read as addresses by some are a name like any other.
            (&["127.0.0.1"], "http://2130706433/a", "127.0.0.1", false, false),
            (&["*"], "http://2130706433/a", "127.0.0.1", true, false),
            (&["*"], "http://anything/a", "8.8.8.8", true, true),
            (&["*"], "http://anything:81/a", "8.8.8.8", false, false),
            (&["*:81"], "http://anything:81/a", "8.8.8.8", true, true),
            (&["*"], "http://10.1.1.1/a", "10.1.1.1", true, false),
            (&["*"], "http://169.254.169.254/latest/meta-data", "169.254.169.254", true, false),
        ] {
            let (list, source) = (AllowList::parse(list.iter().copied()).expect("a list"), url(source));
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(
                (list.names(&source), list.admits(&source, address)),
                (named, admitted),
                "{list:?} {source:?} {address}"
            );
        }
    }

    #[test]
    fn entries_that_mean_nothing_are_refused() {
        for text in ["", "http://h", "h/p", "*example.org", "*.", "*.10.0.0.1", "a b", "h:", "h:x", "*:", "[::1", "u@h"]
        {
            assert!(AllowList::parse([text]).is_err(), "{text}");
        }
    }
}
