//! The leaves of a shard, and what is remembered of the answers to their packets.
//!
//! Whoever is to change a leaf gets it from [`Leaves::get_mut`], which forgets its answer; there is no other way. So an answer
//! that is remembered is the one that the leaf would give now, whatever the engine has done since it was made.

use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Recent;
use crate::engine::leaf::Leaf;
use crate::tree::LeafId;

/// Most answers that are kept. Leaves share them: those to one port have one.
const MOST_HEADS: usize = 1 << 16;

/// How many numbers are tried one by one before all leaves are looked at for the next one.
const NEAR: u64 = 64;

/// The leaves. Whoever goes through all of them puts them in order.
#[derive(Debug, Default)]
pub(in crate::engine) struct Leaves {
    /// Boxed, as the map moves what it holds when it grows.
    all: FxHashMap<LeafId, Box<Leaf>>,
    /// Under a leaf the number of its answer.
    said: Recent,
    heads: Vec<Arc<Head>>,
    numbers: FxHashMap<Arc<Head>, u32>,
}

/// How all packets of a leaf are answered.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Head {
    /// The packet-out, but for the frame, its length, its transaction id and the port where the packet came in; empty where
    /// packets are dropped.
    pub bytes: Vec<u8>,
    /// Whether the packet goes straight out of its egress ports, past the rules.
    pub direct: bool,
}

impl Leaves {
    /// A leaf, to be changed.
    pub fn get_mut(&mut self, id: &LeafId) -> Option<&mut Leaf> {
        self.said.forget(id.0);
        self.all.get_mut(id).map(|leaf| &mut **leaf)
    }

    /// Puts a leaf in.
    pub fn insert(&mut self, id: LeafId, leaf: Leaf) {
        self.said.forget(id.0);
        self.all.insert(id, Box::new(leaf));
    }

    /// Takes a leaf out.
    pub fn remove(&mut self, id: &LeafId) -> Option<Leaf> {
        self.said.forget(id.0);
        self.all.remove(id).map(|leaf| *leaf)
    }

    /// The first leaf from this number on, or else the first of all.
    pub fn next_from(&self, from: LeafId) -> Option<(LeafId, &Leaf)> {
        // Numbers are given out one after the other, so mostly it is near.
        let near = (from.0..from.0.saturating_add(NEAR)).map(LeafId).find(|id| self.all.contains_key(id));
        let id = near.or_else(|| self.all.keys().copied().min_by_key(|id| (*id < from, *id)))?;
        Some((id, self.all.get(&id)?))
    }

    /// Forgets all answers: the routes of leaves have changed.
    pub fn forget_answers(&mut self) {
        self.said.clear();
    }

    /// Answers are asked for, and remembered, under this version of the state.
    pub(super) fn begin(&mut self, version: u64) {
        self.said.begin(version);
    }

    /// Has the memory of a leaf's answer on its way.
    pub(super) fn prefetch(&self, id: LeafId) {
        self.said.prefetch(id.0);
    }

    /// The answer to a leaf's packets, if it was remembered under this version.
    pub(super) fn said(&self, id: LeafId) -> Option<&Head> {
        self.said.get(id.0).map(|number| &*self.heads[number as usize])
    }

    /// A leaf's answer, if it was remembered under any version.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn remembered(&self, id: LeafId) -> Option<&Head> {
        self.said.earlier(id.0).map(|number| &*self.heads[number as usize])
    }

    /// Whether a leaf's answer was remembered under an earlier version: then it still is its answer, if the leaf is current.
    pub(super) fn renew(&mut self, id: LeafId) -> bool {
        let number = self.said.earlier(id.0);
        number.into_iter().for_each(|number| self.said.put(id.0, number));
        number.is_some()
    }

    /// Remembers a leaf's answer.
    pub(super) fn remember(&mut self, id: LeafId, head: Head) {
        if self.heads.len() >= MOST_HEADS {
            self.said.clear();
            self.heads.clear();
            self.numbers.clear();
        }
        let number = self.numbers.get(&head).copied().unwrap_or_else(|| {
            let (number, head) = (self.heads.len() as u32, Arc::new(head));
            self.heads.push(Arc::clone(&head));
            self.numbers.insert(head, number);
            number
        });
        self.said.put(id.0, number);
    }
}

/// Leaves are looked at as in any map.
impl Deref for Leaves {
    type Target = FxHashMap<LeafId, Box<Leaf>>;

    fn deref(&self) -> &FxHashMap<LeafId, Box<Leaf>> {
        &self.all
    }
}
