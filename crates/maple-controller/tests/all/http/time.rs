//! The last 24 hours: what was at a moment, and what differs at a later one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use maple_controller::record::{PolicySource, RecordOptions};
use maple_core::network::Mac;
use maple_core::{Net, PacketHandle, Route};
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_wire::{Dpid, Version};
use serde_json::{Value, json};

use super::{Ask, Served, TOKENS};
use crate::common::eventually;
use crate::control::Gate;

/// Creates a controller with a state file.
fn served(folder: &Path) -> Served {
    let state = folder.join("state");
    Served::new(TOKENS, |options| options.memory.state_file = Some(state))
}

fn ring(served: &Served) -> Emulation {
    let topology = Topology::parse("ring:4").expect("a topology");
    let emulation =
        Emulation::start(EmulationOptions::new(topology, served.maple.address, Version::Of13)).expect("it starts");
    eventually("the hosts are seen", || {
        for name in ["h1", "h2"] {
            emulation.with_network(|network| network.announce(name)).expect("it runs").expect("there is such a host");
        }
        served.maple.handle.hosts().len() == 2
    });
    emulation
}

fn count(answer: &Value, what: &str) -> usize {
    answer[what].as_array().expect("rows").len()
}

/// Waits until the newest moment that is kept has this many links and hosts. Returns it.
fn kept(served: &Served, links: usize, hosts: usize) -> u64 {
    let mut time = 0;
    eventually("it is kept", || {
        let now = served.read("/v1/time/at");
        time = now["time"].as_u64().expect("a moment");
        (count(&now, "links"), count(&now, "hosts")) == (links, hosts)
    });
    time
}

#[test]
fn a_moment_and_the_difference_of_two_are_reported_also_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = served(folder.path());
    let emulation = ring(&first);
    let well = kept(&first, 4, 2);
    emulation.link_down(Dpid(1), Dpid(2)).expect("there is such a link");
    kept(&first, 3, 2);
    // A change is committed before the line about it is written.
    let has_line = |line: &Value| line["area"] == "topology" && line["text"].as_str().expect("text").contains("link");
    let is_shown = |from: u64| {
        let changes = first.read(&format!("/v1/time/changes?from={from}"));
        changes["lines"].as_array().expect("lines").iter().any(has_line)
    };
    eventually("the end of the link is reported", || is_shown(well));
    let down = kept(&first, 3, 2);
    emulation.link_up(Dpid(1), Dpid(2)).expect("there is such a link");
    kept(&first, 4, 2);
    eventually("the return of the link is reported", || is_shown(down));
    let up = kept(&first, 4, 2);

    let link = json!({ "from": { "switch": "0000000000000001", "port": 2 }, "to": { "switch": "0000000000000002", "port": 2 } });
    let check = |served: &Served| {
        assert_eq!(count(&served.read(&format!("/v1/time/at?t={well}")), "links"), 4);
        let then = served.read(&format!("/v1/time/at?t={down}"));
        assert_eq!((count(&then, "links"), count(&then, "switches"), &then["pending"]), (3, 4, &json!(0)));
        assert!(!then["links"].as_array().expect("links").contains(&link), "{then}");
        let changes = served.read(&format!("/v1/time/changes?from={well}&to={down}"));
        let mut gone = link.clone();
        gone["how"] = "gone".into();
        assert_eq!((&changes["links"], &changes["hosts"]), (&json!([gone]), &json!([])));
        let ports = changes["ports"].as_array().expect("ports");
        assert!(ports.iter().any(|port| port["how"] == "down" && port["after"]["up"] == false), "{changes}");
        let lines = changes["lines"].as_array().expect("lines");
        assert!(lines.iter().any(has_line), "{changes}");
        let back = served.read(&format!("/v1/time/changes?from={down}&to={up}"));
        assert_eq!(back["links"][0]["how"], "added");
        let nothing = served.read(&format!("/v1/time/changes?from={well}&to={up}"));
        assert_eq!((&nothing["links"], &nothing["switches"]), (&json!([]), &json!([])), "it came back");
        assert!(count(&nothing, "lines") >= 2, "and that it was away is reported");
    };
    check(&first);
    let places: Vec<Value> =
        first.read(&format!("/v1/time/at?t={up}"))["switches"].as_array().expect("switches").clone();
    assert!(places.iter().all(|one| one["x"].is_number() && one["y"].is_number()), "{places:?}");
    eventually("rates are kept", || count(&first.read("/v1/time"), "rates") >= 2);
    drop(emulation);
    drop(first);
    assert!(folder.path().join("state.timeline/00000001.segment").is_file());

    let second = served(folder.path());
    eventually("what was kept is read", || second.read("/v1/time")["from"].as_u64().is_some_and(|from| from < well));
    check(&second);
    eventually("this run keeps too", || count(&second.read("/v1/time"), "gaps") == 1);
    let all = second.read("/v1/time");
    assert_eq!((&all["in_files"], &all["recording"]), (&json!(true), &Value::Null));
    assert!(count(&all, "rates") >= 2);
    let gap = &all["gaps"][0];
    assert_eq!((&gap["why"], &gap["text"]), (&json!("stopped"), &json!("the controller did not run")));
    let (end, begin) = (gap["from"].as_u64().expect("a moment"), gap["to"].as_u64().expect("a moment"));
    assert!(up <= end && end < begin, "{gap}");
    let said = second.get(&format!("/v1/time/at?t={}", (end + begin) / 2));
    assert_eq!(said.refusal(), (404, "t".to_owned()));
    assert!(said.json()["detail"].as_str().expect("text").contains("the controller did not run from"), "{said:?}");
    assert_eq!(second.read("/v1/time/changes")["gaps"], all["gaps"]);
}

