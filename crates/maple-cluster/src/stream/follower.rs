//! A standby's side of a stream: its copy of the master's rows.

use std::collections::BTreeMap;

use super::{StreamLimits, StreamPosition, StreamQuestion, StreamedPart};

/// A copy of a master's rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamCopy {
    /// The latest generation of the master.
    pub generation: u64,
    /// The position of the copy.
    pub position: StreamPosition,
    /// The rows.
    pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The bytes of the rows.
    pub(super) bytes: usize,
}

/// The content of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamNews {
    /// Nothing: it is not the answer to the latest question, or of a former master.
    Ignored,
    /// Some rows of a copy that is not whole yet.
    Partial,
    /// All that was missing of a copy, which takes the place of an earlier one.
    Whole,
    /// The changes since then.
    Changes,
}

/// The reason why a part can't be used. The copy that it goes on with is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The part does not go on where the copy is.
    Gap,
    /// Its numbers contradict each other.
    Order,
    /// The copy would have more than twice the rows or bytes that a source may have. What was deleted meanwhile may be
    /// there still, so it may have more than the source.
    TooMuch,
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            StreamError::Gap => "it goes on elsewhere than this copy",
            StreamError::Order => "its numbers contradict each other",
            StreamError::TooMuch => "it is larger than a copy may be",
        })
    }
}

impl std::error::Error for StreamError {}

/// The copy that a standby has of the master's rows.
#[derive(Clone, Debug)]
pub struct StreamFollower {
    limits: StreamLimits,
    /// The latest copy that was whole, and follows from then on.
    pub(super) whole: Option<StreamCopy>,
    /// A later one, of which parts are missing.
    pub(super) partial: Option<StreamCopy>,
    /// The number of the latest question, and whether its answer is still to come.
    number: u64,
    is_open: bool,
    /// The latest change at the master, as it has said.
    latest: u64,
}

impl StreamFollower {
    /// Creates a follower that has nothing.
    pub fn new(limits: StreamLimits) -> StreamFollower {
        StreamFollower { limits, whole: None, partial: None, number: 0, is_open: false, latest: 0 }
    }

    /// Returns the latest copy that was whole.
    pub fn whole(&self) -> Option<&StreamCopy> {
        self.whole.as_ref()
    }

    /// Takes the latest copy that was whole, because the member takes over. The follower has nothing after that.
    pub fn take(&mut self) -> Option<StreamCopy> {
        (self.partial, self.is_open) = (None, false);
        self.whole.take()
    }

    /// Returns how many rows the whole copy lacked when the master was heard last, or more; `None` if there is none, or
    /// if another one is being made.
    pub fn behind(&self) -> Option<u64> {
        let whole = self.whole.as_ref().filter(|_| self.partial.is_none())?;
        Some(self.latest.saturating_sub(whole.position.change))
    }

    /// Returns the next question. An answer to an earlier one is ignored from now on.
    pub fn ask(&mut self) -> StreamQuestion {
        (self.number, self.is_open) = (self.number + 1, true);
        let copies = [&self.partial, &self.whole];
        StreamQuestion {
            number: self.number,
            positions: copies.into_iter().flatten().map(|copy| copy.position).collect(),
        }
    }

    /// Takes in an answer.
    ///
    /// # Errors
    /// [`StreamError`] if it can't be used.
    pub fn on_part(&mut self, part: StreamedPart) -> Result<StreamNews, StreamError> {
        let known = self.whole.iter().chain(&self.partial).map(|copy| copy.generation).max();
        if !self.is_open || part.number != self.number || known.is_some_and(|known| part.generation < known) {
            return Ok(StreamNews::Ignored);
        }
        self.is_open = false;
        self.latest = part.latest;
        let outcome = self.apply(part);
        if outcome.is_err() {
            self.partial = None;
        }
        outcome
    }

    fn apply(&mut self, part: StreamedPart) -> Result<StreamNews, StreamError> {
        let StreamedPart { generation, life, from, to, latest, rows, .. } = part;
        if from > to || to > latest || to < latest && from == to {
            return Err(StreamError::Order);
        }
        let is_continued = |copy: &Option<StreamCopy>| {
            copy.as_ref().is_some_and(|copy| (copy.position.life, copy.position.change) == (life, from))
        };
        let is_whole = !is_continued(&self.partial) && is_continued(&self.whole);
        if is_whole {
            // It is further than what was begun since.
            self.partial = None;
        } else if from == 0 {
            let position = StreamPosition { life, began: latest, change: 0 };
            self.partial = Some(StreamCopy { position, ..StreamCopy::default() });
        } else if !is_continued(&self.partial) {
            return Err(StreamError::Gap);
        }
        let copy = if is_whole { &mut self.whole } else { &mut self.partial };
        let Some(copy) = copy else { return Err(StreamError::Gap) };
        (copy.generation, copy.position.change) = (generation, to);
        for (key, value) in rows {
            copy.put(key, value);
            if copy.rows.len() > 2 * self.limits.rows || copy.bytes > 2 * self.limits.bytes {
                if is_whole {
                    self.whole = None;
                }
                return Err(StreamError::TooMuch);
            }
        }
        match (is_whole, to == latest) {
            (true, _) => Ok(StreamNews::Changes),
            (false, false) => Ok(StreamNews::Partial),
            (false, true) => {
                self.whole = self.partial.take();
                Ok(StreamNews::Whole)
            }
        }
    }
}

impl StreamCopy {
    fn put(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let size = key.len();
        let before = match value {
            Some(value) => {
                self.bytes += size + value.len();
                self.rows.insert(key, value)
            }
            None => self.rows.remove(&key),
        };
        self.bytes -= before.map_or(0, |before| size + before.len());
    }
}
