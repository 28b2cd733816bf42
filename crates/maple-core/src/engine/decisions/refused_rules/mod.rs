//! Rules that a switch refuses: what is withdrawn, what is tried again, and when.
//!
//! A refused rule of a leaf or label takes that leaf or label out. A refused rule of a host or a route leaves the
//! others alone. A switch that refuses something in several updates in a row gets no new rules for a while; so does one
//! without room for the first table's table-miss rule, because it drops what no other rule takes. After any refusal the
//! switch is asked which rules it has ([`Switches::reread`](crate::engine::switches::Switches::reread)). That holds for
//! a refused rule of a bundle as well, although the bundle has changed nothing.

mod classify;

use std::collections::BTreeSet;
use std::time::Duration;

use maple_wire::msg::{ErrorMsg, Experimenter};
use maple_wire::{Dpid, Version, print};

use super::Decisions;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::messages::event::Effect;
use crate::engine::one_switch::Stale;
use crate::engine::one_switch::cookies::{Subject, subject_of};
use crate::engine::one_switch::layout::is_first_table_miss;
use crate::engine::one_switch::paths::RouteTable;
use crate::engine::one_switch::room::capacity::FULL_FOR;
use crate::engine::one_switch::tables::{RefusedRequest, Waiter};
use crate::labels::Refusal;
use crate::report::{Report, ReportSubject, rule_line};
use crate::rule::Rule;
use crate::update::key_of;
use classify::{RefusedKind, classify};

/// The time for which a switch that refused a host's rule gets no rules of hosts. It exceeds the time
/// for which its table counts as full.
const HOSTS_CLOSED_FOR: Duration = Duration::from_secs(1).saturating_add(FULL_FOR);

/// The leaves and labels that the refusal of a rule of a leaf or label concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blamed {
    /// All at the switch, because it refuses again and again, or has no room for what all rests on.
    All,
    /// All that a full switch has not confirmed.
    Unconfirmed,
    /// The one whose rule was refused, or all that the switch has not confirmed if it is not known.
    Culprit,
}

impl Decisions {
    /// Handles a switch's refusal of a request. What was sent with it is taken back, so that the earlier rules, which
    /// the switch had before, stay right by themselves. Returns `false` if the request was for something else than
    /// rules and meters.
    pub fn on_switch_error(&mut self, fabric: &mut Fabric, dpid: Dpid, xid: u32, error: &ErrorMsg) -> bool {
        if self.on_meter_refused(fabric, dpid, xid, error) {
            return true;
        }
        let Some(switch) = fabric.switches.known_mut(dpid) else { return true };
        match switch.tables.on_refused(xid, is_of_bundle(error, switch.version())) {
            Some(RefusedRequest::Rule(table, rule)) => self.on_rule_refused(fabric, dpid, table, &rule, error),
            Some(RefusedRequest::Deletion(table, rule)) => on_deletion_refused(fabric, dpid, table, &rule, error),
            Some(RefusedRequest::Bundle) => on_bundle_refused(fabric, dpid, error),
            None => return false,
        }
        true
    }

    /// Handles the refusal of a rule.
    fn on_rule_refused(&mut self, fabric: &mut Fabric, dpid: Dpid, table: u8, rule: &Rule, error: &ErrorMsg) {
        let Some(switch) = fabric.switches.known(dpid) else { return };
        let kind = classify(switch, fabric.ctx.now(), table, rule, error);
        let what = refusal(switch.version(), table, rule, error);
        match kind {
            RefusedKind::LostMeter => fabric.on_meter_lost(dpid, rule),
            RefusedKind::ActionSet => do_without_action_sets(fabric, dpid, what),
            RefusedKind::Layout => use_fewer_tables(fabric, dpid, table, what),
            RefusedKind::Way => on_way_refused(fabric, dpid, table, rule, what),
            RefusedKind::LookUps(involved, why) => {
                self.give_up_look_ups(fabric, dpid, involved, why);
                report_refusal(fabric, dpid, what);
            }
            RefusedKind::Host { is_full } => on_host_rule_refused(fabric, dpid, table, rule, is_full, what),
            RefusedKind::Route => self.on_route_rule_refused(fabric, dpid, table, rule, what),
            RefusedKind::Leaf { is_full } => self.on_leaf_rule_refused(fabric, dpid, table, rule, is_full, what),
        }
    }

    /// Handles the refusal of a rule of a leaf or label, or of one of the engine's own.
    fn on_leaf_rule_refused(
        &mut self,
        fabric: &mut Fabric,
        dpid: Dpid,
        table: u8,
        rule: &Rule,
        is_full: bool,
        what: String,
    ) {
        let Fabric { ctx, switches, .. } = &mut *fabric;
        let Some(switch) = switches.known_mut(dpid) else { return };
        switch.mark_stale(Stale::CLASSIFIER);
        // After the first refusal of an update the switch is being read and is not ready.
        let begins_update = switch.tables.is_ready();
        let mut pauses = switch.room.refuse(ctx.now(), table, key_of(rule), begins_update);
        if is_full && is_first_table_miss(table, rule) {
            pauses = switch.room.close_for_rule(pauses);
        }
        if is_full {
            switch.room.capacity.on_table_full(table);
        }
        for until in [pauses.rule_until, pauses.switch_until] {
            ctx.wake_at(until, Timer::RetryRules(dpid));
        }
        let blamed = match (pauses.is_closed, is_full) {
            (true, _) => Blamed::All,
            (false, true) => Blamed::Unconfirmed,
            (false, false) => Blamed::Culprit,
        };
        report_refusal(fabric, dpid, what);
        let why = if is_full { Refusal::Full(dpid) } else { Refusal::RuleRefused(dpid) };
        self.remove_suspects(fabric, dpid, rule.cookie, blamed, why);
        fabric.switches.reread(&mut fabric.ctx, dpid);
    }

