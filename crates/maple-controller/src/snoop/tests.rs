//! Messages of hosts, routers and servers: what snooping learns from them, and what it ignores.

use std::sync::Arc;

use maple_core::Net;
use maple_core::engine::ShardId;
use maple_core::ids::{DependentId, LeafId};
use maple_core::network::PortInfo;
use maple_core::run::Run;
use maple_core::snooping::MulticastGroup;
use maple_core::state::SwitchInfo;
use maple_wire::packet::Frame;
use maple_wire::packet::dhcp::{Dhcp, DhcpMessageKind};
use maple_wire::{Dpid, PortNo, Version};

use super::*;

const HOST: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ONE: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 2);
const IN_V6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 9);

fn port(n: u32) -> Location {
    Location::new(Dpid(1), PortNo(n))
}

/// A network of one switch with three edge ports and a link, and a snooper.
struct SnoopedNetwork {
    store: Arc<Store>,
    snooper: Snooper,
    now: Time,
    sent: Vec<OwnFrame>,
    warnings: Vec<(IgnoreReason, u64)>,
}

fn snooping(protocols: &[&str], servers: &[Location], querier: bool) -> Result<Snooping, SnoopingError> {
    let protocols: Vec<String> = protocols.iter().map(|name| (*name).to_owned()).collect();
    Snooping::default().with_names(&protocols, servers, querier)
}

impl SnoopedNetwork {
    fn new(protocols: &[&str], servers: &[Location], querier: bool) -> SnoopedNetwork {
        let store = Store::new();
        let snooping = snooping(protocols, servers, querier).unwrap();
        snooping.declare(&store).unwrap();
        let info = SwitchInfo { shard: ShardId(0), version: Version::Of13 };
        store.update(|_| vec![Write::Switch { dpid: Dpid(1), info: Some(info) }]);
        let snooper = Snooper::new(snooping, Duration::ZERO, &store.snapshot());
        let world = SnoopedNetwork { store, snooper, now: Time(0), sent: Vec::new(), warnings: Vec::new() };
        (1..=3).for_each(|n| world.becomes(n, PortKind::Edge));
        world.becomes(4, PortKind::Link(Location::new(Dpid(2), PortNo(1))));
        world
    }

    fn becomes(&self, n: u32, kind: PortKind) {
        self.store.update(|_| vec![Write::Port { at: port(n), info: Some(PortInfo { up: true, kind }) }]);
    }

    fn hear(&mut self, n: u32, frame: Vec<u8>) -> Commit {
        let heard = ListenerPacket { by: 1, at: port(n), total_len: frame.len(), frame: frame.into() };
        self.happen(&NetworkEvent::Packet(heard))
    }

    fn happen(&mut self, event: &NetworkEvent) -> Commit {
        let mut effects = Vec::new();
        self.snooper.on_event(self.now, event, &mut effects);
        self.tick(effects)
    }

    fn wait(&mut self, seconds: u64) -> Commit {
        self.now = after(self.now, Duration::from_secs(seconds));
        self.tick(Vec::new())
    }

    fn tick(&mut self, mut effects: Vec<SnoopEffect>) -> Commit {
        self.snooper.on_timer(self.now, &self.store.snapshot(), &mut effects);
        let mut writes = Vec::new();
        for effect in effects {
            match effect {
                SnoopEffect::Write(write) => writes.push(write),
                SnoopEffect::Send(frame) => self.sent.push(frame),
                SnoopEffect::Warn(reason, times) => self.warnings.push((reason, times)),
            }
        }
        self.store.change(writes).unwrap()
    }

    /// Returns what f reads in a run, which is committed for a leaf, if one is given.
    fn ask<T>(&self, leaf: Option<LeafId>, f: impl Fn(&Net) -> T) -> T {
        let run = Run::new(Arc::new([0; 64]), 64, port(1), self.store.begin(), true);
        let said = f(&run.net());
        let finished = run.finish().unwrap();
        assert_eq!(finished.error, None);
        self.store.commit(finished.txn, leaf).unwrap();
        said
    }

