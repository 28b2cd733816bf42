//! Tests of routes that leaves share: which labels they ask for, and when leaves can be installed.

use maple_wire::{Instruction, PortNo, Version};

use super::requests::MAX_RETRY;
use super::*;
use crate::compile::LeafAction;
use crate::labels::{Acquire, Carriage, Holder, News};
use crate::network::Location;
use crate::route::{Goal, SwitchHops};
use crate::route_plan::RoutePlan;

/// Creates a route from switch 1 over a link to a port of switch 2.
fn route() -> Arc<Resolved> {
    route_to(PortNo(3))
}

fn route_to(edge: PortNo) -> Arc<Resolved> {
    let far = Location::new(Dpid(2), PortNo(1));
    let first = SwitchHops { links: [(PortNo(2), far)].into(), ..SwitchHops::default() };
    let last = SwitchHops { arrives: Some(PortNo(1)), edges: [edge].into(), ..SwitchHops::default() };
    Arc::new(Resolved { switches: [(Dpid(1), first), (Dpid(2), last)].into(), ..Resolved::default() })
}

fn key(route: &Arc<Resolved>) -> RouteKey {
    let goal = Goal::Fixed(Arc::clone(route));
    RouteKey { ingress: Dpid(1), version: Version::Of13, goal, carriage: Carriage::default() }
}

/// An ingress with a table of routes.
const WITH_TABLE: AtIngress = with_table(1);

/// Creates the means of an ingress where a route has a rule as soon as at least `min_leaves` leaves use it.
const fn with_table(min_leaves: usize) -> AtIngress {
    AtIngress { route_table: Some(3), meter: None, rule_condition: RuleCondition { min_leaves, had_rule: false } }
}

/// Removes the last request and returns its serial number and port.
fn asked(out: &mut Vec<LabelEffect>) -> (u64, PortNo) {
    match out.pop() {
        Some(LabelEffect::Ask(Acquire { holder: Holder::Route { serial, port, .. }, .. })) => (serial, port),
        other => panic!("expected a request for a label: {other:?}"),
    }
}

fn make_ready(routes: &mut Routes, (serial, port): (u64, PortNo), out: &mut Vec<LabelEffect>) -> Option<RouteNews> {
    routes.learn(serial, port, &News::Allocated(7), Time(1), out);
    routes.learn(serial, port, &News::Ready, Time(1), out)
}

fn is_release(effect: &LabelEffect) -> bool {
    matches!(effect, LabelEffect::Release { .. })
}

#[test]
fn labels_are_released_when_no_rule_leads_along_the_route() {
    let mut routes = Routes::new(ShardId(0));
    let mut out = Vec::new();
    let id = routes.create(Some(LeafId(1)), key(&route()), &route(), None, WITH_TABLE, &mut out);
    assert_eq!(routes.join(LeafId(2), &key(&route())), Some(id), "equal routes");
    let asked = asked(&mut out);
    assert!(out.is_empty());
    routes.wait(id, LeafId(1));
    assert_eq!(make_ready(&mut routes, asked, &mut out), Some(RouteNews::Ready(id, [LeafId(1)].into())));
    routes.begin_use(id, LeafId(1));
    // Both leave, one of them while its rule is being deleted.
    [1, 2].into_iter().for_each(|_| routes.leave(id, true, &mut out));
    assert!(!out.iter().any(is_release) && routes.len() == 1);
    routes.end_use(id, Time(2), false, &mut out);
    assert!(matches!(out[..], [LabelEffect::Release { confirmed: false, .. }]), "{out:?}");
    assert_eq!(routes.len(), 0);
}

#[test]
fn a_route_with_a_refused_label_asks_again_when_it_is_unused_and_time_has_passed() {
    let mut routes = Routes::new(ShardId(0));
    let mut out = Vec::new();
    let id = routes.create(Some(LeafId(1)), key(&route()), &route(), None, WITH_TABLE, &mut out);
    let (serial, port) = asked(&mut out);
    routes.begin_use(id, LeafId(1));
    let refused = routes.learn(serial, port, &News::Refused(Refusal::NoLabel(Dpid(2))), Time(1), &mut out);
    assert_eq!(refused, Some(RouteNews::Refused(id, Refusal::NoLabel(Dpid(2)))));
    let later = Time(1) + MAX_RETRY;
    routes.retry(later, &mut out);
    assert!(out.is_empty(), "a rule may still lead along the route");
    routes.end_use(id, Time(2), true, &mut out);
    assert!(out.iter().any(is_release));
    out.clear();
    routes.retry(Time(3), &mut out);
    assert!(out.is_empty(), "it is too early");
    routes.retry(later, &mut out);
    assert!(matches!(out[..], [LabelEffect::Ask(_)]));
}

