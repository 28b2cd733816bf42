//! What a shard counts.

/// Defines [`Stats`] from one list of names, so that the list, the names and the sums cannot differ.
macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What one shard has done so far.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            /// Name and value of each count, in the order of the fields.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
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
    /// Of these, answered from the tree.
    hits,
    /// Of these, decided by f.
    misses,
    /// Runs of f, repeated and speculative ones included.
    runs,
    /// Runs repeated because the state changed under them.
    conflicts,
    /// Packets dropped because f failed on them.
    policy_errors,
    /// Runs after which the packet waits until something that f read has changed.
    waits,
    /// Packets dropped while they waited so, because too many did or their switch went.
    wait_drops,
    /// Decisions not cached because f writes state whenever it sees such a packet.
    writing_runs,
    /// Decisions not cached because f looked at bytes that were not captured.
    short_captures,
    /// Leaves installed.
    leaves_installed,
    /// Leaves withdrawn.
    leaves_withdrawn,
    /// Leaves of which f, asked again after a change, said the same as before.
    leaves_confirmed,
    /// Leaves that got another route without a miss.
    leaves_rerouted,
    /// Routes that got another course, for all their leaves together.
    routes_rerouted,
    /// Leaves that were evicted to make room.
    leaves_evicted,
    /// Labels that were evicted to make room.
    labels_evicted,
    /// Times a leaf found no room at a switch, or in a tree.
    capacity_refusals,
    /// Times a switch was asked which rules are in use.
    stats_requests,
    /// Times a switch was asked for its counters.
    polls,
    /// Times that had to wait, as the switch was busy.
    polls_postponed,
    /// Leaves looked at to find those that an invalidation means.
    leaves_examined,
    /// Leaves that can't be installed.
    aborts,
    /// Times a route was refused a label, so that its packets go through the controller.
    labels_refused,
    /// Packets sent straight out of the egress ports.
    sent_by_controller,
    /// Packet-ins from link ports.
    link_packet_ins,
    /// Of these, dropped because nothing was known of them.
    link_drops,
    /// Packets dropped because it did not turn out, or too late, that their port is an edge port.
    new_port_drops,
    /// Packets that came by a port that is shut because another one is its segment's way in.
    segment_drops,
    /// Packets dropped because their source is a host that is elsewhere.
    spoofed_drops,
    /// Packets dropped because their port, or its switch, has as many hosts as it may have.
    host_limit_drops,
    /// Times a switch was told to drop what unknown hosts send at a port.
    port_guards,
    /// Hosts forgotten because they were silent, or gave way to others.
    hosts_aged,
    /// Copies of what hosts announced.
    announcements,
    /// Packets dropped because only their beginning was captured and the switch did not keep the rest.
    truncated_drops,
    /// Packet-ins from ports that don't exist or are down, or without a port.
    bad_packet_ins,
    /// Flow-mods sent.
    flow_mods,
    /// Rules that switches refused.
    refused_rules,
    /// Times the tree disagreed with a new trace though the state was the same.
    inconsistent_runs,
    /// Cached leaves on which f was run again.
    rechecks,
    /// Of these, leaves on which f did otherwise than before though the state was the same.
    rechecks_failed,
    /// Leaves that live now.
    leaves,
    /// Rules that switches of this shard have now.
    rules,
    /// Labels that switches of this shard have now.
    labels,
    /// Routes that leaves take now.
    routes,
}
