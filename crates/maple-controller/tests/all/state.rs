//! Tracked state from outside: transactions that wait, acknowledgements, and requests of other programs by the socket.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{LONG, Maple, SHORT, eventually};
use maple_controller::control::socket::{AskError, Request, StatePlace, StateRequest, ask, follow};
use maple_controller::control::transactions::ChangeError;
use maple_core::state::{Counter, Stop, Stopped, Table, Value, Var, Write};
use maple_core::{Mac, Net, PacketHandle, Route};
use maple_emulator::host::{FlowKind, Progress};
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_wire::Version;
use serde_json::json;

/// Routes to known hosts by the shortest path, unless the table says that the sender is blocked.
fn blocklist(pkt: &PacketHandle, net: &Net) -> Route {
    if Table::<Mac, bool>::new("blocked").contains(net, &pkt.eth_src()) {
        return Route::drop();
    }
    match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
        (Some(src), Some(dst)) => net.shortest_path(src, dst),
        _ => net.flood(),
    }
}

fn controller(name: &str) -> (Maple, PathBuf) {
    let path = std::env::temp_dir().join(format!("maple-state-{name}-{}.sock", std::process::id()));
    let socket = path.clone();
    let maple = Maple::with(move |options| {
        options.policy = Arc::new(blocklist);
        options.control.socket = Some(socket);
        options.workers.count = 2;
    });
    (maple, path)
}

fn key(table: &str, key: &str) -> StatePlace {
    StatePlace::Key(table.into(), json!(key))
}

#[test]
fn other_programs_set_get_delete_and_watch_state() {
    let (maple, path) = controller("watch");
    let ask = |state| ask(&path, &Request::State(state));
    let set = |place, value| ask(StateRequest::Set { place, value, settled: false, create: true });
    set(StatePlace::Var("mode".into()), json!("day")).unwrap();
    set(key("t", "a"), json!([1, { "ip": "10.0.0.1" }])).unwrap();
    assert_eq!(ask(StateRequest::Get(StatePlace::Var("mode".into()))).unwrap(), json!("day"));
    assert_eq!(
        ask(StateRequest::Get(StatePlace::Table("t".into()))).unwrap(),
        json!([["a", [1, { "ip": "10.0.0.1" }]]])
    );
    assert_eq!(ask(StateRequest::Get(key("t", "b"))).unwrap(), json!(null));
    assert!(matches!(set(key("t", "a"), json!({ "ip": 7 })), Err(AskError::Refused { .. })));
    let (handle, watched) = (maple.handle.clone(), path.clone());
    let (is_watched, begins) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let n = |n: i64| vec![Write::Var { name: "n".into(), value: Some(Value::from(n)) }];
        begins.recv().unwrap();
        for value in 1..=3 {
            handle.change(n(value)).unwrap();
            handle.change(n(value)).unwrap();
        }
    });
    let mut seen = Vec::new();
    follow(&watched, &Request::State(StateRequest::Watch(StatePlace::Var("n".into()))), |value| {
        seen.push(value);
        // The writer has ended by the third value.
        let _ = is_watched.send(());
        *seen.last().unwrap() != json!(3)
    })
    .unwrap();
    writer.join().unwrap();
    assert!(seen.is_sorted_by(|a, b| a.as_i64() < b.as_i64()) && seen.len() > 1, "each change once: {seen:?}");
    ask(StateRequest::Delete { place: key("t", "a"), settled: true }).unwrap();
    assert_eq!(ask(StateRequest::Get(StatePlace::Table("t".into()))).unwrap(), json!([]));
}

#[test]
fn one_connection_too_many_is_refused_with_the_reason() {
    let (_maple, path) = controller("full");
    let connected: Vec<UnixStream> = (0..16).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let get = Request::State(StateRequest::Get(StatePlace::Var("n".into())));
    let why = "the controller serves at most 16 programs at a time, and as many are connected";
    assert_eq!(ask(&path, &get).map_err(|error| error.to_string()), Err(why.to_owned()));
    assert_eq!(follow(&path, &get, |_| true).map_err(|error| error.to_string()), Err(why.to_owned()));
    drop(connected);
}

#[test]
fn names_that_nobody_knows_are_reported_and_keys_are_what_the_tables_keys_are() {
    let (maple, path) = controller("names");
    let ask = |state| ask(&path, &Request::State(state)).map_err(|error| error.to_string());
    let set_or = |create, place| ask(StateRequest::Set { place, value: json!(true), settled: false, create });
    let (set, only_known) = (|place| set_or(true, place), |place| set_or(false, place));
    assert_eq!(
        ask(StateRequest::Get(StatePlace::Table("bloked".into()))),
        Err("there is no table bloked, nor any other".to_owned())
    );
    assert_eq!(set(StatePlace::Var("mode".into())), Ok(json!({ "settled": false, "new": true })));
    assert_eq!(set(StatePlace::Var("mode".into())), Ok(json!({ "settled": false, "new": false })));
    assert_eq!(
        ask(StateRequest::Get(StatePlace::Var("mood".into()))),
        Err("there is no variable mood; did you mean mode?".to_owned())
    );
    let reported = |place| only_known(place).expect_err("nobody knows that name");
    assert_eq!(reported(StatePlace::Var("modes".into())), "there is no variable modes; did you mean mode?");
    assert_eq!(reported(key("mode", "night")), "mode is a variable, not a table: `--var` says so");
    assert_eq!(only_known(StatePlace::Var("mode".into())), Ok(json!({ "settled": false, "new": false })));
    maple.handle.store().declare_var("speed", Value::from(7i64));
    assert_eq!(ask(StateRequest::Get(StatePlace::Var("speed".into()))), Ok(json!(7)));
    // The table has addresses for keys, so that is what text means there.
    let address = |last| Mac([0, 0, 0, 0, 0, last]);
    let write = Write::Table { table: "blocked".into(), key: address(1).into(), value: Some(Value::from(true)) };
    maple.handle.change(vec![write]).unwrap();
    set(key("blocked", "00:00:00:00:00:02")).unwrap();
    let blocked = Table::<Mac, bool>::new("blocked");
    assert_eq!(blocked.entries(&maple.handle.store().view()), [(address(1), true), (address(2), true)]);
    assert_eq!(ask(StateRequest::Get(key("blocked", "00:00:00:00:00:02"))), Ok(json!(true)));
}

