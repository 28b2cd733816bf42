//! Packets that must come out, found by running programs on a raw frame and a plain state, without
//! any of Maple's machinery.
//!
//! This is the contract written down a second time. It shares the field extraction and the rewriting of frames with
//! `maple-wire` and nothing with `maple-core` but its plain values.

use std::collections::{BTreeMap, BTreeSet};

use maple_core::network::{Location, PortKind};
use maple_core::{Mac, Value};
use maple_sim::cases::{Answer, Change, Operand, Program, Question, Subject, TABLES, Who, int};
use maple_wire::eth_type::value::LLDP;
use maple_wire::packet::rewrite;
use maple_wire::{Constraint, Dpid, Field, Packet, PortNo};

use crate::contract::paths;
use crate::contract::routes::{Branch, Routed, resolve};
use crate::contract::state::State;

/// The source address of the controller's host probes. Packets to it are not for the policy.
const PROBE_MAC: u128 = 0x026d_6170_6c65;

/// The copies that leave the network: switch, port and bytes of each.
pub type Out = BTreeSet<(Dpid, PortNo, Vec<u8>)>;

/// The decision of f about one packet in one state.
#[derive(Clone, Debug)]
pub struct Decided {
    /// The copies that must leave the network.
    pub out: Out,
    /// The state afterwards.
    pub after: State,
    /// The way in which the answer came about.
    pub how: How,
    /// The switches on the route, and the ports by which packets leave them.
    pub hops: BTreeMap<Dpid, BTreeSet<PortNo>>,
}

/// The way in which an answer came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// The packet is not for f: the reason.
    NotAsked(&'static str),
    /// f failed: the reason.
    Failed(&'static str),
    /// f answered, and changed the state.
    Wrote,
    /// f answered, and would answer the next such packet alike.
    Pure,
}

/// A frame that enters the network.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The port where it enters.
    pub at: Location,
    /// The bytes of the frame.
    pub frame: &'a [u8],
}

impl Arrival<'_> {
    /// Returns a field's value; `None` if the packet lacks it.
    pub fn get(&self, field: Field) -> Option<u128> {
        match field {
            Field::InPort => Some(u128::from(self.at.port.0)),
            field => Packet::with_wire_len(self.frame, self.at.port.0, self.frame.len()).switch_value(field),
        }
    }

    fn mac(&self, field: Field) -> Mac {
        Mac::from_bits(self.get(field).unwrap_or(0))
    }
}

/// Returns the decision of the policy `program` about a packet in `state`.
pub fn verdict(program: &Program, track_hosts: bool, state: &State, arrival: Arrival) -> Decided {
    let mut after = state.clone();
    let nothing = |after, how| Decided { out: Out::new(), after, how, hops: BTreeMap::new() };
    if let Err(reason) = admit(&mut after, track_hosts, arrival) {
        return nothing(after, How::NotAsked(reason));
    }
    let learned = after.clone();
    let mut run = Run { state: after, arrival, track_hosts, wrote: false, failed: None };
    let routed = run.decide(program);
    let resolved = resolve(&routed, &run.state, arrival);
    let failed = run.failed.or(resolved.as_ref().err().copied());
    let (resolved, failed) = match (resolved, failed) {
        (Ok(resolved), None) => (resolved, None),
        (_, failed) => (BTreeMap::new(), failed),
    };
    if let Some(reason) = failed {
        return nothing(learned, How::Failed(reason));
    }
    let how = if run.wrote { How::Wrote } else { How::Pure };
    let mut out = Out::new();
    for (dpid, exits) in &resolved {
        for port in exits.ports.iter().filter(|port| Location::new(*dpid, **port) != arrival.at) {
            out.insert((*dpid, *port, rewritten(arrival, &exits.rewrites)));
        }
    }
    let hops = resolved.into_iter().map(|(dpid, exits)| (dpid, exits.ports.union(&exits.links).copied().collect()));
    Decided { out, after: run.state, how, hops: hops.collect() }
}

/// Reports whether the packet is f's to decide, else the reason; learns where its host is.
fn admit(state: &mut State, track_hosts: bool, arrival: Arrival) -> Result<(), &'static str> {
    if arrival.get(Field::EthType) == Some(LLDP) {
        return Err("LLDP");
    }
    match state.kind(arrival.at) {
        None => return Err("no such port"),
        Some(PortKind::New) => return Err("new port"),
        Some(PortKind::Link(_)) => return Err("link port"),
        Some(PortKind::Shut { .. }) => return Err("shut port"),
        Some(PortKind::Edge | PortKind::Middlebox) => {}
    }
    if !track_hosts {
        return Ok(());
    }
    let source = arrival.mac(Field::EthSrc);
    if source.is_host() {
        let declared = state.facts.place(source);
        if declared.is_some_and(|place| place != arrival.at) {
            return Err("declared elsewhere");
        }
        match state.hosts.get(&source).copied() {
            Some(place) if place == arrival.at => {}
            Some(place) if declared.is_none() && state.edge_ports().contains(&place) => return Err("host elsewhere"),
            _ => {
                state.hosts.insert(source, arrival.at);
            }
        }
    }
    if arrival.get(Field::EthDst) == Some(PROBE_MAC) { Err("probe answer") } else { Ok(()) }
}

