//! The libFuzzer door to `targets/form.rs`.
#![no_main]

#[path = "../targets/form.rs"]
mod form;

libfuzzer_sys::fuzz_target!(|data: &[u8]| form::run(data));
