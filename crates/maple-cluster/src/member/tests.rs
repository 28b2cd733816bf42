//! One member, step by step.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn member() -> Member {
    Member::new(MemberOptions {
        cluster: "c".into(),
        name: "a".into(),
        address: None,
        lease: 6 * SECOND,
        retry: SECOND,
        step_down: 10 * SECOND,
    })
}

fn at(seconds: u64) -> Time {
    Time::from_secs(seconds)
}

fn record(key: &str, value: &str, revision: u64, lease: i64) -> Record {
    Record { key: format!("c/{key}").into(), value: value.into(), revision, lease }
}

fn read() -> Action {
    Action::Read(b"c/m".to_vec())
}

fn create(key: &str, lease: i64) -> Action {
    Action::Write { key: format!("c/{key}").into(), value: b"a".to_vec(), lease, former: 0 }
}

fn put(record: Record) -> Event {
    let revision = record.revision;
    Event::Changed(vec![Change::Put { record, revision }])
}

fn delete(key: &str, revision: u64) -> Event {
    Event::Changed(vec![Change::Delete { key: format!("c/{key}").into(), revision }])
}

/// Returns a member that has read these keys at revision 10, and has registered itself under lease 1 at second 0.
fn registered(mut records: Vec<Record>) -> (Member, Vec<Action>) {
    let mut member = member();
    assert_eq!(member.on_event(at(0), Event::Woken), [Action::Grant(6 * SECOND), read()]);
    assert_eq!(member.on_event(at(0), Event::Granted { lease: 1, good_for: 6 * SECOND }), []);
    records.retain(|record| record.key != b"c/members/a");
    let actions = member.on_event(at(0), Event::Read { records, revision: 10 });
    assert_eq!(actions, [Action::Watch { prefix: b"c/m".to_vec(), from: 11 }, create("members/a", 1)]);
    let actions =
        member.on_event(at(0), Event::Written { record: Some(record("members/a", "a", 11, 1)), revision: 11 });
    (member, actions)
}

/// Returns a member that is master in generation 12.
fn master() -> Member {
    let (mut member, actions) = registered(Vec::new());
    assert_eq!(actions, [create("master", 1)]);
    let claimed = Event::Written { record: Some(record("master", "a", 12, 1)), revision: 12 };
    assert_eq!(member.on_event(at(0), claimed), [Action::Lead(12)]);
    member
}

