//! Meters: the traffic of a route that may pass the switch where it enters (1.3 §5.7).

use std::fmt;
use std::sync::Arc;

use crate::ids::Name;

/// The meter that a route's packets pass at the switch where they enter; OpenFlow 1.0 has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meter {
    /// A meter that exists at the switch already, by its number.
    Number(u32),
    /// A meter that Maple makes.
    Limit(Arc<Limit>),
}

/// A limit on all packets together that enter at one switch under it. The excess is dropped.
///
/// Equal limits are the same limit, so routes that name it share it. Each switch where such packets enter has its own
/// meter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limit {
    /// The name, which distinguishes limits that are otherwise equal.
    pub name: Name,
    /// The number of units per second, 1 or more.
    pub rate: u32,
    /// The number of units in one burst; 0 leaves this to the switch.
    pub burst: u32,
    /// The unit of `rate` and `burst`.
    pub unit: Unit,
}

/// The unit that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// 1,000 bits.
    Kilobits,
    /// Packets.
    Packets,
}

impl Limit {
    /// Creates a limit in kilobits per second.
    pub fn kilobits(name: impl Into<Name>, kilobits_per_second: u32) -> Limit {
        Limit { name: name.into(), rate: kilobits_per_second, burst: 0, unit: Unit::Kilobits }
    }

    /// Creates a limit in packets per second.
    pub fn packets(name: impl Into<Name>, packets_per_second: u32) -> Limit {
        Limit { unit: Unit::Packets, ..Limit::kilobits(name, packets_per_second) }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Kilobits => "kbit/s",
            Unit::Packets => "packets/s",
        };
        write!(f, "{:?} ({} {unit}", self.name, self.rate)?;
        if self.burst > 0 {
            write!(f, ", burst {}", self.burst)?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Meter::Number(number) => number.fmt(f),
            Meter::Limit(limit) => limit.fmt(f),
        }
    }
}
