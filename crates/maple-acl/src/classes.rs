//! The addresses that a list with groups tells apart.
//!
//! Addresses of a field that are in the same groups are of one class (`maple_core::access`). For packets of each
//! combination of classes a list has entries of its own. This file counts these, and finds packets of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::access::AccessGroup;
use maple_wire::Field;

use crate::cube::{Cube, Interval};
use crate::entry::Entry;

/// The groups that have an address, by their numbers, ascending.
type Class = Vec<usize>;

/// The classes of the addresses of a field.
#[derive(Debug)]
pub struct AddressClasses {
    field: Field,
    groups: Vec<Arc<[u128]>>,
    /// The addresses of each class, ascending.
    classes: BTreeMap<Class, Vec<u128>>,
    /// The addresses of all classes, ascending.
    all: Vec<u128>,
}

impl AddressClasses {
    /// Returns the classes of each field that groups of these entries are about.
    pub fn of_entries(entries: &[Entry]) -> Vec<AddressClasses> {
        let mut by_field: BTreeMap<Field, Vec<Arc<[u128]>>> = BTreeMap::new();
        for AccessGroup { field, addresses, .. } in entries.iter().flat_map(|entry| &entry.groups) {
            let groups = by_field.entry(*field).or_default();
            // A rule's entries share their groups.
            if !groups.last().is_some_and(|last| Arc::ptr_eq(last, addresses)) {
                groups.push(Arc::clone(addresses));
            }
        }
        by_field.into_iter().map(|(field, groups)| AddressClasses::new(field, groups)).collect()
    }

    fn new(field: Field, mut groups: Vec<Arc<[u128]>>) -> AddressClasses {
        groups.sort_unstable();
        groups.dedup();
        let mut of_address: BTreeMap<u128, Class> = BTreeMap::new();
        for (number, addresses) in groups.iter().enumerate() {
            addresses.iter().for_each(|address| of_address.entry(*address).or_default().push(number));
        }
        let all = of_address.keys().copied().collect();
        let mut classes: BTreeMap<Class, Vec<u128>> = BTreeMap::new();
        of_address.into_iter().for_each(|(address, class)| classes.entry(class).or_default().push(address));
        AddressClasses { field, groups, classes, all }
    }

    /// Divides a part of an entry's packets by the classes of their addresses. Returns a part of each piece: with one
    /// of its addresses, or without the field.
    fn divide(&self, part: &Cube, entry: Option<&Entry>) -> Vec<Cube> {
        let wanted = entry.and_then(|entry| entry.groups.iter().find(|group| group.field == self.field));
        let wanted = wanted.and_then(|group| self.groups.binary_search(&group.addresses).ok());
        let field = Interval { field: self.field, lo: 0, hi: self.field.full_mask() };
        let Some(with_field) = self.with_prerequisites(part) else { return vec![part.clone()] };
        let Interval { lo, hi, .. } = with_field.get(self.field).unwrap_or(field);
        let is_wanted = |class: &Class| wanted.is_none_or(|group| class.contains(&group));
        let one_of = |addresses: &[u128]| {
            let first = addresses.get(addresses.partition_point(|address| *address < lo)).copied();
            first.filter(|address| *address <= hi)
        };
        let mut found: Vec<u128> =
            self.classes.iter().filter(|(class, _)| is_wanted(class)).filter_map(|(_, all)| one_of(all)).collect();
        if wanted.is_none() {
            found.extend(self.outside(lo, hi));
        }
        let mut parts: Vec<Cube> =
            found.into_iter().filter_map(|address| with_field.clone().is(self.field, address)).collect();
        if wanted.is_none() && with_field != *part {
            parts.push(part.clone());
        }
        parts
    }

    /// Returns the packets of a cube that have the field. `None` if there are none.
    fn with_prerequisites(&self, part: &Cube) -> Option<Cube> {
        let needs = self.field.prerequisites().first()?;
        needs.iter().try_fold(part.clone(), |cube, need| cube.is(need.field, need.value))
    }

    /// Returns the first address from `lo` to `hi` that no group has.
    fn outside(&self, lo: u128, hi: u128) -> Option<u128> {
        let from = self.all.partition_point(|address| *address < lo);
        let taken = self.all[from..].iter().zip(lo..).take_while(|(address, next)| **address == *next).count();
        lo.checked_add(taken as u128).filter(|address| *address <= hi)
    }
}

/// Returns parts of a cube, or of an entry's cube, in which packets have addresses of one combination of classes.
pub fn parts(classes: &[AddressClasses], cube: &Cube, entry: Option<&Entry>) -> Vec<Cube> {
    let divide = |parts: Vec<Cube>, of: &AddressClasses| parts.iter().flat_map(|part| of.divide(part, entry)).collect();
    classes.iter().fold(vec![cube.clone()], divide)
}

/// Reports whether one number of rules in the place of another saves at least this many.
pub fn saves(before: usize, after: usize, min_saved: isize) -> bool {
    let number = |rules: usize| isize::try_from(rules).unwrap_or(isize::MAX);
    number(before) - number(after) >= min_saved
}

/// Reports whether entries between groups save at least this number of rules.
pub fn save_enough(entries: &[Entry], min_saved: isize) -> bool {
    let classes = AddressClasses::of_entries(entries);
    let combinations = |fields: [Field; 2]| {
        let asked = classes.iter().filter(|asked| fields.contains(&asked.field));
        asked.map(|asked| asked.classes.len() + 1).fold(1, usize::saturating_mul)
    };
    let [v4, v6, mac] =
        [[Field::Ipv4Src, Field::Ipv4Dst], [Field::Ipv6Src, Field::Ipv6Dst], [Field::EthSrc, Field::EthDst]]
            .map(combinations);
    let keys: usize = classes.iter().map(|of| of.all.len()).sum();
    let asked = v4.saturating_add(v6).saturating_mul(mac).saturating_mul(entries.len());
    let before: usize = entries.iter().map(Entry::count).sum();
    classes.is_empty() || saves(before, keys.saturating_add(asked), min_saved)
}
