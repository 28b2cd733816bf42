//! Several controllers of one network, over TCP: its switches obey the one that is their master.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{LONG, Maple};
use crate::server::{self, Etcd, PATIENCE};
use maple_controller::cluster::{ClusterMember, ClusterOptions};
use maple_controller::control::socket::{
    AskError, ClusterRequest, Invalidate, Reload, Request, Show, StatePlace, StateRequest, Tolerance, ask,
};
use maple_controller::control::transactions::ChangeError;
use maple_controller::session::SwitchInfo;
use maple_controller::{ClusterRole, Controller, ControllerOptions, Notice, RoleError, RoleNews, StartError};
use maple_core::state::{Mismatch, Value, Write};
use maple_core::{Net, PacketHandle, Route};
use maple_emulator::host::{FlowKind, Progress};
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_handlers::{Handlers, LearningSwitch};
use maple_wire::{Dpid, Version};
use serde_json::json;

/// The number of switches, links and hosts.
pub const RING: usize = 4;

/// Routes to known hosts by the shortest path, and to others everywhere.
pub fn shortest_path(pkt: &PacketHandle, net: &Net) -> Route {
    match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
        (Some(src), Some(dst)) => net.shortest_path(src, dst),
        _ => net.flood(),
    }
}

/// Waits until something holds, however busy the computer is with several controllers and etcd.
pub fn in_time(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn member() -> Maple {
    Maple::with(|options| {
        options.policy = Arc::new(shortest_path);
        options.workers.count = 2;
        // Long enough for a computer that is busy with other work.
        options.openflow.timing.flight = LONG;
        options.openflow.in_cluster = true;
    })
}

/// Tells all what they are.
fn elect(members: &[Maple], leader: usize, generation: u64) {
    for (at, member) in members.iter().enumerate() {
        let leads = (at == leader).then_some(generation);
        let role = ClusterRole { own_generation: leads, latest: Some(generation), has_lease: true };
        assert_eq!(member.handle.operations().set_role(role), Ok(()));
    }
}

/// Waits until a member serves all switches, and knows the network.
pub fn leads(member: &Maple) {
    in_time("it serves the network", || member.connected().len() == RING && member.handle.links().len() == RING);
}

/// Waits until a member has no switch.
fn follows(member: &Maple) {
    in_time("it is a standby", || member.connected().is_empty());
}

/// Opens flows between these hosts until one ends well. The first ones may be lost while hosts are not known yet.
pub fn reaches(emulation: &Emulation, from: &'static str, to: &'static str) {
    in_time(&format!("{from} reaches {to}"), || {
        let flow = emulation.open_flow(from, to, FlowKind::Ping).unwrap();
        let progress =
            || emulation.with_network(move |network| network.host(from).unwrap().flow(flow).unwrap().progress);
        let mut is_done = false;
        in_time("a ping ends", || match progress().unwrap() {
            Progress::Running => false,
            progress => {
                is_done = progress == Progress::Done;
                true
            }
        });
        is_done
    });
}

#[test]
fn the_switches_obey_one_of_three_controllers_after_the_other() {
    for version in [Version::Of10, Version::Of13] {
        let members = [0; 3].map(|_| member());
        let mut options = EmulationOptions::new(Topology::ring(RING as u32), members[0].address, version);
        options.controllers = members.iter().map(|member| member.address).collect();
        let emulation = Emulation::start(options).unwrap();
        for member in &members {
            let mut standing_by = BTreeSet::new();
            in_time("all switches have it as a standby", || {
                standing_by.extend(member.handle.notices().try_iter().filter_map(|notice| match notice {
                    Notice::Role { dpid, news: RoleNews::Standby, .. } => Some(dpid),
                    _ => None,
                }));
                standing_by.len() == RING
            });
        }
        let stats = emulation.snapshot().unwrap();
        assert!(stats.switches.iter().all(|switch| switch.flow_mods == 0 && switch.packet_outs == 0), "nobody leads");

        elect(&members, 0, 5);
        leads(&members[0]);
        reaches(&emulation, "h1", "h3");
        assert!(members[1..].iter().all(|other| other.count("of_flow_mods") + other.count("of_packet_outs") == 0));
        assert!(members[1..].iter().all(|other| other.count("of_packet_ins") == 0));

        // Another one takes over. The first one keeps what it knew, and says nothing more.
        elect(&members, 1, 6);
        leads(&members[1]);
        follows(&members[0]);
        assert_eq!(members[0].handle.switches().unwrap().len(), RING, "they are there without it");
        let said = |member: &Maple| member.count("of_flow_mods") + member.count("of_packet_outs");
        let before = said(&members[0]);
        reaches(&emulation, "h2", "h4");
        assert_eq!((said(&members[0]), said(&members[2])), (before, 0));

        // A switch that restarts forgets whose it was.
        emulation.restart_switch(Dpid(1)).unwrap();
        in_time("it has rules again", || !emulation.rules(Dpid(1)).unwrap().is_empty());
        leads(&members[1]);
        assert_eq!((said(&members[0]), said(&members[2])), (before, 0));

        // The first one again, and the second one has gone.
        let [first, second, third] = members;
        drop(second);
        let members = [first, third];
        elect(&members, 0, 7);
        leads(&members[0]);
        reaches(&emulation, "h1", "h4");
        assert_eq!(said(&members[1]), 0);
        emulation.stop().unwrap();
    }
}

#[test]
fn the_only_controller_has_no_role() {
    let maple = Maple::start();
    let role = ClusterRole { own_generation: Some(5), latest: Some(5), has_lease: true };
    assert_eq!(maple.handle.operations().set_role(role), Err(RoleError::Alone));
    assert_eq!((maple.handle.role(), member().handle.role()), (None, Some(ClusterRole::default())));
}

#[test]
fn handlers_are_refused_in_a_cluster() {
    let handlers = Handlers::new(|_: &SwitchInfo| LearningSwitch::new());
    let mut options = ControllerOptions::for_programs(Arc::new(handlers));
    options.openflow.in_cluster = true;
    assert!(matches!(Controller::start(options).err(), Some(StartError::HandlersInCluster)));
}

/// Returns the reason why a controller that is one of several does not start with these options.
fn refusal(choose: impl FnOnce(&mut ControllerOptions)) -> String {
    let mut options = ControllerOptions::new(Arc::new(shortest_path));
    options.openflow.in_cluster = true;
    choose(&mut options);
    Controller::start(options).expect_err("it is refused").to_string()
}

#[test]
fn options_for_a_single_controller_are_refused_in_a_cluster() {
    let versions = refusal(|options| options.store.declare_version("blocked", 2, None).expect("it is the first"));
    assert!(versions.starts_with("the table blocked has versions, and in a cluster"), "{versions}");
    let file = refusal(|options| options.memory.state_file = Some("/nowhere/state".into()));
    assert!(file.starts_with("a state file: not for a controller that is one of several"), "{file}");
    let snooping = refusal(|options| {
        options.snooping =
            maple_controller::snoop::Snooping::default().with_names(&["igmp".into()], &[], false).unwrap();
    });
    assert!(snooping.starts_with("snooping on IGMP, MLD or DHCP: "), "{snooping}");
}

/// Returns what the controller answers, or why it does not.
pub fn answered(maple: &Maple, request: &Request) -> Result<serde_json::Value, String> {
    ask(&maple.handle, request).map_err(|error| match error {
        AskError::Refused { error, .. } => error,
        other => panic!("{other}"),
    })
}

#[test]
fn writes_are_refused_before_the_controller_has_joined_its_cluster() {
    let maple = member();
    elect(std::slice::from_ref(&maple), 0, 5);
    let error = maple.handle.change(mode("day"));
    assert!(matches!(error, Err(ChangeError::Mismatch(Mismatch::Closed { .. }))), "{error:?}");
    let place = StatePlace::Key("blocked".into(), json!("x"));
    let set = StateRequest::Set { place, value: json!(true), settled: false, create: true };
    let error = answered(&maple, &Request::State(set)).expect_err("it is closed");
    assert!(
        error.starts_with("the table blocked can't be written: this controller has not joined its cluster"),
        "{error}"
    );
}

#[test]
fn a_standby_answers_for_itself_and_not_for_the_network() {
    let maple = member();
    let standby = "this controller is a standby, and knows nothing of the network";
    let about_the_network = [
        Request::Show(Show::Switches),
        Request::Show(Show::Rules(None)),
        Request::Show(Show::Hosts),
        Request::Show(Show::Time),
        Request::State(StateRequest::Delete { place: StatePlace::Var("mode".into()), settled: false }),
        Request::Invalidate(Invalidate::All),
        Request::Reload(Reload::Plan { name: None }),
        Request::Reload(Reload::Promote),
    ];
    for request in &about_the_network {
        assert_eq!(answered(&maple, request), Err(standby.into()), "{request:?}");
    }
    for request in [Show::Controller, Show::Stats, Show::Errors, Show::Names, Show::Log(false), Show::Doctor] {
        answered(&maple, &Request::Show(request.clone())).unwrap_or_else(|error| panic!("{request:?}: {error}"));
    }
    // It has the tracked state.
    assert_eq!(answered(&maple, &Request::State(StateRequest::List)), Ok(json!([])));
    // A reload is for each controller by itself; this one has nobody who serves it.
    let reload = Reload::Policy { name: None, tolerate: Tolerance::Count(0) };
    assert_ne!(answered(&maple, &Request::Reload(reload)), Err(standby.into()));
    let known = answered(&maple, &Request::Show(Show::Cluster)).expect("it is one of several");
    assert_eq!((&known["role"], &known["cluster"]), (&json!("standby"), &json!(null)));
    elect(std::slice::from_ref(&maple), 0, 5);
    assert_eq!(answered(&maple, &Request::Show(Show::Switches)), Ok(json!([])));
    let alone = Maple::start();
    let none = "this controller is in no cluster: it was not started with --cluster";
    assert_eq!(answered(&alone, &Request::Show(Show::Cluster)), Ok(json!(null)));
    assert_eq!(answered(&alone, &Request::Cluster(ClusterRequest::StepDown)), Err(none.into()));
}

/// Joins a cluster of an etcd, of whose servers this one is asked first.
fn join(member: &Maple, etcd: &Etcd, name: &str, first: usize) -> ClusterMember {
    let options =
        ClusterOptions { lease: Duration::from_secs(4), ..ClusterOptions::new(etcd.config(first), "campus", name) };
    ClusterMember::join(&member.handle, options).expect("it has a thread")
}

/// Waits until one of these leads, and all know it. Returns which one.
pub fn elected(all: &[(Maple, ClusterMember)]) -> usize {
    let mut found = None;
    in_time("one is master, and all know it", || {
        let statuses: Vec<_> = all.iter().map(|(_, member)| member.status()).collect();
        let leads: Vec<usize> = (0..all.len()).filter(|at| statuses[*at].role.own_generation.is_some()).collect();
        let [leader] = leads[..] else { return false };
        found = Some(leader);
        let (master, latest) = (&statuses[leader].master, statuses[leader].role.own_generation);
        master.is_some() && statuses.iter().all(|one| one.master == *master && one.role.latest == latest)
    });
    found.expect("it was found")
}

#[test]
fn controllers_elect_a_master_with_etcd_and_the_switches_follow() {
    if !server::is_here() {
        return;
    }
    let mut etcd = Etcd::start(3);
    let names = ["a", "b", "c"];
    let mut all: Vec<(Maple, ClusterMember)> = (0..3)
        .map(|at| {
            let maple = member();
            let of_cluster = join(&maple, &etcd, names[at], at);
            (maple, of_cluster)
        })
        .collect();
    let mut options = EmulationOptions::new(Topology::ring(RING as u32), all[0].0.address, Version::Of13);
    options.controllers = all.iter().map(|(maple, _)| maple.address).collect();
    let emulation = Emulation::start(options).unwrap();
    let first = elected(&all);
    in_time("all members are known", || all.iter().all(|(_, member)| member.status().members == names));
    leads(&all[first].0);
    reaches(&emulation, "h1", "h3");
    let of_standby = (first + 1) % 3;
    let refused = answered(&all[of_standby].0, &Request::Show(Show::Rules(None)));
    let (own, master) = (names[of_standby], names[first]);
    let who = format!("controller {own} is a standby of the cluster campus: {master} is master, and answers this");
    assert_eq!(refused, Err(who));
    for (at, (maple, _)) in all.iter().enumerate() {
        let known = answered(maple, &Request::Show(Show::Cluster)).expect("it is in the cluster");
        let role = if at == first { "master" } else { "standby" };
        assert_eq!(
            (&known["name"], &known["role"], &known["master"]),
            (&json!(names[at]), &json!(role), &json!(master))
        );
        assert_eq!((&known["members"], &known["trouble"]), (&json!(names), &json!(null)));
    }

    // It steps down, and another one serves the network.
    let step_down = Request::Cluster(ClusterRequest::StepDown);
    let refused = answered(&all[of_standby].0, &step_down);
    assert_eq!(refused, Err(format!("only the master steps down, and that is {master}")));
    in_time("another one is master", || match answered(&all[first].0, &step_down) {
        Ok(answer) => answer["master"] != master,
        // The computer is busy; it happens all the same.
        Err(why) => why.starts_with("only the master steps down"),
    });
    in_time("it follows", || all[first].1.status().role.own_generation.is_none());
    let second = elected(&all);
    assert_ne!(second, first);
    leads(&all[second].0);
    follows(&all[first].0);
    reaches(&emulation, "h2", "h4");

    // etcd is away for longer than a lease: the master goes on.
    etcd.servers.iter_mut().for_each(server::Server::kill);
    in_time("no lease is good", || all.iter().all(|(_, member)| !member.status().role.has_lease));
    assert!(all.iter().all(|(_, member)| member.status().trouble.is_some()));
    let doctor = answered(&all[second].0, &Request::Show(Show::Doctor)).expect("the master answers");
    let findings: BTreeSet<_> = doctor["findings"].as_array().unwrap().iter().map(|one| one["id"].as_str()).collect();
    assert!(findings.contains(&Some("etcd-away")) && !findings.contains(&Some("no-state-file")), "{doctor}");
    let refused = answered(&all[second].0, &step_down).expect_err("nobody can be elected");
    assert!(refused.starts_with("another controller becomes master with etcd only"), "{refused}");
    assert!(all[second].1.status().role.own_generation.is_some());
    leads(&all[second].0);
    reaches(&emulation, "h1", "h2");
    etcd.servers.iter_mut().for_each(server::Server::start);
    in_time("etcd is back", || all.iter().all(|(_, member)| member.status().trouble.is_none()));
    let third = elected(&all);
    leads(&all[third].0);
    reaches(&emulation, "h3", "h2");

    // The master ends, and leaves its place to the others.
    let (maple, of_cluster) = all.remove(third);
    drop(of_cluster);
    drop(maple);
    let last = elected(&all);
    leads(&all[last].0);
    reaches(&emulation, "h4", "h1");
    emulation.stop().unwrap();
}

fn mode(value: &str) -> Vec<Write> {
    vec![Write::Var { name: "mode".into(), value: Some(value.into()) }]
}

/// Returns a row of the table `blocked`.
fn row(key: i64, value: Option<i64>) -> Write {
    Write::Table { table: "blocked".into(), key: key.into(), value: value.map(Value::from) }
}

/// Has the master write this, whoever that is, until it is acknowledged.
fn write(all: &[(Maple, ClusterMember)], writes: &[Write]) {
    in_time("it is acknowledged", || all[elected(all)].0.handle.change(writes.to_vec()).is_ok());
}

/// Returns the tables and variables of a controller, in some order.
fn sorted(maple: &Maple) -> Vec<Write> {
    in_order(maple.handle.snapshot().contents())
}

fn in_order(mut writes: Vec<Write>) -> Vec<Write> {
    writes.sort_by_key(|write| format!("{write:?}"));
    writes
}

#[test]
fn writes_acknowledged_by_the_master_reach_every_member_and_outlive_the_master() {
    if !server::is_here() {
        return;
    }
    let mut etcd = Etcd::start(3);
    let names = ["a", "b", "c"];
    // Only what the first master's own policy has written counts, and that in parts.
    let own_writes = |at: i64| (0..300).map(move |key| row(key, Some(at))).chain(mode("day")).collect::<Vec<_>>();
    let owns: Vec<Vec<Write>> = (0..3).map(|at| in_order(own_writes(at))).collect();
    let mut all: Vec<(Maple, ClusterMember)> = (0..3)
        .map(|at| {
            let maple = Maple::with(|options| {
                options.policy = Arc::new(shortest_path);
                options.openflow.in_cluster = true;
                drop(options.store.update(|_| own_writes(at as i64)));
            });
            let of_cluster = join(&maple, &etcd, names[at], at);
            (maple, of_cluster)
        })
        .collect();
    let first = elected(&all);
    in_time("all have the first master's state", || {
        let of_first = sorted(&all[0].0);
        owns.contains(&of_first) && all.iter().all(|(maple, _)| sorted(maple) == of_first)
    });
    let wanted = sorted(&all[0].0);

    write(&all, &[mode("night"), vec![row(1, Some(100)), row(2, None), row(1000, Some(1))]].concat());
    write(&all, &[Write::Add { name: "sum".into(), amount: 5 }]);
    in_time("all have what was written", || {
        let master = sorted(&all[elected(&all)].0);
        master != wanted && all.iter().all(|(maple, _)| sorted(maple) == master)
    });
    let standby = |all: &[(Maple, ClusterMember)]| (elected(all) + 1) % all.len();
    let sum = Request::State(StateRequest::Get(StatePlace::Var("sum".into())));
    let answers: Vec<_> = all.iter().map(|(maple, _)| answered(maple, &sum)).collect();
    assert!(answers[0].is_ok() && answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let assert_refused = |all: &[(Maple, ClusterMember)], at: usize, writes: &[Write], why: &str| {
        in_time(why, || all[at].0.handle.change(writes.to_vec()).is_err_and(|error| error.to_string().contains(why)));
    };
    assert_refused(
        &all,
        standby(&all),
        &mode("noon"),
        "the variable mode can't be written: only the master of the cluster writes",
    );
    // More than etcd takes at once is refused before it takes effect.
    let rows: Vec<Write> = (0..128).map(|key| row(key, Some(7))).collect();
    assert_refused(
        &all,
        elected(&all),
        &rows,
        "one transaction writes at most 127 rows (in a cluster, since etcd takes 128",
    );
    let large = [Write::Var { name: "mode".into(), value: Some("x".repeat(1 << 20).as_str().into()) }];
    assert_refused(&all, elected(&all), &large, "one transaction writes at most 1048576 bytes");
    write(&all, &rows[..127]);
    let written = sorted(&all[elected(&all)].0);

    // The next master has it, and so has a member that was not there.
    let step_down = Request::Cluster(ClusterRequest::StepDown);
    in_time("another one is master", || match answered(&all[first].0, &step_down) {
        Ok(_) => true,
        Err(why) => why.starts_with("only the master steps down"),
    });
    assert_eq!(sorted(&all[elected(&all)].0), written);
    write(&all, &mode("noon"));
    drop(all.remove(first));
    let late = member();
    let of_cluster = join(&late, &etcd, "d", 0);
    all.push((late, of_cluster));
    let written = sorted(&all[elected(&all)].0);
    assert!(written.contains(&mode("noon")[0]));
    in_time("the new one has it", || all.iter().all(|(maple, _)| sorted(maple) == written));

    // etcd is away: nothing is written, and what was, is undone or there when etcd is back.
    let last = elected(&all);
    etcd.servers.iter_mut().for_each(server::Server::kill);
    let mut assert_refused = None;
    in_time("writes are refused", || match all[last].0.handle.change(mode("evening")) {
        Err(ChangeError::NotShared) => false,
        Err(error) => {
            assert_refused = Some(error.to_string());
            true
        }
        Ok(()) => panic!("nobody has it"),
    });
    let assert_refused = assert_refused.expect("it was refused");
    assert_eq!(
        assert_refused,
        "the variable mode can't be written: etcd takes no writes now, so no other controller would know of it"
    );
    assert!(all[last].1.status().role.own_generation.is_some(), "it goes on as master");
    etcd.servers.iter_mut().for_each(server::Server::start);
    in_time("etcd is back", || all.iter().all(|(_, member)| member.status().any_trouble().is_none()));
    write(&all, &mode("morning"));
    let written = sorted(&all[elected(&all)].0);
    in_time("all have it", || all.iter().all(|(maple, _)| sorted(maple) == written));
}

#[test]
fn the_only_controller_joins_no_cluster() {
    let maple = Maple::start();
    let etcd = maple_etcd::Config::new(Vec::new());
    assert!(ClusterMember::join(&maple.handle, ClusterOptions::new(etcd, "campus", "a")).is_err());
}