#[test]
fn rules_of_keys_that_may_still_lead_along_a_route_count_for_no_rule_of_its_own() {
    let mut routes = Routes::new(ShardId(0));
    let mut out = Vec::new();
    let id = routes.create(None, key(&route()), &route(), Some(DependentId(9)), with_table(2), &mut out);
    let asked = asked(&mut out);
    make_ready(&mut routes, asked, &mut out);
    routes.begin_way(id);
    assert!(routes.end_way(id, false), "the switch has not confirmed it");
    assert_eq!(routes.join(LeafId(1), &key(&route())), Some(id));
    routes.begin_use(id, LeafId(1));
    let has_rule = |routes: &Routes| routes.get(id).is_some_and(|route| route.rule(|_| 0).is_some());
    assert!(!has_rule(&routes), "one leaf uses it");
    routes.end_key_use(id);
    routes.end_use(id, Time(2), true, &mut out);
    routes.leave(id, true, &mut out);
    assert!(!has_rule(&routes));
    assert_eq!(routes.join(LeafId(2), &key(&route())), Some(id));
    assert_eq!(routes.begin_use(id, LeafId(2)), [LeafId(1)].into());
    assert!(has_rule(&routes), "two do");
}

/// Creates a route with a leaf's rule, whose plan has just resolved to something else.
fn changing(out: &mut Vec<LabelEffect>) -> (Routes, RouteId, (u64, PortNo)) {
    let mut routes = Routes::new(ShardId(0));
    let id = routes.create(Some(LeafId(1)), key(&route()), &route(), Some(DependentId(9)), WITH_TABLE, out);
    let first = asked(out);
    make_ready(&mut routes, first, out);
    routes.begin_use(id, LeafId(1));
    assert_eq!(routes.on_plan_resolved(id, &route_to(PortNo(4)), Time(5), out), PlanChange::Asking);
    let second = asked(out);
    assert!(out.is_empty() && first != second);
    (routes, id, second)
}

#[test]
fn a_route_holds_the_labels_of_both_paths_until_rules_have_changed() {
    let mut out = Vec::new();
    let (mut routes, id, second) = changing(&mut out);
    let number = |routes: &Routes| routes.get(id).and_then(|route| route.metadata);
    let metadata = number(&routes);
    assert!(metadata.is_some());
    assert_eq!(routes.join(LeafId(2), &key(&route())), Some(id));
    assert!(!routes.get(id).is_some_and(SharedRoute::is_ready), "a leaf that joins waits for the new path");
    routes.wait(id, LeafId(2));
    assert_eq!(make_ready(&mut routes, second, &mut out), Some(RouteNews::NextReady(id)));
    routes.take_dirty();
    let Some(PathSwitch { waiting_leaves, former: Some(former), each_leaf: false }) = routes.switch_over(id) else {
        panic!("the route switches over")
    };
    assert_eq!((waiting_leaves, number(&routes)), ([LeafId(2)].into(), metadata), "the rules of leaves are unchanged");
    assert_eq!(routes.take_dirty(), [(Dpid(1), id)].into());
    assert!(out.is_empty(), "the old rule may still be there");
    routes.release_former(id, former, true, &mut out);
    assert!(matches!(out[..], [LabelEffect::Release { confirmed: true, .. }]), "{out:?}");
}

#[test]
fn a_route_gets_a_rule_once_two_leaves_with_look_ups_use_it() {
    let mut out = Vec::new();
    let mut routes = Routes::new(ShardId(0));
    let id = routes.create(Some(LeafId(1)), key(&route()), &route(), Some(DependentId(9)), with_table(2), &mut out);
    let first = asked(&mut out);
    make_ready(&mut routes, first, &mut out);
    let leads_to_table = |routes: &Routes| {
        let Some(LeafAction::Apply(instructions)) = routes.get(id).map(SharedRoute::action) else { return false };
        instructions.contains(&Instruction::GotoTable(3))
    };
    assert_eq!(routes.begin_use(id, LeafId(1)), [].into());
    assert!(!leads_to_table(&routes) && routes.take_dirty().is_empty());
    assert_eq!(routes.join(LeafId(2), &key(&route())), Some(id));
    assert_eq!(routes.begin_use(id, LeafId(2)), [LeafId(1)].into(), "the rule of the first leaf changes");
    assert!(leads_to_table(&routes) && !routes.take_dirty().is_empty());
    assert_eq!(routes.join(LeafId(3), &key(&route())), Some(id));
    assert_eq!(routes.begin_use(id, LeafId(3)), [].into(), "the others lead there already");
}

