//! Questions to a route. In a run of f, a question about a path is an observation, which the route records.

use std::sync::atomic::Ordering::Relaxed;

use super::Route;
use crate::network::Hop;
use crate::route_plan::{Branch, PathTo};
use crate::state::Cell;
use crate::trace::Source;

impl Route {
    /// Returns the line of f that made the route, if it is known.
    ///
    /// ```
    /// use maple_core::Route;
    ///
    /// assert_eq!(Route::flood().made_at().unwrap().line, line!());
    /// ```
    #[must_use]
    pub fn made_at(&self) -> Option<&Source> {
        self.made_at.as_ref()
    }

    /// Reports whether there was no path, or the path's end is absent. In a policy, this call makes the run depend on
    /// that answer; reading the hops makes it depend on the hops. A route that f only returns follows the path wherever
    /// it leads.
    ///
    /// ```
    /// use maple_core::Route;
    ///
    /// assert!(Route::unreachable().is_unreachable() && !Route::drop().is_unreachable());
    /// ```
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.found.iter().for_each(|found| found.reads.existence.store(true, Relaxed));
        self.unreachable
    }

    /// Reports whether the packet goes to all edge ports of the network, perhaps among other places.
    ///
    /// ```
    /// use maple_core::Route;
    ///
    /// assert!(Route::multicast([Route::flood(), Route::drop()]).floods());
    /// ```
    #[must_use]
    pub fn floods(&self) -> bool {
        self.branches.iter().any(|branch| branch.flood.is_on())
    }

    /// Reports whether the route leaves the decision to the next policy.
    ///
    /// ```
    /// use maple_core::Route;
    ///
    /// assert!(Route::pass().passes() && !Route::drop().passes());
    /// ```
    #[must_use]
    pub fn passes(&self) -> bool {
        self.passes.is_some()
    }

    /// Reports whether the packet is sent nowhere, and f does not answer it.
    ///
    /// ```
    /// use maple_core::Route;
    /// use maple_wire::PortNo;
    ///
    /// assert!(Route::drop().is_drop() && !Route::to([PortNo(1)]).is_drop());
    /// ```
    pub fn is_drop(&self) -> bool {
        !self.passes() && self.answers.is_empty() && self.spelled_out().iter().all(Branch::is_empty)
    }

    /// Returns the hops that were given one by one, and those that path queries found; in order within each branch.
    ///
    /// ```
    /// use maple_core::{Hop, Route};
    /// use maple_wire::{Dpid, PortNo};
    ///
    /// let hop = Hop::new(Dpid(1), PortNo(3));
    /// assert_eq!(Route::hops([hop]).explicit_hops().collect::<Vec<_>>(), [hop]);
    /// ```
    pub fn explicit_hops(&self) -> impl Iterator<Item = Hop> + '_ {
        self.spelled_out().into_iter().flat_map(|branch| branch.hops)
    }

    /// Returns the paths that the route follows, wherever they lead. This does not count as reading their hops. A run
    /// observes the end of a path, if it has not done so before.
    ///
    /// ```
    /// use maple_core::Route;
    ///
    /// assert_eq!(Route::flood().paths().count(), 0);
    /// ```
    pub fn paths(&self) -> impl Iterator<Item = Cell> + '_ {
        self.found.iter().for_each(|found| found.reads.last.store(true, Relaxed));
        self.branches.iter().filter_map(|branch| branch.path.as_ref()).map(cell)
    }

    /// Records that f reads the hops that path queries found.
    fn look(&self) {
        self.found.iter().for_each(|found| found.reads.hops.store(true, Relaxed));
    }

    /// Returns the branches with the hops of their paths, without those branches for which no path was found.
    pub(super) fn spelled_out(&self) -> Vec<Branch> {
        self.look();
        let hops = |path: &PathTo| {
            let found = self.found.iter().find(|found| found.path == *path)?.hops.as_ref()?;
            Some(found.iter().copied().chain([path.last()]).collect::<Vec<_>>())
        };
        let spelled_out = |branch: &Branch| {
            let mut branch = branch.clone();
            if let Some(path) = branch.path.take() {
                branch.hops.extend(hops(&path)?);
            }
            Some(branch)
        };
        self.branches.iter().filter_map(spelled_out).collect()
    }
}

/// Returns the cell of a path.
fn cell(path: &PathTo) -> Cell {
    let (costs, within) = (path.costs.clone(), path.within.clone());
    Cell::Path { from: path.from, to: path.to.switch, costs, within }
}
