//! Whole networks of emulated switches: links, edge ports, hosts, restarts, requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{LONG, Maple, eventually};
use maple_controller::control::socket::{AskError, Invalidate, Request, Show, ask};
use maple_controller::{Controller, ControllerOptions, Stopped};
use maple_core::engine::LeafSelection;
use maple_core::network::PortKind;
use maple_core::{Location, Net, PacketHandle, Route};
use maple_emulator::host::{FlowKind, Progress};
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_wire::{Dpid, PortNo, Version};

const BOTH: [Version; 2] = [Version::Of10, Version::Of13];

/// Routes to known hosts by the shortest path, and to others everywhere.
fn shortest_path(pkt: &PacketHandle, net: &Net) -> Route {
    match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
        (Some(src), Some(dst)) => net.shortest_path(src, dst),
        _ => net.flood(),
    }
}

/// Starts a controller whose probes may take `flight`, long enough for a computer that is busy with other work.
fn controller(workers: usize, flight: Duration) -> Maple {
    Maple::with(|options| {
        options.policy = Arc::new(shortest_path);
        options.workers.count = workers;
        options.openflow.timing.flight = flight;
    })
}

/// Starts a controller and a network, and waits until links and edge ports are found.
fn network(topology: &str, version: Version, workers: usize) -> (Maple, Emulation) {
    network_of(controller(workers, LONG), topology, version)
}

fn network_of(maple: Maple, topology: &str, version: Version) -> (Maple, Emulation) {
    let topology = Topology::parse(topology).unwrap();
    let (links, hosts) = (topology.links.len(), topology.hosts.len());
    let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, version)).unwrap();
    eventually("all links and edge ports are found", || {
        maple.handle.links().len() == links && edge_ports(&maple) == hosts
    });
    (maple, emulation)
}

fn edge_ports(maple: &Maple) -> usize {
    let snapshot = maple.handle.snapshot();
    let ports = snapshot.switches().flat_map(|(dpid, _)| snapshot.ports_of(dpid).collect::<Vec<_>>());
    ports.filter(|(_, info)| info.kind == PortKind::Edge).count()
}

