//! The seeds of the fuzz targets, and a few thousand changes of each: what the fuzzer does for hours, for seconds.

use std::fs;
use std::path::Path;

use testing::fuzz::TARGETS;
use testing::sim::chance::Chance;

use crate::{chance, times};

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let mut paths: Vec<_> = fs::read_dir(&place).expect("seeds").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).expect("a seed")).collect()
}

fn replay(name: &str) {
    let (_, run) = TARGETS.into_iter().find(|(target, _)| *target == name).expect("a target");
    let (mut chance, seeds) = (chance(name), seeds(name));
    assert!(!seeds.is_empty(), "{name} has no seeds");
    seeds.iter().for_each(|seed| run(seed));
    for _ in 0..times(3000) {
        let mut bytes = chance.pick(&seeds).clone();
        for _ in 0..chance.between(1, 4) {
            change(&mut chance, &mut bytes, &seeds);
        }
        run(&bytes);
    }
}

fn change(chance: &mut Chance, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    const TELLING: [&[u8]; 14] = [
        b"%0A",
        b"%00",
        b"\r\n",
        b"\n",
        b" ",
        b"&",
        b"=",
        b":",
        b",",
        b"%",
        b"\xff",
        b"\0",
        b"-",
        b"99999999999999999999",
    ];
    let at = chance.index(bytes.len() + 1);
    let to = at + chance.index(bytes.len() - at + 1).min(12);
    match chance.below(5) {
        0 if at < bytes.len() => bytes[at] = chance.below(256) as u8,
        1 => drop(bytes.drain(at..to)),
        2 => drop(bytes.splice(at..at, chance.pick(&TELLING).iter().copied())),
        3 => {
            let again = bytes[at..to].to_vec();
            drop(bytes.splice(at..at, again));
        }
        _ => {
            let other = chance.pick(seeds);
            let from = chance.index(other.len() + 1);
            let until = from + chance.index(other.len() - from + 1).min(40);
            drop(bytes.splice(at..to, other[from..until].iter().copied()));
        }
    }
}

/// A test for each target, so that they run side by side.
macro_rules! replayed {
    ($($name:ident)*) => {
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
        $(#[test]
        fn $name() {
            replay(stringify!($name));
        })*
    };
}

replayed! {
    sas_query authorization_header canonicalisation jwt http_head xml odata_filter odata_entity table_batch tag_expression
    spnego_token ntlm_message smb_message signed_requests range block_list blob_batch structured_body copy_source moment
    security_descriptor stored_record engine_record
}

/// What is fuzzed is replayed, and the fuzzer is told of it.
#[test]
fn every_target_is_there() {
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(REPLAYED, names);
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("a manifest");
    for name in &names {
        let target = fs::read_to_string(fuzz.join(format!("targets/{name}.rs"))).unwrap_or_default();
        assert!(target.contains(&format!("::{name}(bytes)")), "fuzz/targets/{name}.rs does not call it");
        assert!(manifest.contains(&format!("path = \"targets/{name}.rs\"")), "fuzz/Cargo.toml does not name {name}");
    }
    let files = fs::read_dir(fuzz.join("targets")).expect("targets").count();
    assert_eq!(files, names.len() + 1, "a target that nobody replays, beside the control");
}
