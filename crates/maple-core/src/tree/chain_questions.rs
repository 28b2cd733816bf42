//! The questions that runs ask of a packet which fails the tests of a long chain one after the other. A
//! [`super::Replay`] compares them with what the next run asks.
//!
//! Before each test come the questions that are denied there, according to the memos of the test's node. Then comes the
//! question that became the test. All of them are denied to a packet that fails the test and those before it. Which
//! questions are in the list, and in which order, is a guess at what the next run asks. It is made once for each test,
//! and a wrong guess costs only time.
//!
//! A trace with the answer of a list asks for all conditions of the list up to one. Many traces do, and most of these
//! conditions are questions of the chain, in the same order. So the stretches in which both agree are remembered, and
//! each pair is compared once, not once for each trace.

use std::cell::RefCell;
use std::sync::Arc;

use super::replay::QuestionMemo;
use crate::trace::{Cond, CondList};

/// The maximum number of stretches that a chain remembers. A policy asks few lists in a row.
const STRETCHES: usize = 8;

/// The questions along a chain, from its first test on. It may end before the chain does.
#[derive(Clone, Debug, Default)]
pub(super) struct ChainQuestions {
    questions: Vec<Arc<Cond>>,
    /// The number of questions up to the one that becomes each test, including that one.
    ends: Vec<u32>,
    /// Stretches in which the questions are those of a list.
    stretches: RefCell<Vec<ListStretch>>,
}

/// Questions that are conditions of a list, one after the other.
#[derive(Clone, Debug)]
struct ListStretch {
    list: Arc<CondList>,
    /// The index of the first of these questions, and the place of its condition in the list.
    begin: usize,
    place: usize,
    /// The number of questions that were found to be the list's.
    len: usize,
}

impl ChainQuestions {
    /// Returns the number of the chain's tests that the list covers.
    pub(super) fn tests(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of questions that are denied to a packet that fails exactly this many tests.
    pub(super) fn until(&self, fails: usize) -> usize {
        self.ends.get(fails).map_or(self.questions.len(), |end| *end as usize - 1)
    }

    /// Returns the questions after this many tests, before the question at index `until`.
    pub(super) fn questions(&self, after: usize, until: usize) -> &[Arc<Cond>] {
        let from = match after.checked_sub(1) {
            None => Some(0),
            Some(last) => self.ends.get(last).map(|end| *end as usize),
        };
        from.and_then(|from| self.questions.get(from..until)).unwrap_or_default()
    }

    /// Returns the number of tests that this many questions cover.
    pub(super) fn tests_in(&self, questions: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= questions)
    }

    /// Returns the number of questions from the index `from` on, and before `until`, that are the conditions of a list
    /// from
    /// `place` on.
    pub(super) fn of_list(&self, from: usize, until: usize, list: &Arc<CondList>, place: usize) -> usize {
        let agrees = |ahead: usize| match (self.questions.get(from + ahead), list.conds().get(place + ahead)) {
            (Some(question), Some(cond)) => Arc::ptr_eq(question, cond),
            _ => false,
        };
        let mut stretches = self.stretches.borrow_mut();
        let at = match stretches.iter().position(|there| there.includes(from, list, place)) {
            Some(at) => at,
            None if !agrees(0) => return 0,
            None => {
                if stretches.len() == STRETCHES {
                    stretches.remove(0);
                }
                stretches.push(ListStretch { list: Arc::clone(list), begin: from, place, len: 1 });
                stretches.len() - 1
            }
        };
        let stretch = &mut stretches[at];
        while stretch.begin + stretch.len < until && agrees(stretch.begin + stretch.len - from) {
            stretch.len += 1;
        }
        until.min(stretch.begin + stretch.len) - from
    }

    /// Adds the chain's next test, which asks for `cond` and whose node has these memos.
    pub(super) fn push(&mut self, cond: &Arc<Cond>, memos: &[QuestionMemo]) {
        let begun = memos.iter().position(|memo| memo.begun().is_some());
        let before = &memos[..begun.unwrap_or(memos.len())];
        self.questions.extend(before.iter().filter_map(QuestionMemo::denied).cloned());
        self.questions.push(begun.and_then(|at| memos[at].begun()).unwrap_or(cond).clone());
        self.ends.push(self.questions.len() as u32);
    }

    /// Keeps the questions of this many tests.
    pub(super) fn truncate(&mut self, tests: usize) {
        self.ends.truncate(tests);
        self.questions.truncate(self.ends.last().map_or(0, |end| *end as usize));
        let left = self.questions.len();
        self.stretches.get_mut().retain_mut(|stretch| {
            stretch.len = stretch.len.min(left.saturating_sub(stretch.begin));
            stretch.len > 0
        });
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.questions[..]) + size_of_val(&self.ends[..])
    }
}

impl ListStretch {
    /// Reports whether the question with the index `from`, or the one before it, is among these, and would be the
    /// condition at `place`.
    fn includes(&self, from: usize, list: &Arc<CondList>, place: usize) -> bool {
        let is_within = (self.begin..=self.begin + self.len).contains(&from);
        is_within && from - self.begin + self.place == place && Arc::ptr_eq(&self.list, list)
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::{Constraint, Field};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_list_goes_as_far_along_a_chain_as_comparing_one_by_one_says(
            listed in vec(0..4u128, 1..12),
            steps in vec((0..6usize, 0..12usize, 0..12usize, 0..12usize, 0..12u128), 1..60),
        ) {
            let cond = |value| Arc::new(Cond { all: vec![Constraint::exact(Field::TcpDst, value)], ranges: Vec::new() });
            let conds: Vec<Arc<Cond>> = (0..4).map(cond).collect();
            let of = |values: &[u128]| Arc::new(CondList::new(values.iter().map(|at| conds[*at as usize].clone())));
            let lists = [of(&listed), of(&listed[listed.len() / 2..])];
            let mut chain = ChainQuestions::default();
            for (kind, from, ahead, place, value) in steps {
                match kind {
                    0 => chain.truncate(from),
                    1 => chain.push(&conds[value as usize % 4], &[]),
                    2 => lists[from % 2].conds().iter().for_each(|cond| chain.push(cond, &[])),
                    _ => {
                        let from = from.min(chain.questions.len());
                        let until = chain.questions.len().min(from + ahead);
                        let list = &lists[kind % 2];
                        let there = chain.questions[from..until].iter();
                        let wanted = there.zip(list.conds().iter().skip(place)).take_while(|(a, b)| Arc::ptr_eq(a, b));
                        let wanted = wanted.count();
                        prop_assert_eq!(chain.of_list(from, until, list, place), wanted);
                    }
                }
            }
        }
    }
}
