//! Tests of queries: an equal answer affects no dependents, functions run no more often than needed, and answers are
//! always those that a new computation would give.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use maple_wire::{Dpid, PortNo, Version};
use proptest::prelude::*;

use super::{Query, QueryError};
use crate::ids::{DependentId, LeafId, ShardId};
use crate::network::{Location, Mac, PortInfo, PortKind, Scope};
use crate::run::{Net, Run};
use crate::state::{
    Access, Cell, CellValue, Counter, Read, Snapshot, Stop, Store, Stored, SwitchInfo, Table, Tx, Txn, Value, Var,
    Write,
};

/// Creates a query that counts how often its function runs.
fn counted<A: Stored + 'static, V: Stored + 'static>(
    name: &str,
    f: impl Fn(&Net, A) -> V + Send + Sync + 'static,
) -> (Query<A, V>, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let query = Query::new(name, move |net: &Net, argument| {
        count.fetch_add(1, Ordering::SeqCst);
        f(net, argument)
    });
    (query, runs)
}

fn score() -> Table<i64, i64> {
    Table::new("score")
}

fn set(store: &Store, key: i64, value: i64) -> BTreeSet<DependentId> {
    let write = Write::Table { table: "score".into(), key: Value::from(key), value: Some(Value::from(value)) };
    store.update(|_| vec![write]).withdraw
}

/// Subscribes a leaf to the cells that `read` reads.
fn subscribe(store: &Store, leaf: u64, read: impl Fn(&Tx)) {
    let tx = Tx::new(store.begin());
    read(&tx);
    store.commit(tx.into_txn(), Some(LeafId(leaf))).expect("nobody else writes");
}

#[test]
fn a_write_that_leaves_the_answer_as_it_is_withdraws_nobody() {
    let store = Store::new();
    let (risky, runs) = counted("risky", |net: &Net, host: i64| score().get(net, &host).unwrap_or(0) > 10);
    subscribe(&store, 1, |tx| assert!(!risky.get(tx, &7)));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(set(&store, 7, 3), BTreeSet::new(), "still not risky");
    assert_eq!(runs.load(Ordering::SeqCst), 2, "asked once more");
    assert_eq!(set(&store, 8, 99), BTreeSet::new(), "another's score");
    assert_eq!(runs.load(Ordering::SeqCst), 2, "not asked at all");
    assert!(store.is_current(LeafId(1)));
    assert_eq!(set(&store, 7, 11), BTreeSet::from([DependentId(1)]));
    assert_eq!((runs.load(Ordering::SeqCst), store.subscriptions()), (3, (0, 0)));
    assert!(risky.get(&store.view(), &7));
    assert_eq!(runs.load(Ordering::SeqCst), 3, "the answer is remembered");
}

