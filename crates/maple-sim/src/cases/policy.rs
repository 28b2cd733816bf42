//! The run of a program through Maple's API, as a user's policy.

use std::sync::LazyLock;

use maple_core::look_ups::{KeyField, KeyForm, LookUp};
use maple_core::network::{Hop, LinkName, Location};
use maple_core::policy::{Net, PacketHandle, Policy, PolicyError};
use maple_core::query::Query;
use maple_core::route::{Limit, Route};
use maple_core::run::{HostLocation, Observe as _};
use maple_core::state::{Access, Stop, Value};
use maple_wire::{Dpid, Field, PortNo};

use super::program::{Answer, COSTS, Change, Operand, Program, Question, Special, Subject, Who, int, selection};

/// A query whose argument is a table, a value, and a number.
type ManyEntries = Query<(String, (Value, u64)), bool>;

/// Reports whether at least this many entries of a table have a value.
static MANY_ENTRIES: LazyLock<ManyEntries> = LazyLock::new(|| {
    Query::new("many_entries", |net: &Net, (table, (value, least)): (String, (Value, u64))| {
        COUNT_ENTRIES.get(net, &(table, value)) >= least
    })
});

/// Counts the entries of a table with a value; [`MANY_ENTRIES`] asks this query.
static COUNT_ENTRIES: LazyLock<Query<(String, Value), u64>> = LazyLock::new(|| {
    Query::new("count_entries", |net: &Net, (table, value): (String, Value)| {
        net.entries(&table).iter().filter(|(_, v)| *v == value).count() as u64
    })
});

/// Counts the links of a switch.
static DEGREE: LazyLock<Query<Dpid, u64>> = LazyLock::new(|| {
    Query::new("degree", |net: &Net, dpid: Dpid| {
        net.links().iter().filter(|(a, b)| a.switch == dpid || b.switch == dpid).count() as u64
    })
});

impl Policy for Program {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        self.decide_by(pkt, net, &|_| None)
    }
}

/// A function that answers a chain of questions that begins here, if it can: `Ok` with the number of the first whose
/// answer is yes, or `Err` with the number of questions.
pub(super) type AskChain<'a> = dyn Fn(&Program) -> Option<Result<usize, usize>> + 'a;

impl Program {
    /// Runs the program, with other answers for some chains of questions.
    ///
    /// # Errors
    /// [`PolicyError`] if the program can't give a route.
    pub(super) fn decide_by(
        &self,
        pkt: &PacketHandle,
        net: &Net,
        ask_chain: &AskChain<'_>,
    ) -> Result<Route, PolicyError> {
        let mut at = self;
        loop {
            if let Some(answered) = ask_chain(at) {
                at = after_chain(at, answered);
                continue;
            }
            at = match at {
                Program::Answer(route) => return Ok(answer(route, pkt, net)),
                Program::Ask { question, yes, no } => {
                    if ask(question, pkt, net) {
                        yes
                    } else {
                        no
                    }
                }
                Program::Switch { subject, arms, other } => {
                    let value = learn(*subject, pkt, net);
                    arms.iter().find(|(wanted, _)| *wanted == value).map_or(&**other, |(_, arm)| arm)
                }
                Program::Write { change, then } => {
                    write(change, pkt, net);
                    then
                }
                Program::Either { first, waits, second, then } => {
                    let all = |changes: &[Change], net: &Net| changes.iter().for_each(|change| write(change, pkt, net));
                    let first = |net: &Net| {
                        all(first, net);
                        Stop::unless(!*waits)
                    };
                    let second = |net: &Net| {
                        all(second, net);
                        Ok(())
                    };
                    net.or_else(first, second)?;
                    then
                }
            }
        }
    }
}

/// Returns the part with which a program continues after a chain of questions.
fn after_chain(first: &Program, answered: Result<usize, usize>) -> &Program {
    let (Ok(denied) | Err(denied)) = answered;
    let mut at = first;
    for _ in 0..denied {
        let Program::Ask { no, .. } = at else { unreachable!("a chain consists of questions") };
        at = no;
    }
    match (answered, at) {
        (Ok(_), Program::Ask { yes, .. }) => yes,
        _ => at,
    }
}

