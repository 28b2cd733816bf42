//! A flow table: rules by decreasing priority, of which the first that matches takes a packet (1.0 §3.4, 1.3 §5.2–5.5
//! and §6.4).
//!
//! It stays fast with a hundred thousand rules: an index finds them, each has a slot that it keeps, and rules with
//! equal instructions share them. OpenFlow leaves open which of several matching rules of one priority takes a packet.
//! Here the oldest does, and [`Found::ambiguous`] reports that there was a choice between different instructions: a
//! controller must not rely on its outcome.

mod index;

use std::cmp::Reverse;
use std::sync::Arc;

use maple_wire::msg::FlowMod;
use maple_wire::{Constraint, Field, Instruction, Match, PortNo, Version};
use rustc_hash::FxHashSet;

use super::refusal::Refusal;
use crate::time::{Nanoseconds, SECOND};
use index::Index;

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
    /// The instructions for them, in the order of their execution.
    pub instructions: Arc<[Instruction]>,
    /// The controller's cookie.
    pub cookie: u64,
    /// Bits of `OFPFF_*` that it was added with.
    pub flags: u16,
    /// Seconds without a packet after which the rule expires; 0 means never.
    pub idle_timeout: u16,
    /// Seconds after which the rule expires; 0 means never.
    pub hard_timeout: u16,
    /// The time when it was added.
    pub added: Nanoseconds,
    /// The time when it last took a packet, or was added.
    pub used: Nanoseconds,
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

/// The position of a rule: higher priorities first, older rules first among equals.
type Rank = (Reverse<u16>, u64);

