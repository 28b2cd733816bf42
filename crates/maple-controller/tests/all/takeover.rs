//! A take-over between two controllers in one process, with switches that are written down message by message.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{LONG, Peer, packet_in};
use maple_controller::takeover::Takeover;
use maple_controller::{Controller, ControllerOptions, Handle};
use maple_core::network::{Location, PortKind};
use maple_core::route::FRAME_BYTES;
use maple_core::state::{Value, Write};
use maple_core::{Net, PacketHandle, Route};
use maple_wire::msg::PacketOut;
use maple_wire::{Action, Dpid, Field, Message, PortNo, Version};
use tempfile::TempDir;

/// Packets of this Ethernet type wait until the gate is open.
const GATED: u16 = 0x88b5;
/// Packets of this Ethernet type take the path to the other switch at once.
const PLAIN: u16 = 0x88b6;
/// Packets of this Ethernet type do so too.
const OTHER: u16 = 0x88b7;
/// The port of each switch that leads to the other one.
const BETWEEN: PortNo = PortNo(2);

/// The folder in which both controllers have their control socket and their state file. It is removed with its test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("it can be made"))
    }

    fn control(&self) -> PathBuf {
        self.0.path().join("control.sock")
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }
}

/// Routes everything to the host at switch 2, some of it when the gate is open.
fn policy(pkt: &PacketHandle, net: &Net) -> Route {
    if pkt.is(Field::EthType, GATED.into()) && net.var("gate").is_none() {
        return net.retry();
    }
    let to = Location::new(Dpid(2), PortNo(1));
    net.locate(pkt.eth_src()).map_or(Route::drop(), |from| net.shortest_path(from, to))
}

fn options(folder: &Folder, remembers: bool) -> ControllerOptions {
    let mut options = ControllerOptions::new(Arc::new(policy));
    options.openflow.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    (options.workers.count, options.workers.pin) = (2, false);
    // Nothing is given up while the test runs.
    (options.engine.hold, options.engine.new_port_hold) = (LONG, LONG);
    options.openflow.deadlines.handshake = 6 * LONG;
    options.control.socket = Some(folder.control());
    options.memory.state_file = remembers.then(|| folder.state());
    options
}

/// Two switches with a link between them.
struct Switches {
    peers: [Peer; 2],
    confirms: bool,
    /// Whether the second one answers nothing.
    is_silent: bool,
    /// The messages that it has not answered.
    unanswered: Vec<(u32, Message)>,
    /// The packets of [`frame`] that the switches were asked to send.
    sent: Vec<(Dpid, PacketOut)>,
}

impl Switches {
    fn connect(address: SocketAddr, version: Version) -> Switches {
        let peers = [1, 2].map(|dpid| Peer::begin(address, version, dpid));
        Switches { peers, confirms: true, is_silent: false, unanswered: Vec::new(), sent: Vec::new() }
    }

    /// Serves the controller until something holds.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&Switches) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(began.elapsed() < LONG, "not within {LONG:?}: {what}");
            self.serve();
        }
    }

    fn serve(&mut self) {
        if !self.is_silent {
            self.unanswered.drain(..).for_each(|(xid, message)| self.peers[1].answer(xid, &message));
        }
        for (here, there) in [(0, 1), (1, 0)] {
            while let Some((header, message)) = self.peers[here].receive(Duration::from_millis(2)) {
                match message {
                    message if here == 1 && self.is_silent => self.unanswered.push((header.xid, message)),
                    Message::BarrierRequest if !self.confirms => {}
                    Message::PacketOut(out) if is_ours(&out) => self.sent.push((self.peers[here].dpid, out)),
                    Message::PacketOut(out) if outputs(&out) == [BETWEEN] => {
                        self.peers[there].send(0, &packet_in(BETWEEN.0, out.data));
                    }
                    message => self.peers[here].answer(header.xid, &message),
                }
            }
        }
    }

    /// Returns the hosts' packets that were sent, each with its switch, its ports and its Ethernet type.
    fn sent(&self) -> Vec<(u64, Vec<PortNo>, u16)> {
        let kind = |out: &PacketOut| u16::from_be_bytes([out.data[12], out.data[13]]);
        self.sent.iter().map(|(dpid, out)| (dpid.0, outputs(out), kind(out))).collect()
    }
}

fn frame(kind: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(kind.to_be_bytes());
    frame.resize(60, 7);
    frame
}

fn is_ours(out: &PacketOut) -> bool {
    [GATED, PLAIN, OTHER].iter().any(|kind| out.data == frame(*kind))
}

fn outputs(out: &PacketOut) -> Vec<PortNo> {
    let port = |action: &Action| match action {
        Action::Output { port, .. } => Some(*port),
        _ => None,
    };
    out.actions.iter().filter_map(port).collect()
}

/// Lets one controller take over from another. The switches serve both meanwhile.
fn take_over(old: Controller, folder: &Folder, remembers: bool, switches: &mut Switches) -> Controller {
    let handle = old.handle();
    handle.operations().serve_successors();
    thread::scope(|scope| {
        let old = scope.spawn(move || {
            let began = Instant::now();
            while began.elapsed() < LONG {
                match handle.operations().successor() {
                    Some(successor) => return old.hand_over(successor).expect("the other one is there"),
                    None => thread::sleep(Duration::from_millis(1)),
                }
            }
            panic!("nobody takes over");
        });
        let new = scope.spawn(|| {
            let takeover = Takeover::ask(&folder.control(), false).expect("the other one answers");
            Controller::take_over(options(folder, remembers), takeover).expect("it takes over")
        });
        switches.until("a take-over", |_| old.is_finished() && new.is_finished());
        assert_eq!(old.join().expect("it ends"), 2, "both connections are handed over");
        new.join().expect("it starts")
    })
}

