//! The controller in one thread and in simulated time: the product's shards, joined by messages that take a random
//! time, and to the switches of a network by connections in memory.
//!
//! A shard runs the product's code in its turn. The time of the turn is chosen here: a random time after the first of
//! its inputs, so batches form. Messages between two shards keep their order, as in the product's mailboxes; messages
//! of different pairs overtake each other. A connection that its switch has closed fails when it is written to, and its
//! end can be read a random time later. So a shard learns of it before or after its engine's part of a turn. With the
//! default [`ControllerDelays`] everything happens at once, and only the delays of the network take time.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use maple_controller::Notice;
use maple_controller::session::ENGINE_XIDS;
use maple_controller::simulation::{Batch, Simulation, SimulationOptions, SwitchEnd};
use maple_core::engine::{Event, Time};
use maple_core::network::Facts;
use maple_emulator::commands::CommandError;
use maple_emulator::emulated::ControlEvent;
use maple_emulator::{EmulatedNetwork, Random};
use maple_wire::msg::ReplyBody;
use maple_wire::{Dpid, Message};

/// The maximum number of turns while no time passes. Chosen: a controller that takes more never comes to rest.
const MAX_TURNS: u32 = 100_000;

/// The delays of a controller, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControllerDelays {
    /// The maximum time until a shard does what came in.
    pub busy: u64,
    /// The maximum time that a message between shards takes.
    pub mail: u64,
    /// The seed of the delays.
    pub seed: u64,
}

/// A controller in simulated time.
pub struct Control {
    simulation: Simulation,
    /// The time of each shard's next turn, if something came in.
    turns: Vec<Option<Time>>,
    connections: BTreeMap<u64, Connection>,
    /// The current connection of each switch, as the network knows it.
    current: BTreeMap<Dpid, u64>,
    batches: BTreeMap<(Time, u64), Batch>,
    last_batch: BTreeMap<(usize, usize), Time>,
    /// Connections that are broken, with the time from which their end can be read.
    endings: BTreeMap<(Time, u64), u64>,
    /// The number of connections, batches and endings so far.
    made: u64,
    /// The time of the last turn, and the number of turns at that time.
    at_once: (Time, u32),
    pace: ControllerDelays,
    random: Random,
    notices: Vec<(Time, Notice)>,
    readings: Vec<RulesRead>,
}

struct Connection {
    dpid: Dpid,
    shard: usize,
    opened: Time,
    line: SwitchEnd,
    /// Whether the last part of its rules is in what its shard has not read yet.
    reports_rules: bool,
}

/// An event: a shard has read all rules of a switch.
#[derive(Clone, Copy, Debug)]
pub struct RulesRead {
    /// The time.
    pub at: Time,
    /// The switch.
    pub dpid: Dpid,
    /// The time since when the connection stood.
    pub opened: Time,
}

impl Control {
    /// Creates a controller without switches.
    ///
    /// # Errors
    /// [`io::Error`] as [`Simulation::new`] returns it.
    pub fn new(options: &SimulationOptions, pace: ControllerDelays) -> io::Result<Control> {
        Ok(Control {
            simulation: Simulation::new(options)?,
            turns: vec![None; usize::from(options.shards)],
            connections: BTreeMap::new(),
            current: BTreeMap::new(),
            batches: BTreeMap::new(),
            last_batch: BTreeMap::new(),
            endings: BTreeMap::new(),
            made: 0,
            at_once: (Time(0), 0),
            pace,
            random: Random::new(pace.seed),
            notices: Vec::new(),
            readings: Vec::new(),
        })
    }

    /// Returns the laboratory's shards.
    pub fn shards(&self) -> &Simulation {
        &self.simulation
    }

    /// Prints the engines' events and effects in all later turns.
    pub fn trace(&mut self) {
        self.simulation.trace();
    }

    /// Returns the notices since the last call, each with its time.
    pub fn notices(&mut self) -> Vec<(Time, Notice)> {
        std::mem::take(&mut self.notices)
    }

    /// Returns the readings of rules since the last call.
    pub fn readings(&mut self) -> Vec<RulesRead> {
        std::mem::take(&mut self.readings)
    }

    /// Hands an event to a random shard.
    pub fn notify(&mut self, now: Time, event: Event) {
        let shard = self.any_shard();
        self.simulation.send_event(shard, event);
        self.schedule_turn(now, shard);
    }

    /// Declares other facts of ports and hosts.
    pub fn declare(&mut self, now: Time, facts: &Arc<Facts>) {
        self.simulation.declare(facts);
        (0..self.turns.len()).for_each(|shard| self.schedule_turn(now, shard));
    }

    /// Returns when [`Control::run`] wants to be called again.
    pub fn deadline(&self) -> Option<Time> {
        let batch = self.batches.keys().next().map(|(at, _)| *at);
        let ending = self.endings.keys().next().map(|(at, _)| *at);
        (0..self.turns.len()).filter_map(|shard| self.next_turn(shard)).chain(batch).chain(ending).min()
    }

    fn next_turn(&self, shard: usize) -> Option<Time> {
        self.turns[shard].into_iter().chain(self.simulation.next_turn(shard)).min()
    }

    /// Takes what the switches have sent, does everything that is due, and hands the answers to the network. Reports
    /// whether a shard had a turn.
    ///
    /// # Errors
    /// [`CommandError::Failed`] if the controller never comes to rest.
    pub fn run(&mut self, network: &mut EmulatedNetwork) -> Result<bool, CommandError> {
        let now = Time(network.now());
        for dpid in network.dpids().collect::<Vec<_>>() {
            network.take_control(dpid).into_iter().for_each(|event| self.take(now, dpid, event));
        }
        let mut had_turn = false;
        loop {
            self.deliver(now);
            let is_due = |shard: &usize| self.next_turn(*shard).is_some_and(|at| at <= now);
            let due: Vec<usize> = (0..self.turns.len()).filter(is_due).collect();
            if due.is_empty() {
                return Ok(had_turn);
            }
            had_turn = true;
            due.into_iter().try_for_each(|shard| self.turn(now, shard, network))?;
        }
    }

