//! Errors of reading bytes and of writing values.

use crate::version::Version;

/// The result of reading or writing bytes.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why bytes could not be read, or why a value could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The input ends before the structure does.
    #[error("{what}: {have} bytes, {need} needed")]
    Truncated {
        /// The structure that was being read.
        what: &'static str,
        /// The number of bytes that the structure needs.
        need: usize,
        /// The number of bytes that are available.
        have: usize,
    },
    /// A length field contradicts the data that it measures: it is too small, too large, or not a permitted multiple.
    #[error("{what}: bad length {length}")]
    BadLength {
        /// The structure to which the length belongs.
        what: &'static str,
        /// The length in the input, in bytes.
        length: usize,
    },
    /// A value that the specification does not allow at this place.
    #[error("{what}: bad value {value:#x}")]
    BadValue {
        /// The field.
        what: &'static str,
        /// The value in the input.
        value: u64,
    },
    /// A protocol version that this codec does not speak.
    #[error("OpenFlow version {0:#04x} is not supported (1.0 and 1.3 are)")]
    BadVersion(u8),
    /// A value for which this version of OpenFlow has no form.
    #[error("OpenFlow {version} can't express {what}")]
    Unsupported {
        /// The version that was requested.
        version: Version,
        /// The part that the version lacks.
        what: String,
    },
    /// The message would be longer than its 16-bit length field can state.
    #[error("message of {0} bytes is longer than 65535")]
    TooLong(usize),
}
