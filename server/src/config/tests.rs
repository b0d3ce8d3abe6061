//! Settings in words, right and wrong.

use std::path::Path;

use clap::{FromArgMatches, Parser};

use super::commands::Command;
use super::*;

fn gather(arguments: &[&str], file: &str) -> Result<Settings, String> {
    let line = CommandLine::try_parse_from([&["lazuli"], arguments].concat()).map_err(|error| error.to_string())?;
    let flags = match line.command {
        Some(Command::Serve(flags)) => *flags,
        None => line.serve,
        Some(other) => panic!("{other:?}"),
    };
    let (file, _) = super::file::parse(Path::new("lazuli.toml"), file)?;
    Settings::merge(flags, file, "")
}

mod words;

#[test]
fn other_gateways() {
    const RADOS: &str = "engine = \"rados\"\n";
    for (arguments, file, expected) in [
        (&[][..], "", Ok(None)),
        (&["--peer-port", "7000"], "", Err("say --engine rados")),
        (&[], "peer-address = \"h\"", Err("say --engine rados")),
        (&["--engine", "rados"], "", Ok(Some((Port::On(0), None)))),
        (&["--peer-port", "7000", "--peer-address", "h"], RADOS, Ok(Some((Port::On(7000), Some("h"))))),
        (&["--peer-port", "off"], RADOS, Err("serves no shares")),
        (&["--peer-port", "off", "--file-port", "off"], RADOS, Err("serves no shares")),
        (&["--peer-port", "off", "--file-port", "off", "--smb-port", "off"], RADOS, Ok(Some((Port::Off, None)))),
    ] {
        match (gather(arguments, file), expected) {
            (Ok(settings), Ok(expected)) => {
                let found = settings.peers.as_ref().map(|peers| (peers.port, peers.address.as_deref()));
                assert_eq!(found, expected, "{arguments:?} {file}");
            }
            (Err(error), Err(words)) => assert!(error.contains(words), "{error}"),
            (found, expected) => panic!("{arguments:?} {file}: {found:?}, not {expected:?}"),
        }
    }
}

#[test]
fn defaults() {
    let settings = gather(&[], "").expect("right");
    assert!(
        matches!(&settings.engine, EngineSettings::Embedded { data, durability: embedded::Durability::Full } if data == "lazuli-data")
    );
    assert_eq!(settings.port(Service::Blob), Port::On(10000));
    assert_eq!(settings.port(Service::File), Port::On(10003));
    assert_eq!(settings.web_port, Port::Off);
    assert_eq!(settings.accounts[0].name.as_str(), "devstoreaccount1");
    assert!(settings.refuse_published_key_on_network(&settings.accounts).is_ok());
    assert_eq!(settings.copy_sources, AllowList::default());
}

#[test]
fn copy_sources_of_flags_and_file_add_up() {
    let settings = gather(&["--copy-source", "a:1,b"], "copy-source = [\"*.example.org\"]").expect("right");
    assert_eq!(Ok(settings.copy_sources), AllowList::parse(["a:1", "b", "*.example.org"]));
}

#[test]
fn events() {
    let file = "[[events]]\nname = \"x\"\nto = \"queue:jobs\"\naccount = \"abc\"\n[[events]]\nname = \"y\"\nto = \"https://h/?k=s\"";
    let settings = gather(&[], file).expect("right");
    assert_eq!(format!("{:?}", settings.events), "[\"x to queue jobs\", \"y to https://h\"]");
    let served = settings.accounts.iter().map(|account| &account.name);
    assert!(settings.events.check(served).expect_err("another account").contains("there is no account abc"));
}

#[test]
fn flags_win_over_the_file() {
    let file = "blob-port = 1\nqueue-port = \"off\"\ndurability = \"relaxed\"\n[account.abc]\nkeys = [\"a2V5\"]";
    for arguments in [&["--blob-port", "0"][..], &["serve", "--blob-port", "0"]] {
        let settings = gather(arguments, file).expect("right");
        assert_eq!(settings.port(Service::Blob), Port::On(0));
        assert_eq!(settings.port(Service::Queue), Port::Off);
        let relaxed = embedded::Durability::Relaxed;
        assert!(matches!(settings.engine, EngineSettings::Embedded { durability, .. } if durability == relaxed));
        assert_eq!(settings.accounts.len(), 1);
        assert_eq!(settings.accounts[0].name.as_str(), "abc");
    }
}

