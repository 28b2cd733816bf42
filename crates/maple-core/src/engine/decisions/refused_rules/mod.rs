//! Rules that a switch refuses: what is withdrawn, what is tried again, and when.
//!
//! A refused rule of a leaf or label takes that leaf or label out. A refused rule of a host or a route leaves the
//! others alone. A switch that refuses something in several updates in a row gets no new rules for a while. After any
//! refusal the switch is asked which rules it has ([`Switches::reread`](crate::engine::switches::Switches::reread)). That holds for a refused rule of a bundle as
//! well, although the bundle has changed nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use maple_wire::msg::{ErrorMsg, Experimenter};
use maple_wire::{Dpid, Instruction, Match, Version, print};

use super::Decisions;
use crate::engine::context::event::Effect;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::one_switch::cookies::{Subject, subject_of};
use crate::engine::one_switch::paths::RouteTable;
use crate::engine::one_switch::tables::{RefusedRequest, Waiter};
use crate::engine::one_switch::{Stale, Switch};
use crate::labels::Refusal;
use crate::report::{Report, ReportKind, ReportSubject, rule_line};
use crate::rule::Rule;
use crate::update::key_of;

/// The errors about instructions (1.3 §7.4.4.4) which say that a switch does not have one: `OFPBIC_UNKNOWN_INST` and
/// `OFPBIC_UNSUP_INST`.
const NOT_AN_INSTRUCTION: [u16; 2] = [0, 1];
/// The errors about actions (1.3 §7.4.4.3) of switches that do not take them in a set: `OFPBAC_BAD_TYPE`, `TOO_MANY`,
/// `MATCH_INCONSISTENT`, `UNSUPPORTED_ORDER`, `BAD_SET_TYPE`.
const NOT_IN_SETS: [u16; 5] = [0, 7, 10, 11, 13];

/// The time for which a switch that refused a host's rule gets no rules of hosts. It must exceed the 60 seconds for
/// which its table counts as full (`room/capacity.rs`).
const HOSTS_CLOSED_FOR: Duration = Duration::from_secs(61);

impl Decisions {
    /// Handles a switch's refusal of a request. What was sent with it is taken back, so that the earlier rules, which
    /// the switch had before, stay right by themselves. Returns `false` if the request was for something else than
    /// rules and meters.
    pub fn on_switch_error(&mut self, fabric: &mut Fabric, dpid: Dpid, xid: u32, error: &ErrorMsg) -> bool {
        if self.on_meter_refused(fabric, dpid, xid, error) {
            return true;
        }
        let Some(switch) = fabric.switches.known_mut(dpid) else { return true };
        match switch.tables.refuse(xid, is_of_bundle(error, switch.version())) {
            Some(RefusedRequest::Rule(table, rule)) => self.on_rule_refused(fabric, dpid, table, &rule, error),
            Some(RefusedRequest::Deletion(table, rule)) => on_deletion_refused(fabric, dpid, table, &rule, error),
            Some(RefusedRequest::Bundle) => on_bundle_refused(fabric, dpid, error),
            None => return false,
        }
        true
    }

    /// Handles the refusal of a rule.
    fn on_rule_refused(&mut self, fabric: &mut Fabric, dpid: Dpid, table: u8, rule: &Rule, error: &ErrorMsg) {
        if fabric.on_meter_lost(dpid, rule, error) {
            return;
        }
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let full = error.number() == ErrorMsg::table_full(switch.version());
        if !full && is_of_action_set(switch, table, rule, error) {
            return do_without_action_sets(fabric, dpid, table, rule, error);
        }
        if !full && is_needed(switch, table, rule) {
            return use_fewer_tables(fabric, dpid, table, rule, error);
        }
        let what = refusal(switch.version(), table, rule, error);
        if is_of_way(switch, table, rule, error) {
            return on_way_refused(fabric, dpid, table, rule, what);
        }
        if self.give_up_look_ups(fabric, dpid, (table, rule), full) {
            return report_refusal(fabric, dpid, what);
        }
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        if switch.ports.host_rules.refuse(rule, fabric.ctx.now() + HOSTS_CLOSED_FOR) {
            return on_host_rule_refused(fabric, dpid, table, full, what);
        }
        let carries = |instruction: &Instruction| matches!(instruction, Instruction::WriteMetadata { .. });
        if switch.has_pipeline()
            && (table == switch.layout().routes() || !full && rule.instructions.iter().any(carries))
        {
            return self.on_route_rule_refused(fabric, dpid, table, rule, what);
        }
        let is_hopeless = count_refusal(fabric, dpid, table, rule, full);
        report_refusal(fabric, dpid, what);
        self.remove_suspects(fabric, dpid, rule.cookie, full, is_hopeless);
        fabric.switches.reread(&mut fabric.ctx, dpid);
    }

