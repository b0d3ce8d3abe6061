//! What the state of a blob forbids: an archived one has no content at hand, a held one must stay as it is, and one that a copy is still
//! making belongs to that copy.
//!
//! Every operation's row says what it does to a blob that is there (`Effect`), and `checks.rs` asks here before any command decides: no
//! command can forget it. A further reason to refuse is a field of `State` and a
//! letter of the table in the tests.

use contract::operations::Effect;
use contract::{ErrorCode, Refusal};
use env::Timestamp;

use crate::record::blob::{Immutability, StoredTier};

/// What is kept of a blob that may stand in the way of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    pub tier: Option<StoredTier>,
    pub immutability: Option<Immutability>,
    pub legal_hold: bool,
    pub copying: bool,
    pub incremental: bool,
    /// From then on it is not there.
    pub expires: Option<Timestamp>,
}

impl Held {
    pub fn at(self, now: Timestamp) -> State {
        State {
            archived: self.tier.is_some_and(|tier| tier.is_archived(now)),
            legal_hold: self.legal_hold,
            immutable: self.immutability.is_some_and(|policy| policy.holds(now)),
            copying: self.copying,
            incremental: self.incremental,
        }
    }

    /// What must stay does not run out.
    pub fn is_expired(self, now: Timestamp) -> bool {
        let State { legal_hold, immutable, .. } = self.at(now);
        self.expires.is_some_and(|expires| now >= expires) && !legal_hold && !immutable
    }
}

/// The same at the moment it is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// In the archive, also while it is on its way out.
    pub archived: bool,
    pub legal_hold: bool,
    /// Under a policy that has not run out.
    pub immutable: bool,
    /// A copy has begun to make it and has not ended. From then on only that copy changes it.
    pub copying: bool,
    /// It follows another's snapshots: only its own snapshots are read, and only the next copy writes to it.
    pub incremental: bool,
}

/// May an operation with this effect go on? `kept`: what it takes away stays as a version.
pub fn judge(effect: Effect, state: State, kept: bool) -> Result<(), Refusal> {
    let of_copy = !matches!(effect, Effect::Nothing | Effect::Reads);
    let of_content = !matches!(effect, Effect::Nothing | Effect::Leases | Effect::Marks | Effect::Deletes);
    let takes_away = match effect {
        Effect::Alters => true,
        Effect::Replaces | Effect::Deletes => !kept,
        _ => false,
    };
    if state.copying && of_copy {
        return Err(ErrorCode::PendingCopyOperation.into());
    }
    if state.incremental && !matches!(effect, Effect::Nothing | Effect::Leases | Effect::Marks | Effect::Deletes) {
        return Err(ErrorCode::OperationNotAllowedOnIncrementalCopyBlob.into());
    }
    if state.legal_hold && takes_away {
        return Err(ErrorCode::BlobImmutableDueToLegalHold.into());
    }
    if state.immutable && takes_away {
        return Err(ErrorCode::BlobImmutableDueToPolicy.into());
    }
    if state.archived && of_content {
        return Err(ErrorCode::BlobArchived.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_does_not_run_out() {
        let (now, later) = (Timestamp::from_ticks(10), Timestamp::from_ticks(11));
        let until = |until| Some(Immutability { until, locked: false });
        for (expires, legal_hold, immutability, expired) in [
            (None, false, None, false),
            (Some(later), false, None, false),
            (Some(now), false, None, true),
            (Some(now), true, None, false),
            (Some(now), false, until(later), false),
            (Some(now), false, until(now), true),
        ] {
            let held = Held { expires, legal_hold, immutability, ..Held::default() };
            assert_eq!(held.is_expired(now), expired, "{held:?}");
        }
    }

    #[test]
    fn every_cell() {
        use Effect::*;
        // a: archived, h: held, i: immutable, c: copying, n: an incremental copy; in capitals what is refused also where versions are kept.
        for (effect, refused) in [
            (Nothing, ""),
            (Reads, "AN"),
            (Snapshots, "ACN"),
            (Leases, "C"),
            (Marks, "C"),
            (Stages, "ACN"),
            (Replaces, "AhiCN"),
            (Alters, "AHICN"),
            (Deletes, "hiC"),
        ] {
            let none = State::default();
            for kept in [false, true] {
                assert_eq!(judge(effect, none, kept), Ok(()));
                for (letter, state, code) in [
                    ('a', State { archived: true, ..none }, ErrorCode::BlobArchived),
                    ('h', State { legal_hold: true, ..none }, ErrorCode::BlobImmutableDueToLegalHold),
                    ('i', State { immutable: true, ..none }, ErrorCode::BlobImmutableDueToPolicy),
                    ('c', State { copying: true, ..none }, ErrorCode::PendingCopyOperation),
                    ('n', State { incremental: true, ..none }, ErrorCode::OperationNotAllowedOnIncrementalCopyBlob),
                ] {
                    let always = refused.contains(letter.to_ascii_uppercase());
                    let expected = always || !kept && refused.contains(letter);
                    let code = expected.then_some(code);
                    assert_eq!(
                        judge(effect, state, kept).err().map(|refusal| refusal.code),
                        code,
                        "{effect:?} {letter}"
                    );
                }
            }
        }
    }
}
