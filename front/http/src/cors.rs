//! Which pages of other origins may read the answers: the rules of a service, held against a preflight and against an actual request.

use std::borrow::Cow;

use contract::{ErrorCode, Refusal};
use partition::record::service::CorsRule;

type Headers = Vec<(&'static str, String)>;

/// The headers of the 200. A browser that gets anything else does not send the actual request.
pub fn preflight(
    rules: &[CorsRule],
    origin: Option<&str>,
    method: Option<&str>,
    requested_headers: &str,
) -> Result<Headers, Refusal> {
    let origin = origin.ok_or_else(|| Refusal::bad_header("Origin", ""))?;
    let method = method.ok_or_else(|| Refusal::bad_header("Access-Control-Request-Method", ""))?;
    let refused = |why: &str| Refusal::from(ErrorCode::CorsPreflightFailure).with("MessageDetails", why);
    // The first rule that fits origin and method decides; a later one is not looked at even if it would allow the headers.
    let rule = select(rules, Some(origin), method).ok_or_else(|| {
        refused(if rules.is_empty() {
            "CORS is not enabled for this service."
        } else {
            "No CORS rule matches this request."
        })
    })?;
    let mut names = requested_headers.split(',').map(str::trim).filter(|name| !name.is_empty());
    if names.any(|name| !names_match(&rule.allowed_headers, name)) {
        return Err(refused("A requested header is not allowed by the matching CORS rule."));
    }
    let mut headers = vec![
        ("Access-Control-Allow-Origin", allow_origin(rule, origin)),
        ("Access-Control-Allow-Methods", method.to_string()),
        ("Access-Control-Max-Age", rule.max_age_seconds.to_string()),
    ];
    if !requested_headers.is_empty() {
        headers.push(("Access-Control-Allow-Headers", requested_headers.to_string()));
    }
    if !is_for_all(rule) {
        headers.push(("Access-Control-Allow-Credentials", "true".into()));
    }
    Ok(headers)
}

/// What an answer says to a browser. Never a reason to refuse.
pub fn actual<'a>(
    rules: &[CorsRule],
    origin: Option<&str>,
    method: &str,
    names: impl Iterator<Item = &'a Cow<'static, str>>,
) -> Headers {
    if rules.is_empty() {
        return Vec::new();
    }
    let rule = select(rules, origin, method);
    let mut headers = Headers::new();
    if let Some(rule) = rule {
        headers.push(("Access-Control-Allow-Origin", allow_origin(rule, origin.unwrap_or_default())));
        let exposed: Vec<&str> =
            names.map(AsRef::as_ref).filter(|name| names_match(&rule.exposed_headers, name)).collect();
        if !exposed.is_empty() {
            headers.push(("Access-Control-Expose-Headers", exposed.join(",")));
        }
        if !is_for_all(rule) {
            headers.push(("Access-Control-Allow-Credentials", "true".into()));
        }
    }
    // A cache must not give one origin's answer to another, unless every origin gets the same.
    if matches!(method, "GET" | "HEAD") && !rule.is_some_and(is_for_all) {
        headers.push(("Vary", "Origin".into()));
    }
    headers
}

/// Without an origin only a rule for all fits.
fn select<'a>(rules: &'a [CorsRule], origin: Option<&str>, method: &str) -> Option<&'a CorsRule> {
    rules.iter().find(|rule| {
        let from = match origin {
            Some(origin) => rule.origins.iter().any(|allowed| origin_matches(allowed, origin)),
            None => is_for_all(rule),
        };
        from && rule.methods.iter().any(|allowed| allowed == method)
    })
}

fn is_for_all(rule: &CorsRule) -> bool {
    rule.origins.iter().any(|origin| origin == "*")
}

fn allow_origin(rule: &CorsRule, origin: &str) -> String {
    if is_for_all(rule) { "*".into() } else { origin.into() }
}

/// `*`, the origin to the letter, or `http://*.example.org` for any host below it.
fn origin_matches(allowed: &str, origin: &str) -> bool {
    if allowed == "*" || allowed == origin {
        return true;
    }
    let Some((scheme, domain)) = allowed.split_once("*.") else { return false };
    let host =
        origin.strip_prefix(scheme).and_then(|rest| rest.strip_suffix(domain)).and_then(|rest| rest.strip_suffix('.'));
    !scheme.is_empty() && host.is_some_and(|host| !host.is_empty() && !host.contains(['/', ':', '@']))
}

