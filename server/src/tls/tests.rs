//! What is made by `--tls auto`, kept, renewed and refused; and certificates that are replaced.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

fn at(day: &str) -> Timestamp {
    Timestamp::parse_iso8601(&format!("{day}T12:00:00Z")).expect("a time")
}

const START: &str = "2026-11-17";

fn auto(directory: &Path, host: &str, names: &[&str]) -> AutoTls {
    let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
    AutoTls::new(directory.to_path_buf(), host.parse().expect("an address"), &names).expect("right")
}

fn read(directory: &Path, name: &str) -> String {
    fs::read_to_string(directory.join(name)).expect("it is there")
}

#[test]
fn made_once_and_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let inside = directory.path().join("tls");
    let tls = auto(&inside, "127.0.0.1", &[]);
    let made = tls.load(at(START)).expect("made");
    let files = ["ca.pem", "ca.key", "server.pem", "server.key"];
    let before = files.map(|name| read(&inside, name));
    for (name, mode) in [("ca.key", 0o600), ("server.key", 0o600)] {
        assert_eq!(fs::metadata(inside.join(name)).expect("it is there").permissions().mode() & 0o777, mode, "{name}");
    }
    assert_eq!(fs::read_dir(&inside).expect("it is there").count(), files.len());
    let again = tls.load(at("2027-10-01")).expect("kept");
    assert_eq!(made.cert, again.cert);
    assert_eq!(before, files.map(|name| read(&inside, name)));
}

/// What happens at a start is told by what differs after it.
#[test]
fn what_a_start_makes_anew() {
    type Damage = fn(&Path);
    const NOTHING: Damage = |_| {};
    for (what, damage, day, host, names, expected) in [
        ("a month before its end", NOTHING, "2027-11-18", "127.0.0.1", &[][..], "certificate"),
        ("long after its end", NOTHING, "2030-01-01", "127.0.0.1", &[], "certificate"),
        ("the authority near its end", NOTHING, "2036-11-01", "127.0.0.1", &[], "both"),
        ("another name", NOTHING, START, "127.0.0.1", &["storage.test"], "both"),
        ("another address", NOTHING, START, "192.0.2.7", &[], "both"),
        ("another address of loopback", NOTHING, START, "127.0.0.9", &[], "certificate"),
        ("any address", NOTHING, START, "0.0.0.0", &[], "nothing"),
        (
            "a lost key",
            |dir| fs::remove_file(dir.join("server.key")).expect("there"),
            START,
            "127.0.0.1",
            &[],
            "certificate",
        ),
        (
            "a cut key",
            |dir| fs::write(dir.join("server.key"), "x").expect("written"),
            START,
            "127.0.0.1",
            &[],
            "certificate",
        ),
        (
            "the key of another certificate",
            |dir| fs::copy(dir.join("ca.key"), dir.join("server.key")).map(drop).expect("copied"),
            START,
            "127.0.0.1",
            &[],
            "certificate",
        ),
        (
            "a certificate of nobody",
            |dir| fs::write(dir.join("server.pem"), "x").expect("written"),
            START,
            "127.0.0.1",
            &[],
            "certificate",
        ),
        ("no authority", |dir| fs::remove_file(dir.join("ca.pem")).expect("there"), START, "127.0.0.1", &[], "both"),
        (
            "no key of the authority",
            |dir| fs::remove_file(dir.join("ca.key")).expect("there"),
            START,
            "127.0.0.1",
            &[],
            "nothing",
        ),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        auto(directory, "127.0.0.1", &[]).load(at(START)).expect("made");
        let shown = |name| read(directory, name);
        let before = (shown("ca.pem"), shown("server.pem"));
        damage(directory);
        auto(directory, host, names).load(at(day)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = match (shown("ca.pem") == before.0, shown("server.pem") == before.1) {
            (true, true) => "nothing",
            (true, false) => "certificate",
            (false, false) => "both",
            (false, true) => "the authority alone",
        };
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn what_cannot_be_used_is_named() {
    type Damage = fn(&Path);
    for (what, damage, day, words) in [
        (
            "a cut authority",
            (|dir: &Path| fs::write(dir.join("ca.pem"), "x").expect("written")) as Damage,
            START,
            "ca.pem",
        ),
        ("no key to sign with", |dir| fs::remove_file(dir.join("ca.key")).expect("there"), "2028-01-01", "ca.key"),
        ("no key at all", |dir| fs::write(dir.join("ca.key"), "x").expect("written"), "2028-01-01", "ca.key"),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let tls = auto(directory.path(), "127.0.0.1", &[]);
        tls.load(at(START)).expect("made");
        damage(directory.path());
        let error = tls.load(at(day)).err().unwrap_or_else(|| panic!("{what} was used"));
        assert!(error.contains(words) && error.contains("remove"), "{what}: {error}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("file");
    fs::write(&place, "").expect("written");
    let error = auto(&place, "127.0.0.1", &[]).load(at(START)).expect_err("a file is no directory");
    assert!(error.contains("--tls auto"), "{error}");
    for bad in ["", "a b", "*.example.org", "http://h"] {
        let names = [bad.to_string()];
        assert!(AutoTls::new("d".into(), "127.0.0.1".parse().expect("right"), &names).is_err(), "{bad}");
    }
}

#[test]
fn replaced_or_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let (one, two) = (directory.path().join("one"), directory.path().join("two"));
    for place in [&one, &two] {
        auto(place, "127.0.0.1", &[]).load(at(START)).expect("made");
    }
    let files = |place: &Path, key: &Path| {
        TlsSettings::Files(TlsFiles { certificate: place.join("server.pem"), key: key.join("server.key") })
    };
    let now = at(START);
    let tls = Tls::open(&files(&one, &one), now).expect("right");
    let shown = || tls.shown.0.read().expect("no panic").cert.clone();
    let first = shown();
    assert_eq!(tls.replace(&files(&one, &one), now), Ok(false));
    for (settings, words) in [
        (files(&one, &two), "cannot be used"),
        (files(&directory.path().join("none"), &two), "cannot read the certificate"),
        (files(&two, &directory.path().join("none")), "cannot read the key"),
    ] {
        let error = tls.replace(&settings, now).expect_err("of no use");
        assert!(error.contains(words), "{error}");
        assert_eq!(shown(), first);
    }
    assert_eq!(tls.replace(&files(&two, &two), now), Ok(true));
    assert_ne!(shown(), first);
}
