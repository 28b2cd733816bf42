//! Questions of the follower to shards: what they have counted, and what was dropped.
//!
//! It never waits for an answer. It looks whether all are there whenever it looks at the network, so a shard that hangs
//! delays no change that others have made. A shard that has not answered is not asked again.

use std::ops::Range;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError};
use maple_core::engine::{Dropped, Engine};

use super::entry::CountsThen;
use crate::control::Handle;

/// The time between two questions to shards. Chosen: 17,280 points of a day fit the budget of the timeline, and a
/// question costs a shard microseconds.
pub(super) const RATES: Duration = Duration::from_secs(5);
/// The time after which a shard that has not answered is late. It must be less than [`RATES`], so that a question ends
/// before the next one.
const PATIENCE: Duration = Duration::from_secs(1);
/// A minute of the engines' time, in nanoseconds.
const MINUTE: u64 = 60_000_000_000;
/// The time after the end of a minute when its drops are read, in nanoseconds. Chosen: shards count in turns, so the
/// last drops of a minute are counted by then.
const SETTLED: u64 = 2_000_000_000;

/// The counts of one shard, and its drops in the minutes that were asked for.
#[derive(Debug)]
pub(super) struct ShardAnswer {
    counts: CountsThen,
    drops: Vec<Dropped>,
}

/// The channel of a shard's answer; `None` if the shard could not take the question.
pub(super) type Awaited = Option<Receiver<ShardAnswer>>;

/// The counts of all shards, and the drops in the minutes since the answer before.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub counts: CountsThen,
    pub drops: Vec<Dropped>,
}

/// The progress of the questions.
#[derive(Debug)]
pub(super) enum AskingProgress {
    /// Nothing yet.
    Nothing,
    /// Shards were asked.
    Asked,
    /// All have answered.
    Answered(Answers),
    /// One has not answered in time.
    Late,
    /// One has ended, and so does the controller.
    Ended,
}

/// The questions of a follower.
#[derive(Debug)]
pub(super) struct Asking {
    /// The time when shards were asked last, or would have been if one were not late.
    last: Option<Instant>,
    open: Option<UnansweredQuestion>,
    /// The first minute of the engines' time of which the drops are not known yet.
    minute: u64,
}

/// A question that not all shards have answered.
#[derive(Debug)]
struct UnansweredQuestion {
    since: Instant,
    is_late: bool,
    awaited: Vec<Awaited>,
    answered: Vec<ShardAnswer>,
    /// Whether a shard could not take it.
    is_refused: bool,
    /// The minute after the last one of which the drops were asked for.
    until: u64,
}

impl Asking {
    /// Begins at a time of the engines, in nanoseconds.
    pub fn new(now: u64) -> Asking {
        Asking { last: None, open: None, minute: now / MINUTE }
    }

    /// Takes the answers that are there, and asks again when it is time: for the drops of the minutes that are over at
    /// the engines' time `engines_now`.
    pub fn go_on(
        &mut self,
        now: Instant,
        engines_now: u64,
        ask: impl FnOnce(Range<u64>) -> Vec<Awaited>,
    ) -> AskingProgress {
        let mut is_due = self.last.is_none_or(|last| now.saturating_duration_since(last) >= RATES);
        if let Some(open) = &mut self.open {
            let has_all = match open.take_answers() {
                Ok(has_all) => has_all,
                Err(Ended) => {
                    self.open = None;
                    return AskingProgress::Ended;
                }
            };
            let is_over = now.saturating_duration_since(open.since) >= PATIENCE;
            match (has_all, open.is_late) {
                (true, false) if !open.is_refused => {
                    let answers = Answers::of(std::mem::take(&mut open.answered));
                    (self.minute, self.open) = (open.until, None);
                    return AskingProgress::Answered(answers);
                }
                // They are of a time that was kept as late.
                (true, true) => (self.open, is_due) = (None, true),
                (true, false) => {
                    self.open = None;
                    return AskingProgress::Late;
                }
                (false, false) if is_over => {
                    open.is_late = true;
                    return AskingProgress::Late;
                }
                (false, true) if is_due => {
                    self.last = Some(now);
                    return AskingProgress::Late;
                }
                (false, _) => return AskingProgress::Nothing,
            }
        }
        if !is_due {
            return AskingProgress::Nothing;
        }
        self.last = Some(now);
        let until = (engines_now.saturating_sub(SETTLED) / MINUTE).max(self.minute);
        let awaited = ask(self.minute..until);
        let is_refused = awaited.iter().any(Option::is_none);
        self.open =
            Some(UnansweredQuestion { since: now, is_late: false, awaited, answered: Vec::new(), is_refused, until });
        AskingProgress::Asked
    }
}

