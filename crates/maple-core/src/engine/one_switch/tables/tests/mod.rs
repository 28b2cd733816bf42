//! Tests what is sent and in which order, and what a refusal or a lost rule leads to.

mod full_switch;

use maple_wire::msg::{BundleControl, FlowModCommand};
use maple_wire::{Field, Match};

use super::*;
use crate::forwarding::to_controller;

fn rule(priority: u16, dst: u128) -> Rule {
    let matching = Match::any().exact(Field::EthDst, dst);
    Rule { priority, matching, instructions: to_controller().into(), cookie: 7 }
}

/// Returns the messages in order: a flow-mod as its table and command; a barrier request as `None`.
fn sent_text(requests: &Requests) -> Vec<Option<(u8, FlowModCommand)>> {
    let shown = |(_, message): &(u32, Message)| match message {
        Message::FlowMod(flow_mod) => Some((flow_mod.table_id, flow_mod.command)),
        _ => None,
    };
    requests.iter().map(shown).collect()
}

/// Returns the requests about bundles, in order: the kind of a request, or `None` for a message that is added.
fn bundled(requests: &Requests) -> Vec<Option<u16>> {
    let bundled = |(_, message): &(u32, Message)| match message {
        Message::BundleControl(control) => Some(Some(control.kind)),
        Message::BundleAdd(_) => Some(None),
        _ => None,
    };
    requests.iter().filter_map(bundled).collect()
}

fn update(tables: &mut Tables, waiter: Option<Waiter>, changes: Vec<Change>) -> Requests {
    let mut out = Requests::new();
    tables.record_changes(1, changes);
    waiter.into_iter().for_each(|waiter| tables.wait(waiter));
    if tables.begin_update(Time(1), &mut out) {
        tables.send_update(Time(1), Some(0), &mut out);
    }
    out
}

/// Creates tables with one rule, in table 1.
fn tables() -> Tables {
    tables_with(false)
}

fn tables_with(bundles: bool) -> Tables {
    let mut tables = Tables::new(100, Version::Of13, bundles);
    assert!(!tables.begin_update(Time(1), &mut Requests::new()), "the rules of the switch are not known");
    tables.read([(1, rule(1, 1))].into_iter());
    tables.compare_all(2, BTreeMap::from([(1, vec![rule(1, 1)])]));
    tables
}

#[test]
fn additions_are_confirmed_before_the_rest_of_an_update_is_sent() {
    let mut tables = tables();
    let (add, delete) = (Change::Add(rule(2, 2)), Change::Delete(rule(1, 1)));
    let first = update(&mut tables, Some(Waiter::Barriers(1)), vec![add, delete]);
    assert_eq!(sent_text(&first), [Some((1, FlowModCommand::Add)), None]);
    assert!(update(&mut tables, Some(Waiter::Barriers(2)), vec![]).is_empty(), "changes recorded meanwhile wait");
    let confirmed = tables.on_barrier_reply(first[1].0);
    assert_eq!(confirmed, Some(ConfirmedRequests { waiters: vec![], has_second_step: true }));
    let second = update(&mut tables, None, vec![]);
    assert_eq!(sent_text(&second), [Some((1, FlowModCommand::Delete)), None, None]);
    let waiters =
        |tables: &mut Tables, at: usize| tables.on_barrier_reply(second[at].0).map(|confirmed| confirmed.waiters);
    assert_eq!(waiters(&mut tables, 1), Some(vec![Waiter::Barriers(1)]));
    assert_eq!(waiters(&mut tables, 2), Some(vec![Waiter::Barriers(2)]));
    assert!(!tables.is_unconfirmed());
}

#[test]
fn the_table_miss_rule_of_the_first_table_is_sent_before_all_and_its_other_rules_after_all() {
    let miss = Rule { matching: Match::any(), ..rule(0, 0) };
    for last_table in [Some(0), None] {
        let mut tables = tables();
        tables.record_changes(0, vec![Change::Add(rule(5, 5)), Change::Add(miss.clone())]);
        tables.record_changes(1, vec![Change::Add(rule(2, 2)), Change::Add(miss.clone())]);
        let mut out = Requests::new();
        assert!(tables.begin_update(Time(1), &mut out));
        tables.send_update(Time(1), last_table, &mut out);
        let sent = out.iter().filter_map(|(_, message)| match message {
            Message::FlowMod(flow_mod) => Some((flow_mod.table_id, flow_mod.priority)),
            _ => None,
        });
        assert_eq!(sent.collect::<Vec<_>>(), [(0, 0), (1, 2), (1, 0), (0, 5)], "{last_table:?}");
    }
}

