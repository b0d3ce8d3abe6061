//! The Rust programs of docs/guide, out of their pages and into files that examples/guide.rs includes: a page's program is written once.

use std::path::Path;
use std::{env, fs};

fn main() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide");
    println!("cargo::rerun-if-changed={}", guide.display());
    for page in ["blob", "queue", "table", "file", "concurrency"] {
        let path = guide.join(page).with_extension("md");
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut found = text.split("```rust\n").skip(1);
        let program =
            found.next().and_then(|rest| rest.split_once("\n```")).unwrap_or_else(|| panic!("{page}: no Rust")).0;
        assert!(found.next().is_none(), "{page}: one program of Rust is run, and here are more");
        // It becomes a module, and is called from outside.
        let module = program.replacen("async fn main()", "pub async fn main()", 1);
        let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join(page).with_extension("rs");
        fs::write(out, module).expect("writable");
    }
}
