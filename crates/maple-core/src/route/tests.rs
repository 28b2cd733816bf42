//! Tests of which routes are refused, and what the others resolve to.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, PortNo, Version};

use super::{Resolved, Route, choose_by};
use crate::compose::Composition;
use crate::ids::ShardId;
use crate::network::{Hop, Location, PortInfo, PortKind};
use crate::policy_error::PolicyError;
use crate::run::{Net, PacketHandle, Run};
use crate::state::{Cell, Snapshot, Store, SwitchInfo, Txn, Write};

fn at(switch: u64, port: u32) -> Location {
    Location::new(Dpid(switch), PortNo(port))
}

fn hop(switch: u64, port: u32) -> Hop {
    Hop::new(Dpid(switch), PortNo(port))
}

/// Creates switches 1, 2 and 3 in a ring by ports 1 and 2. Ports 3 and 4 are edge ports, 5 is new. Switch 3 speaks 1.0.
fn network() -> Arc<Snapshot> {
    store().snapshot()
}

fn store() -> Arc<Store> {
    let store = Store::new();
    let mut writes = Vec::new();
    for n in 1..=3u64 {
        let version = if n == 3 { Version::Of10 } else { Version::Of13 };
        writes.push(Write::Switch { dpid: Dpid(n), info: Some(SwitchInfo { shard: ShardId(0), version }) });
        let (next, previous) = (n % 3 + 1, (n + 1) % 3 + 1);
        let kinds = [
            PortKind::Link(at(previous, 2)),
            PortKind::Link(at(next, 1)),
            PortKind::Edge,
            PortKind::Edge,
            PortKind::New,
        ];
        for (port, kind) in (1..).zip(kinds) {
            writes.push(Write::Port { at: at(n, port), info: Some(PortInfo { up: true, kind }) });
        }
    }
    store.update(|_| writes);
    store
}

/// Resolves a route of a UDP packet that entered at switch 1.
fn resolve(route: &Route) -> Result<Arc<Resolved>, PolicyError> {
    resolve_on(network(), route)
}

fn resolve_on(network: Arc<Snapshot>, route: &Route) -> Result<Arc<Resolved>, PolicyError> {
    let frame = Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2);
    let frame = frame.payload(&[]);
    let run = Run::new(frame.clone().into(), frame.len(), at(1, 3), Txn::new(network), true);
    run.resolve(route).map(|(_, resolved)| resolved)
}

fn route_text(route: &Route) -> String {
    switches(&resolve(route).expect("a good route"))
}

fn switches(resolved: &Resolved) -> String {
    let hops = |(dpid, hops): (&Dpid, &super::SwitchHops)| {
        format!("{}: {:?} -> {:?} {:?}", dpid.0, hops.arrives, hops.links.keys().collect::<BTreeSet<_>>(), hops.edges)
    };
    resolved.switches.iter().map(hops).collect::<Vec<_>>().join("; ")
}

#[test]
fn good_routes_come_to_parts_at_switches() {
    assert_eq!(route_text(&Route::drop()), "");
    assert_eq!(route_text(&Route::unreachable()), "");
    assert_eq!(route_text(&Route::to([PortNo(4)])), "1: None -> {} {4}");
    let two = [hop(2, 3), hop(1, 2)];
    assert_eq!(route_text(&Route::hops(two)), "1: None -> {2} {}; 2: Some(1) -> {} {3}");
    let tree = Route::multicast([Route::hops(two), Route::hops([hop(1, 1), hop(3, 4)]), Route::to([PortNo(4)])]);
    assert_eq!(route_text(&tree), "1: None -> {1, 2} {4}; 2: Some(1) -> {} {3}; 3: Some(2) -> {} {4}");
    let flood = "1: None -> {1, 2} {3, 4}; 2: Some(1) -> {} {3, 4}; 3: Some(2) -> {} {3, 4}";
    assert_eq!(route_text(&Route::flood()), flood);
}

#[test]
fn a_flood_does_not_go_where_nobody_is() {
    let store = store();
    let quiet = |port| Write::Port { at: at(3, port), info: Some(PortInfo { up: true, kind: PortKind::New }) };
    store.update(|_| vec![quiet(3), quiet(4)]);
    let flood = resolve_on(store.snapshot(), &Route::flood()).expect("a good route");
    assert_eq!(switches(&flood), "1: None -> {2} {3, 4}; 2: Some(1) -> {} {3, 4}");
}

