//! The libFuzzer door to `targets/aws_chunked.rs`.
#![no_main]

#[path = "../targets/aws_chunked.rs"]
mod aws_chunked;

libfuzzer_sys::fuzz_target!(|data: &[u8]| aws_chunked::run(data));
