//! The children of a `V` node.
//!
//! Most `V` nodes have one or two children, and some have tens of thousands. So a single child is in the node itself, a
//! few are in a list, and many are in a hash table. The table has open addressing. The upper bits of a product give the
//! place of a value, and the gap of a removed entry is filled from the entries after it. So a look-up reads one or two
//! neighbouring places. Keys are no wider than the mask needs: with 32 bits a child takes 11 to 21 bytes, with 64 bits
//! twice as much.

use maple_prefetch::prefetch;
use maple_wire::Field;

use super::NodeId;
use crate::trace::Fields;

/// The maximum number of children in a list. Chosen: comparing up to four values costs less than a hash, and a table
/// for them would be mostly empty.
const MAX_LISTED: usize = 4;

/// A read of a field under a mask, with a child for each value seen.
#[derive(Clone, Debug)]
pub(crate) struct ValueNode {
    /// The field.
    pub(crate) field: Field,
    /// The bits that are read.
    pub(crate) mask: u128,
    children: Children,
}

#[derive(Clone, Debug)]
enum Children {
    /// One child, or none.
    One {
        value: u128,
        child: Option<NodeId>,
    },
    Few(Vec<(u128, NodeId)>),
    /// The mask has no bit above 31.
    Short(ChildTable<u32>),
    /// The mask has no bit above 63.
    Long(ChildTable<u64>),
    Wide(ChildTable<u128>),
}

/// A hash table from values to nodes.
#[derive(Clone, Debug)]
struct ChildTable<K> {
    /// A power of two entries, of which at most three quarters are taken.
    entries: Box<[Option<(K, NodeId)>]>,
    len: usize,
}

/// A value as a key.
trait ChildKey: Copy + Eq {
    /// Returns the key of a value that fits into this type.
    fn from_value(value: u128) -> Self;
    /// Returns the value.
    fn value(self) -> u128;
    /// Returns the bits of the key as one word.
    fn word(self) -> u64;
}

impl ChildKey for u32 {
    fn from_value(value: u128) -> u32 {
        value as u32
    }

    fn value(self) -> u128 {
        u128::from(self)
    }

    fn word(self) -> u64 {
        u64::from(self)
    }
}

impl ChildKey for u64 {
    fn from_value(value: u128) -> u64 {
        value as u64
    }

    fn value(self) -> u128 {
        u128::from(self)
    }

    fn word(self) -> u64 {
        self
    }
}

impl ChildKey for u128 {
    fn from_value(value: u128) -> u128 {
        value
    }

    fn value(self) -> u128 {
        self
    }

    fn word(self) -> u64 {
        self as u64 ^ ((self >> 64) as u64).wrapping_mul(0xff51_afd7_ed55_8ccd)
    }
}

impl<K: ChildKey> ChildTable<K> {
    /// Creates a table of the children in `list`, with room for a few more.
    fn from_list(list: &[(u128, NodeId)]) -> ChildTable<K> {
        let mut table = ChildTable { entries: vec![None; 16].into(), len: 0 };
        list.iter().for_each(|(value, node)| table.insert(K::from_value(*value), *node));
        table
    }

    /// Returns the place where a key belongs if it is free.
    fn home(&self, key: K) -> usize {
        // There are at least 16 entries, so the shift is less than 64.
        (key.word().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.entries.len().ilog2())) as usize
    }

    /// Returns the place of the key, or the one where it would be inserted.
    fn find(&self, key: K) -> usize {
        let mut at = self.home(key);
        while self.entries[at].is_some_and(|(there, _)| there != key) {
            at = self.next(at);
        }
        at
    }

    /// Prefetches the place where the key belongs.
    fn prefetch(&self, key: K) {
        prefetch(&self.entries[self.home(key)]);
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.entries.len() - 1)
    }

    fn get(&self, key: K) -> Option<NodeId> {
        self.entries[self.find(key)].map(|(_, node)| node)
    }

    fn insert(&mut self, key: K, node: NodeId) {
        if (self.len + 1) * 4 > self.entries.len() * 3 {
            let double = vec![None; self.entries.len() * 2].into();
            for (key, node) in std::mem::replace(&mut self.entries, double).into_iter().flatten() {
                let at = self.find(key);
                self.entries[at] = Some((key, node));
            }
        }
        let at = self.find(key);
        self.len += usize::from(self.entries[at].is_none());
        self.entries[at] = Some((key, node));
    }

    fn remove(&mut self, key: K) {
        let mut gap = self.find(key);
        if self.entries[gap].take().is_none() {
            return;
        }
        self.len -= 1;
        // Entries after the gap move up, unless that would place them before where they belong.
        let mut at = self.next(gap);
        while let Some((key, _)) = self.entries[at] {
            let ahead = |from: usize| at.wrapping_sub(from) & (self.entries.len() - 1);
            if ahead(self.home(key)) >= ahead(gap) {
                self.entries[gap] = self.entries[at].take();
                gap = at;
            }
            at = self.next(at);
        }
    }

    fn list(&self) -> Vec<(u128, NodeId)> {
        self.entries.iter().flatten().map(|(key, node)| (key.value(), *node)).collect()
    }
}

impl ValueNode {
    pub(super) fn new(field: Field, mask: u128) -> ValueNode {
        ValueNode { field, mask, children: Children::One { value: 0, child: None } }
    }

