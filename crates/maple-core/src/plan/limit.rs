//! Meters: how much of what takes a route may pass the switch where it enters (1.3 §5.7).

use std::fmt;
use std::sync::Arc;

use crate::ids::Name;

/// The meter that a route's packets pass at the switch where they enter; OpenFlow 1.0 has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meter {
    /// One that somebody has made at the switch, by its number.
    Number(u32),
    /// One that Maple makes.
    Limit(Arc<Limit>),
}

/// How much may pass, of all packets together that enter at one switch under this limit; what is more is dropped.
///
/// Equal limits are one, so routes that name the same limit share it. Each switch where such packets enter has a meter of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limit {
    /// Tells limits apart that are otherwise the same.
    pub name: Name,
    /// How many units a second, 1 or more.
    pub rate: u32,
    /// How many units may come at once; 0: what the switch holds to be right.
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
    /// So many kilobits a second.
    pub fn kilobits(name: impl Into<Name>, rate: u32) -> Limit {
        Limit { name: name.into(), rate, burst: 0, unit: Unit::Kilobits }
    }

    /// So many packets a second.
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
