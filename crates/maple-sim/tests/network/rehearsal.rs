//! Rehearsals of reloads: a reload changes exactly what its rehearsal announced.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use maple_core::compose::Canary;
use maple_core::engine::{
    Candidate, DifferenceKind, Engine, Rehearsal, Rehearsed, ReportedRule, RuleDifference, TableRule,
};
use maple_core::network::{LinkName, Mac};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_core::state::Write;
use maple_core::trace::Cond;
use maple_sim::{Choices, SimNetwork};
use maple_wire::{Constraint, Dpid, Field, Version};

use crate::scripts::{A, B, at, ring, send, udp};

/// A time after which nothing is under way: longer than a label rests that a switch held when it was forgotten
/// (`Options::lost_quarantine`).
const REST: Duration = Duration::from_secs(11);

/// Reloads a policy in a network at rest, and compares the rules with those that a rehearsal announced. The order in
/// which routes get ready can decide about priorities, so priorities are compared only if `exact`.
///
/// # Errors
/// The rules that differ.
pub fn reload_as_rehearsed(sim: &mut SimNetwork, policy: &Arc<dyn Policy>, exact: bool) -> Result<Rehearsed, String> {
    // Labels that are not used any more rest for a while, and a switch that is being restored waits for some.
    sim.run_for(REST);
    reload_at_once_as_rehearsed(sim, policy, exact)
}

/// Reloads a policy and compares, as [`reload_as_rehearsed`] does, although labels may still rest.
fn reload_at_once_as_rehearsed(
    sim: &mut SimNetwork,
    policy: &Arc<dyn Policy>,
    exact: bool,
) -> Result<Rehearsed, String> {
    let engines = sim.engines().iter().map(Engine::copy).collect();
    let rehearsal = match Rehearsal::new(engines) {
        Ok(rehearsal) => rehearsal,
        Err(dpid) => {
            sim.reload(Arc::clone(policy));
            sim.run_for(REST);
            return Err(format!("the rules of {dpid} are being read"));
        }
    };
    let rehearsed = rehearsal.adopt(&Candidate { number: 0, policy: Arc::clone(policy) });
    let expected = expected(sim, &rehearsed);
    rehearsed.reserve(&sim.store);
    sim.reload(Arc::clone(policy));
    sim.run_for(REST);
    let (expected, there) = (expected?, rules(sim));
    let compared = |rules: &BTreeSet<String>| {
        let mut all: Vec<String> =
            rules.iter().map(|rule| if exact { rule.clone() } else { unordered(rule) }).collect();
        all.sort();
        all
    };
    if compared(&expected) == compared(&there) {
        return Ok(rehearsed);
    }
    let missing: Vec<&String> = expected.difference(&there).collect();
    let others: Vec<&String> = there.difference(&expected).collect();
    Err(format!("rules that a rehearsal expected, and others: {missing:#?} {others:#?}"))
}

/// Returns the text of a rule without its priority.
fn unordered(rule: &str) -> String {
    let parts = rule.split_once("priority: ").zip(rule.split_once(", matching"));
    let ((before, _), (_, after)) = parts.unwrap_or_else(|| panic!("{rule}"));
    [before, after].concat()
}

/// Returns the rules of all switches as text.
fn rules(sim: &mut SimNetwork) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for dpid in sim.dpids() {
        let flows = sim.switch(dpid).map(|switch| switch.flows()).unwrap_or_default();
        all.extend(flows.iter().map(|flow| {
            let rule = maple_core::rule::Rule {
                priority: flow.priority,
                matching: flow.matching.clone(),
                instructions: flow.instructions[..].into(),
                cookie: flow.cookie,
            };
            format!("{dpid} {} {rule:?}", flow.table_id)
        }));
    }
    all
}

/// Returns the rules that the rehearsal announced for all switches.
///
/// # Errors
/// A rule that the rehearsal removes or replaces, but that no switch has.
fn expected(sim: &mut SimNetwork, rehearsed: &Rehearsed) -> Result<BTreeSet<String>, String> {
    let mut all = rules(sim);
    for (dpid, differences) in &rehearsed.rules {
        let shown = |rule: &TableRule| format!("{dpid} {} {:?}", rule.table_id, rule.rule);
        let sides: Vec<_> = differences.iter().map(RuleDifference::sides).collect();
        for gone in sides.iter().filter_map(|(before, _)| *before) {
            if !all.remove(&shown(gone)) {
                return Err(format!("{gone:?} was not there"));
            }
        }
        all.extend(sides.iter().filter_map(|(_, after)| *after).map(shown));
    }
    Ok(all)
}

