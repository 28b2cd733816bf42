//! Audits: periodically, the engine asks each switch which rules it has. It repairs missing, altered and unknown rules,
//! and reports rules of others that take packets from ours.
//!
//! The load on a switch and its connection is bounded as for polls: one request at a time, none while much waits to be
//! sent, and after an answer a pause of [`REST_FACTOR`] times the duration of the answer.
//!
//! An audit itself only notices wrong rules. To repair them, the engine reads and compares all rules again, and sends
//! the difference in a safe order ([`Switches::reread`]), as after a refusal. A switch may confirm a change that it has
//! not made, so another audit follows soon. Only when that audit finds the rules right does a report call them
//! repaired. If two such audits find them wrong again, an error is reported. The pauses between further attempts grow.
//!
//! A switch that has meters of ours is asked for these too (`fabric/route_meters.rs`). They are known before its rules
//! are, so that a rule that is sent again finds its meter.

use std::time::Duration;

use maple_wire::msg::stats::{FlowStatsRequest, ReplyBody, RequestBody, StatsReply, StatsRequest};
use maple_wire::{Constraint, Dpid, Match, Message};

use super::Switches;
use crate::engine::context::Context;
use crate::engine::context::timers::Timer;
use crate::engine::messages::event::Effect;
use crate::engine::one_switch::cookies::{is_of_watch, is_ours};
use crate::engine::one_switch::counters::audit_state::{AfterAudit, Judgement, WrongRules};
use crate::engine::one_switch::counters::polls::REST_FACTOR;
use crate::engine::one_switch::tables::AuditFindings;
use crate::report::{Report, rule_line};
use crate::rule::Rule;

/// The pause before a switch that could not be asked is asked again. Chosen: it is far shorter than the period of
/// audits, and long enough for a table to be read.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The number of steps over which the first audits of switches are spread within the period. A step comes from four
/// bits of a hash of the datapath id.
const FIRST_AUDIT_STEPS: u32 = 16;

