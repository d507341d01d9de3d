//! The libFuzzer door to `targets/document.rs`.
#![no_main]

#[path = "../targets/document.rs"]
mod document;

libfuzzer_sys::fuzz_target!(|data: &[u8]| document::run(data));
