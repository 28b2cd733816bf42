//! Recordings of whole networks, run again: with several shards at once, with state that is written from outside, with
//! a reload, with a crash.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Maple, eventually};
use maple_controller::control::socket::Tolerance;
use maple_controller::record::{PolicySource, RecordOptions};
use maple_controller::replay::{Recorded, ReplayOptions, Replayed, replay};
use maple_core::engine::{Comparison, Time};
use maple_core::policy::Policy;
use maple_core::state::{Value, Write};
use maple_core::{Net, PacketHandle, Route};
use maple_emulator::traffic::TrafficOptions;
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_wire::{Dpid, Field, Version};

fn options(folder: &Path) -> RecordOptions {
    let policy = PolicySource::Builtin("builtin:test".into());
    RecordOptions { folder: folder.to_owned(), limit: 1 << 30, policy, compiler: "maple".into() }
}

/// Counts web flows, blocks what the table names, and routes the rest along shortest paths.
fn policy(pkt: &PacketHandle, net: &Net) -> Route {
    if pkt.is(Field::TcpDst, 80) {
        let count = net.var("web").and_then(|count| count.as_int()).unwrap_or_default();
        net.set_var("web", Value::Int(count + 1));
    }
    let port = pkt.get(Field::TcpDst).unwrap_or_default();
    if net.get("blocked", &Value::Int(port as i128)).is_some() {
        return Route::drop();
    }
    match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
        (Some(src), Some(dst)) => net.shortest_path(src, dst),
        _ => net.flood(),
    }
}

/// Floods everything.
fn flood(_: &PacketHandle, _: &Net) -> Route {
    Route::flood()
}

/// Records a run on a ring: traffic, a link that goes and comes back, ports that are blocked from outside, and another
/// policy.
fn recorded_run(folder: &Path, shards: usize, version: Version, other: Option<Arc<dyn Policy>>) -> u64 {
    let first: Arc<dyn Policy> = Arc::new(policy);
    let maple = Maple::with(|options_of| {
        options_of.policy = Arc::clone(&first);
        options_of.workers.count = shards;
        options_of.memory.record = Some(options(folder));
    });
    let topology = Topology::parse("ring:4").expect("a ring");
    let mut options = EmulationOptions::new(topology, maple.address, version);
    options.settle = Duration::from_millis(300);
    options.traffic =
        Some(TrafficOptions { flows_per_second: 60, duration: 3_000_000_000, ..TrafficOptions::default() });
    let emulation = Emulation::start(options).expect("it starts");
    eventually("all links are found", || maple.handle.links().len() == 4);
    for round in 0..8 {
        let port = Value::Int(if round % 2 == 0 { 443 } else { 22 });
        let value = (round % 4 < 2).then_some(Value::Bool(true));
        let write = Write::Table { table: "blocked".into(), key: port, value };
        maple.handle.change(vec![write]).expect("any value fits");
        match round {
            2 => emulation.link_down(Dpid(1), Dpid(2)).expect("there is such a link"),
            4 => emulation.link_up(Dpid(1), Dpid(2)).expect("there is such a link"),
            5 => {
                let recording = maple.handle.operations().recording().expect("it is recorded").clone();
                for policy in other.iter().chain([&first]) {
                    if !Arc::ptr_eq(policy, &first) {
                        let source = PolicySource::Builtin("builtin:other".into());
                        recording.name_policy(policy, &source).expect("it has no files");
                    }
                    maple.handle.reload(Arc::clone(policy), Tolerance::Percent(100)).expect("it is adopted");
                }
            }
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(350));
    }
    emulation.stop().expect("it stops");
    let flow_mods = maple.count("of_flow_mods");
    assert_eq!(maple.handle.operations().recording().and_then(|recording| recording.failure()), None);
    flow_mods
}

fn run_again(recorded: &Recorded, policies: &[Arc<dyn Policy>], until: Option<Time>) -> Replayed {
    let policies: BTreeMap<u64, Arc<dyn Policy>> = (0..).zip(policies.iter().cloned()).collect();
    let options = ReplayOptions { policies, until, progress: &|_| () };
    replay(recorded, options).expect("it is whole")
}

#[test]
fn a_run_of_several_shards_is_repeated_byte_for_byte() {
    for (shards, version) in [(1, Version::Of13), (2, Version::Of13), (2, Version::Of10), (4, Version::Of13)] {
        let folder = tempfile::tempdir().expect("a folder");
        let flow_mods = recorded_run(folder.path(), shards, version, Some(Arc::new(flood)));
        let recorded = Recorded::open(folder.path()).expect("it was recorded");
        assert_eq!((recorded.shards(), recorded.end()), (shards, Some("the controller stopped")));
        let replayed = run_again(&recorded, &[Arc::new(policy), Arc::new(flood)], None);
        assert_eq!(replayed.difference, None, "{shards} shards, OpenFlow {version}");
        assert!(!replayed.is_cut && replayed.counts.flow_mods >= flow_mods && flow_mods > 50, "{:?}", replayed.counts);
        assert_eq!(replayed.engines.len(), shards);
    }
}