#[test]
fn a_port_that_is_not_known_yet_is_left_out() {
    assert_eq!(route_text(&Route::to([PortNo(4), PortNo(5)])), "1: None -> {} {4}");
}

#[test]
fn wrong_routes_say_what_is_wrong() {
    let wrong = |route: Route, text: &str| {
        let error = resolve(&route).expect_err("a bad route").to_string();
        assert!(error.contains(text), "{error}");
    };
    wrong(Route::hops([hop(2, 3)]), "does not start at the ingress switch 0000000000000001");
    wrong(Route::to([PortNo(9)]), "there is no such port");
    wrong(Route::hops([hop(1, 2)]), "is a link to switch 0000000000000002, but the route has no hop there");
    wrong(Route::hops([hop(1, 3), hop(2, 3)]), "not reached");
    wrong(Route::hops([hop(1, 2), hop(2, 2), hop(3, 2)]), "a second time");
    wrong(Route::hops([hop(1, 1), hop(1, 2), hop(2, 2), hop(3, 3)]), "a second time");
    wrong(Route::to([PortNo(4)]).set(Field::TcpDst, 1), "can't set tcp_dst: the packet has no such field");
    wrong(Route::to([PortNo(4)]).set(Field::UdpDst, 65536), "has 16 bits");
    wrong(Route::to([PortNo(4)]).set(Field::EthType, 1), "no switch can rewrite it");
    wrong(Route::hops([hop(1, 1), hop(3, 3)]).set(Field::IpEcn, 1), "can't set ip_ecn");
    let mixed = Route::multicast([Route::to([PortNo(3)]).set(Field::UdpDst, 1), Route::to([PortNo(4)])]);
    wrong(mixed, "different rewrites");
}

#[test]
fn absent_ports_are_left_out_with_all_hops_that_only_lead_to_them() {
    let gone = [hop(1, 9), hop(2, 9), hop(9, 1)];
    assert_eq!(route_text(&Route::to([PortNo(4), PortNo(9), PortNo(2)])), "1: None -> {} {4}", "2 is a link");
    let far = [hop(1, 2), hop(2, 2), hop(3, 9)];
    assert_eq!(route_text(&Route::hops(far.into_iter().chain([hop(1, 4)]))), "1: None -> {} {4}");
    let both = "1: None -> {2} {4}; 2: Some(1) -> {} {3}";
    assert_eq!(route_text(&Route::hops(far.into_iter().chain([hop(1, 4), hop(2, 3)]))), both);
    for hop in gone {
        assert_eq!(route_text(&Route::multicast([Route::hops([hop]), Route::to([PortNo(4)])])), "1: None -> {} {4}");
        assert_eq!(route_text(&Route::multicast([Route::hops([hop])])), "", "all that there is");
        let error = resolve(&Route::hops([hop])).expect_err("nothing is there").to_string();
        assert!(error.contains("there is no such port"), "{error}");
    }
    let behind = Route::hops([hop(1, 4), hop(1, 9), hop(7, 3)]);
    assert_eq!(route_text(&behind), "1: None -> {} {4}", "nobody knows what is behind 1:9");
    let copy = Route::multicast([Route::hops([hop(2, 9)]), Route::to([PortNo(4)])]).copy_to(at(2, 3));
    assert_eq!(route_text(&copy), both, "the copy leaves where the packet really goes");
    let left_out =
        |route: &Route| route.left_out(Dpid(1), &network()).into_iter().map(|one| one.at).collect::<Vec<_>>();
    assert_eq!(left_out(&copy.copy_to(at(3, 9))), [at(2, 9), at(3, 9)]);
    assert_eq!(left_out(&Route::to([PortNo::IN_PORT, PortNo(2), PortNo(4)])), [at(1, 2)]);
    assert_eq!(left_out(&Route::hops([hop(1, 2), hop(2, 3)])), [], "a hop may lead on");
}

