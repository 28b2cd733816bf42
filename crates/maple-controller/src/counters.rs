//! The controller's counters. Each shard has its own, in plain numbers; a query adds them up.

use std::ops::AddAssign;

/// Generates the struct, its sum and its list of names from one table.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Numbers since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// The name and value of each counter, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
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
    /// Of these, connections that ended.
    of_dp_disconnections,
    /// Connections that closed without sending anything.
    of_silent_connections,
    /// Other connections that ended before their handshake was done.
    of_handshake_failures,
    /// Switches that migrated to another shard.
    of_migrated,
    /// The total time of these migrations, in nanoseconds.
    of_migration_nanoseconds,
    /// Connections refused because a live connection has the same datapath id.
    of_duplicate_dpids,
    /// Connections that their switch replaced by a new one without closing them.
    of_replaced_connections,
    /// Connections that did not answer an echo or a request, or did not finish the handshake in time.
    of_timeouts,
    /// Connections closed because the switch did not read.
    of_not_reading,
    /// Malformed messages. Each ended its connection.
    of_malformed,
    /// Messages of a type that no switch sends.
    of_unknown_messages,
    /// Replies without a request.
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
    /// How often the shard stopped reading a switch because the switch did not read.
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
    /// Turns of the event loop.
    turns,
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
    }
}
