//! Tuple spaces: the common design of two indexes over conditions.
//!
//! # What
//!
//! There are tens of thousands of matches, but few *shapes*: which bits of which fields a match states. Within a group
//! of matches of one shape, the values under these bits are the key of a hash table. So a question costs one look-up
//! for each shape, not one comparison for each match (Srinivasan and others, *Packet classification using tuple space
//! search*, SIGCOMM 1999).
//!
//! | index | holds | question | shapes are |
//! | --- | --- | --- | --- |
//! | `trace/condition_index/` | the conditions of a long chain of tests, or of a list | which is the first that this packet fits? | slots: pairs of field and mask |
//! | `tree/value_index.rs` | leaves, by what they state of one field | which may have this value? | masks of the field |
//!
//! The hash tables differ, because the questions do. One index for both would be slower for each.
//!
//! Which matches overlap a match is another question (`compile/entries/overlap_index.rs`). A match states only some
//! bits, so it would need a hash table for each set of bits that two shapes have in common: in a list of 30,000 rules
//! there are thousands of these sets.
//!
//! # What they share
//!
//! * *Candidates are checked.* A table may name too much: keys are hashes, or have fewer bits than possible. Each index
//!   checks what it found against the question. So a table is right if it never names too little.
//! * *Removal is lazy.* A removed member is not deleted from every table. Readers skip removed members, and a table
//!   that has more of them than of others is rebuilt. So a removal costs a few steps, however many tables there are.
//! * *Lists are short.* Most keys have one member, which takes no memory of its own ([`OneOrMany`]).

/// A list that usually has one item, which it holds without an allocation.
#[derive(Clone, Debug)]
pub(crate) enum OneOrMany<T> {
    One(T),
    /// Several, or none.
    Many(Vec<T>),
}

impl<T> Default for OneOrMany<T> {
    fn default() -> OneOrMany<T> {
        OneOrMany::Many(Vec::new())
    }
}

impl<T: Copy> OneOrMany<T> {
    pub(crate) fn items(&self) -> &[T] {
        match self {
            OneOrMany::One(item) => std::slice::from_ref(item),
            OneOrMany::Many(items) => items,
        }
    }

    pub(crate) fn push(&mut self, item: T) {
        match self {
            OneOrMany::Many(items) if items.is_empty() => *self = OneOrMany::One(item),
            OneOrMany::Many(items) => items.push(item),
            OneOrMany::One(first) => *self = OneOrMany::Many(vec![*first, item]),
        }
    }

    pub(crate) fn retain(&mut self, stays: impl Fn(T) -> bool) {
        match self {
            OneOrMany::One(item) if stays(*item) => {}
            OneOrMany::One(_) => *self = OneOrMany::default(),
            OneOrMany::Many(items) => items.retain(|item| stays(*item)),
        }
    }
}

/// Folds a value into one word. Distinct values of at most 64 bits stay distinct.
pub(crate) fn fold(value: u128) -> u64 {
    value as u64 ^ ((value >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
