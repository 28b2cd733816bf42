//! One shard of a replay: its turns, one after the other.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use maple_core::engine::{Effect, Engine, Event, Mail, Time};
use maple_core::ids::ShardId;
use maple_core::policy::Policy;
use maple_wire::msg::{Header, Message};
use maple_wire::{Dpid, print};

use super::recorded::Blocks;
use super::{FirstDifference, ReplayCommons};
use crate::storage::format::Reader;
use crate::storage::record::engine_events::{Events, NamedMessages};
use crate::storage::record::{RecordedTurn, RecordingError, checksum, sent};

/// Runs the turns of a shard.
pub(super) struct ShardReplay<'a> {
    common: &'a ReplayCommons,
    shard: ShardId,
    blocks: Blocks,
    folder: &'a Path,
    events: Events,
    last: Time,
    scratch: Vec<u8>,
}

/// The reason why a shard stops.
enum StopReason {
    /// Nothing is left to do, or nothing counts.
    Over,
    Failed(RecordingError),
}

impl From<RecordingError> for StopReason {
    fn from(error: RecordingError) -> StopReason {
        StopReason::Failed(error)
    }
}

impl<'a> ShardReplay<'a> {
    pub fn new(common: &'a ReplayCommons, shard: ShardId, blocks: Blocks, folder: &'a Path) -> ShardReplay<'a> {
        let (events, scratch) = (Events::default(), Vec::new());
        ShardReplay { common, shard, blocks, folder, events, last: Time(0), scratch }
    }

    /// Runs all turns. Returns the engine after the last one.
    pub fn run(mut self, mut engine: Engine) -> Engine {
        if let Err(StopReason::Failed(error)) = self.run_all(&mut engine) {
            self.common.fails(error);
        }
        engine
    }

    fn run_all(&mut self, engine: &mut Engine) -> Result<(), StopReason> {
        while let Some(bytes) = self.blocks.next()? {
            let mut from = Reader::new(&bytes);
            while !from.is_empty() {
                let turn = RecordedTurn::take(&mut from, self.last).map_err(|why| self.damaged(why))?;
                self.last = turn.at;
                if self.common.until.is_some_and(|until| turn.at > until) {
                    return Err(StopReason::Over);
                }
                self.run_turn(engine, &turn)?;
            }
        }
        Ok(())
    }

    fn damaged(&self, why: impl std::fmt::Display) -> RecordingError {
        RecordingError::damaged(self.folder, 0, format!("a turn of shard {}: {why}", self.shard.0))
    }

    fn run_turn(&mut self, engine: &mut Engine, turn: &RecordedTurn<'_>) -> Result<(), StopReason> {
        let party = usize::from(self.shard.0);
        turn.hits.iter().for_each(|(dpid, packet_outs)| engine.skip_hits(*dpid, *packet_outs));
        match turn.end {
            Some((notes, _)) => {
                let first = engine.expect(notes).map_err(|why| self.damaged(why))?;
                self.common.gate.announce(party, first);
            }
            // The recorded engine panicked in this turn, and so this one will.
            None => engine.detach(),
        }
        let mut events = self.take_events(turn)?;
        let count = events.len() as u64;
        let mut effects = Vec::new();
        let handled = catch_unwind(AssertUnwindSafe(|| engine.handle(turn.at, &mut events, &mut effects)));
        let Some((_, checksums)) = turn.end else {
            self.differs(turn.at, None, unfinished(handled.err()));
            return Err(StopReason::Over);
        };
        if let Err(panic) = handled {
            self.differs(turn.at, None, format!("the engine panics: {}", text(&*panic)));
            return Err(StopReason::Over);
        }
        if self.common.gate.is_released() {
            self.common.waits_in_vain(turn.at, self.shard);
            return Err(StopReason::Over);
        }
        self.compare(turn.at, engine, &effects, checksums)?;
        effects.into_iter().for_each(|effect| {
            if let Effect::Mail { mail, .. } = effect {
                self.common.gate.deliver(mail);
            }
        });
        self.common.turns.fetch_add(1, Ordering::Relaxed);
        self.common.events.fetch_add(count, Ordering::Relaxed);
        self.common.at.fetch_max(turn.at.0, Ordering::Relaxed);
        Ok(())
    }

    fn take_events(&mut self, turn: &RecordedTurn<'_>) -> Result<Vec<Event>, StopReason> {
        let mut named = NamedItems { common: self.common, party: usize::from(self.shard.0), is_missing: false };
        let (mut from, mut events) = (Reader::new(turn.events), Vec::new());
        while !from.is_empty() {
            match self.events.take(&mut from, &mut named) {
                Ok(event) => events.push(event),
                // The event is a message of another shard that does not come.
                Err(_) if named.is_missing => {
                    self.common.waits_in_vain(turn.at, self.shard);
                    return Err(StopReason::Over);
                }
                Err(why) => return Err(self.damaged(why).into()),
            }
        }
        Ok(events)
    }

    /// Compares the messages that the engine sends with the recorded checksums.
    fn compare(
        &mut self,
        at: Time,
        engine: &Engine,
        effects: &[Effect],
        checksums: &[[u8; 4]],
    ) -> Result<(), StopReason> {
        let mut recorded = checksums.iter();
        for (dpid, xid, message) in effects.iter().filter_map(sent) {
            let is_same = match recorded.next() {
                Some(one) => *one == checksum(&self.events, dpid, xid, message, &mut self.scratch).to_be_bytes(),
                None => false,
            };
            if !is_same {
                let what = self.shown(dpid, xid, message);
                self.differs(at, Some(dpid), format!("this message was not recorded: {what}"));
                return Err(StopReason::Over);
            }
            self.common.messages.fetch_add(1, Ordering::Relaxed);
            let is_flow_mod = matches!(message, Message::FlowMod(_) | Message::BundleAdd(_));
            self.common.flow_mods.fetch_add(u64::from(is_flow_mod), Ordering::Relaxed);
        }
        if recorded.len() > 0 {
            self.differs(at, None, format!("{} more messages were recorded for this turn", recorded.len()));
            return Err(StopReason::Over);
        }
        if !engine.is_as_noted() {
            let why = "the engine uses the state otherwise, although it sends the same: the policy read something that is \
                       not tracked, or it is another policy";
            self.differs(at, None, why.into());
            return Err(StopReason::Over);
        }
        Ok(())
    }

    fn differs(&self, at: Time, switch: Option<Dpid>, what: String) {
        self.common.differs(FirstDifference { at, shard: self.shard, switch, what });
    }

    /// Formats a message for people.
    fn shown(&mut self, dpid: Dpid, xid: u32, message: &Message) -> String {
        self.scratch.clear();
        let version = self.events.version(dpid);
        let decoded = message.encode(version, xid, &mut self.scratch).and_then(|()| Message::decode(&self.scratch));
        let shown = |(header, message): (Header, Message)| print::message(&header, &message);
        decoded.map_or_else(|error| error.to_string(), shown)
    }
}

/// Describes a turn in which the recorded engine panicked.
fn unfinished(panic: Option<Box<dyn Any + Send>>) -> String {
    match panic {
        Some(panic) => {
            format!("the recorded controller ended within this turn; the replay panics there too: {}", text(&*panic))
        }
        None => "the recorded controller ended within this turn, and the replay does not".into(),
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let owned = || panic.downcast_ref::<String>().cloned();
    panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(owned).unwrap_or_default()
}

/// The messages and policies that the events of a shard name.
struct NamedItems<'a> {
    common: &'a ReplayCommons,
    party: usize,
    /// Whether a message did not come.
    is_missing: bool,
}

impl NamedMessages for NamedItems<'_> {
    fn mail(&mut self, from: ShardId, number: u64) -> Option<Mail> {
        let mail = self.common.gate.await_mail(self.party, from, number);
        self.is_missing |= mail.is_none();
        mail
    }

    fn policy(&mut self, candidate: u64) -> Option<Arc<dyn Policy>> {
        self.common.policies.get(self.common.candidates.get(&candidate)?).cloned()
    }
}
