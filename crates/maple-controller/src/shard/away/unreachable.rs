//! Switches of this shard without a connection, until they have one again or are forgotten.
//!
//! When the connection to a switch ends, the engine keeps the switch (`maple_core`, `engine/fabric/unreachable.rs`),
//! unless it did not know the switch's rules yet. Then the switch stays at this shard. A connection that another shard
//! has accepted for it comes here before it is admitted. If the switch describes itself as before, it continues:
//! changes of its ports are reported, and its rules are read. Otherwise it begins anew.
//!
//! A switch that stays away is gone after `forget_after`, unless the configuration names it.

use std::collections::BTreeMap;
use std::time::Duration;

use maple_core::engine::{ReportedRule, ShardId, Time};
use maple_wire::Dpid;

use crate::session::SwitchInfo;
use crate::status::{SwitchPort, SwitchStatus};
use crate::storage::takeover::CopiedSwitch;
use crate::time::{after, until};

/// The time for which a switch without a connection is kept by default. Chosen: most switches boot in less than five
/// minutes.
pub const FORGET_SWITCH_AFTER: Duration = Duration::from_secs(300);

/// The switches of a shard that have no connection.
#[derive(Debug)]
pub(in crate::shard) struct Unreachable {
    /// The time for which these switches are kept; `None`: without limit. With zero, a switch is gone as soon as its
    /// connection ends.
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

    /// Keeps a switch whose connection has ended.
    pub fn keep(&mut self, now: Time, info: SwitchInfo) {
        let until = self.forget_after.map(|wait| after(now, wait));
        self.switches.insert(info.features.dpid, UnreachableSwitch { info, since: now, until });
    }

    /// Takes a switch that is back, or is forgotten. Returns its description of itself.
    pub fn take(&mut self, dpid: Dpid) -> Option<SwitchInfo> {
        self.switches.remove(&dpid).map(|switch| switch.info)
    }

    /// Returns the switches that have been away for too long since the last call. They stay here until they are taken.
    pub fn take_overdue(&mut self, now: Time) -> Vec<Dpid> {
        let mut overdue = Vec::new();
        for (dpid, switch) in &mut self.switches {
            overdue.extend(switch.until.take_if(|until| *until <= now).map(|_| *dpid));
        }
        overdue
    }

    /// Returns all switches, as if all had been away for too long. They stay here until they are taken.
    pub fn take_all(&mut self) -> Vec<Dpid> {
        self.switches.values_mut().for_each(|switch| switch.until = None);
        self.switches.keys().copied().collect()
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
    pub fn copies(&self, rules: impl Fn(Dpid) -> Vec<ReportedRule>) -> Vec<CopiedSwitch> {
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