#[test]
fn an_update_waits_for_earlier_additions_it_relies_on() {
    let mut tables = tables();
    let first = update(&mut tables, None, vec![Change::Add(rule(2, 2))]);
    let waiting = update(&mut tables, Some(Waiter::Barriers(1)), vec![Change::Delete(rule(1, 1))]);
    assert_eq!(sent_text(&waiting), [None], "the addition may be refused");
    assert_eq!(tables.on_refused(first[0].0, false), Some(RefusedRequest::Rule(1, rule(2, 2))));
    assert!(tables.begin_reread(&mut Requests::new()));
    assert!(update(&mut tables, None, vec![]).is_empty(), "so nothing is deleted before the rules were read");

    let mut tables = self::tables();
    let first = update(&mut tables, None, vec![Change::Add(rule(2, 2))]);
    let waiting = update(&mut tables, None, vec![Change::Delete(rule(1, 1))]);
    [first[1].0, waiting[0].0].into_iter().for_each(|xid| drop(tables.on_barrier_reply(xid)));
    assert_eq!(sent_text(&update(&mut tables, None, vec![]))[0], Some((1, FlowModCommand::DeleteStrict)));
}

#[test]
fn a_barrier_reply_does_not_confirm_a_refused_rule() {
    let mut tables = tables();
    let sent = update(&mut tables, Some(Waiter::Barriers(1)), vec![Change::Add(rule(2, 2))]);
    assert_eq!(tables.on_refused(sent[0].0, false), Some(RefusedRequest::Rule(1, rule(2, 2))));
    assert_eq!(tables.on_refused(sent[0].0, false), None, "repeated refusals have no effect");
    let mut out = Requests::new();
    assert!(tables.begin_reread(&mut out) && !tables.begin_reread(&mut out) && out.is_empty());
    assert_eq!(tables.on_barrier_reply(sent[1].0).map(|confirmed| confirmed.waiters), Some(vec![]));
    tables.read([(1, rule(1, 1))].into_iter());
    tables.compare_all(2, BTreeMap::from([(1, vec![rule(1, 1)])]));
    let sent = update(&mut tables, None, vec![]);
    assert_eq!(tables.on_barrier_reply(sent[0].0).map(|confirmed| confirmed.waiters), Some(vec![Waiter::Barriers(1)]));
}

#[test]
fn a_rule_that_the_switch_lost_is_sent_again() {
    let mut tables = tables();
    let key = key_of(&rule(1, 1));
    assert!(!tables.on_rule_removed(Time(1), 1, 8, key.clone()), "another cookie");
    assert!(tables.on_rule_removed(Time(1), 1, 7, key.clone()) && !tables.is_synchronised());
    tables.compare_all(2, BTreeMap::from([(1, vec![rule(1, 1)])]));
    let sent = update(&mut tables, None, vec![]);
    assert_eq!(sent_text(&sent), [Some((1, FlowModCommand::Add)), None]);
    tables.on_barrier_reply(sent[1].0);
    update(&mut tables, None, vec![Change::Delete(rule(1, 1))]);
    assert!(!tables.on_rule_removed(Time(2), 1, 7, key), "we deleted it");
}

#[test]
fn a_removal_that_was_not_reported_before_the_connection_ended_explains_none_after_it() {
    let mut tables = tables();
    let sent = update(&mut tables, None, vec![Change::Delete(rule(1, 1))]);
    sent.iter().for_each(|(xid, _)| drop(tables.on_barrier_reply(*xid)));
    // The switch's report is lost with the connection. Then the switch gets the rule again, and loses it.
    tables.suspend();
    tables.resume();
    tables.read(std::iter::empty());
    tables.compare_all(2, BTreeMap::from([(1, vec![rule(1, 1)])]));
    assert_eq!(sent_text(&update(&mut tables, None, vec![])), [Some((1, FlowModCommand::Add)), None]);
    assert!(tables.on_rule_removed(Time(2), 1, 7, key_of(&rule(1, 1))));
}

/// Begins an update of two changes as a bundle that is not confirmed. Returns its messages.
fn prepared(tables: &mut Tables) -> Requests {
    let (add, delete) = (Change::Add(rule(2, 2)), Change::Delete(rule(1, 1)));
    let sent = update(tables, Some(Waiter::Barriers(1)), vec![add, delete]);
    assert_eq!(bundled(&sent), [Some(BundleControl::OPEN), None, None]);
    assert_eq!((sent_text(&sent), tables.count(None)), (vec![None; 4], 1), "nothing is made yet");
    sent
}

#[test]
fn different_changes_are_a_bundle_that_is_committed_when_the_switch_has_all_of_it() {
    let mut tables = tables_with(true);
    let first = prepared(&mut tables);
    assert!(update(&mut tables, None, vec![]).is_empty(), "changes recorded meanwhile wait");
    assert_eq!(tables.on_barrier_reply(first[3].0), Some(ConfirmedRequests { waiters: vec![], has_second_step: true }));
    let second = update(&mut tables, None, vec![Change::Add(rule(3, 3))]);
    assert_eq!(bundled(&second), [Some(BundleControl::COMMIT)]);
    assert_eq!(sent_text(&second), [None, None, Some((1, FlowModCommand::Add)), None]);
    let confirmed = tables.on_barrier_reply(second[1].0).map(|confirmed| confirmed.waiters);
    assert_eq!((confirmed, tables.count(None)), (Some(vec![Waiter::Barriers(1)]), 2));
}

