//! What is sent and in which order, and what a refusal or a lost rule leads to.

use maple_wire::msg::FlowModCommand;
use maple_wire::{Field, Match};

use super::*;
use crate::forwarding::to_controller;

fn rule(priority: u16, dst: u128) -> Rule {
    let matching = Match::any().exact(Field::EthDst, dst);
    Rule { priority, matching, instructions: to_controller().into(), cookie: 7 }
}

/// The messages in order: a flow-mod as its table and command, a barrier request as `None`.
fn shown(requests: &Requests) -> Vec<Option<(u8, FlowModCommand)>> {
    let shown = |(_, message): &(u32, Message)| match message {
        Message::FlowMod(flow_mod) => Some((flow_mod.table_id, flow_mod.command)),
        _ => None,
    };
    requests.iter().map(shown).collect()
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

/// Tables with one rule, in table 1.
fn tables() -> Tables {
    let mut tables = Tables::new(100);
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
    assert_eq!(shown(&first), [Some((1, FlowModCommand::Add)), None]);
    assert!(update(&mut tables, Some(Waiter::Barriers(2)), vec![]).is_empty(), "changes recorded meanwhile wait");
    let confirmed = tables.confirm(first[1].0);
    assert_eq!(confirmed, Some(Confirmed { waiters: vec![], has_second_step: true }));
    let second = update(&mut tables, None, vec![]);
    assert_eq!(shown(&second), [Some((1, FlowModCommand::DeleteStrict)), None, None]);
    let waiters = |tables: &mut Tables, at: usize| tables.confirm(second[at].0).map(|confirmed| confirmed.waiters);
    assert_eq!(waiters(&mut tables, 1), Some(vec![Waiter::Barriers(1)]));
    assert_eq!(waiters(&mut tables, 2), Some(vec![Waiter::Barriers(2)]));
    assert!(!tables.is_unconfirmed());
}

#[test]
fn a_barrier_reply_does_not_confirm_a_refused_rule() {
    let mut tables = tables();
    let sent = update(&mut tables, Some(Waiter::Barriers(1)), vec![Change::Add(rule(2, 2))]);
    assert_eq!(tables.refuse(sent[0].0), Some((1, rule(2, 2))));
    assert_eq!(tables.refuse(sent[0].0), None, "repeated refusals have no effect");
    assert!(tables.begin_reread() && !tables.begin_reread());
    assert_eq!(tables.confirm(sent[1].0).map(|confirmed| confirmed.waiters), Some(vec![]));
    tables.read([(1, rule(1, 1))].into_iter());
    tables.compare_all(2, BTreeMap::from([(1, vec![rule(1, 1)])]));
    let sent = update(&mut tables, None, vec![]);
    assert_eq!(tables.confirm(sent[0].0).map(|confirmed| confirmed.waiters), Some(vec![Waiter::Barriers(1)]));
}

#[test]
fn a_rule_that_the_switch_lost_is_sent_again() {
    let mut tables = tables();
    let key = key_of(&rule(1, 1));
    assert!(!tables.is_lost(Time(1), 1, 8, key.clone()), "another cookie");
    assert!(tables.is_lost(Time(1), 1, 7, key.clone()) && !tables.is_synchronised());
    tables.compare_all(2, BTreeMap::from([(1, vec![rule(1, 1)])]));
    assert_eq!(shown(&update(&mut tables, None, vec![])), [Some((1, FlowModCommand::Add)), None]);
    update(&mut tables, None, vec![Change::Delete(rule(1, 1))]);
    assert!(!tables.is_lost(Time(2), 1, 7, key), "we deleted it");
}
