//! The emulated network and the controller, running together; and the records of the run for the checks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use maple_controller::simulation::SimulationOptions;
use maple_controller::{Deadlines, FORGET_SWITCH_AFTER, Notice, QueueLimits};
use maple_core::engine::{self, Options, Stats, TableRule};
use maple_core::network::{Location, PortInfo, PortKind, PortRole};
use maple_core::state::{Snapshot, Write};
use maple_core::{Report, Store};
use maple_emulator::EmulatedNetwork;
use maple_emulator::emulated::{ControlFaults, FrameId, NetworkOptions};
use maple_emulator::switch::{Rule, SwitchOptions};
use maple_emulator::time::{MILLISECOND, Nanoseconds, SECOND};
use maple_lab::control::{Control, ControllerDelays, RulesRead};
use maple_sim::cases::{COSTS, Change, Program, Step};
use maple_wire::msg::{FlowMod, FlowModCommand};
use maple_wire::{Action, Constraint, Dpid, Field, Instruction, Match, Message};

use crate::contract::case::{Case, host_name, nanoseconds};
use crate::contract::state::State;

/// The cookie of the rule that another program has added to every switch.
pub const FOREIGN: u64 = 0x1234_5678;

/// A network under control.
pub struct ContractRun<'a> {
    pub case: &'a Case,
    pub network: EmulatedNetwork,
    control: Control,
    /// The snapshots that have not been taken yet.
    trail: mpsc::Receiver<Arc<Snapshot>>,
    /// The reports of the engines, each with its time.
    pub reports: Vec<(Nanoseconds, Report)>,
    /// The states that the controller knew, each with the time from which on.
    pub history: Vec<(Nanoseconds, State)>,
    /// The packet of each frame that a step sent.
    pub sent: BTreeMap<FrameId, usize>,
    /// The times when switches were not under control.
    outages: Vec<Outage>,
    /// Rules of one switch that overlapped at one priority when a packet met them, and would not do the same.
    pub torn: Option<String>,
    ambiguous: u64,
    errors: BTreeMap<Dpid, u64>,
    number: u64,
    /// Packets that are to be sent later.
    planned: BTreeMap<(Nanoseconds, u64), usize>,
    plans: u64,
    dpids: Vec<Dpid>,
}

/// A time in which a switch was not under control.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub dpid: Dpid,
    pub from: Nanoseconds,
    /// The time when its tables were again as the controller wants them.
    pub to: Option<Nanoseconds>,
    /// The time of the last event that put it out of control.
    last: Nanoseconds,
    /// Whether its connection stood all the time.
    connected: bool,
}

