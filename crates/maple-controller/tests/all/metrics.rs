//! Metrics against what switches saw, against their list, and against the page of the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{LONG, Maple, Peer, descriptors, eventually, packet_in};
use maple_controller::cluster::{ClusterMember, ClusterOptions, PeerOptions};
use maple_controller::control::{HttpDeadlines, HttpOptions};
use maple_controller::metrics::{Family, MetricKind, families};
use maple_controller::{ClusterRole, Controller, ControllerOptions, Gauge, StartError};
use maple_core::network::PortKind;
use maple_core::{Net, Observe as _, PacketHandle, Policy, PolicyError, Route};
use maple_emulator::host::FlowKind;
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_etcd::Endpoint;
use maple_wire::{Field, Message, Version};

/// Starts a controller that exports metrics.
fn exporting(change: impl FnOnce(&mut ControllerOptions)) -> Maple {
    Maple::with(|options| {
        options.control.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        change(options);
    })
}

/// Returns the text that a controller exports.
fn scrape(maple: &Maple) -> String {
    try_scrape(maple).expect("it answers")
}

/// Returns the text of a scrape, unless the server has no room for another client.
fn try_scrape(maple: &Maple) -> Option<String> {
    let mut stream =
        TcpStream::connect(maple.handle.operations().metrics_address().expect("it exports")).expect("it accepts");
    stream.set_read_timeout(Some(LONG)).expect("a time limit");
    let request = b"GET /metrics HTTP/1.1\r\nHost: maple\r\nAccept: application/openmetrics-text\r\n\r\n";
    let mut answer = String::new();
    stream.write_all(request).and_then(|()| stream.read_to_string(&mut answer)).ok().filter(|read| *read > 0)?;
    let (head, text) = answer.split_once("\r\n\r\n").expect("it has a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(text.ends_with("\n# EOF\n"));
    Some(text.to_owned())
}

/// One value: its name, its labels, and the number.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Parses the values in a text. Labels here have no quotation marks in them.
fn samples(text: &str) -> Vec<Sample> {
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').expect("an end").split("\",").filter(|label| !label.is_empty());
        let pair = |label: &str| {
            let (name, value) = label.split_once("=\"").expect("a label");
            (name.to_owned(), value.trim_end_matches('"').to_owned())
        };
        Sample { name: name.to_owned(), labels: labels.map(pair).collect(), value: value.parse().expect("a number") }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(sample).collect()
}

/// Returns the sum of the values with this name and these labels; `None` if there are none.
fn sum(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let fits = |sample: &&Sample| {
        sample.name == name && labels.iter().all(|(name, value)| sample.labels.get(*name).is_some_and(|is| is == value))
    };
    let all = samples(text);
    let mut found = all.iter().filter(fits).peekable();
    found.peek().is_some().then(|| found.map(|sample| sample.value).sum())
}

/// Waits until both ports of a switch are known to be edge ports.
fn wait_for_edges(maple: &Maple, switch: &mut Peer) {
    eventually("edge ports are known", || {
        switch.echo();
        let state = maple.handle.snapshot();
        state.ports_of(switch.dpid).filter(|(_, port)| port.kind == PortKind::Edge).count() == 2
    });
}

/// Makes a frame from one of a hundred hosts.
fn frame(host: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 9, 9]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, host]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

#[test]
fn metrics_are_not_exported_unless_asked_for() {
    assert_eq!(Maple::start().handle.operations().metrics_address(), None);
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let maple = exporting(|_| {});
    let address = maple.handle.operations().metrics_address();
    let mut options = ControllerOptions::new(Arc::new(|_: &PacketHandle, _: &Net| Route::flood()));
    (options.openflow.listen, options.control.metrics, options.workers.pin) =
        (vec![SocketAddr::from(([127, 0, 0, 1], 0))], address, false);
    let error = Controller::start(options).expect_err("it is in use");
    assert!(matches!(error, StartError::Metrics { .. }) && error.to_string().contains(&address.unwrap().to_string()));
}

