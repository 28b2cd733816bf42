//! The meters of routes at the switch where their packets enter.

use maple_wire::msg::stats::{ReplyBody, StatsReply};
use maple_wire::{Dpid, Version};

use super::Fabric;
use crate::engine::context::timers::Timer;
use crate::engine::one_switch::paths::meters::{MAX_LIMITS, SWEEP, metered};
use crate::report::{Report, ReportSubject};
use crate::route::Meter;
use crate::rule::Rule;

impl Fabric {
    /// Returns the number of a route's meter at its ingress. `Err` if it needs a meter that it cannot have.
    pub fn meter_number(&mut self, ingress: Dpid, meter: Option<&Meter>) -> Result<Option<u32>, ()> {
        let limit = match meter {
            None => return Ok(None),
            Some(Meter::Number(number)) => return Ok(Some(*number)),
            Some(Meter::Limit(limit)) => limit,
        };
        let Some(switch) = self.switches.known_mut(ingress) else { return Err(()) };
        if switch.version() == Version::Of10 {
            self.report_no_meter(ingress, "OpenFlow 1.0 has none");
            return Ok(None);
        }
        let (was_empty, was_refused) = (switch.paths.meters.is_empty(), switch.paths.meters.is_refused());
        let number = switch.paths.meters.number(limit);
        if number.is_none() && !was_refused {
            self.report_no_meter(ingress, &format!("it has {MAX_LIMITS} already"));
        } else if was_empty && number.is_some() {
            self.ctx.wake_at(self.ctx.now() + SWEEP, Timer::Meters(ingress));
        }
        number.map(Some).ok_or(())
    }

    /// Reports that a switch has no meter for a limit, once for each reason.
    pub fn report_no_meter(&mut self, switch: Dpid, why: &str) {
        let report = Report::NotMetered { switch, why: why.into() };
        self.ctx.report_once(ReportSubject::Switch(switch), &format!("{switch} {why}"), report);
    }

    /// Sweeps the unused meters of a switch.
    pub fn sweep_meters(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.known_mut(dpid) else { return };
        let mut needed = self.routes.meters_at(dpid);
        let rules = switch.tables.installed();
        needed.extend(rules.flat_map(|(_, rule)| rule.instructions.iter().filter_map(metered).collect::<Vec<_>>()));
        let requests = switch.paths.meters.sweep(&needed);
        if !switch.paths.meters.is_empty() {
            self.ctx.wake_at(self.ctx.now() + SWEEP, Timer::Meters(dpid));
        }
        let requests = switch.ask_for_meters(requests);
        switch.request_in_turn(&mut self.ctx, requests);
    }

    /// Handles a switch's report of its meters, or a part of it.
    pub fn on_meters_read(&mut self, dpid: Dpid, reply: &StatsReply) {
        let Some(switch) = self.switches.known_mut(dpid) else { return };
        if let ReplyBody::MeterConfig(meters) = &reply.body {
            switch.paths.meters.audit_part(meters);
        }
        if reply.more() {
            return;
        }
        let (requests, missing, altered) = switch.paths.meters.end_audit();
        if requests.is_empty() {
            return;
        }
        let requests = switch.ask_for_meters(requests);
        self.ctx.stats.meters_repaired += (missing + altered) as u64;
        self.ctx.report(Report::MetersRepaired { switch: dpid, missing, altered });
        switch.request_in_turn(&mut self.ctx, requests);
    }

    /// Gives up an audit of meters: the switch was not asked for them, or refuses to report them.
    pub fn on_meters_unread(&mut self, dpid: Dpid, is_refused: bool) {
        if let Some(switch) = self.switches.get_mut(&dpid) {
            switch.paths.meters.give_up_audit(is_refused);
        }
    }

    /// Makes the meter of a rule again that was refused because the meter is missing.
    pub fn on_meter_lost(&mut self, dpid: Dpid, rule: &Rule) {
        let Some(switch) = self.switches.known_mut(dpid) else { return };
        switch.paths.meters.lose(self.ctx.now(), rule);
        self.ctx.stats.meters_repaired += 1;
        self.ctx.report(Report::MetersRepaired { switch: dpid, missing: 1, altered: 0 });
        self.switches.reread(&mut self.ctx, dpid);
    }
}