impl<'a> ContractRun<'a> {
    /// Creates the case's network, before anything has happened.
    pub fn new(case: &'a Case) -> ContractRun<'a> {
        let (sender, trail) = mpsc::channel();
        let store = Store::new();
        store.observe(move |snapshot| sender.send(Arc::clone(snapshot)).unwrap_or_default());
        store.update(|_| vec![Write::CostName(COSTS.into())]);
        let dpids = case.dpids();
        ContractRun {
            case,
            network: network(case),
            control: control(case, store),
            trail,
            reports: Vec::new(),
            history: vec![(0, State::default())],
            sent: BTreeMap::new(),
            outages: dpids
                .iter()
                .map(|dpid| Outage { dpid: *dpid, from: 0, to: None, last: 0, connected: false })
                .collect(),
            torn: None,
            ambiguous: 0,
            errors: BTreeMap::new(),
            number: 0,
            planned: BTreeMap::new(),
            plans: 0,
            dpids,
        }
    }

    /// Returns the state that the controller knows.
    pub fn state(&self) -> &State {
        &self.history.last().expect("the history begins with one").1
    }

    /// Reports whether rules may find no room.
    pub fn is_tight(&self) -> bool {
        self.case.tables.1 < 1000
    }

    /// Returns the policy.
    pub fn program(&self) -> &Program {
        &self.case.scenario.policy
    }

    /// Lets time pass.
    pub fn run_for(&mut self, span: Nanoseconds) {
        let until = self.network.now() + span;
        loop {
            let deadline = self.control.deadline().map(|at| at.0);
            let planned = self.planned.keys().next().map(|(at, _)| *at);
            let next = self.network.next_event().into_iter().chain(deadline).chain(planned).min();
            let Some(next) = next.filter(|at| *at <= until) else { break };
            self.network.run_until(next);
            while let Some(entry) = self.planned.first_entry().filter(|entry| entry.key().0 <= next) {
                let packet = entry.remove();
                self.send(packet);
            }
            self.look_for_torn_rules();
            self.look_for_errors();
            self.control();
        }
        self.network.run_until(until);
    }

    /// Looks for rules of one priority that the controller wants at the same time, that a packet has met, and that send
    /// it on in different ways. One may send it to the controller instead: then both are right. An old rule and a new
    /// one that meet half-way through an update are also right: then the packet may be handled as before or as after
    /// it.
    fn look_for_torn_rules(&mut self) {
        let switches = || self.dpids.iter().filter_map(|dpid| Some((*dpid, self.network.switch(*dpid)?)));
        let ambiguous = switches().map(|(_, switch)| switch.ambiguous_matches()).sum();
        if ambiguous > self.ambiguous {
            self.ambiguous = ambiguous;
            let now = self.network.now();
            let at_rest = switches().filter(|(dpid, _)| !self.is_half_way(*dpid));
            let tables = at_rest.flat_map(|(dpid, switch)| switch.tables().iter().map(move |table| (dpid, table)));
            let mut torn = tables.filter_map(|(dpid, table)| {
                torn_rules(&table.rules(), &|a, b| {
                    let wanted = self.believed_rules(dpid);
                    [a, b].iter().all(|it| wanted.iter().any(|w| is_entry(it, &w.rule)))
                })
            });
            let found = torn.next().map(|rules| format!("at {now} ns {rules}"));
            self.torn = self.torn.take().or(found);
        }
    }

    /// Notes switches that have refused something: they are not as the controller wants them until their rules are read
    /// again.
    fn look_for_errors(&mut self) {
        for dpid in self.dpids.clone() {
            let errors = self.network.switch(dpid).map_or(0, |switch| switch.counters().errors);
            let before = self.errors.insert(dpid, errors).unwrap_or_default();
            if errors > before {
                self.disturbed(dpid);
            }
        }
    }

    /// Lets the controller do what is due.
    fn control(&mut self) {
        self.control.run(&mut self.network).expect("the controller comes to rest");
        let shards = self.control.shards();
        let unencodable = (0..self.case.shards).map(|shard| shards.counters(shard.into()).of_unencodable).sum::<u64>();
        assert_eq!(unencodable, 0, "the engine says what the switch's version can say");
        for (at, notice) in self.control.notices() {
            if let Notice::Engine(report) = notice {
                self.reports.push((at.0, report));
            }
        }
        let snapshots: Vec<_> = self.trail.try_iter().collect();
        for snapshot in snapshots {
            let state = State::from_snapshot(&snapshot, &self.dpids);
            if state != *self.state() {
                self.history.push((self.network.now(), state));
            }
        }
        for RulesRead { at, dpid, opened } in self.control.readings() {
            let lag = self.case.lag();
            let heard = |outage: &Outage| if outage.connected { at.0 } else { opened.0 };
            let open = |o: &&mut Outage| o.dpid == dpid && o.to.is_none() && o.last <= heard(o);
            self.outages.iter_mut().filter(open).for_each(|outage| outage.to = Some(at.0 + lag));
        }
    }

    /// Returns the counters of all engines.
    pub fn stats(&self) -> Vec<Stats> {
        (0..self.case.shards).map(|shard| self.control.shards().stats(shard.into())).collect()
    }

    /// Returns the rules of a switch, as the shard that serves it believes them to be.
    fn believed_rules(&self, dpid: Dpid) -> Vec<TableRule> {
        let shards = self.control.shards();
        shards.shard_of(dpid).map(|shard| shards.rules(shard, dpid)).unwrap_or_default()
    }

    /// Reports whether a switch's rules are in the middle of a change.
    fn is_half_way(&self, dpid: Dpid) -> bool {
        let shards = self.control.shards();
        shards.shard_of(dpid).is_some_and(|shard| shards.is_half_way(shard, dpid))
    }

    /// Makes a host send a packet from where it is.
    pub fn send(&mut self, packet: usize) -> FrameId {
        let spec = &self.case.scenario.packets[packet];
        self.number += 1;
        let frame = spec.frame(self.number);
        let at = self.place_of(spec.from);
        let id = self.network.inject(at.switch, at.port, frame).expect("hosts are plugged into ports");
        self.sent.insert(id, packet);
        id
    }

    /// Schedules a packet to be sent `times` times, `gap` nanoseconds apart.
    fn stream(&mut self, packet: usize, times: u64, gap: Nanoseconds) {
        for n in 0..times {
            self.plans += 1;
            self.planned.insert((self.network.now() + n * gap, self.plans), packet);
        }
    }

    /// Returns where a host is plugged in.
    pub fn place_of(&self, host: usize) -> Location {
        let spec = self.network.host(&host_name(host)).expect("the host is in the topology").spec();
        Location::new(spec.switch, spec.port)
    }

    /// Makes a step of the case. An event that can't happen now (the port is taken) does not.
    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Send(packet) => drop(self.send(*packet)),
            Step::Stream { packet, times, gap } => self.stream(*packet, *times, nanoseconds(*gap)),
            Step::Wait(span) => self.run_for(nanoseconds(*span)),
            // Most is over then.
            Step::Rest => self.run_for(700 * MILLISECOND),
            Step::LoseRule(dpid, number) => self.lose(*dpid, *number),
            Step::Write(change) => self.notify(change.event()),
            Step::WriteTogether(changes) => {
                self.notify(engine::Event::Write(changes.iter().map(Change::write).collect()));
            }
            Step::Declare(facts) => self.control.declare(engine::Time(self.network.now()), facts),
            Step::Invalidate(leaves) => self.notify(engine::Event::Invalidate(leaves.clone())),
            Step::RegainConnection { dpid, .. } => self.mend(*dpid),
            _ => self.disturb(step),
        }
    }

    /// Makes an event happen in the network.
    fn disturb(&mut self, step: &Step) {
        let (now, network) = (self.network.now(), &mut self.network);
        let result = match step {
            Step::Link(at, up) => {
                let links = &self.case.scenario.network.links;
                let link = links.iter().find(|link| link.a == *at);
                // A smaller case may lack the link.
                link.map_or(Ok(()), |link| network.set_link(link.a.switch, link.b.switch, *up))
            }
            Step::Port(at, up) => network.set_port(at.switch, at.port, *up),
            Step::Move { host, to } => network.move_host(&host_name(*host), to.switch, to.port),
            Step::Reconnect { dpid, .. } => network.restart_switch(*dpid),
            Step::LoseConnection(dpid) => network.cut_control(*dpid),
            Step::HalfOpen(dpid) => network.half_open_control(*dpid),
            Step::Slow { dpid, delay, jitter } => {
                let (delay, jitter) = (nanoseconds(*delay), nanoseconds(*jitter));
                network.control_faults(*dpid, ControlFaults { delay, jitter, ..ControlFaults::default() })
            }
            _ => unreachable!("the driver does not ask for {step:?}"),
        };
        let lost = match step {
            Step::Reconnect { dpid, .. } | Step::LoseConnection(dpid) | Step::HalfOpen(dpid) => Some(*dpid),
            _ => None,
        };
        if let (Ok(()), Some(dpid)) = (result, lost) {
            self.out_of_control(dpid, now);
        }
    }

    fn mend(&mut self, dpid: Dpid) {
        self.network.mend_control(dpid).expect("the switch is in the network");
    }

    fn notify(&mut self, event: engine::Event) {
        self.control.notify(engine::Time(self.network.now()), event);
    }

    fn out_of_control(&mut self, dpid: Dpid, now: Nanoseconds) {
        match self.outages.iter_mut().find(|outage| outage.dpid == dpid && outage.to.is_none_or(|to| to > now)) {
            Some(outage) => (outage.last, outage.to, outage.connected) = (now, None, false),
            None => self.outages.push(Outage { dpid, from: now, to: None, last: now, connected: false }),
        }
    }

    /// Notes that a switch under control differs from what the controller believes it to be.
    fn disturbed(&mut self, dpid: Dpid) {
        let now = self.network.now();
        let open = |outage: &&mut Outage| outage.dpid == dpid && outage.to.is_none();
        match self.outages.iter_mut().find(open) {
            Some(outage) => outage.last = now,
            None => self.outages.push(Outage { dpid, from: now, to: None, last: now, connected: true }),
        }
    }

    /// Deletes a rule of the controller's, if there is a connection to do so.
    fn lose(&mut self, dpid: Dpid, number: usize) {
        let switch = self.network.switch(dpid).expect("the switch is in the network");
        let tables = switch.tables().iter().enumerate();
        let rules: Vec<(usize, &Rule)> =
            tables.flat_map(|(at, table)| table.rules().into_iter().map(move |r| (at, r))).collect();
        let ours: Vec<_> = rules.into_iter().filter(|(_, rule)| rule.cookie != FOREIGN).collect();
        if ours.is_empty() || !self.network.is_connected(dpid) {
            return;
        }
        let (table, rule) = ours[number % ours.len()];
        let delete = FlowMod::new(FlowModCommand::DeleteStrict, rule.priority, rule.matching.clone(), Vec::new());
        let delete = Message::FlowMod(FlowMod { table_id: table as u8, ..delete });
        let bytes = delete.to_bytes(self.case.version, 1).expect("it was in the switch");
        self.network.from_controller(dpid, &bytes).expect("the switch is in the network");
        let now = self.network.now();
        let to = Some(now + 2 * self.case.lag());
        self.outages.push(Outage { dpid, from: now, to, last: now, connected: true });
    }

    /// Returns a time between these two when a switch was not under control, if there is one.
    pub fn outage(&self, dpid: Dpid, from: Nanoseconds, to: Nanoseconds) -> Option<Outage> {
        let overlaps = |o: &&Outage| o.dpid == dpid && o.from <= to && o.to.is_none_or(|end| end >= from);
        self.outages.iter().find(overlaps).copied()
    }

    /// Puts a rule of another program into every switch that has room.
    pub fn plant_foreign_rules(&mut self) {
        for dpid in self.dpids.clone() {
            let table = &self.network.switch(dpid).expect("the switch is in the network").tables()[0];
            if table.len() >= table.capacity() {
                continue;
            }
            let matching = Match::any().with(Constraint::exact(Field::EthType, 0x9999));
            let rule = FlowMod { cookie: FOREIGN, ..FlowMod::new(FlowModCommand::Add, 50_000, matching, Vec::new()) };
            let bytes = Message::FlowMod(rule).to_bytes(self.case.version, 1).expect("both versions can say it");
            self.network.from_controller(dpid, &bytes).expect("the switch is in the network");
        }
    }

    /// Mends the control channels, and waits until the controller knows the network as it is and everything is done.
    pub fn settle(&mut self) -> Result<(), String> {
        for dpid in self.dpids.clone() {
            self.mend(dpid);
        }
        let begun = self.network.now();
        loop {
            self.run_for(100 * MILLISECOND);
            let (known, truth) = (self.state(), self.truth());
            let now = self.network.now();
            let under_control = self.outages.iter().all(|outage| outage.to.is_some_and(|to| to <= now));
            if under_control && known.switches == truth.switches && known.ports == truth.ports {
                break;
            }
            if self.network.now() > begun + 60 * SECOND {
                return Err(format!("the controller believes {:#?}\nbut it is {:#?}", known.ports, truth.ports));
            }
        }
        // Meanwhile labels leave quarantine, and routes that had to wait are tried again.
        self.run_for(self.case.lag() + 700 * MILLISECOND);
        Ok(())
    }

    /// Returns the switches and ports as they are in the network.
    fn truth(&self) -> State {
        let mut state = State::default();
        let facts = Arc::clone(&self.state().facts);
        let ends: BTreeMap<Location, Location> =
            self.case.scenario.network.links.iter().flat_map(|link| [(link.a, link.b), (link.b, link.a)]).collect();
        let is_up = |at: &Location| {
            let ports = self.network.switch(at.switch).map(|switch| switch.ports());
            ports.and_then(|ports| ports.get(&at.port)).is_some_and(|port| port.description.is_up())
        };
        for dpid in &self.dpids {
            state.switches.insert(*dpid, self.case.version);
            let switch = self.network.switch(*dpid).expect("the switch is in the network");
            for port in switch.ports().keys() {
                let at = Location::new(*dpid, *port);
                let kind = match ends.get(&at) {
                    _ if !is_up(&at) || facts.role(at) == PortRole::Closed => PortKind::New,
                    Some(far) => PortKind::Link(*far),
                    None => PortKind::Edge,
                };
                state.ports.insert(at, PortInfo { up: is_up(&at), kind });
            }
        }
        state
    }

    /// Returns the contents of a switch's tables as text, and those that the engine believes it has.
    pub fn tables(&self, dpid: Dpid) -> (BTreeSet<String>, BTreeSet<String>) {
        let switch = self.network.switch(dpid).expect("the switch is in the network");
        let tables = switch.tables().iter().enumerate();
        let real = tables.flat_map(|(table, rules)| rules.rules().into_iter().map(move |rule| (table, rule)));
        let real = real
            .filter(|(_, rule)| rule.cookie != FOREIGN)
            .map(|(table, r)| format!("{table} {} {:?} {:?} {:#x}", r.priority, r.matching, r.instructions, r.cookie));
        let believed = self.believed_rules(dpid).into_iter().map(|r| {
            let rule = r.rule;
            format!("{} {} {:?} {:?} {:#x}", r.table_id, rule.priority, rule.matching, rule.instructions, rule.cookie)
        });
        (real.collect(), believed.collect())
    }

    /// Reports whether a switch still has the other program's rule.
    pub fn has_foreign_rule(&self, dpid: Dpid) -> bool {
        let switch = self.network.switch(dpid).expect("the switch is in the network");
        switch.tables()[0].rules().iter().any(|rule| rule.cookie == FOREIGN)
    }
}

