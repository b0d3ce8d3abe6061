//! Azurite's flags, one row each: what becomes of them, or in which words they are refused.

use clap::{FromArgMatches, Parser};

use super::*;

#[derive(Parser, Debug)]
struct Line {
    #[command(flatten)]
    flags: AzuriteFlags,
}

fn parse(words: &str) -> Result<AzuriteFlags, String> {
    let line = Line::try_parse_from(["azurite"].into_iter().chain(words.split_whitespace()));
    line.map(|line| line.flags).map_err(|error| error.to_string())
}

fn translate(words: &str) -> Result<(String, AsAzurite), String> {
    let (arguments, rest) = parse(words)?.translate(None)?;
    let arguments: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Ok((arguments.join(" "), rest))
}

#[test]
fn honoured() {
    for (words, expected) in [
        ("", "--file-port=off --smb-port=off --console-port=off --data lazuli-data --allow-published-key-on-network"),
        ("--blobPort 1 --queuePort 2 --tablePort=3", "--blob-port 1 --queue-port 2 --table-port 3"),
        ("--only blob --blobPort 0", "--blob-port 0 --queue-port off --table-port off"),
        ("--only=queue", "--blob-port off --table-port off"),
        ("--blobHost 0.0.0.0 --queueHost 0.0.0.0 --tableHost 0.0.0.0", "--host 0.0.0.0"),
        ("--blobHost localhost", "--host 127.0.0.1"),
        ("--only blob --blobHost 0.0.0.0", "--host 0.0.0.0"),
        ("-l /x", "--data /x/lazuli-data"),
        ("--location /x", "--data /x/lazuli-data"),
        ("-s", "--log warn"),
        ("-s -d /tmp/log", "--log debug"),
        ("--cert c --key k", "--tls-cert c --tls-key k"),
        ("--blobKeepAliveTimeout 7", "--idle-timeout 7"),
        ("--blobKeepAliveTimeout 7 --tableKeepAliveTimeout 7", "--idle-timeout 7"),
        ("-L --skipApiVersionCheck --disableTelemetry", "--data lazuli-data"),
        ("--inMemoryPersistence", "--durability relaxed"),
    ] {
        let (found, _) = translate(words).unwrap_or_else(|error| panic!("{words}: {error}"));
        assert!(found.contains(expected), "{words}: {found}");
        let line = crate::config::command().try_get_matches_from(found.split(' ')).expect("flags of serve");
        crate::config::CommandLine::from_arg_matches(&line).expect("flags of serve");
    }
}

#[test]
fn beside_the_settings() {
    let (_, rest) = translate("--disableProductStyleUrl -d x.log").expect("right");
    let debug_log = Some(PathBuf::from("x.log"));
    assert_eq!(rest, AsAzurite { debug_log, is_path_style_only: true, ..AsAzurite::default() });
    let (found, rest) = translate("--inMemoryPersistence").expect("right");
    let scratch = rest.scratch.expect("a directory");
    assert!(found.contains(&format!("--data {}", scratch.display())), "{found}");
    let theirs = tempfile::tempdir().expect("a directory");
    std::fs::write(theirs.path().join("__azurite_db_blob__.json"), "").expect("written");
    let (_, rest) = translate(&format!("-l {}", theirs.path().display())).expect("right");
    assert!(rest.left_alone.is_some());
}

#[test]
fn refused_by_name() {
    for (words, expected) in [
        ("--oauth basic", "--oauth basic"),
        ("--pwd secret", "--pwd"),
        ("--cert c", "--cert and --key"),
        ("--key k", "--cert and --key"),
        ("--extentMemoryLimit 5", "--extentMemoryLimit"),
        ("--inMemoryPersistence --extentMemoryLimit 5", "--extentMemoryLimit"),
        ("--inMemoryPersistence -l x", "--inMemoryPersistence and --location"),
        ("--blobHost 0.0.0.0", "--queueHost 127.0.0.1, which is its default"),
        ("--blobHost 10.0.0.1 --queueHost 10.0.0.2 --tableHost 10.0.0.1", "--queueHost 10.0.0.2"),
        ("--blobHost example.org", "--blobHost example.org: it is an IP address"),
        ("--only blob --queuePort 1", "--queuePort"),
        ("--only table --blobHost ::1", "--blobHost"),
        ("--blobKeepAliveTimeout 7 --queueKeepAliveTimeout 8", "--queueKeepAliveTimeout 8"),
        ("--blobPort 70000", "--blobPort"),
        ("--blobPrt 1", "--blobPort"),
    ] {
        let error = translate(words).err().unwrap_or_else(|| panic!("{words} was taken"));
        assert!(error.contains(expected), "{words}: {error}");
    }
    let error = parse("").expect("right").translate(Some("mysql://…".into())).err().unwrap_or_default();
    assert!(error.contains("AZURITE_DB"), "{error}");
}

#[test]
fn called_by_its_names() {
    let words = |words: &str| as_command(words.split(' ').map(OsString::from)).join(" ".as_ref());
    for (given, expected) in [
        ("lazuli serve", "lazuli serve"),
        ("/usr/bin/azurite -s", "lazuli azurite -s"),
        ("azurite-blob --blobPort 1", "lazuli azurite --only=blob --blobPort 1"),
        ("./azurite-queue", "lazuli azurite --only=queue"),
        ("azurite-table", "lazuli azurite --only=table"),
        ("azurites", "azurites"),
    ] {
        assert_eq!(words(given), OsString::from(expected));
    }
}

#[test]
fn errors_in_its_words() {
    assert_eq!(in_its_words("choose another with --blob-port, or 0"), "choose another with --blobPort, or 0");
}
