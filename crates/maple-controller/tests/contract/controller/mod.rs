//! The controller in one thread and in simulated time: the product's sessions, discovery and engines, joined as its
//! shards join them, with letters that take a random time.
//!
//! A shard here takes what has come in when its turn comes, a random time after the first of it, so batches form. Letters
//! between two shards keep their order, as the product's mailboxes do; letters of different pairs overtake each other.

mod connections;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use maple_controller::discovery::{Discovery, Found, Handled, Key, Tell, Timing, is_lldp};
use maple_controller::session::{Output, Session, apply_port_status};
use maple_core::engine::{Effect, Engine, Event, Mail, Options, ShardId, Stats, TableRule, Time};
use maple_core::network::{Location, PortKind};
use maple_core::state::Write;
use maple_core::{Policy, Report, Store};
use maple_emulator::network::ControlEvent;
use maple_emulator::{Network, Random};
use maple_wire::msg::{NO_BUFFER, PacketOut};
use maple_wire::{Action, Dpid, Header, Message, Port, PortNo};

use crate::program::WEIGHT;

/// How many turns may follow each other without time passing.
const MAX_TURNS: usize = 10_000;

/// How a controller behaves.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long a shard may take until it does what came in.
    pub busy: u64,
    /// How long a letter may take.
    pub mail: u64,
    /// Whether to print all that engines take and give.
    pub trace: bool,
}

/// A controller.
pub struct Controller {
    pub store: Arc<Store>,
    shards: Vec<Shard>,
    connections: Vec<Connection>,
    /// The connection that a switch has now, as the network knows it.
    current: BTreeMap<Dpid, usize>,
    /// The connection that speaks for a switch, as the controller knows it.
    owners: BTreeMap<Dpid, usize>,
    letters: BTreeMap<(Time, u64), (usize, Letter)>,
    last_letter: BTreeMap<(usize, usize), Time>,
    sent: u64,
    pace: Pace,
    random: Random,
    /// Print all that engines take and give.
    trace: bool,
    /// What was told, and when.
    pub reports: Vec<(Time, Report)>,
    /// When the rules of a switch were read, and since when its connection stood.
    pub synced: Vec<(Time, Dpid, Time)>,
    /// Connections that the controller ended, and why.
    pub ended: Vec<(Time, Dpid, String)>,
}

struct Shard {
    engine: Engine,
    discovery: Discovery,
    inbox: VecDeque<Input>,
    /// When it takes what is in the inbox.
    turn: Option<Time>,
    events: Vec<Event>,
    outputs: VecDeque<(usize, Output)>,
    found: Vec<Found>,
    probes: Vec<(Location, Vec<u8>)>,
}

struct Connection {
    dpid: Dpid,
    shard: usize,
    opened: Time,
    session: Session,
    open: bool,
    /// Its ports, once the handshake is done.
    ports: Option<Vec<Port>>,
    in_use: bool,
    claimants: Vec<usize>,
}

enum Input {
    Message(usize, Vec<u8>),
    Closed(usize),
    Letter(Letter),
}

enum Letter {
    Mail(Mail),
    Event(Box<Event>),
    Tell(Location, Tell),
    Challenge { owner: usize, claimant: usize },
    Verdict { claimant: usize, alive: bool },
}

