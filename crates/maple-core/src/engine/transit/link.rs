//! Which of the rules for a link's packets the switch can do without.
//!
//! # What
//!
//! The groups of a link port have compiled rules; a [`Link`] decides which of them the switch gets, and which rules of
//! its own stand for several (paper §4.5, Algorithm 6). It leaves out
//!
//! * *barriers* over none but packets that have a rule above them anyway;
//! * all rules for a *destination* to which everything that can come goes the same way. One rule above all compiled
//!   ones stands for them.
//!
//! # Why it is correct
//!
//! The *premise*: a packet comes by the link only if it belongs to some part known here, that is one which its owner
//! has or is about to have in use, or whose packets may still be under way ([`Coming`]). Then
//!
//! * A destination's rule does what all parts do whose packets can be headed there, of whatever group, draining and refused
//!   ones included. So whatever packet it takes gets its answer, whatever lies below.
//! * A barrier of a group's table is left out only if no packet of an *outsider* can meet it: a part of another group, or
//!   one of this group of which the table does not state all (the switch can't match it, or has refused its rule). A packet
//!   of a part that is stated in full is in no barrier that comes before the part's rule in the tree's order: had it been
//!   in one, it would have taken the yes-side there. So without the barrier it still meets its own rule first, or one that
//!   does the same. An outsider's packet finds the rules and the barriers that it found before.
//!
//! Both hold for each table that a change of parts leads to; what a switch has half-way is then right by `update.rs`, as
//! for all changes. So a rule that stands for several is undone by sending these first and deleting it last, and that
//! is done before the part that made it necessary is confirmed, so before packets of that part come.
//!
//! The premise begins some time after the link is there (`opens`): what sent packets down this wire before it was known
//! as a link, or before this switch or the other was started anew, must be gone. `transit.rs` keeps it up: a part whose
//! packets may be under way stays known until they have passed.
//!
//! # How much changes
//!
//! A part that does as the rule of its destination says comes in, and goes, without a change. What must be sent is sent at
//! once; what may be left out is taken away only when nothing has had to be sent again for a while, longer each time
//! (`calm_from`).
//!
//! # Cost
//!
//! A part is compared with the destinations of its link (some words each), and with the barriers of other groups; a new
//! destination with the parts. What is known is kept by count, so nothing is asked twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_wire::{Constraint, Field, Instruction, Match, PortNo};

use self::merged::Aim;
use super::destination::{Destination, common, contradict};
use super::{GroupKey, Passing};
use crate::capabilities::Capabilities;
use crate::compile::Rule;
use crate::engine::actions::is_to_controller;
use crate::engine::leaf::are_disjoint;
use crate::engine::union::Source;
use crate::engine::{Time, actions};
use crate::trace::Item;
use crate::tree::LeafId;
use crate::update::{Change, EntryKey, key_of};

mod merged;

/// The priority of rules that stand for several: above all compiled ones, below those for path tags.
pub(in crate::engine) const MERGED: u16 = 65005;

/// By how much the wait for calm grows at most, in powers of two.
const MAX_DOUBLINGS: u32 = 6;

/// All that arrives by a link port, and the rules for it.
pub(super) struct Link {
    arrives: PortNo,
    coming: BTreeMap<LeafId, Coming>,
    /// How many parts of each group are stated in full.
    stated: BTreeMap<GroupKey, usize>,
    aims: BTreeMap<Destination, Aim>,
    numbers: BTreeMap<(GroupKey, EntryKey), RuleNo>,
    rules: BTreeMap<RuleNo, Compiled>,
    next: RuleNo,
    /// The rules that a destination's rule can stand for.
    headed: BTreeMap<Destination, BTreeSet<RuleNo>>,
    barriers: BTreeMap<GroupKey, BTreeSet<RuleNo>>,
    /// How many rules that say something there are, by group and cookie.
    answers: BTreeMap<(GroupKey, u64), usize>,
    /// What is to be looked at again.
    doubted: BTreeSet<RuleNo>,
    open_questions: BTreeSet<Destination>,
    /// From when rules that the switch has may be taken away.
    calm_from: Time,
    /// When rules last had to be sent again, and how often in a row.
    undone_at: Time,
    undone: u32,
    /// Whether something was left as it was for want of calm.
    waits: bool,
    sent: usize,
    standing: usize,
}

type RuleNo = u32;

/// A part whose packets can come.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Coming {
    group: GroupKey,
    /// Its packets pass these.
    items: Vec<Item>,
    common: Vec<Constraint>,
    aims: Vec<Destination>,
    does: Does,
    /// Whether the group's table states all of it.
    is_stated: bool,
}