    fn members(&self, group: impl Into<MulticastGroup>) -> Vec<u32> {
        let group = group.into();
        self.ask(None, |net| net.members(group)).into_iter().map(|at| at.port.0).collect()
    }
}

fn report(group: Ipv4Addr, joined: bool) -> Vec<u8> {
    igmp::report(HOST, [10, 0, 0, 1].into(), group, joined)
}

#[test]
fn members_of_both_families_come_and_go() {
    let mut world = SnoopedNetwork::new(&["igmp", "mld"], &[], false);
    world.hear(2, report(ONE, true));
    world.hear(1, report(ONE, true));
    world.hear(3, mld::report(HOST, IN_V6, true));
    assert_eq!(world.members(IpAddr::from(ONE)), [1, 2]);
    assert_eq!(world.members(snooping::group_mac(ONE.into())), [1, 2]);
    assert_eq!((world.members(IpAddr::from(IN_V6)), world.members(IpAddr::from(OTHER))), (vec![3], vec![]));
    world.hear(1, report(ONE, false));
    world.hear(3, mld::report(HOST, IN_V6, false));
    world.wait(2);
    assert_eq!((world.members(IpAddr::from(ONE)), world.members(IpAddr::from(IN_V6))), (vec![2], vec![]));
    world.wait(258);
    assert!(world.members(IpAddr::from(ONE)).is_empty());
    assert!(world.sent.is_empty() && world.warnings.is_empty());
}

#[test]
fn ports_and_switches_that_go_take_their_members_along() {
    let mut world = SnoopedNetwork::new(&["igmp"], &[], false);
    (1..=3).for_each(|n| drop(world.hear(n, report(ONE, true))));
    let (name, reason) = ("eth".to_owned(), maple_wire::msg::PortReason::Modify);
    world.happen(&NetworkEvent::Port { at: port(1), name, is_up: false, reason });
    assert_eq!(world.members(IpAddr::from(ONE)), [2, 3]);
    world.becomes(2, PortKind::Link(port(9)));
    world.wait(1);
    assert_eq!(world.members(IpAddr::from(ONE)), [3]);
    world.happen(&NetworkEvent::SwitchDown(Dpid(1)));
    assert!(world.members(IpAddr::from(ONE)).is_empty());
}

#[test]
fn only_who_asked_for_a_group_or_a_lease_is_asked_again_when_that_changes() {
    let mut world = SnoopedNetwork::new(&["igmp", "dhcp"], &[port(1)], false);
    let leaf = |n| LeafId(n);
    world.ask(Some(leaf(1)), |net| net.members(IpAddr::from(ONE)));
    world.ask(Some(leaf(2)), |net| net.members(IpAddr::from(OTHER)));
    world.ask(Some(leaf(3)), |net| net.members(snooping::group_mac(ONE.into())));
    world.ask(Some(leaf(4)), |net| net.lease([10, 0, 0, 5].into()));
    world.ask(Some(leaf(5)), |net| net.lease([10, 0, 0, 6].into()));
    world.ask(Some(leaf(6)), |net| net.hosts());
    let withdrawn = |commit: Commit| commit.withdraw.into_iter().map(DependentId::possible_leaf).collect::<Vec<_>>();
    assert_eq!(withdrawn(world.hear(2, report(ONE, true))), [leaf(1), leaf(3)]);
    for n in [1, 3] {
        world.ask(Some(leaf(n)), |net| net.members(IpAddr::from(ONE)));
    }
    assert_eq!(withdrawn(world.hear(2, report(ONE, true))), [], "it was said again");
    assert_eq!(withdrawn(world.hear(2, report(ONE, false))), [], "others may stay");
    assert_eq!(withdrawn(world.wait(2)), [leaf(1), leaf(3)]);
    world.hear(2, client(DhcpMessageKind::Request, 1));
    let ack = server(&request(DhcpMessageKind::Request, 1).answer(
        DhcpMessageKind::Ack,
        [10, 0, 0, 5].into(),
        [10, 0, 0, 1].into(),
        Some(9),
    ));
    assert_eq!(withdrawn(world.hear(1, ack)), [leaf(4)]);
}

