//! Policies as data: a decision tree over the packet and the state, with routes at its leaves.
//!
//! A [`Program`] does not define how it runs. It is a [`Policy`](maple_core::policy::Policy), so Maple runs it like a
//! user's policy. The controller's contract test runs it a second time, on a raw frame and a plain model of the state.

use std::fmt;

use maple_core::engine::{Event, LeafSelection};
use maple_core::network::{LinkName, Location, Mac};
use maple_core::state::{Value, Write};
use maple_wire::{Dpid, Field, PortNo};

/// The tables that programs and events use.
pub const TABLES: [&str; 2] = ["t0", "t1"];
/// The variables that programs and events use.
pub const VARS: [&str; 2] = ["v0", "v1"];
/// The link attribute by which programs weigh paths.
pub const COSTS: &str = "cost";

/// A policy as a tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Program {
    /// Ends the run.
    Answer(Answer),
    /// Asks a yes/no question.
    Ask { question: Question, yes: Box<Program>, no: Box<Program> },
    /// Learns a value and continues with the arm for it.
    Switch { subject: Subject, arms: Vec<(Option<u128>, Program)>, other: Box<Program> },
    /// Changes the state and continues.
    Write { change: Change, then: Box<Program> },
    /// Makes the first changes. If `waits`, takes them back and makes the second ones. Then continues.
    Either { first: Vec<Change>, waits: bool, second: Vec<Change>, then: Box<Program> },
}