/// Sends a ping and returns how it ended.
fn ping(emulation: &Emulation, from: &'static str, to: &'static str) -> Progress {
    let flow = emulation.open_flow(from, to, FlowKind::Ping).unwrap();
    let start = Instant::now();
    loop {
        let progress = emulation.with_network(move |network| network.host(from).unwrap().flow(flow).unwrap().progress);
        match progress.unwrap() {
            Progress::Running => assert!(start.elapsed() < 2 * LONG, "a ping ends"),
            progress => return progress,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn links_and_edge_ports_are_found_in_both_versions_and_over_several_shards() {
    for version in BOTH {
        for workers in [1, 3] {
            let (maple, emulation) = network("ring:4", version, workers);
            let shards: std::collections::BTreeSet<u8> = maple.connected().iter().map(|s| s.shard.0).collect();
            assert_eq!(shards.len(), workers.min(4), "switches are spread");
            assert_eq!(maple.count("lldp_forged") + maple.count("lldp_replayed"), 0);
            emulation.stop().unwrap();
        }
    }
}

#[test]
fn hosts_reach_each_other_and_are_known() {
    for version in BOTH {
        let (maple, emulation) = network("ring:4", version, 2);
        for (from, to) in [("h1", "h3"), ("h3", "h1"), ("h2", "h4"), ("h4", "h1")] {
            assert_eq!(ping(&emulation, from, to), Progress::Done, "{version}: {from} to {to}");
        }
        assert_eq!(maple.handle.hosts().len(), 4);
        assert!(maple.count("of_packet_ins") > 0 && maple.count("of_flow_mods") > 0);
        // The rules that the controller believes to be there are those that the switches have.
        eventually("the rules are the same", || {
            maple.connected().iter().all(|switch| {
                let installed = emulation.rules(switch.dpid).unwrap();
                let believed = maple.handle.rules(switch.dpid).unwrap();
                installed.len() == believed.len()
                    && installed.iter().all(|(table, rule)| {
                        believed.iter().any(|r| {
                            (r.table_id, r.rule.priority, &r.rule.matching) == (*table, rule.priority, &rule.matching)
                        })
                    })
            })
        });
    }
}

#[test]
fn a_link_vanishes_at_once_when_its_port_goes_down_and_comes_back() {
    let (maple, emulation) = network("ring:4", Version::Of13, 2);
    for _ in 0..3 {
        emulation.link_down(Dpid(1), Dpid(2)).unwrap();
        // This is long before the link ages out.
        eventually("the link is gone", || maple.handle.links().len() == 3);
        assert_eq!(ping(&emulation, "h1", "h2"), Progress::Done, "the long way round");
        emulation.link_up(Dpid(1), Dpid(2)).unwrap();
        eventually("the link is back", || maple.handle.links().len() == 4);
    }
    assert_eq!(maple.count("lldp_replayed"), 0);
}

#[test]
fn a_flow_whose_link_fails_goes_on_by_another_way_without_the_controller() {
    for version in BOTH {
        let (maple, emulation) = network("ring:4", version, 2);
        for _ in 0..3 {
            assert_eq!(ping(&emulation, "h1", "h2"), Progress::Done, "{version}");
        }
        let engine = || maple.handle.stats().unwrap().total.engine;
        emulation.link_down(Dpid(1), Dpid(2)).unwrap();
        eventually("both directions have moved", || engine().routes_rerouted >= 2);
        let before = engine();
        // The rules may still be on their way to the switches.
        eventually("it goes on", || ping(&emulation, "h1", "h2") == Progress::Done);
        assert_eq!((engine().packet_ins, engine().runs), (before.packet_ins, before.runs), "{version}");
    }
}

#[test]
fn hosts_reach_each_other_over_a_switch_whose_tables_are_too_small_for_all() {
    for version in BOTH {
        let maple = controller(1, LONG);
        let topology = Topology::parse("tree:1,6").unwrap();
        let mut options = EmulationOptions::new(topology, maple.address, version);
        options.network.switch.table_size = 12;
        let emulation = Emulation::start(options).unwrap();
        eventually("all edge ports are found", || edge_ports(&maple) == 6);
        let hosts = ["h1", "h2", "h3", "h4", "h5", "h6"];
        for _ in 0..2 {
            for (from, to) in hosts.into_iter().flat_map(|from| hosts.map(|to| (from, to))).filter(|(a, b)| a != b) {
                assert_eq!(ping(&emulation, from, to), Progress::Done, "{version}: {from} to {to}");
            }
        }
        let engine = maple.handle.stats().unwrap().total.engine;
        assert!((1..10).contains(&engine.refused_rules), "{version}: {engine:?}");
        assert!(engine.capacity_refusals > 0 && engine.stats_requests > 0, "{version}: {engine:?}");
        eventually("some leaves made room", || maple.handle.stats().unwrap().total.engine.leaves_evicted > 0);
    }
}

#[test]
fn links_stay_while_a_slow_policy_holds_up_their_shards() {
    // This is longer than a finding is valid (1.4 s), and than a probe can be under way.
    const SLOW: Duration = Duration::from_millis(1600);
    for workers in [1, 2] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let maple = Maple::with(|options| {
            options.workers.count = workers;
            options.openflow.timing.interval = Duration::from_millis(400);
            options.openflow.timing.flight = Duration::from_secs(1);
            options.policy = Arc::new(move |pkt: &PacketHandle, net: &Net| {
                counted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(SLOW);
                shortest_path(pkt, net)
            });
        });
        let topology = Topology::parse("ring:3").unwrap();
        let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, Version::Of13)).unwrap();
        eventually("all links are found", || maple.handle.links().len() == 3 && edge_ports(&maple) == 3);
        for host in ["h1", "h2", "h3"] {
            emulation.with_network(move |network| network.announce(host)).unwrap().unwrap();
        }
        eventually("the policy ran for each host", || calls.load(Ordering::Relaxed) >= 3);
        // The question waits until the shards have time, and so does this.
        assert_eq!(maple.count("lldp_replayed"), 0, "{workers} workers");
        // Four rounds of probes take longer than a finding is valid.
        maple.wait_for("lldp_probes", maple.count("lldp_probes") + 4 * 9);
        let notices = maple.notices();
        let lost = notices.iter().filter(|notice| notice.starts_with("link") && notice.ends_with("down"));
        assert_eq!((lost.count(), maple.handle.links().len()), (0, 3), "{workers} workers: {notices:?}");
    }
}

#[test]
fn a_switch_that_restarted_with_an_empty_table_works_again() {
    for version in BOTH {
        let (maple, emulation) = network("linear:3", version, 2);
        assert_eq!(ping(&emulation, "h1", "h3"), Progress::Done);
        emulation.restart_switch(Dpid(2)).unwrap();
        eventually("it went and came", || maple.count("of_dp_connections") >= 4);
        eventually("its links are back", || maple.handle.links().len() == 2);
        eventually("it is reached", || ping(&emulation, "h1", "h3") == Progress::Done);
    }
}

