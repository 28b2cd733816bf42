//! The measured rates of the network, and the scales on which f reads them.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::{Location, Mac};

/// Something whose rate is measured, in bit/s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Gauge {
    /// The traffic that a port sends.
    Sent(Location),
    /// The traffic that a port receives.
    Received(Location),
    /// The traffic from one host to another, as the rules that match both count it at the first host's switch.
    Traffic {
        /// The host that sends it.
        from: Mac,
        /// The host that it is for.
        to: Mac,
    },
}

impl Gauge {
    /// Returns the gauges of the traffic from a host to any other.
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

/// The link attribute under which a link costs 1, and 1 more for each tenth of it that is used.
pub const UTILISATION: &str = "utilisation";

/// A scale on which f reads a rate. It has steps, so that an answer changes only when a step is passed. It has
/// hysteresis, so that a rate that wavers around a step does not change it each time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scale {
    /// 1 once the rate exceeds `from` bit/s, until it is at most `until` again; else 0. `until` is at most `from`.
    Above {
        /// The rate in bit/s above which the step begins.
        from: u64,
        /// The rate in bit/s at or below which the step ends.
        until: u64,
    },
    /// The number of tenths of this many bit/s that the rate reaches, 0 to 10. A tenth counts once the rate has reached
    /// it, until the rate is half a tenth below.
    TenthsOf(u64),
}