#[test]
fn an_answer_is_found_once_for_all_its_dependents() {
    let store = Store::new();
    let (total, runs) = counted("total", |net: &Net, (): ()| score().entries(net).iter().map(|(_, s)| s).sum::<i64>());
    (0..100).for_each(|leaf| subscribe(&store, leaf, |tx| assert_eq!(total.get(tx, &()), 0)));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(set(&store, 1, 5).len(), 100);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[test]
fn a_query_of_queries_hears_only_of_answers_that_differ() {
    let store = Store::new();
    let (half, halves) = counted("half", |net: &Net, host: i64| score().get(net, &host).unwrap_or(0) / 2);
    let inner = half.clone();
    let (sum, sums) = counted("sum", move |net: &Net, (): ()| inner.get(net, &1) + inner.get(net, &2));
    subscribe(&store, 1, |tx| assert_eq!(sum.get(tx, &()), 0));
    let counts = || (halves.load(Ordering::SeqCst), sums.load(Ordering::SeqCst));
    assert_eq!(counts(), (2, 1));
    assert_eq!(set(&store, 1, 1), BTreeSet::new());
    assert_eq!(counts(), (3, 1), "a half that is equal asks for no sum");
    let both = |first: i64, second: i64| {
        let write = |key: i64, value: i64| Write::Table {
            table: "score".into(),
            key: Value::from(key),
            value: Some(Value::from(value)),
        };
        store.update(|_| vec![write(1, first), write(2, second)]).withdraw
    };
    assert_eq!(both(4, -4), BTreeSet::new(), "the sum is equal");
    assert_eq!(counts(), (5, 2));
    assert_eq!(both(4, -2), BTreeSet::from([DependentId(1)]));
    assert_eq!(counts(), (6, 3));
}

#[test]
fn a_query_that_asks_for_a_host_fails_as_f_does_without_host_tracking() {
    let (store, mac) = (Store::new(), Mac([0, 0, 0, 0, 0, 1]));
    let (known, _) = counted("known", move |net: &Net, (): ()| net.locate(mac).is_some());
    assert!(!known.get(&store.view(), &()));
    store.know_no_hosts();
    let error = known.try_get(&store.view(), &()).map_err(|error| error.to_string());
    let why = "the query known() failed: net.locate(00:00:00:00:00:01) needs host tracking, which is off";
    assert_eq!(error, Err(why.into()));
}

#[test]
fn the_dependencies_of_a_query_are_those_of_its_last_run() {
    let store = Store::new();
    let chosen = Var::new("chosen", 1i64);
    let var = chosen.clone();
    let (value, runs) = counted("value", move |net: &Net, (): ()| score().get(net, &var.get(net)).unwrap_or(0));
    subscribe(&store, 1, |tx| assert_eq!(value.get(tx, &()), 0));
    let choose = |key: i64| store.update(|_| vec![Write::Var { name: "chosen".into(), value: Some(Value::from(key)) }]);
    assert_eq!(choose(2).withdraw, BTreeSet::new(), "that score is 0 as well");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(set(&store, 1, 5), BTreeSet::new());
    assert_eq!(runs.load(Ordering::SeqCst), 2, "it is no longer made of this score");
    assert_eq!(set(&store, 2, 5), BTreeSet::from([DependentId(1)]));
}

#[test]
fn queries_ask_for_the_network_and_a_flap_that_changes_no_answer_withdraws_nobody() {
    let store = Store::new();
    let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
    let info = Some(SwitchInfo { shard: ShardId(0), version: Version::Of13 });
    let end = |at, peer, up| Write::Port { at, info: Some(PortInfo { up, kind: PortKind::Link(peer) }) };
    let link = |a, b, up| vec![end(a, b, up), end(b, a, up)];
    store.update(|_| (1..=3).map(|n| Write::Switch { dpid: Dpid(n), info }).collect());
    store.update(|_| {
        [link(at(1, 1), at(2, 1), true), link(at(2, 2), at(3, 1), true), link(at(3, 2), at(1, 2), true)].concat()
    });
    let (degree, runs) = counted("degree", |net: &Net, dpid: Dpid| {
        net.links().iter().filter(|(a, b)| a.switch == dpid || b.switch == dpid).count() as i64
    });
    subscribe(&store, 1, |tx| assert_eq!(degree.get(tx, &Dpid(1)), 2));
    assert_eq!(store.update(|_| link(at(2, 2), at(3, 1), false)).withdraw, BTreeSet::new());
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(store.update(|_| link(at(1, 1), at(2, 1), false)).withdraw, BTreeSet::from([DependentId(1)]));
}

#[test]
fn a_query_that_fails_writes_or_asks_itself_has_no_answer() {
    let store = Store::new();
    let failed = |query: &Query<(), i64>| match query.try_get(&store.view(), &()) {
        Err(QueryError::Failed { error, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let broken = Query::new("broken", |_: &Net, (): ()| -> i64 { panic!("no idea") });
    assert_eq!(failed(&broken), "the query panicked: no idea");
    let writes = Query::new("writes", |net: &Net, (): ()| {
        Counter::new("asked").add(net, 1);
        1i64
    });
    assert_eq!(failed(&writes), "it writes, and queries only read");
    let own: Arc<std::sync::OnceLock<Query<(), i64>>> = Arc::default();
    let inner = Arc::clone(&own);
    let circle = Query::new("circle", move |net: &Net, (): ()| inner.get().map_or(0, |own| own.get(net, &())) + 1);
    assert!(own.set(circle.clone()).is_ok());
    assert_eq!(failed(&circle), "the query panicked: the query circle() failed: it asks itself");
    assert_eq!(store.snapshot().var("asked"), None);
    let text = Query::new("text", |_: &Net, (): ()| "text".to_owned());
    let as_number: Query<(), i64> = Query::from_function(text.function().clone());
    assert_eq!(
        as_number.try_get(&store.view(), &()).map_err(|error| error.to_string()),
        Err("text() holds \"text\", which is not of type i64".into())
    );
}

#[test]
fn a_transaction_conflicts_on_the_answer_and_not_on_what_it_is_made_of() {
    let store = Store::new();
    let risky = Query::new("risky", |net: &Net, host: i64| score().get(net, &host).unwrap_or(0) > 10);
    let begin = || {
        let tx = Tx::new(store.begin());
        let seen = risky.get(&tx, &7);
        tx.put(Write::Var { name: "seen".into(), value: Some(Value::from(seen)) });
        tx.into_txn()
    };
    let txn = begin();
    set(&store, 7, 5);
    assert!(store.commit(txn, None).is_ok(), "the answer is the same");
    let txn = begin();
    set(&store, 7, 50);
    assert!(store.commit(txn, None).is_err());
    // Answers include the transaction's own writes, which others don't see.
    let tx = Tx::new(store.begin());
    score().set(&tx, &7, &1);
    assert!(!risky.get(&tx, &7) && risky.get(&store.view(), &7));
}

#[test]
fn a_transaction_that_waits_is_woken_by_a_new_answer_only() {
    let store = Store::new();
    let risky = Query::new("risky", |net: &Net, host: i64| score().get(net, &host).unwrap_or(0) > 10);
    let attempt = store.attempt(|tx| Stop::unless(risky.get(tx, &7)));
    let crate::state::Attempt::Retry(txn) = attempt else { panic!("it waits") };
    struct Count(AtomicUsize);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let count = Arc::new(Count(AtomicUsize::new(0)));
    assert!(store.watch(&txn, count.clone().into()).is_some());
    set(&store, 7, 5);
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
    set(&store, 7, 50);
    assert_eq!((count.0.load(Ordering::SeqCst), store.subscriptions().1), (1, 0));
}

const TABLES: i64 = 4;

/// The computation of a random query: numbers from a small range, so that answers are often equal.
#[derive(Clone, Debug)]
enum Term {
    Key(i64),
    Var,
    Size,
    /// The answer of an earlier query.
    Query(usize, i64),
    Sum(Box<Term>, Box<Term>),
    /// The second or the third, depending on the first: what is read depends on what was read.
    If(Box<Term>, Box<Term>, Box<Term>),
}

const MODULUS: i64 = 3;

impl Term {
    fn read(&self, state: &impl Read, queries: &[Query<i64, i64>]) -> i64 {
        let read = |term: &Term| term.read(state, queries);
        let number = match self {
            Term::Key(key) => score().get(state, key).unwrap_or(0),
            Term::Var => Var::new("var", 0i64).get(state),
            Term::Size => score().len(state) as i64,
            Term::Query(_, argument) if queries.is_empty() => *argument,
            Term::Query(index, argument) => queries[index % queries.len()].get(state, argument),
            Term::Sum(a, b) => read(a) + read(b),
            Term::If(a, b, c) => {
                if read(a) > 0 {
                    read(b)
                } else {
                    read(c)
                }
            }
        };
        number.rem_euclid(MODULUS)
    }

    /// Computes the value from the snapshot, with queries computed again: `terms` are those of the earlier queries.
    fn naive(&self, state: &Snapshot, terms: &[Term]) -> i64 {
        let naive = |term: &Term| term.naive(state, terms);
        let int = |value: Option<&Value>| value.and_then(Value::as_int).unwrap_or(0) as i64;
        let number = match self {
            Term::Key(key) => int(state.table("score").and_then(|table| table.get(&Value::from(*key)))),
            Term::Var => int(state.var("var")),
            Term::Size => state.table("score").map_or(0, |table| table.len() as i64),
            Term::Query(_, argument) if terms.is_empty() => *argument,
            Term::Query(index, argument) => ask(terms, index % terms.len(), *argument, state),
            Term::Sum(a, b) => naive(a) + naive(b),
            Term::If(a, b, c) => {
                if naive(a) > 0 {
                    naive(b)
                } else {
                    naive(c)
                }
            }
        };
        number.rem_euclid(MODULUS)
    }
}

/// Returns a query's answer, computed again.
fn ask(terms: &[Term], query: usize, argument: i64, state: &Snapshot) -> i64 {
    (terms[query].naive(state, &terms[..query]) + argument).rem_euclid(MODULUS)
}

fn queries(terms: &[Term]) -> Vec<Query<i64, i64>> {
    let mut queries: Vec<Query<i64, i64>> = Vec::new();
    for (index, term) in terms.iter().enumerate() {
        let (term, earlier) = (term.clone(), queries.clone());
        let f = move |net: &Net, argument: i64| (term.read(net, &earlier) + argument).rem_euclid(MODULUS);
        queries.push(Query::new(&format!("q{index}"), f));
    }
    queries
}

#[derive(Clone, Debug)]
enum Step {
    Put(i64, Option<i64>),
    Var(i64),
    /// A leaf that reads these answers, each with its argument.
    Leaf(Vec<(usize, i64)>),
    Forget(usize),
    /// A transaction that begins, writes, reads an answer and commits, with or without another write before its commit.
    Txn(Option<(i64, i64)>, usize, i64, Option<(i64, i64)>),
}

fn term() -> impl Strategy<Value = Term> {
    let leaf = prop_oneof![
        (0..TABLES).prop_map(Term::Key),
        Just(Term::Var),
        Just(Term::Size),
        (0..8usize, 0..2i64).prop_map(|(query, argument)| Term::Query(query, argument)),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Term::Sum(a.into(), b.into())),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| Term::If(a.into(), b.into(), c.into())),
        ]
    })
}

