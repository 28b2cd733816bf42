//! The records of one shard: the turns of its engine.
//!
//! A record is a turn: when it began, which packets were answered as hits since the last one, its events, how the engine
//! used the store, and a checksum for each message that the engine sent. Its first part is made before the engine runs.
//! If the engine panics, that part is written all the same, and a replay comes to the same place.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::engine::{Effect, Engine, Event, Time};
use maple_core::ids::ShardId;
use maple_wire::Dpid;
use maple_wire::msg::Message;

use super::Shared;
use super::codec::{Codec, Damaged, Reader, put_number};
use super::events::Events;

/// The number of bytes of the length of a turn's events.
const LENGTH: usize = 4;

/// Records the turns of one shard.
pub(crate) struct ShardRecorder {
    shared: Arc<Shared>,
    shard: ShardId,
    events: Events,
    /// The time of the last turn.
    last: Time,
    /// The number of packet-outs of hits since then, by switch.
    hits: BTreeMap<Dpid, u64>,
    /// The record that is being made.
    turn: Vec<u8>,
    scratch: Vec<u8>,
}

impl ShardRecorder {
    pub fn new(shared: Arc<Shared>, shard: ShardId) -> ShardRecorder {
        let (turn, scratch, hits) = (Vec::new(), Vec::new(), BTreeMap::new());
        ShardRecorder { shared, shard, events: Events::default(), last: Time(0), hits, turn, scratch }
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
        let since = now.0.saturating_sub(self.last.0);
        self.last = now;
        put_number(since.into(), &mut self.turn);
        self.hits.put(&mut self.turn);
        self.hits.clear();
        let start = self.turn.len();
        self.turn.extend_from_slice(&[0; LENGTH]);
        for event in events {
            if let Err(error) = self.events.put(event, &mut self.turn) {
                return self.shared.fail(&error.to_string());
            }
        }
        let length = self.turn.len() - start - LENGTH;
        // A turn whose length does not fit is too large for a buffer too.
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
        self.turn[start..start + LENGTH].copy_from_slice(&length);
    }

    /// Completes the record of a turn, which had these effects. Returns whether the recording goes on.
    pub fn end(&mut self, engine: &Engine, effects: &[Effect]) -> bool {
        if !self.shared.is_on() {
            self.turn.clear();
            return false;
        }
        engine.take_notes(&mut self.turn);
        let sent = || effects.iter().filter_map(sent);
        sent().count().put(&mut self.turn);
        for (dpid, xid, message) in sent() {
            let checksum = checksum(&self.events, (dpid, xid, message), &mut self.scratch);
            self.turn.extend_from_slice(&checksum.to_be_bytes());
        }
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
pub(crate) fn checksum(events: &Events, (dpid, xid, message): (Dpid, u32, &Message), scratch: &mut Vec<u8>) -> u32 {
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
pub(crate) struct Turn<'a> {
    pub at: Time,
    pub hits: Vec<(Dpid, u64)>,
    pub events: &'a [u8],
    /// The notes of how the engine used the store, and the checksums of its messages. `None` if the engine did not end
    /// the turn.
    pub end: Option<(&'a [u8], &'a [[u8; 4]])>,
}

impl<'a> Turn<'a> {
    /// Reads a turn that came after one at `last`.
    pub fn take(from: &mut Reader<'a>, last: Time) -> Result<Turn<'a>, Damaged> {
        let since = u64::take(from)?;
        let at = Time(last.0.checked_add(since).ok_or(Damaged("a time is too large"))?);
        let hits = Codec::take(from)?;
        let length = u32::from_be_bytes(Codec::take(from)?);
        let events = from.bytes(length as usize)?;
        if from.is_empty() {
            return Ok(Turn { at, hits, events, end: None });
        }
        let notes = from.sized()?;
        let count = from.length()?;
        let checksums = from.bytes(count.checked_mul(4).ok_or(Damaged("a length is beyond the end"))?)?;
        Ok(Turn { at, hits, events, end: Some((notes, checksums.as_chunks().0)) })
    }
}
