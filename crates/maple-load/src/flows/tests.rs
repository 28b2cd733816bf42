//! The network against a controller in a few lines.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use maple_wire::msg::{
    Bucket, FlowMod, FlowModCommand, Frames, GroupMod, Hello, NO_BUFFER, PacketIn, PacketInReason, PacketOut,
};
use maple_wire::packet::build::Frame;
use maple_wire::{Action, Constraint, Field, Instruction, Match, Message, Packet, PortNo, Version};

use super::links::{FarEnd, Links, Node, PacketOutcome};
use super::{FlowNetwork, FlowNetworkOptions, Spread, line, pairs};
use crate::LoadError;

fn output(port: u32) -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::output(PortNo(port))])]
}

fn rule(priority: u16, matching: Match, port: u32) -> FlowMod {
    FlowMod::new(FlowModCommand::Add, priority, matching, output(port))
}

/// Creates two connected switches, with hosts at port 1 and a link between their ports 2.
fn links(version: Version) -> Links {
    let node =
        |dpid, other: usize| Node::new(dpid, version, vec![None, Some(FarEnd::Edge), Some(FarEnd::Link((other, 2)))]);
    let mut links = Links::new(vec![node(1, 1), node(2, 0)]);
    let hello = Message::Hello(Hello { version: version as u8, elements: vec![] });
    (0..2).for_each(|switch| assert_eq!(obey(&mut links, switch, hello.clone()), []));
    links
}

/// Lets a switch obey a message.
fn obey(links: &mut Links, switch: usize, message: Message) -> Vec<PacketOutcome> {
    let mut seen = Vec::new();
    let bytes = message.to_bytes(links.switch(switch).version(), 7).expect("its version has it");
    links.obey(switch, 7, message, &bytes, &mut seen);
    seen
}

/// Gives a switch a rule.
fn add(links: &mut Links, switch: usize, rule: FlowMod) {
    assert_eq!(obey(links, switch, Message::FlowMod(rule)), [], "it is obeyed");
}

fn sent(links: &mut Links, frame: &[u8]) -> Vec<PacketOutcome> {
    let mut seen = Vec::new();
    links.receive((0, 1), frame.to_vec(), &mut seen);
    seen
}

fn frame() -> Vec<u8> {
    Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2).payload(b"x")
}

#[test]
fn a_label_is_pushed_at_the_ingress_matched_and_popped_at_the_egress() {
    let mut links = links(Version::Of13);
    assert_eq!(sent(&mut links, &frame()), [PacketOutcome::Lost], "a 1.3 switch without rules drops");
    let label = Constraint::exact(Field::VlanVid, 0x1000 | 77);
    let push = vec![Action::PushVlan(0x8100), Action::SetField(label), Action::output(PortNo(2))];
    let push = FlowMod::new(FlowModCommand::Add, 5, Match::any(), vec![Instruction::ApplyActions(push)]);
    let pop =
        vec![Instruction::WriteActions(vec![Action::output(PortNo(1)), Action::PopVlan]), Instruction::GotoTable(2)];
    let pop = FlowMod::new(FlowModCommand::Add, 5, Match::any().with(label), pop);
    add(&mut links, 0, push);
    add(&mut links, 1, pop);
    assert_eq!(sent(&mut links, &frame()), [PacketOutcome::Lost], "table 2 has no rule yet");
    let rest = FlowMod { table_id: 2, ..FlowMod::new(FlowModCommand::Add, 0, Match::any(), vec![]) };
    add(&mut links, 1, rest);
    assert_eq!(sent(&mut links, &frame()), [PacketOutcome::Egress { at: (1, 1), frame: frame() }]);
    assert_eq!(links.crossed(), [(0, 2)]);
    links.set_link([(0, 2), (1, 2)], false);
    assert_eq!(sent(&mut links, &frame()), [PacketOutcome::Lost]);
}

#[test]
fn unmatched_packets_go_to_the_controller_in_1_0_with_the_reason_no_match() {
    let mut links = links(Version::Of10);
    let seen = sent(&mut links, &frame());
    let [PacketOutcome::Says { switch: 0, message: Message::PacketIn(asked), .. }] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!((asked.reason, asked.in_port()), (PacketInReason::NoMatch, Some(PortNo(1))));
    let tagged = FlowMod::new(
        FlowModCommand::Add,
        5,
        Match::any(),
        vec![Instruction::ApplyActions(vec![Action::SetVlanVid(9), Action::output(PortNo(2))])],
    );
    add(&mut links, 0, tagged);
    let stripped = FlowMod::new(
        FlowModCommand::Add,
        5,
        Match::any().exact(Field::VlanVid, 0x1009),
        vec![Instruction::ApplyActions(vec![Action::PopVlan, Action::output(PortNo(1))])],
    );
    add(&mut links, 1, stripped);
    assert_eq!(sent(&mut links, &frame()), [PacketOutcome::Egress { at: (1, 1), frame: frame() }]);
}

