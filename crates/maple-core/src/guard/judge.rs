//! The judgement of a route by constraints, within the run that made it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use maple_wire::{Dpid, Field, PortNo};

use super::{HostGroup, Requirement, RouteConstraint, RouteConstraints, Violation};
use crate::network::{LinkName, Location};
use crate::policy::{Net, PacketHandle, PolicyError};
use crate::policy_error::panic_text;
use crate::route::{Delivery, Route, RouteError, RouteView};
use crate::run::Observe as _;
use crate::state::{Cell, CellValue, Name, Value};

/// The name of the constraint that every guard has. A path and a flood have no loops, but a policy's own hops, and
/// unions, may have them.
pub(crate) const NO_LOOPS: &str = "no_loops";

/// A function that calls the function of a user's constraint.
pub(crate) type CallCustom<'a, P> = dyn FnMut(&P, &PacketHandle, &Net) -> Result<Route, PolicyError> + 'a;

/// Returns the route if it satisfies all constraints; otherwise a drop. `is_named` is the answer of
/// [`RouteConstraints::ask_who_sends`]. All constraints that concern the packet judge, so that each violation is
/// recorded.
///
/// # Errors
/// The error of the first constraint that fails, or the reason why the route can't be followed.
pub(crate) fn guarded<P>(
    pkt: &PacketHandle,
    net: &Net,
    route: Route,
    constraints: &RouteConstraints<P>,
    is_named: bool,
    own: &mut CallCustom<'_, P>,
) -> Result<Route, PolicyError> {
    if route.sends_nothing() {
        return Ok(route);
    }
    let judge = RouteJudge { pkt, net, route: &route, source: pkt.known_source(), is_named, view: OnceCell::new() };
    let mut is_refused = false;
    if pkt.loops(&route)
        && let Err(JudgeError::Route(PolicyError::Route { error: error @ RouteError::Loop(_), made_at })) = judge.way()
    {
        let violation = Violation { constraint: NO_LOOPS.into(), why: error.to_string().into(), place: made_at };
        pkt.note_violation(violation);
        return Ok(route.refused());
    }
    for constraint in constraints.for_source(judge.source) {
        if let Some(why) = judge.what_is_wrong(constraint, own)? {
            let place = route.made_at().cloned();
            let violation = Violation { constraint: constraint.name(), why: why.into(), place };
            pkt.note_violation(violation);
            is_refused = true;
        }
    }
    if is_refused {
        return Ok(route.refused());
    }
    Ok(route)
}

/// The reason why a constraint could not judge.
enum JudgeError {
    /// The route can't be followed.
    Route(PolicyError),
    /// The constraint failed.
    Failed(PolicyError),
}

impl From<PolicyError> for JudgeError {
    fn from(error: PolicyError) -> JudgeError {
        JudgeError::Failed(error)
    }
}

/// The finding of a constraint: what is wrong with the route, if anything.
type JudgeFinding = Result<Option<String>, JudgeError>;

/// The bit of a MAC address that marks a group address.
const GROUP: u128 = 1 << 40;

/// The fields that are rewritten, with their new values.
type Rewrites = BTreeMap<Field, u128>;

struct RouteJudge<'a> {
    pkt: &'a PacketHandle,
    net: &'a Net,
    route: &'a Route,
    /// The source address of the packet, if an earlier question has revealed it.
    source: Option<u128>,
    /// Whether the packet fits a condition on the senders of some constraint ([`RouteConstraints::ask_who_sends`]).
    is_named: bool,
    /// The view of the route, once a constraint has asked for it, and the rewrites of each switch where the packet
    /// leaves.
    view: OnceCell<(RouteView, Vec<Rewrites>)>,
}

