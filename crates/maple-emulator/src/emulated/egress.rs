//! The frames that wait at a port with a bounded rate: queues with minimum and maximum rates, and the choice of the
//! next frame.
//!
//! The line sends one frame at a time, at the port's rate. A queue may send again when its last frame, at the queue's
//! maximum rate, would be over. Among the queues that may send, those below their minimum rate come first, the one that
//! lacks most before the others; then the one that was served longest ago. So a queue gets its minimum rate whenever it
//! wants it, and the rest is shared frame by frame.

use std::collections::{BTreeMap, VecDeque};

use maple_switch::QueueRates;
use maple_switch::time::{Nanoseconds, SECOND};

/// The maximum number of frames in a queue. A longer queue loses less and delays more: this one, full of frames of
/// 1,500 bytes, delays by 1.2 ms at 1 Gb/s.
const ROOM: usize = 100;
/// The maximum deficit of a queue's minimum rate that is made up for later, in nanoseconds. A queue that was idle for
/// longer would otherwise keep all others waiting for as long.
const CREDIT: Nanoseconds = SECOND / 10;

/// The queues of one port; `T` is a frame.
#[derive(Debug)]
pub(super) struct Egress<T> {
    queues: BTreeMap<Option<u32>, WaitingFrame<T>>,
    /// The time when the line is free.
    free: Nanoseconds,
    served: u64,
    /// The time of the next check, if one is planned.
    pub timer: Option<Nanoseconds>,
}

/// The limits of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// The line's rate, in bits a second.
    pub rate: Option<u64>,
    /// Its queues.
    pub queues: BTreeMap<u32, QueueRates>,
}

impl Limits {
    fn for_queue(&self, queue: Option<u32>) -> QueueRates {
        queue.and_then(|queue| self.queues.get(&queue)).copied().unwrap_or_default()
    }
}

#[derive(Debug)]
struct WaitingFrame<T> {
    frames: VecDeque<(usize, T)>,
    /// The time when it may send again, by its maximum rate.
    may: Nanoseconds,
    /// The time until which it has had its minimum rate.
    paid: Nanoseconds,
    /// The number of the turn in which it was last served.
    served: u64,
}

/// A frame that leaves now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeavingFrame<T> {
    pub queue: Option<u32>,
    pub bytes: usize,
    /// Its time on the line, in nanoseconds.
    pub takes: Nanoseconds,
    pub frame: T,
}

impl<T> Egress<T> {
    pub fn new() -> Egress<T> {
        Egress { queues: BTreeMap::new(), free: 0, served: 0, timer: None }
    }

    /// Puts a frame into a queue. Returns it if the queue is full.
    pub fn put(&mut self, now: Nanoseconds, queue: Option<u32>, bytes: usize, frame: T) -> Result<(), T> {
        let fresh = || WaitingFrame { frames: VecDeque::new(), may: 0, paid: now, served: 0 };
        let waiting = self.queues.entry(queue).or_insert_with(fresh);
        if waiting.frames.len() >= ROOM {
            return Err(frame);
        }
        waiting.frames.push_back((bytes, frame));
        Ok(())
    }

    /// Returns the next frame, if one may leave now.
    pub fn next(&mut self, now: Nanoseconds, limits: &Limits) -> Option<LeavingFrame<T>> {
        if self.free > now {
            return None;
        }
        let behind = |queue: Option<u32>, waiting: &WaitingFrame<T>| {
            // Unused minimum rates are kept only for a moment.
            let paid = waiting.paid.max(now.saturating_sub(CREDIT));
            limits.for_queue(queue).min.is_some() && paid <= now
        };
        let (queue, _) =
            self.queues.iter().filter(|(_, waiting)| !waiting.frames.is_empty() && waiting.may <= now).min_by_key(
                |(queue, waiting)| {
                    let is_behind = behind(**queue, waiting);
                    (!is_behind, if is_behind { waiting.paid } else { 0 }, waiting.served)
                },
            )?;
        let queue = *queue;
        let waiting = self.queues.get_mut(&queue)?;
        let (bytes, frame) = waiting.frames.pop_front()?;
        let QueueRates { min, max } = limits.for_queue(queue);
        self.served += 1;
        waiting.served = self.served;
        if let Some(min) = min {
            waiting.paid = waiting.paid.max(now.saturating_sub(CREDIT)) + time_of(bytes, min);
        }
        if let Some(max) = max {
            waiting.may = waiting.may.max(now) + time_of(bytes, max);
        }
        let takes = limits.rate.map_or(0, |rate| time_of(bytes, rate));
        self.free = now + takes;
        Some(LeavingFrame { queue, bytes, takes, frame })
    }

