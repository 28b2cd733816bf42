//! Emulations against a controller of a few lines: a hub, over loopback TCP.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use maple_switch::time::SECOND;
use maple_wire::msg::{FlowMod, FlowModCommand, Header, Hello, Role};
use maple_wire::{Action, Dpid, Instruction, Match, Message, PortNo, Version};

use super::*;

/// Greets every switch that connects, and makes it flood everything. Threads end with their connections.
fn hub(listener: TcpListener, version: Version) {
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream, version));
        }
    });
}

/// Serves a switch until it disconnects.
fn serve(mut stream: TcpStream, version: Version) {
    let mut bytes = Vec::new();
    let flood = vec![Instruction::ApplyActions(vec![Action::output(PortNo::FLOOD)])];
    let flow_mod = FlowMod::new(FlowModCommand::Add, 1, Match::any(), flood);
    for message in [Message::Hello(Hello { version: 4, elements: vec![] }), Message::FlowMod(flow_mod)] {
        message.encode(version, 1, &mut bytes).unwrap();
    }
    if stream.write_all(&bytes).is_ok() {
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
    }
}

/// Waits until a condition holds for the statistics.
#[track_caller]
fn wait(emulation: &Emulation, what: &str, holds: impl Fn(&Stats) -> bool) -> Stats {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let stats = emulation.snapshot().unwrap();
        if holds(&stats) {
            return stats;
        }
        assert!(Instant::now() < deadline, "{what}: {stats:#?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn started(version: Version, change: impl FnOnce(&mut EmulationOptions)) -> Emulation {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    hub(listener, version);
    let mut options = EmulationOptions::new(Topology::linear(2), address, version);
    options.settle = Duration::from_millis(100);
    change(&mut options);
    Emulation::start(options).unwrap()
}

#[test]
fn switches_connect_take_rules_and_carry_traffic_in_real_time() {
    for version in [Version::Of10, Version::Of13] {
        let emulation = started(version, |options| {
            let duration = SECOND / 2;
            options.traffic = Some(TrafficOptions { flows_per_second: 40, duration, ..Default::default() });
        });
        let stats = wait(&emulation, "traffic", |s| s.traffic_over);
        assert_eq!((stats.total.opened, stats.total.done), (20, 20));
        assert!(stats.switches.iter().all(|s| s.connected && s.rules == 1 && s.flow_mods == 1 && s.errors == 0));
        assert!(stats.hosts.iter().all(|h| h.sent > 0 && h.flows_failed == 0));
        assert_eq!(emulation.rules(Dpid(2)).unwrap()[0].1.priority, 1);
        let stats = emulation.stop().unwrap();
        assert!(stats.elapsed >= Duration::from_millis(500));
    }
}

#[test]
fn a_restarted_switch_and_a_cut_one_come_back() {
    let emulation = started(Version::Of13, |_| {});
    let all_there = |s: &Stats| s.switches.iter().all(|s| s.connected && s.rules == 1);
    wait(&emulation, "connections", all_there);
    emulation.restart_switch(Dpid(1)).unwrap();
    wait(&emulation, "the restarted switch", |s| all_there(s) && s.switches[0].connections == 2);
    emulation.inflict(Fault::CutControl(Dpid(2))).unwrap();
    wait(&emulation, "the cut", |s| !s.switches[1].connected);
    emulation.inflict(Fault::MendControl(Dpid(2))).unwrap();
    wait(&emulation, "the mended channel", all_there);
}

#[test]
fn links_and_hosts_obey_while_it_runs() {
    let emulation = started(Version::Of13, |_| {});
    wait(&emulation, "connections", |s| s.switches.iter().all(|s| s.rules == 1));
    emulation.link_down(Dpid(1), Dpid(2)).unwrap();
    assert!(!emulation.with_network(|network| network.links()[0].up).unwrap());
    emulation.move_host("h2", Dpid(1), PortNo(9)).unwrap();
    emulation.open_flow("h1", "h2", crate::host::FlowKind::Tcp(22)).unwrap();
    wait(&emulation, "the flow", |s| s.hosts[0].flows_done == 1);
    let unknown = emulation.link_up(Dpid(1), Dpid(7)).unwrap_err();
    assert_eq!(unknown.to_string(), "switches 0000000000000001 and 0000000000000007 are not linked");
    assert!(emulation.rules(Dpid(7)).is_err());
}

#[test]
fn switches_wait_for_a_controller_that_is_not_there_yet() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let emulation = Emulation::start(EmulationOptions::new(Topology::linear(2), address, Version::Of13)).unwrap();
    std::thread::sleep(Duration::from_millis(250));
    assert!(emulation.snapshot().unwrap().switches.iter().all(|s| !s.connected && s.connections == 0));
    hub(TcpListener::bind(address).unwrap(), Version::Of13);
    wait(&emulation, "connections", |s| s.switches.iter().all(|s| s.connected));
}

