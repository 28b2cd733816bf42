//! One consistent view of all tracked state, and the writes that lead from one view to the next.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};

use imbl::OrdMap;
use maple_wire::{Dpid, PortNo, Version};
use serde::{Deserialize, Serialize};

use super::derived::{Derived, LastChange};
use super::gate::Gate;
use super::kind::{Declarations, Kind, Mismatch, Types};
use super::known_hosts::KnownHosts;
use super::known_ports::KnownPorts;
use super::query_answers::AnswerMemo;
use super::{Name, RateHistory, Rows, Value};
use crate::ids::ShardId;
use crate::network::{Facts, Gauge, HostInfo, LinkName, Location, Mac, PortInfo, PortKind, Scale, UTILISATION};

/// One consistent, immutable view of all tracked state. Cloning it is a few pointer copies.
#[derive(Clone, Default, Debug)]
pub struct Snapshot {
    pub(super) version: u64,
    /// Whether it has writes that are not committed.
    pub(super) draft: bool,
    /// The answers of queries in this store's snapshots.
    pub(super) memo: Arc<AnswerMemo>,
    /// The values derived from the topology in this store's snapshots.
    pub(super) derived: Arc<Derived>,
    /// The versions in which links last changed, and in which ports or links did.
    pub(super) links_changed: LastChange,
    pub(super) ports_changed: LastChange,
    tables: OrdMap<Name, Rows>,
    vars: OrdMap<Name, Value>,
    /// The declared types: few, and usually declared before the first packet.
    declared: Arc<Declarations>,
    /// The newest declaration of ports and hosts, with its number; `None`: nothing was ever declared.
    facts: Option<(u64, Arc<Facts>)>,
    costs: OrdMap<Name, OrdMap<LinkName, u64>>,
    switches: OrdMap<Dpid, SwitchInfo>,
    ports: KnownPorts,
    hosts: KnownHosts,
    /// The rates that were measured because a subscription needed them.
    rates: OrdMap<Gauge, Arc<RateHistory>>,
}

/// One switch, as the state holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SwitchInfo {
    /// The shard that serves it.
    pub shard: ShardId,
    /// The OpenFlow version spoken with it.
    pub version: Version,
}

/// One change of tracked state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Write {
    /// Puts a value at a table's key, or removes it.
    Table {
        /// The table.
        table: Name,
        /// The key.
        key: Value,
        /// The value; `None` deletes.
        value: Option<Value>,
    },
    /// Sets a variable, or removes it.
    Var {
        /// The variable.
        name: Name,
        /// The value; `None` deletes.
        value: Option<Value>,
    },
    /// Adds to a variable that holds an integer; one that holds none counts as 0. The sum saturates at the bounds of
    /// `i128`. The old value need not be read, so writes of this kind never conflict.
    Add {
        /// The variable.
        name: Name,
        /// The amount that is added.
        amount: i128,
    },
    /// Declares the types of a table's keys and values. Only [`super::Store::declare_types`] writes it.
    Types {
        /// The table.
        table: Name,
        /// The types of its keys and values.
        types: Arc<Types>,
    },
    /// Declares the type of a variable. Only [`super::Store::declare_kind`] writes it.
    Kind {
        /// The variable.
        name: Name,
        /// The variable's type.
        kind: Arc<Kind>,
    },
    /// Declares that links have costs by this name: 1 unless set. A name stays once it is declared.
    CostName(Name),
    /// Sets the cost of a link by an attribute, and declares the attribute's name.
    Cost {
        /// The attribute.
        name: Name,
        /// The link.
        link: LinkName,
        /// The cost; `None` is the default, 1.
        cost: Option<u64>,
    },
    /// Replaces the declared facts about ports and hosts. Only [`crate::engine::Event::Declare`] writes it, with what
    /// follows from it, and the start of engines.
    Facts {
        /// The number of the declaration ([`crate::Store::number_declaration`]); 0 for the facts that engines start
        /// with.
        number: u64,
        /// The declared facts.
        facts: Arc<Facts>,
    },
    /// Puts a switch that connected, or removes one that left.
    Switch {
        /// The switch.
        dpid: Dpid,
        /// The switch's shard and OpenFlow version; `None` removes it.
        info: Option<SwitchInfo>,
    },
    /// Puts what is known of a port, or removes the port.
    Port {
        /// The port.
        at: Location,
        /// The kind of the port, and whether it is up; `None` removes it.
        info: Option<PortInfo>,
    },
    /// Sets the speed of a port. It is forgotten with the port.
    Speed {
        /// The port.
        at: Location,
        /// The speed, in bit/s; `None` if the switch does not report it.
        speed: Option<u64>,
    },
    /// Adds a sample of a measured rate. A rate is forgotten with its port, and when the host that sends moves.
    Rate {
        /// The rate that was measured.
        gauge: Gauge,
        /// The sample, in bit/s; `None` forgets all samples.
        rate: Option<u64>,
    },
    /// Puts what is known of a host, or removes the host.
    Host {
        /// The host.
        mac: Mac,
        /// The host's information; `None` removes it.
        info: Option<HostInfo>,
    },
}