/// Literally or by a prefix that ends in `*`; without case.
fn names_match(allowed: &[String], name: &str) -> bool {
    allowed.iter().any(|allowed| match allowed.strip_suffix('*') {
        Some(prefix) => name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
        None => allowed.eq_ignore_ascii_case(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(origins: &str, methods: &str, allowed: &str, exposed: &str) -> CorsRule {
        let list = |text: &str| text.split(',').filter(|part| !part.is_empty()).map(String::from).collect();
        CorsRule {
            origins: list(origins),
            methods: list(methods),
            allowed_headers: list(allowed),
            exposed_headers: list(exposed),
            max_age_seconds: 60,
        }
    }

    #[test]
    fn origins() {
        for (allowed, origin, fits) in [
            ("*", "http://a", true),
            ("http://a", "http://a", true),
            ("http://a", "http://A", false),
            ("http://a", "https://a", false),
            ("http://*.b.org", "http://x.b.org", true),
            ("http://*.b.org", "http://x.y.b.org", true),
            ("http://*.b.org", "http://b.org", false),
            ("http://*.b.org", "http://.b.org", false),
            ("http://*.b.org", "http://xb.org", false),
            ("http://*.b.org", "https://x.b.org", false),
            ("http://*.b.org", "http://evil.org/x.b.org", false),
            ("http://*.b.org", "http://evil.org:1.b.org", false),
            ("*.b.org", "http://x.b.org", false),
        ] {
            assert_eq!(origin_matches(allowed, origin), fits, "{allowed} {origin}");
        }
    }

    /// Rules; origin, method, requested headers; the answer.
    #[test]
    fn preflights() {
        let rules = [
            rule("http://a,http://b", "PUT", "x-ms-meta-*,content-type", ""),
            rule("http://a", "PUT,GET", "*", ""),
            rule("*", "DELETE", "", ""),
        ];
        let ok = |origin, method: &str, headers: &str, credentials: bool| {
            let mut text = format!(
                "Access-Control-Allow-Origin={origin} Access-Control-Allow-Methods={method} Access-Control-Max-Age=60"
            );
            if !headers.is_empty() {
                text.push_str(&format!(" Access-Control-Allow-Headers={headers}"));
            }
            text + if credentials { " Access-Control-Allow-Credentials=true" } else { "" }
        };
        let no = || "403".to_string();
        for (origin, method, headers, expected) in [
            (
                Some("http://a"),
                Some("PUT"),
                "X-Ms-Meta-One, Content-Type",
                ok("http://a", "PUT", "X-Ms-Meta-One, Content-Type", true),
            ),
            // The first rule is chosen and its headers count, although the second would allow them.
            (Some("http://a"), Some("PUT"), "accept", no()),
            (Some("http://a"), Some("GET"), "accept", ok("http://a", "GET", "accept", true)),
            (Some("http://b"), Some("GET"), "", no()),
            (Some("http://c"), Some("DELETE"), "", ok("*", "DELETE", "", false)),
            (Some("http://c"), Some("DELETE"), "accept", no()),
            (Some("http://c"), Some("PATCH"), "", no()),
            (None, Some("GET"), "", "400".into()),
            (Some("http://a"), None, "", "400".into()),
        ] {
            let got = match preflight(&rules, origin, method, headers) {
                Ok(headers) => {
                    headers.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
                }
                Err(refusal) => refusal.status.to_string(),
            };
            assert_eq!(got, expected, "{origin:?} {method:?} {headers}");
        }
        assert_eq!(preflight(&[], Some("http://a"), Some("GET"), "").err().map(|r| r.status), Some(403));
    }

    /// The seven rows of the service's own table, then writes and errors.
    #[test]
    fn answers() {
        let none: &[CorsRule] = &[];
        let exact: &[CorsRule] = &[rule("http://a", "GET,PUT", "", "x-ms-*,ETag")];
        let all: &[CorsRule] = &[rule("*", "GET", "", "ETag")];
        let names: Vec<Cow<'static, str>> = ["ETag", "x-ms-version", "Date"].map(Cow::from).to_vec();
        let vary = "Vary=Origin";
        let star = "Access-Control-Allow-Origin=* Access-Control-Expose-Headers=ETag";
        let echo = "Access-Control-Allow-Origin=http://a Access-Control-Expose-Headers=ETag,x-ms-version Access-Control-Allow-Credentials=true";
        for (origin, rules, method, expected) in [
            (None, none, "GET", ""),
            (None, all, "GET", star),
            (None, exact, "GET", vary),
            (Some("http://a"), none, "GET", ""),
            (Some("http://a"), exact, "GET", &format!("{echo} {vary}")),
            (Some("http://a"), all, "GET", star),
            (Some("http://b"), exact, "GET", vary),
            (Some("http://a"), exact, "PUT", echo),
            (Some("http://b"), exact, "PUT", ""),
            (Some("http://a"), all, "PUT", ""),
            (Some("http://a"), exact, "HEAD", vary),
        ] {
            let headers = actual(rules, origin, method, names.iter());
            let got: Vec<String> = headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(got.join(" "), expected, "{origin:?} {method}");
        }
    }
}