fn step() -> impl Strategy<Value = Step> {
    let write = (0..TABLES, 0..MODULUS);
    prop_oneof![
        4 => (0..TABLES, prop::option::of(0..MODULUS)).prop_map(|(key, value)| Step::Put(key, value)),
        1 => (0..MODULUS).prop_map(Step::Var),
        4 => prop::collection::vec((0..8usize, 0..2i64), 1..3).prop_map(Step::Leaf),
        1 => (0..8usize).prop_map(Step::Forget),
        2 => (prop::option::of(write.clone()), 0..8usize, 0..2i64, prop::option::of(write))
            .prop_map(|(own, query, argument, other)| Step::Txn(own, query, argument, other)),
    ]
}

/// Leaves that are subscribed, each with the answers that it reads.
type Leaves = Vec<(LeafId, Vec<(usize, i64)>)>;

struct Game {
    store: Arc<Store>,
    terms: Vec<Term>,
    queries: Vec<Query<i64, i64>>,
    leaves: Leaves,
    next: u64,
    old: Vec<Arc<Snapshot>>,
}

/// Returns the rows of the table.
fn rows(state: &Snapshot) -> BTreeMap<Value, Value> {
    state.table("score").into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Game {
    fn play(&mut self, step: &Step) {
        let entry = |key: i64, value: Option<i64>| Write::Table {
            table: "score".into(),
            key: Value::from(key),
            value: value.map(Value::from),
        };
        match step {
            Step::Put(key, value) => self.write(entry(*key, *value)),
            Step::Var(value) => self.write(Write::Var { name: "var".into(), value: Some(Value::from(*value)) }),
            Step::Leaf(reads) => {
                let reads: Vec<_> = reads.iter().map(|(query, arg)| (query % self.queries.len(), *arg)).collect();
                let leaf = LeafId(self.next);
                self.next += 1;
                subscribe(&self.store, leaf.0, |tx| {
                    for (query, argument) in &reads {
                        self.queries[*query].get(tx, argument);
                    }
                });
                self.leaves.push((leaf, reads));
            }
            Step::Forget(index) if !self.leaves.is_empty() => {
                let (leaf, _) = self.leaves.remove(index % self.leaves.len());
                self.store.forget(leaf);
            }
            Step::Forget(_) => {}
            Step::Txn(own, query, argument, other) => {
                let query = query % self.queries.len();
                let tx = Tx::new(self.store.begin());
                own.iter().for_each(|(key, value)| tx.put(entry(*key, Some(*value))));
                let seen = self.queries[query].get(&tx, argument);
                let txn = tx.into_txn();
                assert_eq!(seen, ask(&self.terms, query, *argument, txn.peek()), "with the own writes");
                other.iter().for_each(|(key, value)| self.write(entry(*key, Some(*value))));
                let before = self.store.snapshot();
                let committed = self.store.commit(txn, None);
                let same = |state: &Snapshot| ask(&self.terms, query, *argument, state);
                let begun = self.old.last().map_or(0, |old| same(old));
                // A write of the value that was there depends on that value.
                let began = self.old.last().map(|old| rows(old)).unwrap_or_default();
                let newest = rows(&before);
                let stays = own.is_none_or(|(key, value)| {
                    let (key, value) = (Value::from(key), Value::from(value));
                    began.get(&key) != Some(&value) || newest.get(&key) == Some(&value)
                });
                let must = other.is_none() || begun == same(&before) && stays;
                assert_eq!(committed.is_ok(), must, "it commits where what it rests on is as it was");
                if let Ok(commit) = committed {
                    self.check(&before, commit.withdraw);
                }
            }
        }
        self.old.push(self.store.snapshot());
    }

    fn write(&mut self, write: Write) {
        let before = self.store.snapshot();
        let withdrawn = self.store.update(|_| vec![write]).withdraw;
        self.check(&before, withdrawn);
    }

    /// Checks that exactly the leaves that read an answer that differs are withdrawn, and that all answers are right.
    fn check(&mut self, before: &Snapshot, withdrawn: BTreeSet<DependentId>) {
        let now = self.store.snapshot();
        let differs = |(query, arg): &(usize, i64)| {
            ask(&self.terms, *query, *arg, before) != ask(&self.terms, *query, *arg, &now)
        };
        let (gone, left): (Leaves, Leaves) = self.leaves.drain(..).partition(|(_, reads)| reads.iter().any(differs));
        assert_eq!(withdrawn, gone.iter().map(|(leaf, _)| DependentId::from(*leaf)).collect());
        self.leaves = left;
        for state in [Some(&now), self.old.first(), self.old.last()].into_iter().flatten() {
            for (query, argument) in (0..self.queries.len()).flat_map(|query| [(query, 0), (query, 1)]) {
                let answer = self.queries[query].get(&Tx::new(Txn::new(state.clone())), &argument);
                assert_eq!(answer, ask(&self.terms, query, argument, state), "q{query}({argument})");
            }
        }
        assert_eq!(self.store.subscriptions().0, self.leaves.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn queries_answer_as_if_they_were_asked_anew_each_time(
        terms in prop::collection::vec(term(), 1..5),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let store = Store::new();
        let queries = queries(&terms);
        let old = vec![store.snapshot()];
        let mut game = Game { store, terms, queries, leaves: Vec::new(), next: 1, old };
        steps.iter().for_each(|step| game.play(step));
        game.leaves.drain(..).for_each(|(leaf, _)| game.store.forget(leaf));
        prop_assert_eq!(game.store.subscriptions(), (0, 0), "nothing is left of subscriptions");
    }
}

#[test]
fn cells_of_queries_are_told_apart() {
    let query = |name: &str| Query::new(name, |_: &Net, n: i64| n);
    let (a, b) = (query("same"), query("same"));
    let store = Store::new();
    let cell = |query: &Query<i64, i64>, n: i64| query.function().cell(Value::from(n));
    assert_eq!(cell(&a, 1), cell(&a.clone(), 1));
    assert!(cell(&a, 1) != cell(&a, 2) && cell(&a, 1) != cell(&b, 1));
    assert_eq!(store.view().cell(cell(&a, 1)), CellValue::Answer(Ok(Value::from(1i64))));
    assert_eq!(format!("{:?}", Cell::clone(&cell(&a, 1))), "Query(same(1))");
}

#[test]
fn queries_and_declared_types_follow_the_slice() {
    let store = Store::new();
    let limits = Table::<Mac, i64>::new("limits");
    store.declare_types("limits", Table::<Mac, i64>::types()).expect("nothing is there");
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    let write = |table: &str, value: i64| Write::Table {
        table: table.into(),
        key: Value::from("02:00:00:00:00:01"),
        value: Some(value.into()),
    };
    store.change(vec![write("limits", 1), write("red/limits", 2)]).expect("an address");
    store.change(vec![Write::Table { table: "red/limits".into(), key: "x".into(), value: None }]).expect_err("none");
    let query = Query::new("limit", move |net: &Net, (): ()| limits.get(net, &mac).unwrap_or(0));
    let run = Run::new(Arc::new([0; 64]), 64, Location::new(Dpid(1), PortNo(1)), store.begin(), true);
    let net = run.net();
    assert_eq!(query.get(&net, &()), 1);
    net.enter_slice(&Scope::new("red"));
    assert_eq!(query.get(&net, &()), 2);
    assert!(net.types("limits").is_some());
    net.put(Write::Table { table: "limits".into(), key: mac.into(), value: Some(Value::Int(5)) });
    store.commit(run.finish().expect("not over").txn, None).expect("nobody else");
    assert_eq!(query.get(&store.view(), &()), 1);
    let red = Table::<Mac, i64>::new("red/limits");
    assert_eq!(red.get(&store.view(), &mac), Some(5));
}
