//! Questions of a run to a list: what the tree is known to deny of it is passed in stretches.
//!
//! # What
//!
//! A packet that fits one test may fail a later question, and then meets the rest of the list below the yes-side of
//! that test. There nearly all conditions contradict what the test states. A memo for each of them would take memory in
//! proportion to the list for each such yes-side. So the conditions between two that are asked are one memo of the node
//! that asks the second ([`DeniedConds`]).
//!
//! # Cost
//!
//! What a long chain denies in the list's order is one step ([`super::chain_questions`]), and so is each stretch before
//! a node. A run that leaves the tree compares each further condition with what is known, without keeping it.

use std::ops::Range;
use std::sync::Arc;

use super::replay::{NewMemo, QuestionMemo, Replay};
use crate::trace::{CondList, Fields, ListAnswer};

/// Conditions of a list that are denied to all packets that reach a node: those with the places from `from` on, before
/// `to`.
#[derive(Clone, Debug)]
pub(super) struct DeniedConds {
    pub(super) list: Arc<CondList>,
    pub(super) from: u32,
    pub(super) to: u32,
}

impl PartialEq for DeniedConds {
    fn eq(&self, other: &DeniedConds) -> bool {
        (self.from, self.to) == (other.from, other.to) && Arc::ptr_eq(&self.list, &other.list)
    }
}

impl Eq for DeniedConds {}

impl DeniedConds {
    /// Returns the first place after these conditions, if the condition at `place` of a list is among them.
    pub(super) fn end_after(&self, list: &Arc<CondList>, place: usize) -> Option<usize> {
        let is_among = (self.from as usize..self.to as usize).contains(&place) && Arc::ptr_eq(&self.list, list);
        is_among.then_some(self.to as usize)
    }
}

impl Replay<'_> {
    /// Asks all that the answer of a list stands for.
    pub(super) fn observe_list<P: Fields + ?Sized>(&mut self, packet: &P, answer: &ListAnswer) {
        let asked = answer.asked();
        let mut place = 0;
        while let Some(cond) = asked.get(place) {
            let mut denied = self.denied_by_chain(&answer.list, place..asked.len());
            if denied == 0 {
                denied = self.denied_here(&answer.list, place..asked.len());
            }
            if denied == 0 {
                self.fits(packet, cond);
            }
            place += denied.max(1);
        }
    }

    /// Passes the expected questions that are the conditions of a list at these places, with the conditions that are
    /// denied between them. Returns the number of conditions.
    fn denied_by_chain(&mut self, list: &Arc<CondList>, places: Range<usize>) -> usize {
        let (Some(ahead), left) = (&self.ahead, self.next.len()) else { return 0 };
        let from = ahead.known - left;
        let (questions, denied) = ahead.chain.questions_ahead.of_list(from..ahead.known, list, places);
        self.next = self.next.as_slice()[questions..].iter();
        denied
    }

    /// Returns the number of conditions of a list, from the first of these places on, that are denied where the run is.
    fn denied_here(&mut self, list: &Arc<CondList>, places: Range<usize>) -> usize {
        if let Some(written) = &self.written {
            let conds = &list.conds()[places.clone()];
            let denied = conds.iter().take_while(|cond| written.denies(cond)).count();
            if denied > 0 {
                let (from, depth) = (places.start as u32, written.depth());
                let conds = DeniedConds { list: Arc::clone(list), from, to: from + denied as u32 };
                let node = self.position.here.filter(|_| self.position.depth == depth);
                self.memos.push(NewMemo { depth, node, memo: QuestionMemo::of_denied_conds(conds) });
            }
            return denied;
        }
        self.catch_up();
        let Some(node) = self.position.here else { return 0 };
        let denied = self.tree.memos.at_node(node).iter().filter_map(QuestionMemo::denied_conds);
        let end = denied.filter_map(|conds| conds.end_after(list, places.start)).max();
        end.map_or(0, |end| end.min(places.end) - places.start)
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::{Constraint, Field};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::tests::{Headers, conditions, packets};
    use super::super::{LeafId, Tree};
    use super::*;
    use crate::capabilities::Capabilities;
    use crate::trace::{Cond, Range, Recorder, Trace};

    /// Returns the trace of a run that asks some of the lists, and the second one only if the first denies the packet.
    fn trace(lists: &[Arc<CondList>], packet: &Headers, asks: [bool; 2]) -> Trace {
        let mut recorder = Recorder::new();
        let first = lists[0].clone();
        if (!asks[0] || recorder.first_of(packet, &first, |_| None).is_none()) && asks[1] {
            recorder.first_of(packet, &lists[1], |_| None);
        }
        recorder.finish()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        /// The policy may change, so that a node is reached from several places of a list.
        #[test]
        fn a_list_that_is_passed_in_stretches_makes_the_tree_that_its_single_conditions_make(
            lists in vec(vec(conditions(), 1..40), 2),
            runs in vec((packets(), prop::sample::select(vec![[true, false], [true, true], [false, true]]), 0..8u8), 1..40),
            gone in any::<prop::sample::Index>(),
        ) {
            let lists: Vec<Arc<CondList>> = lists.into_iter().map(|conds| Arc::new(CondList::new(conds))).collect();
            let (mut lowered, mut replayed, can) = (Tree::new(), Tree::new(), Capabilities::of_abstract_headers());
            for (number, (packet, asks, removes)) in runs.iter().enumerate() {
                let (trace, leaf) = (trace(&lists, packet, *asks), LeafId(number as u64));
                let mut run = replayed.begin_replay(&can);
                run.observe(packet, &trace);
                let run = run.finish(packet);
                let wanted = lowered.augment(&trace.lower(packet, &can).items, leaf);
                prop_assert_eq!(replayed.insert_replayed(run, leaf), wanted);
                prop_assert_eq!(replayed.render(), lowered.render());
                if *removes == 0 && !lowered.is_empty() {
                    let leaf = lowered.leaves().nth(gone.index(lowered.len())).unwrap();
                    prop_assert_eq!(lowered.remove(leaf), replayed.remove(leaf));
                }
            }
        }
    }

    #[test]
    fn conditions_denied_on_a_yes_side_take_a_memo_a_node_and_no_memo_a_condition() {
        let on = |src: u128, port: u128| {
            let all = vec![Constraint::exact(Field::Ipv4Src, src)];
            Arc::new(Cond { constraints: all, ranges: vec![Range { field: Field::TcpDst, lo: port, hi: port + 1000 }] })
        };
        // The port of each range takes many blocks, so the source is a test of its own.
        let list = Arc::new(CondList::new((0..400).map(|at| on(at % 100, 1 + 2000 * (at / 100)))));
        let can = Capabilities::of_abstract_headers();
        let mut tree = Tree::new();
        for leaf in 0..100u64 {
            let packet = Headers::new([leaf.into(), 65_000, 0]);
            let trace = trace(&[Arc::clone(&list)], &packet, [true, false]);
            let mut run = tree.begin_replay(&can);
            run.observe(&packet, &trace);
            let run = run.finish(&packet);
            tree.insert_replayed(run, LeafId(leaf));
        }
        assert!(tree.memos.len() < 100 * 20, "{} memos for 100 yes-sides of 400 conditions", tree.memos.len());
    }
}
