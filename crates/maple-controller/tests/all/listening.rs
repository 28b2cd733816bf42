//! Listeners beside a policy, on emulated networks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{LONG, Maple, SHORT, eventually};
use maple_controller::ControllerOptions;
use maple_controller::listener::{Listener, ListenerError, NetworkEvent, SendError, subscribe};
use maple_core::network::PortKind;
use maple_core::trace::Cond;
use maple_core::{Location, Net, PacketHandle, Route};
use maple_emulator::emulated::Origin;
use maple_emulator::host::{FlowKind, Progress};
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_wire::packet::build::{BROADCAST, Frame};
use maple_wire::{Constraint, Dpid, Field, Packet, PortNo, Version};

/// Starts a ring of four switches on two shards, finds its links, and listens for packets with these fields.
fn ring(
    version: Version,
    heard: &[(Field, u128)],
    policy: fn(&PacketHandle, &Net) -> Route,
) -> (Maple, Emulation, Listener) {
    let heard = heard.iter().map(|(field, value)| Cond::default().and(Constraint::exact(*field, *value))).collect();
    let (subscription, listener) = subscribe(heard).unwrap();
    let maple = Maple::with(|options: &mut ControllerOptions| {
        options.policy = Arc::new(policy);
        options.workers.count = 2;
        options.subscriptions.push(subscription);
    });
    let topology = Topology::parse("ring:4").unwrap();
    let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, version)).unwrap();
    eventually("all links are found", || maple.handle.links().len() == 4);
    // A question that comes earlier is asked again.
    let is_edge = |dpid| {
        let port = maple.handle.snapshot().port(Location::new(Dpid(dpid), PortNo(1)));
        port.is_some_and(|port| port.kind == PortKind::Edge)
    };
    eventually("hosts' ports are known", || (1..=4).all(is_edge));
    (maple, emulation, listener)
}

fn ping(emulation: &Emulation, from: &'static str, to: &'static str) -> Progress {
    let flow = emulation.open_flow(from, to, FlowKind::Ping).unwrap();
    let mut last = Progress::Running;
    eventually("a ping ends", || {
        let progress = emulation.with_network(move |network| network.host(from).unwrap().flow(flow).unwrap().progress);
        last = progress.unwrap();
        last != Progress::Running
    });
    last
}

fn all(listener: &Listener) -> Vec<NetworkEvent> {
    std::iter::from_fn(|| listener.next(SHORT).ok()).collect()
}

#[test]
fn a_listener_hears_of_switches_ports_and_the_packets_that_it_wants() {
    for version in [Version::Of10, Version::Of13] {
        let wanted = [(Field::EthType, 0x0806), (Field::UdpDst, 7777)];
        let (maple, emulation, listener) = ring(version, &wanted, |_, _| Route::flood());
        assert_eq!(ping(&emulation, "h1", "h3"), Progress::Done, "packets that are heard of go their way");
        let entered = emulation.with_network(|network| {
            let is_arp = |frame: &[u8]| Packet::new(frame, 1).get(Field::EthType) == Some(0x0806);
            let arp = network.log().entries().filter(|entry| is_arp(&entry.frame));
            let at = |origin: &Origin| match origin {
                Origin::Port(dpid, port) => Location::new(*dpid, *port),
                Origin::Controller(_) => panic!("it sends only what came to it"),
            };
            arp.map(|entry| (at(&entry.origin), entry.frame.clone())).collect::<Vec<_>>()
        });
        let entered = entered.unwrap();
        assert!(entered.len() >= 2, "a question that is flooded, and its answer");
        let mut so_far = Vec::new();
        eventually("all that entered is heard", || {
            so_far.extend(all(&listener));
            so_far.iter().filter_map(packet).count() >= entered.len()
        });
        let up: BTreeSet<Dpid> = so_far.iter().filter_map(up).collect();
        assert_eq!(up, (1..=4).map(Dpid).collect());
        let packets: Vec<_> = so_far.iter().filter_map(packet).collect();
        // Each packet comes once, whatever the switches and shards that it passes.
        let mut heard: Vec<_> = packets.iter().map(|packet| (packet.at, packet.frame.to_vec())).collect();
        let mut entered = entered;
        heard.sort();
        entered.sort();
        assert_eq!(heard, entered);
        for heard in &packets {
            assert_eq!(heard.by, 1);
            assert_eq!(Packet::new(&heard.frame, 1).get(Field::EthType), Some(0x0806));
        }
        emulation.link_down(Dpid(1), Dpid(2)).unwrap();
        let mut down = 0;
        eventually("both ends are told of", || {
            down += all(&listener).iter().filter(|at| matches!(at, NetworkEvent::Port { is_up: false, .. })).count();
            down == 2
        });
        emulation.stop().unwrap();
        let mut ended = 0;
        eventually("the end of all connections is told of", || {
            ended += all(&listener).iter().filter(|at| matches!(at, NetworkEvent::SwitchUnreachable(_))).count();
            ended == 4
        });
        assert_eq!(listener.lost(), 0);
        drop(maple);
        assert_eq!(listener.next(LONG), Err(ListenerError::Ended));
    }
}

