//! A learning switch as a handler: one program for each switch, which gets packet-ins and answers with OpenFlow
//! messages.
//!
//! It records at which port each source address was seen. A packet for a known address gets a rule for all packets
//! like it, and is sent with that rule. All others are flooded. Maple compiles nothing here, and the network must
//! have no loops. `builtin:learning-switch` is the same in Rust, and faster.

use std::collections::HashMap;

use maple::App;
use maple::handlers::{Handler, Replies, SwitchInfo, install_table_miss};
use maple::wire::msg::{FlowMod, FlowModCommand, PacketOut};
use maple::wire::msg::{NO_BUFFER, PacketInView, PortReason, PortStatus};
use maple::wire::{Action, Field, Instruction, Match, Message, Packet, PortNo};

const IDLE_TIMEOUT: u16 = 5;
const PRIORITY: u16 = 0x8000;
/// The group bit of a hardware address.
const GROUP: u128 = 1 << 40;

#[derive(Default)]
struct LearningSwitch {
    ports: HashMap<u128, PortNo>,
}

/// Makes the switch send the packet: from its buffer if it is there, otherwise with the bytes of the packet-in.
fn send(packet: &PacketInView<'_>, in_port: PortNo, to: PortNo, out: &mut Replies) {
    let data = if packet.buffer_id() == NO_BUFFER { packet.data().to_vec() } else { Vec::new() };
    let actions = vec![Action::output(to)];
    out.request(&Message::PacketOut(PacketOut { buffer_id: packet.buffer_id(), in_port, actions, data }));
}

impl Handler for LearningSwitch {
    fn switch_up(&mut self, _: &SwitchInfo, out: &mut Replies) {
        install_table_miss(out);
    }

    fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies) {
        let Some(here) = packet.in_port() else { return };
        let frame = Packet::new(packet.data(), here.0);
        let (Some(src), Some(dst)) = (frame.get(Field::EthSrc), frame.get(Field::EthDst)) else { return };
        if src & GROUP == 0 {
            self.ports.insert(src, here);
        }
        let there = match self.ports.get(&dst) {
            None => return send(packet, here, PortNo::FLOOD, out),
            Some(there) if *there == here => return, // the destination is at this port, and has the packet
            Some(there) => *there,
        };
        let matching =
            Match::any().exact(Field::InPort, here.0.into()).exact(Field::EthSrc, src).exact(Field::EthDst, dst);
        let instructions = vec![Instruction::ApplyActions(vec![Action::output(there)])];
        let rule = FlowMod::new(FlowModCommand::Add, PRIORITY, matching, instructions);
        let (idle_timeout, buffer_id) = (IDLE_TIMEOUT, packet.buffer_id());
        out.request(&Message::FlowMod(FlowMod { idle_timeout, buffer_id, ..rule }));
        if packet.buffer_id() == NO_BUFFER {
            send(packet, here, there, out);
        }
    }

    fn port_status(&mut self, status: &PortStatus, out: &mut Replies) {
        if status.reason == PortReason::Delete || !status.port.is_up() {
            let gone = status.port.number;
            self.ports.retain(|_, port| *port != gone);
            let all = FlowMod::new(FlowModCommand::Delete, 0, Match::any(), Vec::new());
            out.request(&Message::FlowMod(FlowMod { out_port: gone, table_id: 0xff, ..all }));
        }
    }
}

fn main() -> std::process::ExitCode {
    maple_cli::run(App::handlers(|_: &SwitchInfo| LearningSwitch::default()))
}
