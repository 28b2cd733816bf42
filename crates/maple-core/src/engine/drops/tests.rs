//! The bounds of what is kept of drops.

use maple_wire::Constraint;
use maple_wire::msg::NO_BUFFER;

use super::*;
use crate::network::Location;
use crate::trace::Source;
use crate::update::entry_key;

fn line(number: u32) -> DropCause {
    DropCause::Policy(Arc::new(Origin { line: Some(Source::new("policy.py", number)), constraint: None }))
}

fn count(drops: &mut Drops, minute: u64, port: u32, host: u64) {
    let sender = (Some(PortNo(port)), Some(Mac::from_bits(u128::from(host))));
    drops.count(Time(minute * MINUTE), sender, line(3), 1, || "a packet".into());
}

fn of_last(drops: &Drops, minute: u64, minutes: u64) -> Vec<(Option<u32>, u64, u64)> {
    let all = drops.of_last(Time(minute * MINUTE), Dpid(1), minutes);
    all.iter().map(|one| (one.port.map(|port| port.0), one.packets, one.latest)).collect()
}

#[test]
fn one_port_cannot_push_out_what_is_known_of_another() {
    let mut drops = Drops::default();
    count(&mut drops, 1, 2, 7);
    (0..10_000).for_each(|host| count(&mut drops, 1, 1, host));
    let all = drops.of_last(Time(MINUTE), Dpid(1), 1);
    let (others, at_port): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.cause == DropCause::Others);
    assert_eq!(at_port.iter().filter(|one| one.port == Some(PortNo(1))).count(), MAX_AT_PORT);
    assert_eq!(at_port.iter().filter(|one| one.port == Some(PortNo(2))).count(), 1);
    assert_eq!(others.len(), 1);
    assert_eq!((others[0].port, others[0].packets), (Some(PortNo(1)), 10_000 - MAX_AT_PORT as u64));
    assert_eq!(all.iter().map(|one| one.packets).sum::<u64>(), 10_001, "none is lost");
}

#[test]
fn minutes_pass_and_are_forgotten() {
    let mut drops = Drops::default();
    [1, 1, 3, 4].into_iter().for_each(|minute| count(&mut drops, minute, 1, 7));
    assert_eq!(of_last(&drops, 4, 1), [(Some(1), 1, 1)]);
    assert_eq!(of_last(&drops, 4, 3), [(Some(1), 2, 2)]);
    assert_eq!(of_last(&drops, 4, 15), [(Some(1), 4, 2)]);
    assert_eq!(of_last(&drops, 9, 15), [(Some(1), 4, 0)]);
    assert_eq!(of_last(&drops, 30, 15), []);
    count(&mut drops, 30, 1, 7);
    assert_eq!(drops.minutes.len(), 1);
}

fn leaf() -> DropLeaf {
    let at = Location::new(Dpid(1), PortNo(3));
    let witness = ReceivedPacket { frame: [0; 14].into(), total_len: 14, buffer_id: NO_BUFFER, at };
    DropLeaf { origin: Arc::default(), witness }
}

/// A rule for this host reports its counter.
fn read(drops: &mut Drops, host: u64, packets: u64, change: impl FnOnce(RuleReport<'_>) -> RuleReport<'_>) {
    let matching = Match::from_constraints([Constraint::exact(Field::EthSrc, u128::from(host))]);
    let key = entry_key(100, &matching);
    let report =
        RuleReport { table: 1, key: &key, matching: &matching, packets, is_removed: false, from_earlier: false };
    drops.read_leaf(Time(MINUTE), &leaf(), change(report));
}

fn sum(drops: &Drops) -> u64 {
    of_last(drops, 1, 1).iter().map(|(_, packets, _)| packets).sum()
}

#[test]
fn a_rule_counts_what_its_counter_has_grown_by() {
    let mut drops = Drops::default();
    read(&mut drops, 2, 5, |rule| rule);
    read(&mut drops, 2, 8, |rule| rule);
    assert_eq!(of_last(&drops, 1, 1), [(Some(3), 8, 8)]);
    // It is deleted, and added again, without being read in between.
    read(&mut drops, 2, 9, |rule| RuleReport { is_removed: true, ..rule });
    read(&mut drops, 2, 1, |rule| rule);
    assert_eq!(sum(&drops), 10);
    // In OpenFlow 1.0 a switch does not say that it is deleted.
    read(&mut drops, 2, 0, |rule| rule);
    read(&mut drops, 2, 4, |rule| rule);
    assert_eq!(sum(&drops), 14);
}

#[test]
fn what_a_rule_has_counted_for_something_else_is_no_drop() {
    let mut drops = Drops::default();
    read(&mut drops, 2, 100, |rule| RuleReport { from_earlier: true, ..rule });
    assert_eq!(sum(&drops), 0, "from before this run");
    read(&mut drops, 2, 103, |rule| RuleReport { from_earlier: true, ..rule });
    assert_eq!(sum(&drops), 3);
    let matching = Match::from_constraints([Constraint::exact(Field::EthSrc, 9)]);
    drops.begin_again([place(1, &entry_key(100, &matching))]);
    // A reading that was on its way ends.
    drops.end_reading();
    read(&mut drops, 9, 50, |rule| rule);
    read(&mut drops, 9, 52, |rule| rule);
    assert_eq!(sum(&drops), 5);
    (0..3).for_each(|_| drops.end_reading());
    assert!(drops.rules.is_empty() && drops.unread.is_empty(), "gone");
}

#[test]
fn rules_and_withdrawn_leaves_are_bounded() {
    let mut drops = Drops::default();
    for host in 0..MAX_RULES as u64 + 10 {
        read(&mut drops, host, 1, |rule| rule);
    }
    assert_eq!(drops.rules.len(), MAX_RULES);
    let before = sum(&drops);
    read(&mut drops, MAX_RULES as u64 + 5, 1, |rule| rule);
    assert_eq!(sum(&drops), before, "not counted again and again");
    (0..MAX_WITHDRAWN as u64 + 10).for_each(|id| drops.withdraw(LeafId(id), leaf()));
    assert_eq!((drops.withdrawn.len(), drops.withdrawn_order.len()), (MAX_WITHDRAWN, MAX_WITHDRAWN));
    assert!(drops.withdrawn(LeafId(9)).is_none() && drops.withdrawn(LeafId(10)).is_some());
}
