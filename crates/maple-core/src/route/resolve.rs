//! From f's answer to hops: where a route leads in a state, which part of that lasts, and whether it can be taken.

use std::sync::Arc;

use maple_wire::{Dpid, Field, Version};

use super::Route;
use crate::network::{Location, OwnFrame, PortKind};
use crate::plan::{
    Branch, FRAME_BYTES, Flood, FrameError, LeftOut, MOST_FRAMES, Meter, Plan, Resolved, RouteError, SwitchHops,
    is_settable,
};
use crate::state::{Cell, CellValue, Snapshot, Txn};

/// Where a packet goes: the part of f's answer that lasts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Goal {
    /// Wherever the plan leads, as the topology changes.
    Plan(Plan),
    /// Exactly these hops: the route has rewrites, or frames of f's own, or constraints have judged it.
    Fixed(Arc<Resolved>),
}

impl Goal {
    /// The meter that packets pass where they enter.
    pub fn meter(&self) -> Option<&Meter> {
        match self {
            Goal::Plan(plan) => plan.meter(),
            Goal::Fixed(resolved) => resolved.meter.as_ref(),
        }
    }

    /// Whether packets go nowhere, in whatever state.
    pub fn sends_nowhere(&self) -> bool {
        match self {
            Goal::Plan(plan) => plan.sends_nowhere(),
            Goal::Fixed(resolved) => resolved.switches.is_empty() && resolved.own.is_empty(),
        }
    }

    /// What it resolves to in a state.
    pub fn now(&self, state: &Snapshot) -> Result<Arc<Resolved>, RouteError> {
        match self {
            Goal::Plan(plan) => state.route(plan),
            Goal::Fixed(resolved) => Ok(Arc::clone(resolved)),
        }
    }
}

impl Route {
    /// What the route resolves to when a packet enters at `ingress`. `ask` answers whether the packet has a field with
    /// a value under a mask, and records that in the trace.
    ///
    /// Output to a port that is not known yet to be edge or link (it just came up) is left out until it is known, and
    /// so is output to a link whose far end does not know of it. Output to an edge port that is down stays: the switch
    /// drops it. Absent places are left out too.
    ///
    /// # Errors
    /// [`RouteError`] says what is wrong, for example that all places of a route are absent that is no multicast.
    pub fn resolve(
        &self,
        ingress: Dpid,
        txn: &mut Txn,
        ask: &mut dyn FnMut(Field, u128, u128) -> bool,
    ) -> Result<Arc<Resolved>, RouteError> {
        Ok(self.goal(ingress, false, txn, ask)?.1)
    }

    /// The same, with the part of it that lasts. A plan is no dependency of the run: a leaf that keeps it follows it.
    /// All that a fixed goal rests on is read through `txn`. With `is_fixed` it is never a plan.
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

    /// The places that it leaves out in this state because they are absent.
    pub(crate) fn left_out(&self, ingress: Dpid, state: &Snapshot) -> Vec<LeftOut> {
        state.left_out(&self.plan(ingress))
    }

    /// What is sent in addition to the packet: the frames that f sent with [`Net::send`](crate::run::Net::send), and
    /// the route's answers to the place where the packet came in. Frames for ports that are new or shut are left out.
    /// What is known of ports is read through `txn`.
    pub(crate) fn own_frames(&self, came_in: Location, txn: &mut Txn) -> Result<Vec<OwnFrame>, FrameError> {
        let answers = self.answers.iter().map(|bytes| OwnFrame { at: came_in, bytes: Arc::clone(bytes) });
        let all: Vec<OwnFrame> = txn.sends().iter().cloned().chain(answers).collect();
        if all.len() > MOST_FRAMES {
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

    /// Whether the route names the port where the packet came in, and the packet would leave by no other. A path to a
    /// host at that port, or a flood, does not name it.
    pub(crate) fn goes_back(&self, resolved: &Resolved, came_in: Location) -> bool {
        let back =
            |(switch, hops): (&Dpid, &SwitchHops)| *switch == came_in.switch && hops.edges.contains(&came_in.port);
        let is_named = |branch: &Branch| !branch.flood.is_on() && branch.path.is_none() && branch.copy_to.is_none();
        let named = self.branches.iter().all(is_named);
        named && resolved.egress_count() == 1 && resolved.switches.iter().any(back)
    }

    /// Whether it is more than one path, flood or set of ports.
    pub(crate) fn may_loop(&self) -> bool {
        self.branches.len() > 1 || self.branches.iter().any(|branch| !branch.hops.is_empty())
    }

    /// Whether it has a loop in the state of a transaction.
    pub(crate) fn loops_now(&self, ingress: Dpid, txn: &Txn) -> bool {
        matches!(txn.peek().route(&self.plan(ingress)), Err(RouteError::Loop(_)))
    }

    /// The part of the route that determines its hops.
    pub(super) fn plan(&self, ingress: Dpid) -> Plan {
        let mut branches = self.branches.clone();
        for branch in branches.iter_mut().filter(|branch| branch.flood.is_on()) {
            branch.flood = Flood::All;
        }
        Plan::new(ingress, branches, self.is_multicast, self.meter.clone())
    }

    /// Whether a packet that came in here can take the route, now. What this rests on is read through `txn`.
    pub(crate) fn can_follow(
        &self,
        came_in: Location,
        txn: &mut Txn,
        ask: &mut dyn FnMut(Field, u128, u128) -> bool,
    ) -> bool {
        let CellValue::Route(Ok(_)) = txn.read(Cell::Route(self.plan(came_in.switch))) else { return false };
        self.goal(came_in.switch, false, txn, ask).is_ok() && self.own_frames(came_in, txn).is_ok()
    }

    /// The hops of packets that enter at a switch. What this rests on is read through `txn`.
    pub(crate) fn hops_now(&self, ingress: Dpid, txn: &mut Txn) -> Result<Arc<Resolved>, RouteError> {
        match txn.read(Cell::Route(self.plan(ingress))) {
            CellValue::Route(resolved) => resolved,
            _ => Err(RouteError::NotAtIngress { ingress }),
        }
    }
}

/// Checks that the packet has what is rewritten and that the switch can rewrite it.
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
            hops.tagged = ask(Field::VlanVid, 0x1000, 0x1000);
        } else if field == Field::VlanPcp && pushes_tag {
            continue;
        } else if !ask(field, 0, 0) {
            return Err(RouteError::NoSuchField { field });
        }
    }
    Ok(())
}
