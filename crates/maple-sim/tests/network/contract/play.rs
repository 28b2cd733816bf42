//! The play of a case: its steps happen in the simulation. [`rest`](super::rest) compares what comes out with f's
//! answers.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, LabelRange, Options, Stats};
use maple_core::network::{Location, Mac};
use maple_core::policy::Policy;
use maple_core::state::{Name, Write};
use maple_sim::cases::{CaseNetwork, Change, Step, host};
use maple_sim::{SimNetwork, SimSwitch};
use maple_wire::{Dpid, PortNo, Version};

use super::case::Case;
use super::shape::LINK_PORTS;
use super::tally::Tally;
use crate::rehearsal::reload_as_rehearsed;

/// A packet that entered, and whether its host was where the controller believed.
pub(super) struct Sent {
    pub frame: Vec<u8>,
    pub at: Location,
    pub true_place: bool,
}

/// A case in the middle of its steps.
pub struct Play<'a> {
    pub(super) case: &'a Case,
    /// The policy that runs; `former` has those that may also have run since the last rest.
    pub(super) policy: Arc<dyn Policy>,
    pub(super) former: Vec<Arc<dyn Policy>>,
    /// Whether `policy` is the case's other policy.
    pub(super) is_other: bool,
    pub sim: SimNetwork,
    /// The packets since the last rest.
    pub(super) sent: Vec<Sent>,
    /// Whether something broke since the last rest, so that packets may be lost.
    pub(super) lossy: bool,
    /// The number of packets that were sent, which each frame ends with.
    number: u64,
    truth: BTreeMap<Mac, Location>,
    /// The number of packets that the engines dropped because they did not know the label.
    pub(super) dropped: u64,
    /// The number of packets that were dropped so far because no rule led them along their way.
    pub(super) way_drops: u64,
    /// Whether some switch may be full.
    pub(super) shrunk: bool,
    pub tally: Tally,
}

