//! Meters: how much traffic of a route may pass the switch where it enters (1.3 §5.7).

use std::fmt;
use std::sync::Arc;

use crate::ids::Name;

/// The meter that a route's packets pass at the switch where they enter; OpenFlow 1.0 has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meter {
    /// One that exists at the switch already, by its number.
    Number(u32),
    /// One that Maple makes.
    Limit(Arc<Limit>),
}

/// How much of the packets that enter at one switch under this limit may pass, all together. The excess is dropped.
///
/// Equal limits are one, so routes that name the same limit share it. Each switch where such packets enter has its own
/// meter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limit {
    /// Distinguishes limits that are otherwise equal.
    pub name: Name,
    /// How many units a second, 1 or more.
    pub rate: u32,
    /// How many units may come in one burst; 0 leaves this to the switch.
    pub burst: u32,
    /// What is counted.
    pub unit: Unit,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// 1,000 bits.
    Kilobits,
    /// Packets.
    Packets,
}

impl Limit {
    /// A limit of this many kilobits a second.
    pub fn kilobits(name: impl Into<Name>, rate: u32) -> Limit {
        Limit { name: name.into(), rate, burst: 0, unit: Unit::Kilobits }
    }

    /// A limit of this many packets a second.
    pub fn packets(name: impl Into<Name>, rate: u32) -> Limit {
        Limit { unit: Unit::Packets, ..Limit::kilobits(name, rate) }
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
