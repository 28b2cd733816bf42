//! Pacing: limits the rule changes that a switch is sent per second ([`crate::engine::Options::flow_mod_rate`]).
//!
//! Many hardware switches write some hundreds of rules a second, and answer nothing while more than that waits for
//! them. So messages wait here, in order, until their turn comes; only packet-outs and polls go past them. An update
//! begins when the switch has confirmed the one before (`tables`). Changes that come meanwhile are sent as one
//! difference, so at most one update waits, however much happens.

use maple_wire::Dpid;

use super::Switches;
use crate::engine::context::Context;

impl Switches {
    /// Sends the changes for a switch that are due, because its timer has fired.
    pub fn pace(&mut self, ctx: &mut Context, dpid: Dpid) {
        if let Some(switch) = self.get_mut(&dpid) {
            switch.on_pace_timer(ctx);
        }
    }
}
