//! The labels of one switch, kept by the switch's shard.
//!
//! A state machine without I/O: requests and confirmations come in, [`LabelEffect`]s and rule changes go out. The life
//! of a label:
//!
//! ```text
//! acquired ─► its next labels' ids known ─► rule sent ─► rule confirmed ─► ready, once all next labels are ready
//!    ▲                                                                        │ last holder gone
//!    └────────────────── acquired again ◄──────────────────────────────── quarantined
//!                                                                             │ time over
//!                     id rests ◄── next labels given back ◄── confirmed ◄── rule on its way out
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_wire::{Constraint, Dpid, Field, Instruction, Match, PortNo, Version};
use rustc_hash::FxHashMap;

use super::label_ids::MAX_SERIAL;
use super::{
    Acquire, Holder, LabelEffect, LabelIds, LabelRange, LabelStage, LabelView, News, OnwardLabels, Quarantine, Refusal,
    RehearsedLabel, Suffix,
};
use crate::forwarding::{self, Forwarding};
use crate::ids::{ShardId, Time};
use crate::network::Location;
use crate::route_plan::Treatment;
use crate::rule::Rule;
use crate::update::Change;

/// The priority of a label's rule. It lies above those of the policy, which end at 65,000, and of the engine's rules
/// for hosts.
const LABEL: u16 = 65020;
/// The priority of a label's rule for a single arrival port. It must exceed [`LABEL`], that of the rule for all ports.
const SCOPED_LABEL: u16 = 65021;

/// The bits of a cookie that mark a label, in place of a shard's number. The label's serial number follows in the 32
/// bits below, in place of a leaf.
const COOKIE: u64 = (ShardId::MAX_COUNT as u64) << 32;

/// The name of a label at its switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LabelKey {
    /// The port by which packets arrive; `None` for any link port.
    pub port: Option<PortNo>,
    /// The VLAN id.
    pub id: u16,
}

/// The labels of one switch.
#[derive(Clone, Debug)]
pub(crate) struct LabelTable {
    switch: Dpid,
    version: Version,
    /// Whether the switch has one table, so that each rule must match its arrival port.
    only_scoped: bool,
    quarantine: Quarantine,
    labels: BTreeMap<LabelKey, Label>,
    /// The labels that may be acquired.
    by_suffix: FxHashMap<(Option<PortNo>, Arc<Suffix>), LabelKey>,
    by_holder: BTreeMap<Holder, LabelKey>,
    by_serial: BTreeMap<u64, LabelKey>,
    /// The labels whose rule may have to change.
    touched: BTreeSet<LabelKey>,
    /// The times when labels without holders end.
    ends: BTreeSet<(Time, u64)>,
    /// The ports whose packets the classifier is known to send here.
    arrivals: BTreeSet<PortNo>,
    /// Labels whose packets will arrive by further ports. Holders do not learn that these labels are ready until the
    /// switch has confirmed the classifier for those ports.
    awaited: BTreeMap<u64, BTreeSet<PortNo>>,
}

#[derive(Clone, Debug)]
struct Label {
    /// A number that is never used again at this switch, unlike the id.
    serial: u64,
    suffix: Arc<Suffix>,
    next: OnwardLabels,
    holders: BTreeSet<Holder>,
    /// The time until which packets of former holders may be in flight.
    in_flight: Time,
    state: LabelState,
    /// The reason why no packets may be sent under the label any more.
    refused: Option<Refusal>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelState {
    /// The ids of the next labels are not known yet.
    Waiting,
    /// The rule was sent to the switch, which has not confirmed it.
    Sent(Rule),
    /// The switch has the rule.
    Confirmed(Rule),
    /// The switch refused the rule, or is full. Holds the rule that must be deleted, if there was one.
    Denied(Option<Rule>),
    /// The rule is being deleted.
    Leaving(Rule),
}

/// Changes of rules, and the labels that are confirmed, or gone, once the switch has made the changes.
#[derive(Debug, Default)]
pub(crate) struct LabelRuleChanges {
    pub changes: Vec<Change>,
    /// The serial numbers of these labels.
    pub confirms: Vec<u64>,
}

impl Label {
    fn is_ready(&self) -> bool {
        matches!(self.state, LabelState::Confirmed(_)) && self.next.is_ready() && self.refused.is_none()
    }

