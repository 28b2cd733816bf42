//! Frames that are at the controller. They distinguish a packet-out of a known frame from one of a new frame.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::frames::InFlight;

/// The maximum number of remembered frames. A packet-out of an older one counts as a new frame. Chosen: it bounds
/// memory, and a controller answers a frame before as many others come.
const LIMIT: usize = 8_192;

/// The frames of the last packet-ins, by the bytes that the controller got.
#[derive(Debug, Default)]
pub(super) struct Punted {
    frames: FxHashMap<Vec<u8>, (u64, InFlight)>,
    order: VecDeque<(u64, Vec<u8>)>,
    count: u64,
}

impl Punted {
    /// Adds a frame that goes to the controller, which sees `data` of it.
    pub fn put(&mut self, data: &[u8], flight: InFlight) {
        self.count += 1;
        self.order.push_back((self.count, data.to_vec()));
        self.frames.insert(data.to_vec(), (self.count, flight));
        if self.order.len() > LIMIT {
            let (number, data) = self.order.pop_front().expect("the queue is longer than its limit");
            if self.frames.get(&data).is_some_and(|(newest, _)| *newest == number) {
                self.frames.remove(&data);
            }
        }
    }

    /// Returns the last frame of which the controller saw these bytes.
    pub fn get(&self, data: &[u8]) -> Option<&InFlight> {
        self.frames.get(data).map(|(_, flight)| flight)
    }
}