fn ask(question: &Question, pkt: &PacketHandle, net: &Net) -> bool {
    match question {
        Question::Equals { field, value, mask } => pkt.equals(*field, *value, *mask, None),
        Question::InRange { field, lo, hi } => pkt.in_range(*field, *lo, *hi, None),
        Question::Present(field) => pkt.present(*field, None),
        Question::Located(who) => switch_of(*who, net).is_some(),
        Question::LocatedAt(who, dpid) => switch_of(*who, net) == Some(*dpid),
        Question::LocatedUp(who) => locate(*who, net).is_some_and(|at| net.is_up(at)),
        Question::Bound(mac, ip) => net.is_bound_by(*mac, *ip, None),
        Question::Up(at) => net.is_up(*at),
        Question::TableIs { table, key, value } => stored(table, key, pkt, net).as_ref() == Some(value),
        Question::Contains { table, key } => match look_up(table, key, pkt) {
            Some(look_up) => net.has_key(&look_up, None),
            None => net.contains(table, &operand(key, pkt)),
        },
        Question::AnyEntry { table, value } => net.entries(table).iter().any(|(_, v)| v == value),
        Question::ManyEntries { table, value, least } => {
            MANY_ENTRIES.get(net, &((*table).to_owned(), (value.clone(), *least)))
        }
        Question::VarIs { name, value } => net.var(name).as_ref() == Some(value),
        Question::Linked(a, b) => {
            let ends = [(*a, *b), (*b, *a)];
            net.links().iter().any(|(x, y)| ends.contains(&(x.switch, y.switch)))
        }
    }
}

fn learn(subject: Subject, pkt: &PacketHandle, net: &Net) -> Option<u128> {
    match subject {
        Subject::Field { field, mask } => pkt.read(field, mask, None),
        Subject::Ingress => Some(u128::from(pkt.switch().0)),
        Subject::TableLen(table) => Some(net.len(table) as u128),
        Subject::HostCount => Some(net.hosts().len() as u128),
        Subject::EdgePortCount(dpid) => Some(net.edge_ports(dpid).len() as u128),
        Subject::Degree(dpid) => Some(u128::from(DEGREE.get(net, &dpid))),
        Subject::SwitchCount => Some(net.switches().len() as u128),
    }
}

/// Returns the switch of a host. Of the packet's source f need not know the port.
fn switch_of(who: Who, net: &Net) -> Option<Dpid> {
    host_location(who, net).map(HostLocation::switch)
}

fn locate(who: Who, net: &Net) -> Option<Location> {
    host_location(who, net).map(HostLocation::location)
}

fn host_location(who: Who, net: &Net) -> Option<HostLocation<'_>> {
    match who {
        Who::Source => net.locate_by(Field::EthSrc, None).ok().flatten(),
        Who::Destination => net.locate_by(Field::EthDst, None).ok().flatten(),
        Who::Host(mac) => net.locate(mac).map(Into::into),
    }
}

fn operand(operand: &Operand, pkt: &PacketHandle) -> Value {
    match operand {
        Operand::Constant(value) => value.clone(),
        Operand::Field(field) => pkt.get(*field).map_or(Value::None, int),
    }
}

/// Returns what a table has at a key.
fn stored(table: &str, key: &Operand, pkt: &PacketHandle, net: &Net) -> Option<Value> {
    match look_up(table, key, pkt) {
        Some(look_up) => net.look_up(&look_up, None),
        None => net.get(table, &operand(key, pkt)),
    }
}

/// Returns the look-up of a table at a key, if the key is a field that the packet has.
fn look_up(table: &str, key: &Operand, pkt: &PacketHandle) -> Option<LookUp> {
    match key {
        Operand::Field(field) if pkt.present(*field, None) => {
            Some(LookUp::by(table, KeyField { field: *field, form: KeyForm::Int }))
        }
        Operand::Field(_) | Operand::Constant(_) => None,
    }
}