    fn rule(&self) -> Option<&Rule> {
        match &self.state {
            LabelState::Sent(rule) | LabelState::Confirmed(rule) | LabelState::Leaving(rule) => Some(rule),
            LabelState::Waiting | LabelState::Denied(_) => None,
        }
    }
}

impl LabelTable {
    /// Creates the table of a switch without labels. With `only_scoped`, the switch has one table for everything.
    pub fn new(switch: Dpid, version: Version, only_scoped: bool, quarantine: Quarantine) -> LabelTable {
        LabelTable {
            switch,
            version,
            only_scoped,
            quarantine,
            labels: BTreeMap::new(),
            by_suffix: FxHashMap::default(),
            by_holder: BTreeMap::new(),
            by_serial: BTreeMap::new(),
            touched: BTreeSet::new(),
            ends: BTreeSet::new(),
            arrivals: BTreeSet::new(),
            awaited: BTreeMap::new(),
        }
    }

    /// Acquires a label for a holder, and pushes the news for the holder.
    pub fn acquire(
        &mut self,
        now: Time,
        asked: Acquire,
        ids: &mut LabelIds,
        range: LabelRange,
        out: &mut Vec<LabelEffect>,
    ) {
        let Acquire { at, suffix, holder } = asked;
        let Some(key) = self.find(at.port, &suffix).or_else(|| self.make(now, at.port, suffix, ids, range, out)) else {
            return out.push(LabelEffect::Tell(holder, News::Refused(Refusal::NoLabel(self.switch))));
        };
        self.by_holder.insert(holder, key);
        let Some(label) = self.labels.get_mut(&key) else { return };
        label.holders.insert(holder);
        out.push(LabelEffect::Tell(holder, News::Allocated(key.id)));
        if !self.arrivals.contains(&at.port) {
            self.awaited.entry(label.serial).or_default().insert(at.port);
            self.touched.insert(key);
        } else if label.is_ready() && !self.awaited.contains_key(&label.serial) {
            out.push(LabelEffect::Tell(holder, News::Ready));
        }
    }

    /// Reports whether there is a label with this serial number.
    pub fn knows(&self, serial: u64) -> bool {
        self.by_serial.contains_key(&serial)
    }

    /// Reports whether the requested label exists.
    pub fn has(&self, asked: &Acquire) -> bool {
        self.find(asked.at.port, &asked.suffix).is_some()
    }

    /// Returns a label for this suffix, for packets that arrive by this port.
    fn find(&self, port: PortNo, suffix: &Arc<Suffix>) -> Option<LabelKey> {
        let scopes = [None, Some(port)];
        scopes.into_iter().find_map(|scope| self.by_suffix.get(&(scope, Arc::clone(suffix))).copied())
    }

    fn make(
        &mut self,
        now: Time,
        port: PortNo,
        suffix: Arc<Suffix>,
        ids: &mut LabelIds,
        range: LabelRange,
        out: &mut Vec<LabelEffect>,
    ) -> Option<LabelKey> {
        let meaning = suffix.meaning();
        let any = |ids: &mut LabelIds| if self.only_scoped { None } else { ids.take(now, range, None, false, meaning) };
        let taken = ids.take_rehearsed(now, range, port, self.only_scoped, suffix.meaning()).or_else(|| any(ids));
        let (key, serial) = taken.or_else(|| ids.take(now, range, Some(port), self.only_scoped, meaning))?;
        let next = OnwardLabels::new(suffix.links.iter().cloned());
        let switch = self.switch;
        next.ask(|port| Holder::Label { switch, serial, port }, out);
        self.by_suffix.insert((key.port, Arc::clone(&suffix)), key);
        self.by_serial.insert(serial, key);
        let (holders, refused, in_flight) = (BTreeSet::new(), None, now);
        self.labels
            .insert(key, Label { serial, suffix, next, holders, in_flight, state: LabelState::Waiting, refused });
        self.touched.insert(key);
        Some(key)
    }

