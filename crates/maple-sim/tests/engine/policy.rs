//! The policies of scripts: a list of clauses. The first clause that fits decides.

use maple_core::network::Location;
use maple_core::policy::{Net, PacketHandle, Policy, PolicyError};
use maple_core::{Mac, Observe as _, Route, Value};
use maple_wire::packet::text::parse_field_value;
use maple_wire::{Field, PortNo};

use crate::packet::number;
use crate::stage::{Hosts, location};

/// A policy: clauses in order.
#[derive(Clone, Debug, Default)]
pub struct Clauses(Vec<Clause>);

/// A decision or an action for the packets for which all tests hold.
#[derive(Clone, Debug)]
struct Clause {
    tests: Vec<Test>,
    act: Act,
}

#[derive(Clone, Debug)]
enum Test {
    /// The field has a value between these, both inclusive.
    Between(Field, u128, u128),
    /// The packet has the field.
    Present(Field),
    /// The table has the field's value as a key.
    InTable(Field, String),
    /// The location of the host with this address is known.
    Known(Field),
    /// The host with this address is at a port that is up.
    Up(Field),
    /// The variable has this value.
    Var(String, i64),
}

#[derive(Clone, Debug)]
enum Act {
    Decide(Decision),
    /// Writes the field's value into the table if it is not there, and continues with the next clause.
    Note(Field, String),
}

#[derive(Clone, Debug)]
enum Decision {
    Drop,
    Flood,
    /// The path from the source's location to the destination's.
    Path,
    To(Location),
    Out(PortNo),
    Fail(String),
    Set(Field, u128, Box<Decision>),
}

impl Clauses {
    /// Adds one line: `when TEST [and TEST …]: ROUTE` or `otherwise: ROUTE`.
    pub fn add(&mut self, line: &str, hosts: &Hosts) -> Result<(), String> {
        let clause = match line.strip_prefix("otherwise: ") {
            Some(act) => Clause { tests: Vec::new(), act: act_of(act, hosts)? },
            None => {
                let when = line.strip_prefix("when ").and_then(|rest| rest.split_once(": "));
                let (tests, act) = when.ok_or("expected when TEST: ROUTE")?;
                let tests = tests.split(" and ").map(|test| Test::from_text(test, hosts)).collect::<Result<_, _>>()?;
                Clause { tests, act: act_of(act, hosts)? }
            }
        };
        self.0.push(clause);
        Ok(())
    }
}

fn act_of(text: &str, hosts: &Hosts) -> Result<Act, String> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["note", name, "in", table] => Ok(Act::Note(field(name)?, table.to_owned())),
        _ => Ok(Act::Decide(Decision::from_text(text, hosts)?)),
    }
}

impl Test {
    fn from_text(text: &str, hosts: &Hosts) -> Result<Test, String> {
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["var", name, "=", value] => {
                let value = value.parse().map_err(|_| format!("{value:?} is not a number"))?;
                Ok(Test::Var(name.to_owned(), value))
            }
            ["host", name, "known"] => Ok(Test::Known(field(name)?)),
            ["host", name, "up"] => Ok(Test::Up(field(name)?)),
            [name, "present"] => Ok(Test::Present(field(name)?)),
            [name, "in", table] => Ok(Test::InTable(field(name)?, table.to_owned())),
            [name, "=", value] => {
                let field = field(name)?;
                let (lo, hi) = value.split_once("..").unwrap_or((value, value));
                Ok(Test::Between(field, value_of(field, lo, hosts)?, value_of(field, hi, hosts)?))
            }
            _ => Err(format!("{text:?} is no test")),
        }
    }

    fn holds(&self, pkt: &PacketHandle, net: &Net) -> bool {
        match self {
            Test::Between(field, lo, hi) if lo == hi => pkt.is(*field, *lo),
            Test::Between(field, lo, hi) => pkt.within(*field, *lo, *hi),
            Test::Present(field) => pkt.present(*field, None),
            Test::InTable(field, table) => key(pkt, *field).is_some_and(|key| net.contains(table, &key)),
            Test::Known(field) => located(pkt, net, *field).is_some(),
            Test::Up(field) => located(pkt, net, *field).is_some_and(|at| net.is_up(at)),
            Test::Var(name, value) => net.var(name) == Some(Value::Int((*value).into())),
        }
    }
}