#[test]
fn a_fault_at_a_time_happens_at_that_time() {
    const AT: Duration = Duration::from_secs(1);
    let began = Instant::now();
    let emulation = started(Version::Of13, |options| {
        let fault = Fault::Link { a: Dpid(1), b: Dpid(2), up: false };
        options.faults.push((AT, fault));
    });
    let is_up = || emulation.with_network(|network| network.links()[0].up).unwrap();
    assert!(is_up());
    while is_up() {
        assert!(began.elapsed() < 10 * AT, "the link fails");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(began.elapsed() >= AT, "not before");
}

#[test]
fn a_fault_that_names_nothing_is_refused_at_the_start() {
    let mut options = EmulationOptions::new(Topology::linear(2), "127.0.0.1:1".parse().unwrap(), Version::Of13);
    options.faults.push((Duration::ZERO, Fault::Restart(Dpid(9))));
    assert!(matches!(Emulation::start(options), Err(EmulationError::Network(NetworkError::NoSwitch(Dpid(9))))));
}

#[test]
fn a_controller_that_is_not_there_is_trouble_until_it_is() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let options = EmulationOptions::new(Topology::parse("linear:2").unwrap(), address, Version::Of13);
    let emulation = Emulation::start(options).unwrap();
    wait(&emulation, "refused", |stats| stats.trouble.as_deref() == Some("connection refused"));
    hub(TcpListener::bind(address).unwrap(), Version::Of13);
    wait(&emulation, "connected", |stats| stats.trouble.is_none() && stats.switches.iter().all(|s| s.connected));
}

/// A switch's connection at a controller of a test, which speaks 1.3.
struct Line {
    stream: TcpStream,
    bytes: Vec<u8>,
    xid: u32,
    dpid: Dpid,
}

impl Line {
    fn accept(listener: &TcpListener) -> Line {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut line = Line { stream, bytes: Vec::new(), xid: 0, dpid: Dpid(0) };
        line.send(&Message::Hello(Hello { version: 4, elements: vec![] }));
        let Message::FeaturesReply(features) = line.ask(&Message::FeaturesRequest) else { panic!("no features") };
        line.dpid = features.dpid;
        line
    }

    fn send(&mut self, message: &Message) -> u32 {
        self.xid += 1;
        self.stream.write_all(&message.to_bytes(Version::Of13, self.xid).unwrap()).unwrap();
        self.xid
    }

    /// Sends a request. Returns its answer.
    fn ask(&mut self, message: &Message) -> Message {
        let asked = self.send(message);
        loop {
            let (header, message) = self.next();
            if header.xid == asked && !matches!(message, Message::Hello(_)) {
                return message;
            }
        }
    }

