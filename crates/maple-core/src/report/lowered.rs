//! Why a switch does not do a look-up.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason why a look-up is a read of its key's fields at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Lowered {
    /// Other look-ups have all tables of the switch that are for look-ups.
    NoTable,
    /// Other look-ups have the bits of the metadata.
    NoBits,
    /// The table has more different values than classes have numbers.
    TooManyValues,
    /// The rules of its keys would take more of the switch's rules than look-ups may have.
    TooManyKeys,
    /// The switch's table is full.
    TableFull,
    /// The switch refuses its rules.
    Refused,
    /// The policy asks how much pairs of hosts send to each other, which only rules for pairs count.
    Traffic,
    /// A look-up that was lowered when an earlier run of the controller ended.
    Earlier,
    /// The switch has no table for any look-up.
    NoTables,
}

impl fmt::Display for Lowered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lowered::NoTable => "the switch has no further table for look-ups",
            Lowered::NoBits => "the metadata of packets has no bits left",
            Lowered::TooManyValues => "the table has too many different values",
            Lowered::TooManyKeys => "the rules of its keys are too large a part of the switch's rules",
            Lowered::TableFull => "its table in the switch is full",
            Lowered::Refused => "the switch refuses its rules",
            Lowered::Traffic => "the policy asks what hosts send to each other, and only rules for pairs count that",
            Lowered::Earlier => "the controller before this one had to give it up",
            Lowered::NoTables => "the switch has no table for look-ups, which takes OpenFlow 1.3 and five tables",
        })
    }
}