fn request(kind: DhcpMessageKind, xid: u32) -> Dhcp {
    let none = Ipv4Addr::UNSPECIFIED;
    let (requested, lease, server, renewal) = (None, None, None, None);
    let (is_reply, broadcast, chaddr) = (false, true, HOST);
    Dhcp {
        is_reply,
        kind,
        xid,
        broadcast,
        ciaddr: none,
        yiaddr: none,
        giaddr: none,
        chaddr,
        requested,
        lease,
        server,
        renewal,
    }
}

fn client(kind: DhcpMessageKind, xid: u32) -> Vec<u8> {
    let ip = Frame::ethernet([0xff; 6], HOST).ipv4([0, 0, 0, 0], [255, 255, 255, 255]);
    ip.udp(dhcp::CLIENT_PORT, dhcp::SERVER_PORT).payload(&request(kind, xid).to_bytes())
}

fn server(message: &Dhcp) -> Vec<u8> {
    let ip = Frame::ethernet(HOST, [2, 0, 0, 0, 0, 9]).ipv4([10, 0, 0, 1], [255, 255, 255, 255]);
    ip.udp(dhcp::SERVER_PORT, dhcp::CLIENT_PORT).payload(&message.to_bytes())
}

#[test]
fn a_server_is_believed_at_its_port_only_and_told_of_elsewhere() {
    let mut world = SnoopedNetwork::new(&["dhcp"], &[port(1)], false);
    let ack = request(DhcpMessageKind::Request, 1).answer(
        DhcpMessageKind::Ack,
        [10, 0, 0, 5].into(),
        [10, 0, 0, 1].into(),
        Some(60),
    );
    world.hear(2, client(DhcpMessageKind::Request, 1));
    for _ in 0..10 {
        world.hear(3, server(&ack));
    }
    assert_eq!(world.ask(None, Net::leases), []);
    assert_eq!(world.warnings, [(IgnoreReason::Server(port(3)), 1), (IgnoreReason::Server(port(3)), 10)]);
    world.hear(1, server(&ack));
    let lease = Lease { mac: Mac(HOST), ip: [10, 0, 0, 5].into(), location: port(2), ends: Some(60) };
    assert_eq!(world.ask(None, |net| (net.lease(lease.ip), net.lease_of(lease.mac))), (Some(lease), Some(lease)));
    world.wait(60);
    assert_eq!(world.ask(None, Net::leases), []);
}

#[test]
fn a_querier_asks_edge_ports_and_whoever_stays_when_another_leaves() {
    let mut world = SnoopedNetwork::new(&["igmp"], &[], true);
    world.wait(0);
    assert_eq!(world.sent.iter().map(|frame| frame.at.port.0).collect::<Vec<_>>(), [1, 2, 3], "no link");
    world.hear(2, report(ONE, true));
    world.sent.clear();
    world.hear(2, report(ONE, false));
    let query = |frame: &OwnFrame| (frame.at.port.0, igmp::read(&Packet::new(&frame.bytes, 1)));
    let asked = (2, Some(Membership::Query(Some(ONE.into()))));
    assert_eq!(world.sent.iter().map(query).collect::<Vec<_>>(), [asked]);
    world.hear(2, report(ONE, true));
    world.wait(10);
    assert_eq!(world.members(IpAddr::from(ONE)), [2]);
}

