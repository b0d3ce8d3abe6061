//! How far a long command has come: one line that is written over on a terminal, a line now and then otherwise. On standard error.

use std::io::{IsTerminal, Write};

/// Steps between two lines.
const STEPS_ON_TERMINAL: u64 = 20_000;
const STEPS_OTHERWISE: u64 = 1_000_000;

pub struct Progress {
    is_terminal: bool,
    shown_at: u64,
    is_line_open: bool,
}

impl Progress {
    pub fn new() -> Self {
        Progress { is_terminal: std::io::stderr().is_terminal(), shown_at: 0, is_line_open: false }
    }

    /// So many steps were done; `words` says what that is.
    pub fn at(&mut self, steps: u64, words: impl FnOnce() -> String) {
        let pause = if self.is_terminal { STEPS_ON_TERMINAL } else { STEPS_OTHERWISE };
        // Another part of the work counts from its own beginning.
        if steps >= self.shown_at && steps < self.shown_at + pause {
            return;
        }
        self.shown_at = steps;
        let mut out = std::io::stderr().lock();
        // Whoever looked may be gone; the work goes on.
        let _ = match self.is_terminal {
            true => write!(out, "\r\x1b[K{}", words()).and_then(|()| out.flush()),
            false => writeln!(out, "{}", words()),
        };
        self.is_line_open = self.is_terminal;
    }

    /// Before anything else is printed.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_line_open) {
            let _ = write!(std::io::stderr(), "\r\x1b[K"); // likewise
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Bytes as people read them.
pub fn sized(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let unit = (0..UNITS.len()).rev().find(|unit| bytes >> (10 * unit) > 0).unwrap_or(0);
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{:.1} {}", bytes as f64 / (1u64 << (10 * unit)) as f64, UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (bytes, expected) in
            [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1 << 41, "2.0 TiB")]
        {
            assert_eq!(sized(bytes), expected);
        }
    }
}
