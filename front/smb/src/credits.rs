//! Which message ids a client may use: each once, in a window that moves on as they are used (MS-SMB2 3.3.1.1, 3.3.1.2).

use std::collections::BTreeSet;

/// How far ahead of the lowest unused message id a client may get.
pub const WINDOW: u64 = 8192;

/// The message ids of one connection.
#[derive(Debug)]
pub struct Credits {
    /// Every id below is used.
    low: u64,
    /// Ids from here on are not granted yet.
    high: u64,
    /// Used ids from `low` on.
    used: BTreeSet<u64>,
}

impl Default for Credits {
    /// The first message is 0.
    fn default() -> Credits {
        Credits { low: 0, high: 1, used: BTreeSet::new() }
    }
}

impl Credits {
    /// Uses `charge` ids from `first` on; false if one of them may not be used.
    pub fn use_ids(&mut self, first: u64, charge: u16) -> bool {
        let Some(end) = first.checked_add(u64::from(charge.max(1))) else { return false };
        if first < self.low || end > self.high || self.used.range(first..end).next().is_some() {
            return false;
        }
        self.used.extend(first..end);
        while self.used.remove(&self.low) {
            self.low += 1;
        }
        true
    }

    /// How many ids a response may grant to a request that used `charge` and would like `wanted`.
    pub fn grant(&mut self, charge: u16, wanted: u16, may_grow: bool) -> u16 {
        let extra = if may_grow { wanted.saturating_sub(1) } else { 0 };
        let asked = charge.max(1).saturating_add(extra);
        let granted = u64::from(asked).min((self.low + WINDOW).saturating_sub(self.high));
        self.high += granted;
        granted as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_used_once_and_only_if_it_was_granted() {
        let mut credits = Credits::default();
        assert!(!credits.use_ids(1, 1), "not granted");
        assert!(credits.use_ids(0, 0), "a charge of nothing is one");
        assert!(!credits.use_ids(0, 1), "used");
        assert_eq!(credits.grant(1, 10, true), 10);
        for (first, charge, expected) in [(5, 3, true), (7, 1, false), (4, 2, false), (1, 4, true), (8, 4, false)] {
            assert_eq!(credits.use_ids(first, charge), expected, "{first} {charge}");
        }
        assert!(!credits.use_ids(u64::MAX, 2), "past the last");
    }

    #[test]
    fn a_skipped_id_holds_the_window_back() {
        let mut credits = Credits::default();
        assert!(credits.use_ids(0, 1));
        assert_eq!(credits.grant(1, u16::MAX, true), WINDOW as u16);
        assert!(credits.use_ids(2, 1));
        assert_eq!(credits.grant(1, 100, true), 0, "1 is still to come");
        assert!(credits.use_ids(1, 1));
        assert_eq!(credits.grant(1, 100, true), 2);
    }

    #[test]
    fn who_is_not_known_yet_gets_back_what_it_used() {
        let mut credits = Credits::default();
        assert!(credits.use_ids(0, 1));
        assert_eq!(credits.grant(1, 100, false), 1);
    }
}
