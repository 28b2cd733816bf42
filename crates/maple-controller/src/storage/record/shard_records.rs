//! The records of one shard: the turns of its engine.
//!
//! A record is a turn: the time of its beginning, the packets that were answered as hits since the last one, and its
//! events. After these come the engine's uses of the store, and a checksum for each message that the engine sent. Its
//! first part is made before the engine runs. If the engine panics, that part is written all the same, and a replay
//! comes to the same place.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::engine::{Effect, Engine, Event, Time};
use maple_core::ids::ShardId;
use maple_wire::Dpid;
use maple_wire::msg::Message;

use serde::{Deserialize, Serialize};

use super::SharedRecording;
use super::engine_events::Events;
use crate::storage::format::{Damaged, Reader, put};

/// Records the turns of one shard.
pub(crate) struct ShardRecorder {
    shared: Arc<SharedRecording>,
    shard: ShardId,
    events: Events,
    /// The time of the last turn.
    last: Time,
    /// The number of packet-outs of hits since then, by switch.
    hits: BTreeMap<Dpid, u64>,
    /// The record that is being made.
    turn: Vec<u8>,
    /// Its events, and then its checksums.
    part: Vec<u8>,
    scratch: Vec<u8>,
}

/// The first part of a record.
#[derive(Serialize, Deserialize)]
struct TurnBegin<'a> {
    /// The time since the last turn began, in nanoseconds.
    since: u64,
    hits: BTreeMap<Dpid, u64>,
    #[serde(with = "serde_bytes")]
    events: &'a [u8],
}

/// The second part of a record. It is missing if the engine did not end the turn.
#[derive(Deserialize)]
struct TurnEnd<'a> {
    /// The uses that the engine made of the store.
    notes: &'a [u8],
    /// Four bytes for each message.
    checksums: &'a [u8],
}

impl ShardRecorder {
    pub fn new(shared: Arc<SharedRecording>, shard: ShardId) -> ShardRecorder {
        let (events, hits) = (Events::default(), BTreeMap::new());
        let [turn, part, scratch] = [const { Vec::new() }; 3];
        ShardRecorder { shared, shard, events, last: Time(0), hits, turn, part, scratch }
    }

    /// Returns the number of times that the store had moved when the recording began.
    pub fn from(&self) -> u64 {
        self.shared.from()
    }

    /// Notes that this many packet-outs answered hits at this switch.
    pub fn note_hits(&mut self, dpid: Dpid, packet_outs: u64) {
        *self.hits.entry(dpid).or_default() += packet_outs;
    }

    /// Begins the record of a turn.
    pub fn begin(&mut self, now: Time, events: &[Event]) {
        if !self.shared.is_on() {
            return;
        }
        self.turn.clear();
        self.part.clear();
        events.iter().for_each(|event| self.events.put(event, &mut self.part));
        let (since, hits) = (now.0.saturating_sub(self.last.0), std::mem::take(&mut self.hits));
        self.last = now;
        let done = put(&TurnBegin { since, hits, events: &self.part }, &mut self.turn);
        debug_assert!(done.is_ok(), "each value has a form");
    }

    /// Completes the record of a turn, which had these effects. Returns whether the recording goes on.
    pub fn end(&mut self, engine: &Engine, effects: &[Effect]) -> bool {
        if !self.shared.is_on() {
            self.turn.clear();
            return false;
        }
        // These are bytes with their length, as all bytes of the format.
        engine.take_notes(&mut self.turn);
        self.part.clear();
        for (dpid, xid, message) in effects.iter().filter_map(sent) {
            let checksum = checksum(&self.events, dpid, xid, message, &mut self.scratch);
            self.part.extend_from_slice(&checksum.to_be_bytes());
        }
        let done = put(serde_bytes::Bytes::new(&self.part), &mut self.turn);
        debug_assert!(done.is_ok(), "bytes have a form");
        self.shared.append(self.shard, &self.turn);
        self.turn.clear();
        true
    }
}

impl Drop for ShardRecorder {
    /// Appends a turn without an end: the engine panicked in it.
    fn drop(&mut self) {
        if !self.turn.is_empty() && self.shared.is_on() {
            self.shared.append(self.shard, &self.turn);
        }
    }
}

/// Returns the message of an effect that sends one.
pub(crate) fn sent(effect: &Effect) -> Option<(Dpid, u32, &Message)> {
    match effect {
        Effect::Send { dpid, xid, message } | Effect::Poll { dpid, xid, message } => Some((*dpid, *xid, message)),
        _ => None,
    }
}

/// Returns the checksum of a message: the CRC-32 of its bytes as the switch gets them, and of the switch.
pub(crate) fn checksum(events: &Events, dpid: Dpid, xid: u32, message: &Message, scratch: &mut Vec<u8>) -> u32 {
    scratch.clear();
    // A message that the version can't express is not sent. Its error takes its place.
    if let Err(error) = message.encode(events.version(dpid), xid, scratch) {
        scratch.extend_from_slice(error.to_string().as_bytes());
    }
    scratch.extend_from_slice(&dpid.0.to_be_bytes());
    crc32fast::hash(scratch)
}

/// A turn as it was recorded.
#[derive(Clone, Debug)]
pub(crate) struct RecordedTurn<'a> {
    pub at: Time,
    pub hits: BTreeMap<Dpid, u64>,
    pub events: &'a [u8],
    /// The notes of how the engine used the store, and the checksums of its messages. `None` if the engine did not end
    /// the turn.
    pub end: Option<(&'a [u8], &'a [[u8; 4]])>,
}

impl<'a> RecordedTurn<'a> {
    /// Reads a turn that came after one at `last`.
    pub fn take(from: &mut Reader<'a>, last: Time) -> Result<RecordedTurn<'a>, Damaged> {
        let TurnBegin { since, hits, events } = from.take()?;
        let at = Time(last.0.checked_add(since).ok_or(Damaged("a time is too large"))?);
        if from.is_empty() {
            return Ok(RecordedTurn { at, hits, events, end: None });
        }
        let TurnEnd { notes, checksums } = from.take()?;
        let (checksums, []) = checksums.as_chunks() else { return Err(Damaged("it ends within a checksum")) };
        Ok(RecordedTurn { at, hits, events, end: Some((notes, checksums)) })
    }
}
