//! The questions that runs ask of a packet which fails the tests of a long chain one after the other. A
//! [`super::Replay`] compares them with what the next run asks.
//!
//! Before each test come the questions that are denied there, according to the memos of the test's node. Then comes the
//! question that became the test. All of them are denied to a packet that fails the test and those before it. Which
//! questions are in the list, and in which order, is a guess at what the next run asks. It is made once for each test,
//! and a wrong guess costs only time.

use std::sync::Arc;

use super::replay::QuestionMemo;
use crate::trace::Cond;

/// The questions along a chain, from its first test on. It may end before the chain does.
#[derive(Clone, Debug, Default)]
pub(super) struct ChainQuestions {
    questions: Vec<Arc<Cond>>,
    /// The number of questions up to the one that becomes each test, including that one.
    ends: Vec<u32>,
}

impl ChainQuestions {
    /// The number of the chain's tests that the list covers.
    pub(super) fn tests(&self) -> usize {
        self.ends.len()
    }

    /// The number of questions that are denied to a packet that fails exactly this many tests.
    pub(super) fn until(&self, fails: usize) -> usize {
        self.ends.get(fails).map_or(self.questions.len(), |end| *end as usize - 1)
    }

    /// The questions after this many tests, before the question at index `until`.
    pub(super) fn questions(&self, after: usize, until: usize) -> &[Arc<Cond>] {
        let from = match after.checked_sub(1) {
            None => Some(0),
            Some(last) => self.ends.get(last).map(|end| *end as usize),
        };
        from.and_then(|from| self.questions.get(from..until)).unwrap_or_default()
    }

    /// The number of tests that this many questions cover.
    pub(super) fn tests_in(&self, questions: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= questions)
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
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.questions[..]) + size_of_val(&self.ends[..])
    }
}