impl Switches {
    /// Plans the first audit of a switch.
    pub fn plan_first_audit(&mut self, ctx: &mut Context, dpid: Dpid) {
        let step = 1 + (dpid.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as u32;
        self.plan_audit(ctx, dpid, ctx.options.audit * step / FIRST_AUDIT_STEPS);
    }

    fn plan_audit(&mut self, ctx: &mut Context, dpid: Dpid, wait: Duration) {
        let due = ctx.now() + wait;
        if let Some(switch) = self.get_mut(&dpid).filter(|_| !ctx.options.audit.is_zero()) {
            switch.counters.audits.plan(due);
            ctx.wake_at(due, Timer::Audit(dpid));
        }
    }

    /// Asks a switch for its rules, if that is due.
    pub fn audit(&mut self, ctx: &mut Context, dpid: Dpid) {
        let now = ctx.now();
        // The timer may be one of an earlier connection.
        let Some(switch) = self.get_mut(&dpid).filter(|switch| switch.counters.audits.is_due(now)) else { return };
        if !switch.tables.is_ready() || switch.restoring.is_some() {
            return self.plan_audit(ctx, dpid, RETRY_AFTER);
        }
        if switch.tables.is_audited() {
            // The switch takes longer than the period to answer.
            return self.plan_audit(ctx, dpid, ctx.options.audit);
        }
        let meters = switch.ask_for_meters_there();
        ctx.add_all_after_rules(meters.map(|(xid, message)| Effect::Poll { dpid, xid, message }));
        let Some(switch) = self.known_mut(dpid) else { return };
        let xid = switch.tables.take_xid();
        switch.tables.begin_audit(xid);
        switch.counters.audits.on_asked(now);
        let message = Message::StatsRequest(StatsRequest::new(RequestBody::Flow(FlowStatsRequest::all())));
        ctx.add_after_rules(Effect::Poll { dpid, xid, message });
        // An audit that is given up has no answer.
        self.plan_audit(ctx, dpid, ctx.options.audit);
    }

    /// Gives up an audit whose request was not sent, or which the switch refuses.
    pub fn on_audit_failed(&mut self, ctx: &mut Context, dpid: Dpid, was_sent: bool) {
        if let Some(switch) = self.get_mut(&dpid) {
            switch.tables.give_up_audit();
            self.plan_audit(ctx, dpid, if was_sent { ctx.options.audit } else { RETRY_AFTER });
        }
    }

    /// Handles an answer, or a part of it.
    pub fn on_audit_answered(&mut self, ctx: &mut Context, dpid: Dpid, reply: &mut StatsReply) {
        let Some(switch) = self.known_mut(dpid) else { return };
        if let ReplyBody::Flow(flows) = &mut reply.body {
            // The temporary rules of watches do not belong to the tables.
            flows.retain(|flow| !is_of_watch(flow.cookie));
            switch.tables.audit_part(flows, is_ours);
        }
        if reply.more() {
            return;
        }
        switch.end_count_reading(ctx.now());
        let took = switch.counters.audits.since_asked(ctx.now());
        let findings = switch.tables.end_audit();
        let rest = took * REST_FACTOR;
        self.plan_audit(ctx, dpid, ctx.options.audit.max(rest));
        ctx.stats.audits += 1;
        if let Some(mut findings) = findings {
            self.judge_foreign(ctx, dpid, std::mem::take(&mut findings.foreign));
            self.repair(ctx, dpid, findings, rest);
        }
    }

    /// Repairs what is wrong, and reports what is right again. The switch is not asked again before `rest` has passed.
    fn repair(&mut self, ctx: &mut Context, dpid: Dpid, findings: AuditFindings, rest: Duration) {
        let Some(switch) = self.known_mut(dpid) else { return };
        let version = switch.version();
        let Judgement { repaired, unrepaired, next } = switch.counters.audits.judge(ctx.now(), version, findings);
        if let Some(WrongRules { missing, altered, unknown, example }) = repaired {
            ctx.stats.rules_repaired += (missing + altered + unknown) as u64;
            ctx.report(Report::RulesRepaired { switch: dpid, missing, altered, unknown, example });
        }
        if let Some((count, example)) = unrepaired {
            ctx.report(Report::RulesNotRepaired { switch: dpid, count, example });
        }
        match next {
            AfterAudit::Nothing => {}
            AfterAudit::AskAgain => self.plan_audit(ctx, dpid, RETRY_AFTER.max(rest)),
            AfterAudit::Repair(pause) => {
                self.plan_audit(ctx, dpid, pause.max(rest));
                self.reread(ctx, dpid);
            }
        }
    }

    /// Keeps the foreign rules, and reports those that take packets from ours, each once while it is there.
    fn judge_foreign(&mut self, ctx: &mut Context, dpid: Dpid, foreign: Vec<(u8, Rule)>) {
        let Some(switch) = self.known_mut(dpid) else { return };
        let new = switch.counters.audits.take_foreign(foreign);
        let ours: Vec<(u8, Rule)> = if new.is_empty() { Vec::new() } else { switch.tables.installed().collect() };
        let version = switch.version();
        for (table, rule) in new {
            let is_below = |(of, below): &&(u8, Rule)| {
                *of == table && below.priority <= rule.priority && overlap(&rule.matching, &below.matching)
            };
            let mut below = ours.iter().filter(is_below);
            if let Some((_, first)) = below.next() {
                let (foreign, first) =
                    (rule_line(version, table, &rule).into(), rule_line(version, table, first).into());
                ctx.stats.foreign_rules += 1;
                ctx.report(Report::ForeignRule { switch: dpid, foreign, taken_from: 1 + below.count(), first });
            }
        }
    }
}

/// Reports whether a packet may fit both matches: they agree in the known bits that both fix.
fn overlap(a: &Match, b: &Match) -> bool {
    let agree = |x: &Constraint, y: &Constraint| x.field != y.field || (x.value ^ y.value) & x.mask & y.mask == 0;
    a.constraints().all(|x| b.constraints().all(|y| agree(x, y)))
}
