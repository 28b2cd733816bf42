//! Fixed-size text fields of descriptions and table names.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::bytes::Put;
use crate::error::{Error, Result};

/// The text of a fixed-size field: its bytes without the NULs at the end.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Text(pub Vec<u8>);

impl Text {
    /// Reads the text in a NUL-padded field.
    pub(super) fn parse(field: &[u8]) -> Text {
        let end = field.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Text(field[..end].to_vec())
    }

    /// Appends the text as a field of `size` bytes.
    pub(super) fn write_padded(&self, size: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.0.len() > size {
            return Err(Error::BadLength { what: "text", length: self.0.len() });
        }
        out.put(&self.0);
        out.put_zeros(size - self.0.len());
        Ok(())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::parse(text.as_bytes())
    }
}

impl fmt::Display for Text {
    /// Writes the text up to the first NUL, with anything that is not UTF-8 replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        f.write_str(&String::from_utf8_lossy(&self.0[..end]))
    }
}
