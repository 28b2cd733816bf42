//! Why bytes could not be read, or a value could not be written.

use crate::version::Version;

/// The result of reading or writing bytes.
pub type Result<T> = std::result::Result<T, Error>;

/// Why bytes could not be read, or a value could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The input ends before the structure does.
    #[error("{what}: {have} bytes, {need} needed")]
    Truncated {
        /// The structure that was being read.
        what: &'static str,
        /// Bytes needed.
        need: usize,
        /// Bytes available.
        have: usize,
    },
    /// A length field contradicts what it measures (too small, too large, or not a multiple of what it must be).
    #[error("{what}: bad length {length}")]
    BadLength {
        /// The structure whose length it is.
        what: &'static str,
        /// The length as the input has it.
        length: usize,
    },
    /// A value that the specification does not allow here.
    #[error("{what}: bad value {value:#x}")]
    BadValue {
        /// The field.
        what: &'static str,
        /// The value as the input has it.
        value: u64,
    },
    /// A protocol version that this codec does not speak.
    #[error("OpenFlow version {0:#04x} is not supported (1.0 and 1.3 are)")]
    BadVersion(u8),
    /// This version of OpenFlow has no form for the value.
    #[error("OpenFlow {version} can't express {what}")]
    Unsupported {
        /// The version asked for.
        version: Version,
        /// What it lacks.
        what: String,
    },
    /// The message would be longer than its 16-bit length field can state.
    #[error("message of {0} bytes is longer than 65535")]
    TooLong(usize),
}
