//! Turns f's answer into hops: where a route leads in a state, which part of the answer lasts, and whether it can be
//! followed.

use std::sync::Arc;

use maple_wire::field::VLAN_PRESENT;
use maple_wire::{Dpid, Field, Version};

use super::{PathReads, Route};
use crate::look_ups::OpenPaths;
use crate::network::{Location, OwnFrame, PortKind};
use crate::route_plan::{
    Branch, FRAME_BYTES, Flood, FrameError, MAX_FRAMES, Meter, OmittedPlace, PathTo, Resolved, RouteError, RoutePlan,
    SwitchHops, is_settable,
};
use crate::state::{Cell, CellValue, Snapshot, Txn};

/// The part of f's answer that lasts: a plan or fixed hops.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Goal {
    /// Wherever the plan leads, as the topology changes.
    Plan(RoutePlan),
    /// Exactly these hops: the route has rewrites, or frames of f's own, or constraints have judged it.
    Fixed(Arc<Resolved>),
    /// The best path to whatever place a look-up finds.
    Open(OpenGoal),
}

/// Best paths from one switch to all places that a look-up finds. f has observed nothing of the places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpenGoal {
    /// The switch where packets enter.
    pub ingress: Dpid,
    /// The paths.
    pub paths: OpenPaths,
}

impl OpenGoal {
    /// Returns the goal of packets for which the look-up finds this place.
    pub fn ending_at(&self, place: Location) -> Goal {
        let path = PathTo { from: self.ingress, to: place, costs: self.paths.costs.clone(), within: None };
        let branch = Branch { path: Some(path), ..Branch::default() };
        Goal::Plan(RoutePlan::new(self.ingress, vec![branch], false, None))
    }
}

impl Goal {
    /// Returns the meter that packets pass where they enter.
    pub fn meter(&self) -> Option<&Meter> {
        match self {
            Goal::Plan(plan) => plan.meter(),
            Goal::Fixed(resolved) => resolved.meter.as_ref(),
            Goal::Open(_) => None,
        }
    }

    /// Reports whether packets go nowhere, in whatever state.
    pub fn sends_nowhere(&self) -> bool {
        match self {
            Goal::Plan(plan) => plan.sends_nowhere(),
            Goal::Fixed(resolved) => resolved.switches.is_empty() && resolved.own.is_empty(),
            Goal::Open(_) => false,
        }
    }

    /// Returns the hops that the goal resolves to in a state. `None` if the plan can't be followed in this state, or if
    /// the hops depend on the packet.
    pub fn now(&self, state: &Snapshot) -> Option<Arc<Resolved>> {
        match self {
            Goal::Plan(plan) => state.route(plan).ok(),
            Goal::Fixed(resolved) => Some(Arc::clone(resolved)),
            Goal::Open(_) => None,
        }
    }

    /// Returns the paths that it follows to all places, if it does.
    pub fn as_open(&self) -> Option<&OpenGoal> {
        if let Goal::Open(open) = self { Some(open) } else { None }
    }
}

impl Route {
    /// Returns which paths the route is one of, if it is no more than a best path from a switch of which f has read
    /// nothing, and the record of what f reads of it.
    pub(crate) fn unread_path(&self, ingress: Dpid) -> Option<(OpenPaths, &Arc<PathReads>)> {
        let [Branch { path: Some(path), .. }] = &self.branches[..] else { return None };
        let plain = Branch { path: Some(path.clone()), ..Branch::default() };
        let is_plain = self.branches[0] == plain && path.within.is_none() && path.from == ingress;
        let has_more = self.is_multicast || self.meter.is_some() || !self.answers.is_empty() || self.passes.is_some();
        let mut ends = self.found.iter().filter(|found| found.path == *path);
        let reads = ends.next().map(|found| &found.reads).filter(|_| is_plain && !has_more)?;
        if ends.next().is_some() || self.found.len() != 1 || reads.are_any() {
            return None;
        }
        Some((OpenPaths { costs: path.costs.clone() }, reads))
    }

