//! Orders of steps that threads can take at the store, some ten thousand of them as `shuttle` chooses. In each of them:
//! transactions are strictly serialisable, no run sees a mixture of states, no thread waits for a change that has
//! already come, and a leaf is current or withdrawn once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use maple_wire::Dpid;

use super::super::{
    Access, Attempt, Cell, CellValue, Commit, Counter, Patience, Read, Stop, Stopped, Store, Table, Tx, Value, Var,
    Write, sync,
};
use crate::ids::LeafId;

/// A way of waiting that lets other threads run.
struct Yielding(Arc<Flag>);

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Flag>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Yielding {
    fn new() -> Yielding {
        Yielding(Arc::new(Flag(AtomicBool::new(false))))
    }
}

impl Patience for Yielding {
    fn back_off(&self, _: u32) {
        sync::step();
    }

    fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }

    fn wait(&self) -> bool {
        while !self.0.0.swap(false, Ordering::SeqCst) {
            sync::step();
        }
        true
    }
}

/// Runs `test` in this many orders of its threads' steps.
fn in_orders(schedules: usize, test: impl Fn() + Send + Sync + 'static) {
    sync::simulate(Some(shuttle::thread::yield_now));
    shuttle::check_random(test, schedules);
    sync::simulate(None);
}

fn spawn(work: impl FnOnce() + Send + 'static) -> shuttle::thread::JoinHandle<()> {
    shuttle::thread::spawn(work)
}

fn join(threads: Vec<shuttle::thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("a thread failed"));
}

fn done<T>(store: &Store, f: impl FnMut(&Tx) -> Result<T, Stop>) -> (T, Commit) {
    store.atomically(&Yielding::new(), f).expect("it neither cancels nor tires")
}

/// A transaction that committed: when it was called and had returned, what it read, and what it wrote.
#[derive(Clone, Debug)]
struct CommittedTxn {
    called: u64,
    returned: u64,
    reads: Vec<(usize, i64)>,
    write: (usize, i64),
}

const VARS: [&str; 3] = ["a", "b", "c"];

/// Reports whether the events could have happened one after the other, each within its call.
fn is_serial(events: &[CommittedTxn], state: [i64; 3], left: u32, last: [i64; 3]) -> bool {
    if left == 0 {
        return state == last;
    }
    let is_left = |index: usize| left & 1 << index != 0;
    let next = |index: &usize| {
        let event = &events[*index];
        is_left(*index)
            && events
                .iter()
                .enumerate()
                .all(|(other, e)| !is_left(other) || other == *index || e.returned > event.called)
            && event.reads.iter().all(|(var, seen)| state[*var] == *seen)
    };
    (0..events.len()).filter(next).any(|index| {
        let mut after = state;
        after[events[index].write.0] = events[index].write.1;
        is_serial(events, after, left & !(1 << index), last)
    })
}

#[test]
fn transactions_are_as_if_one_ran_after_the_other_each_within_its_call() {
    in_orders(4000, || {
        let (store, clock) = (Store::new(), Arc::new(AtomicU64::new(0)));
        let events = Arc::new(Mutex::new(Vec::new()));
        let threads = (0..3usize).map(|thread| {
            let (store, clock, events) = (store.clone(), clock.clone(), events.clone());
            spawn(move || {
                for round in 0..2usize {
                    let (first, second) = ((thread + round) % 3, (2 * thread + round + 1) % 3);
                    let called = clock.fetch_add(1, Ordering::SeqCst);
                    let ((reads, write), _) = done(&store, |tx| {
                        let get = |var: usize| (var, Var::new(VARS[var], 0i64).get(tx));
                        let reads = vec![get(first), get(second)];
                        sync::step();
                        let value = 1 + 7 * (reads[0].1 + 3 * reads[1].1) + thread as i64;
                        Var::new(VARS[second], 0i64).set(tx, &value);
                        Ok((reads, (second, value)))
                    });
                    let returned = clock.fetch_add(1, Ordering::SeqCst);
                    events.lock().expect("nobody panics").push(CommittedTxn { called, returned, reads, write });
                }
            })
        });
        join(threads.collect());
        let events = events.lock().expect("nobody panics").clone();
        let last = VARS.map(|name| Var::new(name, 0i64).get(&store.view()));
        assert!(is_serial(&events, [0; 3], (1 << events.len()) - 1, last), "{events:?} {last:?}");
    });
}

