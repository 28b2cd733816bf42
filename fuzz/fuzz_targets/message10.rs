//! OpenFlow 1.0 messages.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maple_fuzz::entry::message(maple_wire::Version::Of10, data));