#[test]
fn another_policy_is_found_by_its_first_message() {
    let folder = tempfile::tempdir().expect("a folder");
    recorded_run(folder.path(), 2, Version::Of13, None);
    let recorded = Recorded::open(folder.path()).expect("it was recorded");
    let replayed = run_again(&recorded, &[Arc::new(flood)], None);
    let difference = replayed.difference.expect("it is another policy");
    assert!(difference.at > Time(0) && !difference.what.is_empty(), "{difference:?}");
}

#[test]
fn a_replay_ends_at_a_time_with_the_state_of_then() {
    let folder = tempfile::tempdir().expect("a folder");
    recorded_run(folder.path(), 2, Version::Of13, None);
    let recorded = Recorded::open(folder.path()).expect("it was recorded");
    let whole = run_again(&recorded, &[Arc::new(policy)], None);
    let until = Time(whole.counts.at.0 / 2);
    let half = run_again(&recorded, &[Arc::new(policy)], Some(until));
    assert_eq!(half.difference, None);
    assert!(half.counts.at <= until && half.counts.events < whole.counts.events && half.counts.events > 0);
    assert!(half.store.snapshot().version() < whole.store.snapshot().version());
    assert!(half.engines.iter().any(|engine| engine.view().switches().next().is_some()), "engines can be asked");
}

#[test]
fn a_recording_that_ends_anywhere_is_repeated_up_to_there() {
    let folder = tempfile::tempdir().expect("a folder");
    recorded_run(folder.path(), 2, Version::Of13, None);
    let recorded = Recorded::open(folder.path()).expect("it was recorded");
    let segment = recorded.folder().join("00000001.segment");
    let whole = std::fs::read(&segment).expect("it is there");
    let mut last = u64::MAX;
    for cut in (1..12).map(|n| whole.len() * n / 12).rev() {
        std::fs::write(&segment, &whole[..cut]).expect("it can be written");
        let Ok(recorded) = Recorded::open(folder.path()) else { continue };
        let replayed = run_again(&recorded, &[Arc::new(policy)], None);
        assert_eq!(replayed.difference, None, "the first {cut} bytes");
        assert!(replayed.is_cut && replayed.counts.events <= last);
        last = replayed.counts.events;
    }
}

#[test]
fn a_comparison_says_which_packets_go_otherwise_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    recorded_run(folder.path(), 1, Version::Of13, None);
    let recorded = Recorded::open(folder.path()).expect("it was recorded");
    let no_ssh = |pkt: &PacketHandle, net: &Net| {
        if pkt.is(Field::TcpDst, 22) { Route::drop() } else { policy(pkt, net) }
    };
    let comparison = Comparison::new(Arc::new(no_ssh), Vec::new());
    let replayed = run_again(&recorded, &[comparison.wrap(Arc::new(policy))], None);
    assert_eq!(replayed.difference, None);
    let found = comparison.found();
    assert!(found.leaves > found.differences.len() && !found.differences.is_empty(), "{found:?}");
    assert!(
        found.differences.iter().all(|one| one.packet.summary.contains(":22") && one.after.route == "drop"),
        "{found:?}"
    );
}

#[test]
fn a_crash_names_the_recording_and_the_replay_comes_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let maple = Maple::with(|options_of| {
        options_of.policy = Arc::new(Crashing);
        options_of.memory.record = Some(options(folder.path()));
    });
    let topology = Topology::parse("linear:2").expect("a line");
    let mut of_network = EmulationOptions::new(topology, maple.address, Version::Of13);
    of_network.settle = Duration::from_millis(300);
    of_network.traffic = Some(TrafficOptions { duration: 2_000_000_000, ..TrafficOptions::default() });
    let emulation = Emulation::start(of_network).expect("it starts");
    eventually("the shard panics", || maple.handle.failure().is_some());
    let failure = maple.handle.failure().expect("it has failed").to_owned();
    drop(emulation);
    drop(maple);
    let recorded = Recorded::open(folder.path()).expect("it was recorded");
    assert!(
        failure.contains("shard 0 panicked") && failure.contains(&recorded.folder().display().to_string()),
        "{failure}"
    );
    let replayed = run_again(&recorded, &[Arc::new(Crashing)], None);
    let what = replayed.difference.expect("it panics there too").what;
    assert!(what.contains("the replay panics there too: the batch is too hard"), "{what}");
}

/// A policy whose panic ends its shard.
struct Crashing;

impl Policy for Crashing {
    fn decide(&self, _: &PacketHandle, net: &Net) -> Result<Route, maple_core::PolicyError> {
        Ok(net.flood())
    }

    fn decide_batch(&self, runs: &[maple_core::Run]) -> Vec<Result<Route, maple_core::PolicyError>> {
        assert!(runs.is_empty(), "the batch is too hard");
        Vec::new()
    }
}
