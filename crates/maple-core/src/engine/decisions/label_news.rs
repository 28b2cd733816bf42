//! News of labels: what they mean for the routes that asked for them, and so for leaves.

use maple_wire::Dpid;

use super::Decisions;
use crate::engine::context::messages::EngineMessage;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::RouteNews;
use crate::labels::{Holder, News};

impl Decisions {
    /// Handles news of a label that a route or label of this shard asked for.
    pub(in crate::engine) fn label_news(&mut self, fabric: &mut Fabric, from: Dpid, holder: Holder, news: &News) {
        let is_known = match holder {
            Holder::Label { switch, serial, .. } => {
                fabric.switches.get(&switch).is_some_and(|s| s.paths.labels.knows(serial))
            }
            Holder::Route { serial, .. } => fabric.routes.knows(serial),
        };
        if !is_known {
            // The holder is gone, and its release may have been lost.
            return fabric.ctx.send_to_shard_of(from, EngineMessage::Release { at: from, holder, confirmed: true });
        }
        match holder {
            Holder::Label { switch, serial, port } => {
                fabric.with_labels(switch, |labels, _, out| labels.learn(serial, port, news, out));
            }
            Holder::Route { serial, port, .. } => {
                let mut effects = Vec::new();
                let came = fabric.routes.learn(serial, port, news, fabric.ctx.now, &mut effects);
                match came {
                    Some(RouteNews::Ready(leaves)) => {
                        leaves.into_iter().for_each(|leaf| self.route_is_ready(fabric, leaf))
                    }
                    Some(RouteNews::NextReady(route)) => self.switch_to_next_path(fabric, route),
                    Some(RouteNews::Refused(route, why)) => self.route_is_refused(fabric, route, why),
                    None => {}
                }
                fabric.apply_label_effects(effects, Timer::Routes);
            }
        }
    }
}
