//! `lazuli config`: what would be served, as a file that `--config` takes, with where each value comes from behind it. Secrets are dots.

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::file::Written;
use super::help::{self, Setting};
use super::{AccountsFrom, EngineSettings, Settings};

/// Where the comments stand.
const VALUE_COLUMNS: usize = 44;
const SECRET: &str = "...";
const COMMAND_LINE: &str = "command line";

/// `matches` are those of the command with the flags of `serve`.
pub fn effective(matches: &ArgMatches, settings: &Settings, written: &Written) -> String {
    let (mut text, mut tables) = (String::new(), String::new());
    for setting in help::settings() {
        match setting.name.as_str() {
            "account" => tables.push_str(&accounts(&setting, matches, settings, written)),
            "shards" => tables.push_str(&shards(&setting, matches, written)),
            // The file itself is no setting in it.
            "config" => {
                let (value, source) = found(&setting, matches, written);
                if let Some(value) = value {
                    text.insert_str(0, &format!("# with {}, by {source}\n", value.join(",")));
                }
            }
            _ if means_nothing(&setting.name, settings) => {}
            "otlp-endpoint" if is_of_opentelemetry(&setting, matches, settings, written) => {
                let url = settings.otlp.as_ref().map_or("", |otlp| otlp.url.as_str());
                text.push_str(&commented(&setting.name, &written_as(&setting, url), super::otlp::ENDPOINT));
            }
            _ => text.push_str(&line(&setting, matches, written)),
        }
    }
    if let Some(tokens) = written.value("tokens") {
        let table = toml::Table::from_iter([("tokens".to_owned(), tokens.clone())]);
        let place = written.place("tokens").unwrap_or_default();
        tables.push_str(&format!("\n# {place}\n{table}"));
    }
    tables.push_str(&events(written));
    text + &tables
}

/// Does OpenTelemetry's own variable say where traces go?
fn is_of_opentelemetry(setting: &Setting, matches: &ArgMatches, settings: &Settings, written: &Written) -> bool {
    settings.otlp.is_some() && found(setting, matches, written).0.is_none() && written.value(&setting.name).is_none()
}

/// A setting of the other engine. It was not given: that would have been refused.
fn means_nothing(name: &str, settings: &Settings) -> bool {
    const OF_CLUSTERS: [&str; 8] = [
        "ceph-conf",
        "ceph-user",
        "ceph-keyring",
        "records-pool",
        "bodies-pool",
        "ceph-namespace",
        "peer-port",
        "peer-address",
    ];
    match settings.engine {
        EngineSettings::Embedded { .. } => OF_CLUSTERS.contains(&name),
        EngineSettings::Rados(_) => ["data", "durability"].contains(&name),
    }
}

/// The values that were given, and where.
fn found(setting: &Setting, matches: &ArgMatches, written: &Written) -> (Option<Vec<String>>, String) {
    let id = setting.name.replace('-', "_");
    let raw = || matches.get_raw(&id).map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect());
    match matches.value_source(&id) {
        Some(ValueSource::CommandLine) => (raw(), COMMAND_LINE.to_owned()),
        Some(ValueSource::EnvVariable) => (raw(), setting.variable.clone()),
        _ => (None, written.place(&setting.name).unwrap_or_else(|| "default".to_owned())),
    }
}

fn line(setting: &Setting, matches: &ArgMatches, written: &Written) -> String {
    let name = &setting.name;
    let (given, source) = found(setting, matches, written);
    let in_file = written.value(name);
    if setting.is_list {
        // Both hold: what the flags name and what the file lists.
        let listed = in_file.and_then(|value| value.as_array()).into_iter().flatten();
        let listed = listed.filter_map(|value| value.as_str().map(ToOwned::to_owned));
        let both = given.is_some() && in_file.is_some();
        let source = if both { format!("{source}, {}", written.place(name).unwrap_or_default()) } else { source };
        let all: Vec<toml::Value> = given.into_iter().flatten().chain(listed).map(toml::Value::String).collect();
        return commented(name, &toml::Value::Array(all).to_string(), &source);
    }
    let value = match (given, in_file, setting.default.as_deref()) {
        (Some(_), _, _) | (None, Some(_), _) if setting.is_secret => toml::Value::String(SECRET.to_owned()).to_string(),
        (Some(values), _, _) if setting.value.is_none() => values.join(","),
        (Some(values), _, _) => written_as(setting, &values.join(",")),
        (None, Some(value), _) => value.to_string(),
        // What a person says is no value; none is none.
        (None, None, Some(default)) if default == "none" || default.contains(' ') => {
            return commented(&format!("# {name}"), default, &source);
        }
        (None, None, Some(default)) if setting.value.is_none() => default.to_owned(),
        (None, None, Some(default)) => written_as(setting, default),
        (None, None, None) => return commented(&format!("# {name}"), "none", &source),
    };
    commented(name, &value, &source)
}

