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
use std::ops::Range;
use std::sync::Arc;

use super::list_replay::DeniedConds;
use super::replay::QuestionMemo;
use crate::trace::{Cond, CondList};

/// The maximum number of stretches that a chain remembers. Chosen: a policy asks few lists in a row, and all stretches
/// are searched for each question.
const STRETCHES: usize = 8;

/// The questions along a chain, from its first test on. It may end before the chain does.
#[derive(Clone, Debug, Default)]
pub(super) struct ChainQuestions {
    questions: Vec<Arc<Cond>>,
    /// The number of questions up to the one that becomes each test, including that one.
    ends: Vec<u32>,
    /// Conditions of lists that are denied right before questions, by the question's index.
    denied: Vec<(u32, DeniedConds)>,
    /// Stretches in which the questions are those of a list.
    stretches: RefCell<Vec<ListStretch>>,
}

/// Questions that are conditions of a list, one after the other.
#[derive(Clone, Debug)]
struct ListStretch {
    list: Arc<CondList>,
    /// The index of the first of these questions.
    begin: usize,
    /// The first place from which a run comes to that question.
    first: u32,
    /// The place of the condition that each question is.
    places: Vec<u32>,
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

    /// Returns the number of questions with these indices, from the first on, that are conditions of a list, from the
    /// first of these places on. Between them are only conditions that are denied there. Also returns the number of
    /// conditions that this answers.
    pub(super) fn of_list(
        &self,
        questions: Range<usize>,
        list: &Arc<CondList>,
        places: Range<usize>,
    ) -> (usize, usize) {
        let mut stretches = self.stretches.borrow_mut();
        let at = match stretches.iter().position(|there| there.includes(questions.start, list, places.start)) {
            Some(at) => at,
            None => {
                let Some(place) = self.place_of(questions.start, list, places.start) else { return (0, 0) };
                if stretches.len() == STRETCHES {
                    stretches.remove(0);
                }
                let (list, begin, first) = (Arc::clone(list), questions.start, places.start as u32);
                stretches.push(ListStretch { list, begin, first, places: vec![place as u32] });
                stretches.len() - 1
            }
        };
        let ListStretch { begin, places: there, .. } = &mut stretches[at];
        while *begin + there.len() < questions.end
            && let Some(last) = there.last().filter(|last| (**last as usize) < places.end)
            && let Some(place) = self.place_of(*begin + there.len(), list, *last as usize + 1)
        {
            there.push(place as u32);
        }
        let passed = there.get(questions.start - *begin..there.len().min(questions.end - *begin)).unwrap_or_default();
        let count = passed.partition_point(|place| (*place as usize) < places.end);
        let until = match (passed.get(count), count.checked_sub(1)) {
            (Some(_), _) => places.end,
            (None, Some(last)) => passed[last] as usize + 1,
            (None, None) => places.start,
        };
        (count, until - places.start)
    }

    /// Returns the place in `list` of the condition that `question` asks, for a run that asks for the condition at
    /// `place` next; `None` if the run does not come to this question.
    fn place_of(&self, question: usize, list: &Arc<CondList>, place: usize) -> Option<usize> {
        let asked = self.questions.get(question)?;
        let is_asked = |place: &usize| list.conds().get(*place).is_some_and(|cond| Arc::ptr_eq(cond, asked));
        if is_asked(&place) {
            return Some(place);
        }
        let at = self.denied.binary_search_by_key(&(question as u32), |(before, _)| *before).ok()?;
        self.denied[at].1.end_after(list, place).filter(is_asked)
    }

    /// Adds the chain's next test, which asks for `cond` and whose node has these memos.
    pub(super) fn push(&mut self, cond: &Arc<Cond>, memos: &[QuestionMemo]) {
        let begun = memos.iter().position(|memo| memo.begun().is_some());
        let before = &memos[..begun.unwrap_or(memos.len())];
        for memo in before {
            self.questions.extend(memo.denied().cloned());
            if let Some(conds) = memo.denied_conds() {
                let before = self.questions.len() as u32;
                // Of several stretches before a question, the first one counts.
                if self.denied.last().is_none_or(|(last, _)| *last < before) {
                    self.denied.push((before, conds.clone()));
                }
            }
        }
        self.questions.push(begun.and_then(|at| memos[at].begun()).unwrap_or(cond).clone());
        self.ends.push(self.questions.len() as u32);
    }

