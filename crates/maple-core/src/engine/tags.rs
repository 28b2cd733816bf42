//! Path tags: VLAN ids that tell routes apart where their headers don't.
//!
//! # What
//!
//! Two routes may meet at a switch with equal headers and arrival port, and differ in what comes next. `transit.rs`
//! finds that out and refuses the second. Its owner then takes a *path tag* for it: a VLAN id that stands for what all
//! switches behind the ingress do. The ingress pushes the tag before it outputs to links, later switches match arrival
//! port and tag and nothing else, and whoever outputs to edge ports pops the tag first. Leaves of one ingress whose
//! packets are treated alike behind it share a tag. Ids come from a reserved block ([`TagBlock`]), and the store knows
//! which are taken. Without a free one the route's packets go through the controller.
//!
//! # Why it is correct
//!
//! A tag means one thing. While a packet with tag `t` can be anywhere, all switches that have a rule for `t` have it
//! for the same route:
//! * Only the owner of a tag has it installed, and only for one meaning. The tag goes back to the store after
//!   [`Engine::tag_rest`]: by then packets under way have passed, and those that waited at a switch for its rules are
//!   gone. Should a later switch still have the old part, it refuses the new one.
//! * Only we push tags of the block. What a host sends with such an id goes to the controller (a rule of the
//!   classifier, before those that let packets into the ingress table) and from there straight out of the egress
//!   ports, so it never crosses a link. A switch without further tables can perhaps not match the block: its traces
//!   begin with a read of `vlan_vid`, and leaves with an id of the block are not installed.
//! * Nothing but tag rules takes a packet with a tag: behind them, above all other rules of the transit table, is one
//!   that sends the whole block to the controller.
//!
//! The egress must give back the packet as f saw it. So only packets without a VLAN tag of their own are tagged: the
//! ingress rule is confined to `vlan_vid=0`, and the leaf's other packets go through the controller. The ingress tree
//! stays as f's traces have it. Rewrites happen after the pop. Switches demand that a match states the prerequisites of
//! what is rewritten, so a tag rule states those too; the tag stands for them as for the rest.
//!
//! # Cost
//!
//! Two rules a switch, one more a tag and switch, four bytes a packet. A leaf that needs a tag asks its switches twice.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use maple_wire::{Constraint, Dpid, Field, Match, PortNo, Version};

use super::event::{Install, Refusal};
use super::leaf::{Arrived, Leaf, are_disjoint, from_port};
use super::timers::Timer;
use super::{Engine, Time, actions};
use crate::compile::Rule;
use crate::report::Report;
use crate::route::Part;
use crate::trace::{Item, Trace};
use crate::tree::LeafId;

/// The bit of `vlan_vid` that says that there is a VLAN tag.
const PRESENT: u16 = 0x1000;

/// Rules for tagged packets, in the transit table: above all compiled ones.
const TAGGED: u16 = 65020;
/// The rule for packets with a tag that is not known, below these.
pub(super) const UNKNOWN_TAG: u16 = 65010;

/// The VLAN ids kept for path tags: as many as a power of two, so that one match covers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagBlock {
    first: u16,
    last: u16,
}

/// A range that can't be a [`TagBlock`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "VLAN ids {first:#x} to {last:#x} can't be path tags: it takes a power of two of ids, the first a multiple of \
     their number, within 1 to 0xfff"
)]
pub struct TagBlockError {
    first: u16,
    last: u16,
}

/// What a tag stands for: the parts of all switches behind the ingress, and the prerequisites of what they rewrite.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Meaning {
    parts: BTreeMap<Dpid, Part>,
    needs: Vec<Constraint>,
}

/// The tags of a shard's leaves.
#[derive(Default)]
pub(super) struct Tags {
    by_meaning: BTreeMap<Meaning, u16>,
    uses: BTreeMap<u16, Use>,
    of_leaf: BTreeMap<LeafId, u16>,
}

struct Use {
    meaning: Meaning,
    leaves: BTreeSet<LeafId>,
    /// When nobody can have a packet with the tag any more, if no leaf uses it.
    free: Option<Time>,
}