#[test]
fn exported_metrics_are_those_that_are_listed_and_documented() {
    let authority = crate::common::tls::Authority::new("metrics");
    let maple = exporting(|options| {
        options.control.heap_bytes = Some(|| Some(7));
        options.openflow.in_cluster = true;
        options.memory.for_standbys = true;
        options.openflow.tls = Some(authority.tls());
        let http = HttpOptions {
            address: ([127, 0, 0, 1], 0).into(),
            tls: Some(authority.tls()),
            tokens: None,
            deadlines: HttpDeadlines::default(),
            ryu: false,
        };
        options.control.http = Some(http);
    });
    // There is no etcd, so the test announces to it that it leads.
    let etcd = maple_etcd::Config::new(vec!["127.0.0.1:1".parse().expect("an address")]);
    let address = Endpoint { host: "127.0.0.1".into(), port: 0 };
    let peers = Some(PeerOptions { address, tls: None });
    let options = ClusterOptions { peers, ..ClusterOptions::new(etcd, "campus", "a") };
    let member = ClusterMember::join(&maple.handle, options).expect("it has a thread");
    let role = ClusterRole { own_generation: Some(5), latest: Some(5), has_lease: true };
    assert_eq!(maple.handle.operations().set_role(role), Ok(()));
    let topology = Topology::parse("linear:2").expect("a topology");
    let emulation = Emulation::start(EmulationOptions::new(topology, maple.address, Version::Of13)).expect("it starts");
    eventually("the link is found", || maple.handle.links().len() == 1);
    emulation.open_flow("h1", "h2", FlowKind::Ping).expect("there are such hosts");
    eventually("etcd is missed", || sum(&scrape(&maple), "maple_cluster_etcd_failing", &[]) == Some(1.0));
    eventually("rules are confirmed", || sum(&scrape(&maple), "maple_install_seconds_count", &[]) > Some(0.0));
    let text = scrape(&maple);
    let heap = Family {
        name: "maple_heap_bytes".into(),
        kind: MetricKind::Gauge,
        labels: &[],
        meaning: "Bytes of the heap in use. Only with --count-heap.",
    };
    let expiry = Family {
        name: "maple_certificate_expires_seconds".into(),
        kind: MetricKind::Gauge,
        labels: &[],
        meaning: "When the controller's certificate expires, in seconds since 1970. Only with TLS.",
    };
    let http_expiry = Family {
        name: "maple_http_certificate_expires_seconds".into(),
        kind: MetricKind::Gauge,
        labels: &[],
        meaning: "When the certificate of the HTTP API expires, in seconds since 1970. Only with --http-cert.",
    };
    let files = Family {
        name: "maple_file_failed".into(),
        kind: MetricKind::Gauge,
        labels: &["file"],
        meaning: "1 if the file can't be kept now, otherwise 0: the state file, the recording, the log, the file of switches, \
                  the certificates, the control socket, the tokens, the timeline. No row for files that there are not.",
    };
    let of_cluster = [
        ("maple_cluster_master", "1 if this controller is master of the network, otherwise 0. Only in a cluster."),
        ("maple_cluster_members", "Number of controllers that are there, this one included. Only in a cluster."),
        ("maple_cluster_lease", "1 if the lease of this controller with etcd is good, otherwise 0. Only in a cluster."),
        (
            "maple_cluster_etcd_failing",
            "1 if something has gone wrong with etcd since the lease was renewed last, otherwise 0. Only in a cluster.",
        ),
        (
            "maple_cluster_writable",
            "1 if tables and variables can be written here, as at a master with etcd, otherwise 0. Only in a cluster.",
        ),
        (
            "maple_cluster_copy",
            "1 if this controller is master, or has a copy of what the master has decided, otherwise 0. Only in a cluster with \
             --cluster-listen.",
        ),
    ];
    let of_cluster =
        of_cluster.map(|(name, meaning)| Family { name: name.into(), kind: MetricKind::Gauge, labels: &[], meaning });
    let own = [files, heap, expiry, http_expiry].into_iter().chain(of_cluster);
    let listed: Vec<Family> = families().into_iter().chain(own).collect();

    let said = |start: &str| -> BTreeMap<String, String> {
        let said = text.lines().filter_map(|line| line.strip_prefix(start)?.split_once(' '));
        said.map(|(name, what)| (name.to_owned(), what.to_owned())).collect()
    };
    let expected = |what: fn(&Family) -> &str| listed.iter().map(|of| (of.name.clone(), what(of).to_owned())).collect();
    assert_eq!(said("# TYPE "), expected(|family| family.kind.name()));
    assert_eq!(said("# HELP "), expected(|family| family.meaning));

    let mut labels = BTreeMap::new();
    for sample in samples(&text) {
        let family = listed.iter().find(|family| family.samples().contains(&sample.name));
        let family = family.unwrap_or_else(|| panic!("{} is not listed", sample.name));
        let has: BTreeSet<String> = sample.labels.into_keys().filter(|name| name != "le").collect();
        assert_eq!(has, family.labels.iter().map(|name| (*name).to_owned()).collect(), "{}", sample.name);
        labels.insert(family.name.clone(), has);
    }
    let without: Vec<&str> =
        listed.iter().map(|family| &*family.name).filter(|name| !labels.contains_key(*name)).collect();
    let rare = ["of_ignored_packet_ins", "maple_switch_waiting_bytes"];
    let failures = ["maple_policy_errors_by_line", "maple_violations_by_line"];
    assert!(without.iter().all(|name| rare.contains(name) || failures.contains(name)), "{without:?}");
    check_page(&listed);
    drop(member);
}

