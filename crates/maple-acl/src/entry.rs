//! Entries: what a list asks, in order.
//!
//! An entry is a cube, or a cube between groups: its packets have an address of each group in a field of theirs. One of
//! the latter stands for a cube for each combination of addresses. What people ask about a list rarely takes these.

use std::sync::Arc;

use maple_core::Fields;
use maple_core::access::AccessGroup;
use maple_wire::{Dpid, Packet};

use crate::cube::{Cube, SWITCH, blocks};

/// A rule of a list, or one of its settings without a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleRef {
    /// A written rule, by its index.
    Rule(usize),
    /// The setting for ARP and IPv6 neighbour discovery.
    Arp,
    /// The setting for fragments.
    Fragments,
    /// The default, for packets that no rule matches.
    Default,
}

/// Addresses from the first to the last.
type Block = (u128, u128);

/// A set of packets, and the rule that decides about them unless an earlier entry does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The packets, apart from the groups.
    pub cube: Cube,
    /// The groups all of which have the packets too. The cube says nothing of their fields.
    pub groups: Vec<AccessGroup>,
    /// The aligned blocks that the addresses of each group form, ascending.
    blocks: Vec<Arc<[Block]>>,
    /// The rule, or the setting that has entries of its own.
    pub rule: RuleRef,
    /// Whether the packets look like replies to those of a rule.
    pub is_reply: bool,
}

impl Entry {
    /// Creates an entry without groups.
    pub(crate) fn from_cube(cube: Cube, rule: RuleRef) -> Entry {
        Entry { cube, groups: Vec::new(), blocks: Vec::new(), rule, is_reply: false }
    }

    /// Creates an entry of the packets of a cube that have an address of each of these groups.
    pub(crate) fn between(groups: Vec<AccessGroup>, cube: Cube, rule: RuleRef, is_reply: bool) -> Entry {
        let blocks = groups.iter().map(|group| blocks_of(&group.addresses)).collect();
        Entry { cube, groups, blocks, rule, is_reply }
    }

    /// Returns the cubes that the packets form: one for each combination of blocks of addresses.
    pub fn cubes(&self) -> impl Iterator<Item = Cube> {
        self.cubes_at(&Cube::all())
    }

    /// Returns the number of cubes that the packets form.
    pub fn count(&self) -> usize {
        self.blocks.iter().map(|blocks| blocks.len()).product()
    }

    /// Returns those of the cubes that the packets form which overlap this one.
    pub(crate) fn cubes_at<'a>(&'a self, around: &Cube) -> Box<dyn Iterator<Item = Cube> + 'a> {
        let mut cubes: Box<dyn Iterator<Item = Cube> + 'a> =
            Box::new(self.cube.overlaps(around).then(|| self.cube.clone()).into_iter());
        for (group, blocks) in self.groups.iter().zip(&self.blocks) {
            let field = group.field;
            let (lo, hi) = around.get(field).map_or((0, u128::MAX), |there| (there.lo, there.hi));
            let from = blocks.partition_point(|(_, last)| *last < lo);
            let near = &blocks[from..blocks.partition_point(|(first, _)| *first <= hi)];
            let with =
                move |cube: Cube| near.iter().filter_map(move |(first, last)| cube.clone().with(field, *first, *last));
            cubes = Box::new(cubes.flat_map(with));
        }
        cubes
    }

    /// Returns the entries without groups that decide the same.
    pub(crate) fn expanded(&self) -> impl Iterator<Item = Entry> {
        self.cubes().map(|cube| Entry { cube, groups: Vec::new(), blocks: Vec::new(), ..*self })
    }

    /// Reports whether a packet that enters at a switch belongs to the entry, if the rest of the cube has it.
    pub(crate) fn has_place_and_addresses(&self, switch: Dpid, packet: &Packet<'_>) -> bool {
        let is_in = |AccessGroup { field, addresses, .. }: &AccessGroup| {
            packet.value(*field).is_some_and(|address| addresses.binary_search(&address).is_ok())
        };
        self.cube.get(SWITCH).is_none_or(|there| there.lo == u128::from(switch.0)) && self.groups.iter().all(is_in)
    }
}

/// Returns the aligned blocks that ascending addresses form, as few as possible.
fn blocks_of(addresses: &[u128]) -> Arc<[Block]> {
    let adjacent = addresses.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    adjacent.filter_map(|run| Some(blocks(*run.first()?, *run.last()?))).flatten().collect()
}