    /// Removes the leaves and labels that the refusal concerns. If the switch refuses again and again, they are all of
    /// its leaves and labels. If it is full, they are all that it has not confirmed. Otherwise it is the refused rule's
    /// leaf or label, or all unconfirmed ones if that is not known.
    fn remove_suspects(&mut self, fabric: &mut Fabric, dpid: Dpid, cookie: u64, full: bool, is_hopeless: bool) {
        let culprit = subject_of(fabric.ctx.options.epoch, cookie);
        let suspects =
            if is_hopeless { Decisions::all_subjects_at(fabric, dpid) } else { unconfirmed_at(fabric, dpid) };
        let innocent = |subject: &Subject| !full && !is_hopeless && culprit.is_some_and(|culprit| culprit != *subject);
        for subject in suspects.into_iter().chain(culprit).filter(|subject| !innocent(subject)) {
            match subject {
                Subject::Label(serial) => {
                    let why = if full { Refusal::Full(dpid) } else { Refusal::RuleRefused(dpid) };
                    if is_hopeless && culprit != Some(subject) {
                        fabric.revoke_label(dpid, serial, why);
                    } else {
                        fabric.deny_label(dpid, serial, why);
                    }
                }
                // It was withdrawn while the switch refused its rule.
                Subject::Dependent(id) if self.leaves.get(&id.possible_leaf()).is_none() => {}
                Subject::Dependent(id) if is_hopeless => self.withdraw(fabric, id.possible_leaf()),
                Subject::Dependent(id) if full => self.evict_leaf(fabric, id.possible_leaf()),
                Subject::Dependent(id) => self.forward_by_controller(fabric, id.possible_leaf()),
            }
        }
    }

    /// Handles the refusal of a rule of the table of routes, or of one that leads there. Afterwards the rules of leaves
    /// carry their routes' actions.
    fn on_route_rule_refused(&mut self, fabric: &mut Fabric, dpid: Dpid, table: u8, rule: &Rule, what: String) {
        report_refusal(fabric, dpid, what);
        if let Some(switch) = fabric.switches.get_mut(&dpid) {
            switch.paths.route_table = RouteTable::Refused;
            let routes = switch.layout().routes();
            if (table, rule.priority) == (routes, 0) {
                let again = switch.room.postpone(fabric.ctx.now(), routes, key_of(rule));
                switch.mark_stale(Stale::CLASSIFIER);
                fabric.ctx.wake_at(again, Timer::RetryRules(dpid));
            }
        }
        for route in fabric.routes.with_rules_at(dpid) {
            self.close_route(fabric, route);
            fabric.routes.drop_rule(route);
        }
        fabric.sync_route_rules();
        fabric.switches.reread(&mut fabric.ctx, dpid);
    }

    /// Tries again what a switch refused, as far as its pauses are over.
    pub fn retry_refused_rules(fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.get_mut(&dpid) else { return };
        let is_open = switch.room.reopen(fabric.ctx.now());
        let retries_deletions = switch.tables.retry_deletions(fabric.ctx.now());
        if switch.ports.host_rules.reopen(fabric.ctx.now()) || retries_deletions {
            fabric.mark_dirty(dpid);
        }
        if is_open {
            fabric.mark_stale(dpid, Stale::CLASSIFIER);
        }
    }

    /// Reports whether an error is about a meter. At the first refusal, the leaves under limits there are withdrawn,
    /// and the switch gets no more meters.
    fn on_meter_refused(&mut self, fabric: &mut Fabric, dpid: Dpid, xid: u32, error: &ErrorMsg) -> bool {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return false };
        let Some(is_news) = switch.paths.meters.refuse(xid, error) else { return false };
        if is_news {
            fabric.report_no_meter(dpid, &format!("it refused one: {}", print::error_name(Version::Of13, error)));
            self.withdraw_all(fabric, fabric.routes.limited_leaves_at(dpid));
        }
        true
    }
}

