//! One copy of the tracked state, step by step.

use std::time::Duration;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A copy, with what its owner holds and whether it may commit.
struct Owned {
    replica: Replica,
    now: Time,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    gate: Gate,
}

impl Owned {
    fn new() -> Owned {
        let options = ReplicaOptions { cluster: "c".into(), format: "2".into(), retry: 200 * MS, patience: 500 * MS };
        Owned { replica: Replica::new(options), now: Time::ZERO, rows: BTreeMap::new(), gate: Gate::NotMaster }
    }

    /// Tells it something. Returns what is to be done besides what an owner does at once.
    fn notify(&mut self, event: ReplicaEvent) -> Vec<ReplicaAction> {
        let mut rest = Vec::new();
        for action in self.replica.on_event(self.now, event) {
            let answer = match action {
                ReplicaAction::Replace(rows) => {
                    self.rows = rows;
                    ReplicaEvent::Held
                }
                ReplicaAction::Apply(rows) => {
                    for (key, value) in rows {
                        match value {
                            Some(value) => drop(self.rows.insert(key, value)),
                            None => drop(self.rows.remove(&key)),
                        }
                    }
                    ReplicaEvent::Held
                }
                ReplicaAction::Adopt => ReplicaEvent::Contents(self.rows.clone()),
                ReplicaAction::Gate(gate) => {
                    self.gate = gate;
                    continue;
                }
                other => {
                    rest.push(other);
                    continue;
                }
            };
            rest.extend(self.notify(answer));
        }
        rest
    }

    /// Makes it the follower of a store with this head and the row `a`.
    fn following(head: &str, at: u64) -> Owned {
        let mut owned = Owned::new();
        assert_eq!(owned.notify(ReplicaEvent::Woken), [ReplicaAction::ReadAll(b"c/state/".to_vec())]);
        let records = vec![record("head", head, at), record("rows/a", "1", at)];
        let watch = ReplicaAction::Watch { prefix: b"c/state/".to_vec(), from: at + 3 };
        assert_eq!(owned.notify(ReplicaEvent::Read { records, revision: at + 2 }), [watch]);
        assert_eq!(owned.rows, row("a", "1"));
        owned
    }

    /// Makes it lead in this generation, with a state of which it missed nothing.
    fn leading(generation: u64) -> Owned {
        let mut owned = Owned::following("2 3 9 complete", 5);
        assert_eq!(owned.notify(ReplicaEvent::Lead(generation)), [ReplicaAction::ReadHead(b"c/state/head".to_vec())]);
        assert_eq!(owned.gate, Gate::TakesOver);
        let record = Some(record("head", "2 3 9 complete", 5));
        let leads = owned.notify(ReplicaEvent::Head { record, revision: generation });
        assert_eq!(leads, [ReplicaAction::Unwatch, ReplicaAction::Ready(generation)]);
        assert_eq!(owned.gate, Gate::Open);
        owned
    }

    fn commit(&mut self, version: u64, rows: ChangedRows) -> Vec<ReplicaAction> {
        self.notify(ReplicaEvent::Committing(CommitRows { version, rows }))
    }
}

fn record(key: &str, value: &str, revision: u64) -> Record {
    Record { key: format!("c/state/{key}").into_bytes(), value: value.into(), revision, lease: 0 }
}

fn row(key: &str, value: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    BTreeMap::from([(key.into(), value.into())])
}

fn rows(count: usize, from: usize) -> ChangedRows {
    (from..from + count).map(|key| (format!("k{key}").into_bytes(), Some(b"x".to_vec()))).collect()
}