fn write(change: &Change, pkt: &PacketHandle, net: &Net) {
    match change {
        Change::Put { table, key, value } => net.set(table, operand(key, pkt), operand(value, pkt)),
        Change::Take { table, key } => net.delete(table, operand(key, pkt)),
        Change::Set { name, value } => net.set_var(name, operand(value, pkt)),
        Change::Count { name } => {
            let next = match net.var(name) {
                Some(Value::Int(n)) => n + 1,
                _ => 1,
            };
            net.set_var(name, Value::Int(next));
        }
        Change::Cost { from, to, cost } => net.set_cost(COSTS, LinkName::Switches(*from, *to), *cost),
        Change::Invalidate { field, value } => {
            net.invalidate(selection(*field, *value));
        }
    }
}

fn answer(answer: &Answer, pkt: &PacketHandle, net: &Net) -> Route {
    match answer {
        Answer::Drop => Route::drop(),
        Answer::Flood => net.flood(),
        Answer::To(ports) => Route::to(ports.iter().copied()),
        Answer::ToEdges(count) => Route::to(net.edge_ports(pkt.switch()).into_iter().take(*count)),
        Answer::ToPort(to) => path(Location::new(pkt.switch(), PortNo(0)), *to, false, net),
        Answer::ToStored { table, key, otherwise } => match stored(table, key, pkt, net) {
            Some(Value::Int(port)) => Route::to([PortNo(port as u32)]),
            _ => self::answer(otherwise, pkt, net),
        },
        Answer::Path { to, by_costs, otherwise } => match (switch_of(Who::Source, net), host_location(*to, net)) {
            (Some(from), Some(to)) => path(Location::new(from, PortNo(0)), to, *by_costs, net),
            _ => self::answer(otherwise, pkt, net),
        },
        Answer::PathFromHere { to, by_costs, otherwise } => match host_location(*to, net) {
            Some(to) => path(Location::new(pkt.switch(), PortNo(0)), to, *by_costs, net),
            None => self::answer(otherwise, pkt, net),
        },
        Answer::Hops(hops) => Route::hops(hops.iter().map(|(dpid, port)| Hop::new(*dpid, *port))),
        Answer::Union(routes) => Route::multicast(routes.iter().map(|route| self::answer(route, pkt, net))),
        Answer::Set { field, value, route } => self::answer(route, pkt, net).set(*field, *value),
        Answer::Special(answer) => special(answer, pkt, net),
    }
}

fn path<'n>(from: Location, to: impl Into<HostLocation<'n>>, by_costs: bool, net: &Net) -> Route {
    if by_costs { net.path(from, to, COSTS) } else { net.shortest_path(from, to) }
}

fn special(answer: &Special, pkt: &PacketHandle, net: &Net) -> Route {
    let inner = |route: &Answer| self::answer(route, pkt, net);
    match answer {
        Special::Back => Route::to(net.edge_ports(pkt.switch()).into_iter().take(1).chain([PortNo::IN_PORT])),
        Special::ToAddress(address) => match net.locate_ip((*address).into()) {
            Some((mac, _)) => {
                inner(&Answer::PathFromHere { to: Who::Host(mac), by_costs: false, otherwise: Box::new(Answer::Drop) })
            }
            None => Route::unreachable(),
        },
        Special::Limited { name, route } => inner(route).limit(Limit::packets(name.to_string(), 1000)),
        Special::Copy { to, route } => inner(route).copy_to(*to),
        Special::OneOf { routes, by } => Route::ecmp(routes.iter().map(inner), pkt, by),
        Special::Own { to, route } => {
            let Some(frame) = pkt.frame() else { return Route::drop() };
            let own = [&[frame[0] ^ 0x40], &frame[1..]].concat();
            match (to, &**route) {
                (Some(to), _) => net.send(own, *to),
                (None, Answer::Drop) => return Route::answer([own]),
                (None, _) => net.reply(own),
            }
            inner(route)
        }
    }
}