/// Returns the frame with fields rewritten.
fn rewritten(arrival: Arrival, rewrites: &BTreeMap<Field, u128>) -> Vec<u8> {
    let mut frame = arrival.frame.to_vec();
    let tagged = arrival.get(Field::VlanPcp).is_some();
    for (field, value) in rewrites.iter().filter(|(field, _)| **field != Field::VlanVid) {
        // A header that is cut off can't be changed; the packet goes on as it is.
        let _ = rewrite::set_field(&mut frame, &Constraint::exact(*field, *value));
    }
    match rewrites.get(&Field::VlanVid) {
        Some(0) if tagged => drop(rewrite::pop_vlan(&mut frame)),
        Some(0) | None => {}
        Some(vid) => {
            if !tagged {
                let _ = rewrite::push_vlan(&mut frame, 0x8100);
            }
            let _ = rewrite::set_field(&mut frame, &Constraint::exact(Field::VlanVid, 0x1000 | vid));
            if let Some(priority) = rewrites.get(&Field::VlanPcp) {
                let _ = rewrite::set_field(&mut frame, &Constraint::exact(Field::VlanPcp, *priority));
            }
        }
    }
    frame
}

/// One run of a program.
struct Run<'a> {
    state: State,
    arrival: Arrival<'a>,
    track_hosts: bool,
    wrote: bool,
    failed: Option<&'static str>,
}