#[test]
fn a_moment_that_is_not_kept_or_is_none_is_refused_with_its_name() {
    let served = Served::new(TOKENS, |_| {});
    let mut all = Value::Null;
    eventually("two moments are kept", || {
        all = served.read("/v1/time");
        all["from"].as_u64() < all["to"].as_u64()
    });
    assert_eq!(all["in_files"], false);
    let to = all["to"].as_u64().expect("a moment");
    let wrong = [
        ("at?t=5".to_owned(), 404, "t"),
        (format!("at?t={}", to + 3_600_000), 404, "t"),
        ("at?t=yesterday".to_owned(), 400, "t"),
        ("at?t=-1".to_owned(), 400, "t"),
        ("at?u=1".to_owned(), 400, "u"),
        ("changes?from=5".to_owned(), 404, "from"),
        ("changes?to=5".to_owned(), 404, "to"),
        ("changes?to=x".to_owned(), 400, "to"),
        (format!("changes?from={to}&to={}", all["from"]), 400, "to"),
    ];
    for (target, status, field) in wrong {
        let said = served.ask(&Ask::get(&format!("/v1/time/{target}")));
        assert_eq!(said.refusal(), (status, field.to_owned()), "{target}: {}", said.body);
    }
}

/// Opens a gate when it goes, also when a test fails: the controller would wait for ever.
struct OpenAtTheEnd(Gate);

