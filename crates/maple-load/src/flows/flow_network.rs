//! A network of switches that a controller controls, and the flows through it.
//!
//! ```text
//!  host ─ frame ─► tables ─ no rule ─► packet-in ─► controller
//!                    ▲                                  │ flow-mods, barriers, packet-outs
//!                    └── every switch obeys in order ◄──┘
//!  a flow has ended when its packet came out at its host, and a second one takes the same way by rules alone
//! ```
//!
//! One thread does everything. A message is obeyed when it is read, so a barrier is answered when all before it is
//! done.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use maple_wire::msg::{Frames, PortReason, PortStatus};
use maple_wire::{Message, Port, Version};
use mio::{Events, Interest, Poll, Token};
use rustc_hash::FxHashMap;

use super::links::{FarEnd, Links, NetworkPort, Node, PacketOutcome, TABLES};
use super::obey;
use super::{Counters, frames};
use crate::channel::Channel;
use crate::error::LoadError;
use crate::handshake::{Identity, hello};
use crate::histogram::Histogram;
use crate::run::HANDSHAKE_TIMEOUT;
use crate::workload::{NetworkHost, Wiring};

/// The maximum time that the poll waits, and so the delay after which a deadline is noticed. Chosen: a small part of
/// all deadlines here, which are seconds.
const NAP: Duration = Duration::from_millis(10);
/// The size of the read buffer, in bytes. It must be at least 65,535, the length of the longest OpenFlow message; a
/// larger one takes more in a call of the system.
const BUFFER: usize = 1 << 20;
/// The time in nanoseconds after which a host's packet is repeated: a second, as hosts have for TCP's first packet (RFC
/// 6298).
const REPEAT_AFTER: u64 = 1_000_000_000;
/// The number of times that a packet is sent before its flow has failed: a choice between slow failures and false ones.
const TRIES: u8 = 4;
/// The queued bytes for the controller above which a switch drops packets of a port that floods: some hundred
/// packet-ins. More would delay other packets behind the flood; fewer would let the controller run out of work.
const CONGESTED: usize = 1 << 14;

/// The network to emulate.
#[derive(Clone, Debug)]
pub struct FlowNetworkOptions {
    /// The controller.
    pub connect: SocketAddr,
    /// The switches, links and hosts. Several hosts may share a port.
    pub network: Wiring,
    /// Each switch has at least the ports from 1 to this one.
    pub ports: u32,
    /// The version that the switches speak.
    pub version: Version,
    /// The maximum number of flows that are open at once.
    pub window: usize,
    /// One of every `confirm` flows is confirmed: it ends only if a further packet would come out by rules alone. 1
    /// confirms all.
    pub confirm: u32,
}

/// Two hosts, by their places in the network.
pub type Pair = (u32, u32);

/// The purpose of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The first packet of a flow between hosts.
    Flow(Pair),
    /// The announcement of a host.
    Announcement(u32),
}

/// An open flow or announcement.
#[derive(Clone, Copy, Debug)]
struct OpenExchange {
    purpose: Purpose,
    began: u64,
    tries: u8,
    /// Whether its packet was delivered before a second one would be.
    is_delivered: bool,
}

/// A network of switches that obey the controller; see the module.
pub struct FlowNetwork {
    pub(super) options: FlowNetworkOptions,
    pub(super) links: Links,
    pub(super) channels: Vec<Channel>,
    pub(super) identities: Vec<Identity>,
    /// Whether the controller has asked each switch for its features.
    pub(super) is_known: Vec<bool>,
    pub(super) counters: Counters,
    hosts_by_ip: FxHashMap<[u8; 4], u32>,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    unread: Vec<usize>,
    clock: Instant,
    exchanges: Exchanges,
    done: Done,
    pub(super) seen: Vec<PacketOutcome>,
}

/// The exchanges that go on.
#[derive(Default)]
struct Exchanges {
    open: FxHashMap<u32, OpenExchange>,
    next: u32,
    /// The times at which packets are sent again, in order.
    due: VecDeque<(u64, u32)>,
    /// Flows whose packet was delivered before the rules were complete.
    unconfirmed: Vec<u32>,
}

/// The flows that have ended.
#[derive(Default)]
struct Done {
    pairs: Vec<Pair>,
    latency: Histogram,
}

