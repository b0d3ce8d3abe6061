//! Who may ask at all, before anything is looked at: pages of other sites may not make a browser ask in its user's name.
//!
//! Three fences, each enough for what it is for: a name that is not this machine's is refused where only this machine is served (a site
//! whose name is made to point here is a stranger with our origin); a request that another origin caused is refused; and what changes
//! anything has a header that only our own pages can set.

use std::net::IpAddr;

use http::wire::Head;

/// Is the host that was asked for this machine, as far as its name tells?
pub fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => return rest.split_once(']').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok()),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok()
}

/// Did another origin cause it? Browsers tell, and nothing but a browser has a user's cookie.
pub fn is_foreign(head: &Head) -> bool {
    let host = head.header("host").unwrap_or_default();
    let by_origin = head.headers("origin").any(|origin| {
        let named = origin.split_once("://").map_or("", |(_, named)| named);
        !named.eq_ignore_ascii_case(host) || named.is_empty()
    });
    // `none` is a person: an address typed, a bookmark.
    let by_site = head.headers("sec-fetch-site").any(|site| !["same-origin", "none"].contains(&site));
    by_origin || by_site
}

/// Is it only a look?
pub fn is_reading(head: &Head) -> bool {
    matches!(head.method(), "GET" | "HEAD")
}

/// Was it made by a script of our own pages? No other origin can add a header without asking first, and nobody is allowed to.
pub fn is_by_our_page(head: &Head) -> bool {
    head.header("x-lazuli-console") == Some("1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        for host in ["localhost", "LOCALHOST:1", "a.localhost:10080", "127.0.0.1:1", "10.0.0.1", "[::1]", "[::1]:10080"]
        {
            assert!(is_local_name(host), "{host}");
        }
        for host in [
            "",
            ":1",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "[::1",
            "[x]:1",
            "localhost.",
        ] {
            assert!(!is_local_name(host), "{host}");
        }
    }

    #[test]
    fn other_origins() {
        for (headers, expected) in [
            ("", false),
            ("Origin: http://localhost:10080\n", false),
            ("Origin: https://LOCALHOST:10080\n", false),
            ("Origin: http://localhost:3000\n", true),
            ("Origin: http://localhost\n", true),
            ("Origin: null\n", true),
            ("Origin: \n", true),
            ("Origin: http://localhost:10080\nOrigin: http://evil.example\n", true),
            ("Origin: http://localhost:10080.evil.example\n", true),
            ("Sec-Fetch-Site: same-origin\n", false),
            ("Sec-Fetch-Site: none\n", false),
            ("Sec-Fetch-Site: same-site\n", true),
            ("Sec-Fetch-Site: cross-site\n", true),
            ("Sec-Fetch-Site: new-word\n", true),
        ] {
            let text = format!("GET / HTTP/1.1\nHost: localhost:10080\n{headers}\n").replace('\n', "\r\n");
            let (head, _) = Head::parse(text.as_bytes()).expect("a head").expect("whole");
            assert_eq!(is_foreign(&head), expected, "{headers}");
        }
    }
}
