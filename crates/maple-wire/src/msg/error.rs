//! Error: a request could not be done (1.0 §5.4.4, 1.3 §7.4.4).

/// A request could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMsg {
    /// Its class, `OFPET_*` in the version's own numbering.
    pub kind: u16,
    /// What went wrong within the class.
    pub code: u16,
    /// At least the first 64 bytes of the request, or a text with `OFPET_HELLO_FAILED`.
    pub data: Vec<u8>,
}