/// Creates the controller of a case.
fn control(case: &Case, store: Arc<Store>) -> Control {
    let (max_rules, max_traces) = case.room;
    let engine = Options {
        track_hosts: case.track_hosts,
        new_table: case.compiler.new_table(),
        max_rules,
        max_traces,
        // Hosts that announced nothing are searched for no longer than others.
        silence: Duration::from_millis(500),
        ..Options::default()
    };
    let setting = SimulationOptions {
        in_cluster: false,
        shards: case.shards,
        clock: Arc::default(),
        store,
        policy: Arc::new(case.scenario.policy.clone()),
        engine,
        deadlines: Deadlines::default(),
        limits: QueueLimits::default(),
        forget_after: Some(FORGET_SWITCH_AFTER),
        subscriptions: Vec::new(),
    };
    let pace = ControllerDelays { busy: case.busy, mail: case.mail, seed: case.seed ^ 1 };
    let mut control = Control::new(&setting, pace).expect("the system has polls");
    if case.trace {
        control.trace();
    }
    control
}

/// Creates the emulated network of a case.
fn network(case: &Case) -> EmulatedNetwork {
    let ((n_tables, table_size), open_vswitch) = (case.tables, case.open_vswitch);
    let bundles = case.seed.is_multiple_of(2);
    let switch = SwitchOptions { n_tables, table_size, open_vswitch, bundles, ..SwitchOptions::default() };
    let options = NetworkOptions { seed: case.seed, switch, ..NetworkOptions::new(case.version) };
    let mut network = EmulatedNetwork::with_options(&case.topology(), options);
    for dpid in case.dpids() {
        let faults = ControlFaults { jitter: case.jitter, ..ControlFaults::default() };
        network.control_faults(dpid, faults).expect("the switch is in the network");
    }
    network
}

