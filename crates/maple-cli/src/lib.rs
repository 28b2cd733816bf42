//! The `maple` command, as a library.

pub mod decode;
