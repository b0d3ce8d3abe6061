//! Structured bodies: taken out of their frames on the way in, put into one on the way out.

use testing::{Answer, Request, World};

use crate::examples::{everything, world};

const WORDS: &str = "XSM/1.0; properties=crc64";

pub fn crc(bytes: &[u8]) -> [u8; 8] {
    // Bit by bit, so that it shares nothing with the server's.
    let mut crc = u64::MAX;
    for byte in bytes {
        crc ^= u64::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x9A6C_9329_AC4B_C9B5 } else { crc >> 1 };
        }
    }
    (!crc).to_le_bytes()
}

fn message(segments: &[&[u8]]) -> Vec<u8> {
    let length: usize = segments.iter().map(|segment| segment.len() + 18).sum::<usize>() + 21;
    let mut out = vec![1];
    out.extend_from_slice(&(length as u64).to_le_bytes());
    out.extend_from_slice(&1u16.to_le_bytes());
    out.extend_from_slice(&(segments.len() as u16).to_le_bytes());
    for (at, segment) in segments.iter().enumerate() {
        out.extend_from_slice(&(at as u16 + 1).to_le_bytes());
        out.extend_from_slice(&(segment.len() as u64).to_le_bytes());
        out.extend_from_slice(segment);
        out.extend_from_slice(&crc(segment));
    }
    out.extend_from_slice(&crc(&segments.concat()));
    out
}

/// The content of a message, every check made.
fn content(message: &[u8]) -> Vec<u8> {
    let number = |at: usize, bytes: usize| {
        message[at..at + bytes].iter().rev().fold(0usize, |number, byte| number << 8 | usize::from(*byte))
    };
    assert_eq!((message[0], number(1, 8), number(9, 2)), (1, message.len(), 1));
    let (mut at, mut content) = (13, Vec::new());
    for segment in 1..=number(11, 2) {
        assert_eq!(number(at, 2), segment);
        let bytes = number(at + 2, 8);
        let data = &message[at + 10..at + 10 + bytes];
        assert_eq!(message[at + 10 + bytes..at + 18 + bytes], crc(data));
        content.extend_from_slice(data);
        at += 18 + bytes;
    }
    assert_eq!(message[at..], crc(&content));
    content
}

fn framed(request: Request, segments: &[&[u8]]) -> Request {
    let bytes = segments.concat().len();
    let request = request.header("x-ms-structured-body", WORDS).body(message(segments));
    request.header("x-ms-structured-content-length", bytes.to_string())
}

fn put() -> Request {
    Request::new("PUT box/s").header("x-ms-blob-type", "BlockBlob")
}

async fn done(world: &World, request: &Request) -> Answer {
    let answer = world.send(request).await;
    assert!(answer.status < 300, "{} {}", answer.status, answer.text());
    answer
}

#[tokio::test]
async fn in_and_out() {
    let world = world().await;
    let append = Request::new("PUT box/a?comp=appendblock");
    done(&world, &Request::new("PUT box/a").header("x-ms-blob-type", "AppendBlob")).await;
    let block = Request::new("PUT box/c?comp=block&blockid=YQ==");
    for request in [put(), append, block] {
        let answer = done(&world, &framed(request, &[b"some ", b"content"])).await;
        assert_eq!(answer.header("x-ms-structured-body"), Some(WORDS));
    }
    let list = Request::new("PUT box/c?comp=blocklist").body("<BlockList><Latest>YQ==</Latest></BlockList>");
    done(&world, &list).await;
    for name in ["s", "a", "c"] {
        let get = Request::new(&format!("GET box/{name}"));
        assert_eq!(done(&world, &get).await.text(), "some content", "{name}");
        let answer = done(&world, &get.clone().header("x-ms-structured-body", WORDS)).await;
        assert_eq!(answer.header("x-ms-structured-body"), Some(WORDS));
        assert_eq!(answer.header("x-ms-structured-content-length"), Some("12"));
        assert_eq!(content(&answer.body), b"some content", "{name}");
        let part = get.header("x-ms-structured-body", WORDS).header("x-ms-range", "bytes=5-8");
        let answer = done(&world, &part).await;
        assert_eq!((answer.status, answer.header("content-range")), (206, Some("bytes 5-8/12")));
        assert_eq!(content(&answer.body), b"cont", "{name}");
    }
}

/// Longer than a segment, and longer than what a record holds.
#[tokio::test]
async fn long_ones() {
    let world = world().await;
    let long: Vec<u8> = (0..9_000_001u32).map(|at| (at % 251) as u8).collect();
    let segments: Vec<&[u8]> = long.chunks(3_000_000).collect();
    done(&world, &framed(put(), &segments)).await;
    assert_eq!(done(&world, &Request::new("GET box/s")).await.body, long);
    let answer = done(&world, &Request::new("GET box/s").header("x-ms-structured-body", WORDS)).await;
    assert_eq!(content(&answer.body), long);
    assert_eq!(answer.body[11..13], 3u16.to_le_bytes());

    done(&world, &framed(put(), &[b""])).await;
    let answer = done(&world, &Request::new("GET box/s").header("x-ms-structured-body", WORDS)).await;
    assert_eq!((content(&answer.body), answer.body.len()), (Vec::new(), 39));
}

#[tokio::test]
async fn what_was_damaged_on_the_way_changes_nothing() {
    let world = world().await;
    done(&world, &put().body("before")).await;
    let before = everything(&world).await;
    let right = framed(put(), &[b"some ", b"content"]);
    for (at, code) in
        [(0, "InvalidInput"), (13, "InvalidInput"), (23, "Crc64Mismatch"), (right.body.len() - 1, "Crc64Mismatch")]
    {
        let mut wrong = right.clone();
        wrong.body[at] ^= 4;
        let answer = world.send(&wrong).await;
        assert_eq!((answer.status, answer.code()), (400, code), "byte {at}: {}", answer.text());
    }
    let mut short = right.clone();
    short.body.truncate(40);
    assert_eq!(world.send(&short).await.status, 400);
    for (name, value) in [("x-ms-structured-content-length", "11"), ("x-ms-structured-body", "XSM/1.0")] {
        let mut wrong = right.clone();
        wrong.headers.iter_mut().filter(|(other, _)| other == name).for_each(|(_, given)| *given = value.into());
        assert_eq!(world.send(&wrong).await.status, 400, "{name}");
    }
    let both = Request::new("GET box/s").header("x-ms-structured-body", WORDS).header("x-ms-range", "bytes=0-1");
    assert_eq!(world.send(&both.header("x-ms-range-get-content-crc64", "true")).await.code(), "InvalidHeaderValue");
    assert_eq!(everything(&world).await, before);
}