fn up(happening: &NetworkEvent) -> Option<Dpid> {
    match happening {
        NetworkEvent::SwitchUp(dpid) => Some(*dpid),
        _ => None,
    }
}

fn packet(happening: &NetworkEvent) -> Option<&maple_core::engine::ListenerPacket> {
    match happening {
        NetworkEvent::Packet(heard) => Some(heard),
        _ => None,
    }
}

#[test]
fn frames_go_out_of_edge_ports_of_every_shard_and_of_no_other_port() {
    let (maple, emulation, listener) = ring(Version::Of13, &[], |_, _| Route::drop());
    let hello = Frame::ethernet(BROADCAST, [2, 0, 0, 0, 0, 0xfe]).raw(0x88b5, b"hello");
    let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
    eventually("hosts' ports are known", || (1..=4).all(|n| maple.handle.send_frame(hello.clone(), at(n, 1)).is_ok()));
    for name in ["h1", "h2", "h3", "h4"] {
        eventually("the frame arrives", || {
            emulation.with_network(move |network| network.host(name).unwrap().counters().received > 0).unwrap()
        });
    }
    assert_eq!(maple.handle.send_frame(hello.clone(), at(9, 1)), Err(SendError::NoSwitch(Dpid(9))));
    assert_eq!(maple.handle.send_frame(hello.clone(), at(1, 2)), Err(SendError::NoEdge(Dpid(1), PortNo(2))));
    assert_eq!(maple.handle.send_frame(hello, at(1, 99)), Err(SendError::NoEdge(Dpid(1), PortNo(99))));
    assert_eq!(maple.handle.send_frame(vec![0; 13], at(1, 1)), Err(SendError::Length(13)));
    assert!(listener.next(Duration::ZERO).is_ok(), "switches came");
}

#[test]
fn a_policy_in_rust_answers_who_has_an_address() {
    const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];
    fn answers(pkt: &PacketHandle, net: &Net) -> Route {
        let asked = pkt.is(Field::ArpOp, 1);
        let (Some(sender), Some(target)) = (pkt.get(Field::ArpSpa), pkt.get(Field::ArpTpa)) else { return net.flood() };
        if !asked {
            return net.flood();
        }
        // The target may be any: this network has no hosts except the router.
        let (sender, target) = ((sender as u32).to_be_bytes(), (target as u32).to_be_bytes());
        Route::answer([Frame::ethernet(pkt.eth_src().0, ROUTER).arp_reply(target, sender)])
    }
    let (_maple, emulation, _listener) = ring(Version::Of13, &[], answers);
    emulation.open_flow("h1", "h3", FlowKind::Ping).unwrap();
    eventually("h1 believes the answer", || {
        emulation
            .with_network(|network| network.host("h1").unwrap().neighbour([10, 0, 0, 3].into()) == Some(ROUTER))
            .unwrap()
    });
}
