//! Which rates of the network are measured, and on which scale f reads them.

use std::fmt;
use std::ops::RangeInclusive;

use super::{Location, Mac};

/// Something whose rate is measured, in bit/s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Gauge {
    /// What a port sends.
    Sent(Location),
    /// What a port receives.
    Received(Location),
    /// What one host sends to another, as counted at the first one's switch by the rules that match both.
    Traffic {
        /// The host that sends it.
        from: Mac,
        /// The host that it is for.
        to: Mac,
    },
}

impl Gauge {
    /// What a host sends to any other.
    pub(crate) fn all_from(from: Mac) -> RangeInclusive<Gauge> {
        let to = |mac| Gauge::Traffic { from, to: Mac(mac) };
        to([0; 6])..=to([0xff; 6])
    }
}

impl fmt::Display for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gauge::Sent(at) => write!(f, "what {at} sends"),
            Gauge::Received(at) => write!(f, "what {at} receives"),
            Gauge::Traffic { from, to } => write!(f, "what {from} sends to {to}"),
        }
    }
}

/// The weight by which a link costs 1, and 1 more for each tenth of it that is used.
pub const UTILISATION: &str = "utilisation";

/// How f reads a rate: in steps, so that an answer changes only when a step is passed; and with hysteresis, so that a
/// rate that wavers around a step does not change it each time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scale {
    /// 1 from more than `from` bit/s on, until it is at most `until` again; else 0. `until` is at most `from`.
    Above {
        /// More than this begins it.
        from: u64,
        /// At most this ends it.
        until: u64,
    },
    /// How many tenths of this many bit/s are reached, 0 to 10: a tenth counts once the rate has reached it, until it
    /// is half a tenth below.
    TenthsOf(u64),
}