impl<'a> Play<'a> {
    /// Creates the case's network, with its hosts in their places, before anything has happened.
    pub fn new(case: &'a Case) -> Play<'a> {
        let mut play = Play {
            case,
            policy: case.sliced(false),
            former: Vec::new(),
            is_other: false,
            sim: SimNetwork::new(case.whole(), case.shape.shards, &options(case), case.seed),
            sent: Vec::new(),
            lossy: false,
            number: 0,
            truth: BTreeMap::new(),
            dropped: 0,
            way_drops: 0,
            shrunk: false,
            tally: Tally { cases: 1, ..Tally::default() },
        };
        play.build_network();
        for (number, at) in case.scenario.network.hosts.iter().enumerate() {
            play.place_host(number, *at);
        }
        // The checks begin with the present state.
        let last = play.sim.history.pop();
        play.sim.history = last.into_iter().collect();
        play
    }

    /// Returns where a host is.
    pub(super) fn place_of(&self, mac: Mac) -> Location {
        self.truth[&mac]
    }

    /// Connects the case's switches and the links between them.
    fn build_network(&mut self) {
        let CaseNetwork { links, edges, .. } = &self.case.scenario.network;
        for number in 0..self.case.shape.versions.len() {
            let switch = switch(self.case, number);
            let dpid = switch.model.dpid();
            let edges = edges.iter().filter(|at| at.switch == dpid).map(|at| at.port);
            self.sim.connect(switch, (1..=LINK_PORTS).map(PortNo).chain(edges));
        }
        self.sim.run();
        for link in links {
            self.sim.add_link(link.a, link.b);
        }
        self.sim.run();
        self.sim.settle_ports();
        self.sim.run();
    }

    /// Makes a step of the case.
    ///
    /// # Errors
    /// The first deviation from the contract, in words.
    pub fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Send(packet) => self.send_from_its_host(*packet),
            Step::Forge { packet, from } => self.forge(*packet, *from),
            Step::Flap(packet) => self.flap(*packet),
            Step::Link(at, is_up) => self.set_link(*at, *is_up),
            Step::Move { host, to } => self.move_host(*host, *to),
            Step::RemovePort(at) => self.remove_port(*at),
            Step::AddPort(at) => self.add_port(*at),
            Step::Write(change) => self.write(change.event()),
            Step::WriteTogether(changes) => self.write(Event::Write(changes.iter().map(Change::write).collect())),
            Step::Reload => self.reload(),
            Step::ReloadAsRehearsed => self.reload_as_rehearsed()?,
            Step::Invalidate(leaves) => self.sim.report(Event::Invalidate(leaves.clone())),
            Step::Reconnect { .. }
            | Step::LoseConnection(_)
            | Step::RegainConnection { .. }
            | Step::RestartController { .. } => self.change_connections(step),
            Step::LoseRule(dpid, index) => self.lose_rule(*dpid, *index)?,
            Step::Shrink(dpid, capacity) => self.shrink(*dpid, *capacity),
            Step::Settle => drop(self.sim.begin_wait()),
            Step::Rest => self.rest()?,
            Step::Wait(span) => self.sim.run_for(*span),
            Step::Stream { .. } | Step::Port(..) | Step::Declare(_) | Step::HalfOpen(_) | Step::Slow { .. } => {
                unreachable!("the driver does not ask for {step:?}")
            }
        }
        // The next step mostly comes while rules are being sent, and sometimes after they have arrived.
        self.sim.run_for(Duration::from_micros(if self.case.seed.is_multiple_of(3) { 5000 } else { 300 }));
        Ok(())
    }

    fn send_from_its_host(&mut self, packet: usize) {
        let (mac, frame) = self.frame(packet);
        self.send(mac, self.truth[&mac], &frame);
    }

    /// Sends a packet from elsewhere. A host that was not seen yet can be impersonated, so the packet is sent only if
    /// its host was seen.
    fn forge(&mut self, packet: usize, from: Location) {
        let (mac, frame) = self.frame(packet);
        if self.sim.store.snapshot().host(mac).is_some() {
            self.send(mac, from, &frame);
        }
    }

    /// Sends a packet from a port that has just gone down and come up again.
    fn flap(&mut self, packet: usize) {
        self.lossy = true;
        let (mac, frame) = self.frame(packet);
        let at = self.truth[&mac];
        self.sim.set_port(at, false);
        self.sim.set_port(at, true);
        self.send(mac, at, &frame);
        self.rediscover_soon(at);
    }

    fn set_link(&mut self, at: Location, is_up: bool) {
        self.lossy = true;
        self.sim.set_port(at, is_up);
        if is_up {
            self.rediscover_soon(at);
        }
    }

    fn move_host(&mut self, number: usize, to: Location) {
        self.lossy = true;
        self.place_host(number, to);
    }

    fn place_host(&mut self, number: usize, at: Location) {
        let mac = host(number).mac;
        self.truth.insert(mac, at);
        self.sim.place_host(mac, at);
    }

    /// Removes an edge port, if it is there.
    fn remove_port(&mut self, at: Location) {
        if self.sim.edge_ports().contains(&at) {
            self.lossy = true;
            self.sim.remove_port(at);
        }
    }

    /// Adds an edge port, unless it is there.
    fn add_port(&mut self, at: Location) {
        if !self.sim.edge_ports().contains(&at) {
            self.lossy = true;
            self.sim.add_port(at);
            self.rediscover_soon(at);
        }
    }

    /// Lets discovery find the kind of a port a moment after it is up.
    fn rediscover_soon(&mut self, at: Location) {
        self.sim.run_for(Duration::from_millis(5));
        self.sim.rediscover(at);
    }

    /// Writes state, and with slices that of a slice too.
    fn write(&mut self, writes: Event) {
        if self.case.sliced {
            self.sim.report(in_red(writes.clone()));
        }
        self.sim.report(writes);
    }

    fn reload(&mut self) {
        if let Some(case) = self.swap_policies() {
            self.sim.reload(case.whole());
        }
    }

    /// Reloads at rest. Where a rehearsal can know everything, the rules must be those that it foresaw.
    fn reload_as_rehearsed(&mut self) -> Result<(), String> {
        self.rest()?;
        let Some(case) = self.swap_policies() else { return Ok(()) };
        if !self.sim.is_any_away() {
            // All switches follow the new policy at once.
            self.former.pop();
        }
        let (hosts, look_ups) = (self.known_hosts(), self.look_ups());
        let reloaded = reload_as_rehearsed(&mut self.sim, &case.whole(), false);
        // A host that was silent for long may be forgotten while everything comes to rest. A look-up that ended may
        // have kept the table that another one waited for: how long depends on when the switch confirmed that it is
        // free.
        let is_as_before = self.known_hosts() == hosts && self.look_ups().is_superset(&look_ups);
        if !self.can_be_foreseen() || !is_as_before {
            return Ok(());
        }
        self.tally.foreseen += 1;
        reloaded.map(drop)
    }

    /// Returns the look-ups that have tables, with their switches.
    fn look_ups(&self) -> BTreeSet<(Dpid, String)> {
        let mut all = BTreeSet::new();
        for dpid in self.sim.dpids() {
            let statuses = self.sim.engines().iter().filter_map(|engine| engine.view().look_ups(dpid)).flatten();
            all.extend(statuses.filter(|status| status.table.is_some()).map(|status| (dpid, status.look_up)));
        }
        all
    }

    /// Returns the hosts that the network knows.
    fn known_hosts(&self) -> Vec<Mac> {
        self.sim.store.snapshot().hosts().map(|(mac, _)| *mac).collect()
    }

    /// Reports whether a rehearsal can know which rules a reload ends with. It can't know the counters by which a full
    /// switch evicts, which route gets the last label in time, or what a switch will refuse. A switch without a
    /// connection gets its rules later. Exploration adds rules later too.
    fn can_be_foreseen(&self) -> bool {
        let has_refusals = |stats: Stats| stats.labels_refused + stats.labels_gone > 0;
        let is_refused = self.sim.engines().iter().any(|engine| has_refusals(engine.view().stats()));
        let is_free = !self.shrunk && self.case.capacity == (None, None) && self.case.labels == LabelRange::ALL;
        let is_free = is_free && self.case.explored_leaves == 0 && self.case.keys_of_table.is_none();
        let takes_all = self.case.shape.refused == (None, true) && self.case.shape.takes_meters;
        is_free && !is_refused && takes_all && !self.sim.is_any_away()
    }

    /// Deletes a rule at a switch. It may have shielded another, and nothing can be done about that, so everything
    /// rests first.
    fn lose_rule(&mut self, dpid: Dpid, index: usize) -> Result<(), String> {
        self.rest()?;
        self.sim.lose_rule(dpid, index);
        self.sim.run();
        Ok(())
    }

    /// Limits the rules of a switch. Those that every switch has must fit, even if it comes back without any or in 1.3.
    fn shrink(&mut self, dpid: Dpid, capacity: usize) {
        self.shrunk = true;
        if let Some(switch) = self.sim.switch(dpid) {
            // The controller's own rules, of which each port to a switch has one and each table one.
            let own = if switch.model.version() == Version::Of13 || self.case.changes_versions() { 16 } else { 6 };
            let capacity = capacity.max(own).max(switch.flows().len());
            switch.model.change_options(|options| options.capacity = capacity);
        }
    }

    /// Lets the case's other policy decide. Returns the case with that policy.
    pub(super) fn swap_policies(&mut self) -> Option<Case> {
        let swapped = self.case.swapped()?;
        self.is_other = !self.is_other;
        let case = if self.is_other { swapped } else { self.case.clone() };
        self.former.push(std::mem::replace(&mut self.policy, case.sliced(false)));
        Some(case)
    }

    /// Returns the next copy of a packet, and its sender.
    fn frame(&mut self, packet: usize) -> (Mac, Vec<u8>) {
        self.number += 1;
        let packet = &self.case.scenario.packets[packet];
        (host(packet.from).mac, packet.frame(self.number))
    }

    fn send(&mut self, mac: Mac, at: Location, frame: &[u8]) {
        let state = self.sim.store.snapshot();
        let true_place = state.host(mac).is_none_or(|host| host.location == at) && self.truth[&mac] == at;
        self.sent.push(Sent { frame: frame.to_vec(), at, true_place });
        self.sim.inject(at, frame.to_vec());
    }
}