#[test]
fn a_group_that_goes_takes_its_rules_along() {
    let mut links = links(Version::Of13);
    let bucket = |port| Bucket {
        weight: 0,
        watch_port: PortNo::ANY,
        watch_group: u32::MAX,
        actions: vec![Action::output(PortNo(port))],
    };
    let group = |command, ports: &[u32]| {
        let buckets = ports.iter().map(|port| bucket(*port)).collect();
        Message::GroupMod(GroupMod { command, kind: 2, group: 7, buckets })
    };
    let refused = obey(&mut links, 0, group(1, &[2]));
    assert!(
        matches!(&refused[..], [PacketOutcome::Says { message: Message::Error(_), .. }]),
        "there is none to change"
    );
    assert_eq!(obey(&mut links, 0, group(0, &[2])), []);
    let to_group = vec![Instruction::ApplyActions(vec![Action::Group(7)])];
    add(&mut links, 0, FlowMod::new(FlowModCommand::Add, 1, Match::any(), to_group));
    add(&mut links, 1, rule(1, Match::any(), 1));
    assert_eq!(sent(&mut links, &frame()), [PacketOutcome::Egress { at: (1, 1), frame: frame() }]);
    assert_eq!(obey(&mut links, 0, group(1, &[9])), []);
    assert_eq!(sent(&mut links, &frame()), [PacketOutcome::Lost], "there is no port 9");
    assert_eq!(obey(&mut links, 0, group(2, &[])), []);
    assert_eq!(links.rules(0), 0);
}

/// The messages that a controller leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Nothing,
    /// The rules of the last switch.
    LastRules,
    /// The packet-out.
    Packet,
}

/// Starts a controller for lines with hosts at both ends. It forwards by destination, from the addresses alone.
fn controller(version: Version, switches: u32, ports: u32, fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    std::thread::spawn(move || {
        let mut sockets: Vec<TcpStream> =
            (0..switches).map(|_| listener.accept().expect("a switch connects").0).collect();
        for socket in &mut sockets {
            socket.set_nonblocking(true).expect("a socket");
            say(socket, version, &Message::Hello(Hello { version: version as u8, elements: vec![] }));
            say(socket, version, &Message::FeaturesRequest);
            if version == Version::Of13 {
                let to_controller = vec![Instruction::ApplyActions(vec![Action::to_controller()])];
                say(
                    socket,
                    version,
                    &Message::FlowMod(FlowMod::new(FlowModCommand::Add, 0, Match::any(), to_controller)),
                );
            }
        }
        let mut held = vec![Vec::new(); sockets.len()];
        loop {
            for at in 0..sockets.len() {
                // The switches leave together.
                let Some(packet_ins) = packet_ins(&mut sockets[at], &mut held[at]) else { return };
                for packet_in in packet_ins {
                    answer(&mut sockets, version, (switches, ports), fault, at, &packet_in);
                }
            }
        }
    });
    address
}

fn say(socket: &mut TcpStream, version: Version, message: &Message) {
    let bytes = message.to_bytes(version, 1).expect("it can be said");
    socket.write_all(&bytes).expect("the switch reads");
}

/// Reads packet-ins; `None` if the switch has disconnected.
fn packet_ins(socket: &mut TcpStream, held: &mut Vec<u8>) -> Option<Vec<PacketIn>> {
    let mut chunk = [0; 4096];
    let read = match socket.read(&mut chunk) {
        Ok(0) => return None,
        Ok(read) => read,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(Vec::new()),
        Err(_) => return None,
    };
    held.extend_from_slice(&chunk[..read]);
    let mut frames = Frames::new(held);
    let messages = frames.by_ref().map(|frame| Message::decode(frame.expect("a header").1).expect("a message").1);
    let packet_ins =
        messages.filter_map(|message| if let Message::PacketIn(it) = message { Some(it) } else { None }).collect();
    let consumed = frames.consumed();
    held.drain(..consumed);
    Some(packet_ins)
}

/// Sends rules to all switches, then the packet to the switch that it came from.
fn answer(
    sockets: &mut [TcpStream],
    version: Version,
    (switches, ports): (u32, u32),
    fault: Fault,
    at: usize,
    packet_in: &PacketIn,
) {
    let Some(mac) = Packet::new(&packet_in.data, 1).get(Field::EthDst) else { return };
    // The host with number n is at the end n mod 2, behind port n / 2 mod ports + 1.
    let number = (mac & 0xffff_ffff) as u32 - 1;
    let ends = if switches > 1 { 2 } else { 1 };
    let (end, port) = ((number % ends) * (switches - 1), number / ends % ports + 1);
    let is_broadcast = mac == 0xffff_ffff_ffff;
    let next = |switch: u32| match switch.cmp(&end) {
        std::cmp::Ordering::Equal => port,
        std::cmp::Ordering::Less => ports + 2,
        std::cmp::Ordering::Greater => ports + 1,
    };
    let last = if fault == Fault::LastRules { end } else { u32::MAX };
    for (switch, socket) in (0..).zip(sockets.iter_mut()).filter(|(switch, _)| *switch != last && !is_broadcast) {
        let rule = rule(10, Match::any().exact(Field::EthDst, mac), next(switch));
        say(socket, version, &Message::FlowMod(rule));
        say(socket, version, &Message::BarrierRequest);
    }
    let port = if is_broadcast { PortNo::FLOOD } else { PortNo(next(at as u32)) };
    let actions = vec![Action::output(port)];
    let (in_port, data) = (packet_in.in_port().expect("a port"), packet_in.data.clone());
    if fault != Fault::Packet {
        say(&mut sockets[at], version, &Message::PacketOut(PacketOut { buffer_id: NO_BUFFER, in_port, actions, data }));
    }
}