#[test]
fn resolving_a_route_records_a_dependency_and_the_prerequisites_of_rewrites() {
    let frame = Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2);
    let frame = frame.payload(&[]);
    let run = Run::new(frame.clone().into(), frame.len(), at(1, 3), Txn::new(network()), true);
    let route = Route::hops([hop(1, 2), hop(2, 3)]).set(Field::UdpDst, 5);
    run.resolve(&route).expect("a good route");
    let finished = run.finish().expect("ends once");
    let plan = route.plan(Dpid(1));
    assert!(finished.txn.reads().map(|(cell, _)| cell).eq([&Cell::Route(plan.clone())]));
    let mut txn = Txn::new(network());
    plan.resolve(&mut txn).expect("a good route");
    let cells: Vec<String> = txn.reads().map(|(cell, _)| format!("{cell:?}")).collect();
    assert_eq!(
        cells,
        ["Port(0000000000000001:2)", "Port(0000000000000002:1)", "Port(0000000000000002:3)"],
        "both ends of the link and the egress port"
    );
    let items: Vec<String> = finished.trace.items.iter().map(ToString::to_string).collect();
    assert_eq!(items, ["read eth_type=0x800", "read ip_proto=17"], "the rewrite needs UDP, and its rule must say so");
}

#[test]
fn a_path_is_a_dependency_only_if_f_looks_at_what_was_found() {
    let reads = |look: &dyn Fn(&Route)| {
        let frame =
            Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2);
        let frame = frame.payload(&[]);
        let run = Run::new(frame.clone().into(), frame.len(), at(1, 3), Txn::new(network()), true);
        let (path, to) = (run.net().shortest_path(at(1, 3), at(2, 3)), run.net().shortest_path(at(1, 3), at(3, 4)));
        let (tree, other) = (Route::multicast([path.clone(), to.clone()]), Route::multicast([to, path.clone()]));
        look(&path);
        assert!(run.resolve(&path).is_ok() && run.resolve(&tree).is_ok() && run.resolve(&other).is_ok());
        let finished = run.finish().expect("ends once");
        finished.txn.reads().map(|(cell, _)| format!("{cell:?}")).collect::<Vec<_>>().join(", ")
    };
    let end = Cell::IsPlace(at(2, 3));
    let path = format!("{:?}, {end:?}", Cell::Path { from: Dpid(1), to: Dpid(2), costs: None, within: None });
    assert_eq!(reads(&|_| {}), "", "it goes wherever the path leads");
    assert_eq!(reads(&|route| drop(route.clone().queue(3).meter(1))), "");
    let exists = format!("{:?}, {end:?}", Cell::HasPath { from: Dpid(1), to: Dpid(2), costs: None, within: None });
    assert_eq!(reads(&|route| assert!(!route.is_unreachable())), exists);
    assert_eq!(reads(&|route| assert!(!route.is_drop())), path);
    assert_eq!(reads(&|route| assert_eq!(route.explicit_hops().count(), 2)), path);
    assert_eq!(reads(&|route| assert_eq!(*route, Route::hops([hop(1, 2), hop(2, 3)]))), path);
    assert_eq!(reads(&|route| assert!(format!("{route:?}").contains("hops"))), path);
}

#[test]
fn plans_are_the_same_question_whatever_it_comes_to() {
    let plan = |network: Arc<Snapshot>, costs: Option<&str>| {
        let run = Run::new([].into(), 0, at(1, 3), Txn::new(network), true);
        let net = run.net();
        let route =
            costs.map_or_else(|| net.shortest_path(at(1, 3), at(2, 3)), |name| net.path(at(1, 3), at(2, 3), name));
        route.plan(Dpid(1))
    };
    let apart = store();
    apart.update(|_| [at(1, 2), at(1, 1)].map(|at| Write::Port { at, info: None }).into());
    assert_eq!(plan(network(), None), plan(apart.snapshot(), None));
    let (here, there) = (network().route(&plan(network(), None)), apart.snapshot().route(&plan(network(), None)));
    assert_eq!(here.map(|route| switches(&route)), Ok("1: None -> {2} {}; 2: Some(1) -> {} {3}".into()));
    assert_eq!(there.map(|route| switches(&route)), Ok(String::new()), "nowhere");
    let weighed = store();
    weighed.update(|_| vec![Write::CostName("cost".into())]);
    assert_ne!(plan(weighed.snapshot(), Some("cost")), plan(weighed.snapshot(), None));
}