impl RouteJudge<'_> {
    /// Returns what a constraint finds wrong with the route, if anything.
    ///
    /// # Errors
    /// The error of the constraint, or the reason why the route can't be followed.
    fn what_is_wrong<P>(
        &self,
        constraint: &RouteConstraint<P>,
        own: &mut CallCustom<'_, P>,
    ) -> Result<Option<String>, PolicyError> {
        let error_before = self.net.take_error();
        let found = catch_unwind(AssertUnwindSafe(|| self.judge(&constraint.requirement, own)))
            .unwrap_or_else(|panic| Err(PolicyError::Exception(panic_text("the constraint", &*panic)).into()));
        let error = self.net.take_error();
        self.net.set_error(error_before);
        match (found, error) {
            (Err(JudgeError::Route(error)), _) => Err(error),
            (Err(JudgeError::Failed(PolicyError::Retry)), _) | (_, Some(PolicyError::Retry)) => Err(PolicyError::Retry),
            (Err(JudgeError::Failed(error)), _) | (Ok(_), Some(error)) => {
                Err(PolicyError::InConstraint { constraint: constraint.name(), error: Box::new(error) })
            }
            (Ok(found), None) => Ok(found),
        }
    }

    fn judge<P>(&self, requirement: &Requirement<P>, own: &mut CallCustom<'_, P>) -> JudgeFinding {
        match requirement {
            Requirement::Waypoint { src, dst, via } => self.waypoint(src, dst, via),
            Requirement::Isolate(a, b) => Ok(self.isolated(a, b)?.or(self.isolated(b, a)?)),
            Requirement::Never { port, src } if self.sends(src) => self.never(*port),
            Requirement::MaxHops { max, src } if self.sends(src) => {
                let far = |delivery: &Delivery| delivery.path.len() > *max;
                let at = self.delivered(far)?;
                Ok(at.map(|one| format!("it passes {} switches on its way to {}", one.path.len(), one.at)))
            }
            Requirement::Avoid { link, src } if self.sends(src) => {
                let taken = self.view()?.links.iter().find(|taken| is_link(link, taken));
                Ok(taken.map(|(from, to)| format!("it takes the link from {from} to {to}")))
            }
            Requirement::OnlyWithin { switches, src } if self.sends(src) => {
                let all = self.view()?.switches();
                let outside = all.into_iter().find(|switch| !switches.contains(switch));
                Ok(outside.map(|switch| format!("it passes switch {switch}")))
            }
            Requirement::OnlyWithinScope { scope, src } if self.sends(src) => {
                if let Some((from, to)) = self.view()?.links.iter().find(|(from, to)| !scope.has_link(*from, *to)) {
                    return Ok(Some(format!("it takes the link from {from} to {to}")));
                }
                let outside = self.delivered(|delivery| !scope.has_port(delivery.at))?;
                Ok(outside.map(|delivery| format!("it leaves by {}", delivery.at)))
            }
            Requirement::NoOverload { reserved, link, capacity, src } if self.sends(src) => {
                let links = self.view()?.links.iter();
                let mut links = links.filter(|taken| link.as_ref().is_none_or(|link| is_link(link, taken)));
                links.find_map(|(from, _)| self.overloaded(*from, reserved, *capacity).transpose()).transpose()
            }
            Requirement::Custom(function) => self.own(function, own),
            _ => Ok(None),
        }
    }

    fn sends(&self, group: &HostGroup) -> bool {
        group.sends(self.pkt, self.source, self.is_named)
    }

    /// Returns the view of the route. The run depends on it.
    fn view(&self) -> Result<&RouteView, JudgeError> {
        Ok(&self.way()?.0)
    }

    fn way(&self) -> Result<&(RouteView, Vec<Rewrites>), JudgeError> {
        if let Some(way) = self.view.get() {
            return Ok(way);
        }
        let error = |error| JudgeError::Route(PolicyError::Route { error, made_at: self.route.made_at().cloned() });
        let resolved = self.pkt.hops_to_judge(self.route).map_err(error)?;
        let in_port =
            || PortNo(self.pkt.read(Field::InPort, Field::InPort.full_mask(), None).unwrap_or_default() as u32);
        let view = RouteView::from_resolved(&resolved, self.pkt.ingress(), in_port);
        let leaves = resolved.switches.values().filter(|hops| !hops.edges.is_empty());
        let rewrites =
            leaves.map(|hops| &hops.treatment.rewrites).filter(|rewrites| !rewrites.is_empty()).cloned().collect();
        Ok(self.view.get_or_init(|| (view, rewrites)))
    }

    /// Returns the first delivery that `is_wrong` and that is made: a packet is not sent back out of the port that it
    /// came in by, unless the route says so by name.
    fn delivered(&self, is_wrong: impl Fn(&Delivery) -> bool) -> Result<Option<&Delivery>, JudgeError> {
        let named = self.route.sends_back_by_name();
        let is_made = |delivery: &&Delivery| named || !self.is_back(delivery);
        Ok(self.view()?.deliveries.iter().filter(|one| is_wrong(one)).find(is_made))
    }

    /// Reports whether a delivery is out of the port where the packet came in. The packet is asked only if that is
    /// possible.
    fn is_back(&self, delivery: &Delivery) -> bool {
        let port = delivery.at.port.0.into();
        delivery.at.switch == self.pkt.ingress()
            && self.pkt.equals(Field::InPort, port, Field::InPort.full_mask(), None)
    }

    /// Reports whether the packet is addressed to the group, as it is now or as it leaves somewhere. Without
    /// `by_address`, only the conditions of the group count.
    fn is_to(&self, group: &HostGroup, by_address: bool) -> Result<bool, JudgeError> {
        let error = |error| JudgeError::Route(PolicyError::Route { error, made_at: self.route.made_at().cloned() });
        group.receives(self.pkt, &self.way()?.1, by_address).map_err(error)
    }

    /// Reports whether the packet is for all hosts or for a multicast group, as it is now and as it leaves: an ARP
    /// request asks for one host, and is delivered to others too.
    fn is_for_many(&self) -> Result<bool, JudgeError> {
        let is_rewritten = self.way()?.1.iter().any(|rewrites| rewrites.contains_key(&Field::EthDst));
        Ok(!is_rewritten && self.pkt.equals(Field::EthDst, GROUP, GROUP, None))
    }

    fn waypoint(&self, src: &HostGroup, dst: &HostGroup, via: &BTreeSet<Dpid>) -> JudgeFinding {
        if !self.sends(src) {
            return Ok(None);
        }
        let places = if self.is_to(dst, !self.is_for_many()?)? { None } else { Some(self.members(dst)?) };
        let is_to = |delivery: &Delivery| places.as_ref().is_none_or(|places| places.contains(&delivery.at));
        let misses = |delivery: &Delivery| is_to(delivery) && !via.iter().any(|switch| delivery.passes(*switch));
        let missed = self.delivered(misses)?;
        // The controller can send a packet from the first switch to the last one, without passing the switches between.
        let first = self.pkt.ingress();
        let ends_elsewhere = |at: &Location| at.switch != first && !via.contains(&first) && !via.contains(&at.switch);
        let deliveries = &self.view()?.deliveries;
        if missed.is_none() && deliveries.iter().any(|delivery| is_to(delivery) && ends_elsewhere(&delivery.at)) {
            self.pkt.require_hops();
        }
        Ok(missed.map(|delivery| format!("it misses the waypoint on its way to {}", delivery.at)))
    }

    /// Returns the places where the route delivers to members of a group.
    fn members(&self, group: &HostGroup) -> Result<BTreeSet<Location>, JudgeError> {
        let deliveries: Vec<Location> = self.view()?.deliveries.iter().map(|delivery| delivery.at).collect();
        Ok(group.among(self.net, &deliveries)?)
    }

    fn isolated(&self, from: &HostGroup, to: &HostGroup) -> JudgeFinding {
        if !self.sends(from) {
            return Ok(None);
        }
        if self.is_to(to, true)? {
            let addressed = self.delivered(|_| true)?;
            return Ok(
                addressed.map(|one| format!("the packet is addressed to the other group, and leaves by {}", one.at))
            );
        }
        let places = self.members(to)?;
        let reached = self.delivered(|delivery| places.contains(&delivery.at))?;
        Ok(reached.map(|delivery| format!("it delivers to the other group at {}", delivery.at)))
    }

    fn never(&self, port: Location) -> JudgeFinding {
        let over_link = self.view()?.links.iter().any(|(from, _)| *from == port);
        let leaves = over_link || self.delivered(|delivery| delivery.at == port)?.is_some();
        Ok(leaves.then(|| format!("it leaves by {port}")))
    }

    /// Reports whether more of a link's capacity is reserved than the link has.
    fn overloaded(&self, from: Location, table: &Name, capacity: Option<u64>) -> JudgeFinding {
        let pair = [u128::from(from.switch.0), from.port.0.into()].map(|number| Value::Int(number as i128));
        let mut reserved = 0.0;
        for key in [Value::Location(from), Value::Tuple(pair.into())] {
            if !self.net.may_have_key(table, &key) {
                continue;
            }
            reserved += match self.net.read(Cell::Table(Arc::clone(table), key.clone())) {
                CellValue::Value(None | Some(Value::None)) => 0.0,
                CellValue::Value(Some(Value::Int(bits))) => bits as f64,
                CellValue::Value(Some(Value::Float(bits))) => bits.get(),
                other => {
                    let what = format!("{table}[{key}] is {other:?}, and a reservation is a number of bits a second");
                    return Err(PolicyError::Exception(what.into()).into());
                }
            };
        }
        if reserved <= 0.0 {
            return Ok(None);
        }
        let capacity = capacity.map_or_else(|| self.net.read(Cell::Speed(from)), |bits| CellValue::Speed(Some(bits)));
        Ok(match capacity {
            CellValue::Speed(Some(capacity)) if reserved <= capacity as f64 => None,
            CellValue::Speed(Some(capacity)) => {
                Some(format!("{reserved} bit/s of {capacity} are reserved of the link that leaves by {from}"))
            }
            _ => Some(format!(
                "{reserved} bit/s are reserved of the link that leaves by {from}, whose capacity is not known"
            )),
        })
    }

    /// Asks a constraint that a user wrote. Its view has only the deliveries that are made.
    fn own<P>(&self, function: &P, call: &mut CallCustom<'_, P>) -> JudgeFinding {
        let mut view = self.view()?.clone();
        if !self.route.sends_back_by_name() {
            // One read is cheaper than a test for each port.
            let here = view.deliveries.iter().filter(|one| one.at.switch == self.pkt.ingress()).count();
            let read = || self.pkt.read(Field::InPort, Field::InPort.full_mask(), None);
            let came_in = (here > 1).then(read).flatten();
            view.deliveries.retain(|one| match came_in {
                Some(port) => one.at.switch != self.pkt.ingress() || u128::from(one.at.port.0) != port,
                None => !self.is_back(one),
            });
        }
        if !view.links.is_empty() {
            // The judgement may depend on the switches between, so the packet must pass them.
            self.pkt.require_hops();
        }
        self.pkt.show_route(Some(Arc::new(view)));
        let called = catch_unwind(AssertUnwindSafe(|| call(function, self.pkt, self.net)));
        self.pkt.show_route(None);
        match called {
            Ok(Ok(_)) => Ok(None),
            Ok(Err(PolicyError::Violates(why))) => Ok(Some(why.to_string())),
            Ok(Err(error)) => Err(error.into()),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Reports whether a name is that of a link, in either direction.
fn is_link(name: &LinkName, (from, to): &(Location, Location)) -> bool {
    match name {
        LinkName::Port(at) => at == from || at == to,
        LinkName::Switches(a, b) => (*a, *b) == (from.switch, to.switch) || (*b, *a) == (from.switch, to.switch),
    }
}