fn count(handle: &Handle, name: &str) -> u64 {
    let stats = handle.stats().unwrap();
    let named = stats.total.engine.iter().find(|(n, _)| *n == name).map(|(_, count)| count);
    named.expect("it is counted")
}

#[test]
fn packets_that_wait_in_the_old_process_are_answered_by_the_new_one_each_once() {
    for version in [Version::Of10, Version::Of13] {
        let folder = Folder::new();
        let old = Controller::start(options(&folder, false)).expect("it starts");
        let handle = old.handle();
        let mut switches = Switches::connect(handle.addresses()[0], version);
        switches.until("a link", |_| handle.links().len() == 1);
        // The switches don't confirm the rules of the path, so one packet waits for them; the other waits for the gate.
        switches.confirms = false;
        switches.peers[0].send(0, &packet_in(1, frame(PLAIN)));
        switches.peers[0].send(0, &packet_in(1, frame(GATED)));
        switches.until("two decisions", |_| count(&handle, "misses") == 2);
        (0..50).for_each(|_| switches.serve());
        assert_eq!(switches.sent(), [], "{version}: both wait");
        switches.confirms = true;
        let new = take_over(old, &folder, false, &mut switches);
        let handle = new.handle();
        let on_its_way = |kind| (1, vec![BETWEEN], kind);
        switches.until("an answer to the packet that waited for rules", |switches| !switches.sent.is_empty());
        assert_eq!(switches.sent(), [on_its_way(PLAIN)], "{version}");
        let open = Write::Var { name: "gate".into(), value: Some(Value::Bool(true)) };
        handle.change(vec![open]).expect("any value fits");
        switches.until("an answer to the other one", |switches| switches.sent.len() > 1);
        (0..50).for_each(|_| switches.serve());
        assert_eq!(switches.sent(), [on_its_way(PLAIN), on_its_way(GATED)], "{version}: once each");
        new.stop();
    }
}

#[test]
fn a_packet_from_a_switch_that_is_up_waits_for_the_switch_where_it_leaves() {
    let folder = Folder::new();
    let old = Controller::start(options(&folder, true)).expect("it starts");
    let handle = old.handle();
    let mut switches = Switches::connect(handle.addresses()[0], Version::Of13);
    switches.until("a link", |_| handle.links().len() == 1);
    switches.peers[0].send(0, &packet_in(1, frame(PLAIN)));
    switches.until("an answer", |switches| !switches.sent.is_empty());
    // Changes are written twice a second.
    let later = Instant::now() + Duration::from_millis(1500);
    switches.until("that is on disk", |_| Instant::now() > later);
    switches.sent.clear();
    switches.is_silent = true;
    let new = take_over(old, &folder, true, &mut switches);
    let handle = new.handle();
    switches.peers[0].send(0, &packet_in(1, frame(OTHER)));
    switches.until("that it is sent without a rule", |_| count(&handle, "sent_by_controller") == 1);
    (0..50).for_each(|_| switches.serve());
    assert_eq!(switches.sent(), [], "the switch does not answer yet");
    switches.is_silent = false;
    switches.until("the packet", |switches| !switches.sent.is_empty());
    (0..50).for_each(|_| switches.serve());
    assert_eq!(switches.sent(), [(2, vec![PortNo(1)], OTHER)]);
    new.stop();
}

#[test]
fn switches_that_read_nothing_do_not_hold_up_a_take_over_one_after_the_other() {
    // If each had a time of its own, together they would take longer than a shard may.
    const SILENT: u64 = 12;
    let folder = Folder::new();
    let mut single = options(&folder, false);
    single.workers.count = 1;
    let old = Controller::start(single).expect("it starts");
    let handle = old.handle();
    let connect = |dpid| Peer::begin(handle.addresses()[0], Version::Of13, dpid);
    let mut peers: Vec<Peer> = (1..=SILENT).map(connect).collect();
    let is_edge = |dpid| {
        let at = Location::new(Dpid(dpid), PortNo(1));
        handle.snapshot().port(at).is_some_and(|port| port.kind == PortKind::Edge)
    };
    let began = Instant::now();
    while !(1..=SILENT).all(is_edge) {
        assert!(began.elapsed() < LONG, "not within {LONG:?}: all ports are known");
        for peer in &mut peers {
            while let Some((header, message)) = peer.receive(Duration::from_millis(1)) {
                peer.answer(header.xid, &message);
            }
        }
    }
    // This is more than the buffers between them hold.
    let frame = vec![0; *FRAME_BYTES.end()];
    for _ in 0..16 * 1024 * 1024 / frame.len() {
        for dpid in 1..=SILENT {
            handle.send_frame(frame.clone(), Location::new(Dpid(dpid), PortNo(1))).expect("there is such a port");
        }
    }
    handle.operations().serve_successors();
    thread::scope(|scope| {
        let new = scope.spawn(|| {
            let takeover = Takeover::ask(&folder.control(), false).expect("the other one answers");
            Controller::take_over(options(&folder, false), takeover).expect("it takes over")
        });
        let began = Instant::now();
        let successor = std::iter::from_fn(|| {
            thread::sleep(Duration::from_millis(1));
            Some(handle.operations().successor())
        });
        let successor = successor.take_while(|_| began.elapsed() < LONG).flatten().next().expect("somebody takes over");
        assert_eq!(old.hand_over(successor).expect("it is not too late"), 0, "none can be handed over");
        new.join().expect("it starts").stop();
    });
}