/// Reports whether the switch's rule is the one that the controller wants, not an older one.
fn is_entry(rule: &Rule, wanted: &maple_core::Rule) -> bool {
    (rule.priority, rule.cookie, &rule.matching, &rule.instructions[..])
        == (wanted.priority, wanted.cookie, &wanted.matching, &wanted.instructions[..])
}

/// Describes two rules that overlap at one priority, send packets on in different ways, and are both wanted.
fn torn_rules(rules: &[&Rule], wanted: &dyn Fn(&Rule, &Rule) -> bool) -> Option<String> {
    let asks = |rule: &Rule| rule.instructions[..] == [Instruction::ApplyActions(vec![Action::to_controller()])];
    let meet = |a: &Rule, b: &Rule| {
        let apart =
            |x: &Constraint| b.matching.get(x.field).is_some_and(|y| (x.value ^ y.value) & x.mask & y.mask != 0);
        a.priority == b.priority && a.instructions != b.instructions && !a.matching.constraints().any(apart)
    };
    // Higher rules may take all packets that both match.
    let shielded = |a: &Rule, b: &Rule| {
        let fits = |need: &Constraint| {
            let known = [a, b].into_iter().filter_map(|rule| rule.matching.get(need.field));
            let (value, mask) = known.fold((0, 0), |(value, mask), c| (value | c.value, mask | c.mask));
            need.mask & !mask == 0 && value & need.mask == need.value
        };
        rules.iter().take_while(|rule| rule.priority > a.priority).any(|rule| rule.matching.constraints().all(fits))
    };
    let said: Vec<&Rule> = rules.iter().copied().filter(|rule| !asks(rule)).collect();
    let pairs = said.iter().enumerate().flat_map(|(at, a)| said[at + 1..].iter().map(move |b| (a, b)));
    pairs
        .into_iter()
        .find(|(a, b)| meet(a, b) && !shielded(a, b) && wanted(a, b))
        .map(|(a, b)| format!("{a:?}\nand {b:?}"))
}