#[test]
fn refused_in_words() {
    for (arguments, file, words) in [
        (&["--account", "abc:***"][..], "", "Base64"),
        (&["--account", "abc:a2V5", "--account", "abc:a2V5"], "", "twice"),
        (&["--tls-cert", "x"], "", "go together"),
        (&["--tls", "auto", "--tls-cert", "x", "--tls-key", "y"], "", "one or the other"),
        (&["--tls", "auto"], "tls-cert = \"x\"", "one or the other"),
        (&["--tls", "off"], "tls-cert = \"x\"\ntls-key = \"y\"", "one or the other"),
        (&["--tls-name", "h"], "", "--tls auto"),
        (&["--tls", "auto", "--tls-name", "a b"], "", "neither a domain nor an address"),
        (&[], "tls = \"automatic\"", "auto"),
        (&["--log-format", "xml"], "", "json"),
        (&[], "log-format = \"xml\"", "json"),
        (&["--otlp-endpoint", "h"], "", "http://HOST:PORT"),
        (&["--trace-ratio", "0.5"], "", "--otlp-endpoint"),
        (&[], "otlp-endpoint = \"http://h\"\ntrace-ratio = 2.0", "from 0 to 1"),
        (&["--dev-token-port", "10004", "--host", "192.0.2.1"], "", "loopback alone"),
        (&[], "dev-token-port = 10004\nhost = \"0.0.0.0\"", "loopback alone"),
        (&[], "[[tokens.assign]]\nprincipal = \"p\"\nrole = \"Storage Blob Data Reader\"", "`keys` is missing"),
        (&["--dev-token-port", "1"], "[tokens]\nissuers = [\"i\"]", "`keys` is missing"),
        (&["--blob-port", "70000"], "", "65535"),
        (&["--connections-max", "0"], "", "at least 1"),
        (&[], "requests-per-address-max = 0", "at least 1"),
        (&["--buffered-mib-max", "127"], "", "at least 128"),
        (&["--smb-buffered-mib-max", "63"], "", "at least 64"),
        (&[], "smb-buffered-mib-max = 1", "at least 64"),
        (&["--idle-timeout", "0"], "", "at least 1 second"),
        (&[], "stall-timeout = -1", "stall-timeout"),
        (&[], "blob-prot = 1", "blob-prot"),
        (&[], "log = \"loud\"", "no level"),
        (&["--copy-source", "http://h/"], "", "no source that could be allowed"),
        (&[], "[[events]]\nname = \"x\"", "missing field `to`"),
        (&[], "[[events]]\nname = \"x\"\nto = \"queue:jobs\"\nsubject-begin = \"x\"", "subject-begin"),
        (&[], "[[events]]\nname = \"x\"\nto = \"http://example.org/\"", "[[events]] x: to is"),
        (&[], "copy-source = [\"h:x\"]", "no source that could be allowed"),
        (&[], "[account.ABC]\nkeys = [\"a2V5\"]", "lower-case"),
        (&[], "[account.abc]\nkeys = [\"a2V5\"]\ncontainer-retention-days = 366", "from 1 to 365"),
        (&[], "[account.abc]\nkeys = [\"a2V5\"]\nshare-retention-days = 0", "share-retention-days is from 1 to 365"),
        (&[], "[tokens]\nissuers = [\"i\"]\nkeys = \"nowhere.json\"", "cannot read nowhere.json"),
        (&[], "[tokens]\nissuers = [\"i\"]\nkeys = \"/dev/null\"", "not JSON"),
        (
            &[],
            "[tokens]\nissuers = [\"i\"]\nkeys = \"/dev/null\"\n[[tokens.assign]]\nprincipal = \"p\"\nrole = \"King\"",
            "Storage Blob Data Reader",
        ),
    ] {
        let error = gather(arguments, file).err().unwrap_or_default();
        assert!(error.contains(words), "{arguments:?} {file}: {error}");
    }
}

#[test]
fn https_by_flag_and_by_file() {
    for (arguments, file) in [(&["--tls", "auto"][..], ""), (&[], "tls = \"auto\"")] {
        match gather(arguments, file).expect("right").tls {
            Some(TlsSettings::Auto(auto)) => assert_eq!(auto.authority(), Path::new("lazuli-data/tls/ca.pem")),
            other => panic!("{other:?}"),
        }
    }
    let off = gather(&["--tls", "off"], "tls = \"auto\"").expect("right");
    assert_eq!(off.tls, None);
    let given = gather(&["--tls-cert", "a"], "tls-cert = \"c\"\ntls-key = \"k\"").expect("right").tls;
    assert_eq!(given, Some(TlsSettings::Files(crate::tls::TlsFiles { certificate: "a".into(), key: "k".into() })));
}

