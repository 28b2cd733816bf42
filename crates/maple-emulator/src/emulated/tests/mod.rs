//! The network with hand-made rules: no controller, no `NORMAL`, and everything over real OpenFlow bytes.

use std::collections::{BTreeMap, VecDeque};

use maple_switch::time::SECOND;
use maple_switch::{Lost, PassedTable};
use maple_wire::msg::{FlowMod, FlowModCommand, Hello, NO_BUFFER, PacketIn, PacketOut};
use maple_wire::packet::Frame;
use maple_wire::{Action, Constraint, Dpid, Field, Instruction, Match, Message, Packet, PortNo, Version};

use super::*;
use crate::host::{FlowKind, Progress};

mod delivery;
mod faults;
mod hosts;
mod shaping;

/// Creates a network whose switches have exchanged hellos.
pub(super) fn greeted(topology: &Topology, version: Version) -> EmulatedNetwork {
    let mut network = EmulatedNetwork::new(topology, version);
    greet(&mut network);
    network
}

/// Answers the hellos of all connected switches.
pub(super) fn greet(network: &mut EmulatedNetwork) {
    network.run_for(MILLISECOND);
    for dpid in network.dpids().collect::<Vec<_>>() {
        say(network, dpid, &Message::Hello(Hello { version: 4, elements: vec![] }));
    }
    network.run_for(MILLISECOND);
    let dpids: Vec<Dpid> = network.dpids().collect();
    assert!(dpids.iter().all(|d| network.switch(*d).unwrap().is_connected()));
}

pub(super) fn say(network: &mut EmulatedNetwork, dpid: Dpid, message: &Message) {
    let bytes = message.to_bytes(network.options.version, 1).unwrap();
    network.from_controller(dpid, &bytes).unwrap();
}

pub(super) fn add(network: &mut EmulatedNetwork, dpid: Dpid, priority: u16, matching: Match, outputs: &[PortNo]) {
    let actions: Vec<Action> = outputs.iter().map(|p| Action::Output { port: *p, max_len: 0xffff }).collect();
    let instructions = if actions.is_empty() { vec![] } else { vec![Instruction::ApplyActions(actions)] };
    say(network, dpid, &Message::FlowMod(FlowMod::new(FlowModCommand::Add, priority, matching, instructions)));
}

/// Gives every switch a rule to every host, on a shortest path, and floods group addresses. Only for trees.
pub(super) fn program(network: &mut EmulatedNetwork, topology: &Topology) {
    let group_bit = Match::any().with(Constraint::masked(Field::EthDst, 1 << 40, 1 << 40));
    for switch in &topology.switches {
        for host in &topology.hosts {
            let toward = next_ports(topology, host.switch);
            let port = if host.switch == switch.dpid { host.port } else { toward[&switch.dpid] };
            let mac = host.mac.iter().fold(0, |mac, byte| mac << 8 | u128::from(*byte));
            add(network, switch.dpid, 10, Match::any().exact(Field::EthDst, mac), &[port]);
        }
        match network.options.version {
            Version::Of13 => add(network, switch.dpid, 20, group_bit.clone(), &[PortNo::FLOOD]),
            // 1.0 cannot mask addresses.
            Version::Of10 => add(network, switch.dpid, 1, Match::any(), &[PortNo::FLOOD]),
        }
    }
    network.run_for(MILLISECOND);
}

/// Returns for each other switch the port that leads to `target` over the fewest links.
fn next_ports(topology: &Topology, target: Dpid) -> BTreeMap<Dpid, PortNo> {
    let mut ports = BTreeMap::new();
    let mut queue = VecDeque::from([target]);
    while let Some(at) = queue.pop_front() {
        for link in &topology.links {
            for (near, far) in [(link.a, link.b), (link.b, link.a)] {
                if near.0 == at && far.0 != target && !ports.contains_key(&far.0) {
                    ports.insert(far.0, far.1);
                    queue.push_back(far.0);
                }
            }
        }
    }
    ports
}

/// Creates a programmed network on a topology of this text.
pub(super) fn programmed(text: &str, version: Version) -> EmulatedNetwork {
    let topology = Topology::parse(text).unwrap();
    let mut network = greeted(&topology, version);
    program(&mut network, &topology);
    network
}

/// Opens a flow, waits ten seconds, and returns its state.
pub(super) fn flow(network: &mut EmulatedNetwork, src: &str, dst: &str, kind: FlowKind, ipv6: bool) -> Progress {
    let id = network.open_flow(src, dst, kind, ipv6).unwrap();
    network.run_for(10 * SECOND);
    network.host(src).unwrap().flow(id).unwrap().progress
}

/// Builds a frame from h1's address to h2's that no other frame equals.
pub(super) fn unique(number: u16) -> Vec<u8> {
    Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2])
        .udp(9_000, 9_001)
        .payload(&number.to_be_bytes())
}

/// Decodes the messages that a switch sent.
pub(super) fn heard(network: &mut EmulatedNetwork, dpid: Dpid) -> Vec<Message> {
    network.to_controller(dpid).iter().map(|bytes| Message::decode(bytes).unwrap().1).collect()
}

pub(super) fn packet_ins(network: &mut EmulatedNetwork, dpid: Dpid) -> Vec<PacketIn> {
    let packet_in = |message| match message {
        Message::PacketIn(packet_in) => Some(packet_in),
        _ => None,
    };
    heard(network, dpid).into_iter().filter_map(packet_in).collect()
}