impl Controller {
    /// A controller without switches.
    pub fn new(shards: u8, policy: Arc<dyn Policy>, options: Options, pace: Pace, seed: u64) -> Controller {
        let store = Store::new();
        // From now on each snapshot is noted.
        store.take_trail();
        store.update(|_| vec![Write::Weight(WEIGHT.into())]);
        let shard = |id| Shard {
            engine: Engine::new(ShardId(id), store.clone(), policy.clone(), options.clone()),
            discovery: Discovery::new(Key(*b"whole networks!!"), Timing::default(), u64::from(id)),
            inbox: VecDeque::new(),
            turn: None,
            events: Vec::new(),
            outputs: VecDeque::new(),
            found: Vec::new(),
            probes: Vec::new(),
        };
        Controller {
            shards: (0..shards).map(shard).collect(),
            store,
            connections: Vec::new(),
            current: BTreeMap::new(),
            owners: BTreeMap::new(),
            letters: BTreeMap::new(),
            last_letter: BTreeMap::new(),
            sent: 0,
            pace,
            random: Random::new(seed),
            trace: pace.trace,
            reports: Vec::new(),
            synced: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// What all shards have done.
    pub fn stats(&self) -> Vec<Stats> {
        self.shards.iter().map(|shard| shard.engine.stats()).collect()
    }

    /// The rules of a switch, as the shard that serves it holds them to be.
    pub fn rules(&self, dpid: Dpid) -> Vec<TableRule> {
        self.owners.get(&dpid).map(|owner| self.engine_of(*owner).rules(dpid)).unwrap_or_default()
    }

    /// Whether a switch's rules are in the middle of a change.
    pub fn is_half_way(&self, dpid: Dpid) -> bool {
        self.owners.get(&dpid).is_some_and(|owner| self.engine_of(*owner).is_half_way(dpid))
    }

    fn engine_of(&self, connection: usize) -> &Engine {
        &self.shards[self.connections[connection].shard].engine
    }

    /// Hands an event to any one shard.
    pub fn tell(&mut self, now: Time, event: Event) {
        let shard = self.any_shard();
        self.put(now, shard, Input::Letter(Letter::Event(Box::new(event))));
    }

    /// Takes what a switch has said.
    pub fn take(&mut self, now: Time, dpid: Dpid, event: ControlEvent) {
        match event {
            ControlEvent::Opened => self.opened(now, dpid),
            ControlEvent::Message(bytes) => {
                if let Some(at) = self.current.get(&dpid).copied() {
                    self.put(now, self.connections[at].shard, Input::Message(at, bytes));
                }
            }
            ControlEvent::Closed => {
                if let Some(at) = self.current.remove(&dpid) {
                    self.put(now, self.connections[at].shard, Input::Closed(at));
                }
            }
        }
    }

    /// When [`Controller::run`] wants to be called again.
    pub fn deadline(&self) -> Option<Time> {
        let letter = self.letters.keys().next().map(|(at, _)| *at);
        let sessions = self.connections.iter().filter(|c| c.open).filter_map(|c| c.session.deadline());
        let shards = self
            .shards
            .iter()
            .flat_map(|shard| [shard.turn, shard.engine.next_deadline(), shard.discovery.deadline()])
            .flatten();
        sessions.chain(shards).chain(letter).min()
    }

    /// Does everything that is due.
    pub fn run(&mut self, now: Time, network: &mut Network) {
        for _ in 0..MAX_TURNS {
            while let Some(entry) = self.letters.first_entry().filter(|entry| entry.key().0 <= now) {
                let (to, letter) = entry.remove();
                self.put(now, to, Input::Letter(letter));
            }
            let due: Vec<usize> = (0..self.shards.len()).filter(|shard| self.is_due(*shard, now)).collect();
            if due.is_empty() {
                return;
            }
            for shard in due {
                self.turn(now, shard, network);
            }
        }
        panic!("the controller spins at {now:?}");
    }

    fn is_due(&self, shard: usize, now: Time) -> bool {
        let sessions = self.connections.iter().filter(|c| c.open && c.shard == shard);
        let session = sessions.filter_map(|c| c.session.deadline()).min();
        let it = &self.shards[shard];
        let deadlines = [it.turn, it.engine.next_deadline(), it.discovery.deadline(), session];
        deadlines.into_iter().flatten().any(|at| at <= now)
    }

    /// One turn of a shard, in the product's order.
    fn turn(&mut self, now: Time, shard: usize, network: &mut Network) {
        self.shards[shard].turn = None;
        while let Some(input) = self.shards[shard].inbox.pop_front() {
            self.input(now, shard, input, network);
        }
        self.timers(now, shard, network);
        self.follow(now, shard);
        self.run_engine(now, shard, network);
        self.follow(now, shard);
        for (at, data) in std::mem::take(&mut self.shards[shard].probes) {
            let actions = vec![Action::output(at.port)];
            let message = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data };
            if let Some(owner) = self.owners.get(&at.switch).copied().filter(|owner| self.is_up(*owner)) {
                let xid = self.connections[owner].session.take_xid();
                self.send(owner, xid, &Message::PacketOut(message), network);
            }
        }
        // What the turn itself has made comes in the next one, at once.
        if !self.shards[shard].events.is_empty() || !self.shards[shard].inbox.is_empty() {
            self.shards[shard].turn = Some(now);
        }
    }

    fn input(&mut self, now: Time, shard: usize, input: Input, network: &mut Network) {
        match input {
            Input::Message(at, bytes) => {
                if !self.connections[at].open {
                    return;
                }
                let header = Header::peek(&bytes).ok().flatten().expect("the emulator cuts messages");
                let mut out = Vec::new();
                self.connections[at].session.on_message(now, header, &bytes, &mut out);
                self.act(now, at, out, network);
            }
            Input::Closed(at) => self.leave(now, at),
            Input::Letter(Letter::Mail(mail)) => self.shards[shard].events.push(Event::Mail(mail)),
            Input::Letter(Letter::Event(event)) => self.shards[shard].events.push(*event),
            Input::Letter(Letter::Tell(at, tell)) => {
                let Shard { discovery, found, .. } = &mut self.shards[shard];
                discovery.on_tell(now, at, tell, found);
            }
            Input::Letter(Letter::Challenge { owner, claimant }) => self.challenged(now, owner, claimant, network),
            Input::Letter(Letter::Verdict { claimant, alive }) => self.judged(now, claimant, alive, network),
        }
    }

    fn timers(&mut self, now: Time, shard: usize, network: &mut Network) {
        for at in 0..self.connections.len() {
            let connection = &mut self.connections[at];
            if connection.shard == shard && connection.open && connection.session.deadline().is_some_and(|d| d <= now) {
                let mut out = Vec::new();
                connection.session.on_timer(now, &mut out);
                self.act(now, at, out, network);
            }
        }
        let Shard { discovery, found, .. } = &mut self.shards[shard];
        if discovery.deadline().is_some_and(|deadline| deadline <= now) {
            discovery.on_timer(now, found);
        }
    }

    /// Does what a session asks for.
    fn act(&mut self, now: Time, at: usize, outputs: Vec<Output>, network: &mut Network) {
        for output in outputs {
            match output {
                Output::Send { xid, message } => self.send(at, xid, &message, network),
                Output::Claim(dpid) => self.claim(now, at, dpid, network),
                Output::Up(info) => {
                    let connection = &mut self.connections[at];
                    connection.ports = Some(info.ports.clone());
                    let (shard, dpid) = (connection.shard, info.features.dpid);
                    self.shards[shard].events.push(Event::SwitchUp {
                        dpid,
                        version: info.version,
                        description: info.description,
                        features: info.features,
                        ports: info.ports,
                    });
                }
                Output::Flows(flows) => self.flows(now, at, flows),
                Output::Deliver { xid, message } => self.deliver(now, at, xid, message),
                Output::Alive => self.verdicts(now, at, true),
                Output::Note { .. } => {}
                Output::Close(reason) => self.close(now, at, &reason, network),
            }
        }
    }

    fn flows(&mut self, now: Time, at: usize, flows: Vec<maple_core::engine::InstalledFlow>) {
        let Connection { dpid, shard, opened, in_use, ports, .. } = &mut self.connections[at];
        let Shard { discovery, found, events, .. } = &mut self.shards[*shard];
        if !std::mem::replace(in_use, true) {
            discovery.switch_up(now, *dpid, ports.as_deref().unwrap_or_default(), found);
        }
        events.push(Event::FlowsRead { dpid: *dpid, flows });
        self.synced.push((now, *dpid, *opened));
    }

    fn deliver(&mut self, now: Time, at: usize, xid: u32, message: Message) {
        let Connection { dpid, shard, ports, in_use, .. } = &mut self.connections[at];
        let (dpid, Shard { discovery, found, events, .. }) = (*dpid, &mut self.shards[*shard]);
        events.push(match message {
            Message::PacketIn(packet_in) => {
                if is_lldp(&packet_in.data)
                    && let Some(port) = packet_in.in_port()
                    && discovery.on_lldp(now, now, Location::new(dpid, port), &packet_in.data, found) == Handled::Ours
                {
                    return;
                }
                Event::PacketIn { dpid, packet_in }
            }
            Message::PortStatus(status) => {
                apply_port_status(ports.get_or_insert_default(), status.clone());
                if *in_use {
                    discovery.port_status(now, dpid, &status, found);
                }
                Event::PortStatus { dpid, status }
            }
            Message::FlowRemoved(removed) => Event::FlowRemoved { dpid, removed },
            Message::Error(error) => Event::SwitchError { dpid, xid, error },
            Message::BarrierReply => Event::BarrierReply { dpid, xid },
            Message::StatsReply(reply) => Event::FlowStats { dpid, xid, reply },
            _ => return,
        });
    }

    /// Does what discovery has found out.
    fn follow(&mut self, now: Time, shard: usize) {
        while !self.shards[shard].found.is_empty() {
            for finding in std::mem::take(&mut self.shards[shard].found) {
                match finding {
                    Found::Send { at } => {
                        let Shard { discovery, probes, .. } = &mut self.shards[shard];
                        probes.extend(discovery.frame(now, at).map(|frame| (at, frame)));
                    }
                    Found::Kind { at, kind, before } => {
                        let event = match (kind, before) {
                            (PortKind::Edge, _) => Event::PortIsEdge { port: at },
                            (PortKind::Link(peer), _) => Event::LinkUp { a: at, b: peer },
                            (PortKind::New, PortKind::Link(peer)) => Event::LinkDown { a: at, b: peer },
                            (PortKind::New, _) => Event::LinkDown { a: at, b: at },
                        };
                        self.shards[shard].events.push(event);
                    }
                    Found::Tell { to, tell } => match self.owners.get(&to.switch) {
                        Some(owner) if self.connections[*owner].shard == shard => {
                            let Shard { discovery, found, .. } = &mut self.shards[shard];
                            discovery.on_tell(now, to, tell, found);
                        }
                        Some(owner) => self.post(now, shard, self.connections[*owner].shard, Letter::Tell(to, tell)),
                        None => {}
                    },
                    Found::Odd { .. } => {}
                }
            }
        }
    }

    fn run_engine(&mut self, now: Time, shard: usize, network: &mut Network) {
        let it = &mut self.shards[shard];
        if it.events.is_empty() {
            if it.engine.next_deadline().is_none_or(|deadline| deadline > now) {
                return;
            }
            it.events.push(Event::Tick);
        }
        let mut effects = Vec::new();
        self.trace.then(|| it.events.iter().for_each(|event| println!("{now:?} shard {shard} <- {event:?}")));
        it.engine.handle(now, &mut it.events, &mut effects);
        for effect in effects {
            self.trace.then(|| println!("{now:?} shard {shard} -> {effect:?}"));
            match effect {
                Effect::Send { dpid, xid, message } => {
                    if let Some(owner) = self.owners.get(&dpid).copied().filter(|owner| self.is_up(*owner)) {
                        self.connections[owner].session.on_sent(now, xid, &message);
                        self.send(owner, xid, &message, network);
                    }
                }
                Effect::ReadFlows { dpid } => {
                    if let Some(owner) = self.owners.get(&dpid).copied().filter(|owner| self.is_up(*owner)) {
                        let mut out = Vec::new();
                        self.connections[owner].session.read_flows(now, &mut out);
                        self.act(now, owner, out, network);
                    }
                }
                Effect::Mail { to, mail } => self.post(now, shard, usize::from(to.0), Letter::Mail(mail)),
                Effect::Report(report) => self.reports.push((now, report)),
                Effect::Settled(_) => panic!("nobody asked what is settled"),
            }
        }
    }

    fn is_up(&self, at: usize) -> bool {
        self.connections[at].open && self.connections[at].ports.is_some()
    }

    /// Writes to a connection; what is written to one that the network has forgotten goes nowhere.
    fn send(&mut self, at: usize, xid: u32, message: &Message, network: &mut Network) {
        let connection = &self.connections[at];
        if !connection.open || self.current.get(&connection.dpid) != Some(&at) {
            return;
        }
        let mut bytes = Vec::new();
        message
            .encode(connection.session.version(), xid, &mut bytes)
            .unwrap_or_else(|error| panic!("{message:?} can't be sent: {error}"));
        network.from_controller(connection.dpid, &bytes).expect("the switch is in the network");
    }

    fn post(&mut self, now: Time, from: usize, to: usize, letter: Letter) {
        if from == to {
            return self.shards[to].inbox.push_back(Input::Letter(letter));
        }
        let delay = self.random.below(self.pace.mail + 1);
        let last = self.last_letter.entry((from, to)).or_default();
        *last = (*last).max(Time(now.0 + delay));
        self.sent += 1;
        self.letters.insert((*last, self.sent), (to, letter));
    }

    fn put(&mut self, now: Time, shard: usize, input: Input) {
        let delay = self.random.below(self.pace.busy + 1);
        let it = &mut self.shards[shard];
        it.inbox.push_back(input);
        it.turn.get_or_insert(Time(now.0 + delay));
    }

    fn any_shard(&mut self) -> usize {
        self.random.below(self.shards.len() as u64) as usize
    }
}
