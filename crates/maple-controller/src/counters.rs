//! The controller's counters. Each shard has its own, in plain numbers; a query adds them up.

use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;

use maple_wire::Dpid;

/// Generates the struct, its sum and its list of names from one table.
macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// Numbers since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct Counters {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Returns the name and value of each counter, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// Returns what each counter counts, in the same order.
            pub fn meanings() -> impl Iterator<Item = &'static str> {
                [$(concat!($($doc),*)),*].into_iter().map(str::trim_start)
            }
        }

        impl AddAssign for Counters {
            fn add_assign(&mut self, other: Counters) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Connections accepted.
    of_connections,
    /// Connections that finished their handshake.
    of_dp_connections,
    /// Connections that finished their handshake and ended.
    of_dp_disconnections,
    /// Connections that closed without sending anything.
    of_silent_connections,
    /// Other connections that ended before their handshake was done.
    of_handshake_failures,
    /// Switches that migrated to another shard.
    of_migrated,
    /// The total time of these migrations.
    of_migration_nanoseconds,
    /// Connections refused because a live connection has the same datapath id.
    of_duplicate_dpids,
    /// Connections that their switch replaced by a new one without closing them.
    of_replaced_connections,
    /// Connections that did not answer an echo or a request, or did not finish the handshake in time.
    of_timeouts,
    /// Connections closed because the switch did not read.
    of_not_reading,
    /// TLS sessions that failed, or did not begin.
    of_tls_failures,
    /// Connections refused because their certificate may not be the switch that they claimed to be.
    of_wrong_certificates,
    /// Malformed messages. Each ended its connection.
    of_malformed,
    /// Messages of a type that no switch sends.
    of_unknown_messages,
    /// Replies without a request, and statistics of another kind than the request asked for.
    of_unexpected_replies,
    /// Messages read.
    of_messages_in,
    /// Messages sent.
    of_messages_out,
    /// Messages that the switch's version could not express. There should be none.
    of_unencodable,
    /// Bytes read.
    of_bytes_in,
    /// Bytes sent.
    of_bytes_out,
    /// Packet-ins.
    of_packet_ins,
    /// Packet-ins before the handshake was done.
    of_early_packet_ins,
    /// Packet-ins dropped because the policy is too slow for their rate.
    of_shed,
    /// Packet-outs.
    of_packet_outs,
    /// Flow-mods.
    of_flow_mods,
    /// Errors from switches.
    of_errors,
    /// Flow-removed messages.
    of_flow_removed,
    /// Port-status messages.
    of_port_status,
    /// The number of times that the shard stopped reading a switch because the switch did not read.
    of_paused,
    /// Probes sent.
    lldp_probes,
    /// Probes with a wrong authentication code.
    lldp_forged,
    /// Probes that were too old or arrived twice.
    lldp_replayed,
    /// Probes that came back to the port that they left by.
    lldp_reflected,
    /// Probes ignored because a port remembers no more peers.
    lldp_too_many_peers,
    /// Ports with probes in one direction only.
    lldp_one_way,
    /// Links and segments with a bridge that filters LLDP.
    lldp_bridged,
    /// LLDP frames and probes at declared edge ports.
    lldp_at_edge,
    /// Declared link ports where no switch was found.
    lldp_no_link,
    /// Packets for which the policy took longer than 10 ms.
    slow_decisions,
    /// Turns of the event loop.
    turns,
}

/// The counters of what one switch has sent and was sent, over all its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SwitchCounters {
    /// Connections that finished their handshake.
    pub connections: u64,
    /// Connections that finished their handshake and ended.
    pub disconnections: u64,
    /// Packet-ins.
    pub packet_ins: u64,
    /// Packet-ins dropped because the policy is too slow for their rate.
    pub shed: u64,
    /// Flow-mods and packet-outs.
    pub flow_messages: u64,
    /// Errors from the switch.
    pub errors: u64,
}

impl AddAssign for SwitchCounters {
    fn add_assign(&mut self, other: SwitchCounters) {
        let SwitchCounters { connections, disconnections, packet_ins, shed, flow_messages, errors } = other;
        self.connections += connections;
        self.disconnections += disconnections;
        self.packet_ins += packet_ins;
        self.shed += shed;
        self.flow_messages += flow_messages;
        self.errors += errors;
    }
}

/// The maximum number of switches whose ended connections are remembered. It must be as large as the number of switches
/// that have rows in the metrics.
const MAX_FORMER: usize = 10_000;

/// The counters of ended connections, by switch. Peers can invent datapath ids, so the switches
/// that left first are forgotten.
#[derive(Debug, Default)]
pub(crate) struct FormerCounters {
    by_switch: BTreeMap<Dpid, SwitchCounters>,
    /// The switches, in the order in which they left first.
    order: VecDeque<Dpid>,
}

impl FormerCounters {
    /// Adds what an ended connection of this switch has counted.
    pub fn add(&mut self, dpid: Dpid, counters: SwitchCounters) {
        if !self.by_switch.contains_key(&dpid) {
            if self.order.len() >= MAX_FORMER
                && let Some(oldest) = self.order.pop_front()
            {
                self.by_switch.remove(&oldest);
            }
            self.order.push_back(dpid);
        }
        *self.by_switch.entry(dpid).or_default() += counters;
    }

    /// Returns the counters by switch.
    pub fn all(&self) -> &BTreeMap<Dpid, SwitchCounters> {
        &self.by_switch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_added_by_name() {
        let mut sum = Counters { of_packet_ins: 1, ..Counters::default() };
        sum += Counters { of_packet_ins: 2, turns: 3, ..Counters::default() };
        let not_zero: Vec<_> = sum.iter().filter(|(_, value)| *value != 0).collect();
        assert_eq!(not_zero, [("of_packet_ins", 3), ("turns", 3)]);
        assert_eq!(Counters::meanings().count(), sum.iter().count());
        assert_eq!(Counters::meanings().next(), Some("Connections accepted."));
    }

    #[test]
    fn former_counters_are_bounded_and_the_newest_are_kept() {
        let mut former = FormerCounters::default();
        let one = SwitchCounters { packet_ins: 1, ..SwitchCounters::default() };
        for n in 0..2 * MAX_FORMER as u64 {
            former.add(Dpid(n), one);
            former.add(Dpid(n), one);
        }
        assert_eq!((former.all().len(), former.order.len()), (MAX_FORMER, MAX_FORMER));
        assert!(former.all().iter().all(|(dpid, of)| dpid.0 >= MAX_FORMER as u64 && of.packet_ins == 2));
    }
}
