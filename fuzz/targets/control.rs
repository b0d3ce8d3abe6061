//! A fault behind six bytes that nobody guesses: a fuzzer that sees what is compared finds it in a moment, any other never.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| assert_ne!(bytes.get(..6), Some(&b"lazuli"[..]), "found"));