#[test]
fn a_plan_that_resolves_to_the_current_path_again_ends_the_change() {
    let mut out = Vec::new();
    let (mut routes, id, (serial, port)) = changing(&mut out);
    routes.wait(id, LeafId(2));
    assert_eq!(routes.on_plan_resolved(id, &route(), Time(6), &mut out), PlanChange::Ready([LeafId(2)].into()));
    assert!(matches!(out[..], [LabelEffect::Release { confirmed: true, .. }]), "{out:?}");
    assert!(routes.switch_over(id).is_none() && !routes.knows(serial), "{port:?}");
    assert!(!routes.abandon_next(id, Time(9), &mut out));
}

#[test]
fn a_next_path_that_is_refused_or_late_ends_the_use_of_the_route() {
    for is_late in [false, true] {
        let mut out = Vec::new();
        let (mut routes, id, (serial, port)) = changing(&mut out);
        if is_late {
            assert!(!routes.abandon_next(id, Time(4), &mut out) && routes.abandon_next(id, Time(5), &mut out));
        } else {
            let why = Refusal::NoLabel(Dpid(2));
            let refused = routes.learn(serial, port, &News::Refused(why), Time(1), &mut out);
            assert_eq!(refused, Some(RouteNews::Refused(id, why)));
        }
        assert_eq!(out.len(), 1, "the label of the new path is released: {out:?}");
        assert!(routes.get(id).is_some_and(SharedRoute::is_refused));
        routes.end_use(id, Time(6), true, &mut out);
        assert_eq!(out.iter().filter(|effect| is_release(effect)).count(), 2);
        out.clear();
        routes.retry(Time(1) + MAX_RETRY, &mut out);
        let Some(LabelEffect::Ask(again)) = out.pop() else { panic!("{out:?}") };
        assert_eq!(again.suffix.exits(), [Location::new(Dpid(2), PortNo(4))], "what the plan resolves to now");
    }
}
#[test]
fn a_plan_that_resolves_to_a_path_which_lost_a_label_asks_for_it_again() {
    let mut out = Vec::new();
    let mut routes = Routes::new(ShardId(0));
    let id = routes.create(Some(LeafId(1)), key(&route()), &route(), Some(DependentId(9)), WITH_TABLE, &mut out);
    let (serial, port) = asked(&mut out);
    make_ready(&mut routes, (serial, port), &mut out);
    routes.begin_use(id, LeafId(1));
    routes.on_plan_resolved(id, &route_to(PortNo(4)), Time(5), &mut out);
    out.clear();
    let gone = News::Refused(Refusal::Gone(Dpid(2)));
    assert_eq!(routes.learn(serial, port, &gone, Time(2), &mut out), None, "another path is to follow");
    assert_eq!(routes.on_plan_resolved(id, &route(), Time(6), &mut out), PlanChange::Asking);
    assert!(out.iter().any(|effect| matches!(effect, LabelEffect::Ask(_))), "{out:?}");
}

#[test]
fn a_path_that_lost_a_label_while_the_plan_was_resolved_to_the_same_is_asked_for_again() {
    let mut out = Vec::new();
    let mut routes = Routes::new(ShardId(0));
    let id = routes.create(Some(LeafId(1)), key(&route()), &route(), Some(DependentId(9)), WITH_TABLE, &mut out);
    let (serial, port) = asked(&mut out);
    make_ready(&mut routes, (serial, port), &mut out);
    routes.begin_use(id, LeafId(1));
    assert_eq!(routes.on_plan_resolved(id, &route(), Time(5), &mut out), PlanChange::Nothing);
    // The next switch was gone for a moment.
    let gone = Refusal::Gone(Dpid(2));
    let refused = routes.learn(serial, port, &News::Refused(gone), Time(2), &mut out);
    assert_eq!(refused, Some(RouteNews::Refused(id, gone)));
    assert_eq!(routes.on_plan_resolved(id, &route(), Time(6), &mut out), PlanChange::Asking);
    let next = asked(&mut out);
    assert_eq!(make_ready(&mut routes, next, &mut out), Some(RouteNews::NextReady(id)));
    assert!(routes.switch_over(id).is_some_and(|switch| switch.former == Some(serial)));
}

#[test]
fn the_number_of_a_route_is_the_same_in_every_build() {
    let of_plan = RouteKey { goal: Goal::Plan(RoutePlan::new(Dpid(1), Vec::new(), true, None)), ..key(&route()) };
    let numbers = [key(&route()).number(), key(&route_to(PortNo(4))).number(), of_plan.number()];
    // Rules with other numbers would be exchanged at the first start of a new release.
    assert_eq!(numbers, [7_072_028_731_063_748_315, 17_884_152_318_278_474_369, 3_332_312_845_707_415_764]);
}
