//! The libFuzzer door to `targets/proxy.rs`.
#![no_main]

#[path = "../targets/proxy.rs"]
mod proxy;

libfuzzer_sys::fuzz_target!(|data: &[u8]| proxy::run(data));
