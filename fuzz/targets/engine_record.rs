#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| testing::fuzz::stored::engine_record(bytes));