/// Turns writes into writes to the state of the slice `red`.
fn in_red(event: Event) -> Event {
    let red_name = |name: &Name| Name::from(format!("red/{name}"));
    let write = |write: Write| match write {
        Write::Table { table, key, value } => Write::Table { table: red_name(&table), key, value },
        Write::Var { name, value } => Write::Var { name: red_name(&name), value },
        Write::Cost { name, link, cost } => Write::Cost { name: red_name(&name), link, cost },
        other => other,
    };
    match event {
        Event::Write(writes) => Event::Write(writes.into_iter().map(write).collect()),
        other => other,
    }
}

/// Returns the engines' options of a case.
fn options(case: &Case) -> Options {
    // In some cases hosts are forgotten at each rest.
    let host_timeout = Duration::from_secs(if case.seed.is_multiple_of(5) { 20 } else { 300 });
    let (max_rules, max_traces) = case.capacity;
    Options {
        labels: case.labels,
        track_hosts: case.track_hosts,
        new_table: case.compiler.new_table(),
        max_rules,
        max_traces,
        host_timeout,
        listener_filters: case.shape.heard.clone().into(),
        look_up_tables: case.look_up_tables,
        open_routes: case.open_routes,
        explored_leaves: case.explored_leaves,
        max_classes: case.max_classes,
        flow_mod_rate: if case.seed.is_multiple_of(5) { NonZeroU32::new(1_000) } else { None },
        ..Options::default()
    }
}

/// Creates a switch of a case, by its number from 0 on.
fn switch(case: &Case, number: usize) -> SimSwitch {
    let (dpid, version) = (Dpid(number as u64 + 1), case.shape.versions[number]);
    let mut switch = SimSwitch::new(dpid, version);
    switch.model.change_options(|options| {
        (options.n_tables, options.bundles) = (case.shape.tables[number], case.has_bundles(dpid));
    });
    (switch.refuses_table, switch.takes_metadata) = case.shape.refused;
    switch.takes_meters = case.shape.takes_meters;
    switch.takes_action_sets = case.takes_action_sets();
    let sizes = case.keys_of_table.into_iter().flat_map(|keys| (1..=case.look_up_tables).map(move |of| (of, keys)));
    sizes.for_each(|(of, keys)| switch.model.set_table_size(of, keys));
    if let Some(capture) = case.shape.capture {
        (switch.send_len, switch.buffers) = capture;
    }
    switch
}
