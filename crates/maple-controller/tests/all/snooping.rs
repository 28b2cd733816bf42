//! Snooping in a running controller, beside a listener that hears the same packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::common::{Maple, SHORT, eventually};
use maple_controller::listener::{NetworkEvent, subscribe};
use maple_controller::snoop::{SnoopedProtocol, Snooping};
use maple_core::Mac;
use maple_core::snooping::{LEASES, Lease, MEMBERS, group_key};
use maple_core::state::{Snapshot, Stored};
use maple_core::{Location, snooping};
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_wire::packet::dhcp::{self, Dhcp, DhcpMessageKind};
use maple_wire::packet::{Frame, igmp, mld};
use maple_wire::{Dpid, PortNo, Version};

const GROUP: [u8; 4] = [239, 1, 1, 1];

fn members(state: &Snapshot) -> Vec<Location> {
    members_of(state, GROUP.into())
}

fn members_of(state: &Snapshot, group: IpAddr) -> Vec<Location> {
    let value = state.table(MEMBERS).and_then(|rows| rows.get(&group_key(group))).cloned();
    value.and_then(|value| Vec::from_value(&value)).unwrap_or_default()
}

fn leases(state: &Snapshot) -> Vec<Lease> {
    state.table(LEASES).into_iter().flatten().filter_map(|(_, value)| Lease::from_value(value)).collect()
}

fn inject(emulation: &Emulation, host: &'static str, frame: Vec<u8>) {
    emulation.with_network(move |network| network.inject_from(host, frame).map(drop)).unwrap().unwrap();
}

#[test]
fn groups_are_learned_beside_a_listener_that_hears_the_same_packets() {
    for version in [Version::Of10, Version::Of13] {
        let snooping =
            Snooping::new([SnoopedProtocol::Igmp, SnoopedProtocol::Mld], []).unwrap().with_querier().unwrap();
        let (subscription, listener) = subscribe(snooping.conditions()).unwrap();
        let maple = Maple::with(|options| {
            options.workers.count = 2;
            options.subscriptions.push(subscription);
            options.snooping = snooping;
            options.openflow.forget_switch_after = Some(Duration::ZERO);
        });
        let topology = Topology::parse("linear:2").unwrap();
        let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, version)).unwrap();
        eventually("the link is found", || maple.handle.links().len() == 1);
        let join = igmp::report([2, 0, 0, 0, 0, 7], [10, 0, 0, 1].into(), GROUP.into(), true);
        inject(&emulation, "h1", join.clone());
        eventually("the group is learned", || members(&maple.handle.snapshot()).len() == 1);
        let at = members(&maple.handle.snapshot())[0];
        assert_eq!(at.switch, Dpid(1));
        let heard = std::iter::from_fn(|| listener.next(SHORT).ok());
        let packets: Vec<_> = heard.filter(|one| matches!(one, NetworkEvent::Packet(_))).collect();
        let [NetworkEvent::Packet(packet)] = &packets[..] else { panic!("{packets:?}") };
        assert_eq!((packet.by, packet.at, &packet.frame[..]), (1, at, &join[..]));
        let in_v6: Ipv6Addr = "ff05::9".parse().unwrap();
        inject(&emulation, "h2", mld::report([2, 0, 0, 0, 0, 8], in_v6, true));
        eventually("so is one of IPv6", || members_of(&maple.handle.snapshot(), in_v6.into()).len() == 1);
        emulation.stop().unwrap();
        eventually("a switch that goes takes it along", || members(&maple.handle.snapshot()).is_empty());
        assert!(maple.notices().iter().all(|notice| !notice.contains("snooping")));
    }
}

#[test]
fn leases_survive_a_restart_where_state_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state");
    let start = || {
        Maple::with(|options| {
            options.snooping = Snooping::new([SnoopedProtocol::Dhcp], [Location::new(Dpid(1), PortNo(1))]).unwrap();
            options.memory.state_file = Some(file.clone());
        })
    };
    let maple = start();
    let topology = Topology::parse("single:2").unwrap();
    let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, Version::Of13)).unwrap();
    eventually("the ports are known", || {
        let state = maple.handle.snapshot();
        state.ports_of(Dpid(1)).filter(|(_, port)| port.kind == maple_core::network::PortKind::Edge).count() == 2
    });
    let mac = [2, 0, 0, 0, 0, 7];
    let (none, server) = ([0; 4].into(), [10, 0, 0, 1].into());
    let request = Dhcp {
        is_reply: false,
        kind: DhcpMessageKind::Request,
        xid: 1,
        broadcast: true,
        ciaddr: none,
        yiaddr: none,
        giaddr: none,
        chaddr: mac,
        requested: None,
        lease: None,
        server: None,
        renewal: None,
    };
    let frame = |src, from, to, message: &Dhcp| {
        let ip = Frame::ethernet([0xff; 6], src).ipv4([0, 0, 0, 0], [255, 255, 255, 255]);
        ip.udp(from, to).payload(&message.to_bytes())
    };
    inject(&emulation, "h2", frame(mac, dhcp::CLIENT_PORT, dhcp::SERVER_PORT, &request));
    let ack = request.answer(DhcpMessageKind::Ack, [10, 0, 0, 9].into(), server, Some(3600));
    // The snooper hears packets in the order in which they came, and these take different ways to the switch.
    std::thread::sleep(SHORT);
    inject(&emulation, "h1", frame([2, 0, 0, 0, 0, 1], dhcp::SERVER_PORT, dhcp::CLIENT_PORT, &ack));
    eventually("the lease is learned", || leases(&maple.handle.snapshot()).len() == 1);
    let learned = leases(&maple.handle.snapshot())[0];
    assert_eq!((learned.mac, learned.location), (Mac(mac), Location::new(Dpid(1), PortNo(2))));
    assert_eq!(learned.ip, Ipv4Addr::new(10, 0, 0, 9));
    emulation.stop().unwrap();
    drop(maple);
    let again = start();
    let by_mac = |state: &Snapshot| {
        let value = state.table(snooping::LEASES_BY_MAC).and_then(|rows| rows.get(&Mac(mac).into())).cloned();
        value.and_then(|value| Lease::from_value(&value))
    };
    eventually("the lease is there again", || {
        let state = again.handle.snapshot();
        leases(&state) == [learned] && by_mac(&state) == Some(learned)
    });
}
