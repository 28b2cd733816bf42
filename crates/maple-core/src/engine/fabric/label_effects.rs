//! What label tables and routes ask for: labels of other switches, news to holders, rules in the tables of routes.
//!
//! Next on a packet's way: [`crate::engine::decisions::add_leaf`].

use maple_wire::Dpid;

use super::Fabric;
use crate::engine::context::timers::Timer;
use crate::engine::messages::mail::EngineMessage;
use crate::engine::one_switch::cookies::dependent_cookie;
use crate::engine::tools::expected::Expected;
use crate::labels::{Holder, LabelEffect, News, Refusal};

impl Fabric {
    /// Carries out what label tables and routes ask for.
    pub fn apply_label_effects(&mut self, effects: Vec<LabelEffect>, timer: Timer) {
        for effect in effects {
            match effect {
                LabelEffect::Ask(asked) => match self.ctx.store.snapshot().shard_of(asked.at.switch) {
                    Some(shard) => self.ctx.send_to_shard(shard, EngineMessage::Acquire(asked)),
                    None => {
                        let gone = asked.at.switch;
                        self.notify_holder(gone, asked.holder, News::Refused(Refusal::Gone(gone)));
                    }
                },
                LabelEffect::Tell(holder, news) => {
                    // Only label tables send news to holders, and their timer names the switch.
                    let from = if let Timer::Labels(switch) = timer { Some(switch) } else { None };
                    let Some(from) = from.expected() else { continue };
                    self.notify_holder(from, holder, news);
                }
                LabelEffect::Release { at, holder, confirmed } => {
                    self.ctx.send_to_shard_of(at, EngineMessage::Release { at, holder, confirmed });
                }
                LabelEffect::Wake(time) => self.ctx.wake_at(time, timer),
            }
        }
        self.sync_route_rules();
    }

    /// Updates the rules in the tables of routes.
    pub fn sync_route_rules(&mut self) {
        for (ingress, id) in self.routes.take_dirty() {
            // A route ends after its switch.
            let Some(switch) = self.switches.get_mut(&ingress) else { continue };
            let epoch = self.ctx.options.epoch;
            let rule = self.routes.get(id).and_then(|route| route.rule(|dependent| dependent_cookie(epoch, dependent)));
            switch.paths.route_rules.set(id, rule);
            self.mark_dirty(ingress);
        }
        for dependent in self.routes.take_ended() {
            self.ctx.store.forget(dependent);
        }
    }

    /// Sends news of a label of this switch to its holder.
    pub fn notify_holder(&mut self, from: Dpid, holder: Holder, news: News) {
        match holder {
            Holder::Route { shard, .. } => self.ctx.send_to_shard(shard, EngineMessage::LabelNews(from, holder, news)),
            Holder::Label { switch, .. } => {
                self.ctx.send_to_shard_of(switch, EngineMessage::LabelNews(from, holder, news))
            }
        }
    }
}