#[test]
fn logs_traces_and_tokens_for_development() {
    let settings = gather(&[], "").expect("right");
    assert_eq!((settings.log_format, settings.dev_token_port), (LogFormat::Auto, Port::Off));
    let flags = ["--log-format", "json", "--otlp-endpoint", "http://h:1", "--dev-token-port", "7"];
    let file = "log-format = \"text\"\ntrace-ratio = 0.25\ndev-token-port = 8\n[[tokens.assign]]\nprincipal = \"p\"\nrole = \"Storage Blob Data Reader\"";
    let settings = gather(&flags, file).expect("right");
    assert_eq!((settings.log_format, settings.dev_token_port), (LogFormat::Json, Port::On(7)));
    let otlp = settings.otlp.expect("on");
    assert_eq!((otlp.url.as_str(), otlp.ratio), ("http://h:1/v1/traces", 0.25));
    assert!(settings.tokens.is_some(), "roles without an issuer of one's own");
}

#[test]
fn the_published_key_stays_on_this_machine() {
    let open = gather(&["--host", "0.0.0.0"], "").expect("right");
    assert!(open.refuse_published_key_on_network(&open.accounts).is_err());
    let allowed = gather(&["--host", "0.0.0.0", "--allow-published-key-on-network"], "").expect("right");
    assert!(allowed.refuse_published_key_on_network(&allowed.accounts).is_ok());
    let own = gather(&["--host", "0.0.0.0", "--account", "abc:a2V5"], "").expect("right");
    assert!(own.refuse_published_key_on_network(&own.accounts).is_ok());
}

#[test]
fn a_cluster() {
    let flags =
        ["--engine", "rados", "--ceph-conf", "c", "--ceph-user", "u", "--ceph-namespace", "n", "--shards", "table=3"];
    let file = "records-pool = \"r\"\n[shards]\ncontainer = 7\ntable = 9";
    let settings = gather(&flags, file).expect("right");
    assert!(settings.accounts.is_empty());
    let EngineSettings::Rados(ClusterSettings { address, shards }) = &settings.engine else { panic!("{settings:?}") };
    assert_eq!((address.user.as_str(), address.conf.as_deref()), ("u", Some(Path::new("c"))));
    assert_eq!((address.records_pool.as_str(), address.bodies_pool.as_str()), ("r", "lazuli-bodies"));
    let account = contract::names::AccountName::parse("abc").expect("right");
    let group = |service| partition::key::contents_group(service, &account, env::Id(1));
    for (group, expected) in [
        (group(Service::Blob), 7),
        (group(Service::Table), 3),
        (group(Service::Queue), 1),
        (group(Service::File), 1),
        (partition::key::directory_group(Service::Blob, &account), 4),
        (partition::key::system_group(), 1),
    ] {
        assert_eq!(shards.of(&group), expected, "{group:?}");
    }
    let place = settings.engine.place();
    assert!(place.contains("client.u") && place.contains("r and lazuli-bodies") && place.contains("namespace n"));
    let same = gather(&["--durability", "full"], "engine = \"rados\"").expect("what Ceph does");
    assert!(matches!(same.engine, EngineSettings::Rados(_)));
}

#[test]
fn what_means_nothing_together_is_refused() {
    for (arguments, file, words) in [
        (&["--engine", "rados", "--data", "d"][..], "", "lazuli migrate"),
        (&["--engine", "rados"], "data = \"d\"", "--data"),
        (&["--engine", "rados", "--durability", "relaxed"], "", "on disks"),
        (&["--engine", "rados", "--account", "abc:a2V5"], "", "lazuli account create"),
        (&["--engine", "rados"], "[account.abc]\nkeys = [\"a2V5\"]", "lazuli account create"),
        (&["--ceph-conf", "c"], "", "--engine rados"),
        (&[], "ceph-user = \"u\"", "--ceph-user is about"),
        (&["--shards", "table=2"], "", "--shards is about"),
        (&["--engine", "rados", "--shards", "table"], "", "KIND=N"),
        (&["--engine", "rados", "--shards", "table=0"], "", "from 1 to 256"),
        (&["--engine", "rados", "--shards", "queue=2"], "", "as a whole"),
        (&["--engine", "rados", "--shards", "box=2"], "", "none of container"),
        (&["--engine", "rocks"], "", "rados"),
        (&["--engine", "rados", "--tls", "auto"], "", "--tls-cert and --tls-key"),
        (&["--engine", "rados", "--dev-token-port", "0"], "", "not for the data of a cluster"),
    ] {
        let error = gather(arguments, file).err().unwrap_or_default();
        assert!(error.contains(words), "{arguments:?} {file}: {error}");
    }
}

