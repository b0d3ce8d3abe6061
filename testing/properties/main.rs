//! Properties of authorization, over many requests from a seed: what a client signs verifies, and no byte of it can be changed.
//!
//! `PROPERTIES_SEED=7 PROPERTIES_TIMES=100 cargo test -p lazuli-testing --test properties` runs another seed and a hundred times as many.

mod any;
mod replay;
mod sas;
mod shared_key;
mod tokens;

use std::sync::Arc;

use contract::Service;
use engine::memory::MemoryEngine;
use testing::raw::{Raw, pairs};
use testing::sim::chance::Chance;
use testing::{Answer, Request, World};

/// The seed of this run, apart for each property.
fn chance(property: &str) -> Chance {
    let seed = std::env::var("PROPERTIES_SEED").map_or(4296, |text| text.parse().expect("PROPERTIES_SEED is a number"));
    let apart = property.bytes().fold(seed, |sum: u64, byte| sum.wrapping_mul(131).wrapping_add(u64::from(byte)));
    Chance::from_seed(apart)
}

fn times(usual: usize) -> usize {
    usual * std::env::var("PROPERTIES_TIMES").map_or(1, |text| text.parse().expect("PROPERTIES_TIMES is a number"))
}

/// A server with container `box` and blob `b` in it, and a count of what is stored.
struct Watched {
    world: World,
    engine: MemoryEngine,
}

impl Watched {
    async fn new() -> Watched {
        let engine = MemoryEngine::new();
        let world = World::over(Arc::new(engine.clone())).await;
        for request in [
            Request::new("PUT box?restype=container"),
            Request::new("PUT box/b").header("x-ms-blob-type", "BlockBlob").body("content"),
        ] {
            assert_eq!(world.send(&request).await.status, 201);
        }
        Watched { world, engine }
    }

    /// The changed request must be refused for what it brings to show who it is, or as no request at all; and nothing is stored.
    async fn refuses(&self, service: Service, tls: bool, original: &[u8], changed: &[u8]) {
        let commits = self.engine.commits();
        let answer = self.world.send_raw_over(service, tls, changed).await;
        let show = || {
            let (original, changed) = (String::from_utf8_lossy(original), String::from_utf8_lossy(changed));
            format!(
                "{service:?}\n--- signed\n{original}\n--- changed\n{changed}\n--- answer\n{}",
                String::from_utf8_lossy(&answer.raw)
            )
        };
        // Who is somebody else may learn that there is no such operation, or that he may not do it.
        let refused =
            is_refused(&answer) || is_somebody_else(service, changed) && answer.status >= 400 && answer.status < 500;
        assert!(refused, "a changed request was let in: {}", show());
        assert_eq!(self.engine.commits(), commits, "a changed request was carried out: {}", show());
    }
}

/// No credential at all, or a bearer token that is no longer the companion of a SAS.
fn is_somebody_else(service: Service, bytes: &[u8]) -> bool {
    let Some((raw, authorization)) = Raw::parse(service, bytes) else { return false };
    let query = raw.target.split_once('?').and_then(|(_, query)| pairs(query)).unwrap_or_default();
    let has = |wanted: &str| query.iter().any(|(name, value)| name == wanted && !value.is_empty());
    match authorization {
        None => !has("sig"),
        Some(value) => value.starts_with("Bearer ") && !(has("sig") && has("sduoid")),
    }
}

/// Not let in, or no answer because the head never ended.
fn is_refused(answer: &Answer) -> bool {
    answer.status == 0 || (400..500).contains(&answer.status) && !answer.is_let_in()
}

/// A few other bytes for one, those that mean something in HTTP among them.
fn others(chance: &mut Chance, byte: u8, count: usize) -> Vec<u8> {
    const TELLING: &[u8] = b" \t\r\n&=?%:;,+-/#.\"'0129aAzZ_\0\x7f\x80\xff";
    let mut others = vec![byte ^ 1];
    while others.len() < count {
        let other = if chance.permille(800) { *chance.pick(TELLING) } else { chance.below(256) as u8 };
        if other != byte {
            others.push(other);
        }
    }
    others
}
