//! Ordered lists of conditions, asked as a whole: which is the first that a packet fits?
//!
//! # What
//!
//! Access lists have thousands of entries. A policy that asked for them one by one would have traces of thousands of
//! items. A [`CondList`] answers all these questions at once, by an index, and the trace keeps one [`ListAnswer`].
//!
//! # Why it is correct
//!
//! An answer stands for the tests that it replaces: that the packet fails each condition before the first that it fits,
//! and fits that one. A tree has these tests as nodes, like those of any policy (`Replay::observe` asks them one after
//! the other), so nothing else knows of lists. Only the recorder knows less of what follows from an answer: what its
//! condition says, and that the conditions before it fail just as they stand ([`ListAnswer::decides`]). So later
//! questions may be written down though their answers follow. A tree finds that out when the trace is added.
//!
//! # Cost
//!
//! An answer takes a search in a tuple space, whatever the length of the list, and 48 bytes in the trace.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use maple_wire::Field;
use maple_wire::field::FieldSet;
use rustc_hash::FxHashMap;

use super::condition_index::ConditionIndex;
use super::prerequisites::with_prerequisites;
use super::{Cond, Fields, Source};

/// Conditions in the order in which they are asked, with an index. Each states the prerequisites of its fields.
#[derive(Default)]
pub struct CondList {
    conds: Vec<Arc<Cond>>,
    /// The first place of each condition.
    places: FxHashMap<Arc<Cond>, usize>,
    index: ConditionIndex,
    fields: FieldSet,
}

/// The answer that a run learned from a list.
#[derive(Clone, Debug)]
pub struct ListAnswer {
    /// The number of items of the trace that come before it.
    pub after: usize,
    /// The list.
    pub list: Arc<CondList>,
    /// The place of the first condition that the packet fits; the list's length if it fits none.
    pub first: usize,
    /// The line of that condition.
    pub source: Option<Source>,
}

impl CondList {
    /// Creates a list of conditions, each of which states the prerequisites of its fields
    /// ([`CondList::with_prerequisites`]).
    pub fn new(conds: impl IntoIterator<Item = Arc<Cond>>) -> CondList {
        let mut list = CondList::default();
        for cond in conds {
            cond.constraints.iter().map(|c| c.field).for_each(|field| list.fields.insert(field));
            cond.ranges.iter().map(|r| r.field).for_each(|field| list.fields.insert(field));
            list.index.push(Arc::clone(&cond));
            list.places.entry(Arc::clone(&cond)).or_insert(list.conds.len());
            list.conds.push(cond);
        }
        list
    }

    /// Returns the condition together with the prerequisites of its fields: one condition for each way to have the
    /// fields, IPv4 before IPv6. Empty if no packet can fit.
    ///
    /// ```
    /// use maple_core::Cond;
    /// use maple_core::trace::CondList;
    /// use maple_wire::{Constraint, Field};
    ///
    /// let ssh = Cond::default().and(Constraint::exact(Field::TcpDst, 22));
    /// assert_eq!(CondList::with_prerequisites(&ssh)[0].to_string(), "eth_type=0x800, ip_proto=6, tcp_dst=22");
    /// ```
    pub fn with_prerequisites(cond: &Cond) -> Vec<Cond> {
        with_prerequisites(cond, Field::prerequisites)
    }

    /// Returns the place of the first condition that the packet fits.
    pub fn first<P: Fields + ?Sized>(&self, packet: &P) -> Option<usize> {
        self.index.first(packet)
    }

    /// Returns the place of the first condition that the packet fits, among those whose place `counts`.
    pub fn first_where<P: Fields + ?Sized>(&self, packet: &P, counts: impl Fn(usize) -> bool) -> Option<usize> {
        self.index.first_where(packet, counts)
    }

    /// Returns the conditions.
    pub fn conds(&self) -> &[Arc<Cond>] {
        &self.conds
    }

    /// Returns the fields that the conditions are about.
    pub fn fields(&self) -> &FieldSet {
        &self.fields
    }

    /// Returns the place of the first condition that the packet fits, and whether finding it needed a field that was
    /// not captured.
    pub(super) fn first_looking<P: Fields + ?Sized>(&self, packet: &P) -> (Option<usize>, bool) {
        let looked = CaptureChecked::new(packet);
        let first = self.first(&looked);
        if !looked.reads_missing_bytes.get() {
            return (first, false);
        }
        // The index looks at more fields than the tests would.
        looked.reads_missing_bytes.set(false);
        let first = self.conds.iter().position(|cond| cond.holds(&looked));
        (first, looked.reads_missing_bytes.get())
    }
}

impl ListAnswer {
    /// Returns the conditions that the packet fails, and then the one that it fits, if there is one.
    pub fn asked(&self) -> &[Arc<Cond>] {
        &self.list.conds[..self.list.conds.len().min(self.first + 1)]
    }

    /// Returns the condition that the packet fits; `None` if it fits none.
    pub fn cond(&self) -> Option<&Arc<Cond>> {
        self.list.conds.get(self.first)
    }

    /// Reports whether a packet gives the same answer.
    pub fn holds<P: Fields + ?Sized>(&self, packet: &P) -> bool {
        self.list.first(packet).unwrap_or(self.list.conds.len()) == self.first
    }

    /// Decides whether a packet with this answer fits a condition; `None` if the condition is not in the list, or the
    /// answer does not say.
    pub(super) fn decides(&self, cond: &Cond) -> Option<bool> {
        match self.list.places.get(cond)? {
            place if *place < self.first => Some(false),
            place => (*place == self.first).then_some(true),
        }
    }

    /// Returns a key that tells answers of different lists, and different answers of a list, apart.
    pub fn key(&self) -> (usize, usize) {
        (Arc::as_ptr(&self.list).addr(), self.first)
    }
}

impl fmt::Debug for CondList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {} conditions", self.conds.len())
    }
}

impl PartialEq for ListAnswer {
    /// Lists are compared by identity.
    fn eq(&self, other: &ListAnswer) -> bool {
        (self.after, self.key()) == (other.after, other.key())
    }
}

impl Eq for ListAnswer {}

impl fmt::Display for ListAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cond() {
            Some(cond) => write!(f, "entry {} of a list: {cond}", self.first + 1),
            None => write!(f, "none of a list of {}", self.list.conds.len()),
        }
    }
}

/// A packet that notes whether a field was looked at that was not captured.
pub(crate) struct CaptureChecked<'p, P: ?Sized> {
    packet: &'p P,
    pub reads_missing_bytes: Cell<bool>,
}

impl<'p, P: Fields + ?Sized> CaptureChecked<'p, P> {
    pub fn new(packet: &'p P) -> CaptureChecked<'p, P> {
        CaptureChecked { packet, reads_missing_bytes: Cell::new(false) }
    }
}

impl<P: Fields + ?Sized> Fields for CaptureChecked<'_, P> {
    fn value(&self, field: Field) -> Option<u128> {
        if !self.is_captured(field) {
            self.reads_missing_bytes.set(true);
        }
        self.packet.value(field)
    }

    fn is_captured(&self, field: Field) -> bool {
        self.packet.is_captured(field)
    }
}
