//! Known strings and their signatures with the development key.

use super::*;
use crate::account::{AccountKey, DEVELOPMENT_KEY};

const PLAIN: Variant = Variant { header_order: HeaderOrder::Culture, language_first: false };
const DATE: (&str, &str) = ("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT");
const VERSION: (&str, &str) = ("x-ms-version", "2021-08-06");

struct Case<'a> {
    service: Service,
    verb: &'a str,
    headers: &'a [(&'a str, &'a str)],
    path: &'a str,
    query: &'a [(&'a str, &'a str)],
}

fn with<T>(case: &Case<'_>, f: impl Fn(&Signed<'_>) -> T) -> T {
    let query: Vec<(String, String)> = case.query.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    f(&Signed {
        service: case.service,
        verb: case.verb,
        headers: case.headers,
        account: "devstoreaccount1",
        raw_path: case.path,
        query: &query,
        version: ApiVersion::parse("2021-08-06").expect("well formed"),
    })
}

#[track_caller]
fn check(got: String, string: &str, signature: &str) {
    assert_eq!(got, string.replace("\\n", "\n"));
    let key = AccountKey::parse(DEVELOPMENT_KEY).expect("published");
    assert_eq!(key.sign(&got), signature);
}

#[test]
fn shared_key_of_a_list() {
    let query = [("restype", "container"), ("comp", "list"), ("include", "metadata,snapshots")];
    let case = Case {
        service: Service::Blob,
        verb: "GET",
        headers: &[DATE, VERSION],
        path: "/devstoreaccount1/cont",
        query: &query,
    };
    check(
        with(&case, |signed| signed.full(PLAIN)),
        "GET\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n\\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\\nx-ms-version:2021-08-06\\n/devstoreaccount1/devstoreaccount1/cont\\ncomp:list\\ninclude:metadata,snapshots\\nrestype:container",
        "/YxRg+dmDb4Mlutso08ck1lyrnc8c70T1ZGlgA4vH+M=",
    );
}

#[test]
fn shared_key_of_a_put() {
    let headers = [
        ("Content-Length", "11"),
        ("Content-Type", "text/plain"),
        ("If-None-Match", "*"),
        VERSION,
        ("x-ms-blob-type", "BlockBlob"),
        DATE,
    ];
    let case = Case {
        service: Service::Blob,
        verb: "PUT",
        headers: &headers,
        path: "/devstoreaccount1/cont/a%20b.txt",
        query: &[],
    };
    check(
        with(&case, |signed| signed.full(PLAIN)),
        "PUT\\n\\n\\n11\\n\\ntext/plain\\n\\n\\n\\n*\\n\\n\\nx-ms-blob-type:BlockBlob\\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\\nx-ms-version:2021-08-06\\n/devstoreaccount1/devstoreaccount1/cont/a%20b.txt",
        "TXPhiBO/K1CVANa4/wDiZwK54MH6LoOiIceyvFACssU=",
    );
}

#[test]
fn lite() {
    let headers = [DATE, VERSION];
    let query = [("comp", "list")];
    let case =
        Case { service: Service::Blob, verb: "GET", headers: &headers, path: "/devstoreaccount1/cont", query: &query };
    check(
        with(&case, |signed| signed.lite(PLAIN)),
        "GET\\n\\n\\n\\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\\nx-ms-version:2021-08-06\\n/devstoreaccount1/devstoreaccount1/cont?comp=list",
        "GDQWBKDuYCoBwih9qPxvTXO4JpkpScMyLZDAz3FLwMk=",
    );
}

#[test]
fn tables() {
    let case =
        Case { service: Service::Table, verb: "GET", headers: &[DATE], path: "/devstoreaccount1/Tables", query: &[] };
    check(
        with(&case, |signed| signed.full(PLAIN)),
        "GET\\n\\n\\nFri, 26 Jun 2015 23:39:12 GMT\\n/devstoreaccount1/devstoreaccount1/Tables",
        "1N8+ef8oEDi2+hVq8MEliRQf2wg+Azc23mueaSqF0Fs=",
    );
    check(
        with(&case, |signed| signed.lite(PLAIN)),
        "Fri, 26 Jun 2015 23:39:12 GMT\\n/devstoreaccount1/devstoreaccount1/Tables",
        "VuaBO8Q8Lunn8jBU8fntlFomiNq5rTcfxYB1f9a0Mb8=",
    );
}

#[test]
fn order_of_header_names() {
    for (a, b, expected) in [
        ("x-ms-date", "x-ms-version", Ordering::Less),
        ("x-ms-meta-a", "x-ms-meta-a", Ordering::Equal),
        ("x-ms-meta-a_b", "x-ms-meta-a1", Ordering::Less),
        ("x-ms-meta-1", "x-ms-meta-a", Ordering::Less),
        ("x-ms-meta-ab", "x-ms-meta-a-b", Ordering::Less),
        ("x-ms-meta-a-b", "x-ms-meta-abc", Ordering::Less),
        ("x-ms-meta", "x-ms-meta-", Ordering::Less),
        ("x-ms-meta-_", "x-ms-meta-`", Ordering::Less),
        ("x-ms-meta-`", "x-ms-meta-|", Ordering::Less),
        ("x-ms-meta-`", "x-ms-meta-0", Ordering::Less),
        ("x-ms-meta-a'b", "x-ms-meta-a-b", Ordering::Less),
        ("x-ms-meta-ab'", "x-ms-meta-a'b", Ordering::Less),
    ] {
        assert_eq!(culture_order(a, b), expected, "{a} {b}");
        assert_eq!(culture_order(b, a), expected.reverse(), "{b} {a}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let text =
        "PUT\n\nx-ms-copy-source:https://h/c/b?sig=abc\nx-ms-date:now\nx-ms-encryption-key:abc\n/a/a/c/b\nsig:abc";
    let shown = without_secrets(text);
    assert!(!shown.contains("abc"), "{shown}");
    assert!(shown.contains("x-ms-date:now\nx-ms-encryption-key:(hidden)\n/a/a/c/b\nsig:(hidden)"), "{shown}");
}
