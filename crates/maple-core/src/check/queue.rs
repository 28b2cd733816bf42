//! The packets that a check has yet to try.

use std::collections::{BTreeSet, VecDeque};

use super::sample_packets::Sample;

/// The maximum number of times that packets are tried again because the state changed. Chosen: f may write in each run,
/// so the check must end by itself, and each pass costs up to [`MAX_REPEATED`](super::MAX_REPEATED) runs.
const MAX_PASSES: u32 = 4;

/// The packets to be tried, each once for each pass.
pub(super) struct SampleQueue {
    /// The packets, given or made. The flag marks those that were made.
    waiting: VecDeque<(Sample, bool)>,
    seen: BTreeSet<Sample>,
    /// The version of the state when the last pass began.
    version: u64,
    passes: u32,
}

impl SampleQueue {
    /// Creates an empty queue for packets that are tried in this version of the state.
    pub fn new(version: u64) -> SampleQueue {
        SampleQueue { waiting: VecDeque::new(), seen: BTreeSet::new(), version, passes: 0 }
    }

    /// Queues a packet in front of those that are made, unless it was queued before.
    pub fn give(&mut self, sample: Sample) {
        if self.seen.insert(sample.clone()) {
            self.waiting.push_front((sample, false));
        }
    }

    /// Queues a packet that was made, unless it was queued before.
    pub fn add_made(&mut self, sample: Sample) {
        if self.seen.insert(sample.clone()) {
            self.waiting.push_back((sample, true));
        }
    }

    /// Begins another pass if the state has another version now. Returns whether it does.
    pub fn begin_pass(&mut self, version: u64) -> bool {
        if version == self.version || self.passes == MAX_PASSES {
            return false;
        }
        (self.version, self.passes) = (version, self.passes + 1);
        true
    }

    /// Queues packets that were tried in an earlier pass.
    pub fn repeat(&mut self, samples: impl IntoIterator<Item = Sample>) {
        self.waiting.extend(samples.into_iter().map(|sample| (sample, true)));
    }

    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Removes and returns the next packet, and whether it was made.
    pub fn pop(&mut self) -> Option<(Sample, bool)> {
        self.waiting.pop_front()
    }
}