    /// Records news from the next switch, about a label that one of these labels sends packets to.
    pub fn learn(&mut self, serial: u64, port: PortNo, news: &News, out: &mut Vec<LabelEffect>) {
        let Some(key) = self.by_serial.get(&serial).copied() else { return };
        if let News::Refused(why) = news {
            return self.refuse(key, *why, out);
        }
        let Some(label) = self.labels.get_mut(&key) else { return };
        label.next.learn(port, news);
        if label.state == LabelState::Waiting {
            self.touched.insert(key);
        }
        self.announce_ready(key, out);
    }

    /// Records that the switch has made the changes that [`LabelTable::take_changes`] returned for these labels.
    pub fn confirm(&mut self, now: Time, serials: &[u64], ids: &mut LabelIds, out: &mut Vec<LabelEffect>) {
        for serial in serials {
            let Some(key) = self.by_serial.get(serial).copied() else { continue };
            self.arrivals.extend(self.awaited.remove(serial).unwrap_or_default());
            let Some(label) = self.labels.get_mut(&key) else { continue };
            match &label.state {
                LabelState::Sent(rule) => {
                    label.state = LabelState::Confirmed(rule.clone());
                    // The quarantine of the label may have ended before the switch had the rule.
                    if label.holders.is_empty() && label.in_flight <= now {
                        self.end(now, key, ids, out);
                    }
                    self.announce_ready(key, out);
                }
                LabelState::Leaving(_) => self.forget(now, key, true, ids, out),
                LabelState::Confirmed(_) => self.announce_ready(key, out),
                LabelState::Waiting | LabelState::Denied(_) => {}
            }
        }
    }

    fn announce_ready(&self, key: LabelKey, out: &mut Vec<LabelEffect>) {
        let is_open = |label: &&Label| label.is_ready() && !self.awaited.contains_key(&label.serial);
        if let Some(label) = self.labels.get(&key).filter(is_open) {
            out.extend(label.holders.iter().map(|holder| LabelEffect::Tell(*holder, News::Ready)));
        }
    }

    /// Takes a label back from a holder. `confirmed` says that no rule of the holder leads to it any more.
    pub fn release(&mut self, now: Time, holder: Holder, confirmed: bool, out: &mut Vec<LabelEffect>) {
        let Some(key) = self.by_holder.remove(&holder) else { return };
        let Some(label) = self.labels.get_mut(&key) else { return };
        label.holders.remove(&holder);
        let wait = if confirmed { self.quarantine.confirmed } else { self.quarantine.unconfirmed };
        label.in_flight = label.in_flight.max(now + wait);
        if label.holders.is_empty() {
            self.ends.insert((label.in_flight, label.serial));
            out.push(LabelEffect::Wake(label.in_flight));
        }
    }

    /// Ends labels whose quarantine is over.
    pub fn expire(&mut self, now: Time, ids: &mut LabelIds, out: &mut Vec<LabelEffect>) {
        while let Some(&(until, serial)) = self.ends.first()
            && until <= now
        {
            self.ends.pop_first();
            let Some(key) = self.by_serial.get(&serial).copied() else { continue };
            let is_over = |label: &Label| label.holders.is_empty() && label.in_flight <= now;
            if self.labels.get(&key).is_some_and(is_over) {
                self.end(now, key, ids, out);
            }
        }
    }

    /// Removes a label whose packets have passed. If its rule is not confirmed yet, the label waits for that: the
    /// confirmation must not be taken for that of the deletion.
    fn end(&mut self, now: Time, key: LabelKey, ids: &mut LabelIds, out: &mut Vec<LabelEffect>) {
        let Some(label) = self.labels.get_mut(&key) else { return };
        match &label.state {
            LabelState::Sent(_) | LabelState::Leaving(_) => return,
            LabelState::Confirmed(rule) => {
                label.state = LabelState::Leaving(rule.clone());
                self.touched.insert(key);
            }
            LabelState::Waiting | LabelState::Denied(None) => return self.forget(now, key, true, ids, out),
            // The deletion of the rule is not collected yet.
            LabelState::Denied(Some(rule)) => {
                label.state = LabelState::Leaving(rule.clone());
                self.touched.insert(key);
            }
        }
        self.hide(key);
    }