#[test]
fn a_host_that_floods_groups_is_reported_and_leaves_room() {
    let mut world = SnoopedNetwork::new(&["igmp"], &[], false);
    for n in 0..300u16 {
        let [a, b] = n.to_be_bytes();
        world.hear(1, report([239, 9, a, b].into(), true));
    }
    assert_eq!(world.warnings, [(IgnoreReason::GroupsOfPort(port(1)), 1), (IgnoreReason::GroupsOfPort(port(1)), 10)]);
    world.hear(2, report(ONE, true));
    assert_eq!(world.members(IpAddr::from(ONE)), [2]);
    let rows = world.store.snapshot().table(snooping::MEMBERS).map_or(0, |rows| rows.len());
    assert_eq!(rows, groups::MAX_PER_PORT + 1);
}

#[test]
fn snooping_hears_the_chosen_protocols_and_nothing_else() {
    let on = |protocols: &[&str], servers: &[Location]| snooping(protocols, servers, false).unwrap().conditions();
    let all = on(&["igmp", "mld", "dhcp"], &[port(1)]);
    let hears = |conds: &[Cond], frame: &[u8]| {
        let run = Run::new(frame.into(), frame.len(), port(1), Store::new().begin(), true);
        let packet = run.packet();
        conds.iter().any(|cond| packet.matches(cond))
    };
    let mldv2 = {
        let (from, to) = (mld::link_local(HOST), "ff02::16".parse::<Ipv6Addr>().unwrap());
        let options = [5, 2, 0, 0, 1, 0];
        let ip = Frame::ethernet([0x33, 0x33, 0, 0, 0, 0x16], HOST).ipv6(from, to).ttl(1).options(&options);
        ip.proto(58).payload(&[143, 0, 0, 0, 0, 0, 0, 0])
    };
    let dhcp = client(DhcpMessageKind::Discover, 1);
    let offer = server(&request(DhcpMessageKind::Request, 1).answer(DhcpMessageKind::Offer, ONE, ONE, None));
    for frame in
        [&report(ONE, true), &igmp::query(HOST, None, 1), &mldv2, &mld::report(HOST, IN_V6, false), &dhcp, &offer]
    {
        assert!(hears(&all, frame), "{frame:02x?}");
    }
    assert!(!hears(&on(&["igmp", "mld"], &[]), &dhcp));
    let ping = Frame::ethernet(HOST, HOST).ipv4(ONE, ONE).icmp(8, 0, [0; 4]).payload(b"");
    assert!(!hears(&all, &ping));
}

#[test]
fn invalid_options_of_snooping_are_refused_in_words() {
    let error = |protocols: &[&str], servers: &[Location], querier| snooping(protocols, servers, querier).unwrap_err();
    assert_eq!(error(&["dhcp"], &[], false), SnoopingError::NoServers);
    assert_eq!(error(&["igmp"], &[port(1)], false), SnoopingError::OnlyServers);
    assert_eq!(error(&["dhcp"], &[port(1)], true), SnoopingError::OnlyQuerier);
    let unknown = error(&["IGMP"], &[], false).to_string();
    assert_eq!(unknown, "cannot snoop on \"IGMP\"; known protocols are \"igmp\", \"mld\" and \"dhcp\"");
    assert!(!snooping(&[], &[], false).unwrap().is_on());
}

#[test]
fn the_command_line_changes_what_the_policy_says_as_far_as_it_goes() {
    let policy = snooping(&["igmp", "dhcp"], &[port(1)], true).unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(policy.with_names(&[], &[], false), Ok(policy.clone()));
    assert_eq!(policy.with_names(&[], &[port(2)], false), snooping(&["igmp", "dhcp"], &[port(2)], true));
    assert_eq!(policy.with_names(&names(&["mld"]), &[], false), snooping(&["mld"], &[], true));
    assert_eq!(policy.with_names(&names(&["dhcp"]), &[], false), snooping(&["dhcp"], &[port(1)], false));
    assert_eq!(policy.with_names(&names(&["mld"]), &[port(1)], false), Err(SnoopingError::OnlyServers));
    assert_eq!(Snooping::default().with_names(&names(&["igmp"]), &[], true), snooping(&["igmp"], &[], true));
}