/// Handles the refusal to delete a rule. The deletion is tried again after a pause that grows.
fn on_deletion_refused(fabric: &mut Fabric, dpid: Dpid, table: u8, rule: &Rule, error: &ErrorMsg) {
    let Some(switch) = fabric.switches.known_mut(dpid) else { return };
    let until = switch.tables.postpone_deletion(fabric.ctx.now(), table, rule);
    let what = format!("the deletion of {}", refusal(switch.version(), table, rule, error));
    fabric.ctx.wake_at(until, Timer::RetryRules(dpid));
    report_refusal(fabric, dpid, what);
    fabric.switches.reread(&mut fabric.ctx, dpid);
}

/// Handles the refusal of a host's rule in the classifier. That host's packets come to the controller; everything
/// else stays.
fn on_host_rule_refused(fabric: &mut Fabric, dpid: Dpid, table: u8, full: bool, what: String) {
    let until = fabric.ctx.now() + HOSTS_CLOSED_FOR;
    fabric.ctx.wake_at(until, Timer::RetryRules(dpid));
    report_refusal(fabric, dpid, what);
    if let Some(switch) = fabric.switches.get_mut(&dpid).filter(|_| full) {
        switch.room.capacity.on_table_full(table);
    }
    fabric.switches.reread(&mut fabric.ctx, dpid);
}

/// Handles the refusal of a bundle as such. Later updates of the switch take two steps.
fn on_bundle_refused(fabric: &mut Fabric, dpid: Dpid, error: &ErrorMsg) {
    let why = print::error_name(Version::Of13, error).into();
    let report = Report::BundleRefused { switch: dpid, why };
    fabric.ctx.report_once(ReportKind::Refused, ReportSubject::Switch(dpid), &format!("bundle {dpid}"), report);
    fabric.switches.reread(&mut fabric.ctx, dpid);
}

/// Gives a switch the layout for the tables before one that takes no rule, although the switch has announced it, with a
/// new connection.
fn use_fewer_tables(fabric: &mut Fabric, dpid: Dpid, table: u8, rule: &Rule, error: &ErrorMsg) {
    let Some(switch) = fabric.switches.known(dpid) else { return };
    let what = refusal(switch.version(), table, rule, error);
    // Each table refuses its first rule.
    let Some(tables) = fabric.switches.note_fewer_tables(dpid, table) else { return };
    fabric.ctx.stats.refused_rules += 1;
    fabric.ctx.report(Report::FewerTables { switch: dpid, tables, what: what.into() });
    fabric.ctx.add_effect(Effect::Reconnect { dpid });
}

/// Reports whether a switch refuses a rule because of what it does to the action set of packets: it does not have the
/// instruction, or has actions that it does not take in a set.
fn is_of_action_set(switch: &Switch, table: u8, rule: &Rule, error: &ErrorMsg) -> bool {
    let sent = switch.tables.action_sets().to_switch(table, rule.instructions.to_vec());
    let lacks_it = error.kind == ErrorMsg::BAD_INSTRUCTION && NOT_AN_INSTRUCTION.contains(&error.code);
    let not_in_sets = error.kind == ErrorMsg::BAD_ACTION && NOT_IN_SETS.contains(&error.code);
    let is_blamed = |instruction: &Instruction| match instruction {
        Instruction::WriteActions(_) => lacks_it || not_in_sets,
        Instruction::ClearActions => lacks_it,
        _ => false,
    };
    switch.layout().has_action_sets() && sent.iter().any(is_blamed)
}

/// Reports whether a switch refuses a key's rule because of the way that it writes: for example, a port of it has gone.
fn is_of_way(switch: &Switch, table: u8, rule: &Rule, error: &ErrorMsg) -> bool {
    let says_way = |instruction: &Instruction| matches!(instruction, Instruction::WriteActions(_));
    let is_of_key = switch.layout().look_ups().contains(&table) && rule.instructions.iter().any(says_way);
    switch.layout().has_action_sets() && is_of_key && error.kind == ErrorMsg::BAD_ACTION
}

