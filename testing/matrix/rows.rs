//! The rows against the published descriptions, and routing: every row is reached by a request made from its columns, and by no other.

use std::collections::BTreeSet;

use testing::World;

use crate::examples::{chosen, every};

/// Each operation of the published descriptions: the service, the method, the path, its name there.
const PUBLISHED: &str = include_str!("published_operations.txt");

#[test]
fn every_published_operation_has_its_row() {
    let mut missing = Vec::new();
    let mut known: BTreeSet<(&str, &str)> = BTreeSet::new();
    for line in PUBLISHED.lines().filter(|line| !line.is_empty()) {
        let [service, method, _path, name] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        known.insert((service, name));
        let row = every().find(|(of, row)| {
            of.name() == service
                && row.published.contains(&name)
                && row.methods.iter().any(|row_method| row_method.name() == method)
        });
        if row.is_none() {
            missing.push(line);
        }
    }
    assert!(missing.is_empty(), "no row for {missing:#?}");
    for (service, row) in every() {
        for name in row.published {
            assert!(known.contains(&(service.name(), name)), "{:?} claims {name}, which is not published", row.id);
        }
    }
}

/// What is not built answers 501 and nothing else; what is built never does.
#[tokio::test]
async fn what_is_not_built_says_so() {
    let world = World::new().await;
    for (service, row) in every() {
        let answer = world.send(&chosen(service, row)).await;
        if row.built {
            assert_ne!(answer.status, 501, "{:?}", row.id);
        } else {
            assert_eq!((answer.status, answer.code()), (501, "NotImplemented"), "{:?}: {}", row.id, answer.text());
        }
    }
}
