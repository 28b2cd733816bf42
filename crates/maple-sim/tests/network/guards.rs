//! Constraints in a network: packets that the controller sends itself, loops, and the leaves that a change of a host
//! affects.

use std::net::IpAddr;
use std::sync::Arc;

use maple_core::compose::Composition;
use maple_core::engine::{LeafSelection, Options};
use maple_core::guard::{HostGroup, Member, Requirement, RouteConstraint};
use maple_core::network::{Hop, Mac};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::report::Report;
use maple_core::route::Route;
use maple_core::trace::Cond;
use maple_sim::SimNetwork;
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, PortNo, Version};

use crate::scripts::{A, B, at, ring_with, send, shortest, udp};

const C: Mac = Mac([0, 0, 0, 0, 0, 0xc]);

fn guarded(
    policy: impl Policy + 'static,
    rules: impl IntoIterator<Item = Requirement<Arc<dyn Policy>>>,
) -> Arc<dyn Policy> {
    let constraints = rules.into_iter().map(|rule| RouteConstraint::new("a constraint", None, rule));
    Arc::new(Composition::single(Arc::new(policy) as Arc<dyn Policy>).guarded(constraints))
}

fn waypoint(via: u64) -> Requirement<Arc<dyn Policy>> {
    let everybody = || HostGroup::new([Member::Fits(Cond::default())]);
    Requirement::Waypoint { src: everybody(), dst: everybody(), via: [Dpid(via)].into() }
}

fn line_of_three(options: &Options, policy: Arc<dyn Policy>) -> SimNetwork {
    // The ring of four loses its last link.
    let mut sim = ring_with(options, policy, 4, 1, Version::Of13);
    sim.set_port(at(4, 2), false);
    sim.run();
    sim
}

/// Makes A known at switch 1 and B at switch 3.
fn introduce(sim: &mut SimNetwork) {
    send(sim, at(1, 3), udp(A, C, 1));
    send(sim, at(3, 3), udp(B, C, 1));
}

#[test]
fn the_controller_sends_nothing_past_a_waypoint_while_rules_are_on_their_way() {
    let none_held = Options { held_packets: 0, ..Options::default() };
    for (via, is_between) in [(2, true), (1, false), (3, false)] {
        let mut sim = line_of_three(&none_held, guarded(shortest, [waypoint(via)]));
        introduce(&mut sim);
        let drops = |sim: &SimNetwork| sim.engines().iter().map(|engine| engine.view().stats().way_drops).sum::<u64>();
        let before = (drops(&sim), sim.stats().sent_by_controller);
        let first = send(&mut sim, at(1, 3), udp(A, B, 80));
        assert_eq!(first.is_empty(), is_between, "via {via}: {first:?}");
        assert_eq!(drops(&sim) - before.0, u64::from(is_between), "via {via}");
        assert_eq!(sim.stats().sent_by_controller - before.1, u64::from(!is_between), "via {via}");
        let reported = |report: &&Report| matches!(report, Report::NoRuleForWay { .. });
        assert_eq!(sim.reports.iter().filter(reported).count() > 0, is_between, "via {via}");
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 1, "the rule leads it by the waypoint");
    }
}

#[test]
fn packets_that_wait_for_the_rules_of_their_way_are_not_lost() {
    let mut sim = line_of_three(&Options::default(), guarded(shortest, [waypoint(2)]));
    introduce(&mut sim);
    for port in 0..20 {
        sim.inject(at(1, 3), udp(A, B, port));
    }
    sim.run();
    assert_eq!(sim.delivered.len(), 20);
    assert_eq!(sim.stats().sent_by_controller, 0);
}

#[test]
fn a_loop_of_hops_is_a_violation_of_every_guard() {
    let around = |_: &PacketHandle, _: &Net| {
        let hop = |switch, port| Hop::new(Dpid(switch), PortNo(port));
        Route::hops([hop(1, 2), hop(2, 2), hop(3, 2), hop(4, 2)])
    };
    let policy = guarded(around, [Requirement::MaxHops { max: 9, src: HostGroup::all() }]);
    assert_eq!(policy.constraints(), ["no_loops".into(), "a constraint".into()]);
    let mut sim = ring_with(&Options::default(), policy, 4, 1, Version::Of13);
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), []);
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), []);
    let reported: Vec<_> = sim.reports.iter().filter(|r| matches!(r, Report::ConstraintViolated { .. })).collect();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].to_string().contains("violates no_loops: "), "{}", reported[0]);
    assert_eq!(sim.stats().policy_errors, 0);
    assert_eq!(sim.stats().misses, 1, "the drop is a rule");
}

/// Returns the frame by which a host announces its IP address.
fn announce(mac: Mac, ip: [u8; 4]) -> Vec<u8> {
    Frame::ethernet([0xff; 6], mac.0).arp(1, mac.0, ip.into(), [0; 6], ip.into())
}

#[test]
fn a_host_that_becomes_a_member_elsewhere_re_decides_no_unicast_of_others() {
    let guests = || HostGroup::new([Member::Ip(IpAddr::from([10, 0, 9, 0]), 24)]);
    let everybody = || HostGroup::new([Member::Fits(Cond::default())]);
    let policy = guarded(shortest, [Requirement::Isolate(everybody(), guests())]);
    let mut sim = ring_with(&Options::default(), policy, 4, 1, Version::Of13);
    for (place, mac, ip) in [(at(1, 3), A, [10, 0, 0, 1]), (at(2, 3), B, [10, 0, 0, 2]), (at(3, 3), C, [10, 0, 0, 3])] {
        send(&mut sim, place, announce(mac, ip));
    }
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 1);
    let before = sim.stats();
    // C is a guest at its own port.
    send(&mut sim, at(3, 3), announce(C, [10, 0, 9, 3]));
    let after = sim.stats();
    // Announcements are floods, which lead to C too. Those of three hosts are decided again, and this one for the first
    // time.
    assert!(after.runs - before.runs <= 4, "{before:?} {after:?}");
    let before = sim.stats();
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 1);
    assert_eq!(sim.stats().packet_ins, before.packet_ins, "the rule from A to B has stayed");
    assert_eq!(send(&mut sim, at(1, 3), udp(A, C, 80)), [], "C is a guest now");
    // The next host is a guest beside B: packets from A to B are delivered to the guest, too.
    send(&mut sim, at(2, 3), announce(Mac([0, 0, 0, 0, 0, 0xd]), [10, 0, 9, 4]));
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), []);
    sim.report(maple_core::engine::Event::Invalidate(LeafSelection::All));
    sim.run();
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), []);
}
