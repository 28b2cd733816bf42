//! Hello: opens a connection and settles its version (1.0 §5.5.1, 1.3 §6.3.1 and §7.5.1).

/// Opens a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The highest version the sender speaks: the version byte of the header, kept here because a hello may come
    /// in any version.
    pub version: u8,
    /// The elements, in order.
    pub elements: Vec<HelloElement>,
}

/// A part of a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloElement {
    /// Which versions the sender speaks: bit `n % 32` of word `n / 32` stands for wire version `n`.
    VersionBitmap(Vec<u32>),
    /// An element of another type, kept as it is.
    Unknown {
        /// Its type.
        kind: u16,
        /// The bytes behind type and length.
        body: Vec<u8>,
    },
}
