//! Routes of policies that are parts of other policies: passed on, in a slice, with copies, or refused by a constraint.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_wire::{Dpid, Field, PortNo};

use super::Route;
use crate::network::{Location, Scope};
use crate::route_plan::{Branch, Flood, Limit, Meter, RouteError, Treatment};

impl Route {
    /// Confines the route to the slice whose policy answered it: its hops must be in the slice, and its limit is the
    /// slice's own.
    pub(crate) fn in_slice(mut self, scope: &Scope) -> Route {
        if let Some(Meter::Limit(limit)) = &mut self.meter
            && !scope.owns(&limit.name)
        {
            *limit = Arc::new(Limit { name: scope.own(&limit.name), ..(**limit).clone() });
        }
        for branch in &mut self.branches {
            let within = branch.within.take();
            branch.within = Some(within.map_or_else(|| scope.clone(), |other| other.limited_to(scope)));
        }
        self
    }

    /// Reports whether the packet's destination decides whether it is flooded.
    pub(crate) fn floods_unless_reserved(&self) -> bool {
        self.branches.iter().any(|branch| matches!(branch.flood, Flood::UnlessReserved))
    }

    /// Decides the floods that the packet's destination decides: packets to reserved addresses do not take them. Later
    /// policies may change that address, so it does not decide again.
    pub(crate) fn decide_floods(mut self, is_reserved: bool) -> Route {
        for branch in self.branches.iter_mut().filter(|branch| matches!(branch.flood, Flood::UnlessReserved)) {
            branch.flood = if is_reserved { Flood::No } else { Flood::Unreserved };
        }
        self
    }

    /// Returns the fields that each of its branches writes.
    pub(crate) fn rewrites(&self) -> impl Iterator<Item = &BTreeMap<Field, u128>> {
        self.branches.iter().map(|branch| &branch.treatment.rewrites)
    }

    /// Returns the treatment that a route that passes gives the packet before the next policy decides.
    pub fn passed(&self) -> Option<&Treatment> {
        self.passes.as_ref()
    }

    /// Creates a route that passes and treats the packet in this way.
    pub(crate) fn pass_with(treatment: Treatment) -> Route {
        Route { passes: Some(treatment), ..Route::default() }
    }

    /// Returns a drop in place of the route, from the same line. Frames of f's own are still sent.
    pub fn refused(&self) -> Route {
        Route { answers: self.answers.clone(), made_at: self.made_at.clone(), ..Route::default() }
    }

    /// Reports whether the route names the port by which the packet came in ([`PortNo::IN_PORT`]) as an output.
    pub(crate) fn sends_back_by_name(&self) -> bool {
        let named = |branch: &Branch| {
            branch.ports.contains(&PortNo::IN_PORT) || branch.hops.iter().any(|hop| hop.port == PortNo::IN_PORT)
        };
        self.branches.iter().any(named)
    }

    /// Reports whether the route sends nothing anywhere, whatever the network is. This does not count as reading the
    /// hops of paths.
    pub(crate) fn sends_nothing(&self) -> bool {
        self.branches.iter().all(|branch| branch.path.is_none() && branch.is_empty())
    }

    /// Puts `earlier`, a route that let the packet pass, before this route: the treatment of `earlier` comes first, and
    /// its copies are made too.
    pub(crate) fn after(mut self, earlier: Route) -> Route {
        let first = earlier.passes.unwrap_or_default();
        let all = self.branches.iter_mut().map(|branch| &mut branch.treatment).chain(&mut self.passes);
        all.for_each(|treatment| *treatment = first.then(treatment));
        self.meter = self.meter.or(earlier.meter);
        self.made_at = self.made_at.or(earlier.made_at);
        self.branches.extend(earlier.branches);
        self.found.extend(earlier.found);
        self.answers.extend(earlier.answers);
        self
    }

    /// Adds a copy to each place where `beside` sends its packet, treated as `beside` says.
    ///
    /// # Errors
    /// [`RouteError::NoCopy`] if `beside` has a meter, floods, or gives hops.
    pub(crate) fn with_copies(mut self, beside: Route, ingress: Dpid) -> Result<Route, RouteError> {
        if beside.meter.is_some() {
            return Err(RouteError::NoCopy("has a meter, which would limit the packet itself"));
        }
        for branch in beside.branches {
            if branch.flood.is_on() || !branch.hops.is_empty() {
                return Err(RouteError::NoCopy("floods, or gives hops"));
            }
            let ports = branch.ports.iter().map(|port| Location::new(ingress, *port));
            let places = ports.chain(branch.path.map(|path| path.to)).chain(branch.copy_to);
            let copy = |place| {
                let (treatment, within) = (branch.treatment.clone(), branch.within.clone());
                Branch { copy_to: Some(place), treatment, within, ..Branch::default() }
            };
            self.branches.extend(places.map(copy));
        }
        self.answers.extend(beside.answers);
        Ok(self)
    }
}