/// What is done with packets.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Does {
    instructions: Vec<Instruction>,
    /// Whether any match will do: what is rewritten must be stated.
    is_plain: bool,
}

/// A rule of a group's table.
struct Compiled {
    group: GroupKey,
    rule: Rule,
    is_barrier: bool,
    /// The destinations whose rules could stand for it, in order of preference.
    aims: Vec<Destination>,
    /// The one that does.
    under: Option<usize>,
    /// A part for whose sake it is needed, if it is a barrier.
    witness: Option<LeafId>,
    /// Whether the switch has it, or is to get it.
    sent: bool,
    /// Whether it came since the last time that rules were sent.
    is_new: bool,
    /// Whether it has changed since then.
    is_changed: bool,
}

/// The time, as far as a link is concerned.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub now: Time,
    /// From when the premise holds.
    pub opens: Option<Time>,
    /// How long to wait for calm.
    pub wait: Duration,
}

impl Moment {
    /// Whether the premise holds.
    fn is_open(self) -> bool {
        self.opens.is_some_and(|opens| opens <= self.now)
    }

    /// Whether the premise does not hold yet. It needn't where there is no link: no packets come.
    fn is_too_early(self) -> bool {
        self.opens.is_some_and(|opens| opens > self.now)
    }
}

impl Coming {
    /// What a group's part means for its link; `None` if no packet of it can come.
    pub fn of(group: GroupKey, version: maple_wire::Version, passing: &Passing) -> Option<Coming> {
        if passing.refused && !passing.exposed {
            return None;
        }
        let items = passing.trace.items.clone();
        let common = common(&items);
        Some(Coming {
            group,
            aims: Destination::of(&common),
            common,
            items,
            does: Does {
                instructions: actions::instructions(version, &passing.part, None, None),
                is_plain: passing.part.treatment.rewrites.is_empty(),
            },
            is_stated: !passing.refused && passing.is_stated,
        })
    }

    /// Whether a barrier of a group may be there for its sake.
    fn is_outside(&self, group: GroupKey) -> bool {
        self.group != group || !self.is_stated
    }

    fn meets(&self, matching: &[Constraint], items: &[Item]) -> bool {
        !contradict(&self.common, matching) && !are_disjoint(&self.items, items)
    }
}

impl Link {
    pub fn new(arrives: PortNo) -> Link {
        Link {
            arrives,
            coming: BTreeMap::new(),
            stated: BTreeMap::new(),
            aims: BTreeMap::new(),
            numbers: BTreeMap::new(),
            rules: BTreeMap::new(),
            next: 0,
            headed: BTreeMap::new(),
            barriers: BTreeMap::new(),
            answers: BTreeMap::new(),
            doubted: BTreeSet::new(),
            open_questions: BTreeSet::new(),
            calm_from: Time::default(),
            undone_at: Time::default(),
            undone: 0,
            waits: false,
            sent: 0,
            standing: 0,
        }
    }

    /// Whether there is nothing to know any more.
    pub fn is_empty(&self) -> bool {
        self.coming.is_empty() && self.rules.is_empty() && self.standing == 0
    }

    /// Whether a group's table has a rule with this cookie that says something.
    pub fn answers(&self, group: GroupKey, cookie: u64) -> bool {
        self.answers.contains_key(&(group, cookie))
    }

    /// How many rules the switch is spared.
    pub fn spared(&self) -> usize {
        (self.rules.len() - self.sent).saturating_sub(self.standing)
    }

