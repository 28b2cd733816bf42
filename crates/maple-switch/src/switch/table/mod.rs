//! A flow table: rules by decreasing priority, of which the first that matches takes a packet (1.0 §3.4, 1.3 §5.2–5.5
//! and §6.4).
//!
//! This is the reference for cleverer tables, so it is as plain as possible: a list, and an index that avoids testing
//! all of it. OpenFlow leaves open which of several matching rules of one priority takes a packet. Here the oldest
//! does, and [`Found::ambiguous`] reports that there was a choice between different instructions: a controller must not
//! rely on its outcome.

use std::cmp::Reverse;

use maple_wire::msg::FlowMod;
use maple_wire::{Constraint, Field, Instruction, Match, PortNo, Version};

use crate::switch::index::{Index, Rank};
use crate::switch::refusal::Refusal;
use crate::time::{SECOND, Time};

/// `OFPFF_CHECK_OVERLAP`.
pub const CHECK_OVERLAP: u16 = 1 << 1;
/// `OFPFF_RESET_COUNTS` (1.3).
pub const RESET_COUNTS: u16 = 1 << 2;

/// One rule of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The priority; the highest wins.
    pub priority: u16,
    /// The matching packets, in OXM order.
    pub matching: Match,
    /// The instructions for them.
    pub instructions: Vec<Instruction>,
    /// The controller's cookie.
    pub cookie: u64,
    /// Bits of `OFPFF_*` that it was added with.
    pub flags: u16,
    /// Seconds without a packet after which the rule expires; 0 means never.
    pub idle_timeout: u16,
    /// Seconds after which the rule expires; 0 means never.
    pub hard_timeout: u16,
    /// The time when it was added.
    pub added: Time,
    /// The time when it last took a packet, or was added.
    pub used: Time,
    /// Packets that it took.
    pub packets: u64,
    /// Bytes that it took.
    pub bytes: u64,
}

/// The reason why a rule left its table, as flow-removed reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Removal {
    /// No packet for the idle timeout.
    Idle = 0,
    /// The hard timeout passed.
    Hard = 1,
    /// A flow-mod deleted it.
    Delete = 2,
    /// The group that it used was deleted.
    GroupDelete = 3,
}

/// The rule that takes a packet.
#[derive(Debug)]
pub struct Found<'a> {
    /// The rule.
    pub rule: &'a mut Rule,
    /// Whether another rule of this priority with other instructions matches as well.
    pub ambiguous: bool,
}

/// A flow table.
#[derive(Clone, Debug)]
pub struct Table {
    rules: Vec<Rule>,
    /// The rank of each rule, in the order of `rules`.
    ranks: Vec<Rank>,
    index: Index,
    added: u64,
    /// The number of rules that have a timeout.
    timed: usize,
    capacity: usize,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that found a rule.
    pub matches: u64,
    /// Packets for which several rules of one priority and different instructions matched.
    pub ambiguous_matches: u64,
}

impl Table {
    /// Creates an empty table that holds at most `capacity` rules.
    pub fn new(capacity: usize) -> Table {
        Table {
            rules: Vec::new(),
            ranks: Vec::new(),
            index: Index::default(),
            added: 0,
            timed: 0,
            capacity,
            lookups: 0,
            matches: 0,
            ambiguous_matches: 0,
        }
    }