    /// Takes an event of a switch's control channel.
    fn take(&mut self, now: Time, dpid: Dpid, event: ControlEvent) {
        match event {
            ControlEvent::Opened => self.opened(now, dpid),
            ControlEvent::Message(bytes) => {
                let connection = self.current.get(&dpid).and_then(|number| self.connections.get_mut(number));
                if let Some(connection) = connection {
                    connection.line.send(now, &bytes);
                    connection.reports_rules |= ends_reading(&bytes);
                    let shard = connection.shard;
                    self.schedule_turn(now, shard);
                    // A connection of an unreachable switch goes to the shard that has the switch.
                    let has = self.simulation.shard_of(dpid).filter(|has| *has != shard);
                    has.into_iter().for_each(|has| self.schedule_turn(now, has));
                }
            }
            ControlEvent::Closed => {
                if let Some(number) = self.current.remove(&dpid) {
                    self.connections[&number].line.break_off();
                    self.made += 1;
                    let delay = self.random.below(self.pace.busy + 1);
                    self.endings.insert((Time(now.0 + delay), self.made), number);
                }
            }
        }
    }

    fn opened(&mut self, now: Time, dpid: Dpid) {
        let shard = self.any_shard();
        let line = self.simulation.connect(shard);
        self.made += 1;
        self.current.insert(dpid, self.made);
        self.connections.insert(self.made, Connection { dpid, shard, opened: now, line, reports_rules: false });
        self.schedule_turn(now, shard);
    }

    /// Delivers the messages between shards, and the ends of connections, that are due.
    fn deliver(&mut self, now: Time) {
        while let Some(entry) = self.batches.first_entry().filter(|entry| entry.key().0 <= now) {
            let batch = entry.remove();
            let shard = batch.to;
            self.simulation.deliver(batch);
            self.schedule_turn(now, shard);
        }
        while let Some(entry) = self.endings.first_entry().filter(|entry| entry.key().0 <= now) {
            let Some(Connection { dpid, shard, line, .. }) = self.connections.get(&entry.remove()) else { continue };
            line.hang_up();
            let all = self.simulation.shard_of(*dpid).into_iter().chain([*shard]);
            all.collect::<Vec<_>>().into_iter().for_each(|shard| self.schedule_turn(now, shard));
        }
    }

    fn turn(&mut self, now: Time, shard: usize, network: &mut EmulatedNetwork) -> Result<(), CommandError> {
        self.at_once = if self.at_once.0 == now { (now, self.at_once.1 + 1) } else { (now, 1) };
        if self.at_once.1 > MAX_TURNS {
            return Err(CommandError::Failed(format!("the controller never comes to rest at {} ns", now.0)));
        }
        self.turns[shard] = None;
        for batch in self.simulation.turn(now, shard) {
            self.post(now, shard, batch);
        }
        self.notices.extend(self.simulation.notices().into_iter().map(|notice| (now, notice)));
        for (number, connection) in &mut self.connections {
            if connection.shard == shard || self.simulation.shard_of(connection.dpid) == Some(shard) {
                let is_current = self.current.get(&connection.dpid) == Some(number);
                self.readings.extend(connection.reading(now));
                let ends = connection.carry(is_current, network)?;
                if ends {
                    self.current.remove(&connection.dpid);
                }
            }
        }
        let current = &self.current;
        self.connections.retain(|number, connection| {
            !connection.line.is_closed()
                || connection.line.unread() > 0
                || current.get(&connection.dpid) == Some(number)
        });
        Ok(())
    }

    fn post(&mut self, now: Time, from: usize, batch: Batch) {
        let delay = self.random.below(self.pace.mail + 1);
        let last = self.last_batch.entry((from, batch.to)).or_default();
        *last = (*last).max(Time(now.0 + delay));
        self.made += 1;
        self.batches.insert((*last, self.made), batch);
    }

    /// Schedules a turn of a shard for which something has come in.
    fn schedule_turn(&mut self, now: Time, shard: usize) {
        let delay = self.random.below(self.pace.busy + 1);
        self.turns[shard].get_or_insert(Time(now.0 + delay));
    }

    fn any_shard(&mut self) -> usize {
        self.random.below(self.turns.len() as u64) as usize
    }
}

impl Connection {
    /// Returns the reading that has just ended, if one has.
    fn reading(&mut self, at: Time) -> Option<RulesRead> {
        let has_ended = self.reports_rules && self.line.unread() == 0;
        self.reports_rules &= !has_ended;
        has_ended.then_some(RulesRead { at, dpid: self.dpid, opened: self.opened })
    }

    /// Carries to the switch what a shard has written in its turn. Bytes for a connection that the network has
    /// forgotten go nowhere. Reports whether the shard has closed the current connection.
    fn carry(&self, is_current: bool, network: &mut EmulatedNetwork) -> Result<bool, CommandError> {
        let bytes = self.line.take();
        if !is_current {
            return Ok(false);
        }
        if !bytes.is_empty() {
            network.from_controller(self.dpid, &bytes)?;
        }
        if self.line.is_closed() {
            self.line.hang_up();
            network.disconnect(self.dpid)?;
        }
        Ok(self.line.is_closed())
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