#[test]
fn a_member_takes_over_when_the_masters_key_is_gone() {
    let (mut member, actions) = registered(vec![record("master", "b", 7, 9), record("members/b", "b", 6, 9)]);
    assert_eq!(actions, []);
    assert_eq!(member.view().members().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(member.on_event(at(1), delete("master", 15)), [create("master", 1)]);
    // Another one was faster.
    let lost = Event::Written { record: Some(record("master", "d", 16, 4)), revision: 16 };
    assert_eq!(member.on_event(at(1), lost), []);
    assert_eq!(member.on_event(at(1), delete("master", 18)), [create("master", 1)]);
    let won = Event::Written { record: Some(record("master", "a", 19, 1)), revision: 19 };
    assert_eq!(member.on_event(at(1), won), [Action::Lead(19)]);
    // What is older changes nothing.
    assert_eq!(member.on_event(at(1), put(record("master", "d", 16, 4))), []);
    assert_eq!(member.own_generation(), Some(19));
}

#[test]
fn a_master_that_seems_to_be_gone_is_replaced_at_once() {
    let (mut member, _) = registered(vec![record("master", "b", 7, 9), record("members/b", "b", 6, 9)]);
    assert_eq!(member.on_event(at(1), Event::Suspected("d".into())), [], "it is no master");
    let depose = Action::Write { key: b"c/master".to_vec(), value: b"a".to_vec(), lease: 1, former: 7 };
    assert_eq!(member.on_event(at(1), Event::Suspected("b".into())), [depose]);
    // Another one was faster; that one is not suspected.
    let lost = Event::Written { record: Some(record("master", "d", 16, 4)), revision: 16 };
    assert_eq!(member.on_event(at(1), lost), []);
    let depose = Action::Write { key: b"c/master".to_vec(), value: b"a".to_vec(), lease: 1, former: 16 };
    assert_eq!(member.on_event(at(1), Event::Suspected("d".into())), [depose]);
    let won = Event::Written { record: Some(record("master", "a", 17, 1)), revision: 17 };
    assert_eq!(member.on_event(at(1), won), [Action::Lead(17)]);
    assert_eq!(member.on_event(at(1), Event::Suspected("a".into())), [], "it knows better of itself");
    // The one that was replaced follows, though its own lease goes on.
    let mut member = master();
    assert_eq!(member.on_event(at(1), put(record("master", "b", 30, 9))), [Action::Follow]);
}

#[test]
fn a_master_goes_on_while_the_store_is_away() {
    let mut member = master();
    assert_eq!(member.wakes_at(), Some(at(2)));
    assert_eq!(member.on_event(at(2), Event::Woken), [Action::KeepAlive(1)]);
    for second in 3..600 {
        assert_eq!(member.on_event(at(second), Event::LeaseFailed), []);
        assert_eq!(member.wakes_at(), Some(at(second + 1)));
        assert_eq!(member.on_event(at(second + 1), Event::Woken), [Action::KeepAlive(1)]);
    }
    assert_eq!(member.lease_ends(), Some(at(6)), "where nothing else keeps it out, it may not act any more");
    assert_eq!(member.own_generation(), Some(12));
    // The store is back: the lease has ended, and nobody else was there.
    assert_eq!(member.on_event(at(601), Event::LeaseEnded), [Action::Grant(6 * SECOND)]);
    assert_eq!(member.on_event(at(601), Event::Granted { lease: 2, good_for: 6 * SECOND }), [], "the name is its own");
    assert_eq!(member.on_event(at(601), delete("members/a", 20)), [create("members/a", 2)]);
    assert_eq!(member.on_event(at(601), delete("master", 20)), []);
    let created = Event::Written { record: Some(record("members/a", "a", 21, 2)), revision: 21 };
    assert_eq!(member.on_event(at(601), created), [create("master", 2)]);
    assert_eq!(member.own_generation(), Some(12));
    let created = Event::Written { record: Some(record("master", "a", 22, 2)), revision: 22 };
    assert_eq!(member.on_event(at(601), created), [Action::Lead(22)]);
}

#[test]
fn a_master_follows_when_another_one_is_there() {
    let mut member = master();
    assert_eq!(member.on_event(at(9), put(record("master", "b", 30, 9))), [Action::Follow, Action::KeepAlive(1)]);
    assert_eq!(member.own_generation(), None);
}

#[test]
fn a_claim_of_which_nothing_is_known_is_looked_up() {
    let (mut member, actions) = registered(Vec::new());
    assert_eq!(actions, [create("master", 1)]);
    assert_eq!(member.on_event(at(0), Event::Failed), []);
    assert_eq!(member.wakes_at(), Some(at(1)));
    assert_eq!(member.on_event(at(1), Event::Woken), [read()]);
    let records = vec![record("master", "a", 12, 1), record("members/a", "a", 11, 1)];
    let actions = member.on_event(at(1), Event::Read { records, revision: 13 });
    assert_eq!(actions, [Action::Watch { prefix: b"c/m".to_vec(), from: 14 }, Action::Lead(12)]);
}

#[test]
fn the_key_of_a_former_life_is_no_own_one() {
    let (mut member, actions) = registered(vec![record("master", "a", 7, 9)]);
    assert_eq!((actions, member.own_generation()), (vec![], None));
    assert_eq!(member.on_event(at(1), delete("master", 15)), [create("master", 1)]);
}

#[test]
fn a_name_that_another_process_has_is_waited_for() {
    let mut member = member();
    member.on_event(at(0), Event::Woken);
    member.on_event(at(0), Event::Granted { lease: 1, good_for: 6 * SECOND });
    let taken = Event::Read { records: vec![record("members/a", "a", 4, 9)], revision: 10 };
    assert_eq!(member.on_event(at(0), taken), [Action::Watch { prefix: b"c/m".to_vec(), from: 11 }, Action::NameTaken]);
    assert_eq!(member.on_event(at(2), Event::Woken), [Action::KeepAlive(1)], "it is said once");
    assert_eq!(member.on_event(at(2), delete("members/a", 12)), [create("members/a", 1)]);
}

#[test]
fn a_master_that_steps_down_leaves_it_to_the_others_for_a_while() {
    let mut member = master();
    let actions = member.on_event(at(1), Event::StepDown);
    assert_eq!(actions, [Action::Delete { key: b"c/master".to_vec(), former: 12 }]);
    assert_eq!(member.on_event(at(1), Event::Deleted { revision: 14 }), []);
    assert_eq!(member.own_generation(), Some(12), "until another one is there, it goes on");
    assert_eq!(member.on_event(at(1), delete("master", 14)), []);
    member.on_event(at(2), Event::Woken);
    member.on_event(at(2), Event::Kept { good_for: 60 * SECOND });
    assert_eq!(member.wakes_at(), Some(at(11)));
    assert_eq!(member.on_event(at(11), Event::Woken), [create("master", 1)], "there is no other one");

    let mut member = master();
    member.on_event(at(1), Event::StepDown);
    member.on_event(at(1), Event::Deleted { revision: 14 });
    assert_eq!(member.on_event(at(1), put(record("master", "b", 15, 9))), [Action::Follow]);
    assert_eq!(member.on_event(at(1), Event::StepDown), []);
}

#[test]
fn a_member_that_leaves_ends_its_lease_and_does_nothing_more() {
    let mut member = master();
    assert_eq!(member.on_event(at(1), Event::Leave), [Action::Follow, Action::Revoke(1)]);
    assert_eq!(member.on_event(at(9), Event::Woken), []);
    assert_eq!((member.own_generation(), member.wakes_at()), (None, None));
}

#[test]
fn a_member_never_wants_to_be_woken_for_nothing() {
    let mut member = member();
    let mut now = at(0);
    for step in 0..200u64 {
        let wakes = member.wakes_at().unwrap_or(now + SECOND).max(now);
        assert!(step == 0 || wakes > now, "{member:?}");
        now = wakes;
        let mut events: Vec<_> = member.on_event(now, Event::Woken);
        while let Some(action) = events.pop() {
            let event = match action {
                Action::Grant(_) | Action::KeepAlive(_) => Event::LeaseFailed,
                Action::Read(_) | Action::Write { .. } => Event::Failed,
                _ => continue,
            };
            events.extend(member.on_event(now, event));
        }
    }
}

#[test]
fn a_member_writes_where_it_is_reached() {
    let mut options = member().options;
    options.address = Some("host:6654".into());
    let mut member = Member::new(options);
    member.on_event(at(0), Event::Woken);
    member.on_event(at(0), Event::Granted { lease: 1, good_for: 6 * SECOND });
    let actions = member.on_event(at(0), Event::Read { records: Vec::new(), revision: 10 });
    let value = b"a\nhost:6654".to_vec();
    assert_eq!(actions[1], Action::Write { key: b"c/members/a".to_vec(), value, lease: 1, former: 0 });
}