    /// The rules, highest priority first, older ones first among equals.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Maximum number of rules.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the rule that takes a packet with these fields; a field that the packet lacks is `None`. Counts the
    /// lookup, not the packet's bytes.
    pub fn lookup(&mut self, packet: impl Fn(Field) -> Option<u128>) -> Option<Found<'_>> {
        self.lookups += 1;
        let fits = self.index.best(packet);
        let at = self.place(*fits.first()?)?;
        let does = |rank: &Rank| self.place(*rank).map(|at| &self.rules[at].instructions);
        let first = Some(&self.rules[at].instructions);
        let ambiguous = fits[1..].iter().any(|other| does(other) != first);
        self.matches += 1;
        self.ambiguous_matches += u64::from(ambiguous);
        Some(Found { rule: &mut self.rules[at], ambiguous })
    }

    /// Executes `OFPFC_ADD` of a checked flow-mod. A rule of the same match and priority is replaced without notice; in
    /// 1.3 its counters are kept unless the flow-mod resets them.
    ///
    /// # Errors
    /// [`Refusal::Overlap`] if the flow-mod asks for that check, or [`Refusal::TableFull`].
    pub fn add(&mut self, now: Time, version: Version, request: &FlowMod) -> Result<(), Refusal> {
        let mut rule = Rule {
            priority: request.priority,
            matching: request.matching.clone(),
            instructions: request.instructions.clone(),
            cookie: request.cookie,
            flags: request.flags,
            idle_timeout: request.idle_timeout,
            hard_timeout: request.hard_timeout,
            added: now,
            used: now,
            packets: 0,
            bytes: 0,
        };
        let timed = |rule: &Rule| usize::from(rule.idle_timeout > 0 || rule.hard_timeout > 0);
        if let Some(at) = self.strictly(request) {
            let old = &mut self.rules[at];
            self.timed = self.timed + timed(&rule) - timed(old);
            if version == Version::Of13 && request.flags & RESET_COUNTS == 0 {
                (rule.packets, rule.bytes) = (old.packets, old.bytes);
            }
            *old = rule;
            return Ok(());
        }
        if request.flags & CHECK_OVERLAP != 0 && self.rules.iter().any(|r| overlaps(r, request)) {
            return Err(Refusal::Overlap);
        }
        if self.rules.len() >= self.capacity {
            return Err(Refusal::TableFull);
        }
        self.added += 1;
        self.timed += timed(&rule);
        let rank = (Reverse(rule.priority), self.added);
        let at = self.ranks.partition_point(|other| *other < rank);
        self.index.insert(&rule.matching, rank);
        self.ranks.insert(at, rank);
        self.rules.insert(at, rule);
        Ok(())
    }

    /// Executes `OFPFC_MODIFY` and `OFPFC_MODIFY_STRICT`. Returns the number of changed rules. Counters and times stay,
    /// unless a 1.3 flow-mod resets the counters. In 1.0 the cookie changes too, as in Open vSwitch.
    pub fn modify(&mut self, version: Version, request: &FlowMod, strict: bool) -> usize {
        let mut changed = 0;
        let among = if strict { self.strictly(request).map_or(0..0, |at| at..at + 1) } else { 0..self.rules.len() };
        for rule in self.rules[among].iter_mut().filter(|r| selects(r, request, strict)) {
            rule.instructions.clone_from(&request.instructions);
            match version {
                Version::Of10 => rule.cookie = request.cookie,
                Version::Of13 if request.flags & RESET_COUNTS != 0 => (rule.packets, rule.bytes) = (0, 0),
                Version::Of13 => {}
            }
            changed += 1;
        }
        changed
    }

    /// Executes `OFPFC_DELETE` and `OFPFC_DELETE_STRICT`. Returns the deleted rules, highest priority first.
    pub fn delete(&mut self, request: &FlowMod, strict: bool) -> Vec<Rule> {
        // Most strict deletions select at most one rule.
        if strict && self.strictly(request).is_none_or(|at| !selects(&self.rules[at], request, true)) {
            return Vec::new();
        }
        self.remove(|rule| {
            (selects(rule, request, strict)
                && Instruction::lead_to(&rule.instructions, request.out_port, request.out_group))
            .then_some(())
        })
        .into_iter()
        .map(|(rule, ())| rule)
        .collect()
    }

    /// Returns the rules that a request's match and cookie select, whatever their priority.
    pub fn covered<'a>(&'a self, request: &FlowMod) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().filter(|rule| selects(rule, request, false))
    }

    /// Removes expired rules, and returns them with the reason. A hard timeout takes precedence over an idle one.
    pub fn expire(&mut self, now: Time) -> Vec<(Rule, Removal)> {
        if self.timed == 0 {
            return Vec::new();
        }
        self.remove(|rule| {
            let (hard, idle) = rule.deadlines();
            if hard.is_some_and(|at| at <= now) {
                Some(Removal::Hard)
            } else {
                idle.is_some_and(|at| at <= now).then_some(Removal::Idle)
            }
        })
    }

    /// Removes the rules that use a group.
    pub fn remove_group_users(&mut self, group: u32) -> Vec<(Rule, Removal)> {
        self.remove(|rule| Instruction::lead_to(&rule.instructions, PortNo::ANY, group).then_some(Removal::GroupDelete))
    }

    /// Removes the rules that send packets through a meter.
    pub fn remove_meter_users(&mut self, meter: u32) {
        self.remove(|rule| super::meters::uses_meter(rule, meter).then_some(()));
    }

    /// The time when the next rule expires, if no packet arrives before.
    pub fn next_expiry(&self) -> Option<Time> {
        if self.timed == 0 {
            return None;
        }
        self.rules
            .iter()
            .flat_map(|rule| {
                let (hard, idle) = rule.deadlines();
                hard.into_iter().chain(idle)
            })
            .min()
    }

    fn remove<R>(&mut self, mut choose: impl FnMut(&Rule) -> Option<R>) -> Vec<(Rule, R)> {
        let chosen: Vec<(usize, R)> =
            self.rules.iter().enumerate().filter_map(|(at, rule)| Some((at, choose(rule)?))).collect();
        let mut gone = Vec::with_capacity(chosen.len());
        // From the end, so that positions stay valid.
        for (at, reason) in chosen.into_iter().rev() {
            let (rule, rank) = (self.rules.remove(at), self.ranks.remove(at));
            self.index.remove(&rule.matching, rank);
            self.timed -= usize::from(rule.idle_timeout > 0 || rule.hard_timeout > 0);
            gone.push((rule, reason));
        }
        gone.reverse();
        gone
    }

    /// Returns the position of the rule with this rank.
    fn place(&self, rank: Rank) -> Option<usize> {
        self.ranks.binary_search(&rank).ok()
    }

    /// Returns the position of the rule that a strict request selects.
    fn strictly(&self, request: &FlowMod) -> Option<usize> {
        self.index.strictly(&request.matching, request.priority).and_then(|rank| self.place(rank))
    }
}

