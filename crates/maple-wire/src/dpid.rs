//! Datapath ids.

/// A datapath id: the 64-bit name of a switch. Printed as 16 hex digits.
///
/// ```
/// use maple_wire::Dpid;
///
/// let switch: Dpid = "00:00:00:00:00:00:00:2a".parse().unwrap();
/// assert_eq!(switch, Dpid(42));
/// assert_eq!(switch.to_string(), "000000000000002a");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dpid(pub u64);

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

impl std::str::FromStr for Dpid {
    type Err = std::num::ParseIntError;

    /// Reads hex digits, with or without colons (`00:00:…:01`) or a leading `0x`.
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let digits: String = text.trim_start_matches("0x").chars().filter(|c| *c != ':').collect();
        u64::from_str_radix(&digits, 16).map(Dpid)
    }
}