/// Handles the refusal of the way that a key's rule writes. The controller sends its packets until the way is another one.
fn on_way_refused(fabric: &mut Fabric, dpid: Dpid, table: u8, rule: &Rule, what: String) {
    report_refusal(fabric, dpid, what);
    if fabric.switches.get_mut(&dpid).is_some_and(|switch| switch.ingress.look_ups.refuse_way(table, rule)) {
        fabric.mark_dirty(dpid);
    }
    fabric.switches.reread(&mut fabric.ctx, dpid);
}

/// Lets a switch do without action sets, which it does not have, with a new connection.
fn do_without_action_sets(fabric: &mut Fabric, dpid: Dpid, table: u8, rule: &Rule, error: &ErrorMsg) {
    let Some(switch) = fabric.switches.known(dpid) else { return };
    let what = refusal(switch.version(), table, rule, error);
    // Each rule is refused.
    if fabric.switches.note_no_action_sets(dpid) {
        fabric.ctx.stats.refused_rules += 1;
        fabric.ctx.report(Report::NoActionSets { switch: dpid, what: what.into() });
        fabric.ctx.add_effect(Effect::Reconnect { dpid });
    }
}

/// Notes a refused rule. Returns whether the switch refuses so often that it gets no new rules for a while.
fn count_refusal(fabric: &mut Fabric, dpid: Dpid, table: u8, rule: &Rule, full: bool) -> bool {
    let Some(switch) = fabric.switches.known_mut(dpid) else { return false };
    switch.mark_stale(Stale::CLASSIFIER);
    // After the first refusal of an update the switch is being read and is not ready.
    let begins_update = switch.tables.is_ready();
    let pauses = switch.room.refuse(fabric.ctx.now(), table, key_of(rule), begins_update);
    if full {
        switch.room.capacity.on_table_full(table);
    }
    for until in [pauses.rule_until, pauses.switch_until] {
        fabric.ctx.wake_at(until, Timer::RetryRules(dpid));
    }
    pauses.is_closed
}

fn report_refusal(fabric: &mut Fabric, dpid: Dpid, what: String) {
    fabric.ctx.stats.refused_rules += 1;
    let report = Report::RuleRefused { switch: dpid, what: what.into() };
    fabric.ctx.report_once(ReportKind::Refused, ReportSubject::Switch(dpid), &format!("rule {dpid}"), report);
}

/// Returns the leaves and labels with rules that the switch has not confirmed.
fn unconfirmed_at(fabric: &Fabric, dpid: Dpid) -> BTreeSet<Subject> {
    let mut subjects = BTreeSet::new();
    for waiter in fabric.switches.get(&dpid).into_iter().flat_map(|switch| switch.tables.waiters()) {
        match waiter {
            Waiter::RuleAdded(leaf, _) => subjects.extend([Subject::from(*leaf)]),
            Waiter::Labels(serials) => subjects.extend(serials.iter().copied().map(Subject::Label)),
            Waiter::RuleRemoved { .. }
            | Waiter::WayEnded { .. }
            | Waiter::FormerPath { .. }
            | Waiter::LookUps
            | Waiter::Barriers(_) => {}
        }
    }
    subjects
}

/// Reports whether a refused rule is one that the layout with several tables rests on.
fn is_needed(switch: &Switch, table: u8, rule: &Rule) -> bool {
    let layout = switch.layout();
    let rests_on = layout.look_ups().chain([layout.ingress(), layout.labels()]).any(|needed| needed == table);
    switch.has_pipeline() && rests_on && (rule.priority, &rule.matching) == (0, &Match::any())
}

/// Returns the refused rule and the error, in words for people.
fn refusal(version: Version, table: u8, rule: &Rule, error: &ErrorMsg) -> String {
    format!("{}, error {}", rule_line(version, table, rule), print::error_name(version, error))
}

/// Reports whether an error is about a bundle, and not about the message in it: the ONF's errors from `OFPBFC_UNKNOWN`
/// to `OFPBFC_BUNDLE_IN_PROGRESS`, and those of switches that do not know the messages of bundles.
fn is_of_bundle(error: &ErrorMsg, version: Version) -> bool {
    let is_onf = || error.data.starts_with(&Experimenter::ONF.to_be_bytes());
    version == Version::Of13
        && match error.number() {
            (ErrorMsg::EXPERIMENTER, 2300..=2315) => is_onf(),
            number => [ErrorMsg::BAD_EXPERIMENTER, ErrorMsg::BAD_EXPERIMENTER_TYPE].contains(&number),
        }
}

#[cfg(test)]
mod tests;
