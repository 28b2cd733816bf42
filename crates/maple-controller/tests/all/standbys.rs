//! Standbys that get what the master has decided, and take over without changing a rule.

use std::sync::Arc;
use std::time::{Duration, Instant};

use maple_controller::cluster::{ClusterMember, ClusterOptions, PeerError, PeerOptions, PeerTlsFiles};
use maple_controller::control::socket::{Request, Show};
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_etcd::Endpoint;
use maple_wire::Version;
use serde_json::{Value, json};

use crate::cluster::{RING, answered, elected, in_time, leads, reaches, shortest_path};
use crate::common::tls::Authority;
use crate::common::{LONG, Maple};
use crate::server::{self, Etcd};

const HOSTS: [&str; RING] = ["h1", "h2", "h3", "h4"];

fn member() -> Maple {
    Maple::with(|options| {
        options.policy = Arc::new(shortest_path);
        options.workers.count = 2;
        // Long enough for a computer that is busy with other work.
        options.openflow.timing.flight = LONG;
        options.openflow.in_cluster = true;
        options.memory.for_standbys = true;
    })
}

/// Returns how a member is reached, with a certificate of this authority.
fn peers(authority: &Authority, name: &str) -> PeerOptions {
    let own = authority.sign_host(name, "127.0.0.1", 1, 2999);
    let files = PeerTlsFiles { authorities: authority.file(), certificate: own.certificate, key: own.key };
    PeerOptions { address: Endpoint { host: "127.0.0.1".into(), port: 0 }, tls: Some(files) }
}

fn join(member: &Maple, etcd: &Etcd, name: &str, peers: PeerOptions) -> ClusterMember {
    let options = ClusterOptions::new(etcd.config(0), "campus", name);
    let options = ClusterOptions { lease: Duration::from_secs(4), peers: Some(peers), ..options };
    ClusterMember::join(&member.handle, options).expect("it has threads and an address")
}

/// Returns what a member says of the copy of what the master has decided.
fn copy(maple: &Maple) -> Value {
    answered(maple, &Request::Show(Show::Cluster)).expect("it is in the cluster")["copy"].clone()
}

/// Waits until these standbys have all that the master has decided by now.
fn all_have_a_copy(master: &Maple, name: &str, standbys: &[&Maple]) {
    let now = Instant::now();
    in_time("standbys have what the master has decided", || {
        let of_master = copy(master);
        let is_new = of_master["age"].as_f64().is_some_and(|age| age < now.elapsed().as_secs_f64());
        let is_same =
            |of: &Value| ["leaves", "hosts", "rows", "generation"].iter().all(|what| of[what] == of_master[what]);
        is_new
            && standbys.iter().all(|standby| {
                let copied = copy(standby);
                copied["of"] == name && copied["behind"] == 0 && is_same(&copied)
            })
    });
}

/// Returns the changes of rules that the switches have received.
fn flow_mods(emulation: &Emulation) -> Vec<u64> {
    emulation.snapshot().unwrap().switches.iter().map(|switch| switch.flow_mods).collect()
}

fn all_reach_each_other(emulation: &Emulation) {
    for from in HOSTS {
        HOSTS.into_iter().filter(|to| *to != from).for_each(|to| reaches(emulation, from, to));
    }
}

/// Lets all hosts reach each other until that takes no new rule and no decision.
fn rest(maple: &Maple, emulation: &Emulation) {
    let decided = || maple.handle.stats().expect("the shards answer").total.engine.packet_ins;
    in_time("all packets have rules", || {
        let before = (flow_mods(emulation), decided());
        all_reach_each_other(emulation);
        before == (flow_mods(emulation), decided())
    });
}

#[test]
fn standbys_that_never_led_take_over_without_changing_a_rule() {
    if !server::is_here() {
        return;
    }
    let (etcd, authority) = (Etcd::start(3), Authority::new("members"));
    let names = ["a", "b", "c"];
    let [first, second, late] = [0; 3].map(|_| member());
    let mut options = EmulationOptions::new(Topology::ring(RING as u32), first.address, Version::Of13);
    options.controllers = [&first, &second, &late].map(|maple| maple.address).into();
    let emulation = Emulation::start(options).unwrap();
    let mut all: Vec<(&str, (Maple, ClusterMember))> = Vec::new();
    for (name, maple) in names.into_iter().zip([first, second]) {
        let of_cluster = join(&maple, &etcd, name, peers(&authority, name));
        all.push((name, (maple, of_cluster)));
    }
    let mut waiting = Some(late);
    for left in [2, 1] {
        let (known, members): (Vec<&str>, Vec<(Maple, ClusterMember)>) = all.drain(..).unzip();
        let master = elected(&members);
        leads(&members[master].0);
        all_reach_each_other(&emulation);
        rest(&members[master].0, &emulation);
        all = known.into_iter().zip(members).collect();
        // One comes when everything is decided.
        if let Some(maple) = waiting.take() {
            let of_cluster = join(&maple, &etcd, names[2], peers(&authority, names[2]));
            all.push((names[2], (maple, of_cluster)));
        }
        let standbys: Vec<&Maple> = (0..all.len()).filter(|at| *at != master).map(|at| &all[at].1.0).collect();
        all_have_a_copy(&all[master].1.0, all[master].0, &standbys);
        assert_eq!(copy(standbys[0])["trouble"], json!(null));
        let (reported, mut hosts) = (flow_mods(&emulation), all[master].1.0.handle.hosts());
        hosts.sort_by_key(|(mac, _)| *mac);

        // The master ends: its connections first.
        let (_, (maple, of_cluster)) = all.remove(master);
        drop(maple);
        drop(of_cluster);
        let (known, members): (Vec<&str>, Vec<_>) = all.into_iter().unzip();
        assert_eq!(known.len(), left);
        let next = elected(&members);
        leads(&members[next].0);
        let mut still = members[next].0.handle.hosts();
        still.sort_by_key(|(mac, _)| *mac);
        assert_eq!(still, hosts, "they are known");
        all_reach_each_other(&emulation);
        // Whatever it still has to say, it has said.
        rest(&members[next].0, &emulation);
        assert_eq!(flow_mods(&emulation), reported);
        all = known.into_iter().zip(members).collect();
    }
    emulation.stop().unwrap();
}

#[test]
fn a_standby_without_a_certificate_of_the_members_authority_gets_nothing() {
    if !server::is_here() {
        return;
    }
    let (etcd, authority, other) = (Etcd::start(1), Authority::new("members"), Authority::new("others"));
    let all = [("a", &authority), ("b", &other)].map(|(name, authority)| {
        let maple = member();
        let of_cluster = join(&maple, &etcd, name, peers(authority, name));
        (maple, of_cluster)
    });
    let standby = 1 - elected(&all);
    in_time("nothing comes", || copy(&all[standby].0)["trouble"].is_string());
    assert_eq!(copy(&all[standby].0)["rows"], json!(null));
    let doctor = answered(&all[standby].0, &Request::Show(Show::Doctor)).expect("it is about itself");
    let findings: Vec<&str> =
        doctor["findings"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert!(findings.contains(&"no-copy"), "{doctor}");
}

#[test]
fn members_without_certificates_stay_on_this_machine() {
    let outside = PeerOptions { address: Endpoint { host: "192.0.2.1".into(), port: 6654 }, tls: None };
    assert!(matches!(outside.check(), Err(PeerError::NeedsTls(_))));
    let inside = PeerOptions { address: Endpoint { host: "127.0.0.1".into(), port: 6654 }, tls: None };
    assert!(inside.check().is_ok());
}
