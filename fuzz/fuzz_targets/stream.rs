//! Streams of messages.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maple_fuzz::entry::stream(data));
