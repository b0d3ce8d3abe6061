//! Transcripts: requests and the answers they get, byte for byte. `GOLDEN=write cargo test -p lazuli-testing --test golden` writes the
//! answers anew; a human reads the diff.
//!
//! A case is a file of steps. `> ` lines are the request: its line without account, headers that matter, and after an empty line the
//! body. What every client adds (host, date, version, length, signature) is added here. `< ` lines are the answer; `\` at the end of one
//! stands for a line that ends without a carriage return. `! clock +N` moves the clock by N seconds, `! service queue` sends what follows there. Everything else is
//! a remark.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use contract::Service;
use testing::{Answer, Request, World};

#[tokio::test]
async fn transcripts() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/cases");
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(&directory).expect("the cases").map(|entry| entry.expect("readable").path()).collect();
    cases.sort();
    assert!(!cases.is_empty());
    let write = std::env::var("GOLDEN").is_ok_and(|mode| mode == "write");
    let mut failed = Vec::new();
    for case in cases {
        let text = std::fs::read_to_string(&case).expect("readable");
        let played = play(&text).await;
        if played != text {
            if write {
                std::fs::write(&case, &played).expect("writable");
            } else {
                failed.push(format!("{}\n--- expected\n{text}\n--- played\n{played}", case.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Plays a case in a fresh world and writes it down again with the answers it got.
async fn play(case: &str) -> String {
    let world = World::new().await;
    let mut out = String::new();
    let mut service = Service::Blob;
    let mut lines = case.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(first) = line.strip_prefix("> ") {
            writeln!(out, "{line}").expect("a string");
            let mut rest = Vec::new();
            while let Some(next) = lines.next_if(|next| next.starts_with('>')) {
                writeln!(out, "{next}").expect("a string");
                rest.push(next.strip_prefix("> ").unwrap_or(""));
            }
            while lines.next_if(|next| next.starts_with('<')).is_some() {}
            out.push_str(&written(&world.send(&request(first, &rest).of(service)).await));
        } else {
            if let Some(seconds) = line.strip_prefix("! clock +") {
                world.clock.advance_seconds(seconds.trim().parse().expect("seconds"));
            }
            if let Some(name) = line.strip_prefix("! service ") {
                service = Service::ALL.into_iter().find(|service| service.name() == name.trim()).expect("a service");
            }
            writeln!(out, "{line}").expect("a string");
        }
    }
    out
}

fn request(first: &str, rest: &[&str]) -> Request {
    let mut request = Request::new(first);
    let (headers, body) = match rest.iter().position(|line| line.is_empty()) {
        Some(at) => (&rest[..at], rest[at + 1..].join("\n")),
        None => (rest, String::new()),
    };
    for header in headers {
        let (name, value) = header.split_once(':').expect("name: value");
        request = match (name, value.trim()) {
            ("unsigned", _) => request.unsigned(),
            (name, value) => request.header(name, value),
        };
    }
    request.body(body)
}

fn written(answer: &Answer) -> String {
    let mut text = String::new();
    let raw = String::from_utf8_lossy(&answer.raw);
    for line in raw.split_inclusive('\n') {
        match line.strip_suffix("\r\n") {
            Some(line) => writeln!(text, "< {line}").expect("a string"),
            None => writeln!(text, "< {}\\", line.trim_end_matches('\n')).expect("a string"),
        }
    }
    text.replace("< \n", "<\n")
}
