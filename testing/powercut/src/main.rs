mod body;
mod client;
mod disk;
mod history;
mod judge;
mod record;
mod replay;
mod store;
mod subject;
mod toy;
mod volume;
mod workload;

use std::path::PathBuf;
use subject::Subject;
fn main() {
    let work = PathBuf::from(std::env::args().nth(1).unwrap());
    for habit in [toy::Habit::Careful, toy::Habit::NeverSyncs, toy::Habit::InPlace, toy::Habit::SyncsAfterwards] {
        let subject = Subject::Toy(habit);
        let plan = record::Plan { subject: subject.clone(), kind: volume::Kind::Ext4, disk_bytes: 512 << 20, connections: 6, requests: vec![20, 20], seed: 1 };
        let t = std::time::Instant::now();
        let taken = record::record(&plan, &work.join("record")).unwrap();
        println!("{habit:?}: {} events, {} ops, {} acked, {:?} live {:?}", taken.recording.events.len(), taken.history.operations.len(), taken.history.acknowledged(), t.elapsed(), taken.findings);
        let cuts = replay::some_cuts(&taken.recording, 200, 1);
        let replay = replay::Replay { subject: &subject, kind: volume::Kind::Ext4, taken: &taken, seed: 1, lanes: 2, again_every: 5, stop_early: false, deadline: None };
        let tally = replay.run(&cuts, &work).unwrap();
        println!("  {} cuts {:?} again {} acks {} in {:?}; lost {} torn {} phantom {} dis {} unav {}", tally.cuts, tally.cuts_by_survival, tally.cuts_in_recovery, tally.acknowledgements, tally.elapsed, tally.count(judge::Fault::Lost), tally.count(judge::Fault::Torn), tally.count(judge::Fault::Phantom), tally.count(judge::Fault::Disagrees), tally.count(judge::Fault::Unavailable));
        for (c, f) in tally.findings.iter().take(6) { println!("    {c:?} {f:?}"); }
    }
}