/// A flow table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The rules, each in a slot that it keeps.
    slots: Vec<Option<(Rank, Rule)>>,
    /// The free slots.
    free: Vec<u32>,
    index: Index,
    /// Instructions that rules share: most rules have the same actions as another one.
    shared: FxHashSet<Arc<[Instruction]>>,
    added: u64,
    /// The number of rules that have a timeout.
    timed: usize,
    /// A time before which no rule expires.
    unexpired_until: Nanoseconds,
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
        Table { capacity, unexpired_until: Nanoseconds::MAX, ..Table::default() }
    }

    /// Returns the rules, highest priority first, older ones first among equals.
    pub fn rules(&self) -> Vec<&Rule> {
        let mut rules: Vec<&(Rank, Rule)> = self.slots.iter().flatten().collect();
        rules.sort_unstable_by_key(|(rank, _)| *rank);
        rules.into_iter().map(|(_, rule)| rule).collect()
    }

    /// Iterates over the rules in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.slots.iter().flatten().map(|(_, rule)| rule)
    }

    /// Returns the number of rules.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Reports whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the maximum number of rules.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the maximum number of rules. Rules that are there stay.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Reports whether the table has a rule of the match and priority of a flow-mod.
    pub fn has(&self, request: &FlowMod) -> bool {
        self.strictly(request).is_some()
    }

    /// Returns the rule that takes a packet with these fields; a field that the packet lacks is `None`. Counts the
    /// lookup, not the packet's bytes.
    pub fn lookup(&mut self, packet: impl FnMut(Field) -> Option<u128>) -> Option<Found<'_>> {
        self.lookups += 1;
        let mut best: Option<(Rank, u32)> = None;
        let mut ambiguous = false;
        self.index.search(packet, |value, (rank, slot)| {
            let fits = |rule: &Rule| rule.matching.constraints().all(|c| value(c.field).is_some_and(|v| c.holds(v)));
            if self.rule(slot).is_some_and(fits) {
                match best {
                    Some((other, at)) if other.0 == rank.0 => {
                        ambiguous |= self.rule(at).map(|r| &r.instructions) != self.rule(slot).map(|r| &r.instructions);
                        best = best.min(Some((rank, slot)));
                    }
                    Some((other, _)) if other < rank => {}
                    _ => (best, ambiguous) = (Some((rank, slot)), false),
                }
            }
            best.map(|(rank, _)| rank.0.0)
        });
        let (_, slot) = best?;
        self.matches += 1;
        self.ambiguous_matches += u64::from(ambiguous);
        let (_, rule) = self.slots[slot as usize].as_mut()?;
        Some(Found { rule, ambiguous })
    }

    /// Executes `OFPFC_ADD` of a checked flow-mod. A rule of the same match and priority is replaced without notice; in
    /// 1.3 its counters are kept unless the flow-mod resets them.
    ///
    /// # Errors
    /// [`Refusal::Overlap`] if the flow-mod asks for that check, or [`Refusal::TableFull`].
    pub fn add(&mut self, now: Nanoseconds, version: Version, request: &FlowMod) -> Result<(), Refusal> {
        let mut rule = Rule {
            priority: request.priority,
            matching: request.matching.clone(),
            instructions: self.share(&request.instructions),
            cookie: request.cookie,
            flags: request.flags,
            idle_timeout: request.idle_timeout,
            hard_timeout: request.hard_timeout,
            added: now,
            used: now,
            packets: 0,
            bytes: 0,
        };
        self.unexpired_until = self.unexpired_until.min(rule.expiry().unwrap_or(Nanoseconds::MAX));
        if let Some((_, old)) = self.strictly(request).and_then(|slot| self.slots[slot as usize].as_mut()) {
            self.timed = self.timed + usize::from(rule.is_timed()) - usize::from(old.is_timed());
            if version == Version::Of13 && request.flags & RESET_COUNTS == 0 {
                (rule.packets, rule.bytes) = (old.packets, old.bytes);
            }
            let old = std::mem::replace(old, rule);
            self.unshare(&old.instructions);
            return Ok(());
        }
        if request.flags & CHECK_OVERLAP != 0 && self.iter().any(|r| overlaps(r, request)) {
            return Err(Refusal::Overlap);
        }
        if self.len() >= self.capacity {
            return Err(Refusal::TableFull);
        }
        self.added += 1;
        self.timed += usize::from(rule.is_timed());
        let rank = (Reverse(rule.priority), self.added);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.index.insert(&rule.matching, (rank, slot));
        self.slots[slot as usize] = Some((rank, rule));
        Ok(())
    }

    /// Returns these instructions, shared with all rules that have them.
    fn share(&mut self, instructions: &[Instruction]) -> Arc<[Instruction]> {
        if let Some(shared) = self.shared.get(instructions) {
            return Arc::clone(shared);
        }
        let shared: Arc<[Instruction]> = instructions.into();
        self.shared.insert(Arc::clone(&shared));
        shared
    }

    /// Forgets instructions that a rule had, if no other one has them.
    fn unshare(&mut self, instructions: &Arc<[Instruction]>) {
        if Arc::strong_count(instructions) == 2 {
            self.shared.remove(instructions);
        }
    }

    /// Executes `OFPFC_MODIFY` and `OFPFC_MODIFY_STRICT`. Returns the number of changed rules. Counters and times stay,
    /// unless a 1.3 flow-mod resets the counters. In 1.0 the cookie changes too, as in Open vSwitch.
    pub fn modify(&mut self, version: Version, request: &FlowMod, strict: bool) -> usize {
        let chosen = self.selected(request, strict);
        if chosen.is_empty() {
            return 0;
        }
        let instructions = self.share(&request.instructions);
        for slot in &chosen {
            let Some((_, rule)) = &mut self.slots[*slot as usize] else { continue };
            match version {
                Version::Of10 => rule.cookie = request.cookie,
                Version::Of13 if request.flags & RESET_COUNTS != 0 => (rule.packets, rule.bytes) = (0, 0),
                Version::Of13 => {}
            }
            let old = std::mem::replace(&mut rule.instructions, Arc::clone(&instructions));
            self.unshare(&old);
        }
        chosen.len()
    }

    /// Executes `OFPFC_DELETE` and `OFPFC_DELETE_STRICT`. Returns the deleted rules, highest priority first.
    pub fn delete(&mut self, request: &FlowMod, strict: bool) -> Vec<Rule> {
        let goes = |rule: &Rule| Instruction::lead_to(&rule.instructions, request.out_port, request.out_group);
        let mut chosen = self.selected(request, strict);
        chosen.retain(|slot| self.rule(*slot).is_some_and(goes));
        self.remove(chosen)
    }

    /// Returns the slots of the rules that a request selects.
    fn selected(&self, request: &FlowMod, strict: bool) -> Vec<u32> {
        if strict {
            let is_meant = |slot: &u32| self.rule(*slot).is_some_and(|rule| has_cookie(rule, request));
            return self.strictly(request).filter(is_meant).into_iter().collect();
        }
        self.chosen(|rule| selects(rule, request))
    }

    /// Returns the slots of the rules for which the condition is true.
    fn chosen(&self, mut is_meant: impl FnMut(&Rule) -> bool) -> Vec<u32> {
        let rules = (0..).zip(&self.slots).filter_map(|(slot, rule)| Some((slot, &rule.as_ref()?.1)));
        rules.filter(|(_, rule)| is_meant(rule)).map(|(slot, _)| slot).collect()
    }

    /// Returns the rules that a request's match and cookie select, whatever their priority.
    pub fn covered(&self, request: &FlowMod) -> Vec<&Rule> {
        let mut rules = self.rules();
        rules.retain(|rule| selects(rule, request));
        rules
    }

    /// Removes expired rules, and returns them with the reason. A hard timeout takes precedence over an idle one.
    pub fn expire(&mut self, now: Nanoseconds) -> Vec<(Rule, Removal)> {
        if now < self.unexpired_until {
            return Vec::new();
        }
        let gone = self.remove(self.chosen(|rule| rule.expiry().is_some_and(|at| at <= now)));
        self.unexpired_until = self.next_expiry().unwrap_or(Nanoseconds::MAX);
        let with_reason = |rule: Rule| {
            let is_hard = rule.deadlines().0.is_some_and(|hard| hard <= now);
            (rule, if is_hard { Removal::Hard } else { Removal::Idle })
        };
        gone.into_iter().map(with_reason).collect()
    }

    /// Removes the rules that use a group.
    pub fn remove_group_users(&mut self, group: u32) -> Vec<Rule> {
        self.remove(self.chosen(|rule| Instruction::lead_to(&rule.instructions, PortNo::ANY, group)))
    }

    /// Removes the rules that send packets through a meter.
    pub fn remove_meter_users(&mut self, meter: u32) {
        self.remove(self.chosen(|rule| super::meters::uses_meter(rule, meter)));
    }

    /// Returns the time when the next rule expires, if no packet arrives before.
    pub fn next_expiry(&self) -> Option<Nanoseconds> {
        if self.timed == 0 {
            return None;
        }
        self.iter().filter_map(Rule::expiry).min()
    }

    /// Empties slots. Returns their rules, highest priority first.
    fn remove(&mut self, slots: Vec<u32>) -> Vec<Rule> {
        let mut gone = Vec::with_capacity(slots.len());
        for slot in slots {
            let Some((rank, rule)) = self.slots[slot as usize].take() else { continue };
            self.free.push(slot);
            self.index.remove(&rule.matching, rank);
            self.timed -= usize::from(rule.is_timed());
            self.unshare(&rule.instructions);
            gone.push((rank, rule));
        }
        gone.sort_unstable_by_key(|(rank, _)| *rank);
        gone.into_iter().map(|(_, rule)| rule).collect()
    }

    fn rule(&self, slot: u32) -> Option<&Rule> {
        self.slots[slot as usize].as_ref().map(|(_, rule)| rule)
    }

    /// Returns the slot of the rule that a strict request selects, whatever its cookie.
    fn strictly(&self, request: &FlowMod) -> Option<u32> {
        let is_meant = |slot: &u32| self.rule(*slot).is_some_and(|rule| rule.matching == request.matching);
        self.index.strictly(&request.matching, request.priority).find(is_meant)
    }
}