/// Checks that the table on the page is that of these metrics.
fn check_page(listed: &[Family]) {
    const MARKS: [&str; 2] = ["<!-- All metrics -->\n", "<!-- The end -->\n"];
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (before, rest) = page.split_once(MARKS[0]).expect("a beginning");
    let (_, after) = rest.split_once(MARKS[1]).expect("an end");
    let row = |family: &Family| {
        let names: Vec<String> = match family.kind {
            MetricKind::Histogram => vec![format!("`{}`", family.name)],
            _ => family.samples().iter().map(|name| format!("`{name}`")).collect(),
        };
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| {} | {} | {} | {} |\n", names.join(" "), family.kind.name(), labels.join(" "), family.meaning)
    };
    let rows: String = listed.iter().map(row).collect();
    let table = format!("| name | type | labels | meaning |\n| --- | --- | --- | --- |\n{rows}");
    let made = [before, MARKS[0], "\n", &table, "\n", MARKS[1], after].concat();
    if std::env::var_os("MAPLE_BLESS").is_some() {
        return std::fs::write(&path, made).expect("the page can be written");
    }
    assert!(page == made, "{} is not current: run this test again with MAPLE_BLESS=1", path.display());
}

#[test]
fn a_switch_counts_what_it_sent_and_was_sent_over_all_its_connections() {
    // Probes of its ports are messages too. They come at once, and not while the test counts.
    let maple = exporting(|options| options.openflow.timing.fast = Duration::from_millis(1));
    let dp = [("dp_id", "0xa1"), ("dp_name", "0xa1")];
    let mut sent = 0.0;
    for round in 1..=3 {
        let mut switch = Peer::up(&maple, Version::Of13, 0xa1);
        wait_for_edges(&maple, &mut switch);
        for host in 0..100 {
            switch.send(1, &packet_in(1, frame(host)));
        }
        switch.echo();
        let is_flow_message = |(_, message): &&(u32, Message)| {
            matches!(message, Message::FlowMod(_) | Message::BundleAdd(_) | Message::PacketOut(_))
        };
        eventually("it has read all that it was sent", || {
            switch.echo();
            let text = scrape(&maple);
            let now = sent + switch.seen.iter().filter(is_flow_message).count() as f64;
            sum(&text, "of_flowmsgs_sent_total", &dp) == Some(now)
                && sum(&text, "of_packet_ins_total", &dp) == Some(f64::from(100 * round))
        });
        let text = scrape(&maple);
        assert_eq!(sum(&text, "dp_status", &dp), Some(1.0));
        assert_eq!(sum(&text, "of_dp_connections_total", &dp), Some(f64::from(round)));
        assert_eq!(sum(&text, "of_dp_disconnections_total", &dp), Some(f64::from(round - 1)));
        assert_eq!(sum(&text, "maple_of_packet_ins_total", &[]), Some(f64::from(100 * round)));
        for (port, name) in [("1", "eth1"), ("2", "eth2")] {
            let of_port = [dp[0], dp[1], ("port", port), ("port_description", name)];
            assert_eq!(sum(&text, "port_status", &of_port), Some(1.0));
        }
        let rules = maple.handle.rules(switch.dpid).unwrap().len() as f64;
        assert_eq!(sum(&text, "maple_switch_rules", &[dp[0]]), Some(rules));
        assert_eq!(sum(&text, "maple_rules", &[]), Some(rules));
        assert_eq!(sum(&text, "maple_switches", &[("shard", "0")]), Some(1.0));
        drop(switch);
        eventually("it is disconnected", || {
            let text = scrape(&maple);
            // The sum includes messages that were sent and not read.
            sent = sum(&text, "of_flowmsgs_sent_total", &dp).unwrap_or_default();
            sum(&text, "of_dp_disconnections_total", &dp) == Some(f64::from(round))
        });
    }
    // The text of a scrape is used again for a moment.
    eventually("it is gone", || sum(&scrape(&maple), "dp_status", &dp) == Some(0.0));
    let text = scrape(&maple);
    assert_eq!(sum(&text, "port_status", &dp), None);
    assert_eq!(sum(&text, "of_packet_ins_total", &dp), Some(300.0), "what it has counted stays");
}

