//! The children of a `V` node.
//!
//! Most `V` nodes have one child or two, some have tens of thousands. So few children stand in a list, many in a hash
//! table, with keys no wider than the field needs: a child in a large table costs 16 bytes and the table's slack.

use maple_wire::Field;
use rustc_hash::FxHashMap;

use super::NodeId;

/// Up to how many children stand in a list.
const FEW: usize = 4;

/// A read of a field under a mask, with a child for each value seen.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    /// The field.
    pub(crate) field: Field,
    /// The bits that are read.
    pub(crate) mask: u128,
    children: Children,
}

#[derive(Clone, Debug)]
enum Children {
    Few(Vec<(u128, NodeId)>),
    /// The mask has no bit above 63.
    Narrow(FxHashMap<u64, NodeId>),
    Wide(FxHashMap<u128, NodeId>),
}

impl Values {
    pub(super) fn new(field: Field, mask: u128) -> Values {
        Values { field, mask, children: Children::Few(Vec::new()) }
    }

    /// The child for a value, whose bits outside the mask don't count.
    pub(crate) fn get(&self, value: u128) -> Option<NodeId> {
        let value = value & self.mask;
        match &self.children {
            Children::Few(list) => list.iter().find(|(there, _)| *there == value).map(|(_, child)| *child),
            Children::Narrow(table) => table.get(&(value as u64)).copied(),
            Children::Wide(table) => table.get(&value).copied(),
        }
    }

    /// Whether every value fits into 64 bits.
    pub(super) fn is_narrow(&self) -> bool {
        u64::try_from(self.mask).is_ok()
    }

    /// How many children there are.
    pub(crate) fn len(&self) -> usize {
        match &self.children {
            Children::Few(list) => list.len(),
            Children::Narrow(table) => table.len(),
            Children::Wide(table) => table.len(),
        }
    }

    /// The children with ascending values.
    pub(crate) fn sorted(&self) -> Vec<(u128, NodeId)> {
        let mut sorted: Vec<(u128, NodeId)> = match &self.children {
            Children::Few(list) => list.clone(),
            Children::Narrow(table) => table.iter().map(|(value, child)| (u128::from(*value), *child)).collect(),
            Children::Wide(table) => table.iter().map(|(value, child)| (*value, *child)).collect(),
        };
        sorted.sort_unstable();
        sorted
    }

    /// Puts a child in, in place of the one that has its value.
    pub(super) fn insert(&mut self, value: u128, child: NodeId) {
        let mask = self.mask;
        if let Children::Few(list) = &mut self.children {
            if let Some((_, there)) = list.iter_mut().find(|(other, _)| *other == value) {
                *there = child;
                return;
            }
            if list.len() < FEW {
                list.reserve_exact(1);
                list.push((value, child));
                return;
            }
            let list = std::mem::take(list);
            self.children = if u64::try_from(mask).is_ok() {
                Children::Narrow(list.into_iter().map(|(value, child)| (value as u64, child)).collect())
            } else {
                Children::Wide(list.into_iter().collect())
            };
        }
        match &mut self.children {
            Children::Few(_) => unreachable!("a full list has just become a table"),
            Children::Narrow(table) => table.insert(value as u64, child),
            Children::Wide(table) => table.insert(value, child),
        };
    }

    pub(super) fn remove(&mut self, value: u128) {
        match &mut self.children {
            Children::Few(list) => list.retain(|(there, _)| *there != value),
            Children::Narrow(table) => {
                table.remove(&(value as u64));
            }
            Children::Wide(table) => {
                table.remove(&value);
            }
        }
    }
}
