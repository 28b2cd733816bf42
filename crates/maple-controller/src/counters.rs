//! What is counted. Each shard counts for itself in plain numbers; they are added up when somebody asks.

use std::ops::AddAssign;

/// Makes the struct, its sum and its list of names from one table.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Name and value of each, in the order above.
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
    /// Switches that finished their handshake.
    of_dp_connections,
    /// Of these, gone again.
    of_dp_disconnections,
    /// Connections that closed without a word.
    of_probes,
    /// Connections that ended before they were a switch's, except those without a word.
    of_handshake_failures,
    /// Switches that moved from one shard to another.
    of_moved,
    /// Nanoseconds that they were on their way, all together.
    of_moving_nanoseconds,
    /// Second connections with a live switch's datapath id.
    of_duplicate_dpids,
    /// Connections that a switch left for a new one without closing them.
    of_replaced_connections,
    /// Connections that did not answer an echo or a request, or did not finish the handshake in time.
    of_timeouts,
    /// Connections cut because the switch did not read.
    of_cut_off,
    /// Messages that did not hold together; each cost its connection.
    of_malformed,
    /// Messages of a type that no switch sends.
    of_unknown_messages,
    /// Replies that nothing was asked for.
    of_unexpected_replies,
    /// Messages read.
    of_messages_in,
    /// Messages sent.
    of_messages_out,
    /// Messages that could not be said in the switch's version. None should be.
    of_unsendable,
    /// Bytes read.
    of_bytes_in,
    /// Bytes sent.
    of_bytes_out,
    /// Packet-ins.
    of_packet_ins,
    /// Packet-ins before the handshake was done.
    of_early_packet_ins,
    /// Packet-ins that were dropped because the policy is slower than they come.
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
    /// Times that a switch was not read from because it did not read.
    of_paused,
    /// Probes sent out of ports.
    lldp_probes,
    /// Probes with a wrong code.
    lldp_forged,
    /// Probes that are too old or came twice.
    lldp_replayed,
    /// Probes that came back to their port.
    lldp_reflected,
    /// Probes of more ports than one keeps in mind that share a segment with it.
    lldp_too_many_peers,
    /// Ports that hear or reach a switch, but not both.
    lldp_one_way,
    /// Ports with another switch behind a bridge that keeps LLDP to itself.
    lldp_bridged,
    /// Turns of the event loop.
    turns,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_taken_name_by_name() {
        let mut sum = Counters { of_packet_ins: 1, ..Counters::default() };
        sum += Counters { of_packet_ins: 2, turns: 3, ..Counters::default() };
        let not_zero: Vec<_> = sum.iter().filter(|(_, value)| *value != 0).collect();
        assert_eq!(not_zero, [("of_packet_ins", 3), ("turns", 3)]);
    }
}