    /// Removes the leaves and labels that the refusal concerns. Labels are refused for the reason `why`.
    fn remove_suspects(&mut self, fabric: &mut Fabric, dpid: Dpid, cookie: u64, blamed: Blamed, why: Refusal) {
        let culprit = subject_of(fabric.ctx.options.epoch, cookie);
        let subjects = match (blamed, culprit) {
            (Blamed::All, _) => Decisions::all_subjects_at(fabric, dpid),
            (Blamed::Culprit, Some(_)) => BTreeSet::new(),
            (Blamed::Culprit, None) | (Blamed::Unconfirmed, _) => unconfirmed_at(fabric, dpid),
        };
        for subject in subjects.into_iter().chain(culprit) {
            match (subject, blamed) {
                (Subject::Label(serial), _) if culprit == Some(subject) => fabric.deny_label(dpid, serial, why),
                (Subject::Label(serial), Blamed::All) => fabric.revoke_label(dpid, serial, why),
                // One that waits only for packets from a further port has its rule, and packets come under it.
                (Subject::Label(serial), _) => fabric.refuse_label_for_capacity(dpid, serial, why),
                // It was withdrawn while the switch refused its rule.
                (Subject::Dependent(id), _) if self.leaves.get(&id.possible_leaf()).is_none() => {}
                (Subject::Dependent(id), Blamed::All) => self.withdraw(fabric, id.possible_leaf()),
                (Subject::Dependent(id), Blamed::Unconfirmed) => self.evict_leaf(fabric, id.possible_leaf()),
                (Subject::Dependent(id), Blamed::Culprit) => self.forward_by_controller(fabric, id.possible_leaf()),
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
        let Some(is_news) = switch.paths.meters.on_error(xid, error) else { return false };
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
fn on_host_rule_refused(fabric: &mut Fabric, dpid: Dpid, table: u8, rule: &Rule, is_full: bool, what: String) {
    let until = fabric.ctx.now() + HOSTS_CLOSED_FOR;
    let Some(switch) = fabric.switches.known_mut(dpid) else { return };
    switch.ports.host_rules.on_refused(rule, until);
    if is_full {
        switch.room.capacity.on_table_full(table);
    }
    fabric.ctx.wake_at(until, Timer::RetryRules(dpid));
    report_refusal(fabric, dpid, what);
    fabric.switches.reread(&mut fabric.ctx, dpid);
}

/// Handles the refusal of a bundle as such. Later updates of the switch take two steps.
fn on_bundle_refused(fabric: &mut Fabric, dpid: Dpid, error: &ErrorMsg) {
    let why = print::error_name(Version::Of13, error).into();
    let report = Report::BundleRefused { switch: dpid, why };
    fabric.ctx.report_once(ReportSubject::Switch(dpid), &format!("bundle {dpid}"), report);
    fabric.switches.reread(&mut fabric.ctx, dpid);
}

/// Gives a switch the layout for the tables before one that takes no rule, although the switch has announced it, with a
/// new connection.
fn use_fewer_tables(fabric: &mut Fabric, dpid: Dpid, table: u8, what: String) {
    // Each table refuses its first rule.
    let Some(tables) = fabric.switches.note_fewer_tables(dpid, table) else { return };
    fabric.ctx.stats.refused_rules += 1;
    fabric.ctx.report(Report::FewerTables { switch: dpid, tables, what: what.into() });
    fabric.ctx.add_effect(Effect::Reconnect { dpid });
}

/// Handles the refusal of the way that a key's rule writes. The controller sends its packets until the way is another
/// one.
fn on_way_refused(fabric: &mut Fabric, dpid: Dpid, table: u8, rule: &Rule, what: String) {
    report_refusal(fabric, dpid, what);
    if fabric.switches.get_mut(&dpid).is_some_and(|switch| switch.ingress.look_ups.refuse_way(table, rule)) {
        fabric.mark_dirty(dpid);
    }
    fabric.switches.reread(&mut fabric.ctx, dpid);
}

/// Lets a switch do without action sets, which it does not have, with a new connection.
fn do_without_action_sets(fabric: &mut Fabric, dpid: Dpid, what: String) {
    // Each rule is refused.
    if fabric.switches.note_no_action_sets(dpid) {
        fabric.ctx.stats.refused_rules += 1;
        fabric.ctx.report(Report::NoActionSets { switch: dpid, what: what.into() });
        fabric.ctx.add_effect(Effect::Reconnect { dpid });
    }
}

fn report_refusal(fabric: &mut Fabric, dpid: Dpid, what: String) {
    fabric.ctx.stats.refused_rules += 1;
    let report = Report::RuleRefused { switch: dpid, what: what.into() };
    fabric.ctx.report_once(ReportSubject::Switch(dpid), &format!("rule {dpid}"), report);
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
