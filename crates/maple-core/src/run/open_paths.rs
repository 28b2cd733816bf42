//! Paths whose end a look-up found, and of which a run has observed no more than that it is there.
//!
//! f may return such a path: then one decision is for all places that the look-up finds. If f reads the path, or the
//! route is more than the path, the run observes the end. f reads a path through the route, which knows no run. So the
//! run sees it when f asks or does something else ([`Run::state`](super::Run::state)), and when the run ends: what f
//! does then may follow from what it has read.

use std::sync::Arc;

use maple_wire::Field;

use super::RunState;
use crate::look_ups::OpenPaths;
use crate::network::Location;
use crate::route::{PathReads, Route};
use crate::state::Cell;

/// A path that f requested.
pub(super) struct RequestedPath {
    pub cell: Cell,
    /// The reads by f of the result.
    pub reads: Arc<PathReads>,
    /// The end, if a look-up found it and the run has not observed it.
    pub open_end: Option<OpenEnd>,
}

/// The end of a path that a look-up found.
#[derive(Clone, Copy)]
pub(super) struct OpenEnd {
    /// The field by which the look-up found it.
    pub field: Field,
    /// The place to which the path was made. `None`: the packet stands for others, and its own host has gone.
    pub place: Option<Location>,
}

impl RequestedPath {
    /// Returns the cells that the run depends on because f read the path; none if f did not.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + use<> {
        self.reads.at(&self.cell)
    }
}

impl RunState {
    /// Observes the ends of the paths that f has read.
    pub(super) fn observe_read_ends(&mut self) {
        self.observe_ends_where(|path| path.reads.are_any());
    }

    /// Observes the ends of all paths that f requested.
    pub(super) fn observe_ends(&mut self) {
        self.observe_ends_where(|_| true);
    }

    fn observe_ends_where(&mut self, is_wanted: impl Fn(&RequestedPath) -> bool) {
        for index in 0..self.routes.paths.len() {
            let path = &mut self.routes.paths[index];
            if is_wanted(path)
                && let Some(OpenEnd { field, place }) = path.open_end.take()
            {
                self.read_found(field, place, None);
            }
        }
    }

    /// Returns which paths the route is one of, and the field by which a look-up found its end. `None` if it is more
    /// than a path, or not one that this run has requested and f has not read.
    pub(super) fn open_path(&self, route: &Route) -> Option<(OpenPaths, Field)> {
        let (paths, reads) = route.unread_path(self.ingress.switch)?;
        let requested = self.routes.paths.iter().find(|path| Arc::ptr_eq(&path.reads, reads))?;
        Some((paths, requested.open_end?.field))
    }
}