#[test]
fn changes_of_one_kind_are_a_bundle_only_while_an_addition_is_not_confirmed() {
    let mut tables = tables_with(true);
    let delete = || vec![Change::Delete(rule(1, 1))];
    let sent = update(&mut tables, None, vec![Change::Add(rule(2, 2))]);
    assert_eq!((bundled(&sent), bundled(&update(&mut tables, None, delete()))), (vec![], vec![Some(0), None]));
    let mut tables = tables_with(true);
    let sent = update(&mut tables, None, vec![Change::Add(rule(2, 2))]);
    tables.on_barrier_reply(sent[1].0);
    assert_eq!(sent_text(&update(&mut tables, None, delete())), [Some((1, FlowModCommand::DeleteStrict)), None]);
}

#[test]
fn a_change_refused_at_the_commit_leaves_everything_as_it_was() {
    let mut tables = tables_with(true);
    let first = prepared(&mut tables);
    tables.on_barrier_reply(first[3].0);
    let second = update(&mut tables, None, vec![]);
    assert_eq!(tables.on_refused(first[1].0, false), Some(RefusedRequest::Rule(1, rule(2, 2))));
    let mut out = Requests::new();
    assert!(tables.begin_reread(&mut out) && out.is_empty());
    assert_eq!(tables.on_refused(second[0].0, true), None, "the commit failed for that reason");
    assert_eq!(tables.on_barrier_reply(second[1].0).map(|confirmed| confirmed.waiters), Some(vec![]));
    tables.read([(1, rule(1, 1))].into_iter());
    tables.compare_all(2, BTreeMap::from([(1, vec![rule(1, 1)])]));
    let sent = update(&mut tables, None, vec![]);
    assert_eq!(tables.on_barrier_reply(sent[0].0).map(|confirmed| confirmed.waiters), Some(vec![Waiter::Barriers(1)]));
}

#[test]
fn a_bundle_without_one_of_its_changes_is_discarded() {
    let mut tables = tables_with(true);
    let first = prepared(&mut tables);
    assert_eq!(tables.on_refused(first[2].0, false), Some(RefusedRequest::Deletion(1, rule(1, 1))));
    let mut out = Requests::new();
    assert!(tables.begin_reread(&mut out));
    assert_eq!(bundled(&out), [Some(BundleControl::DISCARD)]);
    let confirmed = tables.on_barrier_reply(first[3].0);
    assert_eq!(confirmed, Some(ConfirmedRequests { waiters: vec![], has_second_step: false }));
}

/// Returns the deletions that follow when a switch reports a rule for everything and two others, all with one cookie,
/// and is to have some of them: command, priority, cookie and its mask.
fn deletions(version: Version, wanted: &[Rule]) -> Vec<(FlowModCommand, u16, u64, u64)> {
    let everything = Rule { matching: Match::any(), ..rule(1, 0) };
    let mut tables = Tables::new(100, version, false);
    tables.read([everything, rule(2, 2), rule(3, 3)].into_iter().map(|rule| (1, rule)));
    tables.compare_all(2, BTreeMap::from([(1, wanted.to_vec())]));
    let deletion = |(_, message): &(u32, Message)| match message {
        Message::FlowMod(sent) => Some((sent.command, sent.priority, sent.cookie, sent.cookie_mask)),
        _ => None,
    };
    update(&mut tables, None, vec![]).iter().filter_map(deletion).collect()
}

#[test]
fn a_rule_that_was_read_is_deleted_by_cookie_and_takes_no_other_one_before_its_turn() {
    use FlowModCommand::{Delete, DeleteStrict};
    let everything = Rule { matching: Match::any(), ..rule(1, 0) };
    let by_cookie = |priority| (Delete, priority, 7, u64::MAX);
    assert_eq!(deletions(Version::Of13, &[everything, rule(3, 3)]), [by_cookie(2)]);
    assert_eq!(deletions(Version::Of13, &[rule(3, 3)]), [(DeleteStrict, 1, 7, 0), by_cookie(2)], "one is to stay");
    let all = [(DeleteStrict, 1, 7, 0), by_cookie(2), by_cookie(3), by_cookie(1)];
    assert_eq!(deletions(Version::Of13, &[]), all, "others have their turn first");
    let strict = [1, 2, 3].map(|priority| (DeleteStrict, priority, 7, 0));
    assert_eq!(deletions(Version::Of10, &[]), strict, "1.0 cannot select by cookie");
}

#[test]
fn a_switch_that_refuses_a_bundle_gets_two_steps_from_then_on() {
    for at in [0, 1] {
        let mut tables = tables_with(true);
        let first = prepared(&mut tables);
        assert_eq!(tables.on_refused(first[at].0, true), Some(RefusedRequest::Bundle));
        assert!(tables.begin_reread(&mut Requests::new()));
        tables.read([(1, rule(1, 1))].into_iter());
        tables.compare_all(2, BTreeMap::from([(1, vec![rule(2, 2)])]));
        let sent = update(&mut tables, None, vec![]);
        assert_eq!(sent_text(&sent), [Some((1, FlowModCommand::Add)), None]);
    }
}
