//! The examples do what their README says.

use std::process::Command;

use lazuli_clients::{account_sas, endpoint};

#[test]
fn blob_concurrency() {
    // Built beside this test: `cargo test` builds the examples, too.
    let here = std::env::current_exe().expect("a path");
    let example = here
        .parent()
        .and_then(|deps| deps.parent())
        .expect("deps/ is in a directory")
        .join("examples/blob-concurrency");
    let url = format!("{}?{}", endpoint(), account_sas("rwdlac"));
    let ran = Command::new(example).env("AZURE_STORAGE_BLOB_URL", url).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let readme = include_str!("../../../../examples/blob-concurrency/README.md");
    let expected =
        readme.split_once("```text\n").and_then(|(_, rest)| rest.split_once("```")).expect("what is printed").0;
    assert_eq!(said, expected);
}