    /// Resolves the route of a packet that enters at `ingress`. `ask` answers whether the packet has a field with a
    /// value under a mask, and records that in the trace.
    ///
    /// Output to a port that just came up is left out until it is known whether it is an edge or a link port. So is
    /// output to a link whose far end does not know of it. Output to an edge port that is down stays: the switch drops
    /// it. Absent places are left out too.
    ///
    /// # Errors
    /// [`RouteError`] says what is wrong, for example that all places of a route that is not a multicast are absent.
    pub fn resolve(
        &self,
        ingress: Dpid,
        txn: &mut Txn,
        ask: &mut dyn FnMut(Field, u128, u128) -> bool,
    ) -> Result<Arc<Resolved>, RouteError> {
        Ok(self.goal(ingress, false, txn, ask)?.1)
    }

    /// Resolves the route, and returns the part of it that lasts too. A plan is not a dependency of the run: a leaf
    /// that keeps it follows it. All that a fixed goal depends on is read through `txn`. With `is_fixed` the goal is
    /// never a plan.
    ///
    /// # Errors
    /// [`RouteError`] if the route can't be followed, or if a switch can't do its rewrites on this packet.
    pub(crate) fn goal(
        &self,
        ingress: Dpid,
        is_fixed: bool,
        txn: &mut Txn,
        ask: &mut dyn FnMut(Field, u128, u128) -> bool,
    ) -> Result<(Goal, Arc<Resolved>), RouteError> {
        let plan = self.plan(ingress);
        if !is_fixed && self.branches.iter().all(|branch| branch.treatment.rewrites.is_empty()) {
            let resolved = txn.peek().route(&plan)?;
            return Ok((Goal::Plan(plan), resolved));
        }
        let resolved = self.hops_now(ingress, txn)?;
        if self.branches.iter().all(|branch| branch.treatment.rewrites.is_empty()) {
            return Ok((Goal::Fixed(Arc::clone(&resolved)), resolved));
        }
        let mut resolved = (*resolved).clone();
        for (switch, hops) in &mut resolved.switches {
            check_treatment(*switch, hops, txn, ask)?;
        }
        let resolved = Arc::new(resolved);
        Ok((Goal::Fixed(Arc::clone(&resolved)), resolved))
    }

    /// Returns the hops of packets that enter at a switch. Nothing is read.
    ///
    /// # Errors
    /// [`RouteError`] if the route can't be followed.
    pub(crate) fn hops_of_packet(&self, ingress: Dpid, state: &Snapshot) -> Result<Arc<Resolved>, RouteError> {
        state.route(&self.plan(ingress))
    }

    /// Returns the places that the route leaves out in this state because they are absent.
    pub fn left_out(&self, ingress: Dpid, state: &Snapshot) -> Vec<OmittedPlace> {
        state.left_out(&self.plan(ingress))
    }

    /// Returns the frames that are sent in addition to the packet: those that f sent with
    /// [`Net::send`](crate::run::Net::send), and the route's answers, to the place where the packet came in. Frames for
    /// ports that are new or shut are left out. Facts about ports are read through `txn`.
    ///
    /// # Errors
    /// [`FrameError`] if there are more than [`MAX_FRAMES`], or if the length of one is not within [`FRAME_BYTES`].
    /// Also if the port of one is absent, a link port, or that of a middlebox.
    pub(crate) fn own_frames(&self, came_in: Location, txn: &mut Txn) -> Result<Vec<OwnFrame>, FrameError> {
        let answers = self.answers.iter().map(|bytes| OwnFrame { at: came_in, bytes: Arc::clone(bytes) });
        let all: Vec<OwnFrame> = txn.sends().iter().cloned().chain(answers).collect();
        if all.len() > MAX_FRAMES {
            return Err(FrameError::TooMany);
        }
        for OwnFrame { at, bytes } in &all {
            if !FRAME_BYTES.contains(&bytes.len()) {
                return Err(FrameError::Length(bytes.len()));
            }
            if *at == came_in {
                continue;
            }
            let CellValue::Port(Some(port)) = txn.read(Cell::Port(*at)) else { return Err(FrameError::NoEdge(*at)) };
            if matches!(port.kind, PortKind::Link(_) | PortKind::Middlebox) {
                return Err(FrameError::NoEdge(*at));
            }
        }
        let is_edge = |at| txn.peek().port(at).is_some_and(|port| port.kind == PortKind::Edge);
        Ok(all.into_iter().filter(|own| own.at == came_in || is_edge(own.at)).collect())
    }

