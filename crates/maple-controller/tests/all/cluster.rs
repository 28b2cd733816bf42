//! Several controllers of one network, over TCP: its switches obey the one that is their master.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{LONG, Maple};
use crate::server::{self, Etcd, PATIENCE};
use maple_controller::cluster::{ClusterMember, ClusterOptions};
use maple_controller::session::SwitchInfo;
use maple_controller::{ClusterRole, Controller, ControllerOptions, Notice, RoleNews, StartError};
use maple_core::{Net, PacketHandle, Route};
use maple_emulator::host::{FlowKind, Progress};
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_handlers::{Handlers, LearningSwitch};
use maple_wire::{Dpid, Version};

/// The number of switches, links and hosts.
const RING: usize = 4;

/// Routes to known hosts by the shortest path, and to others everywhere.
fn shortest_path(pkt: &PacketHandle, net: &Net) -> Route {
    match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
        (Some(src), Some(dst)) => net.shortest_path(src, dst),
        _ => net.flood(),
    }
}

/// Waits until something holds, however busy the computer is with several controllers and etcd.
fn in_time(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn member() -> Maple {
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
        assert!(member.handle.set_role(ClusterRole { leads, latest: Some(generation), has_lease: true }));
    }
}

/// Waits until a member serves all switches, and knows the network.
fn leads(member: &Maple) {
    in_time("it serves the network", || member.connected().len() == RING && member.handle.links().len() == RING);
}

/// Waits until a member has no switch.
fn follows(member: &Maple) {
    in_time("it is a standby", || member.connected().is_empty());
}

/// Opens flows between these hosts until one ends well. The first ones may be lost while hosts are not known yet.
fn reaches(emulation: &Emulation, from: &'static str, to: &'static str) {
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
    assert!(!maple.handle.set_role(ClusterRole { leads: Some(5), latest: Some(5), has_lease: true }));
    assert_eq!((maple.handle.role(), member().handle.role()), (None, Some(ClusterRole::default())));
}

#[test]
fn handlers_are_refused_in_a_cluster() {
    let handlers = Handlers::new(|_: &SwitchInfo| LearningSwitch::new());
    let mut options = ControllerOptions::for_programs(Arc::new(handlers));
    options.openflow.in_cluster = true;
    assert!(matches!(Controller::start(options).err(), Some(StartError::HandlersInCluster)));
}

/// Joins a cluster of an etcd, of whose servers this one is asked first.
fn join(member: &Maple, etcd: &Etcd, name: &str, first: usize) -> ClusterMember {
    let options =
        ClusterOptions { lease: Duration::from_secs(4), ..ClusterOptions::new(etcd.config(first), "campus", name) };
    ClusterMember::join(&member.handle, options).expect("it has a thread")
}

/// Waits until one of these leads, and all know it. Returns which one.
fn elected(all: &[(Maple, ClusterMember)]) -> usize {
    let mut found = None;
    in_time("one is master, and all know it", || {
        let statuses: Vec<_> = all.iter().map(|(_, member)| member.status()).collect();
        let leads: Vec<usize> = (0..all.len()).filter(|at| statuses[*at].role.leads.is_some()).collect();
        let [leader] = leads[..] else { return false };
        found = Some(leader);
        let (master, latest) = (&statuses[leader].master, statuses[leader].role.leads);
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

    // It steps down, and another one serves the network.
    all[first].1.step_down();
    in_time("it follows", || all[first].1.status().role.leads.is_none());
    let second = elected(&all);
    assert_ne!(second, first);
    leads(&all[second].0);
    follows(&all[first].0);
    reaches(&emulation, "h2", "h4");

    // etcd is away for longer than a lease: the master goes on.
    etcd.servers.iter_mut().for_each(server::Server::kill);
    in_time("no lease is good", || all.iter().all(|(_, member)| !member.status().role.has_lease));
    assert!(all.iter().all(|(_, member)| member.status().trouble.is_some()));
    assert!(all[second].1.status().role.leads.is_some());
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

#[test]
fn the_only_controller_joins_no_cluster() {
    let maple = Maple::start();
    let etcd = maple_etcd::Config::new(Vec::new());
    assert!(ClusterMember::join(&maple.handle, ClusterOptions::new(etcd, "campus", "a")).is_err());
}