impl Rule {
    /// Reports whether this is a table-miss rule: priority 0, matches every packet (1.3 §5.4).
    pub fn is_table_miss(&self) -> bool {
        self.priority == 0 && self.matching.fields.is_empty()
    }

    fn deadlines(&self) -> (Option<Time>, Option<Time>) {
        let after = |from: Time, seconds: u16| (seconds > 0).then(|| from + u64::from(seconds) * SECOND);
        (after(self.added, self.hard_timeout), after(self.used, self.idle_timeout))
    }
}

/// Reports whether a flow-mod or statistics request selects a rule: by match and priority if strict, otherwise all
/// rules that the match covers; and by cookie.
fn selects(rule: &Rule, request: &FlowMod, strict: bool) -> bool {
    let by_match = if strict { is_strictly(rule, request) } else { request.matching.covers(&rule.matching) };
    by_match && rule.cookie & request.cookie_mask == request.cookie & request.cookie_mask
}

fn is_strictly(rule: &Rule, request: &FlowMod) -> bool {
    rule.priority == request.priority && rule.matching == request.matching
}

/// Reports whether the rule has the request's priority, and some packet could fit both matches.
fn overlaps(rule: &Rule, request: &FlowMod) -> bool {
    let disjoint =
        |a: &Constraint| request.matching.get(a.field).is_some_and(|b| (a.value ^ b.value) & a.mask & b.mask != 0);
    rule.priority == request.priority && !rule.matching.constraints().any(disjoint)
}
