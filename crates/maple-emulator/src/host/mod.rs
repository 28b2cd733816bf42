//! A host: it answers ARP, neighbour discovery and pings, serves every TCP and UDP port, and opens flows of its own.
//!
//! Like the switch it has no clock and no wire: frames in, frames out, and [`Host::next_timer`] returns when it must be
//! polled again. Its dialogues are short and fixed, with time-outs and three attempts at each step. So a frame that is
//! lost while the network learns its path costs a second and not the flow:
//!
//! * neighbour: ARP request or neighbour solicitation, and the answer; kept for good once learned;
//! * ping: echo request, echo reply;
//! * UDP: request, reply;
//! * a stream: UDP datagrams at a rate, which no host answers and the receiver counts ([`Host::stream`]);
//! * TCP: SYN, SYN-ACK, ACK with data, data, FIN, FIN-ACK, ACK.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use maple_switch::time::{Nanoseconds, SECOND};

use crate::topology::HostSpec;

mod dialogue;
mod reply;
mod segment;
mod stream;

use dialogue::Stage;
use segment::Segment;
use stream::Stream;
pub use stream::{STREAM_PORT, StreamId, StreamSpec, Streamed};

/// The time in nanoseconds that a host waits for an answer before it asks again: a second, as for TCP's first packet
/// (RFC 6298).
pub const RETRY_AFTER: Nanoseconds = SECOND;
/// The number of attempts before a host gives up. Chosen: fewer would make lossy links look dead; more would delay each
/// failure.
pub const ATTEMPTS: u32 = 3;
/// The first port of a host's own flows, as Linux has it (`net.ipv4.ip_local_port_range`).
const FIRST_CLIENT_PORT: u16 = 32_768;
/// The number of such ports, some fewer than in Linux.
const CLIENT_PORTS: usize = 28_000;

/// The kind of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowKind {
    /// One echo request and its reply.
    Ping,
    /// A TCP connection to this port, with one request and one reply.
    Tcp(u16),
    /// A UDP datagram to this port and its reply.
    Udp(u16),
}

/// Identifies a flow of a host: its number there, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub usize);

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The dialogue continues.
    Running,
    /// The dialogue ended as it should.
    Done,
    /// No host answered for the address.
    NoNeighbour,
    /// The other host did not answer.
    NoAnswer,
}

/// A host's record of one of its flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Its kind.
    pub kind: FlowKind,
    /// The destination address.
    pub to: IpAddr,
    /// Its state.
    pub progress: Progress,
    /// Frames of the flow sent, including repetitions, without address resolution.
    pub sent: u64,
    /// Frames of the flow received.
    pub received: u64,
    /// The time when it was opened.
    pub started: Nanoseconds,
    /// The time when it was done or given up.
    pub ended: Option<Nanoseconds>,
}

/// The counters of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Frames sent.
    pub sent: u64,
    /// Frames received.
    pub received: u64,
    /// Received unicast frames for another host.
    pub foreign: u64,
    /// Answered requests of others.
    pub answered: u64,
    /// Its flows that ended as they should.
    pub flows_done: u64,
    /// Its flows that it gave up.
    pub flows_failed: u64,
}

/// A host.
#[derive(Clone, Debug)]
pub struct Host {
    spec: HostSpec,
    link_local: Ipv6Addr,
    neighbours: BTreeMap<IpAddr, [u8; 6]>,
    resolutions: BTreeMap<IpAddr, AddressResolution>,
    flows: Vec<Flow>,
    /// The times at which flows are repeated or given up.
    deadlines: BTreeSet<(Nanoseconds, usize)>,
    streams: Vec<Stream>,
    /// The results of received streams, by their number and sender.
    streamed: BTreeMap<(IpAddr, u32), Streamed>,
    counters: HostCounters,
}

