//! Tests of discovery: several shards with wires and bridges between their switches, in simulated time.

mod away;
mod bridges;
mod declared;
mod hosts;
mod links;

use maple_wire::PortNo;

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::*;
use crate::time::after as later;

const KEY: Key = Key([7; 16]);
/// The Ethernet type of LLDP.
const LLDP: [u8; 2] = [0x88, 0xcc];
const MS: Duration = Duration::from_millis(1);

/// Shards with wires and bridges between their switches, and the anomalies that discovery has found.
struct ProbedNetwork {
    now: Time,
    shards: Vec<Discovery>,
    /// The port where a frame arrives that leaves by a port. One entry for each direction.
    wires: BTreeMap<Location, Location>,
    /// Bridges: the ports of each, and whether it forwards LLDP.
    bridges: Vec<(BTreeSet<Location>, bool)>,
    /// The time that a frame takes from port to port.
    delay: Duration,
    /// Frames in flight: when and where they arrive, and their bytes.
    in_flight: Vec<(Time, Location, Vec<u8>)>,
    attachments: BTreeMap<Location, Attachment>,
    /// Whether outputs may repeat or contradict earlier ones.
    forgets: bool,
    anomalies: Vec<(Location, Anomaly)>,
    /// The times and ports at which probes left.
    sent: Vec<(Time, Location)>,
    /// Whether the two forms of a probe are reordered.
    reorders_forms: bool,
    /// The number of LLDP frames that will be lost.
    loses_lldp: u32,
    /// The time that a requested probe waits before it leaves.
    probe_delay: Duration,
    /// Switches without a connection: no frame leaves or arrives there.
    away: BTreeSet<Dpid>,
    /// The switches that [`IsUnreachable`] reports as unreachable, for all shards.
    kept: Arc<Mutex<BTreeSet<Dpid>>>,
    /// A blocked shard: it reads nothing and does nothing.
    blocked: Option<usize>,
    /// Frames that wait for the blocked shard.
    unread: Vec<(Location, Vec<u8>)>,
    /// Messages that wait for the blocked shard.
    mailbox: Vec<(Location, PeerMessage)>,
}

impl ProbedNetwork {
    /// Creates this many shards; switch `n` belongs to shard `n % shards`.
    fn new(shards: usize) -> ProbedNetwork {
        let kept = Arc::<Mutex<BTreeSet<Dpid>>>::default();
        let discovery = |n| {
            let kept = Arc::clone(&kept);
            let is_unreachable = IsUnreachable::by(move |dpid| kept.lock().expect("no panic").contains(&dpid));
            Discovery::new(KEY, Timing::default(), n as u64).asking(is_unreachable)
        };
        ProbedNetwork {
            now: Time(1_000_000_000),
            shards: (0..shards).map(discovery).collect(),
            kept,
            wires: BTreeMap::new(),
            bridges: Vec::new(),
            delay: MS,
            in_flight: Vec::new(),
            attachments: BTreeMap::new(),
            forgets: false,
            anomalies: Vec::new(),
            sent: Vec::new(),
            reorders_forms: false,
            loses_lldp: 0,
            probe_delay: Duration::ZERO,
            away: BTreeSet::new(),
            blocked: None,
            unread: Vec::new(),
            mailbox: Vec::new(),
        }
    }

    /// Creates two switches with a wire between their first ports. The ports are up and the grace period is over.
    fn linked() -> ProbedNetwork {
        let mut world = ProbedNetwork::new(2);
        world.wire(at(1, 1), at(2, 1));
        world.up(1, 2);
        world.up(2, 2);
        world.run(500 * MS);
        world
    }

    fn wire(&mut self, a: Location, b: Location) {
        self.wires.insert(a, b);
        self.wires.insert(b, a);
    }

    fn cut(&mut self, a: Location, b: Location) {
        self.wires.remove(&a);
        self.wires.remove(&b);
    }

    /// Connects these ports by a bridge.
    fn bridge(&mut self, ports: &[Location], passes_lldp: bool) {
        self.bridges.push((ports.iter().copied().collect(), passes_lldp));
    }