/// Creates a policy like an access list, which denies some ports of UDP, and routes along the path with the lowest
/// cost.
fn list(denied: &'static [u16], weight: &'static str) -> Arc<dyn Policy> {
    Arc::new(move |pkt: &PacketHandle, net: &Net| {
        let udp =
            Cond::default().and(Constraint::exact(Field::EthType, 0x800)).and(Constraint::exact(Field::IpProto, 17));
        let is_denied = |port: &u16| pkt.matches(&udp.clone().and(Constraint::exact(Field::UdpDst, (*port).into())));
        if denied.iter().any(is_denied) {
            return Route::drop();
        }
        let (src, dst) = (pkt.get(Field::EthSrc), pkt.get(Field::EthDst));
        let place = |bits: Option<u128>| net.locate(Mac::from_bits(bits?));
        match (place(src), place(dst)) {
            (Some(from), Some(to)) if weight.is_empty() => net.shortest_path(from, to),
            (Some(from), Some(to)) => net.path(from, to, weight),
            _ => Route::drop(),
        }
    })
}

/// Creates a ring of four switches, whose hosts A and B have sent to each other.
fn decided(policy: &Arc<dyn Policy>, shards: u8, version: Version) -> SimNetwork {
    let mut sim = ring(Arc::clone(policy), 4, shards, version);
    let cost = Write::Cost { name: "cost".into(), link: LinkName::Port(at(1, 2)), cost: Some(50) };
    sim.write_and_settle(vec![cost]);
    for (from, to, place) in [(A, B, at(1, 3)), (B, A, at(2, 3)), (A, B, at(1, 3))] {
        sim.place_host(from, place);
        for port in [22, 80, 443] {
            send(&mut sim, place, udp(from, to, port));
        }
    }
    sim
}

fn kinds(rehearsed: &Rehearsed) -> Vec<(DifferenceKind, usize)> {
    rehearsed.trial.counts.iter().map(|(kind, count)| (*kind, *count)).collect()
}

#[test]
fn a_rehearsal_says_who_loses_and_gains_and_which_rules_change() {
    for (shards, version) in [(1, Version::Of13), (2, Version::Of13), (4, Version::Of13), (1, Version::Of10)] {
        let mut sim = decided(&list(&[22, 80], ""), shards, version);
        assert!(sim.rehearse(list(&[22, 80], "")).is_same());
        let before = rules(&mut sim);
        // Labels that are not used any more rest for a moment.
        sim.run_for(Duration::from_secs(1));
        let rehearsed = sim.rehearse(list(&[22, 443], ""));
        assert_eq!(rules(&mut sim), before, "a rehearsal changes nothing");
        assert_eq!(kinds(&rehearsed), [(DifferenceKind::Loses, 2), (DifferenceKind::Gains, 2)]);
        let one = rehearsed.trial.differences.iter().find(|one| one.packet.at == at(1, 3)).expect("a difference");
        assert_eq!((one.packet.from, one.packet.to), (A, B));
        assert!(one.packet.summary.starts_with("udp 10.0.0.10:1000 > 10.0.0.11:"), "{}", one.packet);
        reload_as_rehearsed(&mut sim, &list(&[22, 443], ""), true).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 443)), []);
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 1);
        reload_as_rehearsed(&mut sim, &list(&[22, 80], ""), true).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_rehearsal_knows_the_labels_of_new_routes() {
    for (shards, version) in [(1, Version::Of13), (2, Version::Of13), (4, Version::Of13), (2, Version::Of10)] {
        let mut sim = decided(&list(&[], ""), shards, version);
        let policy = list(&[], "cost");
        let rehearsed = reload_as_rehearsed(&mut sim, &policy, true).unwrap_or_else(|error| panic!("{error}"));
        assert!(kinds(&rehearsed).iter().any(|(kind, _)| *kind == DifferenceKind::Moves), "{rehearsed:?}");
        let moved = rehearsed.trial.differences.iter().find(|one| one.packet.at == at(1, 3)).expect("it moves");
        let way = |places: &[(u64, u32)]| {
            let shown: Vec<String> = places.iter().map(|(switch, port)| at(*switch, *port).to_string()).collect();
            shown.join(", ")
        };
        assert_eq!(moved.before.route, way(&[(1, 2), (2, 3)]));
        assert_eq!(moved.after.route, way(&[(1, 1), (4, 1), (3, 1), (2, 3)]));
        assert!(rehearsed.rules.len() == 4, "all switches get rules: {rehearsed:?}");
        assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)).len(), 1);
        reload_as_rehearsed(&mut sim, &list(&[], ""), true).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Returns the rules for packets that enter at switch 1, without the numbers of leaves, labels and routes.
