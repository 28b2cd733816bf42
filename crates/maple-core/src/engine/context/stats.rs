//! The counts of a shard.

/// Defines [`Stats`] from one list of names. So the fields, the printed names and the sums cannot differ.
macro_rules! stats {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The counts of what one shard has done so far.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Stats {
            /// Returns name and value of each count, in the order of the fields.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// Returns what each count says, in the same order.
            pub fn meanings() -> impl Iterator<Item = &'static str> {
                [$(concat!($($doc),*)),*].into_iter().map(str::trim_start)
            }
        }

        impl std::ops::AddAssign for Stats {
            /// Adds another shard's counts.
            fn add_assign(&mut self, other: Stats) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

stats! {
    /// Packet-ins handled.
    packet_ins,
    /// Packet-ins answered from the tree.
    hits,
    /// Packet-ins decided by f.
    misses,
    /// Runs of f, including repeated and speculative ones.
    runs,
    /// Runs repeated because the state changed under them.
    conflicts,
    /// Packets dropped because f failed on them.
    policy_errors,
    /// Routes that constraints refused.
    violations,
    /// Packets dropped because a constraint demands their way, and there was no rule to take it by.
    way_drops,
    /// Runs after which the packet waits until something that f read has changed.
    waits,
    /// Packets that the controller would have sent at a switch without a connection.
    unreachable_drops,
    /// Waiting packets dropped because too many waited or their switch disconnected.
    wait_drops,
    /// Decisions not cached because f writes state for every such packet.
    writing_runs,
    /// Decisions not cached because f read bytes that were not captured.
    short_captures,
    /// Leaves made before a packet came.
    leaves_foreseen,
    /// Leaves that were decided again or withdrawn, because something that f had read changed.
    leaves_invalidated,
    /// Leaves installed.
    leaves_installed,
    /// Leaves withdrawn.
    leaves_withdrawn,
    /// Leaves that stayed as they were when f was run again after a change.
    leaves_confirmed,
    /// Leaves that got another route without a miss.
    leaves_rerouted,
    /// Times that a route got another path, for all its leaves together.
    routes_rerouted,
    /// Leaves evicted for lack of capacity.
    leaves_evicted,
    /// Labels evicted for lack of capacity.
    labels_evicted,
    /// Times that a switch or a tree had no capacity for a leaf, a label or a host's rule.
    capacity_refusals,
    /// Times that a switch was asked which of its rules are in use.
    stats_requests,
    /// Times that a switch was asked for its counters.
    polls,
    /// Polls postponed because the switch was busy.
    polls_postponed,
    /// Times that a switch has said which rules it has, and these were compared with those that it is to have.
    audits,
    /// Rules that were missing, altered or unknown then, and right at a later audit.
    rules_repaired,
    /// Meters that were missing or altered at an audit, and were made again.
    meters_repaired,
    /// Rules of others that take packets from ours.
    foreign_rules,
    /// Leaves examined to find those that an invalidation selects.
    leaves_examined,
    /// Leaves that cannot be installed.
    aborts,
    /// Times that a route was refused a label, so that its packets go through the controller. Not because a switch or
    /// link on its way was gone.
    labels_refused,
    /// Times that a route got no label because a switch had none left.
    labels_used_up,
    /// Times that a route got no label, or lost one, because a switch or link on its way was gone.
    labels_gone,
    /// Messages about a switch that came after the switch had gone.
    late_messages,
    /// Packets that the controller sent straight out of the egress ports.
    sent_by_controller,
    /// Packet-ins from link ports.
    link_packet_ins,
    /// Packet-ins from link ports dropped because their label was not known.
    link_drops,
    /// Packets dropped because discovery did not find their port to be an edge port, or not in time.
    new_port_drops,
    /// Packets from a port that is shut because its segment uses another port.
    segment_drops,
    /// Packets from a port that is not used, as the configuration says.
    closed_drops,
    /// Packets dropped because their source is a host at another port, as far as is known or declared.
    spoofed_drops,
    /// Packets dropped because their port or switch has its maximum number of hosts.
    host_limit_drops,
    /// Times that a switch was asked to drop the packets of unknown hosts at a port.
    port_guards,
    /// Hosts forgotten because they were silent or were evicted in favour of others.
    hosts_aged,
    /// Copies of the announcements of hosts.
    announcements,
    /// Packets dropped because only their beginning was captured and the switch did not keep the rest.
    truncated_drops,
    /// Times that a switch was asked for its ports, because one that it has reported down sends packets.
    port_questions,
    /// Packet-ins without a port, or from a port that does not exist or is down.
    bad_packet_ins,
    /// Flow-mods sent.
    flow_mods,
    /// Rules refused by switches.
    refused_rules,
    /// Reports that were not made because too many of their kind were, about the same port or switch or in all.
    reports_suppressed,
    /// Times that a new trace disagreed with the tree although the state was the same.
    inconsistent_runs,
    /// Cached leaves that were checked by running f again.
    rechecks,
    /// Checked leaves on which f behaved differently although the state was the same.
    rechecks_failed,
    /// Leaves that exist now.
    leaves,
    /// Rules in the switches of this shard now.
    rules,
    /// Labels of the switches of this shard now.
    labels,
    /// Routes that leaves use now.
    routes,
    /// Open questions that exploration has left, and bounds that have stopped it; 0 where no packet of a known host
    /// comes to the controller, and without exploration.
    open_questions,
}