    /// Returns the ports where a frame arrives that leaves by a port.
    fn reached_from(&self, at: Location, frame: &[u8]) -> Vec<Location> {
        let is_lldp = frame[12..14] == LLDP;
        let passes = |(ports, lldp): &&(BTreeSet<Location>, bool)| ports.contains(&at) && (*lldp || !is_lldp);
        let bridged = self.bridges.iter().filter(passes).flat_map(|(ports, _)| ports.iter().copied());
        self.wires.get(&at).copied().into_iter().chain(bridged.filter(|to| *to != at)).collect()
    }

    fn shard(&self, dpid: Dpid) -> usize {
        dpid.0 as usize % self.shards.len()
    }

    fn up(&mut self, dpid: u64, ports: u32) {
        let ports: Vec<Port> = (1..=ports).map(port).collect();
        let (now, shard) = (self.now, self.shard(Dpid(dpid)));
        self.with(shard, |discovery, out| discovery.on_switch_up(now, Dpid(dpid), &ports, out));
    }

    /// Brings back a switch with two ports, of whose first port this was known.
    fn back(&mut self, dpid: u64, known: &Attachment) {
        let (now, shard) = (self.now, self.shard(Dpid(dpid)));
        let ports: Vec<Port> = (1..=2).map(port).collect();
        let known = |place: Location| if place == at(dpid, 1) { known.clone() } else { Attachment::New };
        self.attachments.insert(at(dpid, 1), known(at(dpid, 1)));
        self.with(shard, |discovery, out| discovery.on_switch_back(now, Dpid(dpid), &ports, known, out));
    }

    fn down(&mut self, dpid: u64) {
        let (now, shard) = (self.now, self.shard(Dpid(dpid)));
        self.kept.lock().expect("no panic").remove(&Dpid(dpid));
        self.with(shard, |discovery, out| discovery.on_switch_down(now, Dpid(dpid), out));
    }

    fn port_goes(&mut self, at: Location, up: bool) {
        let mut port = port(at.port.0);
        port.state = u32::from(!up);
        let status = PortStatus { reason: PortReason::Modify, port };
        let (now, shard) = (self.now, self.shard(at.switch));
        self.with(shard, |discovery, out| discovery.on_port_status(now, at.switch, &status, out));
    }

    /// Ends the connection of a switch.
    fn leaves(&mut self, dpid: u64) {
        let shard = self.shard(Dpid(dpid));
        self.away.insert(Dpid(dpid));
        self.kept.lock().expect("no panic").insert(Dpid(dpid));
        self.shards[shard].suspend(Dpid(dpid));
    }

    /// Connects the switch again.
    fn returns(&mut self, dpid: u64) {
        let (now, shard) = (self.now, self.shard(Dpid(dpid)));
        self.away.remove(&Dpid(dpid));
        self.kept.lock().expect("no panic").remove(&Dpid(dpid));
        self.with(shard, |discovery, out| discovery.resume(now, Dpid(dpid), out));
    }

    fn receive(&mut self, at: Location, frame: &[u8]) {
        if self.away.contains(&at.switch) {
            return;
        }
        if self.is_blocked(self.shard(at.switch)) {
            return self.unread.push((at, frame.to_vec()));
        }
        self.read(self.now, at, frame);
    }

    /// Reads a frame that arrived at `since` or later.
    fn read(&mut self, since: Time, at: Location, frame: &[u8]) {
        let (now, shard) = (self.now, self.shard(at.switch));
        self.with(shard, |discovery, out| {
            discovery.on_lldp(now, since, at, frame, out);
        });
    }

    fn is_blocked(&self, shard: usize) -> bool {
        self.blocked == Some(shard)
    }

