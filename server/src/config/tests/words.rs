//! Flags, variables and keys are the same words; what is wrong is named; what is printed is true.

use std::ffi::OsString;

use serde::de::value::Error as Introspected;
use serde::de::{Deserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::*;
use crate::config::help::{ONLY_IN_THE_FILE, settings};

/// Tells the keys of a struct instead of reading one.
struct Keys<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Keys<'_> {
    type Error = Introspected;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Introspected> {
        Err(serde::de::Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Introspected> {
        *self.0 = fields;
        Err(serde::de::Error::custom("only its keys"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

fn keys_of<T: serde::de::DeserializeOwned>() -> &'static [&'static str] {
    let mut keys: &'static [&'static str] = &[];
    let _ = T::deserialize(Keys(&mut keys));
    keys
}

/// The file alone says where bearer tokens come from and who is told of blobs; the flag that names the file cannot be in it.
#[test]
fn every_flag_is_a_variable_and_a_key_and_the_other_way_round() {
    let keys = keys_of::<ConfigFile>();
    let settings = settings();
    for setting in &settings {
        let variable = format!("LAZULI_{}", setting.name.replace('-', "_").to_uppercase());
        assert_eq!(setting.variable, variable, "--{}", setting.name);
        assert!(keys.contains(&setting.name.as_str()) != (setting.name == "config"), "--{} in the file", setting.name);
        assert!(setting.default.is_some(), "--{} says no default", setting.name);
    }
    for key in keys.iter().filter(|key| !["tokens", "events"].contains(key)) {
        assert!(settings.iter().any(|setting| setting.name == *key), "{key} is no flag");
    }
    let serve = command().find_subcommand("serve").expect("serve").clone();
    let flags = serve.get_arguments().filter(|arg| arg.get_id() != "help").count();
    assert_eq!(flags, settings.len(), "a flag of serve is no variable");
}

#[test]
fn tables_of_the_file_are_on_the_page() {
    let found = [
        keys_of::<AccountSettings>(),
        keys_of::<TokenSettings>(),
        keys_of::<AssignmentSettings>(),
        keys_of::<SubscriptionSettings>(),
    ];
    assert_eq!(found.len(), ONLY_IN_THE_FILE.len());
    for (keys, (table, told)) in found.into_iter().zip(ONLY_IN_THE_FILE) {
        assert_eq!(told.iter().map(|(key, _)| *key).collect::<Vec<_>>(), keys, "{table}");
    }
}

/// A default that is a value is the default: to say it changes nothing.
#[test]
fn defaults_are_as_they_are_told() {
    let nothing = format!("{:?}", gather(&[], "").expect("right"));
    let of_cluster = format!("{:?}", gather(&["--engine", "rados"], "").expect("right"));
    let mut tried = 0;
    for setting in settings().iter().filter(|setting| setting.value.is_some()) {
        let default = setting.default.as_deref().unwrap_or_default();
        if default == "none" || default.contains(' ') {
            continue;
        }
        let flag = format!("--{}", setting.name);
        tried += 1;
        let with = match gather(&[&flag, default], "") {
            Ok(settings) => format!("{settings:?}") == nothing,
            // It is about clusters.
            Err(_) => format!("{:?}", gather(&["--engine", "rados", &flag, default], "").expect("right")) == of_cluster,
        };
        assert!(with, "{flag} {default} is not the default");
    }
    assert!(tried > 15, "{tried}");
}

#[test]
fn help_of_serve_fits_a_screen() {
    let mut command = command();
    command.build();
    for name in ["serve", "config"] {
        let help = command.find_subcommand_mut(name).expect("a command").render_help().to_string();
        let lines: Vec<&str> = help.lines().collect();
        assert!((24..=50).contains(&lines.len()), "{} lines: {help}", lines.len());
        for line in lines {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
    let all = command.render_long_help().to_string();
    assert!(all.lines().count() <= 40, "{all}");
}

#[test]
fn the_page_of_settings_is_as_printed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    let page = settings_page(Page::Markdown);
    if std::env::var("README").as_deref() == Ok("write") {
        std::fs::write(&path, &page).expect("written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page,
        "docs/settings.md is not as it would be printed: lazuli settings --markdown, or README=write"
    );
}

#[test]
fn wrong_lines_of_the_file_are_named() {
    for (file, words) in [
        ("data = \"d\"\nblob-prot = 1", "lazuli.toml:2: blob-prot is no setting: did you mean blob-port?"),
        ("colour = 1", "lazuli.toml:1: colour is no setting; there are: data, host, blob-port"),
        ("\n\nblob-port = 70000", "lazuli.toml:3: blob-port: a port is a number from 0 to 65535, or `off`"),
        ("blob-port = \"on\"", "lazuli.toml:1: blob-port: a port is"),
        ("durability = \"relaxd\"", "did you mean relaxed?"),
        ("log = \"loud\"", "lazuli.toml:1: log: \"loud\" is no level"),
        ("idle-timeout = \"1\"", "lazuli.toml:1: idle-timeout: invalid type"),
        (
            "[account.abc]\nkeys = [\"a2V5\"]\nversionning = true",
            "lazuli.toml:3: versionning is no setting in [account.abc]: did you mean versioning?",
        ),
        ("host = \"here\"", "lazuli.toml:1: host: "),
        ("data = ", "lazuli.toml:1: "),
        ("a = 1\na = 2", "lazuli.toml:2: "),
    ] {
        let error = gather(&[], file).err().unwrap_or_default();
        assert!(error.contains(words), "{file:?}: {error}");
    }
}

#[test]
fn wrong_flags_are_named() {
    let error = gather(&["--blob-prot", "1"], "").err().unwrap_or_default();
    assert!(error.contains("--blob-prot") && error.contains("'--blob-port'"), "{error}");
    let error = gather(&["--durability", "relaxd"], "").err().unwrap_or_default();
    assert!(error.contains("relaxd") && error.contains("'relaxed'"), "{error}");
}

#[test]
fn variables_that_mean_nothing() {
    let pair = |name: &str| (OsString::from(name), OsString::new());
    let names = [
        "LAZULI_BLOB_PROT",
        "LAZULI_DATA",
        "LAZULI_KEY1",
        "LAZULI_COLOUR",
        "LAZULI_SERVICE_HOST",
        "LAZULI_PORT_10000_TCP",
        "PATH",
    ];
    let warnings = unknown_variables(names.into_iter().map(pair));
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("LAZULI_BLOB_PROT") && warnings[0].ends_with("did you mean LAZULI_BLOB_PORT?"));
    assert!(warnings[1].contains("LAZULI_COLOUR"));
}

fn shown(arguments: &[&str], file: &str) -> String {
    let matches = command().try_get_matches_from([&["lazuli", "config"], arguments].concat()).expect("right");
    let line = CommandLine::from_arg_matches(&matches).expect("right");
    let Some(Command::Config(flags)) = line.command else { panic!("config") };
    let (file, written) = super::super::file::parse(Path::new("lazuli.toml"), file).expect("right");
    let settings = Settings::merge(*flags, file, "").expect("right");
    effective(matches.subcommand().expect("config").1, &settings, &written)
}

#[test]
fn what_holds_and_where_it_comes_from() {
    let file = "queue-port = \"off\"\ncopy-source = [\"h\"]\n[account.abc]\nkeys = [\"a2V5\"]\nversioning = true\n";
    let text = shown(&["--blob-port", "0", "--copy-source", "i:1", "--account", "def:a2V5:a2V5"], file);
    let line =
        |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start} in {text}"));
    for (start, source) in [
        ("blob-port = 0 ", "# command line"),
        ("queue-port = \"off\"", "# lazuli.toml:1"),
        ("table-port = 10002", "# default"),
        ("data = \"lazuli-data\"", "# default"),
        ("copy-source = [\"i:1\", \"h\"]", "# command line, lazuli.toml:2"),
        ("allow-published-key-on-network = false", "# default"),
        ("# tls-cert = none", "# default"),
        ("tls = \"off\"", "# default"),
        ("# trace-ratio = 1, all of them", "# default"),
        ("keys = [\"...\", \"...\"]", "# command line"),
        ("keys = [\"...\"] ", "# lazuli.toml:4"),
        ("versioning = true", "# lazuli.toml:5"),
    ] {
        assert!(line(start).ends_with(source), "{start}: {text}");
    }
    assert!(!text.contains("a2V5"), "a key is shown: {text}");
    let events =
        "[[events]]\nname = \"x\"\nto = \"https://h:1/?code=secret\"\n[[events]]\nname = \"y\"\nto = \"queue:jobs\"";
    let told = shown(&[], events);
    assert!(told.contains("\"https://h:1/...\"") && told.contains("\"queue:jobs\""), "{told}");
    assert!(!told.contains("secret"), "a webhook's secret is shown: {told}");
    let of_cluster = shown(&["--engine", "rados", "--shards", "table=3"], "[shards]\ncontainer = 7\ntable = 9\n");
    assert!(of_cluster.contains("[shards]\ncontainer = 7") && of_cluster.contains("table = 3 "), "{of_cluster}");
}

/// What is printed can be given back, but for keys.
#[test]
fn what_is_printed_is_a_file() {
    for arguments in [
        &[][..],
        &["--blob-port", "7", "--log", "warn", "--data", "9"],
        &["--engine", "rados", "--shards", "table=3"],
        &["--tls", "auto", "--tls-name", "a.test,b.test", "--dev-token-port", "0", "--log-format", "json"],
        &["--otlp-endpoint", "http://h:4318", "--trace-ratio", ".5"],
    ] {
        let text = shown(arguments, "");
        let text = text.split("\n[account").next().unwrap_or_default();
        let (there, again) = (
            gather(arguments, "").expect("right"),
            gather(&[], text).unwrap_or_else(|error| panic!("{error} in {text}")),
        );
        assert_eq!(format!("{there:?}"), format!("{again:?}"), "{text}");
    }
}

#[test]
fn accounts_of_azurite() {
    let merge = |arguments: &[&str], azurite: &str| {
        let line = CommandLine::try_parse_from([&["lazuli"], arguments].concat()).expect("right");
        let settings = Settings::merge(line.serve, ConfigFile::default(), azurite)?;
        let names: Vec<String> = settings
            .accounts
            .iter()
            .map(|account| format!("{}:{}", account.name.as_str(), account.keys.len()))
            .collect();
        Ok::<_, String>(names.join(" "))
    };
    assert_eq!(merge(&[], "abc:a2V5:a2V5;def:a2V5;").as_deref(), Ok("abc:2 def:1"));
    assert_eq!(merge(&["--account", "ghi:a2V5"], "abc:a2V5").as_deref(), Ok("ghi:1"));
    for (azurite, words) in
        [("abc", "abc:…"), ("abc:***", "Base64"), ("abc:a2V5;abc:a2V5", "twice"), (";", "names no account")]
    {
        let error = merge(&[], azurite).err().unwrap_or_default();
        assert!(error.contains(words) && error.contains("AZURITE_ACCOUNTS"), "{azurite}: {error}");
    }
}
