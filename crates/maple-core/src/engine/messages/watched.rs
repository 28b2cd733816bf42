//! Watches as people ask for them and hear of them: which packets, and what became of them.

use std::fmt;
use std::sync::Arc;

use maple_wire::{Constraint, Field};
use serde::{Deserialize, Serialize};

use super::cause::Origin;
use super::received_packet::ReceivedPacket;
use crate::network::{Location, Mac};

/// The packets that are to be watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveFilter {
    /// The port where they enter.
    pub at: Location,
    /// The host that sends them. Without host tracking, any host at the port.
    pub from: Mac,
    /// Further constraints that they fit. The prerequisites of these fields are added.
    pub fields: Vec<Constraint>,
}

impl LiveFilter {
    /// Reports whether a packet is one of these.
    pub(in crate::engine) fn fits(&self, received: &ReceivedPacket, track_hosts: bool) -> bool {
        let packet = received.packet();
        let is = |one: &Constraint| packet.switch_value(one.field).is_some_and(|value| value & one.mask == one.value);
        let from = Constraint::exact(Field::EthSrc, self.from.bits());
        self.at == received.at && (!track_hosts || is(&from)) && self.fields.iter().all(is)
    }
}

/// A report on a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveNews {
    /// The temporary rule is in the switch, or on its way there.
    Watching,
    /// A packet entered.
    Packet {
        /// The beginning of the packet.
        frame: Arc<[u8]>,
        /// The length of the packet, in bytes.
        total_len: usize,
        /// f's answer; `None` if no leaf is for the packet.
        leaf: Option<LiveAnswer>,
    },
    /// The maximum number of copies in a second is reached. No more packets are copied in this second.
    TooMany,
    /// The packets cannot be watched now. The engine tries it again.
    NotNow(LiveObstacle),
    /// The watch has ended, for this reason.
    Refused(LiveObstacle),
}

/// A leaf's answer to a watched packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveAnswer {
    /// Whether the packet is dropped.
    pub drops: bool,
    /// The origin of the answer.
    pub origin: Arc<Origin>,
}

/// The reason why packets are not watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveObstacle {
    /// The shard does not serve the switch.
    NoSwitch,
    /// The switch has one table.
    OneTable,
    /// The host has no rule at this port.
    NoRule,
    /// Rules are being changed.
    Changing,
    /// The maximum number of watches is in use.
    TooManyWatches,
    /// The switch refuses the rule.
    RefusedBySwitch,
    /// The watch has ended, because nobody confirmed in time that somebody still watches.
    Ended,
}

impl fmt::Display for LiveObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LiveObstacle::NoSwitch => "the switch is not connected",
            LiveObstacle::OneTable => {
                "the switch has one table: a rule that copies could not go on as the policy's rules do"
            }
            LiveObstacle::NoRule => "the host has no rule at this port: it is not known there, or the switch is full",
            LiveObstacle::Changing => "rules for hosts are being changed",
            LiveObstacle::TooManyWatches => "too many are watching already",
            LiveObstacle::RefusedBySwitch => "the switch refuses the rule",
            LiveObstacle::Ended => "the watch has ended: the one who watches was stopped, or too slow",
        })
    }
}
