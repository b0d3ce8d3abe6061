//! `guide PAGE`: the Rust program of that page of docs/guide, as it stands there (../build.rs takes it out). testing/guide runs them.

macro_rules! pages {
    ($($page:ident),*) => {
        $(mod $page { include!(concat!(env!("OUT_DIR"), "/", stringify!($page), ".rs")); })*

        fn main() {
            lazuli_clients::provide_tls();
            match std::env::args().nth(1).as_deref() {
                $(Some(stringify!($page)) => $page::main().expect("it does what its page says"),)*
                other => panic!("no page {other:?}"),
            }
        }
    };
}

pages!(blob, queue, table, file, concurrency);
