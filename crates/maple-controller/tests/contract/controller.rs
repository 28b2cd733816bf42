//! The controller in one thread and in simulated time: the product's shards, joined by messages that take a random
//! time.
//!
//! A shard runs the product's code in its turn. The time of the turn is chosen here: a random time after the first of
//! its inputs, so batches form. Messages between two shards keep their order, as in the product's mailboxes; messages
//! of different pairs overtake each other. A connection that its switch has closed fails when it is written to, and its
//! end can be read a random time later. So a shard learns of it before or after its engine's part of a turn.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

use maple_controller::session::ENGINE_XIDS;
use maple_controller::simulation::{Batch, Line, Simulation, SimulationOptions};
use maple_controller::{Deadlines, FORGET_SWITCH_AFTER, Notice, QueueLimits};
use maple_core::engine::{Event, Options, Stats, TableRule, Time};
use maple_core::network::Facts;
use maple_core::sim::cases::WEIGHT;
use maple_core::state::{Snapshot, Write};
use maple_core::{Policy, Report, Store};
use maple_emulator::network::ControlEvent;
use maple_emulator::{Network, Random};
use maple_wire::msg::ReplyBody;
use maple_wire::{Dpid, Message};

/// The maximum number of turns that follow each other without time passing.
const MAX_TURNS: usize = 10_000;

/// The delays of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The maximum time until a shard does what came in, in nanoseconds.
    pub busy: u64,
    /// The maximum time that a message takes, in nanoseconds.
    pub mail: u64,
    /// Whether to print all inputs and outputs of the engines.
    pub trace: bool,
}

/// A controller in simulated time.
pub struct Controller {
    /// The snapshots that have not been taken yet.
    pub trail: mpsc::Receiver<Arc<Snapshot>>,
    simulation: Simulation,
    /// The time of each shard's next turn, if something came in.
    turns: Vec<Option<Time>>,
    connections: Vec<Connection>,
    /// The current connection of each switch, as the network knows it.
    current: BTreeMap<Dpid, usize>,
    batches: BTreeMap<(Time, u64), Batch>,
    last_batch: BTreeMap<(usize, usize), Time>,
    /// Connections that are broken, with the time from which their end can be read.
    endings: BTreeMap<(Time, u64), usize>,
    sent: u64,
    pace: Pace,
    random: Random,
    /// The reports, each with its time.
    pub reports: Vec<(Time, Report)>,
    /// The times when the rules of a switch were read, each with the time since when its connection stood.
    pub synced: Vec<(Time, Dpid, Time)>,
}

struct Connection {
    dpid: Dpid,
    shard: usize,
    opened: Time,
    line: Line,
    /// Whether the last part of its rules is in what its shard has not read yet.
    tells_rules: bool,
}

impl Controller {
    /// Creates a controller without switches.
    pub fn new(shards: u8, policy: Arc<dyn Policy>, options: Options, pace: Pace, seed: u64) -> Controller {
        let store = Store::new();
        let (sender, trail) = mpsc::channel();
        store.observe(move |snapshot| sender.send(Arc::clone(snapshot)).unwrap_or_default());
        store.update(|_| vec![Write::Weight(WEIGHT.into())]);
        let (deadlines, limits) = (Deadlines::default(), QueueLimits::default());
        let clock = Arc::default();
        let setting = SimulationOptions {
            shards,
            clock,
            store,
            policy,
            engine: options,
            deadlines,
            limits,
            forget_after: Some(FORGET_SWITCH_AFTER),
            subscriptions: Vec::new(),
        };
        let mut simulation = Simulation::new(&setting).expect("the system has polls");
        if pace.trace {
            simulation.trace();
        }
        Controller {
            trail,
            simulation,
            turns: vec![None; usize::from(shards)],
            connections: Vec::new(),
            current: BTreeMap::new(),
            batches: BTreeMap::new(),
            last_batch: BTreeMap::new(),
            endings: BTreeMap::new(),
            sent: 0,
            pace,
            random: Random::new(seed),
            reports: Vec::new(),
            synced: Vec::new(),
        }
    }

    /// Returns the counters of all shards.
    pub fn stats(&self) -> Vec<Stats> {
        (0..self.turns.len()).map(|shard| self.simulation.stats(shard)).collect()
    }

    /// Returns the rules of a switch, as the shard that serves it believes them to be.
    pub fn rules(&self, dpid: Dpid) -> Vec<TableRule> {
        self.simulation.shard_of(dpid).map(|shard| self.simulation.rules(shard, dpid)).unwrap_or_default()
    }

    /// Reports whether a switch's rules are in the middle of a change.
    pub fn is_half_way(&self, dpid: Dpid) -> bool {
        self.simulation.shard_of(dpid).is_some_and(|shard| self.simulation.is_half_way(shard, dpid))
    }

    /// Hands an event to a random shard.
    pub fn tell(&mut self, now: Time, event: Event) {
        let shard = self.any_shard();
        self.simulation.send_event(shard, event);
        self.came_in(now, shard);
    }

    /// Declares other facts of ports and hosts.
    pub fn declare(&mut self, now: Time, facts: &Arc<Facts>) {
        self.simulation.declare(facts);
        (0..self.turns.len()).for_each(|shard| self.came_in(now, shard));
    }

