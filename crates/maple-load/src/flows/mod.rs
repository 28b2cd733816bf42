//! New flows through a whole network, from the first packet to the last rule.
//!
//! [`run`](crate::run()) asks a controller as fast as it answers, and trusts the answers. Here the switches obey: they
//! keep flow tables, follow packets through them and over links, and answer a barrier when all before it is done. A
//! flow has *ended* when its first packet came out at the destination's port, and a second one would take the whole way
//! by rules alone. So a controller that answers early, or forgets a switch, gains nothing.
//!
//! Nothing is assumed about the encoding of routes; what counts is where packets come out.

mod links;

mod frames;
mod obey;

mod flow_network;
mod line;

pub use flow_network::{FlowNetwork, FlowNetworkOptions, Pair};
pub use line::{Spread, line, pairs};
pub use links::NetworkPort;

use serde::Serialize;

#[cfg(test)]
mod tests;

/// The counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Flows that have ended.
    pub ended: u64,
    /// Packets that switches sent to the controller.
    pub packet_ins: u64,
    /// Packet-outs.
    pub packet_outs: u64,
    /// Flow-mods.
    pub flow_mods: u64,
    /// The number of flow-mods that add a rule.
    pub adds: u64,
    /// The number of added rules that send to the controller.
    pub adds_to_controller: u64,
    /// Group-mods.
    pub group_mods: u64,
    /// Barriers.
    pub barriers: u64,
    /// Requests that a switch refused.
    pub refused: u64,
    /// Packets that were lost in the network.
    pub lost: u64,
    /// Packets that came out at a host other than the destination, for example when flooded.
    pub elsewhere: u64,
    /// Further copies of packets that had come out.
    pub copies: u64,
    /// Packets that hosts sent again because the flow had not ended after a second.
    pub resent: u64,
    /// Flows that hosts gave up.
    pub failed: u64,
    /// Failed flows whose packet was delivered, but never by rules.
    pub without_rules: u64,
}

impl std::ops::Sub for Counters {
    type Output = Counters;

    fn sub(self, before: Counters) -> Counters {
        Counters {
            ended: self.ended - before.ended,
            packet_ins: self.packet_ins - before.packet_ins,
            packet_outs: self.packet_outs - before.packet_outs,
            flow_mods: self.flow_mods - before.flow_mods,
            adds: self.adds - before.adds,
            adds_to_controller: self.adds_to_controller - before.adds_to_controller,
            group_mods: self.group_mods - before.group_mods,
            barriers: self.barriers - before.barriers,
            refused: self.refused - before.refused,
            lost: self.lost - before.lost,
            elsewhere: self.elsewhere - before.elsewhere,
            copies: self.copies - before.copies,
            resent: self.resent - before.resent,
            failed: self.failed - before.failed,
            without_rules: self.without_rules - before.without_rules,
        }
    }
}

impl Counters {
    /// Returns the messages of the controller that change switches, including barriers.
    pub fn messages(&self) -> u64 {
        self.flow_mods + self.group_mods + self.barriers + self.packet_outs
    }
}
