//! The answers about spans, as far as they can't change any more.
//!
//! A page asks for the time from one moment until now, again and again. The contents of segments that have ended stay
//! as they are, so each of them is read once for all these requests, and not at every event.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::moments::Happened;
use super::network::NetworkThen;

/// The maximum number of spans. Each takes a network and what its answer has, which the budgets of a day bound. Chosen:
/// a person moves a window to and fro between a few spans.
const MAX_SPANS: usize = 4;
/// The time for which spans are remembered after they were asked for. Chosen: a person who looks at one asks again
/// within a minute; after that memory is free.
const KEPT: Duration = Duration::from_secs(60);

/// The beginning of a span, and the clock by which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanStart {
    /// The number of its first segment.
    pub first: u32,
    /// The earlier moment, and the first one of which it is said what happened.
    pub from: u64,
    pub since: u64,
    /// The milliseconds by which the timeline's clock is ahead.
    pub ahead: i64,
}

/// The answer that the segments from the first one up to another give.
#[derive(Clone, Debug, Default)]
pub(super) struct SpanAnswer {
    /// The number of the last one of them; `None`: there is none yet.
    pub until: Option<u32>,
    /// The network at the earlier moment.
    pub before: Arc<NetworkThen>,
    pub happened: Happened,
}

/// The spans that were asked for lately, the latest last.
#[derive(Debug, Default)]
pub(super) struct SpanAnswers {
    all: VecDeque<(SpanStart, SpanAnswer, Instant)>,
}

impl SpanAnswers {
    /// Returns what segments before this one say, as far as it is remembered.
    pub fn of(&mut self, start: &SpanStart, before: u32, now: Instant) -> SpanAnswer {
        let is_usable =
            |(own, answer, _): &(SpanStart, SpanAnswer, Instant)| own == start && answer.until < Some(before);
        let found = self.all.iter().position(is_usable).and_then(|at| self.all.remove(at));
        let Some((start, answer, _)) = found else { return SpanAnswer::default() };
        self.all.push_back((start, answer.clone(), now));
        answer
    }

    /// Remembers what segments that have ended say.
    pub fn add(&mut self, start: SpanStart, answer: SpanAnswer, now: Instant) {
        self.all.retain(|(own, ..)| *own != start);
        if self.all.len() == MAX_SPANS {
            self.all.pop_front();
        }
        self.all.push_back((start, answer, now));
    }

    /// Forgets what nobody has asked for lately.
    pub fn forget(&mut self, now: Instant) {
        self.all.retain(|(_, _, used)| now.saturating_duration_since(*used) < KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(from: u64) -> SpanStart {
        SpanStart { first: 1, from, since: from, ahead: 0 }
    }

    fn answer(until: u32) -> SpanAnswer {
        SpanAnswer { until: Some(until), ..SpanAnswer::default() }
    }

    #[test]
    fn few_spans_are_remembered_and_not_for_long() {
        let (mut all, now) = (SpanAnswers::default(), Instant::now());
        (0..5).for_each(|from| all.add(start(from), answer(2), now));
        assert_eq!(all.of(&start(0), 9, now).until, None, "the oldest one gave way");
        assert_eq!(all.of(&start(1), 9, now).until, Some(2));
        all.add(start(9), answer(2), now);
        assert_eq!(all.of(&start(2), 9, now).until, None, "the one that was used last stayed");
        assert_eq!((all.of(&start(1), 9, now).until, all.of(&start(1), 2, now).until), (Some(2), None));
        all.add(start(1), answer(3), now);
        assert_eq!((all.all.len(), all.of(&start(1), 9, now).until), (MAX_SPANS, Some(3)));
        all.of(&start(3), 9, now + KEPT / 2);
        all.forget(now + KEPT);
        assert_eq!(all.all.len(), 1);
    }
}