#[test]
fn a_copy_leaves_the_route_where_that_is_nearest() {
    let bases = [
        Route::drop(),
        Route::to([PortNo(4)]),
        Route::hops([hop(1, 2), hop(2, 3)]),
        Route::hops([hop(1, 1), hop(3, 1), hop(2, 3)]),
        Route::hops([hop(1, 1), hop(1, 2), hop(2, 3), hop(3, 4)]),
        Route::flood(),
    ];
    let came_in = at(1, 3);
    for route in bases {
        let alone = resolve(&route).expect("a good route");
        for place in [at(1, 3), at(1, 4), at(2, 3), at(2, 4), at(3, 3), at(3, 4)] {
            let both = resolve(&route.clone().copy_to(place)).expect("a copy breaks no route");
            let mut wanted: BTreeSet<Location> = alone.copies(b"", came_in).into_iter().map(|(at, _)| at).collect();
            wanted.extend(Some(place).filter(|place| *place != came_in));
            let got: Vec<Location> = both.copies(b"", came_in).into_iter().map(|(at, _)| at).collect();
            assert_eq!(got, wanted.into_iter().collect::<Vec<_>>(), "{route} {place}");
            let links = |resolved: &Resolved| resolved.switches.values().map(|hops| hops.links.len()).sum::<usize>();
            assert!(links(&both) <= links(&alone) + 1, "no place is farther: {}", switches(&both));
        }
    }
    let far = Route::hops([hop(1, 2), hop(2, 3)]).set(Field::UdpDst, 9).copy_to(at(3, 3));
    assert_eq!(far.to_string(), "by 1:2, 2:3 set udp_dst=9 and copy to 3:3 set udp_dst=9", "as the route sends it");
}

#[test]
fn copies_to_links_new_ports_and_unknown_places_are_left_out() {
    let route = Route::to([PortNo(4)]);
    for place in [at(1, 2), at(2, 5), at(2, 77), at(9, 1)] {
        assert_eq!(route_text(&route.clone().copy_to(place)), route_text(&route), "{place} is a link, new, or nowhere");
    }
}

#[test]
fn one_of_several_routes_is_chosen_by_a_few_bits_and_stays_where_others_fail() {
    let routes = [Route::to([PortNo(3)]), Route::to([PortNo(4)]), Route::drop()];
    let choose = |routes: &[Route], src: u128, port: u128| {
        let read = |field, mask| Some(if field == Field::Ipv4Src { src } else { port } & mask);
        choose_by(routes.to_vec(), read, &[Field::Ipv4Src, Field::TcpSrc]).to_string()
    };
    let mut shares = std::collections::BTreeMap::new();
    for (src, port) in (0..256u128).map(|n| (0x0a00_0000 | n >> 4, 0xc000 | n & 0xf)) {
        let chosen = choose(&routes, src, port);
        assert_eq!(chosen, choose(&routes, src | 0xff0, port | 0xff0), "the other bits don't count");
        let mut without = routes.clone();
        without[1] = Route::unreachable();
        let then = choose(&without, src, port);
        assert!(then == chosen || chosen == "to 4", "only packets of the way that failed change");
        *shares.entry(chosen).or_insert(0) += 1;
    }
    assert_eq!(shares.len(), 3);
    assert!(shares.values().all(|share| (60..=110).contains(share)), "{shares:?}");
    assert_eq!(choose(&[], 1, 2), "unreachable");
    assert_eq!(choose(&[Route::flood()], 1, 2), "flood");
}

/// Returns what a run of `f` on a packet for this address has recorded, and whether its route goes anywhere.
fn flooded(dst: [u8; 6], f: impl Fn(&Run) -> Route) -> (Vec<String>, bool) {
    let frame = Frame::ethernet(dst, [0, 0, 0, 0, 0, 1]).raw(0x88b5, b"");
    let run = Run::new(frame.clone().into(), frame.len(), at(1, 3), Txn::new(network()), true);
    let route = f(&run);
    let resolved = run.resolved(&route).expect("a good route");
    let again = run.resolved(&run.with_floods(&route)).expect("a good route");
    assert_eq!(resolved, again, "asked again, the answer is the same");
    let items = run.finish().expect("ends once").trace.items;
    (items.iter().map(ToString::to_string).collect(), !resolved.switches.is_empty())
}