impl Rule {
    /// Reports whether this is a table-miss rule: priority 0, matches every packet (1.3 §5.4).
    pub fn is_table_miss(&self) -> bool {
        self.priority == 0 && self.matching.fields.is_empty()
    }

    fn is_timed(&self) -> bool {
        self.idle_timeout > 0 || self.hard_timeout > 0
    }

    /// Returns the time when the rule expires, if no packet arrives before.
    fn expiry(&self) -> Option<Nanoseconds> {
        let (hard, idle) = self.deadlines();
        hard.into_iter().chain(idle).min()
    }

    fn deadlines(&self) -> (Option<Nanoseconds>, Option<Nanoseconds>) {
        let after = |from: Nanoseconds, seconds: u16| (seconds > 0).then(|| from + u64::from(seconds) * SECOND);
        (after(self.added, self.hard_timeout), after(self.used, self.idle_timeout))
    }
}

/// Reports whether a request that is not strict selects a rule: by match and cookie.
fn selects(rule: &Rule, request: &FlowMod) -> bool {
    has_cookie(rule, request) && request.matching.covers(&rule.matching)
}

fn has_cookie(rule: &Rule, request: &FlowMod) -> bool {
    rule.cookie & request.cookie_mask == request.cookie & request.cookie_mask
}

/// Reports whether the rule has the request's priority, and some packet could fit both matches.
fn overlaps(rule: &Rule, request: &FlowMod) -> bool {
    let disjoint =
        |a: &Constraint| request.matching.get(a.field).is_some_and(|b| (a.value ^ b.value) & a.mask & b.mask != 0);
    rule.priority == request.priority && !rule.matching.constraints().any(disjoint)
}