/// A yes/no question.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Whether the packet has the field with this value under the mask.
    Equals { field: Field, value: u128, mask: u128 },
    /// Whether the packet has the field, between these values.
    InRange { field: Field, lo: u128, hi: u128 },
    /// Whether the packet has the field.
    Present(Field),
    /// Whether the location of a host is known.
    Located(Who),
    /// Whether a host is at this switch.
    LocatedAt(Who, Dpid),
    /// Whether a host is at a port that is up.
    LocatedUp(Who),
    /// Whether the IP address in the second field is that of the host with the hardware address in the first.
    Bound(Field, Field),
    /// Whether a port, which may not exist, is up.
    Up(Location),
    /// Whether a table has this value at a key.
    TableIs { table: &'static str, key: Operand, value: Value },
    /// Whether a table has a key.
    Contains { table: &'static str, key: Operand },
    /// Whether a table has any entry with this value.
    AnyEntry { table: &'static str, value: Value },
    /// Whether at least `least` entries of a table have this value. A query answers this.
    ManyEntries { table: &'static str, value: Value, least: u64 },
    /// Whether a variable has this value.
    VarIs { name: &'static str, value: Value },
    /// Whether these switches are linked.
    Linked(Dpid, Dpid),
}

/// A value that a program reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Subject {
    /// The value of a field under a mask; `None` if the field is absent.
    Field { field: Field, mask: u128 },
    /// The switch where the packet entered.
    Ingress,
    /// The number of keys of a table.
    TableLen(&'static str),
    /// The number of known hosts.
    HostCount,
    /// The number of edge ports of a switch that are up.
    EdgePortCount(Dpid),
    /// The number of switches.
    SwitchCount,
    /// The number of links of a switch. A query answers this.
    Degree(Dpid),
}

/// A host, in relation to a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Who {
    /// The packet's source.
    Source,
    /// The packet's destination.
    Destination,
    /// The host with this address.
    Host(Mac),
}

/// A key or value that programs compute.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// This value.
    Constant(Value),
    /// A field's value as an integer, or nothing if the packet lacks it.
    Field(Field),
}

/// One change of the state.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Puts a value at a key.
    Put { table: &'static str, key: Operand, value: Operand },
    /// Removes a key.
    Take { table: &'static str, key: Operand },
    /// Sets a variable.
    Set { name: &'static str, value: Operand },
    /// Adds one to a variable that holds an integer; sets any other to 1.
    Count { name: &'static str },
    /// Sets the cost of the links from one switch to another.
    Cost { from: Dpid, to: Dpid, cost: u64 },
    /// Invalidates the packets with this value of a field.
    Invalidate { field: Field, value: u128 },
}

/// The route of the packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The packet goes nowhere.
    Drop,
    /// A flood.
    Flood,
    /// The packet leaves by these ports of the ingress switch.
    To(Vec<PortNo>),
    /// The packet leaves by the first edge ports of the ingress switch, at most this many.
    ToEdges(usize),
    /// The packet leaves by the port that a table holds for a key, or else takes `otherwise`.
    ToStored { table: &'static str, key: Operand, otherwise: Box<Answer> },
    /// The path from the ingress switch to a port.
    ToPort(Location),
    /// The path from the source's location to a host, by hop count or by weight. If either location is not known,
    /// `otherwise`.
    Path { to: Who, by_costs: bool, otherwise: Box<Answer> },
    /// The path from the ingress switch to a host. If the host's location is not known, `otherwise`.
    PathFromHere { to: Who, by_costs: bool, otherwise: Box<Answer> },
    /// The route along these hops.
    Hops(Vec<(Dpid, PortNo)>),
    /// The union of these routes.
    Union(Vec<Answer>),
    /// A route that rewrites a field.
    Set { field: Field, value: u128, route: Box<Answer> },
    /// An answer that has no plain model.
    Special(Special),
}

/// Answers that the controller's oracle has no model of. Only [`Domain::all_answers`](super::Domain) allows them.
#[derive(Clone, Debug, PartialEq)]
pub enum Special {
    /// The packet leaves by the ingress port, and by the first edge port of the ingress switch.
    Back,
    /// The path from the ingress switch to the host that owns an IPv4 address.
    ToAddress(std::net::Ipv4Addr),
    /// A route, and a frame of the policy's own to where the packet came from, or out of a port. The port may not
    /// exist.
    Own { to: Option<Location>, route: Box<Answer> },
    /// A route under the limit with this name.
    Limited { name: u8, route: Box<Answer> },
    /// A route with a copy to a location, which may not exist.
    Copy { to: Location, route: Box<Answer> },
    /// One of these routes, chosen by a hash of these fields.
    OneOf { routes: Vec<Answer>, by: Vec<Field> },
}

impl Change {
    /// Returns the event that makes this change from outside, without a packet.
    ///
    /// # Panics
    ///
    /// If only a packet can make the change: the change counts, or it needs a field.
    pub fn event(&self) -> Event {
        match self {
            Change::Invalidate { field, value } => Event::Invalidate(selection(*field, *value)),
            change => Event::Write(vec![change.write()]),
        }
    }

    /// Returns the write that makes this change from outside, without a packet.
    ///
    /// # Panics
    ///
    /// If only a packet can make the change, or if it is not a write.
    pub fn write(&self) -> Write {
        let constant = |operand: &Operand| match operand {
            Operand::Constant(value) => value.clone(),
            Operand::Field(field) => panic!("{self:?} asks for {field:?}, and there is no packet"),
        };
        match self {
            Change::Put { table, key, value } => {
                Write::Table { table: (*table).into(), key: constant(key), value: Some(constant(value)) }
            }
            Change::Take { table, key } => Write::Table { table: (*table).into(), key: constant(key), value: None },
            Change::Set { name, value } => Write::Var { name: (*name).into(), value: Some(constant(value)) },
            Change::Cost { from, to, cost } => {
                Write::Cost { name: COSTS.into(), link: LinkName::Switches(*from, *to), cost: Some(*cost) }
            }
            Change::Invalidate { .. } => panic!("{self:?} is not a write"),
            Change::Count { name } => panic!("only a packet counts {name}"),
        }
    }
}

/// Selects the packets with this value of a field.
pub fn selection(field: Field, value: u128) -> LeafSelection {
    LeafSelection::Fields(vec![maple_wire::Constraint::exact(field, value)])
}

impl Program {
    /// Returns the direct parts of the program.
    pub(super) fn children(&self) -> Vec<&Program> {
        match self {
            Program::Answer(_) => Vec::new(),
            Program::Ask { yes, no, .. } => vec![yes, no],
            Program::Switch { arms, other, .. } => arms.iter().map(|(_, arm)| arm).chain([&**other]).collect(),
            Program::Write { then, .. } | Program::Either { then, .. } => vec![then],
        }
    }

    /// Returns the program with its `at`-th part replaced.
    fn with_child(&self, at: usize, child: Program) -> Program {
        let mut whole = self.clone();
        match &mut whole {
            Program::Answer(_) => {}
            Program::Ask { yes, no, .. } => **if at == 0 { yes } else { no } = child,
            Program::Switch { arms, other, .. } => match arms.get_mut(at) {
                Some((_, arm)) => *arm = child,
                None => **other = child,
            },
            Program::Write { then, .. } | Program::Either { then, .. } => **then = child,
        }
        whole
    }

    /// Returns smaller programs, for shrinking: a part in place of the whole, or one part made smaller.
    pub fn smaller(&self) -> Vec<Program> {
        let mut all: Vec<Program> = self.children().into_iter().cloned().collect();
        if let Program::Answer(answer) = self {
            all.extend(answer.smaller().into_iter().map(Program::Answer));
        }
        if let Program::Switch { subject, arms, other } = self
            && arms.len() > 1
        {
            all.extend((0..arms.len()).map(|at| {
                let mut arms = arms.clone();
                arms.remove(at);
                Program::Switch { subject: *subject, arms, other: other.clone() }
            }));
        }
        for (at, child) in self.children().into_iter().enumerate() {
            all.extend(child.smaller().into_iter().map(|smaller| self.with_child(at, smaller)));
        }
        all
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let pad = "    ".repeat(depth);
        match self {
            Program::Answer(answer) => writeln!(f, "{pad}return {answer:?}"),
            Program::Ask { question, yes, no } => {
                writeln!(f, "{pad}if {question:?}:")?;
                yes.write(f, depth + 1)?;
                writeln!(f, "{pad}else:")?;
                no.write(f, depth + 1)
            }
            Program::Switch { subject, arms, other } => {
                writeln!(f, "{pad}match {subject:?}:")?;
                for (value, arm) in arms {
                    match value {
                        Some(value) => writeln!(f, "{pad}  {value:#x}:")?,
                        None => writeln!(f, "{pad}  absent:")?,
                    }
                    arm.write(f, depth + 1)?;
                }
                writeln!(f, "{pad}  else:")?;
                other.write(f, depth + 1)
            }
            Program::Write { change, then } => {
                writeln!(f, "{pad}{change:?}")?;
                then.write(f, depth)
            }
            Program::Either { first, waits, second, then } => {
                writeln!(f, "{pad}{first:?} and {}, else {second:?}", if *waits { "waits" } else { "goes on" })?;
                then.write(f, depth)
            }
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 1)
    }
}

impl Answer {
    /// Returns smaller answers, for shrinking.
    fn smaller(&self) -> Vec<Answer> {
        let inside = |route: &Answer, wrap: &dyn Fn(Box<Answer>) -> Answer| {
            let again = route.smaller().into_iter().map(|route| wrap(Box::new(route)));
            [route.clone()].into_iter().chain(again).collect()
        };
        match self {
            Answer::Drop => Vec::new(),
            Answer::Union(routes) | Answer::Special(Special::OneOf { routes, .. }) => routes.clone(),
            Answer::Set { field, value, route } => {
                inside(route, &|route| Answer::Set { field: *field, value: *value, route })
            }
            Answer::Special(Special::Copy { to, route }) => {
                inside(route, &|route| Answer::Special(Special::Copy { to: *to, route }))
            }
            Answer::Special(Special::Limited { route, .. } | Special::Own { route, .. }) => vec![(**route).clone()],
            Answer::ToStored { otherwise, .. }
            | Answer::Path { otherwise, .. }
            | Answer::PathFromHere { otherwise, .. } => vec![(**otherwise).clone()],
            _ => vec![Answer::Drop],
        }
    }
}

/// Returns an integer as tables and variables hold it.
pub fn int(value: u128) -> Value {
    Value::Int(value as i128)
}