#[test]
fn a_policy_that_panics_stops_nothing_and_is_reported_once() {
    let policy = |_: &PacketHandle, _: &Net| -> Route { panic!("f is broken") };
    let maple = Maple::with(|options| options.policy = Arc::new(policy));
    let topology = Topology::parse("linear:1").unwrap();
    let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, Version::Of13)).unwrap();
    eventually("the edge port is found", || edge_ports(&maple) == 1);
    eventually("it is counted", || {
        emulation.with_network(|network| network.announce("h1")).unwrap().unwrap();
        maple.handle.stats().unwrap().total.engine.policy_errors >= 3
    });
    let errors = maple.handle.errors();
    let reported: Vec<_> =
        errors.iter().filter(|error| error.text.contains("the policy panicked: f is broken")).collect();
    assert_eq!(reported.len(), 1);
    assert!(reported[0].packets >= Some(3), "{reported:?}");
    assert_eq!((maple.handle.failure(), maple.connected().len()), (None, 1));
}

#[test]
fn a_controller_that_has_stopped_says_so_to_who_still_has_a_handle() {
    let mut options = ControllerOptions::new(Arc::new(shortest_path));
    options.openflow.listen = vec![([127, 0, 0, 1], 0).into()];
    options.workers.pin = false;
    let controller = Controller::start(options).expect("the controller starts");
    let handle = controller.handle();
    assert_eq!((handle.operations().is_running(), handle.invalidate(LeafSelection::All)), (true, Ok(())));
    handle.stop();
    assert_eq!(controller.wait(), Ok(()), "it did not fail");
    let stopped = Stopped("the controller has stopped".into());
    assert!(!handle.operations().is_running());
    assert_eq!(handle.invalidate(LeafSelection::All), Err(stopped));
}

#[test]
fn the_control_socket_answers_until_the_controller_ends() {
    let path = std::env::temp_dir().join(format!("maple-control-{}.sock", std::process::id()));
    let maple = Maple::with(|options| {
        options.policy = Arc::new(shortest_path);
        options.control.socket = Some(path.clone());
    });
    let topology = Topology::parse("linear:2").unwrap();
    let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, Version::Of13)).unwrap();
    eventually("the link is found", || maple.handle.links().len() == 1 && edge_ports(&maple) == 2);
    assert_eq!(ping(&emulation, "h1", "h2"), Progress::Done);
    let show = |what| ask(&path, &Request::Show(what)).unwrap();
    assert_eq!(
        (show(Show::Switches)[0]["version"].as_str(), &show(Show::Errors)),
        (Some("1.3"), &serde_json::json!([]))
    );
    let rules = show(Show::Rules(Some("1".into())));
    let rules = rules[0]["rules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["match"].as_str().unwrap().contains("dl_type=0x88cc")), "{rules:?}");
    assert_eq!(ask(&path, &Request::Invalidate(Invalidate::All)).unwrap(), true);
    eventually("the leaves are gone", || maple.handle.stats().unwrap().total.engine.leaves == 0);
    let refused = ask(&path, &Request::Show(Show::Rules(Some("99".into()))));
    assert!(
        matches!(refused, Err(AskError::Refused { error, .. }) if error == "switch 0000000000000099 is not connected")
    );
    drop(maple);
    assert!(matches!(ask(&path, &Request::Show(Show::Stats)), Err(AskError::Unreachable { .. })));
    assert!(!path.exists(), "the socket is removed");
}

#[test]
fn a_controller_says_which_address_it_can_not_have() {
    let maple = Maple::start();
    let mut options = ControllerOptions::new(Arc::new(shortest_path));
    options.openflow.listen = vec![maple.address];
    let error = Controller::start(options).expect_err("the address is taken").to_string();
    assert!(error.starts_with(&format!("can't listen on {}: ", maple.address)), "{error}");
}

#[test]
fn the_snapshot_has_the_known_ports_and_hosts() {
    let (maple, emulation) = network("linear:2", Version::Of10, 1);
    assert_eq!(ping(&emulation, "h1", "h2"), Progress::Done);
    let (a, b) = maple.handle.links()[0];
    let snapshot = maple.handle.snapshot();
    assert_eq!((snapshot.peer(a), snapshot.peer(b)), (Some(b), Some(a)));
    for (_, info) in maple.handle.hosts() {
        assert_eq!(snapshot.port(info.location).unwrap().kind, PortKind::Edge);
        assert_eq!(info.ipv4.len(), 1);
    }
    assert_eq!(snapshot.port(Location::new(Dpid(1), PortNo(77))), None);
}
