//! A labelled path: the resolution of a route, with a label for each link out of its ingress.

use std::sync::Arc;

use maple_wire::Dpid;

use super::RouteKey;
use crate::ids::Time;
use crate::labels::OnwardLabels;
use crate::route::Resolved;

/// The resolution of a route, and the labels for it.
#[derive(Clone, Debug)]
pub(super) struct LabelledPath {
    pub resolved: Arc<Resolved>,
    pub onward: OnwardLabels,
    /// The serial number of the path's request for labels; `None` while it holds none.
    pub serial: Option<u64>,
    pub state: PathState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathState {
    Asking,
    Ready,
    /// A label was refused, so no packets may be sent. The path asks again at `retry` at the earliest.
    Refused {
        retry: Time,
    },
}

impl LabelledPath {
    /// Creates the path that a route was resolved to. It is ready if it needs no labels.
    pub fn new(key: &RouteKey, resolved: &Arc<Resolved>) -> LabelledPath {
        let onward = OnwardLabels::new(key.carriage.suffixes(resolved, key.ingress).into_iter());
        let state = if onward.is_ready() { PathState::Ready } else { PathState::Asking };
        LabelledPath { resolved: Arc::clone(resolved), onward, serial: None, state }
    }

    /// Reports whether the ingress sends packets to another switch.
    pub fn crosses_links(&self, ingress: Dpid) -> bool {
        self.resolved.switches.get(&ingress).is_some_and(|hops| !hops.links.is_empty())
    }
}