    /// Stops giving this label to holders.
    fn hide(&mut self, key: LabelKey) {
        let Some(label) = self.labels.get(&key) else { return };
        let named = (key.port, Arc::clone(&label.suffix));
        if self.by_suffix.get(&named) == Some(&key) {
            self.by_suffix.remove(&named);
        }
    }

    /// Removes a label that is gone from the switch.
    fn forget(&mut self, now: Time, key: LabelKey, confirmed: bool, ids: &mut LabelIds, out: &mut Vec<LabelEffect>) {
        self.hide(key);
        let Some(mut label) = self.labels.remove(&key) else { return };
        let (switch, serial) = (self.switch, label.serial);
        self.by_serial.remove(&serial);
        self.awaited.remove(&serial);
        self.touched.remove(&key);
        label.next.release(|port| Holder::Label { switch, serial, port }, confirmed, out);
        ids.give_back(key, now + self.quarantine.confirmed);
    }

    /// Refuses a label: no packets may be sent under it any more. The label stays until all holders have given it back.
    pub fn refuse(&mut self, key: LabelKey, why: Refusal, out: &mut Vec<LabelEffect>) {
        let Some(label) = self.labels.get_mut(&key).filter(|label| label.refused.is_none()) else { return };
        label.refused = Some(why);
        out.extend(label.holders.iter().map(|holder| LabelEffect::Tell(*holder, News::Refused(why))));
        self.hide(key);
    }

    /// Refuses a label whose rule the switch refused or has no capacity for.
    pub fn on_rule_refused(&mut self, serial: u64, why: Refusal, out: &mut Vec<LabelEffect>) {
        if let Some(key) = self.by_serial.get(&serial).copied() {
            self.refuse_and_delete(key, why, out);
        }
    }

    /// Refuses a label because the switch is full: the label's rule does not fit, or something else that was to be sent
    /// with it. A label whose rule is confirmed may be in use, and stays.
    pub fn refuse_unless_confirmed(&mut self, serial: u64, why: Refusal, out: &mut Vec<LabelEffect>) {
        let is_there =
            |key: &&LabelKey| self.labels.get(key).is_some_and(|label| matches!(label.state, LabelState::Confirmed(_)));
        if let Some(key) = self.by_serial.get(&serial).filter(|key| !is_there(key)).copied() {
            self.refuse_and_delete(key, why, out);
        }
    }

    /// Withdraws a label. Its rule stays until no holder sends packets under it.
    pub fn refuse_keeping_rule(&mut self, serial: u64, why: Refusal, out: &mut Vec<LabelEffect>) {
        if let Some(key) = self.by_serial.get(&serial).copied() {
            self.refuse(key, why, out);
        }
    }

    /// Withdraws the labels of a port that is not a link any more: packets that come by it carry no label.
    pub fn close_port(&mut self, port: PortNo, out: &mut Vec<LabelEffect>) {
        let all = LabelKey { port: Some(port), id: 0 }..=LabelKey { port: Some(port), id: u16::MAX };
        let keys: Vec<LabelKey> = self.labels.range(all).map(|(key, _)| *key).collect();
        for key in keys {
            self.refuse_and_delete(key, Refusal::Gone(self.switch), out);
        }
    }

    /// Refuses a label, and deletes its rule immediately.
    fn refuse_and_delete(&mut self, key: LabelKey, why: Refusal, out: &mut Vec<LabelEffect>) {
        self.refuse(key, why, out);
        let Some(label) = self.labels.get_mut(&key) else { return };
        label.state = match &label.state {
            LabelState::Waiting => LabelState::Denied(None),
            LabelState::Sent(rule) | LabelState::Confirmed(rule) => LabelState::Denied(Some(rule.clone())),
            LabelState::Denied(_) | LabelState::Leaving(_) => return,
        };
        self.touched.insert(key);
        if label.holders.is_empty() {
            self.ends.insert((label.in_flight, label.serial));
            out.push(LabelEffect::Wake(label.in_flight));
        }
    }

    /// Ends all labels, because the switch is gone.
    pub fn shut(&mut self, now: Time, ids: &mut LabelIds, out: &mut Vec<LabelEffect>) {
        let why = News::Refused(Refusal::Gone(self.switch));
        for (key, mut label) in std::mem::take(&mut self.labels) {
            out.extend(label.holders.iter().map(|holder| LabelEffect::Tell(*holder, why.clone())));
            let (switch, serial) = (self.switch, label.serial);
            label.next.release(|port| Holder::Label { switch, serial, port }, false, out);
            ids.give_back(key, now + self.quarantine.unconfirmed);
        }
    }