#[test]
fn no_run_sees_a_mixture_and_no_link_is_ever_oversold() {
    in_orders(3000, || {
        let store = Store::new();
        let free = Table::<u64, i64>::new("free");
        let total = Var::new("total", 9i64);
        store.update(|_| (0..3u64).map(|link| entry(link, 3)).collect());
        let threads = (0..3u64).map(|thread| {
            let (store, free, total) = (store.clone(), free.clone(), Var::new("total", 9i64));
            spawn(move || {
                for _ in 0..2 {
                    let path = [thread, (thread + 1) % 3];
                    let (sold, _) = done(&store, |tx| {
                        let sum: i64 = (0..3).filter_map(|link| free.get(tx, &link)).sum();
                        sync::step();
                        assert_eq!(sum, total.get(tx), "also a run that will not commit sees one state");
                        let reserve = |tx: &Tx| {
                            for link in path {
                                let left = free.get(tx, &link).unwrap_or_default() - 1;
                                free.set(tx, &link, &left);
                                Stop::unless(left >= 0)?;
                            }
                            total.set(tx, &(sum - 2));
                            Ok(true)
                        };
                        tx.or_else(reserve, |_| Ok(false))
                    });
                    assert!(sold || free.entries(&store.view()).iter().any(|(_, left)| *left == 0));
                }
            })
        });
        join(threads.collect());
        let view = store.view();
        let left: Vec<i64> = free.entries(&view).into_iter().map(|(_, left)| left).collect();
        assert!(left.iter().all(|left| *left >= 0), "{left:?}");
        assert_eq!(left.iter().sum::<i64>(), total.get(&view));
    });
}

#[test]
fn a_waiter_is_woken_by_the_change_whenever_it_comes() {
    in_orders(2000, || {
        let store = Store::new();
        let slot = || Var::new("slot", 0i64);
        let consumers = (0..2).map(|_| {
            let store = store.clone();
            spawn(move || {
                let take = |tx: &Tx| {
                    let there = slot().get(tx);
                    Stop::unless(there > 0)?;
                    slot().set(tx, &(there - 1));
                    Ok(())
                };
                done(&store, take);
            })
        });
        let consumers: Vec<_> = consumers.collect();
        for _ in 0..2 {
            done(&store, |tx| {
                let there = slot().get(tx);
                slot().set(tx, &(there + 1));
                Ok(())
            });
        }
        join(consumers);
        assert_eq!(slot().get(&store.view()), 0);
        assert_eq!(store.subscriptions(), (0, 0), "nobody waits any more");
    });
}

#[test]
fn a_leaf_is_current_or_was_withdrawn_by_exactly_one_commit() {
    in_orders(2000, || {
        let store = Store::new();
        let withdrawn = Arc::new(AtomicU64::new(0));
        let leaf = LeafId(1);
        let writers = (0..2i64).map(|thread| {
            let (store, withdrawn) = (store.clone(), withdrawn.clone());
            spawn(move || {
                for value in [thread + 1, 0] {
                    let commit = store.update(|_| vec![entry(1, value)]);
                    withdrawn.fetch_add(commit.withdraw.len() as u64, Ordering::SeqCst);
                    if value != 0 {
                        assert!(Table::<u64, i64>::new("free").get(&store.view(), &1).is_some());
                    }
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let cell = Cell::Table("free".into(), Value::from(1u64));
        let mut subscribed = None;
        for _ in 0..2 {
            let mut txn = store.begin();
            let seen = txn.read(cell.clone());
            sync::step();
            if store.commit(txn, Some(leaf)).is_ok() {
                subscribed = Some(seen);
                break;
            }
        }
        join(writers);
        let gone = withdrawn.load(Ordering::SeqCst);
        match subscribed {
            None => assert_eq!(gone, 0),
            Some(seen) if store.is_current(leaf) => {
                assert_eq!((gone, cell.evaluate(store.view().snapshot())), (0, seen));
            }
            Some(_) => assert_eq!(gone, 1),
        }
    });
}

#[test]
fn a_transaction_that_always_loses_gets_its_turn() {
    in_orders(100, || {
        let (store, stop) = (Store::new(), Arc::new(AtomicBool::new(false)));
        let writer = {
            let (store, stop) = (store.clone(), stop.clone());
            spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    done(&store, |tx| {
                        Counter::new("n").add(tx, 1);
                        Ok(())
                    });
                }
            })
        };
        let mut runs = 0;
        done(&store, |tx| {
            runs += 1;
            let seen = Counter::new("n").get(tx);
            if runs <= Store::PATIENT {
                // Another transaction commits while this run is under way.
                while Counter::new("n").get(&store.view()) == seen {
                    sync::step();
                }
            }
            Var::new("seen", 0i128).set(tx, &seen);
            Ok(())
        });
        stop.store(true, Ordering::SeqCst);
        join(vec![writer]);
        assert_eq!(runs, Store::PATIENT + 1, "it lost so often, and then ran alone");
    });
}

fn entry(key: u64, value: i64) -> Write {
    Write::Table { table: "free".into(), key: Value::from(key), value: Some(Value::from(value)) }
}

/// A way of waiting as system threads do: parks until it is woken.
struct Parking(std::thread::Thread);

impl Wake for ParkingWaker {
    fn wake(self: Arc<ParkingWaker>) {
        self.0.unpark();
    }
}

struct ParkingWaker(std::thread::Thread);

impl Patience for Parking {
    fn back_off(&self, _: u32) {
        std::thread::yield_now();
    }

    fn waker(&self) -> Waker {
        Waker::from(Arc::new(ParkingWaker(self.0.clone())))
    }

    fn wait(&self) -> bool {
        std::thread::park();
        true
    }
}

#[test]
fn real_threads_lose_no_update_and_sell_nothing_twice() {
    let (store, free) = (Store::new(), Table::<u64, i64>::new("free"));
    let links = 16u64;
    store.update(|_| (0..links).map(|link| entry(link, 400)).collect());
    let run = |seed: u64| {
        let patience = Parking(std::thread::current());
        let (mut x, mut sold) = (seed, BTreeMap::<u64, i64>::new());
        for _ in 0..3000 {
            let mut random = || {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                x >> 40
            };
            let path: Vec<u64> = (0..1 + random() % 6).map(|_| random() % links).collect();
            let reserve = |tx: &Tx| {
                Counter::new("asked").add(tx, 1);
                for link in &path {
                    let left = free.get(tx, link).unwrap_or_default();
                    if left == 0 {
                        return Err(Stop::Cancel);
                    }
                    free.set(tx, link, &(left - 1));
                }
                Ok(())
            };
            match store.atomically(&patience, reserve) {
                Ok(_) => path.iter().for_each(|link| *sold.entry(*link).or_default() += 1),
                Err(error) => assert_eq!(error, Stopped::Cancelled),
            }
        }
        sold
    };
    let sold: Vec<BTreeMap<u64, i64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4).map(|seed| scope.spawn(move || run(seed))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread failed")).collect()
    });
    for (link, left) in free.entries(&store.view()) {
        let sold: i64 = sold.iter().filter_map(|sold| sold.get(&link)).sum();
        assert!(left >= 0 && sold + left == 400, "link {link}: {sold} sold, {left} left");
    }
}