/// Returns the only action, which is a batch.
fn batch(actions: Vec<ReplicaAction>) -> StateBatch {
    match &actions[..] {
        [ReplicaAction::Write(batch)] => batch.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_standby_that_missed_nothing_takes_over_with_one_read_of_one_key() {
    let mut owned = Owned::leading(20);
    let first = batch(owned.commit(7, rows(1, 0)));
    assert_eq!(first.master, KeyAtRevision { key: b"c/master".to_vec(), revision: 20 });
    assert_eq!(first.head, KeyAtRevision { key: b"c/state/head".to_vec(), revision: 5 });
    assert_eq!((&first.value[..], first.rows.len()), (&b"2 20 1 complete"[..], 1));
    assert_eq!(owned.commit(8, rows(1, 1)), [], "one batch at a time");
    let next = owned.notify(ReplicaEvent::Committed(21));
    assert_eq!(next[0], ReplicaAction::Confirmed(7));
    let second = batch(next[1..].to_vec());
    assert_eq!((second.head.revision, &second.value[..]), (21, &b"2 20 2 complete"[..]));
}

#[test]
fn a_leader_whose_watch_lags_waits_for_it_and_then_reads_everything() {
    for tells in [true, false] {
        let mut owned = Owned::following("2 3 9 complete", 5);
        drop(owned.notify(ReplicaEvent::Lead(20)));
        let newest = record("head", "2 3 10 complete", 18);
        assert_eq!(owned.notify(ReplicaEvent::Head { record: Some(newest.clone()), revision: 22 }), []);
        if tells {
            let put = |record: Record| Change::Put { revision: record.revision, record };
            let changes = vec![put(record("rows/a", "2", 18)), put(newest)];
            let leads = owned.notify(ReplicaEvent::Changed(changes));
            assert_eq!(leads, [ReplicaAction::Unwatch, ReplicaAction::Ready(20)]);
        } else {
            assert_eq!(owned.replica.wakes_at(), Some(500 * MS));
            owned.now = 500 * MS;
            assert_eq!(owned.notify(ReplicaEvent::Woken), [ReplicaAction::ReadAll(b"c/state/".to_vec())]);
            let records = vec![newest, record("rows/a", "2", 18)];
            let leads = owned.notify(ReplicaEvent::Read { records, revision: 22 });
            assert_eq!(leads, [ReplicaAction::Unwatch, ReplicaAction::Ready(20)]);
        }
        assert_eq!((owned.rows, owned.gate), (row("a", "2"), Gate::Open));
    }
}

#[test]
fn records_read_before_the_mastership_are_read_again() {
    let mut owned = Owned::new();
    drop(owned.notify(ReplicaEvent::Woken));
    assert_eq!(owned.notify(ReplicaEvent::Lead(20)), []);
    let records = || vec![record("head", "2 3 9 complete", 5)];
    let again = owned.notify(ReplicaEvent::Read { records: records(), revision: 19 });
    assert_eq!(again, [ReplicaAction::ReadAll(b"c/state/".to_vec())]);
    assert_eq!(owned.notify(ReplicaEvent::Read { records: records(), revision: 20 }), [ReplicaAction::Ready(20)]);
}

#[test]
fn commits_share_a_batch_as_long_as_the_store_takes_it_and_none_is_in_two() {
    let mut owned = Owned::leading(20);
    drop(owned.commit(1, rows(1, 0)));
    for (version, count) in [(2, 100), (3, 27), (4, 1)] {
        assert_eq!(owned.commit(version, rows(count, version as usize * 1_000)), []);
    }
    let large = ChangedRows::from([(b"large".to_vec(), Some(vec![0; MAX_BYTES - 5]))]);
    assert_eq!(owned.commit(5, large.clone()), []);
    assert_eq!(owned.commit(6, large), [], "the same row again");
    for (revision, confirmed, count) in [(21, 1, MAX_ROWS), (22, 3, 1), (23, 4, 1), (24, 5, 1)] {
        let actions = owned.notify(ReplicaEvent::Committed(revision));
        assert_eq!(actions[0], ReplicaAction::Confirmed(confirmed));
        assert_eq!(batch(actions[1..].to_vec()).rows.len(), count);
    }
    assert_eq!(owned.notify(ReplicaEvent::Committed(25)), [ReplicaAction::Confirmed(6)]);
}

#[test]
fn a_batch_whose_outcome_is_not_known_is_sent_again_as_it_was() {
    let mut owned = Owned::leading(20);
    let first = batch(owned.commit(1, rows(1, 0)));
    assert_eq!(owned.notify(ReplicaEvent::Failed), []);
    assert_eq!(owned.gate, Gate::StoreAway);
    assert_eq!(owned.commit(2, rows(1, 1)), [], "it was on its way");
    owned.now = owned.replica.wakes_at().expect("it asks again");
    assert_eq!(batch(owned.notify(ReplicaEvent::Woken)), first);
    // It had arrived.
    let found = Some(record("head", "2 20 1 complete", 30));
    let next = owned.notify(ReplicaEvent::Refused { master: 20, head: found });
    assert_eq!(next[0], ReplicaAction::Confirmed(1));
    assert_eq!(batch(next[1..].to_vec()).head.revision, 30);
    assert_eq!(owned.gate, Gate::Open);
}

#[test]
fn the_store_away_closes_the_gate_before_anybody_has_to_find_out() {
    let mut owned = Owned::leading(20);
    assert_eq!((owned.notify(ReplicaEvent::StoreAnswers(false)), owned.gate), (vec![], Gate::StoreAway));
    assert_eq!((owned.notify(ReplicaEvent::StoreAnswers(true)), owned.gate), (vec![], Gate::Open));
}

#[test]
fn unconfirmed_commits_are_given_up_when_the_mastership_ends() {
    let mut owned = Owned::leading(20);
    drop(owned.commit(1, rows(1, 0)));
    let refused = ReplicaEvent::Refused { master: 33, head: Some(record("head", "2 3 9 complete", 5)) };
    assert_eq!((owned.notify(refused), owned.gate), (vec![], Gate::NotMaster));
    let read = [ReplicaAction::ReadAll(b"c/state/".to_vec())];
    assert_eq!(owned.notify(ReplicaEvent::Follow), read);
    let records = vec![record("head", "2 33 1 complete", 34), record("rows/a", "7", 34)];
    let follows = owned.notify(ReplicaEvent::Read { records, revision: 40 });
    let watch = ReplicaAction::Watch { prefix: b"c/state/".to_vec(), from: 41 };
    assert_eq!(follows, [ReplicaAction::Lost(1), watch]);
    assert_eq!(owned.rows, row("a", "7"));
    // Without such commits it follows from where it is.
    let mut owned = Owned::leading(20);
    let watch = ReplicaAction::Watch { prefix: b"c/state/".to_vec(), from: 6 };
    assert_eq!(owned.notify(ReplicaEvent::Follow), [watch]);
}

#[test]
fn the_first_master_writes_what_it_has_in_parts_of_which_the_last_one_counts() {
    let mut owned = Owned::new();
    drop(owned.notify(ReplicaEvent::Woken));
    drop(owned.notify(ReplicaEvent::Read { records: Vec::new(), revision: 4 }));
    owned.rows = rows(200, 0).into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect();
    assert_eq!(owned.notify(ReplicaEvent::Lead(20)), [ReplicaAction::ReadHead(b"c/state/head".to_vec())]);
    let mut actions = owned.notify(ReplicaEvent::Head { record: None, revision: 20 });
    let ready = actions.iter().position(|action| *action == ReplicaAction::Ready(20)).expect("it leads");
    drop(actions.remove(ready));
    actions.retain(|action| *action != ReplicaAction::Unwatch);
    let begins = batch(actions);
    let (head, clears) = (&begins.value[..], begins.clears.clone());
    assert_eq!((head, clears, begins.rows.len()), (&b"2 20 1 begun"[..], Some(b"c/state/rows/".to_vec()), 0));
    assert_eq!(owned.commit(9, rows(1, 500)), []);
    let mut sent = Vec::new();
    for revision in 21..24 {
        let actions = owned.notify(ReplicaEvent::Committed(revision));
        sent.push(batch(actions));
    }
    let reported: Vec<_> = sent.iter().map(|batch| (&batch.value[..], batch.rows.len())).collect();
    let wanted: [(&[u8], usize); 3] = [(b"2 20 2 begun", 127), (b"2 20 3 complete", 73), (b"2 20 4 complete", 1)];
    assert_eq!(reported, wanted);
    // A standby takes a state that was only begun for none.
    let mut other = Owned::new();
    drop(other.notify(ReplicaEvent::Woken));
    let records = vec![record("head", "2 20 2 begun", 22), record("rows/a", "1", 22)];
    drop(other.notify(ReplicaEvent::Read { records, revision: 22 }));
    assert_eq!(other.rows, BTreeMap::new());
    let head = record("head", "2 20 3 complete", 23);
    let changes = vec![Change::Put { record: head, revision: 23 }];
    assert_eq!(other.notify(ReplicaEvent::Changed(changes)), [ReplicaAction::ReadAll(b"c/state/".to_vec())]);
}

#[test]
fn rows_of_another_format_are_not_read_and_nothing_is_written() {
    let mut owned = Owned::new();
    drop(owned.notify(ReplicaEvent::Woken));
    drop(owned.notify(ReplicaEvent::Lead(20)));
    let records = || vec![record("head", "3 3 9 complete", 5), record("rows/a", "1", 5)];
    let actions = owned.notify(ReplicaEvent::Read { records: records(), revision: 25 });
    let [ReplicaAction::Unreadable(why)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(why, "the state in etcd has format 3: another version of Maple wrote it");
    assert_eq!((owned.rows.len(), owned.gate), (0, Gate::TakesOver));
    // It follows, and reads again when something else is there.
    assert_eq!(owned.notify(ReplicaEvent::Follow), [ReplicaAction::ReadAll(b"c/state/".to_vec())]);
    assert_eq!(owned.notify(ReplicaEvent::Read { records: records(), revision: 25 }).len(), 2);
    let head = record("head", "2 30 1 complete", 30);
    let changes = vec![Change::Put { record: head, revision: 30 }];
    assert_eq!(owned.notify(ReplicaEvent::Changed(changes)), [ReplicaAction::ReadAll(b"c/state/".to_vec())]);
}