/// The resolution of an address.
#[derive(Clone, Debug)]
struct AddressResolution {
    attempts: u32,
    ask_again: Nanoseconds,
    /// The flows that wait for the address.
    waiting: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Flow {
    record: FlowRecord,
    stage: Stage,
    port: u16,
    attempts: u32,
    /// The number of attempts for each packet.
    patience: u32,
    /// The time to repeat or give up; `None` while the address is being resolved, and when the flow is over.
    deadline: Option<Nanoseconds>,
}

impl Host {
    /// Creates the host of this description.
    pub fn new(spec: HostSpec) -> Host {
        let m = spec.mac;
        let link_local =
            Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]]);
        Host {
            spec,
            link_local,
            neighbours: BTreeMap::new(),
            resolutions: BTreeMap::new(),
            flows: Vec::new(),
            deadlines: BTreeSet::new(),
            streams: Vec::new(),
            streamed: BTreeMap::new(),
            counters: HostCounters::default(),
        }
    }

    /// Returns the host's description and its port.
    pub fn spec(&self) -> &HostSpec {
        &self.spec
    }

    pub(crate) fn spec_mut(&mut self) -> &mut HostSpec {
        &mut self.spec
    }

    /// Returns the host's address `fe80::…`, which follows from its hardware address.
    pub fn link_local(&self) -> Ipv6Addr {
        self.link_local
    }

    /// Returns the host's counters.
    pub fn counters(&self) -> HostCounters {
        self.counters
    }

    /// Returns the host's flows, in the order of their ids.
    pub fn flows(&self) -> impl Iterator<Item = &FlowRecord> {
        self.flows.iter().map(|f| &f.record)
    }

    /// Returns one of its flows.
    pub fn flow(&self, id: FlowId) -> Option<&FlowRecord> {
        self.flows.get(id.0).map(|f| &f.record)
    }

    /// Returns the hardware address that the host has learned for an address.
    pub fn neighbour(&self, address: IpAddr) -> Option<[u8; 6]> {
        self.neighbours.get(&address).copied()
    }

    /// Opens a flow. Adds the resulting frames to `out`.
    pub fn open(&mut self, now: Nanoseconds, to: IpAddr, kind: FlowKind, out: &mut Vec<Vec<u8>>) -> FlowId {
        self.open_with(now, to, kind, ATTEMPTS, out)
    }

    /// Opens a flow as [`Host::open`] does, with `patience` attempts for each packet: a ping with one attempt shows
    /// whether that one got through. Address resolution keeps its number of attempts.
    pub fn open_with(
        &mut self,
        now: Nanoseconds,
        to: IpAddr,
        kind: FlowKind,
        patience: u32,
        out: &mut Vec<Vec<u8>>,
    ) -> FlowId {
        let id = FlowId(self.flows.len());
        // A port is used again after this many flows, when the older flow has long ended.
        let port = FIRST_CLIENT_PORT + (id.0 % CLIENT_PORTS) as u16;
        let progress = Progress::Running;
        let record = FlowRecord { kind, to, progress, sent: 0, received: 0, started: now, ended: None };
        self.flows.push(Flow { record, stage: Stage::Resolving, port, attempts: 0, patience, deadline: None });
        if self.neighbours.contains_key(&to) {
            self.begin(now, id.0, out);
            return id;
        }
        match self.resolutions.entry(to) {
            Entry::Occupied(resolution) => resolution.into_mut().waiting.push(id.0),
            Entry::Vacant(resolution) => {
                resolution.insert(AddressResolution { attempts: 0, ask_again: now, waiting: vec![id.0] });
                self.ask(now, to, out);
            }
        }
        id
    }

    /// Announces the place of the host by a gratuitous ARP, as after a move.
    pub fn announce(&mut self, out: &mut Vec<Vec<u8>>) {
        let frame = reply::ethernet([0xff; 6], self.spec.mac).arp_request(self.spec.ipv4, self.spec.ipv4);
        self.send(frame, out);
    }

    /// Receives a frame. Adds the answers to `out`.
    pub fn receive(&mut self, now: Nanoseconds, frame: &[u8], out: &mut Vec<Vec<u8>>) {
        self.counters.received += 1;
        let Some((dst, _)) = frame.split_first_chunk::<6>() else { return };
        if *dst != self.spec.mac && dst[0] & 1 == 0 {
            self.counters.foreign += 1;
            return;
        }
        if let Some(segment) = Segment::parse(frame) {
            self.hear(now, &segment, out);
        }
    }

    /// Returns the time at which [`Host::poll`] must be called next.
    pub fn next_timer(&self) -> Option<Nanoseconds> {
        let flow = self.deadlines.first().map(|(at, _)| *at);
        let streams = self.streams.iter().filter_map(Stream::next);
        flow.into_iter().chain(streams).chain(self.resolutions.values().map(|r| r.ask_again)).min()
    }

    /// Lets time pass: overdue packets are repeated or given up.
    pub fn poll(&mut self, now: Nanoseconds, out: &mut Vec<Vec<u8>>) {
        let due = |r: &AddressResolution| r.ask_again <= now;
        let overdue: Vec<IpAddr> = self.resolutions.iter().filter(|(_, r)| due(r)).map(|(to, _)| *to).collect();
        overdue.into_iter().for_each(|to| self.ask(now, to, out));
        while let Some((deadline, at)) = self.deadlines.first().copied().filter(|(deadline, _)| *deadline <= now) {
            self.deadlines.remove(&(deadline, at));
            self.repeat(now, at, out);
        }
        self.send_streams(now, out);
    }

    /// Requests an address, or gives up on it and on the flows that wait for it.
    fn ask(&mut self, now: Nanoseconds, to: IpAddr, out: &mut Vec<Vec<u8>>) {
        let Some(resolution) = self.resolutions.get_mut(&to) else { return };
        if resolution.attempts == ATTEMPTS {
            let waiting = std::mem::take(&mut resolution.waiting);
            self.resolutions.remove(&to);
            waiting.into_iter().for_each(|at| self.end(now, at, Progress::NoNeighbour));
            return;
        }
        resolution.attempts += 1;
        resolution.ask_again = now + RETRY_AFTER;
        let frame = reply::ask_for(&self.spec, self.link_local, to);
        self.send(frame, out);
    }

    /// Learns an address, and starts the flows that waited for it.
    fn learn(&mut self, now: Nanoseconds, address: IpAddr, mac: [u8; 6], out: &mut Vec<Vec<u8>>) {
        self.neighbours.insert(address, mac);
        if let Some(resolution) = self.resolutions.remove(&address) {
            resolution.waiting.into_iter().for_each(|at| self.begin(now, at, out));
        }
    }

    fn owns(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(a) => a == self.spec.ipv4,
            IpAddr::V6(a) => a == self.spec.ipv6 || a == self.link_local,
        }
    }

    fn send(&mut self, frame: Vec<u8>, out: &mut Vec<Vec<u8>>) {
        self.counters.sent += 1;
        out.push(frame);
    }

    /// Sets or clears the time of a flow's next check.
    fn expect(&mut self, at: usize, deadline: Option<Nanoseconds>) {
        if let Some(old) = std::mem::replace(&mut self.flows[at].deadline, deadline) {
            self.deadlines.remove(&(old, at));
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, at)));
    }

    fn end(&mut self, now: Nanoseconds, at: usize, progress: Progress) {
        self.expect(at, None);
        let flow = &mut self.flows[at];
        if flow.stage == Stage::Over {
            return;
        }
        flow.record.progress = progress;
        flow.record.ended = Some(now);
        flow.stage = Stage::Over;
        self.counters.flows_done += u64::from(progress == Progress::Done);
        self.counters.flows_failed += u64::from(progress != Progress::Done);
    }

    /// Returns the last flow from a port.
    fn flow_from(&self, port: u16) -> Option<usize> {
        let place = usize::from(port.checked_sub(FIRST_CLIENT_PORT)?);
        let rounds = self.flows.len().checked_sub(place + 1)? / CLIENT_PORTS;
        (place < CLIENT_PORTS).then_some(rounds * CLIENT_PORTS + place)
    }
}

impl fmt::Display for FlowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowKind::Ping => f.write_str("ping"),
            FlowKind::Tcp(port) => write!(f, "tcp/{port}"),
            FlowKind::Udp(port) => write!(f, "udp/{port}"),
        }
    }
}
