//! The versions of OpenFlow.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A version of OpenFlow that this codec speaks.
///
/// ```
/// use maple_wire::Version;
///
/// assert_eq!(Version::from_wire(4), Some(Version::Of13));
/// assert_eq!(Version::from_wire(3), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Version {
    /// OpenFlow 1.0.
    Of10 = 1,
    /// OpenFlow 1.3.
    Of13 = 4,
}

impl Version {
    /// Returns the version with this number in the header, if this codec speaks it.
    pub const fn from_wire(number: u8) -> Option<Version> {
        match number {
            1 => Some(Version::Of10),
            4 => Some(Version::Of13),
            _ => None,
        }
    }
}

impl Version {
    /// Returns 0 for 1.0 and 1 for 1.3: the place in lists of what both versions have.
    pub(crate) const fn index(self) -> usize {
        match self {
            Version::Of10 => 0,
            Version::Of13 => 1,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::Of10 => "1.0",
            Version::Of13 => "1.3",
        })
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