/// A number where numbers are expected, and words otherwise.
fn written_as(setting: &Setting, value: &str) -> String {
    let (count, ratio) = (value.parse().ok().map(toml::Value::Integer), value.parse().ok().map(toml::Value::Float));
    let number = match setting.value.as_deref() {
        Some("N" | "MIB" | "SECONDS") => count,
        Some("RATIO") => ratio,
        _ => None,
    };
    number.unwrap_or_else(|| toml::Value::String(value.to_owned())).to_string()
}

fn commented(name: &str, value: &str, source: &str) -> String {
    format!("{:<VALUE_COLUMNS$}  # {source}\n", format!("{name} = {value}"))
}

fn accounts(setting: &Setting, matches: &ArgMatches, settings: &Settings, written: &Written) -> String {
    let (given, source) = found(setting, matches, written);
    let by_flag = |name: &str| given.iter().flatten().any(|text| text.split(':').next() == Some(name));
    let mut text = String::new();
    for account in &settings.accounts {
        let name = account.name.as_str();
        let in_file = written.table("account").and_then(|accounts| accounts.get(name)?.as_table());
        let place = |key: &str| written.place(&format!("account.{name}.{key}"));
        let source = match settings.accounts_from {
            AccountsFrom::Default => "default: the development account, whose key everybody knows".to_owned(),
            AccountsFrom::Azurite => "AZURITE_ACCOUNTS".to_owned(),
            AccountsFrom::Given if by_flag(name) => source.clone(),
            AccountsFrom::Given => place("keys").unwrap_or_else(|| "default: the published key".to_owned()),
        };
        let keys = vec![toml::Value::String(SECRET.to_owned()); account.keys.len()];
        text.push_str(&format!("\n[account.{name}]\n"));
        text.push_str(&commented("keys", &toml::Value::Array(keys).to_string(), &source));
        for (key, value) in in_file.into_iter().flatten().filter(|(key, _)| *key != "keys") {
            text.push_str(&commented(key, &value.to_string(), &place(key).unwrap_or_default()));
        }
    }
    text
}

/// As they stand in the file, but for what follows the host of a webhook: it may be a secret.
fn events(written: &Written) -> String {
    let Some(events) = written.value("events") else { return String::new() };
    let mut events = events.clone();
    for to in events.as_array_mut().into_iter().flatten().filter_map(|event| event.get_mut("to")) {
        let host_end = to.as_str().and_then(|text| Some(text.find("://")? + "://".len()).map(|at| (text, at)));
        let host_end = host_end.and_then(|(text, at)| Some((text, at + text[at..].find(['/', '?'])?)));
        if let Some((text, end)) = host_end {
            *to = toml::Value::String(format!("{}/{SECRET}", &text[..end]));
        }
    }
    let table = toml::Table::from_iter([("events".to_owned(), events)]);
    format!("\n# {}\n{table}", written.place("events").unwrap_or_default())
}

/// Flags win over the file, kind by kind.
fn shards(setting: &Setting, matches: &ArgMatches, written: &Written) -> String {
    let (given, source) = found(setting, matches, written);
    let mut kinds: Vec<(String, String, String)> = Vec::new();
    for (kind, value) in written.table("shards").into_iter().flatten() {
        kinds.push((kind.clone(), value.to_string(), written.place(&format!("shards.{kind}")).unwrap_or_default()));
    }
    for flag in given.iter().flatten() {
        let (kind, value) = flag.split_once('=').unwrap_or((flag, ""));
        kinds.retain(|(other, _, _)| other != kind);
        kinds.push((kind.to_owned(), value.to_owned(), source.clone()));
    }
    if kinds.is_empty() {
        return String::new();
    }
    let lines = kinds.iter().map(|(kind, value, source)| commented(kind, value, source));
    format!("\n[shards]\n{}", lines.collect::<String>())
}