    /// Returns the child for a value. The value's bits outside the mask don't count.
    pub(crate) fn get(&self, value: u128) -> Option<NodeId> {
        let value = value & self.mask;
        match &self.children {
            Children::One { value: there, child } => child.filter(|_| *there == value),
            Children::Few(list) => list.iter().find(|(there, _)| *there == value).map(|(_, child)| *child),
            Children::Short(table) => table.get(value as u32),
            Children::Long(table) => table.get(value as u64),
            Children::Wide(table) => table.get(value),
        }
    }

    /// Prefetches what a look-up of this packet reads besides the node.
    #[inline]
    pub(super) fn prefetch<P: Fields + ?Sized>(&self, packet: &P) {
        self.prefetch_child(|| packet.value(self.field).unwrap_or_default() & self.mask);
    }

    /// Prefetches what a look-up of the child with a value reads besides the node.
    #[inline]
    pub(super) fn prefetch_child(&self, value: impl FnOnce() -> u128) {
        match &self.children {
            Children::One { .. } => {}
            Children::Few(list) => prefetch(&list[..]),
            Children::Short(table) => table.prefetch(value() as u32),
            Children::Long(table) => table.prefetch(value() as u64),
            Children::Wide(table) => table.prefetch(value()),
        }
    }

    /// Returns the size in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self)
            + match &self.children {
                Children::One { .. } => 0,
                Children::Few(list) => size_of_val(&list[..]),
                Children::Short(table) => size_of_val(&table.entries[..]),
                Children::Long(table) => size_of_val(&table.entries[..]),
                Children::Wide(table) => size_of_val(&table.entries[..]),
            }
    }

    /// Reports whether every value fits into 64 bits.
    pub(super) fn fits_u64(&self) -> bool {
        u64::try_from(self.mask).is_ok()
    }

    /// Returns the number of children.
    pub(crate) fn len(&self) -> usize {
        match &self.children {
            Children::One { child, .. } => child.iter().len(),
            Children::Few(list) => list.len(),
            Children::Short(table) => table.len,
            Children::Long(table) => table.len,
            Children::Wide(table) => table.len,
        }
    }

    /// Returns the children with ascending values.
    pub(crate) fn sorted(&self) -> Vec<(u128, NodeId)> {
        let mut sorted = Vec::with_capacity(self.len());
        self.for_each(|value, child| sorted.push((value, child)));
        sorted.sort_unstable();
        sorted
    }

    /// Calls `show` with the children, in no order.
    pub(super) fn for_each(&self, mut show: impl FnMut(u128, NodeId)) {
        let mut show_all = |list: &[(u128, NodeId)]| list.iter().for_each(|(value, child)| show(*value, *child));
        match &self.children {
            Children::One { value, child } => child.iter().for_each(|child| show(*value, *child)),
            Children::Few(list) => show_all(list),
            Children::Short(table) => show_all(&table.list()),
            Children::Long(table) => show_all(&table.list()),
            Children::Wide(table) => show_all(&table.list()),
        }
    }

    /// Inserts a child. It replaces the one with the same value.
    pub(super) fn insert(&mut self, value: u128, child: NodeId) {
        match &mut self.children {
            Children::One { value: there, child: Some(first) } if *there != value => {
                self.children = Children::Few(vec![(*there, *first), (value, child)]);
            }
            Children::One { value: there, child: only } => (*there, *only) = (value, Some(child)),
            Children::Few(list) => match list.iter_mut().find(|(there, _)| *there == value) {
                Some((_, there)) => *there = child,
                None => {
                    list.reserve_exact(1);
                    list.push((value, child));
                    if list.len() > MAX_LISTED {
                        self.children = match self.mask {
                            mask if u32::try_from(mask).is_ok() => Children::Short(ChildTable::from_list(list)),
                            mask if u64::try_from(mask).is_ok() => Children::Long(ChildTable::from_list(list)),
                            _ => Children::Wide(ChildTable::from_list(list)),
                        };
                    }
                }
            },
            Children::Short(table) => table.insert(value as u32, child),
            Children::Long(table) => table.insert(value as u64, child),
            Children::Wide(table) => table.insert(value, child),
        }
    }

    /// Removes the child for a value, if there is one.
    pub(super) fn remove(&mut self, value: u128) {
        match &mut self.children {
            Children::One { value: there, child } => *child = child.filter(|_| *there != value),
            Children::Few(list) => list.retain(|(there, _)| *there != value),
            Children::Short(table) => table.remove(value as u32),
            Children::Long(table) => table.remove(value as u64),
            Children::Wide(table) => table.remove(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn children_are_those_that_were_put_in_and_not_taken_out(
            field in select(vec![Field::Ipv4Src, Field::EthSrc, Field::Ipv6Src]),
            edits in vec((0..60u128, 0..4u32, 0..3u8), 0..200),
        ) {
            let (mut values, mut oracle) = (ValueNode::new(field, field.full_mask()), BTreeMap::new());
            for (i, (value, shift, kind)) in edits.iter().enumerate() {
                let value = value << (shift * (field.bits() / 4 - 2));
                if *kind == 0 {
                    values.remove(value);
                    oracle.remove(&value);
                } else {
                    values.insert(value, NodeId::at(i));
                    oracle.insert(value, NodeId::at(i));
                }
                prop_assert_eq!(values.get(value), oracle.get(&value).copied());
                prop_assert_eq!(values.len(), oracle.len());
            }
            for value in 0..60u128 {
                prop_assert_eq!(values.get(value), oracle.get(&value).copied());
            }
            prop_assert_eq!(values.sorted(), oracle.into_iter().collect::<Vec<_>>());
        }
    }
}
