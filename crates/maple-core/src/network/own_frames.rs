//! The controller's own frames: those that discovery sends, and probes for hosts. They never reach the policy.

use maple_wire::eth_type::value as eth_type;
use maple_wire::{Field, Packet};

use super::Mac;

/// The source address of probes: locally administered, `maple` in ASCII. Frames to it never reach the policy.
pub const PROBE_MAC: Mac = Mac([0x02, b'm', b'a', b'p', b'l', b'e']);

/// The Ethernet types of discovery's frames.
pub(crate) const DISCOVERY_TYPES: [u128; 2] = [eth_type::LLDP, eth_type::BDDP];

/// Reports whether a packet is of a type that only discovery uses, whatever its sender.
pub(crate) fn is_discovery_frame(packet: &Packet<'_>) -> bool {
    packet.switch_value(Field::EthType).is_some_and(|kind| DISCOVERY_TYPES.contains(&kind))
}

/// Reports whether an entering packet belongs to the controller and never reaches f. Such a packet is of a type that
/// only discovery uses, or, where hosts are tracked, the answer of a host that was asked whether it is still there.
pub fn is_the_controllers(packet: &Packet<'_>, track_hosts: bool) -> bool {
    is_discovery_frame(packet)
        || track_hosts && packet.switch_value(Field::EthDst).is_some_and(|mac| mac == PROBE_MAC.bits())
}