#[test]
fn frames_to_reserved_addresses_are_not_flooded() {
    // The addresses of IEEE 802.1Q, table 8-1, and Cisco's groups for CDP and PVST.
    let reserved = |last: u8| [1, 0x80, 0xc2, 0, 0, last];
    let cisco = |last: u8| [1, 0, 0xc, 0xcc, 0xcc, last];
    let kept = (0..=0xf).map(reserved).chain([cisco(0xcc), cisco(0xcd)]);
    for dst in kept {
        assert!(!flooded(dst, |_| Route::flood()).1, "{dst:02x?}");
        assert!(flooded(dst, |_| Route::flood_reserved()).1, "{dst:02x?}");
        assert!(flooded(dst, |_| Route::to([PortNo(4)])).1, "{dst:02x?}: f decides about anything but floods");
        let rest = |_: &Run| Route::multicast([Route::flood(), Route::to([PortNo(4)])]).queue(1);
        assert!(flooded(dst, rest).1, "{dst:02x?}: the rest of the route stays");
    }
    for dst in [reserved(0x10), reserved(0xff), cisco(0xcb), cisco(0xce), [0, 0x80, 0xc2, 0, 0, 0], [0xff; 6]] {
        assert!(flooded(dst, |_| Route::flood()).1, "{dst:02x?}");
    }
}

#[test]
fn a_flood_asks_the_packet_as_earlier_parts_have_changed_it() {
    let through = |dst: u128| {
        move |run: &Run| {
            let parts = [Route::pass().set(Field::EthDst, dst), Route::flood()].map(Composition::single);
            let mut answer = |part: &Route, _: &PacketHandle, _: &Net| Ok(part.clone());
            let route = Composition::tiers(parts).decide_by(&run.packet(), &run.net(), &mut answer).expect("a route");
            assert!(dst != 2 || route.floods(), "whoever compares it sees a flood");
            route
        }
    };
    let (reserved, other) = ([1, 0x80, 0xc2, 0, 0, 2], [0, 0, 0, 0, 0, 9]);
    assert!(flooded(reserved, through(2)).1, "it has another destination when it is flooded");
    assert!(flooded(other, through(2)).1);
    assert!(!flooded(other, through(0x0180_c200_0002)).1, "it is for a reserved address when it is flooded");
}

#[test]
fn a_flood_asks_only_for_what_is_not_known_of_the_destination() {
    let asked = |dst, f: &dyn Fn(&Run) -> Route| flooded(dst, f).0;
    let tests = [
        "test eth_dst=01:80:c2:00:00:00/ff:ff:ff:ff:ff:f0: no",
        "test eth_dst=01:00:0c:cc:cc:cc/ff:ff:ff:ff:ff:fe: no",
    ];
    assert_eq!(asked([0xff; 6], &|_| Route::flood()), tests);
    assert_eq!(asked([1, 0x80, 0xc2, 0, 0, 2], &|_| Route::flood()), [tests[0].replace("no", "yes")]);
    assert_eq!(asked([0xff; 6], &|_| Route::flood_reserved()), [""; 0]);
    let group = "test eth_dst=01:00:00:00:00:00/01:00:00:00:00:00";
    let multicast = |run: &Run| if run.packet().is_multicast() { Route::drop() } else { Route::flood() };
    assert_eq!(asked([0, 0, 0, 0, 0, 2], &multicast), [format!("{group}: no")], "no group address is reserved");
    let read = |run: &Run| {
        run.packet().eth_dst();
        Route::flood()
    };
    assert_eq!(asked([0xff; 6], &read), ["read eth_dst=ff:ff:ff:ff:ff:ff"]);
    assert_eq!(asked([1, 0x80, 0xc2, 0, 0, 2], &read), ["read eth_dst=01:80:c2:00:00:02"]);
}