/// A leaf's tag, for the switches behind the ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathTag {
    pub id: u16,
    /// What packets have in common that a switch must be told before it rewrites them.
    pub needs: Vec<Constraint>,
}

/// The parts of tagged leaves at a switch behind the ingress.
#[derive(Default)]
pub(super) struct Tagged {
    parts: BTreeMap<(PortNo, u16), TaggedPart>,
    leaves: BTreeMap<LeafId, (PortNo, u16)>,
}

struct TaggedPart {
    part: Part,
    needs: Vec<Constraint>,
    users: BTreeMap<LeafId, User>,
}

/// A leaf that uses a tag at a switch.
pub(super) struct User {
    attempt: u32,
    /// Until when its packets may be under way, if it was withdrawn.
    draining: Option<Time>,
    /// The switch refused the rule.
    refused: bool,
    /// What decided, for showing.
    pub trace: Trace,
}

impl User {
    /// Whether it was withdrawn.
    pub fn is_draining(&self) -> bool {
        self.draining.is_some()
    }
}

impl TagBlock {
    /// The ids 0xf00 to 0xfff.
    pub const UPPER: TagBlock = TagBlock { first: 0xf00, last: 0xfff };

    /// A block of VLAN ids. Of these, 0xfff (reserved by IEEE 802.1Q) is given out to nobody.
    ///
    /// # Errors
    /// [`TagBlockError`] if one masked match can't say the ids, or some are no VLAN ids.
    pub fn new(ids: RangeInclusive<u16>) -> Result<TagBlock, TagBlockError> {
        let (first, last) = (*ids.start(), *ids.end());
        let size = u32::from(last) + 1 - u32::from(first).min(u32::from(last) + 1);
        let fits = size.is_power_of_two() && u32::from(first) % size == 0 && first > 0 && last <= 0xfff;
        if fits { Ok(TagBlock { first, last }) } else { Err(TagBlockError { first, last }) }
    }

    /// The ids that may be given out.
    pub fn ids(self) -> RangeInclusive<u16> {
        self.first..=self.last.min(0xffe)
    }

    /// What the packets with one of the ids have in common.
    pub(super) fn constraint(self) -> Constraint {
        let mask = u128::from(PRESENT | 0xfff & !(self.last - self.first));
        Constraint { field: Field::VlanVid, value: u128::from(PRESENT | self.first), mask }
    }

    /// The id, if it is in the block, in a `vlan_vid`.
    fn id_in(self, vlan_vid: u128) -> Option<u16> {
        self.constraint().holds(vlan_vid).then_some(vlan_vid as u16 & 0xfff)
    }

    /// The rule for tagged packets that no other rule takes.
    pub(super) fn unknown(self, cookie: u64) -> Rule {
        let matching = Match::any().with(self.constraint());
        Rule { priority: UNKNOWN_TAG, matching, instructions: actions::to_controller().into(), cookie }
    }
}

/// The constraint that says that a packet has a path tag.
pub(super) fn has_tag(id: u16) -> Constraint {
    Constraint::exact(Field::VlanVid, u128::from(PRESENT | id))
}

/// The id of the block that a packet has: a path tag, or a VLAN id that a host chose.
pub(super) fn reserved_id(block: Option<TagBlock>, packet: &Arrived) -> Option<u16> {
    packet.packet().switch_value(Field::VlanVid).and_then(|vlan_vid| block?.id_in(vlan_vid))
}

/// The constraint that says that a packet has no VLAN tag.
pub(super) fn untagged() -> Constraint {
    Constraint::exact(Field::VlanVid, 0)
}