/// A shard has ended without an answer.
struct Ended;

impl UnansweredQuestion {
    /// Takes the answers that are there. Returns whether these were the last ones.
    fn take_answers(&mut self) -> Result<bool, Ended> {
        for awaited in &mut self.awaited {
            match awaited.as_ref().map(Receiver::try_recv) {
                Some(Ok(answer)) => {
                    self.answered.push(answer);
                    *awaited = None;
                }
                Some(Err(TryRecvError::Disconnected)) => return Err(Ended),
                Some(Err(TryRecvError::Empty)) | None => {}
            }
        }
        Ok(self.awaited.iter().all(Option::is_none))
    }
}

impl Answers {
    fn of(all: Vec<ShardAnswer>) -> Answers {
        all.into_iter().fold(Answers::default(), |mut sum, one| {
            sum.counts = sum.counts + one.counts;
            sum.drops.extend(one.drops);
            sum
        })
    }
}

/// Asks all shards what they have counted, and what was dropped in some minutes of the engines' time.
pub(super) fn ask(handle: &Handle, minutes: &Range<u64>) -> Vec<Awaited> {
    let minutes = minutes.clone();
    handle.offer_all(move |engine: &Engine| {
        let view = engine.view();
        let of_switch = |dpid| view.drops_of_minutes(dpid, minutes.clone());
        let drops = if minutes.is_empty() { Vec::new() } else { view.switches().flat_map(of_switch).collect() };
        let all = view.stats();
        let (packet_ins, decisions) = (all.packet_ins, all.misses);
        let counts = CountsThen { packet_ins, decisions, flow_mods: all.flow_mods, failures: all.policy_errors };
        ShardAnswer { counts, drops }
    })
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::{Sender, bounded};

    use super::*;

    /// Shards that are asked, in simulated time.
    struct Shards {
        asking: Asking,
        now: Instant,
        engines_now: u64,
        /// The answers that are awaited, with the minutes that were asked for: a list for each question.
        asked: Vec<(Range<u64>, Vec<Sender<ShardAnswer>>)>,
        /// Whether the second one has no room for a question.
        is_full: bool,
    }

    impl Shards {
        fn new() -> Shards {
            let asking = Asking::new(10 * MINUTE);
            Shards { asking, now: Instant::now(), engines_now: 10 * MINUTE, asked: Vec::new(), is_full: false }
        }

        fn after(&mut self, time: Duration) -> AskingProgress {
            self.now += time;
            self.engines_now += time.as_nanos() as u64;
            let Shards { asking, asked, is_full, .. } = self;
            asking.go_on(self.now, self.engines_now, |minutes| {
                let (senders, receivers): (Vec<_>, Vec<_>) = [bounded(1), bounded(1)].into_iter().unzip();
                asked.push((minutes, senders));
                receivers.into_iter().enumerate().map(|(at, one)| (at == 0 || !*is_full).then_some(one)).collect()
            })
        }

        fn answer(&self, question: usize, shard: usize, packet_ins: u64) {
            let counts = CountsThen { packet_ins, ..CountsThen::default() };
            self.asked[question].1[shard].send(ShardAnswer { counts, drops: Vec::new() }).expect("it is awaited");
        }

        fn answer_all(&self, question: usize, packet_ins: u64) {
            (0..2).for_each(|shard| self.answer(question, shard, packet_ins));
        }
    }

    const SOON: Duration = Duration::from_millis(200);

    #[test]
    fn all_shards_are_asked_every_five_seconds_and_nobody_waits_for_them() {
        let mut shards = Shards::new();
        assert!(matches!(shards.after(SOON), AskingProgress::Asked));
        shards.answer(0, 1, 3);
        assert!(matches!(shards.after(SOON), AskingProgress::Nothing));
        shards.answer(0, 0, 4);
        assert!(matches!(shards.after(SOON), AskingProgress::Answered(answers) if answers.counts.packet_ins == 7));
        assert!(matches!(shards.after(SOON), AskingProgress::Nothing));
        assert!(matches!(shards.after(RATES), AskingProgress::Asked));
    }

    #[test]
    fn a_shard_that_has_not_answered_is_late_and_is_not_asked_again() {
        let mut shards = Shards::new();
        shards.after(SOON);
        shards.answer(0, 0, 4);
        assert!(matches!(shards.after(SOON), AskingProgress::Nothing));
        assert!(matches!(shards.after(PATIENCE), AskingProgress::Late));
        assert!(matches!(shards.after(SOON), AskingProgress::Nothing));
        for _ in 0..100 {
            assert!(matches!(shards.after(RATES), AskingProgress::Late));
        }
        assert_eq!(shards.asked.len(), 1);
        // It answers now, with the counts of the moment when it was asked.
        shards.answer(0, 1, 5);
        assert!(matches!(shards.after(SOON), AskingProgress::Asked));
        assert_eq!(shards.asked.len(), 2);
        shards.answer_all(1, 10);
        assert!(matches!(shards.after(SOON), AskingProgress::Answered(answers) if answers.counts.packet_ins == 20));
    }

    #[test]
    fn a_shard_without_room_for_a_question_is_late_too() {
        let mut shards = Shards::new();
        shards.is_full = true;
        shards.after(SOON);
        shards.answer(0, 0, 4);
        assert!(matches!(shards.after(SOON), AskingProgress::Late));
        shards.is_full = false;
        assert!(matches!(shards.after(RATES), AskingProgress::Asked));
    }

    #[test]
    fn a_shard_that_has_ended_is_not_late() {
        let mut shards = Shards::new();
        shards.after(SOON);
        shards.answer(0, 0, 4);
        shards.asked[0].1.truncate(1);
        assert!(matches!(shards.after(SOON), AskingProgress::Ended));
        assert!(matches!(shards.after(PATIENCE), AskingProgress::Nothing));
    }

    #[test]
    fn the_drops_of_each_minute_are_asked_for_until_all_have_answered() {
        let mut shards = Shards::new();
        shards.after(SOON);
        assert_eq!(shards.asked[0].0, 10..10, "no minute is over");
        shards.answer_all(0, 0);
        shards.after(SOON);
        shards.after(Duration::from_secs(63));
        assert_eq!(shards.asked[1].0, 10..11);
        assert!(matches!(shards.after(PATIENCE), AskingProgress::Late));
        shards.answer_all(1, 0);
        assert!(matches!(shards.after(SOON), AskingProgress::Asked));
        assert_eq!(shards.asked[2].0, 10..11, "what was answered too late is asked for again");
        assert!(matches!(shards.after(Duration::from_secs(60)), AskingProgress::Late));
        shards.answer_all(2, 0);
        assert!(matches!(shards.after(SOON), AskingProgress::Asked));
        assert_eq!(shards.asked[3].0, 10..12, "with those of the minute that is over since");
        shards.answer_all(3, 0);
        assert!(matches!(shards.after(SOON), AskingProgress::Answered(_)));
        shards.after(RATES);
        assert_eq!(shards.asked[4].0, 12..12);
    }
}
