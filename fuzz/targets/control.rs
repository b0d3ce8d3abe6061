//! A fault behind six bytes that nobody guesses: a fuzzer that sees what is compared finds it in a moment, any other never.
#![no_main]

use std::hint::black_box;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Number by number: a comparison of six bytes at once may become a call that nobody sees into.
    let number = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let is_there = |at: usize, word: &[u8; 2]| black_box(number(at)).is_some_and(|n| n == u16::from_le_bytes(*word));
    let found = is_there(0, b"la") && is_there(2, b"zu") && is_there(4, b"li");
    assert!(!found, "found");
});
