//! A take-over between two controllers in one process, with switches that are written down message by message.

mod common;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{LONG, Peer, packet_in};
use maple_controller::takeover::Takeover;
use maple_controller::{Controller, ControllerOptions, Handle};
use maple_core::network::Location;
use maple_core::state::{Value, Write};
use maple_core::{Net, PacketHandle, Route};
use maple_wire::msg::PacketOut;
use maple_wire::{Action, Dpid, Field, Message, PortNo, Version};

/// Packets of this type wait until the gate is open.
const GATED: u16 = 0x88b5;
/// Others take the way to the other switch at once.
const PLAIN: u16 = 0x88b6;
/// The port of each switch that leads to the other one.
const BETWEEN: PortNo = PortNo(2);

/// The socket by which one controller takes over from another, which goes with its test.
struct Control(PathBuf);

impl Control {
    fn new(name: &str) -> Control {
        Control(std::env::temp_dir().join(format!("maple-takeover-{name}-{}", std::process::id())))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Everything goes to the host at switch 2, some of it when the gate is open.
fn policy(pkt: &PacketHandle, net: &Net) -> Route {
    if pkt.is(Field::EthType, GATED.into()) && net.var("gate").is_none() {
        return net.retry();
    }
    let to = Location::new(Dpid(2), PortNo(1));
    net.locate(pkt.eth_src()).map_or(Route::drop(), |from| net.shortest_path(from, to))
}

fn options(control: &Path) -> ControllerOptions {
    let mut options = ControllerOptions::new(Arc::new(policy));
    options.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    (options.workers, options.pin) = (2, false);
    // Nothing is given up while the test goes on.
    (options.engine.hold, options.engine.new_port_hold) = (LONG, LONG);
    options.control = Some(control.to_owned());
    options
}

/// Two switches with a link between them.
struct Switches {
    peers: [Peer; 2],
    confirms: bool,
    /// What they were told to send of the packets of [`frame`].
    sent: Vec<(Dpid, PacketOut)>,
}

impl Switches {
    fn connect(address: SocketAddr, version: Version) -> Switches {
        let peers = [1, 2].map(|dpid| Peer::begin(address, version, dpid));
        Switches { peers, confirms: true, sent: Vec::new() }
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
        for (here, there) in [(0, 1), (1, 0)] {
            while let Some((header, message)) = self.peers[here].receive(Duration::from_millis(2)) {
                match message {
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

    /// The hosts' packets that were sent, each with the switch and the port by which it left.
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
    [GATED, PLAIN].iter().any(|kind| out.data == frame(*kind))
}

fn outputs(out: &PacketOut) -> Vec<PortNo> {
    let port = |action: &Action| match action {
        Action::Output { port, .. } => Some(*port),
        _ => None,
    };
    out.actions.iter().filter_map(port).collect()
}

/// One controller takes over from another. The switches serve both meanwhile.
fn take_over(old: Controller, control: &Path, switches: &mut Switches) -> Controller {
    let handle = old.handle();
    handle.serve_successors();
    thread::scope(|scope| {
        let old = scope.spawn(move || {
            let began = Instant::now();
            while began.elapsed() < LONG {
                match handle.successor() {
                    Some(successor) => return old.hand_over(successor).expect("the other one is there"),
                    None => thread::sleep(Duration::from_millis(1)),
                }
            }
            panic!("nobody takes over");
        });
        let new = scope.spawn(|| {
            let takeover = Takeover::ask(control, false).expect("the other one answers");
            Controller::take_over(options(control), takeover).expect("it takes over")
        });
        switches.until("a take-over", |_| old.is_finished() && new.is_finished());
        assert_eq!(old.join().expect("it ends"), 2, "both connections are handed over");
        new.join().expect("it starts")
    })
}

fn decided(handle: &Handle) -> u64 {
    let stats = handle.stats();
    let named = |name: &str| stats.total.engine.iter().find(|(n, _)| *n == name).map(|(_, count)| count);
    named("misses").expect("it is counted")
}

#[test]
fn packets_that_wait_in_the_old_process_are_answered_by_the_new_one_each_once() {
    for version in [Version::Of10, Version::Of13] {
        let control = Control::new(&format!("waiting-{version}"));
        let old = Controller::start(options(&control.0)).expect("it starts");
        let handle = old.handle();
        let mut switches = Switches::connect(handle.addresses()[0], version);
        switches.until("a link", |_| handle.links().len() == 1);
        // The switches don't confirm the rules of the way, so the packet waits for them; and for the gate the other.
        switches.confirms = false;
        switches.peers[0].send(0, &packet_in(1, frame(PLAIN)));
        switches.peers[0].send(0, &packet_in(1, frame(GATED)));
        switches.until("two decisions", |_| decided(&handle) == 2);
        (0..50).for_each(|_| switches.serve());
        assert_eq!(switches.sent(), [], "{version}: both wait");
        switches.confirms = true;
        let new = take_over(old, &control.0, &mut switches);
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
