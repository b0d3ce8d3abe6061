//! The configuration file: what stands in it and in which line, and what is wrong with it, said with the line and the key.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use super::nearest::did_you_mean;

/// What was written, by whom reads it later.
#[derive(Clone, Debug, Default)]
pub struct Written {
    path: PathBuf,
    table: toml::Table,
    /// Keys with dots between tables, and their lines, in the order of the file.
    lines: Vec<(String, usize)>,
}

impl Written {
    /// The value of a key of the file itself.
    pub fn value(&self, key: &str) -> Option<&toml::Value> {
        self.table.get(key)
    }

    pub fn table(&self, key: &str) -> Option<&toml::Table> {
        self.table.get(key)?.as_table()
    }

    /// `lazuli.toml:3`, where the key stands.
    pub fn place(&self, key: &str) -> Option<String> {
        let (_, line) = self.lines.iter().find(|(other, _)| other == key)?;
        Some(format!("{}:{line}", self.path.display()))
    }
}

pub fn read<T: DeserializeOwned>(path: &Path) -> Result<(T, Written), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    parse(path, &text)
}

pub fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<(T, Written), String> {
    let mut lines = Vec::new();
    let words = |lines: &[(String, usize)], error: &toml::de::Error| words(path, text, lines, error);
    let table = DeTable::parse(text).map_err(|error| words(&lines, &error))?;
    note_lines(text, "", table.get_ref(), &mut lines);
    lines.sort_by_key(|(_, line)| *line);
    let settings = toml::from_str(text).map_err(|error| words(&lines, &error))?;
    let table = toml::from_str(text).map_err(|error| words(&lines, &error))?;
    Ok((settings, Written { path: path.to_owned(), table, lines }))
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn note_lines(text: &str, within: &str, table: &DeTable<'_>, lines: &mut Vec<(String, usize)>) {
    for (key, value) in table {
        let name = format!("{within}{}", key.get_ref());
        lines.push((name.clone(), line_of(text, key.span().start)));
        match value.get_ref() {
            DeValue::Table(inner) => note_lines(text, &format!("{name}."), inner, lines),
            DeValue::Array(items) => {
                for item in items.iter() {
                    if let DeValue::Table(inner) = item.get_ref() {
                        note_lines(text, &format!("{name}."), inner, lines);
                    }
                }
            }
            _ => {}
        }
    }
}

/// `lazuli.toml:3: blob-prot is no setting: did you mean blob-port?`
fn words(path: &Path, text: &str, lines: &[(String, usize)], error: &toml::de::Error) -> String {
    let line = error.span().map(|span| line_of(text, span.start));
    let place = line.map_or(path.display().to_string(), |line| format!("{}:{line}", path.display()));
    let key = lines.iter().rev().find(|(_, at)| Some(*at) == line).map(|(key, _)| key.as_str());
    let message = error.message().trim_end().replace('\n', ", ");
    if let Some((given, known)) = unknown(&message, "unknown field `") {
        let within =
            key.and_then(|key| key.rsplit_once('.')).map_or(String::new(), |(table, _)| format!(" in [{table}]"));
        let meant = did_you_mean(given, known.iter().copied());
        let meant = if meant.is_empty() { format!("; there are: {}", known.join(", ")) } else { meant };
        return format!("{place}: {given} is no setting{within}{meant}");
    }
    let key = key.map_or(String::new(), |key| format!("{key}: "));
    let meant = unknown(&message, "unknown variant `").map(|(given, known)| did_you_mean(given, known));
    format!("{place}: {key}{message}{}", meant.unwrap_or_default())
}

/// Of ``unknown field `a`, expected one of `b`, `c` `` the first name, and the others.
fn unknown<'a>(message: &'a str, start: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (given, rest) = message.strip_prefix(start)?.split_once('`')?;
    Some((given, rest.split('`').skip(1).step_by(2).collect()))
}
