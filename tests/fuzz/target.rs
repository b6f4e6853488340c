//! Runs the target of `src/fuzz.rs` that has this program's name.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| collectory::fuzz::run(env!("CARGO_BIN_NAME"), bytes));
