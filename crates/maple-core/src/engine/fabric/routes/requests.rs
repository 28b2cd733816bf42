//! Handles the labels of routes: asks for them, takes the answer about each, asks again for refused ones, and releases
//! them.

use std::time::Duration;

use maple_wire::PortNo;

use super::path::{LabelledPath, PathState};
use super::{RouteNews, Routes, SharedRoute};
use crate::engine::tools::backoff::pause;
use crate::engine::tools::expected::Expected;
use crate::ids::{RouteId, ShardId, Time};
use crate::labels::{Holder, LabelEffect, News};

/// The time for which a route waits before it asks again for labels that were refused once. Chosen: a switch that was
/// about to change its labels has done so, and a route that waits is hardly held up.
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// The maximum time that a route waits before it asks again: each refusal doubles the time. Chosen: six doublings of
/// [`FIRST_RETRY`], at which many routes that wait for a full switch cost little.
pub(super) const MAX_RETRY: Duration = Duration::from_secs(16);

impl Routes {
    /// Handles a later switch's report on a label that was asked for.
    pub fn learn(
        &mut self,
        serial: u64,
        port: PortNo,
        news: &News,
        now: Time,
        out: &mut Vec<LabelEffect>,
    ) -> Option<RouteNews> {
        let id = *self.requests.get(&serial)?;
        let route = self.all.get_mut(&id)?;
        let has_next = route.next.is_some();
        let (path, is_next) = route.path_of_request(serial)?;
        path.onward.learn(port, news);
        match news {
            News::Allocated(_) => None,
            News::Ready => {
                if !path.onward.is_ready() || path.onward.labels().is_none() {
                    return None;
                }
                path.state = PathState::Ready;
                if is_next {
                    return Some(RouteNews::NextReady(id));
                }
                route.refusals = 0;
                // If another path is to follow, leaves wait for that one.
                (!has_next).then(|| RouteNews::Ready(id, std::mem::take(&mut route.waiting_leaves)))
            }
            // Until the next path is ready, packets run into what is gone. No rule may lead back to this path.
            News::Refused(_) if has_next && !is_next => {
                path.state = PathState::Refused { retry: now };
                None
            }
            News::Refused(why) => {
                self.refuse(id, now, out);
                Some(RouteNews::Refused(id, *why))
            }
        }
    }

    /// Asks again for refused labels whose time has come.
    pub fn retry(&mut self, now: Time, out: &mut Vec<LabelEffect>) {
        let is_due = |route: &SharedRoute| {
            route.uses.count == 0
                && route.next.is_none()
                && route.path.serial.is_none()
                && matches!(route.path.state, PathState::Refused { retry } if retry <= now)
        };
        let mut due: Vec<RouteId> = self.all.iter().filter(|(_, route)| is_due(route)).map(|(id, _)| *id).collect();
        due.sort_unstable();
        for id in due {
            if let Some(route) = self.all.get_mut(&id) {
                let path = LabelledPath::new(&route.key, &route.resolved);
                route.path = LabelledPath { state: PathState::Asking, ..path };
                self.request_labels(id, out);
            }
        }
    }

    /// Asks for the labels of the next path, if there is one, or else of the current path.
    pub(super) fn request_labels(&mut self, id: RouteId, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id).expected() else { return };
        let path = route.next.as_mut().map_or(&mut route.path, |(next, _)| next);
        if path.state == PathState::Asking && path.serial.is_none() {
            self.next_serial += 1;
            path.serial = Some(self.next_serial);
            self.requests.insert(self.next_serial, id);
            path.onward.ask(holder(self.shard, self.next_serial), out);
        }
    }

    /// Marks a route as refused: rules may not lead along the current path, and the next one is given up.
    pub(super) fn refuse(&mut self, id: RouteId, now: Time, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id).expected() else { return };
        let retry = now + pause(route.refusals, FIRST_RETRY, MAX_RETRY);
        route.refusals += 1;
        let next = route.next.take();
        route.path.state = PathState::Refused { retry };
        let is_unused = route.uses.count == 0;
        if let Some((mut next, _)) = next {
            // No rule has led along it.
            self.release_path(&mut next, true, out);
        }
        if is_unused {
            self.release_all(id, true, out);
            out.push(LabelEffect::Wake(retry));
        }
    }

    /// Releases the labels of the current and former paths, and the metadata number.
    pub(super) fn release_all(&mut self, id: RouteId, confirmed: bool, out: &mut Vec<LabelEffect>) {
        let Some(mut route) = self.all.remove(&id).expected() else { return };
        let former = std::mem::take(&mut route.former);
        former.into_iter().for_each(|mut path| self.release_path(&mut path, confirmed, out));
        self.release_path(&mut route.path, confirmed, out);
        if let Some(number) = route.metadata.take() {
            self.metadata.remove(&number);
            self.dirty.insert((route.key.ingress, id));
        }
        self.all.insert(id, route);
    }

    /// Gives back the labels of a path. `confirmed` says that no rule leads to them any more.
    pub(super) fn release_path(&mut self, path: &mut LabelledPath, confirmed: bool, out: &mut Vec<LabelEffect>) {
        if let Some(serial) = path.serial.take() {
            self.requests.remove(&serial);
            path.onward.release(holder(self.shard, serial), confirmed, out);
        }
    }
}

/// Returns the function from a port to the holder of its label, for the request with this serial number.
fn holder(shard: ShardId, serial: u64) -> impl Fn(PortNo) -> Holder {
    move |port| Holder::Route { shard, serial, port }
}
