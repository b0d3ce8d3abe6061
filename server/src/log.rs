//! How the program speaks on standard error, or in a file: to people in lines of text, to other programs in lines of JSON.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use env::{Clock, SystemClock};
use serde::Deserialize;
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

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
        log.json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .finish()
            .with(Sparing::default())
            .init();
    } else {
        // https://no-color.org
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        log.with_ansi(is_terminal && !is_plain).finish().with(Sparing::default()).init();
    }
    Ok(())
}

/// So many warnings or errors of one kind are said in so many seconds. What goes wrong with every request fills a disk otherwise, and that
/// may be the disk that went wrong.
const LINES_MAX: u64 = 20;
const SECONDS: u64 = 10;

/// Leaves out lines that say again what was said, and says how many they were. A kind is a place in the program.
#[derive(Default)]
struct Sparing(Mutex<HashMap<Identifier, Said>>);

/// What one kind of line has said.
#[derive(Clone, Copy, Default, Debug)]
struct Said {
    /// Of which `SECONDS`, counted from the beginning of time.
    period: u64,
    lines: u64,
}

impl Said {
    /// Whether another line is said, and how many were left out before it that nobody was told of.
    fn again(&mut self, seconds: u64) -> (bool, u64) {
        let (period, mut left_out) = (seconds / SECONDS, 0);
        if period != self.period {
            left_out = self.lines.saturating_sub(LINES_MAX);
            *self = Said { period, lines: 0 };
        }
        self.lines += 1;
        (self.lines <= LINES_MAX, left_out)
    }
}

impl<S: Subscriber> Layer<S> for Sparing {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN {
            return true; // whoever asked for so much gets it
        }
        let seconds = SystemClock.now().seconds();
        let (is_said, left_out) = {
            let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            said.entry(metadata.callsite()).or_default().again(seconds)
        };
        if left_out > 0 {
            let (place, line) = (metadata.target(), metadata.line());
            tracing::warn!(left_out, place, line, "left out lines that say the same as others");
        }
        is_said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_again_and_again() {
        let mut said = Said::default();
        let in_one_period: Vec<_> = (0..25).map(|_| said.again(1001)).collect();
        assert!(in_one_period[..20].iter().all(|said| *said == (true, 0)));
        assert!(in_one_period[20..].iter().all(|said| *said == (false, 0)));
        assert_eq!(said.again(1009), (false, 0));
        assert_eq!(said.again(1010), (true, 6), "with the next that is said");
        assert_eq!(said.again(1030), (true, 0));
    }

    #[test]
    fn formats() {
        for (format, terminal, piped) in
            [(LogFormat::Auto, false, true), (LogFormat::Text, false, false), (LogFormat::Json, true, true)]
        {
            assert_eq!((format.is_json(true), format.is_json(false)), (terminal, piped), "{format:?}");
        }
    }
}
