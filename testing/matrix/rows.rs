//! The rows against the published descriptions, and routing: every row is reached by a request made from its columns, and by no other.

use std::collections::BTreeSet;

use contract::Service;
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

/// The README's table of operations is this one; `README=write` writes it anew.
#[test]
fn the_table_in_the_docs_is_printed_from_the_rows() {
    let mut text = String::from(
        "# Operations\nPrinted from the rows of `contract/` by `testing/matrix/rows.rs`; a test fails when it is not.\n",
    );
    for service in Service::ALL {
        let rows = service.rows();
        let built = rows.iter().filter(|row| row.built).count();
        text.push_str(&format!("\n## {} ({built} of {} built)\n", service.name(), rows.len()));
        text.push_str("| operation | request | success | state |\n| --- | --- | --- | --- |\n");
        for row in rows {
            let methods: Vec<_> = row.methods.iter().map(|method| method.name()).collect();
            let mut query = Vec::new();
            query.extend(row.chosen_by.restype.map(|value| format!("restype={value}")));
            query.extend(row.chosen_by.comp.map(|value| format!("comp={value}")));
            let query = if query.is_empty() { String::new() } else { format!(" `?{}`", query.join("&")) };
            let state = if row.built { "built" } else { "501 NotImplemented" };
            text.push_str(&format!(
                "| {:?} | {} {:?}{query} | {} | {state} |\n",
                row.id,
                methods.join(", "),
                row.on,
                row.status
            ));
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations.md");
    if std::env::var("README").is_ok_and(|mode| mode == "write") {
        std::fs::write(&path, &text).expect("writable");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/operations.md is not what the rows say: README=write cargo test -p lazuli-testing --test matrix"
    );
}
