//! The libFuzzer door to `targets/range.rs`.
#![no_main]

#[path = "../targets/range.rs"]
mod range;

libfuzzer_sys::fuzz_target!(|data: &[u8]| range::run(data));