#[test]
fn barrier_rules_are_counted_where_the_rules_say_so() {
    // One host may talk to one other with a certain type; every other packet is asked about.
    let maple = exporting(|options| {
        options.policy = Arc::new(|packet: &PacketHandle, _: &Net| {
            let field = Field::EthType;
            let is_test = packet.equals(field, 0x88b5, field.full_mask(), None);
            if is_test { Route::drop() } else { Route::flood() }
        });
    });
    let mut switch = Peer::up(&maple, Version::Of13, 5);
    wait_for_edges(&maple, &mut switch);
    for host in 0..4 {
        let mut other = frame(host);
        other[13] = 0xb6;
        switch.send(1, &packet_in(1, other));
        switch.echo();
    }
    let barrier_rules = || {
        let rules = maple.handle.rules(switch.dpid).unwrap();
        rules.iter().filter(|rule| rule.why.contains("not decided yet")).count()
    };
    eventually("there are barrier rules", || barrier_rules() > 0);
    let exported = || sum(&scrape(&maple), "maple_switch_barrier_rules", &[("dp_id", "0x5")]);
    eventually("they are exported", || exported() == Some(barrier_rules() as f64));
}

/// A policy that fails at one of two lines, with the host in its error.
struct Failing;

impl Policy for Failing {
    fn decide(&self, packet: &PacketHandle, _: &Net) -> Result<Route, PolicyError> {
        let host = packet.read(Field::EthSrc, Field::EthSrc.full_mask(), None).unwrap_or_default();
        Err(PolicyError::Exception(format!("guest: policy.py:{}: no host {host:x}", host % 2 + 10).into()))
    }
}

#[test]
fn failures_of_the_policy_are_counted_by_line_and_never_by_packet() {
    let maple = exporting(|options| {
        options.policy = Arc::new(Failing);
    });
    let mut switch = Peer::up(&maple, Version::Of13, 1);
    wait_for_edges(&maple, &mut switch);
    for host in 0..100 {
        switch.send(1, &packet_in(1, frame(host)));
    }
    let of_line = |text: &str, line| sum(text, "maple_policy_errors_by_line_total", &[("line", line)]);
    eventually("all have failed", || sum(&scrape(&maple), "maple_policy_errors_total", &[]) == Some(100.0));
    let text = scrape(&maple);
    assert_eq!((of_line(&text, "policy.py:10"), of_line(&text, "policy.py:11")), (Some(50.0), Some(50.0)));
    assert_eq!(samples(&text).iter().filter(|sample| sample.labels.contains_key("line")).count(), 2);
    assert_eq!(sum(&text, "maple_decide_seconds_count", &[]), sum(&text, "maple_misses_total", &[]));
    assert!(!text.contains("no host"));
}

#[test]
fn a_flood_of_scrapers_and_half_requests_harms_no_switch() {
    if !descriptors(4 * (300 + 8 * 50)) {
        return;
    }
    let maple = exporting(|_| {});
    let mut switch = Peer::up(&maple, Version::Of13, 1);
    let address = maple.handle.operations().metrics_address().expect("it exports");
    let mut halves = Vec::new();
    for _ in 0..300 {
        let mut half = TcpStream::connect(address).expect("it accepts");
        // The server may have closed it in favour of another one.
        let _ = half.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
        halves.push(half);
        switch.echo();
    }
    assert_eq!(sum(&scrape(&maple), "dp_status", &[("dp_id", "0x1")]), Some(1.0));
    let scrapers: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                for _ in 0..50 {
                    let mut stream = TcpStream::connect(address).expect("it accepts");
                    // The server need not answer it.
                    let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
                }
            })
        })
        .collect();
    for _ in 0..100 {
        switch.echo();
    }
    scrapers.into_iter().for_each(|scraper| scraper.join().expect("it ends"));
    // Those that were asked for before are made first.
    let again = || try_scrape(&maple).ok_or_else(|| std::thread::sleep(Duration::from_millis(10)));
    let text = std::iter::repeat_with(again).take(1000).find_map(Result::ok).expect("there is room");
    assert_eq!(sum(&text, "of_dp_disconnections_total", &[("dp_id", "0x1")]), Some(0.0));
}

#[test]
fn other_parts_of_the_program_export_gauges_too() {
    let maple = exporting(|_| {});
    let read = || vec![("a \"b\"".to_owned(), 1.5), ("c".to_owned(), -1.0)];
    let meaning = "When certificates expire.";
    let gauge = Gauge { name: "maple_certificate_expiry", meaning, label: Some("subject"), read: Box::new(read) };
    maple.handle.operations().register_gauge(gauge);
    let text = scrape(&maple);
    assert!(text.contains("# TYPE maple_certificate_expiry gauge\n"));
    assert!(text.contains("maple_certificate_expiry{subject=\"a \\\"b\\\"\"} 1.5\n"), "{text}");
    assert!(text.contains("maple_certificate_expiry{subject=\"c\"} -1.0\n"));
}
