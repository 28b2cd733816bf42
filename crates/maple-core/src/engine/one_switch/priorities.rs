//! The priorities of rules in the classifier, and of the rules with the same purpose where a switch has one table.

use crate::rule::COMPILED;

/// The priority of rules for discovery's frames: the highest of all, since no other rule may take these frames.
pub(in crate::engine) const LLDP: u16 = 65535;
/// The priority of rules for answers to our probes: above all rules for hosts, and just below those of discovery.
pub(in crate::engine) const PROBES: u16 = 65534;
/// The priority of rules for packets from other switches, and from closed ports. It must exceed those for hosts,
/// because no host may be learned there.
pub(in crate::engine) const LINKS: u16 = 40000;
/// The priority of rules for packets from hosts that announce addresses: above the rules that only let the host's
/// packets in. Between the two lie the temporary rules of watches (`live.rs`).
pub(in crate::engine) const COPIES: u16 = 30500;
/// The priority of rules for packets from hosts. It must exceed that of the rules for unknown hosts, [`GUARD`].
pub(in crate::engine) const HOSTS: u16 = 30000;
/// The priority of rules for packets of unknown hosts from ports with too many hosts. It must be less than [`HOSTS`],
/// so that known hosts are let in.
pub(in crate::engine) const GUARD: u16 = 29000;

/// The priority of rules for announced addresses, with one table. It lies above all compiled rules, and below those of
/// labels.
pub(in crate::engine) const ANNOUNCED: u16 = 65009;
/// The priority of rules for known hosts at ports with too many hosts, with one table. It lies below all compiled
/// rules.
pub(in crate::engine) const KNOWN: u16 = 2;
/// The priority of rules for the other hosts at ports with too many hosts, with one table. It lies below those of the
/// known hosts.
pub(in crate::engine) const LAST: u16 = 1;
/// The priority of rules for packets from a shut port, with one table. Such a port has no compiled rules and no rules
/// of hosts.
pub(in crate::engine) const SHUT: u16 = KNOWN;

// Compiled rules lie above all rules for hosts of a single table.
const _: () = assert!(*COMPILED.start() == KNOWN + 1);
