//! The cost of a packet that a leaf answers: `cargo bench -p maple-core --bench hits`.
//!
//! There is one shard with OpenFlow 1.0, the policy that floods, and 16 switches that serve one host each, 100 or
//! 1,000. Reads of 64 packet-ins are answered in place, switch after switch and host after host. So what is remembered
//! about a host is as cold as possible. Each case is measured alone, then with a batch of events handled before each
//! round of reads, then with another value of an unused cell committed before each. Without tracking of hosts there is
//! one leaf for each switch. The output is the processor time of a packet in nanoseconds, as the median of several
//! rounds.
//!
//! `cargo bench -p maple-core --bench hits -- HOSTS PACKETS` only answers this many packets of this many hosts for each
//! switch. It is meant for a profiler or a counter of instructions.

use std::sync::Arc;

use arrayvec::ArrayVec;
use maple_core::engine::testing::switch_up;
use maple_core::engine::{Effect, Engine, Event, Options, ShardId, Time};
use maple_core::network::Location;
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_core::state::{Store, Value, Write};
use maple_wire::msg::{PacketIn, PacketInView};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Message, Port, PortNo, Version};

const SWITCHES: u64 = 16;
/// The number of packets in one read.
const READ: usize = 64;
/// The number of packets in one round.
const ROUND: usize = 1 << 17;
const ROUNDS: usize = 7;
/// A time at which nothing is held or awaited any more.
const LATER: u64 = 3_600_000_000_000;

fn main() {
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let numbers: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    if let [hosts, packets] = numbers[..] {
        let mut bench = HitShard::new(hosts, true);
        let answers = bench.answer(packets);
        return println!("{hosts} hosts a switch: {packets} packets, {answers} bytes of answers");
    }
    println!("one leaf a switch: {:.0} ns", HitShard::new(1000, false).rounds(|_, _| {}));
    for hosts in [1, 100, 1000] {
        let mut bench = HitShard::new(hosts, true);
        let alone = bench.rounds(|_, _| {});
        let events = bench.rounds(|engine, _| handle(engine, &mut vec![Event::Tick]));
        let store = Arc::clone(&bench.store);
        let commits = bench.rounds(|engine, n| {
            let writes = [Write::Var { name: "unread".into(), value: Some(Value::from(n as i64)) }];
            let commit = store.update(|_| writes.to_vec());
            handle(engine, &mut vec![Event::Committed(commit)]);
        });
        println!("{hosts} hosts a switch: {alone:.0} ns, with events {events:.0}, with commits {commits:.0}");
    }
}

/// A shard whose packets are all hits.
struct HitShard {
    engine: Engine,
    store: Arc<Store>,
    /// The messages that one pass over all hosts reads: at most 64 messages of a switch at a time.
    reads: Vec<(Dpid, Vec<Vec<u8>>)>,
    next: usize,
    out: Vec<u8>,
}

impl HitShard {
    fn new(hosts: usize, track_hosts: bool) -> HitShard {
        let store = Store::new();
        let policy = Arc::new(|_: &PacketHandle, _: &Net| Route::flood());
        let options = Options {
            track_hosts,
            check_rate: 0,
            max_hosts_per_port: usize::MAX,
            max_hosts: usize::MAX,
            ..Options::default()
        };
        let mut engine = Engine::new(ShardId(0), Arc::clone(&store), policy, options);
        let mut events = Vec::new();
        for dpid in (1..=SWITCHES).map(Dpid) {
            events.push(switch_with_two_ports(dpid));
            events.push(Event::RulesRead { dpid, rules: Vec::new() });
            let ports = [1, 2].map(PortNo).into_iter();
            events.extend(ports.map(|port| Event::PortIsEdge { port: Location::new(dpid, port) }));
        }
        handle(&mut engine, &mut events);
        let all: Vec<(Dpid, Vec<PacketIn>)> = (1..=SWITCHES).map(|s| (Dpid(s), packets(s, hosts))).collect();
        // Hosts are learned first. Then they get leaves.
        for _ in 0..3 {
            for (dpid, packets) in &all {
                let packet_in = |packet_in: &PacketIn| Event::PacketIn { dpid: *dpid, packet_in: packet_in.clone() };
                handle(&mut engine, &mut packets.iter().map(packet_in).collect());
            }
        }
        let encoded =
            |packet: &PacketIn| Message::PacketIn(packet.clone()).to_bytes(Version::Of10, 1).expect("a packet-in");
        let pieces = hosts.div_ceil(READ);
        let reads = (0..pieces).flat_map(|piece| {
            all.iter().map(move |(dpid, all)| {
                let some = all.iter().skip(piece * READ).take(READ);
                (*dpid, some.map(encoded).collect())
            })
        });
        HitShard { engine, store, reads: reads.collect(), next: 0, out: Vec::new() }
    }