    /// Takes the changes of rules since the last call. `cookie` makes a cookie from the number that stands in place of
    /// a leaf. Rules of different labels match different packets, so any order is safe.
    pub fn take_changes(&mut self, cookie: impl Fn(u64) -> u64) -> LabelRuleChanges {
        let mut taken = LabelRuleChanges::default();
        for key in std::mem::take(&mut self.touched) {
            let rule = self.rule(key, &cookie);
            let Some(label) = self.labels.get_mut(&key) else { continue };
            match &mut label.state {
                LabelState::Waiting => {
                    let Some(rule) = rule.filter(|_| label.refused.is_none()) else { continue };
                    taken.changes.push(Change::Add(rule.clone()));
                    taken.confirms.push(label.serial);
                    label.state = LabelState::Sent(rule);
                }
                LabelState::Leaving(rule) => {
                    taken.changes.push(Change::Delete(rule.clone()));
                    taken.confirms.push(label.serial);
                }
                LabelState::Denied(rule) => taken.changes.extend(rule.take().map(Change::Delete)),
                // The classifier changes for this label.
                LabelState::Confirmed(_) if self.awaited.contains_key(&label.serial) => {
                    taken.confirms.push(label.serial)
                }
                LabelState::Sent(_) | LabelState::Confirmed(_) => {}
            }
        }
        taken
    }

    /// Reports whether [`LabelTable::take_changes`] has something to do.
    pub fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Returns the rule of a label, once the ids of the next labels are known.
    fn rule(&self, key: LabelKey, cookie: impl Fn(u64) -> u64) -> Option<Rule> {
        let label = self.labels.get(&key)?;
        let instructions = self.instructions(label)?;
        let needs = label.suffix.exit.iter().flat_map(|exit| exit.needs.iter().copied());
        let from = key.port.map(|port| Constraint::exact(Field::InPort, u128::from(port.0)));
        let mut all: Vec<Constraint> = from.into_iter().chain([forwarding::has_vlan(key.id)]).chain(needs).collect();
        all.sort_unstable();
        Some(Rule {
            priority: if key.port.is_some() { SCOPED_LABEL } else { LABEL },
            matching: Match::from_constraints(all),
            instructions: instructions.into(),
            cookie: cookie(COOKIE | label.serial),
        })
    }

    fn instructions(&self, label: &Label) -> Option<Vec<Instruction>> {
        let links = label.next.labels()?;
        let (none, plain) = (BTreeSet::new(), Treatment::default());
        let on = Forwarding { links: &links, edges: &none, treatment: &plain, tagged: false, replaced: None };
        let all = match &label.suffix.exit {
            None => on,
            Some(exit) => {
                let (edges, treatment) = (&exit.edges, &exit.treatment);
                Forwarding { edges, treatment, tagged: exit.tagged, replaced: exit.replaced, ..on }
            }
        };
        let actions = forwarding::under_label(self.version, &all);
        Some(forwarding::instructions(self.version, actions, None))
    }

    /// Returns the instructions for a packet that arrives by a port under an id. Returns `None` if the id is not a
    /// label, or if its rule is not known.
    pub fn answer(&self, port: PortNo, id: u16) -> Option<&[Instruction]> {
        let key = [Some(port), None].map(|port| LabelKey { port, id });
        let label = key.iter().find_map(|key| self.labels.get(key))?;
        label.rule().map(|rule| &rule.instructions[..])
    }

    /// Reports whether labelled packets are expected to arrive by a port. This is forgotten when ports change.
    pub fn expects(&self, port: PortNo) -> bool {
        self.arrivals.contains(&port)
    }

    /// Records that ports have changed, and that the classifier will. Labels that waited for the old classifier wait
    /// for the new one.
    pub fn forget_arrivals(&mut self) {
        self.arrivals.clear();
        self.touched.extend(self.awaited.keys().filter_map(|serial| self.by_serial.get(serial)));
    }