    /// Keeps the questions of this many tests.
    pub(super) fn truncate(&mut self, tests: usize) {
        self.ends.truncate(tests);
        self.questions.truncate(self.ends.last().map_or(0, |end| *end as usize));
        let left = self.questions.len();
        self.denied.truncate(self.denied.partition_point(|(before, _)| (*before as usize) < left));
        self.stretches.get_mut().retain_mut(|stretch| {
            stretch.places.truncate(left.saturating_sub(stretch.begin));
            !stretch.places.is_empty()
        });
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.questions[..]) + size_of_val(&self.ends[..]) + size_of_val(&self.denied[..])
    }
}

impl ListStretch {
    /// Reports whether the question with this index, or the one before it, is among these, and a run that asks for the
    /// condition at `place` next comes to it.
    fn includes(&self, question: usize, list: &Arc<CondList>, place: usize) -> bool {
        let Some(at) = question.checked_sub(self.begin).filter(|at| *at <= self.places.len()) else { return false };
        let from = at.checked_sub(1).map_or(self.first, |before| self.places[before] + 1);
        let until = self.places.get(at).copied().unwrap_or(from);
        (from..=until).contains(&(place as u32)) && Arc::ptr_eq(&self.list, list)
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
            let cond = |value| Arc::new(Cond { constraints: vec![Constraint::exact(Field::TcpDst, value)], ranges: Vec::new() });
            let conds: Vec<Arc<Cond>> = (0..4).map(cond).collect();
            let list = |values: &[u128]| Arc::new(CondList::new(values.iter().map(|at| conds[*at as usize].clone())));
            let lists = [list(&listed), list(&listed[listed.len() / 2..])];
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
                        let places = place..list.conds().len().max(place);
                        prop_assert_eq!(chain.of_list(from..until, list, places), (wanted, wanted));
                    }
                }
            }
        }

        #[test]
        fn conditions_that_are_denied_between_questions_are_passed_with_them(
            gaps in vec((0..4usize, 0..4usize), 1..20),
            kept in 0..20usize,
            asks in vec((0..20usize, 0..20usize, 0..60usize, 0..60usize), 1..30),
        ) {
            let cond = |value| Arc::new(Cond { constraints: vec![Constraint::exact(Field::TcpDst, value)], ranges: Vec::new() });
            let list = Arc::new(CondList::new((0..60).map(cond)));
            let (mut chain, mut place, mut before) = (ChainQuestions::default(), 0, Vec::new());
            for (gap, lost) in gaps {
                // Some of the conditions between two questions may not be known to be denied.
                let (from, to) = (place + lost.min(gap), place + gap);
                let Some(cond) = list.conds().get(to) else { break };
                let denied = DeniedConds { list: Arc::clone(&list), from: from as u32, to: to as u32 };
                let memos = [QuestionMemo::of_denied_conds(denied)];
                chain.push(cond, if from < to { &memos } else { &[] });
                before.push((from, to));
                place = to + 1;
            }
            for (at, (from, ahead, place, until)) in asks.into_iter().enumerate() {
                if at == 10 {
                    chain.truncate(kept);
                    before.truncate(kept);
                }
                let from = from.min(before.len());
                let (until, ahead) = (until.max(place), before.len().min(from + ahead));
                let (mut count, mut next) = (0, place);
                for (first, to) in &before[from..ahead] {
                    if next >= until || !(first..=to).contains(&&next) {
                        break;
                    }
                    (count, next) = if *to < until { (count + 1, to + 1) } else { (count, until) };
                }
                prop_assert_eq!(chain.of_list(from..ahead, &list, place..until), (count, next - place));
            }
        }
    }
}
