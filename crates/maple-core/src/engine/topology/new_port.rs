//! Packets from ports whose kind is not known yet.
//!
//! A port that has come up is neither an edge port nor a link port until discovery has classified it. Until then
//! nothing is learned from its packets and f does not run for them: they wait. If the port becomes an edge port, they
//! enter the network in order, before any later packet of that switch. They are dropped and counted if the port becomes
//! a link port, if it goes away or changes, or if they have waited too long.
//!
//! The packets that wait at a switch are bounded in number, bytes and time ([`crate::engine::Options`]). When the bound
//! is reached, further packets are dropped.

use maple_wire::Dpid;

use super::Topology;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::messages::cause::DropCause;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::ids::Time;
use crate::network::{Location, PortKind};

impl Topology {
    /// Removes and returns all packets that wait for their port to be classified.
    pub fn take_new_port_packets(fabric: &mut Fabric) -> Vec<ReceivedPacket> {
        fabric.switches.values_mut().flat_map(|switch| switch.ports.new_port_packets.take(|_, _| true)).collect()
    }

    /// Holds a packet from a port whose kind is not known yet.
    pub fn on_new_port_packet_in(fabric: &mut Fabric, received: ReceivedPacket) {
        let dpid = received.at.switch;
        let until = fabric.ctx.now() + fabric.ctx.options.new_port_hold;
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let packets = &mut switch.ports.new_port_packets;
        let capacity = packets.packets.len() < fabric.ctx.options.held_packets
            && packets.bytes + received.frame.len() <= fabric.ctx.options.held_bytes;
        if !capacity {
            return drop_at_new_port(fabric, &received);
        }
        packets.push(until, received);
        fabric.ctx.wake_at(until, Timer::NewPorts(dpid));
    }

    /// Removes and returns the packets that waited at ports that have become edge ports. Drops those at other ports
    /// that are classified or gone. Called when ports of this switch may have been classified.
    pub fn take_admitted(fabric: &mut Fabric, dpid: Dpid) -> Vec<ReceivedPacket> {
        let Some(switch) = fabric.switches.get_mut(&dpid).filter(|switch| !switch.ports.new_port_packets.is_empty())
        else {
            return Vec::new();
        };
        let state = fabric.ctx.store.snapshot();
        let kind = |at: Location| state.port(at).map(|port| port.kind);
        let is_edge =
            |received: &ReceivedPacket| matches!(kind(received.at), Some(PortKind::Edge | PortKind::Middlebox));
        let classified = switch.ports.new_port_packets.take(|_, received| kind(received.at) != Some(PortKind::New));
        let (admitted, left): (Vec<_>, Vec<_>) = classified.into_iter().partition(is_edge);
        left.iter().for_each(|received| drop_at_new_port(fabric, received));
        admitted
    }

    /// Drops the packets of a port that has gone or changed. They say nothing about what will be behind it.
    pub fn forget_new_port_packets(fabric: &mut Fabric, at: Location) {
        drop_new_port_packets(fabric, at.switch, |_, received| received.at == at);
    }

    /// Drops the packets that have waited too long.
    pub fn expire_new_port_packets(fabric: &mut Fabric, dpid: Dpid) {
        let now = fabric.ctx.now();
        // The switch may have gone since the timer was set, and its packets with it.
        if fabric.switches.contains_key(&dpid) {
            drop_new_port_packets(fabric, dpid, |until, _| until <= now);
        }
    }
}

fn drop_new_port_packets(fabric: &mut Fabric, dpid: Dpid, which: impl Fn(Time, &ReceivedPacket) -> bool) {
    let Some(switch) = fabric.switches.known_mut(dpid) else { return };
    let dropped = switch.ports.new_port_packets.take(which);
    dropped.iter().for_each(|received| drop_at_new_port(fabric, received));
}

/// Counts and drops a packet of a port whose kind was not known in time, or turned out not to be an edge port's.
fn drop_at_new_port(fabric: &mut Fabric, received: &ReceivedPacket) {
    fabric.ctx.stats.new_port_drops += 1;
    fabric.switches.drop_packet(&mut fabric.ctx, received, DropCause::NewPort);
}
