//! Bytes to values and back: OpenFlow 1.0 and 1.3 messages, and packet headers.
//!
//! This crate knows nothing of Maple: no policies, trees or switches' state. It has three parts.
//!
//! * [`msg`]: OpenFlow. One file a message, each with a zero-copy view, an owned form, its codec for
//!   both versions and its printed form. Owned forms are version-neutral: what both versions can say is
//!   said in the same way, as OpenFlow 1.3 names it, and `encode` fails with
//!   [`Error::Unsupported`] where the asked version has no form for it.
//! * [`print`](mod@print): messages, matches, actions and rules as text, in the form of `ovs-ofctl`.
//! * [`packet`]: a lazy view over a raw Ethernet frame, and builders for frames.
//!
//! [`field`] and [`flow`] are the vocabulary that both halves share: OXM fields, matches, actions.
//!
//! No function here panics on input bytes, whatever they hold.

mod version;

pub mod field;
pub mod flow;
pub mod port;

pub mod msg;

pub mod print;

pub mod packet;

mod error;

pub use error::{Error, Result};
pub use field::{Field, FieldSet};
pub use flow::{Action, Constraint, Instruction, Match, MatchField};
pub use msg::{Header, Message};
pub use packet::Packet;
pub use port::{Port, PortNo};
pub use version::Version;

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
