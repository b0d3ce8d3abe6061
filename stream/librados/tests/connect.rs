//! Why a cluster cannot be used, in words that say what to do.

mod common;

use std::path::Path;

use lazuli_librados::{Librados, Settings};

/// The words, without what differs between machines.
fn refused(settings: &Settings, scratch: &Path) -> String {
    let words = Librados::connect(settings).err().expect("nothing of this is usable");
    words.replace(&scratch.display().to_string(), "DIR")
}

#[test]
fn files_that_are_not_there() {
    let Some(settings) = common::settings("files") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let conf = Settings { conf: Some(scratch.path().join("ceph.conf")), ..settings.clone() };
    assert_eq!(
        refused(&conf, scratch.path()),
        "Ceph's configuration DIR/ceph.conf cannot be read: No such file or directory (os error 2)"
    );
    let keyring = Settings { keyring: Some(scratch.path().join("keyring")), ..settings };
    assert_eq!(
        refused(&keyring, scratch.path()),
        "the keyring DIR/keyring cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn keys_that_are_refused() {
    let Some(settings) = common::settings("keys") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let keyring = scratch.path().join("keyring");
    // A key of the right form that no cluster knows.
    std::fs::write(&keyring, "[client.lazuli]\n\tkey = AQAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAA==\n").unwrap();
    let wrong = Settings { keyring: Some(keyring.clone()), ..settings.clone() };
    let nobody = Settings { keyring: Some(keyring), user: "nobody".to_owned(), ..settings.clone() };
    for (refused_one, user) in [(wrong, "lazuli"), (nobody, "nobody")] {
        let words = refused(&refused_one, scratch.path());
        let expected =
            format!("refuses client.{user}: DIR/keyring holds no key for it, or another than the cluster knows");
        assert!(words.contains(&expected), "{words}");
    }
    let words = changed(&settings, scratch.path(), "keyring", "keyring = /absent");
    assert!(
        words
            .starts_with("there is no keyring for client.lazuli (/absent): `ceph auth get-or-create client.lazuli mon")
    );
}

/// The words when each line of the configuration that begins so is another.
fn changed(settings: &Settings, scratch: &Path, beginning: &str, line: &str) -> String {
    let given = std::fs::read_to_string(settings.conf.as_ref().unwrap()).unwrap();
    let lines = given.lines().map(|old| if old.starts_with(beginning) { line } else { old });
    let conf = scratch.join("ceph.conf");
    std::fs::write(&conf, lines.flat_map(|line| [line, "\n"]).collect::<String>()).unwrap();
    refused(&Settings { conf: Some(conf), ..settings.clone() }, scratch)
}

#[test]
fn pools_that_cannot_be_used() {
    let Some(settings) = common::settings("pools") else { return };
    let missing = Settings { bodies_pool: "absent".to_owned(), ..settings.clone() };
    assert_eq!(
        refused(&missing, Path::new("/")),
        "the pool absent is missing: `ceph osd pool create absent` makes it, \
         then `ceph osd pool application enable absent lazuli`"
    );
    let forbidden = Settings { records_pool: "others".to_owned(), ..settings };
    assert_eq!(
        refused(&forbidden, Path::new("/")),
        "client.lazuli may not use the pool others: `ceph auth caps client.lazuli mon 'allow r' \
         osd 'allow rwx pool=others, allow rw pool=lazuli-bodies'` lets it"
    );
}

#[test]
fn mons_that_do_not_answer() {
    let Some(settings) = common::settings("mons") else { return };
    let scratch = tempfile::tempdir().unwrap();
    let with = |mons| changed(&settings, scratch.path(), "mon host", mons);
    assert_eq!(with(""), "Ceph's configuration names no mons: `mon host` is missing");
    // Nothing listens there.
    assert_eq!(
        with("mon host = [v2:127.0.0.1:1]"),
        "the Ceph cluster at [v2:127.0.0.1:1] did not answer in 10 s: are its mons up, and reachable from here?"
    );
}
