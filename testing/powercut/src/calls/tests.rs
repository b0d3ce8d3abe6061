//! Which calls a plan refuses, and where files are found after a rename.

use super::*;

#[test]
fn a_plan_lets_some_go_well_and_refuses_once_or_for_good() {
    let judged = |plan: Plan, calls: &[Call]| -> Vec<bool> {
        let mut state = State { plan: Some(plan), ..State::default() };
        calls.iter().map(|call| state.judge(*call).is_ok()).collect()
    };
    use Call::{Read, Write};
    let plan = Plan { calls: &[Write], errno: libc::ENOSPC, ahead: 1, once: true };
    let calls = [Write, Read, Write, Read, Write];
    assert_eq!(judged(plan, &calls), [true, true, false, true, true]);
    assert_eq!(judged(Plan { once: false, ..plan }, &calls), [true, true, false, true, false]);
    assert_eq!(judged(Plan { calls: &[Read, Write], ahead: 3, ..plan }, &calls), [true, true, true, false, true]);
}

#[test]
fn a_directory_that_moves_takes_what_lies_below_along() {
    let mut state = State::default();
    for (inode, path) in [(2, "/d/a"), (3, "/d/a/f"), (4, "/d/ab")] {
        state.paths.insert(inode, path.into());
    }
    state.moved(Path::new("/d/a"), Path::new("/e"));
    let path = |inode| state.path(INodeNo(inode)).expect("known").display().to_string();
    assert_eq!([path(2), path(3), path(4)], ["/e", "/e/f", "/d/ab"]);
}
