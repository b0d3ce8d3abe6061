//! Where to look for a queue's messages, so that finding them costs the same whatever the queue holds and whatever it held.
//!
//! Deleted records slow a scan down that crosses them until the engine has cleaned up, and at the head of a queue everything was
//! deleted. So each queue keeps, in the same commits as its messages:
//!
//! 1. `count`: how many messages there are. Exact.
//! 2. `floor`: no message stands at a place below it. Scans begin here. Receiving moves it past what was received; whatever puts a
//!    message below it (a clock that was set back) lowers it.
//! 3. `removed`: every place at or above the floor that a message left lies between the two. A receive that finds nothing raises the
//!    floor (a write) only if it crossed some of them and the floor is older than `FLOOR_AGE_TICKS`: so polling an idle queue writes
//!    nothing, and no place that was left is crossed again and again.
//! 4. `expiry_floor`: no message expires before it.
//! 5. `at_once_last`: no message that is to be visible at once stands at a later moment. A receive by a clock that is behind looks as
//!    far as this, so that it sees what was put before it began, whoever's clock said when.

use env::{TICKS_PER_SECOND, Timestamp};

use crate::record::{Place, QueueState};

/// A floor younger than this is not worth a write: so much, a tenth of a second's worth of removed places, may be crossed again.
const FLOOR_AGE_TICKS: u64 = TICKS_PER_SECOND / 10;
/// How old the expiry floor gets before a command looks for what expired since.
const EXPIRY_AGE_TICKS: u64 = TICKS_PER_SECOND;

impl Default for QueueState {
    /// Of a queue that never had a message.
    fn default() -> Self {
        let never = Timestamp::from_ticks(0);
        QueueState { count: 0, floor: Place::FIRST, removed: None, expiry_floor: never, at_once_last: never }
    }
}

impl QueueState {
    /// A new message.
    pub fn add(&mut self, place: Place, expiry: Timestamp) {
        if self.count == 0 {
            // Nothing stands anywhere, so whatever was removed lies behind or does not matter.
            self.raise_floor(place);
            self.expiry_floor = expiry;
        }
        self.count += 1;
        self.put(place);
        self.expiry_floor = self.expiry_floor.min(expiry);
    }

    /// A message that is there gets another place.
    pub fn put(&mut self, place: Place) {
        if place < self.floor {
            // What was left between the two counts again.
            let last = self.removed.map_or(self.floor, |(_, last)| last.max(self.floor));
            self.removed = Some((place, last));
            self.floor = place;
        }
    }

    /// The last moment at which a message may stand that is visible now.
    pub fn last_visible(&self, now: Timestamp) -> Timestamp {
        now.max(self.at_once_last)
    }

    /// A message left its place for another.
    pub fn leave(&mut self, place: Place) {
        if place >= self.floor {
            let (first, last) = self.removed.unwrap_or((place, place));
            self.removed = Some((first.min(place), last.max(place)));
        }
    }

    /// A message is gone.
    pub fn remove(&mut self, place: Place) {
        self.leave(place);
        self.count = self.count.saturating_sub(1);
    }

    /// No message stands below `floor` any more.
    pub fn raise_floor(&mut self, floor: Place) {
        self.floor = self.floor.max(floor);
        self.removed = match self.removed {
            Some((first, last)) if last >= self.floor => Some((first.max(self.floor), last)),
            _ => None,
        };
    }

    /// Is it worth a write to raise the floor, nothing having been found up to `now`?
    pub fn floor_is_stale(&self, now: Timestamp) -> bool {
        let crossed = self.removed.is_some_and(|(first, _)| first <= Place::last_visible(now));
        self.count > 0 && crossed && self.floor.next_visible.plus_ticks(FLOOR_AGE_TICKS) <= now
    }

    /// Is it time to look for what expired?
    pub fn expiry_is_stale(&self, now: Timestamp) -> bool {
        self.count > 0 && self.expiry_floor.plus_ticks(EXPIRY_AGE_TICKS) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tenths: u64) -> Place {
        Place { next_visible: Timestamp::from_ticks(tenths * FLOOR_AGE_TICKS), number: tenths }
    }

    fn shown(state: &QueueState) -> String {
        let tenths = |place: Place| place.next_visible.ticks() / FLOOR_AGE_TICKS;
        let removed = state.removed.map_or("-".into(), |(first, last)| format!("{}..{}", tenths(first), tenths(last)));
        format!("{} floor {} removed {removed}", state.count, tenths(state.floor))
    }

    /// Steps in tenths of a second, and what holds after each.
    #[test]
    fn a_story() {
        let mut state = QueueState::default();
        let mut check = |step: &str, expected: &str| {
            let words: Vec<&str> = step.split(' ').collect();
            let number = |i: usize| at(words[i].parse().expect("a number"));
            match words[0] {
                "add" => state.add(number(1), Timestamp::MAX),
                "remove" => state.remove(number(1)),
                "floor" => state.raise_floor(number(1)),
                // Received: the floor moved past it, it left its place and is hidden until later.
                "get" => {
                    state.raise_floor(number(1).after());
                    state.leave(number(1));
                    state.put(number(2));
                }
                "stale" => {
                    let stale = state.floor_is_stale(number(1).next_visible);
                    assert_eq!(stale.to_string(), expected, "{step}");
                    return;
                }
                other => panic!("{other}"),
            }
            assert_eq!(shown(&state), expected, "{step}");
        };
        check("add 10", "1 floor 10 removed -");
        check("add 11", "2 floor 10 removed -");
        check("get 10 310", "2 floor 10 removed -");
        check("remove 310", "1 floor 10 removed 310..310");
        check("stale 20", "false"); // what was removed lies ahead: nothing was crossed
        check("stale 310", "true");
        check("get 11 311", "1 floor 11 removed 310..310");
        check("floor 310", "1 floor 310 removed 310..310");
        check("stale 310", "false"); // too young
        check("stale 311", "true");
        check("floor 400", "1 floor 400 removed -");
        check("stale 500", "false"); // nothing to cross
        check("add 390", "2 floor 390 removed 390..400"); // the clock was set back
        check("remove 390", "1 floor 390 removed 390..400");
        check("remove 311", "0 floor 390 removed 390..400");
        check("stale 500", "false"); // empty: nobody scans
        check("add 380", "1 floor 380 removed 380..400");
        check("remove 380", "0 floor 380 removed 380..400");
        check("add 500", "1 floor 500 removed -");
    }

    #[test]
    fn expiry() {
        let second = |n: u64| Timestamp::from_ticks(n * TICKS_PER_SECOND);
        let mut state = QueueState::default();
        assert!(!state.expiry_is_stale(second(100)));
        state.add(at(0), second(50));
        assert!(!state.expiry_is_stale(second(50)));
        assert!(state.expiry_is_stale(second(51)));
        state.add(at(1), second(20));
        assert!(state.expiry_is_stale(second(21)));
    }
}
