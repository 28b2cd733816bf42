//! Hellos of any version.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maple_fuzz::entry::hello(data));
