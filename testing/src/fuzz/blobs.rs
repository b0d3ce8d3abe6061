//! What the Blob service is sent by whoever may: ranges, lists of blocks, batches, bodies with checksums inside, sources of copies.

use contract::Service;
use http::source::SourceUrl;
use http::source::allow::AllowList;

use super::{Server, check_status, is_inline, now, show, with_server};
use crate::{Answer, Request};

/// What blob `b` holds.
const CONTENT: &[u8] = b"content";

fn send(server: &Server, request: &Request) -> Answer {
    server.ask(Service::Blob, false, &request.bytes(now(server)))
}

/// A range of a blob, in the header of the service and in that of HTTP: its bytes by a client's reading, and no others.
pub fn range(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if !is_inline(bytes)
        || text.trim() != text
        || text.is_empty()
        || text.bytes().any(|byte| byte < b' ' || byte == 0x7f)
    {
        return;
    }
    let inside = range_of(text).filter(|(first, _)| *first < CONTENT.len());
    let expected = inside.map(|(first, last)| &CONTENT[first..=last.min(CONTENT.len() - 1)]);
    with_server(|server| {
        for name in ["x-ms-range", "Range"] {
            let answer = send(server, &Request::new("GET box/b").header(name, text));
            match (answer.status, expected) {
                (206, Some(expected)) => assert_eq!(answer.body, expected, "{text}"),
                // What cannot be read is left aside.
                (200, None) => assert!(range_of(text).is_none(), "{text}"),
                (416, None) => {}
                (status, _) => panic!("{status} for {name}: {text}"),
            }
        }
    });
}

/// `bytes=first-last` or `bytes=first-`, as a client means it.
fn range_of(text: &str) -> Option<(usize, usize)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().ok().and_then(|number| usize::try_from(number).ok())).flatten()
    };
    let first = number(first)?;
    let last = if last.is_empty() { usize::MAX } else { number(last)? };
    (first <= last).then_some((first, last))
}

/// A list of blocks, of which `YQ==` and `Yg==` are staged: what is committed are those, and no more than it names.
pub fn block_list(bytes: &[u8]) {
    with_server(|server| {
        for id in ["YQ==", "Yg=="] {
            let put = Request::new("PUT box/blocks?comp=block").parameter("blockid", id).body("x");
            assert_eq!(send(server, &put).status, 201);
        }
        if send(server, &Request::new("PUT box/blocks?comp=blocklist").body(bytes)).status != 201 {
            return;
        }
        let listed = send(server, &Request::new("GET box/blocks?comp=blocklist")).text();
        let named = |text: &str, words: &[&str]| words.iter().map(|word| text.matches(word).count()).sum::<usize>();
        let committed = named(&listed, &["<Name>"]);
        assert_eq!(named(&listed, &["<Name>YQ==</Name>", "<Name>Yg==</Name>"]), committed, "{listed}");
        assert!(committed <= named(&show(bytes), &["Latest", "Committed", "Uncommitted"]), "{}", show(bytes));
        let content = send(server, &Request::new("GET box/blocks"));
        assert_eq!((content.status, content.body.len()), (200, committed), "{}", show(bytes));
    });
}

/// The body of a batch: as many answers as parts or one refusal, and nothing is done that no part has the right to.
pub fn blob_batch(bytes: &[u8]) {
    with_server(|server| {
        let batch = Request::new("POST ?comp=batch").header("Content-Type", "multipart/mixed; boundary=b").body(bytes);
        let answer = send(server, &batch);
        if answer.status != 202 {
            assert!((400..500).contains(&answer.status), "{}: {}", answer.status, show(bytes));
            return;
        }
        let text = answer.text();
        let parts: Vec<u16> =
            text.split("\r\nHTTP/1.1 ").skip(1).filter_map(|part| part.get(..3)?.parse().ok()).collect();
        assert!((1..=256).contains(&parts.len()), "{text}");
        parts.iter().for_each(|status| check_status(*status, bytes));
        let may_have_a_right =
            [&b"sig="[..], b"SharedKey"].iter().any(|word| bytes.windows(word.len()).any(|w| w == *word));
        assert!(server.is_unchanged() || may_have_a_right, "a part nobody signed was carried out: {}", show(bytes));
    });
}

/// The first two bytes say how long the content is to be, the rest is the body: taken as a client's reading takes it, or not at all.
pub fn structured_body(bytes: &[u8]) {
    let Some((length, body)) = bytes.split_first_chunk::<2>() else { return };
    let length = u64::from(u16::from_le_bytes(*length));
    let put = Request::new("PUT box/structured")
        .header("x-ms-blob-type", "BlockBlob")
        .header("x-ms-structured-body", "XSM/1.0; properties=crc64")
        .header("x-ms-structured-content-length", length.to_string())
        .body(body);
    let expected = content_of(body).filter(|content| content.len() as u64 == length);
    with_server(|server| {
        let answer = send(server, &put);
        assert_eq!(answer.status == 201, expected.is_some(), "{}: {bytes:02x?}", answer.text());
        if let Some(expected) = expected {
            assert_eq!(send(server, &Request::new("GET box/structured")).body, expected, "{bytes:02x?}");
        }
    });
}

/// The content in a structured body whose checksums are right.
fn content_of(body: &[u8]) -> Option<Vec<u8>> {
    let number = |at: usize, bytes: usize| {
        let mut eight = [0; 8];
        eight[..bytes].copy_from_slice(body.get(at..at.checked_add(bytes)?)?);
        Some(u64::from_le_bytes(eight))
    };
    let sum = |bytes: &[u8]| {
        let mut digest = crc64fast_nvme::Digest::new();
        digest.write(bytes);
        digest.sum64()
    };
    let is_right = number(0, 1)? == 1 && number(1, 8)? == body.len() as u64 && number(9, 2)? == 1;
    let (mut at, mut content) = (13, Vec::new());
    for segment in 1..=number(11, 2)? {
        let length = usize::try_from(number(at + 2, 8)?).ok()?;
        let data = body.get(at + 10..(at + 10).checked_add(length)?)?;
        if number(at, 2)? != segment || number(at + 10 + length, 8)? != sum(data) {
            return None;
        }
        content.extend_from_slice(data);
        at += 18 + length;
    }
    (is_right && number(at, 8)? == sum(&content) && at + 8 == body.len()).then_some(content)
}

/// A source of a copy: read or refused; what a rule for everybody admits lies outside; and a server that allows none asks nobody.
pub fn copy_source(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(source) = SourceUrl::parse(text) {
        assert!(!source.shown(&[]).contains('?'), "its query may hold a right to read it: {text}");
        assert!(source.target().starts_with('/') && !source.host.contains(['/', '@', '?']), "{text}");
        let everybody = AllowList::parse(["*"]).expect("a rule");
        for inside in ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fe80::1", "::ffff:127.0.0.1", "0.0.0.0"] {
            assert!(!everybody.admits(&source, inside.parse().expect("an address")), "{inside}: {text}");
        }
    }
    if !is_inline(bytes) || bytes.iter().any(|byte| *byte < b' ' || *byte == 0x7f) || text.trim() != text {
        return;
    }
    with_server(|server| {
        for header in ["x-ms-copy-source", "x-ms-rename-source"] {
            let answer = send(server, &Request::new("PUT box/copied").header(header, text));
            // A blob of our own may be copied.
            assert!(server.is_unchanged() || text.contains("box/"), "{}: {text}", answer.status);
        }
    });
}
