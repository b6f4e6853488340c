//! One target of `src/fuzz.rs`: that of the program's own name.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| collectory::fuzz::run(env!("CARGO_BIN_NAME"), bytes));