    /// Answers the next packets, which must all be hits. Returns how many bytes the answers have.
    fn answer(&mut self, packets: usize) -> usize {
        let (mut left, mut bytes) = (packets, 0);
        while left > 0 {
            let (dpid, messages) = &self.reads[self.next];
            let mut hits = self.engine.hits(Time(LATER), *dpid).expect("nothing is to be settled first");
            let packets: ArrayVec<_, READ> = messages
                .iter()
                .take(left)
                .map(|message| PacketInView::new_checked(Version::Of10, message).expect("it holds together"))
                .collect();
            assert_eq!(hits.answer(&packets, &mut self.out).packet_outs, packets.len(), "hits");
            left -= packets.len();
            bytes += self.out.len();
            self.out.clear();
            self.next = (self.next + 1) % self.reads.len();
        }
        bytes
    }

    /// Returns the nanoseconds for each packet, if `before` runs before each pass over the switches.
    fn rounds(&mut self, mut before: impl FnMut(&mut Engine, usize)) -> f64 {
        let turn: usize = self.reads.iter().take(SWITCHES as usize).map(|(_, messages)| messages.len()).sum();
        let mut times: Vec<f64> = Vec::new();
        for round in 0..=ROUNDS {
            let (mut took, turns) = (0.0, ROUND / turn);
            for n in 0..turns {
                before(&mut self.engine, round * turns + n);
                let began = cpu();
                self.answer(turn);
                took += cpu() - began;
            }
            times.push(took / (turns * turn) as f64);
        }
        // The first round is for warming up.
        times.remove(0);
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

fn switch_with_two_ports(dpid: Dpid) -> Event {
    let port = |number: u32| Port::new(PortNo(number), [0; 6], "port");
    switch_up(dpid, Version::Of10, 1, vec![port(1), port(2)])
}

/// Returns one packet of each host of a switch, to the host after it.
fn packets(switch: u64, hosts: usize) -> Vec<PacketIn> {
    let mac = |host: usize| [2, 0, switch as u8, 0, (host >> 8) as u8, host as u8];
    let ip = |host: usize| [10, switch as u8, (host >> 8) as u8, host as u8];
    let packet = |host: usize| {
        let to = (host + 1) % hosts;
        let data = Frame::ethernet(mac(host), mac(to)).ipv4(ip(host), ip(to)).udp(1, 2).build();
        PacketIn::new(1, data)
    };
    (0..hosts).map(packet).collect()
}

/// Handles events, and immediately confirms what the switches are asked to confirm.
fn handle(engine: &mut Engine, events: &mut Vec<Event>) {
    let mut effects = Vec::new();
    while !events.is_empty() {
        engine.handle(Time(LATER), events, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Send { dpid, xid, message: Message::BarrierRequest } => {
                    events.push(Event::BarrierReply { dpid, xid });
                }
                Effect::ReadRules { dpid } => events.push(Event::RulesRead { dpid, rules: Vec::new() }),
                _ => {}
            }
        }
    }
}

/// Returns the processor time that this thread has used, in nanoseconds.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