fn ingress_rules(sim: &mut SimNetwork) -> Vec<String> {
    let flows = sim.switch(Dpid(1)).map(|switch| switch.flows()).unwrap_or_default();
    let ingress = flows.iter().filter(|flow| flow.table_id == 1);
    let drops = |flow: &ReportedRule| flow.instructions.is_empty();
    let mut all: Vec<String> =
        ingress.map(|flow| format!("{} {:?} drops: {}", flow.priority, flow.matching, drops(flow))).collect();
    all.sort();
    all
}

#[test]
fn a_policy_that_returns_has_its_rules_again() {
    let mut random = Choices::new(5);
    for _ in 0..20 {
        let mut ports = || -> Vec<u16> { (0..random.below(6)).map(|_| 1 + random.below(12) as u16).collect() };
        let (first, second) = (ports(), ports());
        let first = list(Box::leak(first.into_boxed_slice()), "");
        let mut sim = decided(&first, 2, Version::Of13);
        for port in 1..14 {
            send(&mut sim, at(1, 3), udp(A, B, port));
        }
        // The first reload removes barrier rules that have become redundant.
        sim.reload(Arc::clone(&first));
        sim.run_for(Duration::from_secs(6));
        let before = ingress_rules(&mut sim);
        let drop: Arc<dyn Policy> = Arc::new(|_: &PacketHandle, _: &Net| Route::drop());
        for other in [list(Box::leak(second.into_boxed_slice()), "cost"), drop] {
            sim.reload(other);
            sim.run_for(Duration::from_secs(6));
            sim.reload(Arc::clone(&first));
            sim.run_for(Duration::from_secs(6));
            assert_eq!(ingress_rules(&mut sim), before);
        }
    }
}

#[test]
fn a_canary_decides_what_enters_at_its_switches() {
    // The old policy asks for no port, so the first packets, to port 22, are the witness packets.
    let (old, new) = (list(&[], ""), list(&[22], ""));
    let mut sim = decided(&old, 2, Version::Of13);
    let canary: Arc<dyn Policy> = Arc::new(Canary::new(Arc::clone(&old), Arc::clone(&new), [Dpid(1)]));
    let rehearsed = reload_as_rehearsed(&mut sim, &canary, true).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(kinds(&rehearsed), [(DifferenceKind::Loses, 1)]);
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 22)), []);
    assert_eq!(send(&mut sim, at(2, 3), udp(B, A, 22)).len(), 1);
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 443)).len(), 1);
    let rehearsed = reload_as_rehearsed(&mut sim, &new, true).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(kinds(&rehearsed), [(DifferenceKind::Loses, 1)], "the rest");
    assert_eq!(send(&mut sim, at(2, 3), udp(B, A, 22)), []);
}

#[test]
fn a_rehearsal_sees_a_label_go_that_a_forgotten_switch_held() {
    const C: Mac = Mac([0, 0, 0, 0, 0, 0xc]);
    for shards in [1, 2] {
        let mut sim = ring(list(&[], ""), 5, shards, Version::Of13);
        for (from, to, place) in [(B, A, at(3, 3)), (A, B, at(1, 3)), (C, B, at(4, 3))] {
            sim.place_host(from, place);
            send(&mut sim, place, udp(from, to, 80));
        }
        // Routes from switches 1 and 4 share a label at switch 3. Of what 4 held, nothing can be confirmed.
        sim.disconnect(Dpid(4));
        sim.run_for(Duration::from_secs(3));
        let drop: Arc<dyn Policy> = Arc::new(|_: &PacketHandle, _: &Net| Route::drop());
        let rehearsed = reload_at_once_as_rehearsed(&mut sim, &drop, true).unwrap_or_else(|error| panic!("{error}"));
        let of_labels =
            rehearsed.rules[&Dpid(3)].iter().filter_map(|one| one.sides().0).filter(|rule| rule.table_id == 2);
        assert_eq!(of_labels.filter(|rule| rule.rule.priority > 0).count(), 1, "{rehearsed:?}");
    }
}