    fn next(&mut self) -> (Header, Message) {
        loop {
            if let Some(length) = Header::peek(&self.bytes).unwrap().map(|header| usize::from(header.length))
                && self.bytes.len() >= length
            {
                let bytes: Vec<u8> = self.bytes.drain(..length).collect();
                return Message::decode(&bytes).unwrap();
            }
            let mut chunk = [0; 4096];
            let count = self.stream.read(&mut chunk).unwrap();
            assert!(count > 0, "the switch has closed");
            self.bytes.extend_from_slice(&chunk[..count]);
        }
    }

    /// Asks to be master. Returns the role that the switch gives.
    fn becomes_master(&mut self, generation_id: u64) -> u32 {
        match self.ask(&Message::RoleRequest(Role { role: Role::MASTER, generation_id })) {
            Message::RoleReply(role) => role.role,
            other => panic!("{other:?}"),
        }
    }

    /// Adds a rule. Returns the error with which the switch refuses it.
    fn adds_rule(&mut self, priority: u16) -> Option<(u16, u16)> {
        let added = self.send(&Message::FlowMod(FlowMod::new(FlowModCommand::Add, priority, Match::any(), Vec::new())));
        let barrier = self.send(&Message::BarrierRequest);
        let mut refused = None;
        loop {
            match self.next() {
                (header, Message::Error(error)) if header.xid == added => refused = Some((error.kind, error.code)),
                (header, Message::BarrierReply) if header.xid == barrier => return refused,
                _ => {}
            }
        }
    }
}

#[test]
fn switches_connect_to_all_their_controllers_and_obey_the_master() {
    const IS_SLAVE: (u16, u16) = (1, 10);
    let listeners = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect::<Vec<_>>();
    let mut options = EmulationOptions::new(Topology::linear(2), addresses[0], Version::Of13);
    options.controllers = addresses;
    let emulation = Emulation::start(options).unwrap();
    let mut lines: Vec<[Line; 2]> = listeners.iter().map(|listener| [0; 2].map(|_| Line::accept(listener))).collect();
    for lines in &mut lines {
        lines.sort_by_key(|line| line.dpid);
        assert_eq!([lines[0].dpid, lines[1].dpid], [Dpid(1), Dpid(2)]);
    }
    let [[a1, a2], [b1, b2]] = &mut lines[..] else { unreachable!() };
    for line in [&mut *a1, &mut *a2] {
        assert_eq!((line.becomes_master(5), line.adds_rule(1)), (Role::MASTER, None));
    }
    // At the first switch the second controller takes over.
    assert_eq!((b1.becomes_master(6), b1.adds_rule(2)), (Role::MASTER, None));
    assert_eq!((a1.adds_rule(3), a2.adds_rule(3)), (Some(IS_SLAVE), None));
    let rules = |dpid| emulation.rules(Dpid(dpid)).unwrap().iter().map(|(_, rule)| rule.priority).collect::<Vec<_>>();
    assert_eq!((rules(1), rules(2)), (vec![2, 1], vec![3, 1]));
    // The first one goes, and comes back. The others notice nothing.
    for line in [&*a1, a2] {
        line.stream.shutdown(std::net::Shutdown::Both).unwrap();
    }
    let again = [0; 2].map(|_| Line::accept(&listeners[0]));
    assert_ne!(again[0].dpid, again[1].dpid);
    assert_eq!((b1.adds_rule(4), b2.becomes_master(6), b2.adds_rule(4)), (None, Role::MASTER, None));
    let stats = emulation.stop().unwrap();
    assert!(stats.switches.iter().all(|switch| switch.connected && switch.connections == 3), "{stats:#?}");
}

#[test]
fn a_controller_that_is_not_there_keeps_nobody_from_the_others() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    hub(listener, Version::Of13);
    let mut options = EmulationOptions::new(Topology::linear(2), gone, Version::Of13);
    options.controllers.push(address);
    let emulation = Emulation::start(options).unwrap();
    let stats = wait(&emulation, "connections", |s| s.switches.iter().all(|s| s.connected && s.rules == 1));
    assert_eq!(stats.trouble, None, "one is reached");
}