fn flow_network(version: Version, switches: u32, fault: Fault) -> FlowNetwork {
    let connect = controller(version, switches, 2, fault);
    let network = line(switches, 2, 6, Spread::Ends);
    FlowNetwork::connect(FlowNetworkOptions { connect, network, ports: 2, version, window: 3, confirm: 1 })
        .expect("it connects")
}

/// Opens all flows until they have ended, or the time is over.
fn run(flow_network: &mut FlowNetwork, time: Duration) -> usize {
    let order = pairs(flow_network, false);
    let before = flow_network.ended().len();
    flow_network.flows(&mut order.iter().copied(), before + order.len(), Instant::now() + time).expect("it goes on");
    assert!(!order.is_empty() && flow_network.ended().len() <= before + order.len());
    order.len() - (flow_network.ended().len() - before)
}

#[test]
fn all_flows_end_if_the_controller_does_its_work() {
    for version in [Version::Of10, Version::Of13] {
        for switches in [1, 3] {
            let mut flow_network = flow_network(version, switches, Fault::Nothing);
            assert_eq!(flow_network.announce(Duration::from_secs(20)).expect("it goes on"), 0);
            assert_eq!(run(&mut flow_network, Duration::from_secs(20)), 0);
            let counters = flow_network.counters();
            assert_eq!((counters.failed, counters.refused, counters.elsewhere), (0, 0, 0), "{counters:?}");
            assert!(counters.flow_mods > 0 && counters.barriers > 0 && flow_network.rules(0) > 0, "{counters:?}");
            let pair = flow_network.ended()[0];
            let path = flow_network.path(pair).expect("its rules are there");
            assert!(path.len() < switches as usize, "{path:?}");
        }
    }
}

#[test]
fn a_flow_whose_rules_are_missing_at_one_switch_does_not_end() {
    let mut flow_network = flow_network(Version::Of13, 3, Fault::LastRules);
    let left = run(&mut flow_network, Duration::from_millis(500));
    assert_eq!((left, flow_network.ended().len()), (pairs(&flow_network, false).len(), 0));
    assert!(flow_network.rules(0) > 1, "the others have theirs");
}

#[test]
fn a_flow_whose_packet_is_kept_ends_when_its_host_sends_again() {
    let mut flow_network = flow_network(Version::Of13, 3, Fault::Packet);
    let order = pairs(&flow_network, true);
    let deadline = Instant::now() + Duration::from_secs(20);
    assert!(flow_network.flows(&mut order.iter().copied(), 3, deadline).expect("it goes on"));
    assert!(flow_network.counters().resent >= 1, "{:?}", flow_network.counters());
}

#[test]
fn a_failed_link_is_reported_by_both_ends_and_carries_nothing() {
    let mut flow_network = flow_network(Version::Of13, 3, Fault::Nothing);
    assert_eq!(run(&mut flow_network, Duration::from_secs(20)), 0);
    let pair = *flow_network.ended().iter().find(|(src, dst)| (src + dst) % 2 == 1).expect("some cross");
    let link = flow_network.network().links[1];
    flow_network.set_link(link, false).expect("the link is there");
    assert_eq!(flow_network.path(pair), None);
    flow_network.set_link(link, true).expect("the link is there");
    assert_eq!(flow_network.path(pair).map(<[_]>::len), Some(2));
}

#[test]
fn strangers_come_in_as_fast_as_the_switch_has_room() {
    let mut flow_network = flow_network(Version::Of13, 1, Fault::Nothing);
    let deadline = Instant::now() + Duration::from_secs(20);
    while flow_network.rules(0) == 0 {
        assert!(Instant::now() < deadline, "the rule that sends packets to the controller has not come");
        flow_network.wait(Duration::from_millis(1)).expect("it goes on");
    }
    let sent = flow_network.flood((0, 2), 0, 0, 100_000).expect("it goes on");
    assert!(sent > 0, "the rest finds the channel full, where it is slower than we are: {sent}");
    assert_eq!(flow_network.counters().packet_ins, u64::from(sent));
}

#[test]
fn a_controller_that_is_not_there_is_an_error() {
    let connect = SocketAddr::from(([127, 0, 0, 1], 1));
    let options = FlowNetworkOptions {
        connect,
        network: line(1, 1, 1, Spread::All),
        ports: 1,
        version: Version::Of13,
        window: 1,
        confirm: 1,
    };
    assert!(matches!(FlowNetwork::connect(options), Err(LoadError::Connect { switch: 1, .. })));
}