#[test]
fn a_thread_sleeps_until_what_its_transaction_read_has_changed() {
    let (maple, _) = controller("retry");
    fn free() -> Var<i64> {
        Var::new("free", 0)
    }
    let take = |tx: &maple_core::state::Tx| {
        let left = free().get(tx);
        Stop::unless(left > 0)?;
        free().set(tx, &(left - 1));
        Ok(left)
    };
    let late = maple.handle.atomically(Some(SHORT), take);
    assert_eq!(late, Err(ChangeError::Stopped(Stopped::TimedOut)));
    let handle = maple.handle.clone();
    let taken = std::thread::spawn(move || handle.atomically(Some(LONG), take));
    std::thread::sleep(Duration::from_millis(20));
    let set = |tx: &maple_core::state::Tx| {
        free().set(tx, &7);
        Ok(())
    };
    maple.handle.atomically(None, set).unwrap();
    assert_eq!(taken.join().unwrap(), Ok(7));
    assert_eq!(free().get(&maple.handle.store().view()), 6);
}

fn blocked_is(mac: Mac, value: Option<Value>) -> Vec<Write> {
    vec![Write::Table { table: "blocked".into(), key: mac.into(), value }]
}

/// Blocks a host and lets it go again and again: once that is settled, no switch has a rule for it.
#[test]
fn no_rule_of_the_old_value_is_left_when_a_write_is_settled() {
    let (maple, _) = controller("settled");
    let topology = Topology::parse("linear:3").unwrap();
    let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, Version::Of13)).unwrap();
    eventually("all links are found", || maple.handle.links().len() == 2);
    let ping = || {
        let flow = emulation.open_flow("h1", "h3", FlowKind::Ping).unwrap();
        let mut last = Progress::Running;
        eventually("the ping ends", || {
            let progress = emulation.with_network(move |net| net.host("h1").unwrap().flow(flow).unwrap().progress);
            last = progress.unwrap();
            last != Progress::Running
        });
        last == Progress::Done
    };
    eventually("the hosts know each other", ping);
    let mac = maple.handle.hosts().into_iter().find(|(_, host)| host.location.switch.0 == 1).expect("h1 was seen").0;
    let rules_of = |mac: Mac| {
        let all = (1..=3).flat_map(|n| maple.handle.rules(maple_wire::Dpid(n)).unwrap());
        all.filter(|r| r.leaf.is_some() && format!("{:?}", r.rule.matching).contains(&mac.to_string())).count()
    };
    for round in 0..3 {
        maple.handle.change(blocked_is(mac, Some(true.into()))).unwrap();
        assert_eq!(maple.handle.wait_until_settled(LONG), Ok(()), "round {round}");
        let withdrawn = maple.handle.stats().unwrap().total.engine.leaves_withdrawn;
        assert!(withdrawn > 0 && rules_of(mac) == 0, "round {round}");
        maple.handle.change(blocked_is(mac, None)).unwrap();
        assert!(ping(), "round {round}: it is let go");
    }
}

/// Checks that runs of the policy after an acknowledged write see it, whatever shard they are at.
#[test]
fn no_packet_is_counted_in_the_old_phase_after_the_acknowledgement() {
    let late = Arc::new(AtomicU64::new(0));
    let current = Arc::new(AtomicU64::new(0));
    let (seen, acknowledged) = (late.clone(), current.clone());
    let policy = move |_: &PacketHandle, net: &Net| {
        let before = acknowledged.load(Ordering::SeqCst);
        let phase = Var::new("phase", 0u64).get(net);
        if phase < before {
            seen.fetch_add(1, Ordering::SeqCst);
        }
        Counter::new("packets").add(net, 1);
        Route::flood()
    };
    let maple = Maple::with(|options| {
        options.policy = Arc::new(policy);
        options.workers.count = 2;
    });
    let topology = Topology::parse("linear:2").unwrap();
    let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, Version::Of13)).unwrap();
    eventually("the link is found", || maple.handle.links().len() == 1);
    for phase in 1..=20u64 {
        emulation.open_flow("h1", "h2", FlowKind::Ping).unwrap();
        let set = |tx: &maple_core::state::Tx| {
            Var::new("phase", 0u64).set(tx, &phase);
            Ok(())
        };
        maple.handle.atomically(None, set).unwrap();
        current.store(phase, Ordering::SeqCst);
    }
    eventually("the policy has seen packets", || Counter::new("packets").get(&maple.handle.store().view()) > 10);
    assert_eq!(late.load(Ordering::SeqCst), 0);
    let stats = maple.handle.stats().unwrap().total.engine;
    assert_eq!(stats.leaves, 0, "a policy that counts every packet is never cached");
}