    /// Returns the labels that are newer than the one with this serial number.
    pub fn newer_than(&self, serial: u64) -> Vec<RehearsedLabel> {
        let all = self.labels.iter().filter(|(_, label)| label.serial > serial);
        let rehearsed = |(key, label): (&LabelKey, &Label)| RehearsedLabel {
            key: *key,
            meaning: label.suffix.meaning(),
            serial: label.serial,
        };
        all.map(rehearsed).collect()
    }

    /// Returns all labels as people see them.
    pub fn views(&self) -> Vec<LabelView> {
        let view = |(key, label): (&LabelKey, &Label)| {
            let mut to = label.suffix.exits();
            to.sort_unstable();
            to.dedup();
            let (holders, refused) = (label.holders.len(), label.refused.map(|why| why.to_string()));
            LabelView { id: key.id, port: key.port, stage: self.stage(label), holders, to, refused }
        };
        self.labels.iter().map(view).collect()
    }

    fn stage(&self, label: &Label) -> LabelStage {
        match &label.state {
            LabelState::Leaving(_) => LabelStage::Leaving,
            _ if label.refused.is_some() => LabelStage::Refused,
            _ if label.holders.is_empty() => LabelStage::Quarantined,
            _ if label.is_ready() && !self.awaited.contains_key(&label.serial) => LabelStage::Ready,
            _ => LabelStage::Waiting,
        }
    }

    /// Returns the number of labels.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns the serial number of the label whose cookie has `number` in place of a leaf.
    pub fn of_cookie(number: u64) -> Option<u64> {
        (number & !MAX_SERIAL == COOKIE).then_some(number & MAX_SERIAL)
    }

    /// Returns the rule that was sent to the switch for a label, and is not confirmed.
    pub fn unconfirmed_rule(&self, serial: u64) -> Option<&Rule> {
        let label = self.labels.get(self.by_serial.get(&serial)?)?;
        if let LabelState::Sent(rule) = &label.state { Some(rule) } else { None }
    }

    /// Returns the rules that the switch has confirmed for labels that may be used, with the labels' serial numbers.
    pub fn confirmed_rules(&self) -> impl Iterator<Item = (u64, &Rule)> {
        self.labels.values().filter(|label| label.refused.is_none()).filter_map(|label| match &label.state {
            LabelState::Confirmed(rule) => Some((label.serial, rule)),
            _ => None,
        })
    }

    /// Returns the label of a rule with this priority and match.
    pub fn key_of_rule(priority: u16, matching: &Match) -> Option<LabelKey> {
        let id = matching.get(Field::VlanVid).filter(|_| [LABEL, SCOPED_LABEL].contains(&priority))?;
        let port = matching.get(Field::InPort).map(|port| PortNo(port.value as u32));
        Some(LabelKey { port, id: (id.value & 0xfff) as u16 })
    }

    /// Returns the serial numbers of the labels that are not ready for packets because of this switch.
    pub fn unready(&self) -> impl Iterator<Item = u64> {
        let is_unready = |label: &&Label| {
            matches!(label.state, LabelState::Waiting | LabelState::Sent(_)) || self.awaited.contains_key(&label.serial)
        };
        self.labels.values().filter(is_unready).map(|label| label.serial)
    }

    /// Returns the serial numbers of the labels whose rule the switch has, or was sent.
    pub fn installed(&self) -> impl Iterator<Item = u64> {
        self.labels.values().filter(|label| label.rule().is_some() && label.refused.is_none()).map(|label| label.serial)
    }

    /// Returns a label, given by its serial number, as text for users.
    pub fn describe(&self, serial: u64) -> Option<String> {
        let key = self.by_serial.get(&serial)?;
        let label = self.labels.get(key)?;
        Some(format!("label {}: {}", key.id, outline(label.suffix.exits())))
    }
}

/// Returns edge ports where packets leave, as text for users.
pub(crate) fn outline(mut exits: Vec<Location>) -> String {
    if exits.is_empty() {
        return "to nowhere".to_owned();
    }
    exits.sort_unstable();
    let more = exits.len().saturating_sub(3);
    let shown: Vec<String> = exits.iter().take(3).map(ToString::to_string).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("out of {}{more}", shown.join(", "))
}