impl Tagged {
    /// Puts a part in, or says why it can't be.
    pub fn place(&mut self, install: &Install, arrives: PortNo, tag: &PathTag) -> Result<(), Refusal> {
        let key = (arrives, tag.id);
        self.delete(install.leaf);
        let new = || TaggedPart { part: install.part.clone(), needs: tag.needs.clone(), users: BTreeMap::new() };
        let there = self.parts.entry(key).or_insert_with(new);
        if there.part != install.part || there.needs != tag.needs {
            return Err(Refusal::Draining);
        }
        let user = User { attempt: install.attempt, draining: None, refused: false, trace: install.trace.clone() };
        there.users.insert(install.leaf, user);
        self.leaves.insert(install.leaf, key);
        Ok(())
    }

    /// What is done with packets that arrive by a port with a tag.
    pub fn part(&self, arrives: PortNo, id: u16) -> Option<&Part> {
        self.parts.get(&(arrives, id)).map(|there| &there.part)
    }

    /// Whether a leaf's part is in, from this attempt of its owner and not on its way out.
    pub fn has(&self, leaf: LeafId, attempt: u32) -> bool {
        self.user(leaf).is_some_and(|user| user.attempt == attempt && user.draining.is_none() && !user.refused)
    }

    /// The attempt by which a leaf's part came in.
    pub fn attempt(&self, leaf: LeafId) -> Option<u32> {
        self.user(leaf).map(|user| user.attempt)
    }

    /// The leaf's part goes at that time, if it is in.
    pub fn drain(&mut self, leaf: LeafId, until: Time) {
        let there = self.leaves.get(&leaf).and_then(|key| self.parts.get_mut(key));
        if let Some(user) = there.and_then(|there| there.users.get_mut(&leaf)) {
            user.draining = Some(until);
        }
    }

    /// Takes the leaf's part out if its time has come.
    pub fn drained(&mut self, leaf: LeafId, now: Time) -> bool {
        self.user(leaf).and_then(|user| user.draining).is_some_and(|until| until <= now) && self.delete(leaf)
    }

    /// Takes the rule for a leaf's packets out at once, if it serves no others. What is to be done with its packets stays
    /// known.
    pub fn take_rule(&mut self, leaf: LeafId) {
        let there = self.leaves.get(&leaf).and_then(|key| self.parts.get_mut(key));
        if let Some(user) = there.and_then(|there| there.users.get_mut(&leaf)) {
            user.refused = true;
        }
    }

    /// Takes a leaf's part out at once.
    pub fn delete(&mut self, leaf: LeafId) -> bool {
        let Some(key) = self.leaves.remove(&leaf) else { return false };
        if let Some(there) = self.parts.get_mut(&key) {
            there.users.remove(&leaf);
            if there.users.is_empty() {
                self.parts.remove(&key);
            }
        }
        true
    }

    /// The leaves that have a part, with their tags.
    pub fn users(&self) -> impl Iterator<Item = (LeafId, u16, &User)> {
        self.parts.iter().flat_map(|((_, id), there)| there.users.iter().map(|(leaf, user)| (*leaf, *id, user)))
    }

    /// The rules, one a tag and arrival port. Each has the mark of the first leaf that uses it.
    pub fn rules(&self, version: Version, mark: &dyn Fn(Option<LeafId>) -> u64) -> Vec<Rule> {
        let rule = |((port, id), there): (&(PortNo, u16), &TaggedPart)| {
            let all = [from_port(*port), has_tag(*id)].into_iter().chain(there.needs.iter().copied());
            let mut all: Vec<Constraint> = all.collect();
            all.sort_unstable();
            Rule {
                priority: TAGGED,
                matching: Match::from_constraints(all),
                instructions: actions::instructions(version, &there.part, Some(*id), None).into(),
                cookie: mark(there.users.keys().next().copied()),
            }
        };
        self.parts.iter().filter(|(_, there)| there.users.values().any(|user| !user.refused)).map(rule).collect()
    }

    fn user(&self, leaf: LeafId) -> Option<&User> {
        self.parts.get(self.leaves.get(&leaf)?)?.users.get(&leaf)
    }
}