    /// Reports whether the route names the port where the packet came in, and the packet would leave by no other. A
    /// path to a host at that port, or a flood, does not name it.
    pub(crate) fn goes_back(&self, resolved: &Resolved, came_in: Location) -> bool {
        let back =
            |(switch, hops): (&Dpid, &SwitchHops)| *switch == came_in.switch && hops.edges.contains(&came_in.port);
        let is_named = |branch: &Branch| !branch.flood.is_on() && branch.path.is_none() && branch.copy_to.is_none();
        let named = self.branches.iter().all(is_named);
        named && resolved.egress_count() == 1 && resolved.switches.iter().any(back)
    }

    /// Reports whether the route is more than one path, flood or set of ports, so that it could have a loop.
    pub(crate) fn may_loop(&self) -> bool {
        self.branches.len() > 1 || self.branches.iter().any(|branch| !branch.hops.is_empty())
    }

    /// Reports whether the route has a loop in the state of a transaction.
    pub(crate) fn loops_now(&self, ingress: Dpid, txn: &Txn) -> bool {
        matches!(txn.peek().route(&self.plan(ingress)), Err(RouteError::Loop(_)))
    }

    /// Returns the part of the route that determines its hops.
    pub(super) fn plan(&self, ingress: Dpid) -> RoutePlan {
        let mut branches = self.branches.clone();
        for branch in branches.iter_mut().filter(|branch| branch.flood.is_on()) {
            branch.flood = Flood::All;
        }
        RoutePlan::new(ingress, branches, self.is_multicast, self.meter.clone())
    }

    /// Reports whether a packet that came in at `came_in` can take the route now. What this depends on is read through
    /// `txn`.
    pub(crate) fn can_follow(
        &self,
        came_in: Location,
        txn: &mut Txn,
        ask: &mut dyn FnMut(Field, u128, u128) -> bool,
    ) -> bool {
        let CellValue::Route(Ok(_)) = txn.read(Cell::Route(self.plan(came_in.switch))) else { return false };
        self.goal(came_in.switch, false, txn, ask).is_ok() && self.own_frames(came_in, txn).is_ok()
    }

    /// Returns the hops of packets that enter at a switch. What this depends on is read through `txn`.
    ///
    /// # Errors
    /// [`RouteError`] if the route can't be followed.
    pub(crate) fn hops_now(&self, ingress: Dpid, txn: &mut Txn) -> Result<Arc<Resolved>, RouteError> {
        match txn.read(Cell::Route(self.plan(ingress))) {
            CellValue::Route(resolved) => resolved,
            _ => Err(RouteError::NotAtIngress { ingress }),
        }
    }
}

/// Checks that the packet has the fields that are rewritten, and that the switch can rewrite them.
fn check_treatment(
    switch: Dpid,
    hops: &mut SwitchHops,
    txn: &Txn,
    ask: &mut dyn FnMut(Field, u128, u128) -> bool,
) -> Result<(), RouteError> {
    let version = txn.peek().switch(switch).map_or(Version::Of13, |info| info.version);
    for (&field, &value) in &hops.treatment.rewrites {
        if value & !field.full_mask() != 0 {
            return Err(RouteError::TooWide { field, value });
        }
        if !is_settable(field, version) {
            return Err(RouteError::NotSettable { field });
        }
        let pushes_tag = hops.treatment.rewrites.get(&Field::VlanVid).is_some_and(|vid| *vid != 0);
        if field == Field::VlanVid {
            hops.tagged = ask(Field::VlanVid, VLAN_PRESENT, VLAN_PRESENT);
        } else if field == Field::VlanPcp && pushes_tag {
            continue;
        } else if !ask(field, 0, 0) {
            return Err(RouteError::NoSuchField { field });
        }
    }
    Ok(())
}