impl Snapshot {
    /// Returns the number of the snapshot. It goes up by one with every commit that wrote.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns a copy for writes that are not committed.
    pub(super) fn draft(&self) -> Snapshot {
        Snapshot { draft: true, ..self.clone() }
    }

    /// Returns the version, unless the snapshot has writes that are not committed.
    pub(super) fn published(&self) -> Option<u64> {
        (!self.draft).then_some(self.version)
    }

    /// Returns a table of the policy, if it has any key.
    pub fn table(&self, name: &str) -> Option<&Rows> {
        self.tables.get(name)
    }

    /// Returns the names of the tables that have keys, in order.
    pub fn tables(&self) -> impl Iterator<Item = &Name> + '_ {
        self.tables.keys()
    }

    /// Returns the names of the variables that are set, in order.
    pub fn vars(&self) -> impl Iterator<Item = &Name> + '_ {
        self.vars.keys()
    }

    /// Returns the value of a variable of the policy, if it is set.
    pub fn var(&self, name: &str) -> Option<&Value> {
        self.vars.get(name)
    }

    /// Returns the declared types.
    pub(super) fn declared(&self) -> &Declarations {
        &self.declared
    }

    /// Returns this state with another gate.
    pub(super) fn with_gate(&self, gate: Gate) -> Snapshot {
        let mut next = Snapshot { version: self.version + 1, ..self.clone() };
        Arc::make_mut(&mut next.declared).gate = gate;
        next
    }

    /// Returns the types of a table's keys and values, if they were declared.
    pub fn types(&self, table: &str) -> Option<&Arc<Types>> {
        self.declared.table(table)
    }

    /// Returns the type of a variable, if it was declared.
    pub fn kind(&self, var: &str) -> Option<&Arc<Kind>> {
        self.declared.var(var)
    }

    /// Returns the declared facts about ports and hosts.
    pub fn facts(&self) -> &Arc<Facts> {
        static NOTHING: LazyLock<Arc<Facts>> = LazyLock::new(Arc::default);
        self.facts.as_ref().map_or(&NOTHING, |(_, facts)| facts)
    }

    /// Returns the number of the declaration in force; 0 if it has none.
    pub(crate) fn facts_number(&self) -> u64 {
        self.facts.as_ref().map_or(0, |(number, _)| *number)
    }

    /// Reports whether something was ever declared of ports and hosts.
    pub(crate) fn has_facts(&self) -> bool {
        self.facts.is_some()
    }

    /// Converts a value to the form in which the variable keeps it.
    ///
    /// # Errors
    /// [`Mismatch`] if the variable was declared with another type.
    pub fn normal_var(&self, name: &Name, value: Value) -> Result<Value, Mismatch> {
        self.kind(name).map_or(Ok(value.clone()), |kind| kind.value(name, &value))
    }

    /// Checks that a table can have this key, if its types were declared.
    pub(crate) fn check_key(&self, table: &Name, key: &Value) -> Result<(), Mismatch> {
        self.declared.check_key(table, key)
    }

    /// Checks that a write puts what its table or variable was declared to hold.
    ///
    /// # Errors
    /// [`Mismatch`] if it does not.
    pub fn check(&self, write: &Write) -> Result<(), Mismatch> {
        self.declared.check(write)
    }

    /// Converts a write to the form in which its table or variable keeps it; `None` if it has that form already.
    ///
    /// # Errors
    /// [`Mismatch`] if it puts a value of another type.
    pub fn normalise(&self, write: &Write) -> Result<Option<Write>, Mismatch> {
        self.declared.normalise(write)
    }

    /// Returns the cost by the attribute `name` of the link that leaves by `from` towards `to`; 1 if none is set.
    pub fn cost(&self, name: &str, from: Location, to: Dpid) -> u64 {
        let Some(costs) = self.costs.get(name) else { return 1 };
        let by_port = costs.get(&LinkName::Port(from));
        *by_port.or_else(|| costs.get(&LinkName::Switches(from.switch, to))).unwrap_or(&1)
    }

    /// Returns the writes that give another store this one's tables, variables and costs, with their declared types:
    /// all that users and policies wrote, and nothing of the network.
    pub fn of_users(&self) -> Vec<Write> {
        let mut writes: Vec<Write> = self.declared.writes().collect();
        for (table, rows) in self.tables.iter() {
            let row = |(key, value): (&Value, &Value)| Write::Table {
                table: table.clone(),
                key: key.clone(),
                value: Some(value.clone()),
            };
            writes.extend(rows.iter().map(row));
        }
        writes.extend(
            self.vars.iter().map(|(name, value)| Write::Var { name: name.clone(), value: Some(value.clone()) }),
        );
        for (name, costs) in self.costs.iter() {
            writes.push(Write::CostName(name.clone()));
            let cost =
                |(link, cost): (&LinkName, &u64)| Write::Cost { name: name.clone(), link: *link, cost: Some(*cost) };
            writes.extend(costs.iter().map(cost));
        }
        writes
    }

    /// Returns a draft to which those of these writes are applied whose names this snapshot does not have.
    pub(crate) fn beneath(&self, writes: &[Write]) -> Snapshot {
        let mut draft = self.draft();
        let is_free = |write: &&Write| match write {
            Write::Table { table, .. } | Write::Types { table, .. } => {
                self.table(table).is_none() && self.types(table).is_none()
            }
            Write::Var { name, .. } | Write::Add { name, .. } | Write::Kind { name, .. } => {
                self.var(name).is_none() && self.kind(name).is_none()
            }
            Write::CostName(name) | Write::Cost { name, .. } => !self.costs.contains_key(name),
            _ => false,
        };
        writes.iter().filter(is_free).for_each(|write| draft.apply(write));
        draft
    }

    /// Reports whether links have costs by this name. They always have costs by utilisation.
    pub fn has_costs(&self, name: &str) -> bool {
        self.costs.contains_key(name) || name == UTILISATION
    }

    /// Returns the names that links have costs by, in order.
    pub fn cost_names(&self) -> impl Iterator<Item = &Name> + '_ {
        self.costs.keys()
    }

    /// Returns the shard that serves a switch.
    pub fn shard_of(&self, dpid: Dpid) -> Option<ShardId> {
        self.switch(dpid).map(|info| info.shard)
    }

    /// Returns the shard and OpenFlow version of a switch, if it is known.
    pub fn switch(&self, dpid: Dpid) -> Option<SwitchInfo> {
        self.switches.get(&dpid).copied()
    }

    /// Returns all switches, by datapath id.
    pub fn switches(&self) -> impl Iterator<Item = (Dpid, SwitchInfo)> + '_ {
        self.switches.iter().map(|(dpid, info)| (*dpid, *info))
    }

    /// Returns the kind of a port, and whether it is up; `None` if it does not exist.
    pub fn port(&self, at: Location) -> Option<PortInfo> {
        self.ports.get(at)
    }

    /// Returns the ports of a switch in order.
    pub fn ports_of(&self, dpid: Dpid) -> impl Iterator<Item = (PortNo, PortInfo)> + '_ {
        self.ports.of_switch(dpid)
    }

    /// Returns the other end of the link at `at`, if there is a link and both ends know it and are up.
    pub fn peer(&self, at: Location) -> Option<Location> {
        self.ports.peer(at)
    }

    /// Returns all usable links, each once, lower end first.
    pub fn links(&self) -> impl Iterator<Item = (Location, Location)> + '_ {
        self.ports.links()
    }

    /// Returns the usable links of a switch: own port and far end, by port. The cost grows with its link ports, not
    /// with all its ports.
    pub fn links_of(&self, dpid: Dpid) -> impl Iterator<Item = (Location, Location)> + '_ {
        self.ports.links_of(dpid)
    }

    /// Returns the information about a host, if it is known.
    pub fn host(&self, mac: Mac) -> Option<&HostInfo> {
        self.hosts.get(mac)
    }

    /// Returns the host that announced an IP address last.
    pub fn host_by_ip(&self, ip: IpAddr) -> Option<Mac> {
        self.hosts.by_ip(ip)
    }

    /// Returns the addresses of IPv6 or of IPv4 that hosts have announced, each with the host that announced it last.
    pub(crate) fn bindings(&self, is_v6: bool) -> impl Iterator<Item = (IpAddr, Mac)> + '_ {
        self.hosts.bindings().filter(move |(ip, _)| ip.is_ipv6() == is_v6)
    }

    /// Returns the hosts that announced an IP address of a prefix last. A host with several such addresses comes
    /// several times. The cost grows with the number of addresses in the prefix.
    pub fn hosts_in(&self, network: IpAddr, bits: u8) -> impl Iterator<Item = Mac> + '_ {
        self.hosts.in_network(network, bits)
    }

    /// Returns all hosts by address.
    pub fn hosts(&self) -> impl Iterator<Item = (&Mac, &HostInfo)> + '_ {
        self.hosts.all()
    }

    /// Returns the hosts that were written since the snapshot of a version, also those that are gone; a host may occur
    /// twice. `None` if that is not known, because there were too many.
    pub(crate) fn hosts_written_since(&self, version: u64) -> Option<impl Iterator<Item = Mac>> {
        self.hosts.written_since(version)
    }

    /// Returns the IP addresses that hosts may have begun or ceased to have since the snapshot of a version; one may
    /// occur twice. `None` if they are not known, because there were too many.
    pub(crate) fn bindings_written_since(&self, version: u64) -> Option<impl Iterator<Item = IpAddr>> {
        self.hosts.ips_written_since(version)
    }

    /// Returns the hosts at a port, by address.
    pub fn hosts_at(&self, at: Location) -> impl Iterator<Item = Mac> + '_ {
        self.hosts.at(at)
    }

    /// Returns the speed of a port, in bit/s, if its switch reports it.
    pub fn speed(&self, at: Location) -> Option<u64> {
        self.ports.speed(at)
    }

    /// Returns the history of a rate, if it was measured.
    pub fn rate(&self, gauge: &Gauge) -> Option<&RateHistory> {
        self.rates.get(gauge).map(|history| &**history)
    }

    /// Returns the step of a scale that a rate has reached; 0 if nothing was measured.
    pub(super) fn step(&self, gauge: &Gauge, scale: Scale) -> u8 {
        self.rate(gauge).map_or(0, |history| history.step(scale))
    }

    /// Returns the measured rates of what a host sends to others.
    pub(super) fn traffic_from(&self, from: Mac) -> impl Iterator<Item = Gauge> + '_ {
        self.rates.range(Gauge::all_from(from)).map(|(gauge, _)| *gauge)
    }

    /// Returns the hosts at a switch.
    pub(crate) fn hosts_of(&self, dpid: Dpid) -> impl Iterator<Item = Mac> + '_ {
        self.hosts.at_switch(dpid)
    }

    /// Applies the writes that lead to this version.
    pub(super) fn apply_all(&mut self, writes: &[Write], version: u64) {
        self.version = version;
        writes.iter().for_each(|write| self.apply(write));
    }

    /// Applies one write. The result depends on nothing but the snapshot and the write.
    pub(super) fn apply(&mut self, write: &Write) {
        match write {
            Write::Table { table, key, value } => self.put_row(table, key, value.clone()),
            Write::Var { name, value } => put(&mut self.vars, name, value.clone()),
            Write::Add { name, amount } => {
                let before = self.vars.get(name).and_then(Value::as_int).unwrap_or_default();
                put(&mut self.vars, name, Some(Value::Int(before.saturating_add(*amount))));
            }
            Write::Types { table, types } => Arc::make_mut(&mut self.declared).put_table(table, types),
            Write::Kind { name, kind } => Arc::make_mut(&mut self.declared).put_var(name, kind),
            Write::CostName(name) => {
                self.costs.entry(name.clone()).or_default();
                self.change_links();
            }
            Write::Cost { name, link, cost } => {
                put(self.costs.entry(name.clone()).or_default(), link, *cost);
                self.change_links();
            }
            Write::Facts { number, facts } => self.facts = Some((*number, Arc::clone(facts))),
            Write::Switch { dpid, info } => {
                put(&mut self.switches, dpid, *info);
                self.change_links();
            }
            Write::Port { at, info } => {
                if concerns_links(self.port(*at), *info) {
                    self.change_links();
                }
                self.ports_changed = self.this_version();
                self.apply_port(*at, *info);
            }
            Write::Speed { at, speed } => self.ports.put_speed(*at, *speed),
            Write::Rate { gauge, rate: Some(rate) } => Arc::make_mut(self.rates.entry(*gauge).or_default()).push(*rate),
            Write::Rate { gauge, rate: None } => drop(self.rates.remove(gauge)),
            Write::Host { mac, info } => self.apply_host(*mac, info.clone()),
        }
    }

    fn change_links(&mut self) {
        self.links_changed = self.this_version();
        self.ports_changed = self.this_version();
    }

    fn this_version(&self) -> LastChange {
        if self.draft { LastChange::InDraft } else { LastChange::At(self.version) }
    }

    /// Puts a value into a table, or removes it. A table without keys is removed.
    fn put_row(&mut self, table: &Name, key: &Value, value: Option<Value>) {
        let changed = if self.draft { u64::MAX } else { self.version };
        let Some(rows) = self.tables.get_mut(table) else {
            if value.is_some() {
                let mut rows = Rows::from_version(changed);
                rows.put(key, value, changed);
                self.tables.insert(table.clone(), rows);
            }
            return;
        };
        rows.put(key, value, changed);
        if rows.is_empty() {
            self.tables.remove(table);
        }
    }

    fn apply_port(&mut self, at: Location, info: Option<PortInfo>) {
        if info.is_none() {
            if let Some(costs) = self.costs.get_mut(UTILISATION) {
                costs.remove(&LinkName::Port(at));
            }
            self.rates.remove(&Gauge::Sent(at));
            self.rates.remove(&Gauge::Received(at));
        }
        self.ports.put(at, info);
    }

    fn apply_host(&mut self, mac: Mac, info: Option<HostInfo>) {
        if self.hosts.put(mac, info, self.version) {
            self.traffic_from(mac).collect::<Vec<_>>().iter().for_each(|gauge| drop(self.rates.remove(gauge)));
        }
    }
}

