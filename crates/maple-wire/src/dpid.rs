//! Datapath ids.

use serde::{Deserialize, Serialize};

use crate::parse_hex;

/// A datapath id: the 64-bit name of a switch. Printed as 16 hex digits.
///
/// ```
/// use maple_wire::Dpid;
///
/// let switch: Dpid = "00:00:00:00:00:00:00:2a".parse().unwrap();
/// assert_eq!(switch, Dpid(42));
/// assert_eq!(switch.to_string(), "000000000000002a");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Dpid(pub u64);

impl From<u64> for Dpid {
    fn from(id: u64) -> Dpid {
        Dpid(id)
    }
}

impl std::fmt::Display for Dpid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl std::fmt::Debug for Dpid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Text that is not a datapath id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a datapath id (hex digits, such as 1, 1f or 00:00:00:00:00:00:00:1f)")]
pub struct BadDpid(pub String);

impl std::str::FromStr for Dpid {
    type Err = BadDpid;

    /// Reads hex digits, with or without a leading `0x`, or eight bytes with colons (`00:00:…:01`).
    fn from_str(text: &str) -> std::result::Result<Self, BadDpid> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let bytes: Vec<&str> = digits.split(':').collect();
        let joined: String = match bytes.len() {
            1 => digits.to_owned(),
            8 if bytes.iter().all(|byte| matches!(byte.len(), 1 | 2)) => {
                bytes.iter().map(|byte| format!("{byte:0>2}")).collect()
            }
            _ => return Err(BadDpid(text.to_owned())),
        };
        parse_hex(&joined).map(Dpid).ok_or_else(|| BadDpid(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_hex_digits_or_eight_bytes() {
        for text in ["2a", "0x2a", "2A", "000000000000002a", "00:00:00:00:00:00:00:2a", "0:0:0:0:0:0:0:2a"] {
            assert_eq!(text.parse(), Ok(Dpid(42)), "{text}");
        }
        for text in ["", "0x", "0x0x1", "+1", "-1", "x", "1:2", "00:00:00:00:00:01", "10000000000000000", "é", "1:3:"]
        {
            assert_eq!(text.parse::<Dpid>(), Err(BadDpid(text.to_owned())));
        }
        assert_eq!("0:0:0:0:0:0:1:2".parse(), Ok(Dpid(0x102)), "of a byte with one digit the first is 0");
    }
}