impl Decision {
    fn from_text(text: &str, hosts: &Hosts) -> Result<Decision, String> {
        if let Some((route, set)) = text.rsplit_once(" set ") {
            let (name, value) = set.split_once('=').ok_or_else(|| format!("{set:?} is no FIELD=VALUE"))?;
            let field = field(name)?;
            return Ok(Decision::Set(
                field,
                value_of(field, value, hosts)?,
                Box::new(Decision::from_text(route, hosts)?),
            ));
        }
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["drop"] => Ok(Decision::Drop),
            ["flood"] => Ok(Decision::Flood),
            ["path"] => Ok(Decision::Path),
            ["to", at] => Ok(Decision::To(location(at)?)),
            ["out", port] => Ok(Decision::Out(PortNo(number(port)?))),
            ["fail", ..] => Ok(Decision::Fail(text["fail".len()..].trim().to_owned())),
            _ => Err(format!("{text:?} is no route")),
        }
    }

    fn route(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        Ok(match self {
            Decision::Drop => Route::drop(),
            Decision::Flood => Route::flood(),
            Decision::Path => match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
                (Some(from), Some(to)) => net.shortest_path(from, to),
                _ => Route::flood(),
            },
            Decision::To(to) => net.shortest_path(Location::new(pkt.switch(), PortNo(0)), *to),
            Decision::Out(port) => Route::to([*port]),
            Decision::Fail(why) => return Err(PolicyError::Exception(why.as_str().into())),
            Decision::Set(field, value, inner) => inner.route(pkt, net)?.set(*field, *value),
        })
    }
}

impl Policy for Clauses {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        for clause in &self.0 {
            if !clause.tests.iter().all(|test| test.holds(pkt, net)) {
                continue;
            }
            match &clause.act {
                Act::Decide(decision) => return decision.route(pkt, net),
                Act::Note(field, table) => {
                    if let Some(key) = key(pkt, *field).filter(|key| !net.contains(table, key)) {
                        net.set(table, key, Value::from(true));
                    }
                }
            }
        }
        Ok(Route::drop())
    }
}

/// Returns the location of the host whose address is in a field.
fn located(pkt: &PacketHandle, net: &Net, field: Field) -> Option<Location> {
    pkt.get(field).and_then(|mac| net.locate(Mac::from_bits(mac)))
}

/// Returns the packet's value of a field, as tables hold it.
fn key(pkt: &PacketHandle, field: Field) -> Option<Value> {
    pkt.get(field).map(|value| stored(field, value))
}

/// Returns a field's value as tables hold it.
pub fn stored(field: Field, value: u128) -> Value {
    match field {
        Field::EthSrc | Field::EthDst => Value::Mac(Mac::from_bits(value)),
        _ => Value::Int(value as i128),
    }
}

pub fn field(name: &str) -> Result<Field, String> {
    Field::from_name(name).ok_or_else(|| format!("{name:?} is not a field"))
}

/// Parses a value of a field; the name of a host stands for its address.
pub fn value_of(field: Field, text: &str, hosts: &Hosts) -> Result<u128, String> {
    match (hosts.get(text), field) {
        (Ok(host), Field::EthSrc | Field::EthDst) => Ok(host.mac.bits()),
        (Ok(host), Field::Ipv4Src | Field::Ipv4Dst) => Ok(u32::from(host.ipv4).into()),
        _ => parse_field_value(field, text).map_err(|_| format!("{text:?} is not a value of {field}")),
    }
}
