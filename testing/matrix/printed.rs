//! The tables of operations in the docs, printed from the rows, from what the client suites tried, and from what Azurite answered to the
//! same requests; never written by hand.
//! `README=write` writes them anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use contract::Service;
use contract::operations::Operation;

use crate::examples::every;

/// `Operation: client, client`, as `testing/clients/tried` writes it after a run.
const TRIED: &str = include_str!("../clients/tried.txt");
/// `Operation: status code`, as `testing/guide/test_peer.py` writes it; the first line names the release.
const AZURITE: &str = include_str!("../clients/azurite.txt");
const BEGIN: &str = "<!-- printed from the rows and testing/clients/tried.txt by testing/matrix/printed.rs -->\n";
const END: &str = "<!-- end of what is printed -->\n";

type Tried = BTreeMap<&'static str, Vec<&'static str>>;

fn tried() -> Tried {
    let lines = TRIED.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(": ").expect(line)).map(|(id, by)| (id, by.split(", ").collect())).collect()
}

/// What the peer answered, by operation.
fn peer() -> BTreeMap<&'static str, &'static str> {
    AZURITE.lines().skip(1).map(|line| line.split_once(": ").expect(line)).collect()
}

/// Its name and release.
fn peer_name() -> &'static str {
    let head = AZURITE.lines().next().expect("a first line");
    let name = head.find("Azurite ").map(|at| &head[at..]).and_then(|rest| rest.split_once(" answered"));
    name.expect("the first line names the release").0
}

/// It was asked, and did it.
fn peer_does(row: &Operation, answer: Option<&&str>) -> bool {
    answer.is_some_and(|answer| **answer == row.status.to_string())
}

fn name(row: &Operation) -> String {
    format!("{:?}", row.id)
}

/// Nobody can have tried what is not there.
#[test]
fn only_what_is_built_was_tried() {
    let built: BTreeSet<String> = every().filter(|(_, row)| row.built).map(|(_, row)| name(row)).collect();
    for id in tried().keys() {
        assert!(built.contains(*id), "testing/clients/tried.txt: {id} is not built");
    }
    for id in peer().keys() {
        assert!(
            built.contains(*id),
            "testing/clients/azurite.txt: {id} is not built here, so nobody knows how to ask for it"
        );
    }
}

#[test]
fn the_table_in_the_docs_is_printed_from_the_rows() {
    let (tried, peer, peer_name) = (tried(), peer(), peer_name());
    let mut text = format!(
        "# Operations\nPrinted from the rows of `contract/`, from what the client suites did (`testing/clients/tried.txt`) and from what {peer_name} \
         answered (`testing/clients/azurite.txt`); tests fail when it is not so.\n\n\"Tried with\" names the clients with which the operation \
         succeeded in `./test`; beside them every built operation is asked by the contract matrix. Azurite was sent one request for each \
         operation, the same that succeeds here: \"yes\" is the status of success, and says nothing of the rest of the answer; \"not asked\" needs \
         a directory's token or a copy that is still under way.\n",
    );
    for service in Service::ALL {
        let rows = service.rows();
        let built = rows.iter().filter(|row| row.built).count();
        text.push_str(&format!("\n## {} ({built} of {} built)\n", service.name(), rows.len()));
        text.push_str(&format!("| operation | request | success | state | tried with | {peer_name} |\n"));
        text.push_str("| --- | --- | --- | --- | --- | --- |\n");
        for row in rows {
            let methods: Vec<_> = row.methods.iter().map(|method| method.name()).collect();
            let mut query = Vec::new();
            query.extend(row.chosen_by.restype.map(|value| format!("restype={value}")));
            query.extend(row.chosen_by.comp.map(|value| format!("comp={value}")));
            let query = if query.is_empty() { String::new() } else { format!(" `?{}`", query.join("&")) };
            let state = if row.built { "built" } else { "501 NotImplemented" };
            let clients = tried.get(name(row).as_str()).map(|clients| clients.join(", ")).unwrap_or_default();
            let answer = peer.get(name(row).as_str());
            let there = match answer {
                _ if service == Service::File => "no such service",
                answer if peer_does(row, answer) => "yes",
                Some(answer) => *answer,
                None => "not asked",
            };
            text.push_str(&format!(
                "| {:?} | {} {:?}{query} | {} | {state} | {clients} | {there} |\n",
                row.id,
                methods.join(", "),
                row.on,
                row.status
            ));
        }
    }
    hold("docs/operations.md", |_| text);
}

#[test]
fn the_summary_in_the_readme_is_printed_from_the_rows() {
    let (tried, peer) = (tried(), peer());
    let clients: BTreeSet<&str> = tried.values().flatten().copied().collect();
    let mut text = format!("| service | published by Azure | built here | {} | tried here with |\n", peer_name());
    text.push_str("| --- | --- | --- | --- | --- |\n");
    for service in Service::ALL {
        let rows = service.rows();
        let built = rows.iter().filter(|row| row.built).count();
        let count = |client: &str| {
            let by = |row: &&Operation| tried.get(name(row).as_str()).is_some_and(|clients| clients.contains(&client));
            rows.iter().filter(by).count()
        };
        let counts = clients.iter().map(|client| (client, count(client))).filter(|(_, count)| *count > 0);
        let counts: Vec<String> = counts.map(|(client, count)| format!("{client} {count}")).collect();
        let there = match service {
            Service::File => "none: no such service".to_string(),
            _ => {
                let answer = |row: &Operation| peer.get(name(row).as_str());
                let asked = rows.iter().filter(|row| answer(row).is_some()).count();
                format!("{} of {asked} asked", rows.iter().filter(|row| peer_does(row, answer(row))).count())
            }
        };
        text.push_str(&format!(
            "| {} | {} | {built} | {there} | {} |\n",
            service.name(),
            rows.len(),
            counts.join(", ")
        ));
    }
    hold("README.md", |before| {
        let (head, rest) = before.split_once(BEGIN).expect("README.md has the mark where the summary begins");
        let (_, tail) = rest.split_once(END).expect("README.md has the mark where the summary ends");
        format!("{head}{BEGIN}{text}{END}{tail}")
    });
}

/// The file is what is printed, or is made so.
fn hold(path: &str, print: impl FnOnce(&str) -> String) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    let text = print(&before);
    if std::env::var("README").is_ok_and(|mode| mode == "write") {
        std::fs::write(&file, text).expect("writable");
        return;
    }
    assert!(before == text, "{path} is not what the rows say: README=write cargo test -p lazuli-testing --test matrix");
}
