//! Pacing: limits the rule changes that a switch is sent per second ([`crate::engine::Options::flow_mod_rate`]).
//!
//! Many hardware switches write some hundreds of rules a second, and answer nothing while more than that waits for
//! them. So messages wait here, in order, until their turn comes; only packet-outs and polls go past them. An update
//! begins when the switch has confirmed the one before (`tables`). Changes that come meanwhile are sent as one
//! difference, so at most one update waits, however much happens.

use std::collections::VecDeque;
use std::time::Duration;

use maple_wire::Message;

use super::Switch;
use super::tables::Requests;
use crate::engine::context::Context;
use crate::engine::context::timers::Timer;
use crate::engine::messages::event::Effect;
use crate::ids::Time;

/// The span of time whose share of changes may be sent at once. Chosen: timers do not fire more often than that, and a
/// switch can queue the changes of ten milliseconds.
const BURST: Duration = Duration::from_millis(10);
/// The time that a reroute may take if switches are paced, at least: the labels of the new path wait for their turn.
/// Chosen: at a hundred changes a second it is the time of three thousand.
pub(in crate::engine) const PACED_REROUTE_TIMEOUT: Duration = Duration::from_secs(30);

/// The effects that wait for one switch.
#[derive(Debug, Default)]
pub(in crate::engine) struct Pacing {
    queue: VecDeque<Effect>,
    /// The time when the next change would be due if changes were evenly spaced.
    next: Time,
    /// Whether a timer is set.
    pub is_armed: bool,
}

impl Pacing {
    /// Moves the effects whose turn it is to `out`; changes are `distance` apart. Returns when the next one is due, if
    /// one waits.
    fn take_due(&mut self, now: Time, distance: Duration, out: &mut Vec<Effect>) -> Option<Time> {
        while let Some(effect) = self.queue.front() {
            if is_change(effect) {
                if self.next > now + BURST {
                    return Some(Time(self.next.0 - BURST.as_nanos() as u64));
                }
                self.next = self.next.max(now) + distance;
            }
            out.extend(self.queue.pop_front());
        }
        None
    }
}

/// Reports whether an effect makes a switch write a rule, a group or a meter.
fn is_change(effect: &Effect) -> bool {
    let Effect::Send { message, .. } = effect else { return false };
    matches!(message, Message::FlowMod(_) | Message::BundleAdd(_) | Message::GroupMod(_) | Message::MeterMod(_))
}

impl Switch {
    /// Queues effects for the switch after all that wait for it, and sends those whose turn it is.
    pub fn send_in_turn(&mut self, ctx: &mut Context, effects: impl IntoIterator<Item = Effect>) {
        self.pacing.queue.extend(effects);
        self.send_due(ctx);
    }

    /// Queues requests for the switch after all that wait for it, and sends those whose turn it is.
    pub fn request_in_turn(&mut self, ctx: &mut Context, requests: Requests) {
        let dpid = self.dpid;
        self.send_in_turn(ctx, requests.into_iter().map(|(xid, message)| Effect::Send { dpid, xid, message }));
    }

    /// Sends the changes that are due, because the timer has fired.
    pub fn on_pace_timer(&mut self, ctx: &mut Context) {
        self.pacing.is_armed = false;
        self.send_due(ctx);
    }

    fn send_due(&mut self, ctx: &mut Context) {
        let mut effects = Vec::new();
        let due = match ctx.options.flow_mod_rate {
            None => {
                effects.extend(self.pacing.queue.drain(..));
                None
            }
            Some(rate) => {
                let distance = Duration::from_secs(1) / rate.get();
                self.pacing.take_due(ctx.now(), distance, &mut effects)
            }
        };
        let is_flow_mod = |effect: &&Effect| {
            matches!(effect, Effect::Send { message: Message::FlowMod(_) | Message::BundleAdd(_), .. })
        };
        ctx.stats.flow_mods += effects.iter().filter(is_flow_mod).count() as u64;
        ctx.add_effects(effects);
        if let Some(due) = due.filter(|_| !self.pacing.is_armed) {
            self.pacing.is_armed = true;
            ctx.wake_at(due, Timer::Pace(self.dpid));
        }
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::Dpid;

    use super::*;
    use maple_wire::msg::{FlowMod, FlowModCommand};
    use maple_wire::{Match, msg::Message};

    fn change() -> Effect {
        let flow_mod = FlowMod::new(FlowModCommand::Add, 1, Match::any(), Vec::new());
        Effect::Send { dpid: Dpid(1), xid: 1, message: Message::FlowMod(flow_mod) }
    }

    #[test]
    fn changes_go_at_the_rate_and_what_follows_them_waits() {
        let mut pacing = Pacing::default();
        let barrier = Effect::Send { dpid: Dpid(1), xid: 2, message: Message::BarrierRequest };
        pacing.queue.extend((0..1_000).map(|_| change()).chain([barrier]));
        let (mut now, mut out, distance) = (Time(5_000_000_000), Vec::new(), Duration::from_millis(2));
        let began = now;
        while let Some(due) = pacing.take_due(now, distance, &mut out) {
            let seconds = (now.0 - began.0) as f64 / 1e9;
            assert!((out.len() as f64) <= 500.0 * seconds + 7.0, "{} after {seconds} s", out.len());
            assert!(due > now);
            now = due;
        }
        let took = Duration::from_nanos(now.0 - began.0);
        assert!((Duration::from_millis(1_980)..=Duration::from_secs(2)).contains(&took), "{took:?}");
        assert_eq!(out.len(), 1_001);
        assert!(matches!(out.last(), Some(Effect::Send { message: Message::BarrierRequest, .. })));
    }
}