    /// Blocks a shard for a while. Then it handles messages and frames, in the order of a turn.
    fn block(&mut self, shard: usize, duration: Duration) {
        let since = self.now;
        self.blocked = Some(shard);
        self.run(duration);
        self.blocked = None;
        let is_deferred = |message: &PeerMessage| matches!(message, PeerMessage::Unanswered { .. });
        let messages = std::mem::take(&mut self.mailbox).into_iter();
        let (deferred, immediate): (Vec<_>, Vec<_>) = messages.partition(|(_, message)| is_deferred(message));
        let now = self.now;
        for (to, message) in immediate {
            self.with(shard, |discovery, out| discovery.on_peer_message(now, to, message, out));
        }
        for (at, frame) in std::mem::take(&mut self.unread) {
            self.read(since, at, &frame);
        }
        for (to, message) in deferred {
            self.with(shard, |discovery, out| discovery.on_peer_message(now, to, message, out));
        }
        self.run(Duration::ZERO);
    }

    /// Runs an action of a discovery, and performs all outputs that follow.
    fn with(&mut self, shard: usize, act: impl FnOnce(&mut Discovery, &mut Vec<DiscoveryOutput>)) {
        let mut todo = Vec::new();
        act(&mut self.shards[shard], &mut todo);
        while !todo.is_empty() {
            for output in std::mem::take(&mut todo) {
                self.perform(output, &mut todo);
            }
        }
    }

    fn perform(&mut self, output: DiscoveryOutput, todo: &mut Vec<DiscoveryOutput>) {
        match output {
            DiscoveryOutput::Probe { at } => {
                self.sent.push((self.now, at));
                let (shard, leaves) = (self.shard(at.switch), later(self.now, self.probe_delay));
                assert!(!self.away.contains(&at.switch), "no probe is asked of a switch without a connection");
                let mut frames = self.shards[shard].frames(leaves, at);
                if self.reorders_forms {
                    frames.reverse();
                }
                for frame in frames {
                    if self.loses_lldp > 0 && frame[12..14] == LLDP {
                        self.loses_lldp -= 1;
                        continue;
                    }
                    for to in self.reached_from(at, &frame) {
                        self.in_flight.push((later(leaves, self.delay), to, frame.clone()));
                    }
                }
            }
            DiscoveryOutput::Message { to, message } => {
                let shard = self.shard(to.switch);
                if self.is_blocked(shard) {
                    self.mailbox.push((to, message));
                } else {
                    self.shards[shard].on_peer_message(self.now, to, message, todo);
                }
            }
            DiscoveryOutput::Attachment { at, now, before } => {
                let known = self.attachments.insert(at, now).unwrap_or(Attachment::New);
                assert!(self.forgets || known == before, "{at}: {known:?}, not {before:?}");
            }
            DiscoveryOutput::Anomaly { at, anomaly, .. } => self.anomalies.push((at, anomaly)),
        }
    }

    /// Lets this much time pass.
    fn run(&mut self, duration: Duration) {
        let end = later(self.now, duration);
        loop {
            let frame = self.in_flight.iter().map(|(time, ..)| *time).min();
            let awake = (0..self.shards.len()).filter(|shard| !self.is_blocked(*shard));
            let timer = awake.filter_map(|shard| self.shards[shard].deadline()).min();
            let Some(next) = frame.into_iter().chain(timer).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            if frame == Some(next) {
                let first = self.in_flight.iter().position(|(time, ..)| *time == next).unwrap();
                let (_, at, frame) = self.in_flight.remove(first);
                self.receive(at, &frame);
            } else {
                let now = self.now;
                for shard in (0..self.shards.len()).filter(|shard| !self.is_blocked(*shard)).collect::<Vec<_>>() {
                    self.with(shard, |discovery, out| discovery.on_timer(now, out));
                }
            }
        }
        self.now = end;
    }

    fn attachment(&self, at: Location) -> Attachment {
        self.attachments.get(&at).cloned().unwrap_or(Attachment::New)
    }

    /// Makes a valid probe that leaves by this port at the current time.
    fn probe(&self, from: Location) -> Vec<u8> {
        Probe { from, sent: self.now }.frame(KEY, ProbeForm::Lldp, [2; 6], MS)
    }
}

fn at(switch: u64, port: u32) -> Location {
    Location::new(Dpid(switch), PortNo(port))
}

fn port(number: u32) -> Port {
    Port::new(PortNo(number), [2, 0, 0, 0, 0, number as u8], "eth")
}
