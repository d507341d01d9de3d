//! The libFuzzer door to `targets/sigv4.rs`.
#![no_main]

#[path = "../targets/sigv4.rs"]
mod sigv4;

libfuzzer_sys::fuzz_target!(|data: &[u8]| sigv4::run(data));
