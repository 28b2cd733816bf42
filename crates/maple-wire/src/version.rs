//! The versions of OpenFlow.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A version of OpenFlow that this codec speaks.
///
/// ```
/// use maple_wire::Version;
///
/// assert_eq!(Version::from_wire(4), Some(Version::Of13));
/// assert_eq!(Version::from_wire(3), None);
/// assert_eq!("1.3".parse(), Ok(Version::Of13));
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

/// Text that is not a version which this codec speaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("OpenFlow {0} is not supported; 1.0 and 1.3 are")]
pub struct UnsupportedVersion(pub String);

impl FromStr for Version {
    type Err = UnsupportedVersion;

    /// Parses a version as it is printed, `1.0` or `1.3`.
    fn from_str(text: &str) -> Result<Version, UnsupportedVersion> {
        match text {
            "1.0" => Ok(Version::Of10),
            "1.3" => Ok(Version::Of13),
            _ => Err(UnsupportedVersion(text.to_owned())),
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