#[test]
fn a_waiter_waits_for_the_reads_of_both_alternatives() {
    let (store, patience) = (Store::new(), Yielding::new());
    let choose = |tx: &Tx| {
        let take = |name| {
            move |tx: &Tx| {
                let there = Var::new(name, 0i64).get(tx);
                Var::new("touched", 0i64).set(tx, &1);
                Stop::unless(there > 0).map(|()| name)
            }
        };
        tx.or_else(take("a"), take("b"))
    };
    let Attempt::Retry(txn) = store.attempt(choose) else { panic!("there is nothing yet") };
    let waiter = store.watch(&txn, patience.waker()).expect("nothing has changed");
    store.update(|_| vec![Write::Var { name: "unrelated".into(), value: Some(Value::from(1i64)) }]);
    assert!(!patience.0.0.load(Ordering::SeqCst));
    store.update(|_| vec![Write::Var { name: "b".into(), value: Some(Value::from(1i64)) }]);
    assert!(patience.wait());
    store.unwatch(waiter);
    assert!(store.watch(&txn, patience.waker()).is_none(), "it has changed already");
    assert_eq!(done(&store, choose).0, "b");
    assert_eq!(store.snapshot().var("touched"), Some(&Value::from(1i64)));
}

#[test]
fn a_value_of_another_type_in_a_table_is_reported_with_its_place() {
    let store = Store::new();
    store.update(|_| vec![entry(1, -1)]);
    let error = Table::<u64, u64>::new("free").try_get(&store.view(), &1).expect_err("-1 is not a u64");
    assert_eq!(error.to_string(), "free[1] holds -1, which is not of type u64");
    assert_eq!(store.view().cell(Cell::TableLen("free".into())), CellValue::Len(1));
}

#[test]
fn changes_that_readers_see_without_the_lock_have_been_counted_as_moves() {
    in_orders(1000, || {
        let store = Store::new();
        let writer = store.clone();
        let write = spawn(move || {
            writer.use_as_move(|_| {
                writer.coordination.restoring().unreachable.insert(Dpid(1));
                sync::step();
            });
        });
        let read = spawn(move || {
            let (is_there, seen) = store.use_restoring(|all| all.unreachable.contains(&Dpid(1)));
            assert_eq!(is_there, seen.at == 1, "{seen:?}");
        });
        join(vec![write, read]);
    });
}