impl FlowNetwork {
    /// Connects all switches, and serves the controller until it knows them.
    ///
    /// # Errors
    /// [`LoadError`] if the controller cannot be reached, closes a connection, breaks the protocol, or does not finish
    /// handshakes.
    pub fn connect(options: FlowNetworkOptions) -> Result<FlowNetwork, LoadError> {
        let network = &options.network;
        let nodes = nodes(&options);
        let identity = |(dpid, node): (&u64, &Node)| Identity {
            dpid: *dpid,
            ports: (0..node.ports.len() as u32).filter(|n| node.ports[*n as usize].is_some()).collect(),
            tables: if options.version == Version::Of10 { 1 } else { TABLES },
        };
        let identities: Vec<Identity> = network.switches.iter().zip(&nodes).map(identity).collect();
        let poll = Poll::new()?;
        let mut channels = Vec::new();
        for id in 0..network.switches.len() {
            let mut channel = Channel::connect(options.connect, None, id as u32 + 1, options.version)?;
            poll.registry().register(channel.socket.stream(), Token(id), Interest::READABLE | Interest::WRITABLE)?;
            channel.say(0, &hello(options.version))?;
            channels.push(channel);
        }
        let hosts_by_ip = (0..).zip(&network.hosts).map(|(id, host)| (host.ip.octets(), id)).collect();
        let mut flow_network = FlowNetwork {
            links: Links::new(nodes),
            is_known: vec![false; channels.len()],
            channels,
            identities,
            counters: Counters::default(),
            hosts_by_ip,
            poll,
            events: Events::with_capacity(64),
            buffer: vec![0; BUFFER],
            unread: Vec::new(),
            clock: Instant::now(),
            exchanges: Exchanges::default(),
            done: Done::default(),
            seen: Vec::new(),
            options,
        };
        flow_network.flush()?;
        flow_network.until_known()?;
        Ok(flow_network)
    }

    fn until_known(&mut self) -> Result<(), LoadError> {
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        while !self.is_known.iter().all(|known| *known) {
            if Instant::now() > deadline {
                let missing = self.is_known.iter().filter(|known| !**known).count();
                let switches = self.is_known.len() as u32;
                return Err(LoadError::Handshake { missing, switches, within: HANDSHAKE_TIMEOUT });
            }
            self.turn(NAP)?;
        }
        Ok(())
    }

