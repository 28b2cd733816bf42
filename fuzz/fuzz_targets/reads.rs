//! Reads of a socket, cut anywhere, through the controller's buffers and to a handler.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| maple_fuzz::controller::reads(data));