impl Leaf {
    /// What a tag for the leaf would have to stand for; `None` if none of its packets can have a tag.
    fn meaning(&self) -> Option<Meaning> {
        if are_disjoint(&self.trace.items, &[Item::Read(untagged())]) {
            return None;
        }
        let packet = self.representative.packet();
        let mut parts = self.route.parts.clone();
        parts.remove(&self.ingress());
        let rewritten: BTreeSet<Field> =
            parts.values().flat_map(|part| part.treatment.rewrites.keys().copied()).collect();
        let mut needs = BTreeSet::new();
        for field in rewritten {
            let alternative = field.prerequisites().iter().find(|all| {
                all.iter().all(|p| packet.switch_value(p.field).is_some_and(|value| value & p.mask == p.value))
            })?;
            needs.extend(alternative.iter().map(|p| Constraint { field: p.field, value: p.value, mask: p.mask }));
        }
        Some(Meaning { parts, needs: needs.into_iter().collect() })
    }
}

impl Engine {
    /// Tries again, under a tag, to install a leaf that can't be told apart from another at a switch. `false` if it
    /// can't have one.
    pub(super) fn install_tagged(&mut self, id: LeafId, meets_at: Dpid, what: &str) -> bool {
        let Some(tag) = self.choose_tag(id) else { return false };
        self.release_parts(id);
        self.tags.of_leaf.insert(id, tag.id);
        if let Some(used) = self.tags.uses.get_mut(&tag.id) {
            used.leaves.insert(id);
            used.free = None;
        }
        if let Some(leaf) = self.leaves.get_mut(&id) {
            // What other switches still say of the attempt without a tag is of no interest.
            leaf.attempt += 1;
            leaf.tag = Some(tag);
        }
        let report = Report::ToldApart { switch: meets_at, what: what.into() };
        self.report_once(report, &format!("told apart {meets_at}"));
        self.begin(id);
        true
    }

    /// A tag for the leaf: that of other leaves whose packets are treated alike, or a new one.
    fn choose_tag(&mut self, id: LeafId) -> Option<PathTag> {
        let block = self.options.path_tags?;
        let leaf = self.leaves.get(&id).filter(|leaf| leaf.tag.is_none())?;
        let state = self.store.snapshot();
        let can = |dpid| state.switch(dpid).is_some_and(|info| info.version == Version::Of13);
        if !self.switches.get(&leaf.ingress())?.three_tables || !leaf.others().all(can) {
            return None;
        }
        let meaning = leaf.meaning()?;
        let needs = meaning.needs.clone();
        if let Some(id) = self.tags.by_meaning.get(&meaning) {
            return Some(PathTag { id: *id, needs });
        }
        let id = self.store.take_tag(block.ids())?;
        self.tags.by_meaning.insert(meaning.clone(), id);
        self.tags.uses.insert(id, Use { meaning, leaves: BTreeSet::new(), free: None });
        Some(PathTag { id, needs })
    }

    /// No rule at the ingress gives the leaf's packets its tag any more, and the other switches were told.
    pub(super) fn release_tag(&mut self, leaf: LeafId) {
        let Some(id) = self.tags.of_leaf.remove(&leaf) else { return };
        let free = self.now + self.tag_rest();
        if let Some(used) = self.tags.uses.get_mut(&id) {
            used.leaves.remove(&leaf);
            if used.leaves.is_empty() {
                used.free = Some(free);
                self.timers.insert((free, Timer::Tag(id)));
            }
        }
    }

    /// A tag had its rest: if no leaf has come to use it since, another meaning may have it.
    pub(super) fn tag_timer(&mut self, id: u16) {
        let now = self.now;
        if self.tags.uses.get(&id).and_then(|used| used.free).is_some_and(|free| free <= now)
            && let Some(used) = self.tags.uses.remove(&id)
        {
            self.tags.by_meaning.remove(&used.meaning);
            self.store.give_tag_back(id);
        }
    }

    /// How long a tag that nobody uses means what it did: until packets under way have passed or, having waited for
    /// rules, are gone. Twice that, for letters to later switches take their time.
    fn tag_rest(&self) -> Duration {
        (self.options.drain + self.options.hold) * 2
    }
}
