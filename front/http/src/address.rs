//! Whose account, and what in it: host style `{account}[-secondary].{service}.<anything>` first, if the account is known, otherwise path
//! style `/{account}[-secondary]/…`.

use contract::{ErrorCode, Refusal, Service};

use crate::query::percent_decode;

/// Where a request goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    pub account: String,
    pub secondary: bool,
    /// The account is the path's first segment, not the host's first label.
    pub is_path_style: bool,
    /// The path as it was sent, without the query.
    pub raw_path: String,
    /// Behind the account: the first segment, decoded; empty for the account itself.
    pub first: String,
    /// Everything behind the first segment's slash, decoded; `None` without that slash, or if nothing follows it.
    pub rest: Option<String>,
    /// `http://127.0.0.1:10000/devstoreaccount1/`, as it stands in listings.
    pub endpoint: String,
}

impl Address {
    pub fn parse(
        service: Service,
        target: &str,
        host: &str,
        tls: bool,
        knows: impl Fn(&str) -> bool,
    ) -> Result<(Address, String), Refusal> {
        // A target with scheme and host, as proxies send it, names the host itself.
        let absolute = if target.starts_with('/') { None } else { target.split_once("://") };
        let (host, target) = match absolute {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") => {
                let at = rest.find(['/', '?']).unwrap_or(rest.len());
                (&rest[..at], if at == rest.len() { "/" } else { &rest[at..] })
            }
            _ => (host, target),
        };
        let (raw_path, query) = target.split_once('?').unwrap_or((target, ""));
        let raw_path = if raw_path.is_empty() { "/" } else { raw_path };
        if !raw_path.starts_with('/') || target.contains('#') {
            return Err(ErrorCode::InvalidUri.into());
        }
        let scheme = if tls { "https" } else { "http" };
        let decode = |text: &str| percent_decode(text).ok_or(ErrorCode::InvalidUri);
        let by_host = host_account(service.name(), host).filter(|(name, _)| knows(name));
        let is_path_style = by_host.is_none();
        let (account, secondary, endpoint, inside) = match by_host {
            Some((name, secondary)) => {
                (name.to_string(), secondary, [scheme, "://", host, "/"].concat(), &raw_path[1..])
            }
            None => {
                let (segment, inside) = raw_path[1..].split_once('/').unwrap_or((&raw_path[1..], ""));
                let segment = decode(segment)?;
                let (name, secondary) = without_secondary(&segment);
                (name.to_string(), secondary, [scheme, "://", host, "/", &segment, "/"].concat(), inside)
            }
        };
        let (first, rest) = match inside.split_once('/') {
            Some((first, rest)) => (decode(first)?, Some(decode(rest)?).filter(|rest| !rest.is_empty())),
            None => (decode(inside)?, None),
        };
        let address =
            Address { account, secondary, is_path_style, raw_path: raw_path.to_string(), first, rest, endpoint };
        Ok((address, query.to_string()))
    }
}

/// The account in a host name of the form `{account}[-secondary].{service}.…`.
pub fn host_account<'a>(service: &str, host: &'a str) -> Option<(&'a str, bool)> {
    let (label, rest) = host.split_once('.')?;
    let next = rest.split(['.', ':']).next()?;
    next.eq_ignore_ascii_case(service).then(|| without_secondary(label))
}

fn without_secondary(name: &str) -> (&str, bool) {
    match name.strip_suffix("-secondary") {
        Some(name) => (name, true),
        None => (name, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: &str, host: &str, expected: &str) {
        let knows = |name: &str| ["dev", "web"].contains(&name);
        let got = match Address::parse(Service::Blob, target, host, false, knows) {
            Ok((a, query)) => {
                let secondary = if a.secondary { " secondary" } else { "" };
                format!(
                    "{}{secondary} [{}] {:?} ?{query} {}",
                    a.account,
                    a.first,
                    a.rest.as_deref().unwrap_or("-"),
                    a.endpoint
                )
            }
            Err(refusal) => refusal.code.name().to_string(),
        };
        assert_eq!(got, expected, "{host} {target}");
    }

    #[test]
    fn path_style() {
        let host = "127.0.0.1:10000";
        check("/dev/c/b?x=1", host, "dev [c] \"b\" ?x=1 http://127.0.0.1:10000/dev/");
        check("/dev", host, "dev [] \"-\" ? http://127.0.0.1:10000/dev/");
        check("/dev/", host, "dev [] \"-\" ? http://127.0.0.1:10000/dev/");
        check("/dev?comp=list", host, "dev [] \"-\" ?comp=list http://127.0.0.1:10000/dev/");
        check("/dev-secondary/c", host, "dev secondary [c] \"-\" ? http://127.0.0.1:10000/dev-secondary/");
        check("/dev/c/", host, "dev [c] \"-\" ? http://127.0.0.1:10000/dev/");
        check("/dev/c//a//b/", host, "dev [c] \"/a//b/\" ? http://127.0.0.1:10000/dev/");
        check("/dev/c/a%2Fb%20c", host, "dev [c] \"a/b c\" ? http://127.0.0.1:10000/dev/");
        check("/nobody/c", host, "nobody [c] \"-\" ? http://127.0.0.1:10000/nobody/");
        check("/", host, " [] \"-\" ? http://127.0.0.1:10000//");
        check("http://h:1/dev/c", host, "dev [c] \"-\" ? http://h:1/dev/");
    }

    #[test]
    fn host_style() {
        check("/c/b", "dev.blob.localhost:10000", "dev [c] \"b\" ? http://dev.blob.localhost:10000/");
        check("/", "dev-secondary.blob.example.org", "dev secondary [] \"-\" ? http://dev-secondary.blob.example.org/");
        check("/c", "dev.queue.localhost", "c [] \"-\" ? http://dev.queue.localhost/c/");
        // A host name that only looks like it does not hide the path's account.
        check("/dev/c", "other.blob.internal", "dev [c] \"-\" ? http://other.blob.internal/dev/");
        check("/dev/c", "blob.internal", "dev [c] \"-\" ? http://blob.internal/dev/");
        check("/dev/c", "blob", "dev [c] \"-\" ? http://blob/dev/");
    }

    #[test]
    fn bad_paths() {
        for target in ["/dev/c/%", "/dev/c/%zz", "/dev/c/%ff", "*", "dev/c", "/dev/c#x", "/%ff/c"] {
            check(target, "h", "InvalidUri");
        }
    }
}
