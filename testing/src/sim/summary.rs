//! What a run was like: how often everything happened that could.

use std::collections::BTreeMap;

use super::containers::{self, Condition, Said, What};
use super::faulty::Struck;
use super::history::{History, Outcome, Reply};
use super::run::Sim;
use super::wire::Manner;

/// What a right run was like.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Of the whole history, and of how it came about.
    pub digest: u64,
    pub calls: u64,
    /// Writes that were acknowledged.
    pub done: u64,
    /// Reads that showed a value.
    pub shown: u64,
    pub not_found: u64,
    pub steps: u64,
    pub crashes: u64,
    pub jumps: u64,
    pub unknown: u64,
    /// Calls that taught nothing: cut, unheard reads, dates refused after the clock jumped.
    pub nothing: u64,
    pub conditions_met: u64,
    pub conditions_unmet: u64,
    pub listed_rows: u64,
    /// Exchanges that were patient and answered, asked first and were done, were left, were cut.
    pub manners: [u64; Manner::KINDS],
    /// How often each kind of answer was given by the other services.
    pub replies: BTreeMap<String, u64>,
    pub struck: Struck,
}

impl Summary {
    pub fn add(&mut self, other: &Summary) {
        self.digest = self.digest.rotate_left(1) ^ other.digest;
        self.calls += other.calls;
        self.done += other.done;
        self.shown += other.shown;
        self.not_found += other.not_found;
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.jumps += other.jumps;
        self.unknown += other.unknown;
        self.nothing += other.nothing;
        self.conditions_met += other.conditions_met;
        self.conditions_unmet += other.conditions_unmet;
        self.listed_rows += other.listed_rows;
        (0..Manner::KINDS).for_each(|kind| self.manners[kind] += other.manners[kind]);
        for (kind, count) in &other.replies {
            *self.replies.entry(kind.clone()).or_default() += count;
        }
        self.struck.faults += other.struck.faults;
        self.struck.applied_in_secret += other.struck.applied_in_secret;
        self.struck.invented_conflicts += other.struck.invented_conflicts;
        self.struck.real_conflicts += other.struck.real_conflicts;
        self.struck.fenced += other.struck.fenced;
    }
}

pub fn summarize(sim: &Sim, history: &History, steps: u64, struck: Struck) -> Summary {
    let mut summary = Summary {
        digest: history.digest().rotate_left(7) ^ steps ^ struck.faults.rotate_left(32),
        calls: history.calls().len() as u64,
        steps,
        crashes: sim.crashes.get(),
        jumps: sim.jumps.get(),
        manners: sim.manners.get(),
        struck,
        ..Summary::default()
    };
    for call in history.calls() {
        let conditional = match containers::asked(call) {
            Some((_, What::Put { condition, .. } | What::SetContainerMetadata(condition))) => {
                *condition != Condition::None
            }
            _ => false,
        };
        match &call.outcome {
            Outcome::Unknown => summary.unknown += 1,
            Outcome::Nothing => summary.nothing += 1,
            Outcome::Answered(Reply::Container(reply)) => match &reply.said {
                Said::Done => {
                    summary.done += 1;
                    summary.conditions_met += u64::from(conditional);
                }
                Said::Shown(_) => summary.shown += 1,
                Said::BlobNotFound | Said::ContainerNotFound => summary.not_found += 1,
                Said::ConditionNotMet | Said::BlobAlreadyExists => summary.conditions_unmet += 1,
                Said::Listed(listed) => summary.listed_rows += listed.rows.len() as u64,
                _ => {}
            },
            Outcome::Answered(reply) => *summary.replies.entry(reply.kind()).or_default() += 1,
            Outcome::Open | Outcome::Wrong(_) => {}
        }
    }
    summary
}
