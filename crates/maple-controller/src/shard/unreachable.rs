//! Switches of this shard without a connection, until they have one again or are forgotten.
//!
//! When the connection to a switch ends, the engine keeps the switch (`maple_core`, `engine/unreachable.rs`), unless it
//! did not know the switch's rules yet. Then the switch stays at this shard. A connection that another shard has
//! accepted for it comes here before it is admitted. If the switch describes itself as before, it continues: changes of
//! its ports are reported, and its rules are read. Otherwise it begins anew.
//!
//! A switch that stays away is gone after `forget_after`, unless the configuration names it.

use std::collections::BTreeMap;
use std::time::Duration;

use maple_core::engine::{Event, InstalledFlow, ShardId, Time};
use maple_wire::Dpid;

use super::Shard;
use super::announced::port_changes;
use super::session_output::DepartedSwitch;
use crate::memory::takeover::CopiedSwitch;
use crate::session::SwitchInfo;
use crate::status::{SwitchPort, SwitchStatus};
use crate::time::{after, until};

/// How long a switch without a connection is kept by default.
pub const FORGET_SWITCH_AFTER: Duration = Duration::from_secs(300);

/// The switches of a shard that have no connection.
#[derive(Debug)]
pub(super) struct Unreachable {
    /// How long they are kept; `None`: without limit. With zero, a switch is gone as soon as its connection ends.
    forget_after: Option<Duration>,
    switches: BTreeMap<Dpid, UnreachableSwitch>,
}

#[derive(Debug)]
struct UnreachableSwitch {
    /// The switch's description of itself, with its ports.
    info: SwitchInfo,
    since: Time,
    /// The time at which the switch is forgotten.
    until: Option<Time>,
}

impl Unreachable {
    pub fn new(forget_after: Option<Duration>) -> Unreachable {
        Unreachable { forget_after, switches: BTreeMap::new() }
    }

    /// Reports whether switches are kept when their connections end.
    pub fn keeps(&self) -> bool {
        self.forget_after != Some(Duration::ZERO)
    }

    /// Reports whether this shard has the switch without a connection.
    pub fn has(&self, dpid: Dpid) -> bool {
        self.switches.contains_key(&dpid)
    }

    /// Returns the time at which the next switch is forgotten.
    pub fn deadline(&self) -> Option<Time> {
        self.switches.values().filter_map(|switch| switch.until).min()
    }

    /// Returns the switches' descriptions of themselves.
    pub fn infos(&self) -> impl Iterator<Item = &SwitchInfo> {
        self.switches.values().map(|switch| &switch.info)
    }

    /// Returns the status of the switches, for people.
    pub fn statuses(&self, now: Time, shard: ShardId) -> Vec<SwitchStatus> {
        self.switches.values().map(|switch| switch.status(now, shard)).collect()
    }

    /// Returns the switches, for another process. `rules` returns the rules of a switch.
    pub fn copies(&self, rules: impl Fn(Dpid) -> Vec<InstalledFlow>) -> Vec<CopiedSwitch> {
        self.infos().map(|info| CopiedSwitch { info: info.clone(), rules: rules(info.features.dpid) }).collect()
    }
}

impl UnreachableSwitch {
    fn status(&self, now: Time, shard: ShardId) -> SwitchStatus {
        SwitchStatus {
            dpid: self.info.features.dpid,
            peer: None,
            unreachable: Some(until(self.since, now)),
            silent: false,
            version: self.info.version,
            description: self.info.text(),
            tables: self.info.features.n_tables,
            bundles: self.info.has_bundles,
            shard,
            waiting_bytes: 0,
            ports: self.info.ports.iter().map(SwitchPort::from).collect(),
        }
    }
}

impl Shard {
    /// Keeps a switch whose connection has ended, as the engine does.
    pub(super) fn keep_unreachable(&mut self, now: Time, info: SwitchInfo) {
        let dpid = info.features.dpid;
        self.registry.keep(dpid, self.id);
        self.discovery.suspend(dpid);
        let until = self.unreachable.forget_after.map(|wait| after(now, wait));
        self.unreachable.switches.insert(dpid, UnreachableSwitch { info, since: now, until });
    }

    /// Records whether a connected switch is silent. While it is, missing probes say nothing about the wires.
    pub(super) fn set_silent(&mut self, now: Time, slot: usize, is_silent: bool) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Some(dpid) = connection.dpid.filter(|_| connection.switch.as_ref().is_some_and(|switch| switch.in_use))
        else {
            return;
        };
        self.registry.set_silent(dpid, is_silent);
        match is_silent {
            true => self.discovery.suspend(dpid),
            false => self.discovery.resume(now, dpid, &mut self.discovered),
        }
    }

    /// Has the engine forget the switches that have been away for too long.
    pub(super) fn forget_unreachable(&mut self, now: Time) {
        if self.unreachable.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        for (dpid, switch) in &mut self.unreachable.switches {
            if switch.until.take_if(|until| *until <= now).is_some() && !self.engine.is_declared(*dpid) {
                self.events.push(Event::SwitchDown { dpid: *dpid });
                self.departed.push(DepartedSwitch::forgotten(*dpid));
            }
        }
    }

    /// Drops a switch that the engine has forgotten.
    pub(super) fn drop_unreachable(&mut self, now: Time, dpid: Dpid) {
        if self.unreachable.switches.remove(&dpid).is_some() {
            self.registry.forget(dpid, self.id);
            self.discovery.switch_down(now, dpid, &mut self.discovered);
        }
    }

    /// Takes a switch whose handshake is done. If the engine has it, and it describes itself as before, it continues,
    /// and nothing is returned.
    pub(super) fn unreachable_is_back(&mut self, now: Time, slot: usize, info: SwitchInfo) -> Option<SwitchInfo> {
        let dpid = info.features.dpid;
        let Some(UnreachableSwitch { info: before, .. }) = self.unreachable.switches.remove(&dpid) else {
            return Some(info);
        };
        let ports = before.ports.clone();
        if (SwitchInfo { ports: info.ports.clone(), ..before }) != info {
            self.discovery.switch_down(now, dpid, &mut self.discovered);
            self.events.push(Event::SwitchDown { dpid });
            return Some(info);
        }
        self.events.push(Event::SwitchReachable { dpid });
        self.discovery.resume(now, dpid, &mut self.discovered);
        for status in port_changes(&ports, &info.ports) {
            self.discovery.port_status(now, dpid, &status, &mut self.discovered);
            self.events.push(Event::PortStatus { dpid, status });
        }
        let connection = self.connections.get(slot)?;
        if let Some(switch) = &mut connection.switch {
            switch.in_use = true;
        }
        if let Some(session) = connection.session() {
            session.read_flows(now, &mut self.outputs);
        }
        None
    }
}