impl Drop for OpenAtTheEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[test]
fn while_a_worker_hangs_what_others_see_is_kept_as_it_happens() {
    let (gate, is_trying) = (Gate::default(), Arc::new(AtomicBool::new(false)));
    let (of_policy, waits) = (gate.clone(), Arc::clone(&is_trying));
    let policy = move |packet: &PacketHandle, _: &Net| {
        if packet.eth_src() == Mac([0, 0, 0, 0, 0, 3]) && waits.load(Ordering::SeqCst) {
            of_policy.pass();
        }
        Route::flood()
    };
    let served = Served::new(TOKENS, |options| {
        (options.policy, options.workers.count) = (Arc::new(policy), 2);
        // Whoever waits for a worker waits longer than this test.
        options.control.deadlines.query = Duration::from_secs(3600);
    });
    let emulation = ring(&served);
    kept(&served, 4, 2);
    let at = |dpid: u64| {
        let all = served.maple.connected();
        all.iter().find(|switch| switch.dpid == Dpid(dpid)).map(|switch| switch.shard)
    };
    // A switch of the other worker, and the next one in the ring.
    let other = [1, 2, 4].into_iter().find(|dpid| at(*dpid) != at(3)).expect("each has some");
    let _guard = OpenAtTheEnd(gate.clone());
    is_trying.store(true, Ordering::SeqCst);
    eventually("a worker hangs", || {
        emulation.with_network(|network| network.announce("h3")).expect("it runs").expect("there is such a host");
        gate.is_met()
    });
    eventually("it is late", || served.read("/v1/time/at")["late"] == true);
    emulation.link_down(Dpid(other), Dpid(other % 4 + 1)).expect("there is such a link");
    eventually("the end of the link is kept", || count(&served.read("/v1/time/at"), "links") == 3);
    assert_eq!(served.read("/v1/time/at")["late"], true);
    emulation.link_up(Dpid(other), Dpid(other % 4 + 1)).expect("there is such a link");
    gate.open();
    eventually("all is well again", || {
        let now = served.read("/v1/time/at");
        now["late"] == false && count(&now, "links") == 4
    });
    let gaps = served.read("/v1/time")["gaps"].clone();
    assert!(gaps.as_array().expect("gaps").iter().all(|gap| gap["why"] == "late") && gaps[0].is_object(), "{gaps}");
}

#[test]
fn a_moment_names_the_command_that_shows_it_exactly_while_the_run_is_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let recordings = folder.path().join("the recordings");
    let options = RecordOptions {
        folder: recordings.clone(),
        limit: 1 << 30,
        policy: PolicySource::Program,
        compiler: "maple".into(),
    };
    let state = folder.path().join("state");
    let recorded = Served::new(TOKENS, |own| {
        own.memory.record = Some(options);
        own.memory.state_file = Some(state);
    });
    let emulation = ring(&recorded);
    let time = kept(&recorded, 4, 2);
    let then = recorded.read(&format!("/v1/time/at?t={time}"));
    let command = then["replay"].as_str().expect("a command").to_owned();
    let run = recorded.maple.handle.operations().recording().expect("it is recorded").folder().display().to_string();
    let until = command.strip_prefix(&format!("maple replay '{run}' --until ")).expect("the recording of this run");
    let until = until.strip_suffix(" --network").expect("it prints the network");
    // The millisecond after that of the moment, by the clock of the run: both clocks were read at almost the same time.
    let seconds = |text: &str| text.parse::<f64>().expect("seconds");
    let day = Duration::from_millis(time % 86_400_000).as_secs_f64();
    let parts: Vec<&str> = until.trim_end_matches('Z').split(['T', ':']).collect();
    let reported = seconds(parts[1]) * 3600.0 + seconds(parts[2]) * 60.0 + seconds(parts[3]);
    let apart = (reported - day).abs();
    assert!(apart.min(86_400.0 - apart) < 2.0, "{until} {time}");
    // What happens just before the end is kept too.
    eventually("another host is seen", || {
        emulation.with_network(|network| network.announce("h4")).expect("it runs").expect("there is such a host");
        recorded.maple.handle.hosts().len() == 3
    });
    let last = kept(&recorded, 4, 3);
    drop(recorded);
    drop(emulation);

    // The next run is not recorded, and the moment was before it.
    let next = served(folder.path());
    eventually("what was kept is read", || next.read("/v1/time")["from"].as_u64().is_some_and(|from| from <= time));
    assert_eq!(next.read(&format!("/v1/time/at?t={time}"))["replay"], Value::Null);
    assert_eq!(next.read("/v1/time/at")["replay"], Value::Null);
    assert_eq!(count(&next.read(&format!("/v1/time/at?t={last}")), "hosts"), 3);
}