    /// Serves the controller for this long.
    ///
    /// # Errors
    /// [`LoadError`] if the controller closes a connection or breaks the protocol.
    pub fn wait(&mut self, time: Duration) -> Result<(), LoadError> {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            self.turn(NAP.min(deadline.saturating_duration_since(Instant::now())))?;
        }
        Ok(())
    }

    /// Makes every host announce itself to another one, the first two before the others. Returns the number of hosts
    /// that did not finish within `patience`.
    ///
    /// # Errors
    /// [`LoadError`] as [`FlowNetwork::wait`] returns it.
    pub fn announce(&mut self, patience: Duration) -> Result<usize, LoadError> {
        let deadline = Instant::now() + patience;
        let mut order: Vec<u32> = (0..self.options.network.hosts.len() as u32).collect();
        let anchors = self.anchors();
        order.sort_by_key(|host| !anchors.contains(host));
        let mut begun = 0;
        while (begun < order.len() || !self.exchanges.open.is_empty()) && Instant::now() < deadline {
            // The first hosts go alone, since the others ask for them.
            let window = if begun <= anchors.len() { 1 } else { self.options.window };
            while begun < order.len() && self.exchanges.open.len() < window {
                self.begin(Purpose::Announcement(order[begun]))?;
                begun += 1;
            }
            self.turn(NAP)?;
        }
        let unknown = order.len() - begun + self.exchanges.open.len();
        self.forget();
        Ok(unknown)
    }

    /// Returns the first host, and the first one at another port. The other hosts announce themselves to these.
    fn anchors(&self) -> [u32; 2] {
        let hosts = &self.options.network.hosts;
        let first = hosts.first().map(place);
        let other = hosts.iter().position(|host| Some(place(host)) != first).unwrap_or(0);
        [0, other as u32]
    }

    /// Returns the host to which this one announces itself; `None` for the first host.
    fn confidant(&self, host: u32) -> Option<u32> {
        let [first, other] = self.anchors();
        let at = |host: u32| place(&self.options.network.hosts[host as usize]);
        if host == first { None } else { Some(if at(host) == at(first) { other } else { first }) }
    }

    /// Reports whether a pair of hosts makes a new flow: they are at different ports, and no announcement used the
    /// pair.
    pub fn is_new(&self, (src, dst): Pair) -> bool {
        let hosts = &self.options.network.hosts;
        place(&hosts[src as usize]) != place(&hosts[dst as usize]) && self.confidant(src) != Some(dst)
    }

    /// Keeps the window full of new flows until `until` flows have ended since the flow_network was made, or the time
    /// is over. Reports whether they have.
    ///
    /// # Errors
    /// [`LoadError`] as [`FlowNetwork::wait`] returns it.
    pub fn flows(
        &mut self,
        pairs: &mut impl Iterator<Item = Pair>,
        until: usize,
        deadline: Instant,
    ) -> Result<bool, LoadError> {
        let mut is_over = false;
        while self.done.pairs.len() < until {
            while self.exchanges.open.len() < self.options.window && !is_over {
                let Some(pair) = pairs.next() else {
                    is_over = true;
                    break;
                };
                self.begin(Purpose::Flow(pair))?;
            }
            if Instant::now() > deadline || (is_over && self.exchanges.open.is_empty()) {
                // Flows that meet rules end when they begin.
                return Ok(self.done.pairs.len() >= until);
            }
            self.turn(NAP)?;
        }
        Ok(true)
    }

    /// Waits until no flow is open, or the time is over. The remaining flows count as failed.
    ///
    /// # Errors
    /// [`LoadError`] as [`FlowNetwork::wait`] returns it.
    pub fn drain(&mut self, patience: Duration) -> Result<(), LoadError> {
        let deadline = Instant::now() + patience;
        while !self.exchanges.open.is_empty() && Instant::now() < deadline {
            self.turn(NAP)?;
        }
        self.counters.failed += self.exchanges.open.len() as u64;
        self.forget();
        Ok(())
    }

    fn forget(&mut self) {
        self.exchanges.open.clear();
        self.exchanges.due.clear();
        self.exchanges.unconfirmed.clear();
    }

    /// Injects the frames of `count` unknown hosts, numbered from `first`, at a port, as long as the switch's channel
    /// has room for them. Returns the number of injected frames.
    ///
    /// # Errors
    /// [`LoadError`] as [`FlowNetwork::wait`] returns it.
    pub fn flood(&mut self, at: NetworkPort, to: u32, first: u32, count: u32) -> Result<u32, LoadError> {
        let to = self.options.network.hosts[to as usize].clone();
        for number in 0..count {
            if self.channels[at.0].waiting.len() > CONGESTED {
                return Ok(number);
            }
            self.links.receive(at, frames::stranger(first + number, &to), &mut self.seen);
            self.look()?;
        }
        Ok(count)
    }

    /// Takes a link down or up; both switches report it.
    ///
    /// # Errors
    /// [`LoadError`] as [`FlowNetwork::wait`] returns it.
    pub fn set_link(&mut self, ends: [NetworkPort; 2], is_up: bool) -> Result<(), LoadError> {
        self.links.set_link(ends, is_up);
        for (switch, number) in ends {
            let mut port: Port = crate::handshake::port(&self.identities[switch], number);
            port.state = if is_up { 0 } else { Port::STATE_LINK_DOWN };
            let message = Message::PortStatus(PortStatus { reason: PortReason::Modify, port });
            self.channels[switch].say(0, &message)?;
        }
        self.flush()
    }

    /// Returns the link ports that a packet of this pair would leave by; `None` unless rules alone bring it to its
    /// host.
    pub fn path(&mut self, pair: Pair) -> Option<&[NetworkPort]> {
        self.comes_out(pair, u32::MAX).then_some(self.links.crossed())
    }

    /// Reports whether rules alone bring a packet of this pair to its host.
    fn comes_out(&mut self, (src, dst): Pair, flow: u32) -> bool {
        let hosts = &self.options.network.hosts;
        let (src, dst) = (&hosts[src as usize], &hosts[dst as usize]);
        let (from, to) = (place(src), place(dst));
        let mut seen = Vec::new();
        self.links.receive(from, frames::packet(src, dst, flow), &mut seen);
        seen.iter().any(|seen| matches!(seen, PacketOutcome::Egress { at, .. } if *at == to))
            && !seen.iter().any(|seen| matches!(seen, PacketOutcome::Says { message: Message::PacketIn(_), .. }))
    }

    fn begin(&mut self, purpose: Purpose) -> Result<(), LoadError> {
        let (id, began) = (self.exchanges.next, self.now());
        self.exchanges.next = self.exchanges.next.wrapping_add(1);
        self.exchanges.open.insert(id, OpenExchange { purpose, began, tries: 1, is_delivered: false });
        self.exchanges.due.push_back((began + REPEAT_AFTER, id));
        self.send(id, purpose)
    }

    /// Sends a host's packet.
    fn send(&mut self, id: u32, purpose: Purpose) -> Result<(), LoadError> {
        let host = |id: u32| &self.options.network.hosts[id as usize];
        let (src, frame) = match purpose {
            Purpose::Flow((src, dst)) => (host(src), frames::packet(host(src), host(dst), id)),
            Purpose::Announcement(src) => {
                (host(src), frames::announcement(host(src), self.confidant(src).map(host), id))
            }
        };
        let at = place(src);
        self.links.receive(at, frame, &mut self.seen);
        self.look()
    }

    /// Handles the results of the links.
    pub(super) fn look(&mut self) -> Result<(), LoadError> {
        while !self.seen.is_empty() {
            for seen in std::mem::take(&mut self.seen) {
                match seen {
                    PacketOutcome::Lost => self.counters.lost += 1,
                    PacketOutcome::Egress { at, frame } => self.on_delivered(at, &frame),
                    PacketOutcome::Says { switch, xid, message } => {
                        self.counters.packet_ins += u64::from(matches!(message, Message::PacketIn(_)));
                        self.counters.refused += u64::from(matches!(message, Message::Error(_)));
                        self.channels[switch].say(xid, &message)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles a frame that leaves the network.
    fn on_delivered(&mut self, at: NetworkPort, frame: &[u8]) {
        let Some(id) = frames::flow_of(frame) else {
            self.answer(at, frame);
            return;
        };
        let Some(purpose) = self.exchanges.open.get(&id).map(|open| open.purpose) else {
            self.counters.copies += 1;
            return;
        };
        let host = |id: u32| place(&self.options.network.hosts[id as usize]);
        match purpose {
            Purpose::Announcement(src) => {
                if self.confidant(src).is_none_or(|to| host(to) == at) {
                    self.exchanges.open.remove(&id);
                }
            }
            Purpose::Flow((_, dst)) if host(dst) != at => self.counters.elsewhere += 1,
            Purpose::Flow(pair) => self.delivered(id, pair),
        }
    }

    /// Handles a flow's packet that reached its host. The flow ends if a further packet would reach it too, or if that
    /// is not checked.
    fn delivered(&mut self, id: u32, pair: Pair) {
        if !id.is_multiple_of(self.options.confirm) || self.comes_out(pair, id) {
            self.end(id);
        } else if let Some(open) = self.exchanges.open.get_mut(&id)
            && !std::mem::replace(&mut open.is_delivered, true)
        {
            self.exchanges.unconfirmed.push(id);
        }
    }

    fn end(&mut self, id: u32) {
        let now = self.now();
        if let Some(OpenExchange { purpose: Purpose::Flow(pair), began, .. }) = self.exchanges.open.remove(&id) {
            self.done.latency.add(now.saturating_sub(began));
            self.done.pairs.push(pair);
        }
    }

    /// Lets a host answer a request for its address.
    fn answer(&mut self, at: NetworkPort, frame: &[u8]) {
        let Some((ip, mac, asker)) = frames::arp_request(frame) else { return };
        let Some(host) = self.hosts_by_ip.get(&ip).map(|id| &self.options.network.hosts[*id as usize]) else { return };
        if place(host) == at {
            let answer = frames::answer(host, mac, asker);
            self.links.receive(at, answer, &mut self.seen);
        }
    }

    /// Takes one turn: reads messages, obeys them, repeats due packets, writes.
    fn turn(&mut self, wait: Duration) -> Result<(), LoadError> {
        self.flush()?;
        let wait = if self.unread.is_empty() { wait } else { Duration::ZERO };
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let mut ready = std::mem::take(&mut self.unread);
        for event in &self.events {
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                self.channels[event.token().0].is_readable = true;
                ready.push(event.token().0);
            }
        }
        ready.sort_unstable();
        ready.dedup();
        for switch in ready {
            self.read(switch)?;
        }
        self.confirm();
        self.send_again()?;
        self.flush()
    }

    /// Reads a channel once and obeys each message.
    fn read(&mut self, switch: usize) -> Result<(), LoadError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        if let Some(length) = self.channels[switch].read(&mut buffer)? {
            let mut messages = Frames::new(&buffer[..length]);
            for message in messages.by_ref() {
                let (header, bytes) = message.map_err(|error| self.channels[switch].malformed(error))?;
                obey::message(self, switch, header, bytes)?;
            }
            self.channels[switch].keep(messages.rest());
        }
        self.buffer = buffer;
        if self.channels[switch].is_readable {
            self.unread.push(switch);
        }
        Ok(())
    }

    /// Ends flows whose rules arrived after their packet.
    fn confirm(&mut self) {
        for id in std::mem::take(&mut self.exchanges.unconfirmed) {
            match self.exchanges.open.get(&id).map(|open| open.purpose) {
                Some(Purpose::Flow(pair)) if self.comes_out(pair, id) => self.end(id),
                Some(_) => self.exchanges.unconfirmed.push(id),
                None => {}
            }
        }
    }

    fn send_again(&mut self) -> Result<(), LoadError> {
        let now = self.now();
        while let Some((_, id)) = self.exchanges.due.front().copied().filter(|(at, _)| *at <= now) {
            self.exchanges.due.pop_front();
            let Some(open) = self.exchanges.open.get_mut(&id) else { continue };
            if open.tries == TRIES {
                self.counters.failed += 1;
                self.counters.without_rules += u64::from(open.is_delivered);
                self.exchanges.open.remove(&id);
                continue;
            }
            open.tries += 1;
            let purpose = open.purpose;
            self.counters.resent += 1;
            self.exchanges.due.push_back((now + REPEAT_AFTER, id));
            self.send(id, purpose)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), LoadError> {
        self.look()?;
        self.channels.iter_mut().filter(|channel| !channel.waiting.is_empty()).try_for_each(Channel::flush)
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Returns the flows that have ended.
    pub fn ended(&self) -> &[Pair] {
        &self.done.pairs
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        Counters { ended: self.done.pairs.len() as u64, ..self.counters }
    }

    /// Returns the median and the 99th percentile of the times from first packet to end of flows, in microseconds,
    /// since the last call.
    pub fn take_latency(&mut self) -> (f64, f64) {
        let latency = std::mem::take(&mut self.done.latency);
        let micros = |share| latency.quantile(share) as f64 / 1e3;
        (micros(0.5), micros(0.99))
    }

    /// Returns the emulated network.
    pub fn network(&self) -> &Wiring {
        &self.options.network
    }

    /// Returns the number of rules of a switch.
    pub fn rules(&self, switch: usize) -> usize {
        self.links.rules(switch)
    }

    /// Returns the number of rules of each table of a switch.
    pub fn rules_by_table(&self, switch: usize) -> impl Iterator<Item = usize> {
        self.links.rules_by_table(switch)
    }
}

fn place(host: &NetworkHost) -> NetworkPort {
    (host.switch, host.port)
}

/// Builds the switches with their ports: those of hosts and of links, and further ones.
fn nodes(options: &FlowNetworkOptions) -> Vec<Node> {
    let network = &options.network;
    let hosts = network.hosts.iter().map(|host| (place(host), FarEnd::Edge));
    let links = network.links.iter().flat_map(|[a, b]| [(*a, FarEnd::Link(*b)), (*b, FarEnd::Link(*a))]);
    let spare = (0..network.switches.len()).flat_map(|s| (1..=options.ports).map(move |n| ((s, n), FarEnd::Edge)));
    let mut ports: Vec<Vec<Option<FarEnd>>> = vec![Vec::new(); network.switches.len()];
    // Links come last: a port of a link is never an edge.
    for ((switch, number), far) in spare.chain(hosts).chain(links) {
        let (ports, number) = (&mut ports[switch], number as usize);
        if ports.len() <= number {
            ports.resize(number + 1, None);
        }
        ports[number] = Some(far);
    }
    network.switches.iter().zip(ports).map(|(dpid, ports)| Node::new(*dpid, options.version, ports)).collect()
}
