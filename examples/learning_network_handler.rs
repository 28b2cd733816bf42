//! A learning controller with state of each switch and state of the network, as in section 2 of the McNettle paper.
//!
//! Each switch has a handler. What the handler knows of its ports is a field. No other handler sees it, and events
//! of a switch come one after the other, so it needs no transaction. The hosts of the network are one table for all
//! switches: each host gets a number, and the switch that sees it first records where it came in. Handlers run in
//! parallel, so they change this table in a transaction. The hosts that are blocked are a table too, which other
//! programs write: `maple state set blocked mac:00:00:00:00:00:07 true`.
//!
//! The network must have no loops.

use std::collections::HashMap;
use std::sync::Arc;

use maple::App;
use maple::handlers::{Handler, Replies, SwitchInfo, install_table_miss};
use maple::net::{Dpid, Mac, PortNo};
use maple::state::{Attempt, Store, Table, Tx};
use maple::wire::msg::{FlowMod, FlowModCommand, PacketOut};
use maple::wire::msg::{NO_BUFFER, PacketInView, PortReason, PortStatus};
use maple::wire::{Action, Field, Instruction, Match, Message, Packet};

const IDLE_TIMEOUT: u16 = 5;
const PRIORITY: u16 = 0x8000;
/// The group bit of a hardware address.
const GROUP: u128 = 1 << 40;

/// The state that all switches share.
struct Network {
    store: Arc<Store>,
    /// The host's number, and the switch and port where it came in.
    hosts: Table<Mac, (i64, (Dpid, u32))>,
    /// The hosts that are blocked.
    blocked: Table<Mac, bool>,
}

struct LearningNetwork {
    dpid: Dpid,
    ports: HashMap<u128, PortNo>,
    network: Arc<Network>,
}

impl Network {
    fn register(&self, host: Mac, switch: Dpid, port: PortNo) {
        let register = |tx: &Tx| {
            if !self.hosts.contains(tx, &host) {
                let number = self.hosts.len(tx) as i64 + 1;
                self.hosts.set(tx, &host, &(number, (switch, port.0)));
            }
            Ok(())
        };
        // The handler does not wait: it runs again if another was faster. No rule depends on this table.
        while matches!(self.store.attempt(register), Attempt::Conflict) {}
    }
}

/// Makes the switch send the packet: from its buffer if it is there, otherwise with the bytes of the packet-in.
fn send(packet: &PacketInView<'_>, in_port: PortNo, to: PortNo, out: &mut Replies) {
    let data = if packet.buffer_id() == NO_BUFFER { packet.data().to_vec() } else { Vec::new() };
    let actions = vec![Action::output(to)];
    out.request(&Message::PacketOut(PacketOut { buffer_id: packet.buffer_id(), in_port, actions, data }));
}

/// Returns a rule that expires when it is not used.
fn rule(matching: Match, actions: Vec<Action>, buffer_id: u32) -> Message {
    let instructions = if actions.is_empty() { Vec::new() } else { vec![Instruction::ApplyActions(actions)] };
    let rule = FlowMod::new(FlowModCommand::Add, PRIORITY, matching, instructions);
    Message::FlowMod(FlowMod { idle_timeout: IDLE_TIMEOUT, buffer_id, ..rule })
}

impl Handler for LearningNetwork {
    fn switch_up(&mut self, _: &SwitchInfo, out: &mut Replies) {
        install_table_miss(out);
    }

    fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies) {
        let Some(here) = packet.in_port() else { return };
        let frame = Packet::new(packet.data(), here.0);
        let (Some(src), Some(dst)) = (frame.get(Field::EthSrc), frame.get(Field::EthDst)) else { return };
        let host = Mac::from_bits(src);
        if self.network.blocked.contains(&self.network.store.view(), &host) {
            out.request(&rule(Match::any().exact(Field::EthSrc, src), Vec::new(), packet.buffer_id()));
            return;
        }
        if src & GROUP == 0 && self.ports.insert(src, here) != Some(here) {
            self.network.register(host, self.dpid, here);
        }
        let there = match self.ports.get(&dst) {
            None => return send(packet, here, PortNo::FLOOD, out),
            Some(there) if *there == here => return, // the destination is at this port, and has the packet
            Some(there) => *there,
        };
        let matching =
            Match::any().exact(Field::InPort, here.0.into()).exact(Field::EthSrc, src).exact(Field::EthDst, dst);
        out.request(&rule(matching, vec![Action::output(there)], packet.buffer_id()));
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
    let store = Store::new();
    let (hosts, blocked) = (Table::new("hosts"), Table::new("blocked"));
    let network = Arc::new(Network { store: Arc::clone(&store), hosts, blocked });
    let handler = move |switch: &SwitchInfo| LearningNetwork {
        dpid: switch.features.dpid,
        ports: HashMap::new(),
        network: Arc::clone(&network),
    };
    // Other programs may write a table that somebody has declared.
    let (hosts, blocked) = (Table::<Mac, (i64, (Dpid, u32))>::new("hosts"), Table::<Mac, bool>::new("blocked"));
    maple_cli::run(App::handlers(handler).store(store).table(&hosts).table(&blocked))
}
