//! How the program speaks on standard error, or in a file: to people in lines of text, to other programs in lines of JSON.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Mutex;

use clap::ValueEnum;
use serde::Deserialize;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal and in a file that somebody named, JSON otherwise.
    #[default]
    Auto,
    Text,
    Json,
}

impl LogFormat {
    fn is_json(self, is_for_people: bool) -> bool {
        match self {
            LogFormat::Auto => !is_for_people,
            LogFormat::Text => false,
            LogFormat::Json => true,
        }
    }
}

/// To be called once. It goes to standard error unless a file is named.
pub fn start(level: LevelFilter, format: LogFormat, file: Option<&Path>) -> Result<(), String> {
    let is_terminal = file.is_none() && std::io::stderr().is_terminal();
    let writer = match file {
        None => BoxMakeWriter::new(std::io::stderr),
        Some(path) => {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            let file = file.map_err(|error| format!("cannot write the log to {}: {error}", path.display()))?;
            BoxMakeWriter::new(Mutex::new(file))
        }
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(writer);
    if format.is_json(is_terminal || file.is_some()) {
        // One flat object a line; there are no spans.
        log.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
    } else {
        // https://no-color.org
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        log.with_ansi(is_terminal && !is_plain).init();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        for (format, terminal, piped) in
            [(LogFormat::Auto, false, true), (LogFormat::Text, false, false), (LogFormat::Json, true, true)]
        {
            assert_eq!((format.is_json(true), format.is_json(false)), (terminal, piped), "{format:?}");
        }
    }
}
