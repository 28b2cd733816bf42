//! A labelled path.

use super::RouteKey;
use std::sync::Arc;

use crate::ids::Time;
use crate::labels::Onward;
use crate::route::Resolved;

/// What a route comes to, and the labels for that.
#[derive(Debug)]
pub(super) struct LabelledPath {
    pub resolved: Arc<Resolved>,
    pub onward: Onward,
    /// The number of its requests for labels; `None` while it holds none.
    pub serial: Option<u64>,
    pub state: PathState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathState {
    Asking,
    Ready,
    /// No packets may be sent; at the earliest then it asks again.
    Refused {
        retry: Time,
    },
}

impl LabelledPath {
    pub fn new(key: &RouteKey, resolved: &Arc<Resolved>) -> LabelledPath {
        let onward = Onward::new(key.carriage.suffixes(resolved, key.ingress).into_iter());
        let state = if onward.is_ready() { PathState::Ready } else { PathState::Asking };
        LabelledPath { resolved: Arc::clone(resolved), onward, serial: None, state }
    }
}
