//! The libFuzzer door to `targets/policy.rs`.
#![no_main]

#[path = "../targets/policy.rs"]
mod policy;

libfuzzer_sys::fuzz_target!(|data: &[u8]| policy::run(data));