    /// Takes an event of a switch's control channel.
    pub fn take(&mut self, now: Time, dpid: Dpid, event: ControlEvent) {
        match event {
            ControlEvent::Opened => self.opened(now, dpid),
            ControlEvent::Message(bytes) => {
                if let Some(at) = self.current.get(&dpid).copied() {
                    let connection = &mut self.connections[at];
                    connection.line.send(now, &bytes);
                    connection.tells_rules |= ends_reading(&bytes);
                    let shard = connection.shard;
                    self.came_in(now, shard);
                    // A connection of an unreachable switch goes to the shard that has the switch.
                    let has = self.simulation.shard_of(dpid).filter(|has| *has != shard);
                    has.into_iter().for_each(|has| self.came_in(now, has));
                }
            }
            ControlEvent::Closed => {
                if let Some(at) = self.current.remove(&dpid) {
                    self.connections[at].line.break_off();
                    self.sent += 1;
                    let delay = self.random.below(self.pace.busy + 1);
                    self.endings.insert((Time(now.0 + delay), self.sent), at);
                }
            }
        }
    }

    fn opened(&mut self, now: Time, dpid: Dpid) {
        let shard = self.any_shard();
        let line = self.simulation.connect(shard);
        self.current.insert(dpid, self.connections.len());
        self.connections.push(Connection { dpid, shard, opened: now, line, tells_rules: false });
        self.came_in(now, shard);
    }

    /// Returns when [`Controller::run`] wants to be called again.
    pub fn deadline(&self) -> Option<Time> {
        let batch = self.batches.keys().next().map(|(at, _)| *at);
        let ending = self.endings.keys().next().map(|(at, _)| *at);
        (0..self.turns.len()).filter_map(|shard| self.next_turn(shard)).chain(batch).chain(ending).min()
    }

    fn next_turn(&self, shard: usize) -> Option<Time> {
        self.turns[shard].into_iter().chain(self.simulation.next_turn(shard)).min()
    }

    /// Does everything that is due.
    pub fn run(&mut self, now: Time, network: &mut Network) {
        for _ in 0..MAX_TURNS {
            while let Some(entry) = self.batches.first_entry().filter(|entry| entry.key().0 <= now) {
                let batch = entry.remove();
                let shard = batch.to;
                self.simulation.deliver(batch);
                self.came_in(now, shard);
            }
            while let Some(entry) = self.endings.first_entry().filter(|entry| entry.key().0 <= now) {
                let at = entry.remove();
                let Connection { dpid, shard, line, .. } = &self.connections[at];
                line.hang_up();
                let all = self.simulation.shard_of(*dpid).into_iter().chain([*shard]);
                all.collect::<Vec<_>>().into_iter().for_each(|shard| self.came_in(now, shard));
            }
            let is_due = |shard: &usize| self.next_turn(*shard).is_some_and(|at| at <= now);
            let due: Vec<usize> = (0..self.turns.len()).filter(is_due).collect();
            if due.is_empty() {
                return;
            }
            for shard in due {
                self.turn(now, shard, network);
            }
        }
        panic!("the controller spins at {now:?}");
    }

    fn turn(&mut self, now: Time, shard: usize, network: &mut Network) {
        self.turns[shard] = None;
        for batch in self.simulation.turn(now, shard) {
            self.post(now, shard, batch);
        }
        assert_eq!(
            self.simulation.counters(shard).of_unencodable,
            0,
            "the engine says what the switch's version can say"
        );
        for notice in self.simulation.notices() {
            if let Notice::Engine(report) = notice {
                self.reports.push((now, report));
            }
        }
        for at in 0..self.connections.len() {
            let Connection { dpid, shard: first, .. } = &self.connections[at];
            if *first == shard || self.simulation.shard_of(*dpid) == Some(shard) {
                self.carry(now, at, network);
            }
        }
    }

    /// Carries to the switch what a shard has written in its turn. Bytes for a connection that the network has
    /// forgotten go nowhere.
    fn carry(&mut self, now: Time, at: usize, network: &mut Network) {
        let Connection { dpid, opened, line, tells_rules, .. } = &mut self.connections[at];
        let (dpid, bytes) = (*dpid, line.take());
        if *tells_rules && line.unread() == 0 {
            *tells_rules = false;
            self.synced.push((now, dpid, *opened));
        }
        if self.current.get(&dpid) != Some(&at) {
            return;
        }
        if !bytes.is_empty() {
            network.from_controller(dpid, &bytes).expect("the switch is in the network");
        }
        if line.is_closed() {
            line.hang_up();
            self.current.remove(&dpid);
            network.disconnect(dpid).expect("the switch is in the network");
        }
    }

    fn post(&mut self, now: Time, from: usize, batch: Batch) {
        let delay = self.random.below(self.pace.mail + 1);
        let last = self.last_batch.entry((from, batch.to)).or_default();
        *last = (*last).max(Time(now.0 + delay));
        self.sent += 1;
        self.batches.insert((*last, self.sent), batch);
    }

    /// Schedules a turn of a shard for which something has come in.
    fn came_in(&mut self, now: Time, shard: usize) {
        let delay = self.random.below(self.pace.busy + 1);
        self.turns[shard].get_or_insert(Time(now.0 + delay));
    }

    fn any_shard(&mut self) -> usize {
        self.random.below(self.turns.len() as u64) as usize
    }
}

/// Reports whether a message is the last part of the rules that a session has asked for.
fn ends_reading(bytes: &[u8]) -> bool {
    match Message::decode(bytes) {
        Ok((header, Message::StatsReply(reply))) => {
            header.xid < ENGINE_XIDS && matches!(reply.body, ReplyBody::Flow(_)) && !reply.more()
        }
        _ => false,
    }
}