impl Run<'_> {
    fn decide(&mut self, program: &Program) -> Routed {
        match program {
            Program::Answer(answer) => self.answer(answer),
            Program::Ask { question, yes, no } => {
                let next = if self.ask(question) { yes } else { no };
                self.decide(next)
            }
            Program::Switch { subject, arms, other } => {
                let value = self.learn(*subject);
                let next = arms.iter().find(|(wanted, _)| *wanted == value).map_or(&**other, |(_, arm)| arm);
                self.decide(next)
            }
            Program::Write { change, then } => {
                self.write(change);
                self.decide(then)
            }
            Program::Either { first, waits, second, then } => {
                let changes = if *waits { second } else { first };
                changes.iter().for_each(|change| self.write(change));
                self.decide(then)
            }
        }
    }

    fn ask(&mut self, question: &Question) -> bool {
        match question {
            Question::Equals { field, value, mask } => {
                self.arrival.get(*field).is_some_and(|v| v & mask == value & mask)
            }
            Question::InRange { field, lo, hi } => self.arrival.get(*field).is_some_and(|v| *lo <= v && v <= *hi),
            Question::Present(field) => self.arrival.get(*field).is_some(),
            Question::Located(who) => self.locate(*who).is_some(),
            Question::LocatedAt(who, dpid) => self.locate(*who).is_some_and(|at| at.switch == *dpid),
            Question::LocatedUp(who) => self.locate(*who).is_some_and(|at| self.state.is_up(at)),
            Question::Up(at) => self.state.is_up(*at),
            Question::Bound(..) => panic!("there is no model of {question:?}"),
            Question::TableIs { table, key, value } => self.lookup(table, key).as_ref() == Some(value),
            Question::Contains { table, key } => self.lookup(table, key).is_some(),
            Question::AnyEntry { table, value } => {
                self.state.tables.iter().any(|((name, _), v)| name == table && v == value)
            }
            Question::ManyEntries { table, value, least } => {
                let all = self.state.tables.iter();
                all.filter(|((name, _), v)| name == table && *v == value).count() as u64 >= *least
            }
            Question::VarIs { name, value } => self.state.vars.get(name) == Some(value),
            Question::Linked(a, b) => self.state.links_of(*a).iter().any(|(_, far)| far.switch == *b),
        }
    }

    fn learn(&mut self, subject: Subject) -> Option<u128> {
        let state = &self.state;
        match subject {
            Subject::Field { field, mask } => self.arrival.get(field).map(|value| value & mask),
            Subject::Ingress => Some(u128::from(self.arrival.at.switch.0)),
            Subject::TableLen(table) => Some(state.tables.keys().filter(|(name, _)| *name == table).count() as u128),
            Subject::HostCount => Some(state.hosts.len() as u128),
            Subject::EdgePortCount(dpid) => {
                Some(state.edge_ports().iter().filter(|at| at.switch == dpid).count() as u128)
            }
            Subject::Degree(dpid) => Some(state.links_of(dpid).len() as u128),
            Subject::SwitchCount => Some(state.switches.len() as u128),
        }
    }

    fn locate(&mut self, who: Who) -> Option<Location> {
        if !self.track_hosts {
            self.failed.get_or_insert("hosts are not tracked");
            return None;
        }
        let mac = match who {
            Who::Source => self.arrival.mac(Field::EthSrc),
            Who::Destination => self.arrival.mac(Field::EthDst),
            Who::Host(mac) => mac,
        };
        self.state.hosts.get(&mac).copied()
    }

    fn lookup(&self, table: &str, key: &Operand) -> Option<Value> {
        let table = TABLES.into_iter().find(|name| *name == table)?;
        self.state.tables.get(&(table, self.value(key))).cloned()
    }

    fn value(&self, operand: &Operand) -> Value {
        match operand {
            Operand::Constant(value) => value.clone(),
            Operand::Field(field) => self.arrival.get(*field).map_or(Value::None, int),
        }
    }

    fn write(&mut self, change: &Change) {
        self.wrote = true;
        let arrival = self.arrival;
        apply(change, &mut self.state, &|field| arrival.get(field));
    }

    fn answer(&mut self, answer: &Answer) -> Routed {
        let here = self.arrival.at.switch;
        let to = |ports: &mut dyn Iterator<Item = PortNo>| Branch::default().to(ports.map(|port| (here, port))).into();
        match answer {
            Answer::Drop => Routed::default(),
            Answer::Flood if is_never_forwarded(self.arrival.mac(Field::EthDst)) => {
                Routed { may_be_empty: true, ..Routed::default() }
            }
            Answer::Flood => Routed { may_be_empty: true, ..Branch::along(paths::flood(&self.state, here)).into() },
            Answer::To(ports) => to(&mut ports.iter().copied()),
            Answer::ToEdges(count) => {
                let edges = self.state.edge_ports().into_iter().filter(|at| at.switch == here);
                to(&mut edges.take(*count).map(|at| at.port))
            }
            Answer::ToPort(to) => self.path(here, *to, false),
            Answer::ToStored { table, key, otherwise } => match self.lookup(table, key) {
                Some(Value::Int(port)) => to(&mut [PortNo(port as u32)].into_iter()),
                _ => self.answer(otherwise),
            },
            Answer::Path { to, by_costs, otherwise } => match (self.locate(Who::Source), self.locate(*to)) {
                (Some(from), Some(to)) => self.path(from.switch, to, *by_costs),
                _ => self.answer(otherwise),
            },
            Answer::PathFromHere { to, by_costs, otherwise } => match self.locate(*to) {
                Some(to) => self.path(here, to, *by_costs),
                None => self.answer(otherwise),
            },
            Answer::Hops(hops) => Branch::along(hops.iter().copied()).into(),
            Answer::Special(special) => panic!("there is no model of {special:?}"),
            Answer::Union(routes) => {
                let branches = routes.iter().flat_map(|route| self.answer(route).branches).collect();
                Routed { branches, may_be_empty: true }
            }
            Answer::Set { field, value, route } => {
                let mut routed = self.answer(route);
                routed.branches.iter_mut().for_each(|branch| {
                    branch.rewrites.insert(*field, *value);
                });
                routed
            }
        }
    }

    fn path(&self, from: Dpid, to: Location, by_costs: bool) -> Routed {
        let end = [(to.switch, to.port)];
        match paths::best(&self.state, from, to.switch, by_costs) {
            Some(hops) => Branch::along(hops).to(end).into(),
            None if self.state.kind(to).is_none() => Branch::default().to(end).into(),
            None => Routed { may_be_empty: true, ..Routed::default() },
        }
    }
}

/// Reports whether bridges keep packets for this address to themselves: 802.1Q table 8-1, and Cisco's two groups.
fn is_never_forwarded(mac: Mac) -> bool {
    match mac.0 {
        [0x01, 0x80, 0xc2, 0, 0, last] => last <= 0x0f,
        [0x01, 0, 0x0c, 0xcc, 0xcc, last] => last == 0xcc || last == 0xcd,
        _ => false,
    }
}

/// Makes a change to a state, with the fields of the packet that it is made for.
pub fn apply(change: &Change, state: &mut State, get: &dyn Fn(Field) -> Option<u128>) {
    let value = |operand: &Operand| match operand {
        Operand::Constant(value) => value.clone(),
        Operand::Field(field) => get(*field).map_or(Value::None, int),
    };
    match change {
        Change::Put { table, key, value: new } => {
            state.tables.insert((table, value(key)), value(new));
        }
        Change::Take { table, key } => {
            state.tables.remove(&(*table, value(key)));
        }
        Change::Set { name, value: new } => {
            state.vars.insert(name, value(new));
        }
        Change::Count { name } => {
            let next = match state.vars.get(name) {
                Some(Value::Int(n)) => n + 1,
                _ => 1,
            };
            state.vars.insert(name, Value::Int(next));
        }
        Change::Cost { from, to, cost: 1 } => {
            state.costs.remove(&(*from, *to));
        }
        Change::Cost { from, to, cost } => {
            state.costs.insert((*from, *to), *cost);
        }
        Change::Invalidate { .. } => {}
    }
}
