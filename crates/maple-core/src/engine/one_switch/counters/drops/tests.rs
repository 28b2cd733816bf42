//! Tests of the bounds of what is kept of drops.

use super::*;
use crate::trace::Source;

fn line(number: u32) -> DropCause {
    DropCause::Policy(Arc::new(Origin { line: Some(Source::new("policy.py", number)), constraint: None }))
}

fn count(drops: &mut Drops, minute: u64, port: u32, host: u64) {
    let sender = (Some(PortNo(port)), Some(Mac::from_bits(u128::from(host))));
    drops.count(Time(minute * MINUTE), sender.0, sender.1, line(3), 1, || "a packet".into());
}

fn of_last(drops: &Drops, minute: u64, minutes: u64) -> Vec<(Option<u32>, u64, u64)> {
    let all = drops.of_last(Time(minute * MINUTE), Dpid(1), minutes);
    all.iter().map(|one| (one.port.map(|port| port.0), one.packets, one.latest)).collect()
}

#[test]
fn one_port_cannot_push_out_the_drops_of_another() {
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

#[test]
fn minutes_are_reported_one_by_one() {
    let mut drops = Drops::default();
    [1, 1, 3, 4].into_iter().for_each(|minute| count(&mut drops, minute, 1, 7));
    let packets = |minutes| drops.of_minutes(Dpid(1), minutes).iter().map(|one| one.packets).sum::<u64>();
    assert_eq!([packets(0..1), packets(1..2), packets(2..3), packets(3..5), packets(0..9)], [0, 2, 0, 2, 4]);
}