/// The commands about a directory: where it is, and that a cluster has none.
#[test]
fn directories_to_keep() {
    let gather = |words: &str| {
        let line = CommandLine::try_parse_from(words.split(' ')).map_err(|error| error.to_string())?;
        Asked::gather(line)
    };
    let path = PathBuf::from;
    let (data, scratch) = (path("d"), std::env::temp_dir());
    for words in ["lazuli check d", "lazuli check --data d", "lazuli check d --data other"] {
        let Ok(Asked::Check(check)) = gather(words) else { panic!("{words}") };
        assert_eq!(check, Check { data: data.clone(), scratch: scratch.clone() }, "{words}");
    }
    let Ok(Asked::Check(check)) = gather("lazuli check --scratch s") else { panic!("the default") };
    assert_eq!(check, Check { data: path("lazuli-data"), scratch: path("s") });
    let Ok(Asked::Backup(backup)) = gather("lazuli backup --data d --to t") else { panic!("backup") };
    assert_eq!(backup, Backup { data: data.clone(), to: path("t") });
    let Ok(Asked::Restore(restore)) = gather("lazuli restore --from f --data d") else { panic!("restore") };
    assert_eq!(restore, Restore { from: path("f"), data });
    for (words, expected) in [
        ("lazuli backup --data d", "--to"),
        ("lazuli restore --data d", "--from"),
        ("lazuli check --engine rados", "Ceph's own tools"),
        ("lazuli backup --to t --data d --engine rados", "Ceph's own tools"),
        ("lazuli restore --from f --engine rados", "docs/cluster.md"),
        ("lazuli check --ceph-user u", "say --engine rados"),
    ] {
        let error = gather(words).err().unwrap_or_else(|| panic!("{words} was taken"));
        assert!(error.contains(expected), "{words}: {error}");
    }
}

#[test]
fn limits_of_flags_and_file() {
    let places = |all, per_address| door::Places { all, per_address };
    for (arguments, file, connections, requests) in [
        (&[][..], "", places(10_000, 5000), places(4096, 2048)),
        (&["--connections-max", "7"], "connections-max = 9", places(7, 4), places(4096, 2048)),
        (&[], "connections-max = 9\nconnections-per-address-max = 9", places(9, 9), places(4096, 2048)),
        (&["--requests-per-address-max", "1"], "requests-max = 2", places(10_000, 5000), places(2, 1)),
    ] {
        let limits = gather(arguments, file).expect("right").limits;
        assert_eq!((limits.connections, limits.requests), (connections, requests), "{arguments:?} {file}");
    }
    let limits = gather(&["--stall-timeout", "4"], "idle-timeout = 2\nsmb-idle-timeout = 3").expect("right").limits;
    let (http, smb) = (limits.of_http(), limits.of_smb());
    let seconds = [http.idle, http.stall, http.head, smb.idle, smb.stall].map(|time| time.as_secs());
    assert_eq!(seconds, [2, 4, 2, 3, 4]);
}

#[test]
fn accounts_apart_from_other_arguments() {
    for (line, expected) in [
        ("lazuli", None),
        ("lazuli serve --config account", None),
        ("lazuli serve --account a:b --data d", Some(("lazuli serve --data d", "a:b"))),
        ("lazuli --account=a:b== --data d --account c:d,e:f", Some(("lazuli --data d", "a:b==,c:d,e:f"))),
    ] {
        let found = accounts_apart(line.split(' ').map(OsString::from));
        let expected =
            expected.map(|(rest, accounts)| (rest.split(' ').map(OsString::from).collect(), accounts.to_owned()));
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn keys_that_everybody_can_read() {
    for (arguments, expected) in [
        (&["lazuli", "serve", "--account", "a:b"][..], true),
        (&["lazuli", "--account=a:b"], true),
        (&["lazuli", "serve", "--config", "account"], false),
        (&["lazuli", "account", "create", "a", "--key1=b"], true),
        (&["lazuli", "account", "show", "a", "--keys"], false),
    ] {
        assert_eq!(tells_keys(arguments.iter().map(OsString::from)), expected, "{arguments:?}");
    }
}