    /// The cookies of the rules that a rule of this link stands for.
    pub fn stood_for(&self, matching: &Match) -> impl Iterator<Item = u64> + '_ {
        let all: Vec<Constraint> = matching.constraints().copied().collect();
        let is_it = |aim: &Aim| aim.matching.len() == all.len() && aim.matching.iter().all(|c| all.contains(c));
        let aim = self.aims.iter().find(|(_, aim)| aim.rule.is_some() && is_it(aim)).map(|(aim, _)| aim);
        let rules = aim.and_then(|aim| self.headed.get(aim)).into_iter().flatten();
        rules.filter_map(|no| self.rules.get(no)).filter(|rule| !rule.sent).map(|rule| rule.rule.cookie)
    }

    /// The cookies of the rules that say something and are left out.
    pub fn hidden(&self) -> impl Iterator<Item = u64> + '_ {
        self.rules.values().filter(|rule| !rule.sent && !rule.is_barrier).map(|rule| rule.rule.cookie)
    }

    /// Has everything looked at again: time has passed.
    pub fn doubt_all(&mut self) {
        self.doubted.extend(self.rules.keys());
        self.open_questions.extend(self.aims.keys().cloned());
    }

    /// What may be taken away may be taken away now.
    pub fn be_calm(&mut self, now: Time) {
        self.calm_from = self.calm_from.min(now);
        self.doubt_all();
    }

    /// A leaf's part is another one now, or can no longer have packets.
    pub fn take_part(&mut self, leaf: LeafId, part: Option<Coming>, capabilities: &Capabilities) {
        if self.coming.get(&leaf) == part.as_ref() {
            return;
        }
        if let Some(old) = self.coming.remove(&leaf) {
            self.count(&old, false);
        }
        let is_its = |no: &&RuleNo| self.rules.get(no).is_some_and(|rule| rule.witness == Some(leaf));
        self.doubted.extend(self.barriers.values().flatten().filter(is_its));
        let Some(part) = part else { return };
        for aim in &part.aims {
            self.add_aim(aim, capabilities);
        }
        self.count(&part, true);
        self.bring_witness(leaf, &part);
        self.coming.insert(leaf, part);
    }

    /// A group's table has changed.
    pub fn take_rules(&mut self, group: GroupKey, changes: Vec<Change>, out: &mut Vec<(Source, Vec<Change>)>) {
        let mut gone = Vec::new();
        for change in changes {
            let key = (group, key_of(change.rule()));
            match change {
                Change::Delete(_) => {
                    if let Some(no) = self.numbers.remove(&key)
                        && let Some(rule) = self.drop_rule(no)
                    {
                        gone.push(Change::Delete(rule));
                    }
                }
                Change::Add(rule) | Change::Modify(rule) => self.put_rule(key, rule),
            }
        }
        if !gone.is_empty() {
            out.push((Source::Group(group), gone));
        }
    }

    /// Decides which rules the switch shall have, and says what follows from that.
    pub fn decide(&mut self, moment: Moment, cookie: u64, out: &mut Vec<(Source, Vec<Change>)>) {
        self.waits = false;
        let mut own = Vec::new();
        while let Some(at) = self.open_questions.pop_first() {
            own.extend(self.settle_aim(&at, moment, cookie));
        }
        if !own.is_empty() {
            out.push((Source::Link(self.arrives), own));
        }
        let mut by_group: BTreeMap<GroupKey, Vec<Change>> = BTreeMap::new();
        for no in std::mem::take(&mut self.doubted) {
            if let Some((group, change)) = self.settle_rule(no, moment) {
                by_group.entry(group).or_default().push(change);
            }
        }
        out.extend(by_group.into_iter().map(|(group, changes)| (Source::Group(group), changes)));
    }

    /// When to decide again if nothing happens before.
    pub fn deadline(&self, moment: Moment) -> Option<Time> {
        let opens = moment.opens.filter(|opens| *opens > moment.now && !self.rules.is_empty());
        opens.or(Some(self.calm_from).filter(|_| self.waits))
    }

    /// Whether rules may be taken away: it has been calm, or what was undone was undone just now, and the switch has not
    /// heard of it.
    fn is_calm(&self, moment: Moment) -> bool {
        self.calm_from <= moment.now || self.undone_at == moment.now
    }

    /// Something had to be sent again.
    fn disturb(&mut self, moment: Moment) {
        if self.undone_at == moment.now {
            return;
        }
        let long_ago = self.calm_from + moment.wait * (1 << MAX_DOUBLINGS);
        self.undone = if long_ago < moment.now { 0 } else { (self.undone + 1).min(MAX_DOUBLINGS) };
        self.undone_at = moment.now;
        self.calm_from = moment.now + moment.wait * (1 << self.undone);
    }

    /// Whether the switch is to have a rule; what follows for it.
    fn settle_rule(&mut self, no: RuleNo, moment: Moment) -> Option<(GroupKey, Change)> {
        let rule = self.rules.get(&no)?;
        let witness = if rule.is_barrier { self.witness(rule) } else { None };
        let is_needed = !rule.is_barrier
            || witness.is_some()
            || moment.is_too_early()
            || !moment.is_open() && (rule.sent || rule.is_new);
        let is_wanted = rule.under.is_none() && is_needed;
        let is_kept = rule.sent && !is_wanted && !self.is_calm(moment);
        self.waits |= is_kept;
        if is_wanted && rule.is_barrier && !rule.sent && !rule.is_new {
            self.disturb(moment);
        }
        let rule = self.rules.get_mut(&no)?;
        rule.witness = witness;
        rule.is_new = false;
        let is_changed = std::mem::take(&mut rule.is_changed);
        let was_sent = std::mem::replace(&mut rule.sent, is_wanted || is_kept);
        let change = match (was_sent, rule.sent) {
            (false, true) => Change::Add(rule.rule.clone()),
            (true, false) => Change::Delete(rule.rule.clone()),
            (true, true) if is_changed => Change::Modify(rule.rule.clone()),
            _ => return None,
        };
        self.sent = self.sent + usize::from(rule.sent) - usize::from(was_sent);
        Some((rule.group, change))
    }

    /// A part for whose sake a barrier is needed: the one that is known, if it still is one.
    fn witness(&self, rule: &Compiled) -> Option<LeafId> {
        let matching = constraints(&rule.rule);
        let items = reads(&matching);
        let needs_it = |part: &Coming| part.is_outside(rule.group) && part.meets(&matching, &items);
        if rule.witness.and_then(|leaf| self.coming.get(&leaf)).is_some_and(needs_it) {
            return rule.witness;
        }
        if self.stated.get(&rule.group).is_some_and(|count| *count == self.coming.len()) {
            return None;
        }
        self.coming.iter().find(|(_, part)| needs_it(part)).map(|(leaf, _)| *leaf)
    }

    /// A new part may be what barriers are needed for.
    fn bring_witness(&mut self, leaf: LeafId, part: &Coming) {
        for (_, barriers) in self.barriers.iter().filter(|(group, _)| part.is_outside(**group)) {
            for no in barriers {
                let Some(rule) = self.rules.get_mut(no).filter(|rule| rule.witness.is_none()) else { continue };
                let matching = constraints(&rule.rule);
                if part.meets(&matching, &reads(&matching)) {
                    rule.witness = Some(leaf);
                    self.doubted.insert(*no);
                }
            }
        }
    }

    /// Counts a part in or out.
    fn count(&mut self, part: &Coming, comes: bool) {
        if part.is_stated {
            let stated = self.stated.entry(part.group).or_default();
            *stated = if comes { *stated + 1 } else { *stated - 1 };
        }
        for (at, aim) in &mut self.aims {
            if part.meets(&aim.matching, &aim.items) {
                aim.count(&part.does, comes);
                self.open_questions.insert(at.clone());
            }
        }
        for at in &part.aims {
            if let Some(aim) = self.aims.get_mut(at) {
                aim.named = if comes { aim.named + 1 } else { aim.named - 1 };
                self.open_questions.insert(at.clone());
            }
        }
    }

    fn put_rule(&mut self, key: (GroupKey, EntryKey), rule: Rule) {
        let is_barrier = is_to_controller(&rule.instructions);
        let group = key.0;
        let no = *self.numbers.entry(key).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.unlist(no);
        if is_barrier {
            self.barriers.entry(group).or_default().insert(no);
        } else {
            *self.answers.entry((group, rule.cookie)).or_default() += 1;
        }
        if let Some(there) = self.rules.get_mut(&no) {
            (there.rule, there.is_barrier, there.is_changed) = (rule, is_barrier, true);
            self.doubted.insert(no);
            return;
        }
        let aims = Destination::of(&constraints(&rule));
        for aim in &aims {
            self.headed.entry(aim.clone()).or_default().insert(no);
        }
        let (witness, sent, is_new, is_changed) = (None, false, true, false);
        self.rules
            .insert(no, Compiled { group, rule, is_barrier, aims, under: None, witness, sent, is_new, is_changed });
        self.find_cover(no);
    }

    /// Forgets a rule; returns it if the switch has it.
    fn drop_rule(&mut self, no: RuleNo) -> Option<Rule> {
        self.unlist(no);
        let Compiled { rule, aims, under, sent, .. } = self.rules.remove(&no)?;
        for aim in &aims {
            if let Some(headed) = self.headed.get_mut(aim) {
                headed.remove(&no);
                if headed.is_empty() {
                    self.headed.remove(aim);
                }
            }
        }
        if let Some(under) = under {
            self.stand_over(&aims[under], false);
        }
        self.sent -= usize::from(sent);
        sent.then_some(rule)
    }

    /// Takes a rule out of the lists that depend on what it says.
    fn unlist(&mut self, no: RuleNo) {
        let Some(rule) = self.rules.get(&no) else { return };
        if rule.is_barrier {
            if let Some(barriers) = self.barriers.get_mut(&rule.group) {
                barriers.remove(&no);
                if barriers.is_empty() {
                    self.barriers.remove(&rule.group);
                }
            }
        } else if let Some(count) = self.answers.get_mut(&(rule.group, rule.rule.cookie)) {
            *count -= 1;
            if *count == 0 {
                self.answers.remove(&(rule.group, rule.rule.cookie));
            }
        }
    }
}

/// What a rule's packets have in common but the link.
fn constraints(rule: &Rule) -> Vec<Constraint> {
    rule.matching.constraints().copied().filter(|c| c.field != Field::InPort).collect()
}

fn reads(constraints: &[Constraint]) -> Vec<Item> {
    constraints.iter().copied().map(Item::Read).collect()
}