/// Reports whether a change of a port may change links.
pub(super) fn concerns_links(before: Option<PortInfo>, after: Option<PortInfo>) -> bool {
    [before, after].into_iter().flatten().any(|info| matches!(info.kind, PortKind::Link(_)))
}

/// Puts a value, or removes it with `None`.
pub(super) fn put<K: Ord + Clone, V: Clone>(map: &mut OrdMap<K, V>, key: &K, value: Option<V>) {
    match value {
        // An existing value is replaced in place, without a copy of the key.
        Some(value) => match map.get_mut(key) {
            Some(there) => *there = value,
            None => drop(map.insert(key.clone(), value)),
        },
        None => drop(map.remove(key)),
    }
}

/// Returns the first and the last address of a prefix.
pub(super) fn first_and_last(network: IpAddr, bits: u8) -> std::ops::RangeInclusive<IpAddr> {
    match network {
        IpAddr::V4(ip) => {
            let host = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
            let first = u32::from(ip) & !host;
            Ipv4Addr::from(first).into()..=Ipv4Addr::from(first | host).into()
        }
        IpAddr::V6(ip) => {
            let host = u128::MAX.checked_shr(bits.into()).unwrap_or(0);
            let first = u128::from(ip) & !host;
            Ipv6Addr::from(first).into()..=Ipv6Addr::from(first | host).into()
        }
    }
}
