//! Access tiers: what Set Blob Tier does, and what a tier is at a moment.
//!
//! Leaving the archive takes a while. Nothing is written when it is over: a rehydration has a moment at which it is done, and whoever
//! looks compares.

use contract::{ErrorCode, Refusal};
use env::Timestamp;

use crate::record::blob::{BlobKind, Rehydration, StoredTier, Tier};

impl StoredTier {
    /// With a rehydration that is done by now made the tier.
    pub fn at(self, now: Timestamp) -> StoredTier {
        match self.rehydrating {
            Some(Rehydration { to, done, .. }) if now >= done => {
                StoredTier { level: to, since: done, rehydrating: None }
            }
            _ => self,
        }
    }

    /// Is the content out of reach? So it is, too, while it is on its way back.
    pub fn is_archived(self, now: Timestamp) -> bool {
        self.at(now).level == Tier::Archive
    }
}

/// What Set Blob Tier asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierChange {
    pub to: Tier,
    pub high_priority: bool,
    /// How long leaving the archive takes.
    pub rehydration_seconds: u64,
}

/// The tier after Set Blob Tier.
pub fn set(
    stored: Option<StoredTier>,
    kind: BlobKind,
    change: TierChange,
    now: Timestamp,
) -> Result<StoredTier, Refusal> {
    // Tiers of page blobs are those of premium accounts.
    if !kind.is_block() {
        return Err(ErrorCode::InvalidBlobType.into());
    }
    match stored.map(|stored| stored.at(now)) {
        Some(StoredTier { rehydrating: Some(_), .. }) => Err(ErrorCode::BlobBeingRehydrated.into()),
        Some(stored) if stored.level == change.to => Ok(stored),
        Some(stored) if stored.level == Tier::Archive => {
            let done = now.plus_seconds(change.rehydration_seconds);
            let rehydrating = Some(Rehydration { to: change.to, high_priority: change.high_priority, done });
            Ok(StoredTier { rehydrating, ..stored })
        }
        _ => Ok(StoredTier { level: change.to, since: now, rehydrating: None }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(seconds: u64) -> Timestamp {
        Timestamp::from_ticks(0).plus_seconds(seconds)
    }

    /// Each line: the second, the tier that is asked for (`!` with high priority), what comes of it: `tier since`, `> tier` for where
    /// it is on its way to. Rehydration takes 60 seconds.
    #[track_caller]
    fn check(story: &str) {
        let mut stored: Option<StoredTier> = None;
        for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (asked, expected) = line.split_once("=>").expect("asked => tier");
            let (at, asked) = asked.trim().split_once(' ').expect("second tier");
            let now = second(at.parse().expect("a second"));
            let (name, high_priority) = asked.strip_suffix('!').map_or((asked, false), |name| (name, true));
            let outcome = match Tier::ALL.into_iter().find(|tier| tier.name() == name) {
                Some(to) => {
                    set(stored, BlobKind::Block, TierChange { to, high_priority, rehydration_seconds: 60 }, now)
                        .map(Some)
                }
                None => Ok(stored),
            };
            let shown = match outcome {
                Err(refusal) => refusal.code.name().to_string(),
                Ok(after) => {
                    stored = after;
                    let shown = stored.expect("a tier was set").at(now);
                    let way = shown
                        .rehydrating
                        .map(|way| format!(" > {}{}", way.to.name(), if way.high_priority { "!" } else { "" }));
                    format!(
                        "{} {}{}",
                        shown.level.name(),
                        shown.since.ticks() / env::TICKS_PER_SECOND,
                        way.unwrap_or_default()
                    )
                }
            };
            assert_eq!(shown, expected.trim(), "{line}");
        }
    }

    #[test]
    fn stories() {
        check(
            "  1 Cool     => Cool 1
               2 Cool     => Cool 1
               3 Cold     => Cold 3
               4 Hot      => Hot 4
               5 Archive  => Archive 5
               6 Archive  => Archive 5
               7 Cool!    => Archive 5 > Cool!
               8 Hot      => BlobBeingRehydrated
               9 Archive  => BlobBeingRehydrated
              66 look     => Archive 5 > Cool!
              67 look     => Cool 67
              99 look     => Cool 67
             100 Archive  => Archive 100
             101 Hot      => Archive 100 > Hot
             200 Archive  => Archive 200 ",
        );
    }

    #[test]
    fn only_block_blobs_have_tiers() {
        let change = TierChange { to: Tier::Cool, high_priority: false, rehydration_seconds: 0 };
        for kind in [BlobKind::Append { blocks: 0, sealed: false }, BlobKind::Page { sequence: 0, made: 0 }] {
            let refused = set(None, kind, change, second(1)).err().map(|refusal| refusal.code);
            assert_eq!(refused, Some(ErrorCode::InvalidBlobType));
        }
    }

    #[test]
    fn the_content_is_out_of_reach_until_it_is_back() {
        let way = Rehydration { to: Tier::Hot, high_priority: false, done: second(10) };
        let archived = StoredTier { level: Tier::Archive, since: second(1), rehydrating: None };
        assert!(archived.is_archived(second(1_000_000)));
        let leaving = StoredTier { rehydrating: Some(way), ..archived };
        assert!(leaving.is_archived(second(9)) && !leaving.is_archived(second(10)));
    }
}