    /// Returns the waiting frames.
    pub fn frames(&self) -> impl Iterator<Item = &T> {
        self.queues.values().flat_map(|waiting| waiting.frames.iter().map(|(_, frame)| frame))
    }

    /// Returns the time when the next frame may leave; `None` if none waits.
    pub fn due(&self) -> Option<Nanoseconds> {
        let may = self.queues.values().filter(|waiting| !waiting.frames.is_empty()).map(|waiting| waiting.may).min()?;
        Some(may.max(self.free))
    }
}

/// Returns the time of this many bytes at a rate, in nanoseconds.
fn time_of(bytes: usize, rate: u64) -> Nanoseconds {
    (bytes as u128 * 8 * u128::from(SECOND)).div_ceil(u128::from(rate.max(1))) as Nanoseconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use maple_switch::time::MILLISECOND;

    const MBIT: u64 = 1_000_000;

    /// Keeps these queues full for a second. Returns the bits that each sent.
    fn sent(limits: &Limits, wants: &[Option<u32>]) -> BTreeMap<Option<u32>, u64> {
        let mut egress = Egress::new();
        let mut sent = BTreeMap::new();
        let mut now = 0;
        while now < SECOND {
            for queue in wants {
                while egress.put(now, *queue, 1250, ()).is_ok() {}
            }
            while let Some(leaving) = egress.next(now, limits) {
                *sent.entry(leaving.queue).or_default() += 8 * leaving.bytes as u64;
            }
            now = egress.due().expect("all queues are full");
        }
        sent
    }

    #[test]
    fn a_queue_gets_its_most_and_no_more() {
        let limits = Limits { rate: None, queues: [(1, QueueRates { min: None, max: Some(2 * MBIT) })].into() };
        let got = sent(&limits, &[Some(1)])[&Some(1)];
        assert!((2 * MBIT..2 * MBIT + 20_000).contains(&got), "{got}");
    }

    #[test]
    fn a_queue_gets_what_it_was_promised_and_the_rest_is_shared() {
        let promised = QueueRates { min: Some(7 * MBIT), max: None };
        let limits = Limits { rate: Some(10 * MBIT), queues: [(1, promised), (2, QueueRates::default())].into() };
        let got = sent(&limits, &[Some(1), Some(2), None]);
        assert_eq!(got.values().sum::<u64>(), 10 * MBIT, "the line is never idle");
        assert!(got[&Some(1)] >= 7 * MBIT, "{got:?}");
        assert!(got[&Some(2)].abs_diff(got[&None]) <= 10_000, "{got:?}");
        let alone = sent(&limits, &[Some(2)]);
        assert_eq!(alone[&Some(2)], 10 * MBIT, "what nobody takes is not kept back");
    }

    #[test]
    fn a_full_queue_gives_frames_back_and_others_are_not_full() {
        let limits = Limits { rate: Some(MBIT), ..Limits::default() };
        let mut egress = Egress::new();
        (0..ROOM).for_each(|n| egress.put(0, None, 125, n).unwrap());
        assert_eq!(egress.put(0, None, 125, 7777), Err(7777));
        egress.put(0, Some(1), 125, 5555).unwrap();
        assert_eq!(egress.next(0, &limits).unwrap().takes, MILLISECOND);
        assert_eq!((egress.next(0, &limits), egress.due()), (None, Some(MILLISECOND)));
        assert_eq!(egress.next(MILLISECOND, &limits).unwrap().frame, 5555, "it was served longest ago");
    }
}
