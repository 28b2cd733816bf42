//! The packet-ins of one switch that have no answer yet, by buffer id.

use maple_switch::time::Nanoseconds;

/// A time that means "answered".
const ANSWERED: Nanoseconds = Nanoseconds::MAX;

/// A ring of the unanswered packet-ins. Buffer ids count up; an id's index is its remainder by the ring's length.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The times when the packet-ins were sent (or were due), by index.
    sent: Vec<Nanoseconds>,
    /// The oldest id that may have no answer.
    oldest: u32,
    /// The next id.
    next: u32,
    open: u32,
}

impl Pending {
    /// Creates a ring for exactly this many packet-ins.
    pub fn new(window: u32) -> Pending {
        Pending { sent: vec![ANSWERED; window.next_power_of_two() as usize], oldest: 0, next: 0, open: 0 }
    }

    /// Returns the number of unanswered packet-ins.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Reports whether one more packet-in fits.
    pub fn has_room(&self) -> bool {
        (self.next.wrapping_sub(self.oldest) as usize) < self.sent.len()
    }

    /// Returns the number of free places.
    pub fn room(&self) -> u32 {
        self.sent.len() as u32 - self.next.wrapping_sub(self.oldest)
    }

    /// Adds a packet-in that was sent at this time, and returns its buffer id. There must be a free place.
    pub fn push(&mut self, time: Nanoseconds) -> u32 {
        debug_assert!(self.has_room());
        let id = self.next;
        let place = self.place(id);
        self.sent[place] = time;
        self.next = id.wrapping_add(1) & 0x7fff_ffff;
        self.open += 1;
        if self.next == 0 {
            // Ids never reach the one that means "no buffer". The ring starts over when the numbers do.
            self.wrapped();
        }
        id
    }

    /// Reports whether this id was used since the ids last wrapped around.
    pub fn was_sent(&self, id: u32) -> bool {
        id < self.next
    }

    /// Handles the answer to a packet-in. Returns when it was sent, in nanoseconds; `None` if it is not open.
    pub fn answer(&mut self, id: u32) -> Option<Nanoseconds> {
        if id.wrapping_sub(self.oldest) >= self.next.wrapping_sub(self.oldest) {
            return None;
        }
        let place = self.place(id);
        let sent = std::mem::replace(&mut self.sent[place], ANSWERED);
        if sent == ANSWERED {
            return None;
        }
        self.open -= 1;
        self.advance();
        Some(sent)
    }

    /// Handles the answer to the oldest packet-in. Returns when it was sent, in nanoseconds.
    pub fn answer_oldest(&mut self) -> Option<Nanoseconds> {
        if self.open == 0 { None } else { self.answer(self.oldest) }
    }

    fn place(&self, id: u32) -> usize {
        id as usize & (self.sent.len() - 1)
    }

    fn advance(&mut self) {
        while self.oldest != self.next && self.sent[self.place(self.oldest)] == ANSWERED {
            self.oldest += 1;
        }
    }

    /// Forgets the unanswered packet-ins. Their answers will not be recognised.
    fn wrapped(&mut self) {
        self.sent.fill(ANSWERED);
        (self.oldest, self.open) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Push(u64),
        Answer(u32),
        Oldest,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u64..1000).prop_map(Step::Push),
            4 => (0u32..60).prop_map(Step::Answer),
            1 => Just(Step::Oldest),
        ]
    }

    proptest! {
        #[test]
        fn pending_is_a_map_from_ids_to_times(window in 1u32..20, steps in prop::collection::vec(step(), 0..200)) {
            let (mut pending, mut map, mut next) = (Pending::new(window), BTreeMap::new(), 0);
            for step in steps {
                match step {
                    Step::Push(time) if pending.has_room() => {
                        prop_assert_eq!(pending.push(time), next);
                        map.insert(next, time);
                        next += 1;
                    }
                    Step::Push(_) => prop_assert!(next - map.keys().next().copied().unwrap_or(next) >= window),
                    Step::Answer(id) => prop_assert_eq!(pending.answer(id), map.remove(&id)),
                    Step::Oldest => prop_assert_eq!(pending.answer_oldest(), map.pop_first().map(|(_, time)| time)),
                }
                prop_assert_eq!(pending.open() as usize, map.len());
            }
        }
    }

    #[test]
    fn ids_start_over_before_the_one_that_means_no_buffer() {
        let mut pending = Pending { next: 0x7fff_ffff, oldest: 0x7fff_ffff, ..Pending::new(4) };
        assert_eq!((pending.push(1), pending.open()), (0x7fff_ffff, 0));
        assert_eq!((pending.push(2), pending.answer(0)), (0, Some(2)));
    }
}
