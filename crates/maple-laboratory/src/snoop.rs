//! Snooping in simulated time.

use std::sync::Arc;
use std::time::Duration;

use maple_controller::listen::{Listener, Listening, listen};
use maple_controller::snoop::{Effect, Snooper, Snooping};
use maple_core::engine::{Event, Time};
use maple_core::state::Store;
use maple_emulator::lab::LabError;

/// A snooper and what it hears by.
pub struct Snoop {
    snooper: Snooper,
    listener: Listener,
    store: Arc<Store>,
}

impl Snoop {
    /// A snooper, if there is something to snoop on, and what tells it.
    ///
    /// # Errors
    /// [`LabError`] if it can't be told of so many kinds of packets.
    pub fn new(snooping: &Snooping, store: &Arc<Store>) -> Result<(Vec<Listening>, Option<Snoop>), LabError> {
        if !snooping.is_on() {
            return Ok((Vec::new(), None));
        }
        let (listening, listener) = listen(snooping.heard()).map_err(|error| LabError::Failed(error.to_string()))?;
        let snooper = Snooper::new(snooping.clone(), Duration::ZERO, &store.snapshot());
        Ok((vec![listening], Some(Snoop { snooper, listener, store: Arc::clone(store) })))
    }

    /// When its turn comes at the latest.
    pub fn next(&self) -> Time {
        self.snooper.next()
    }

    /// What the shard is to hear of what was learned.
    pub fn turn(&mut self, now: Time) -> Vec<Event> {
        let (mut effects, mut events, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        while let Ok(happening) = self.listener.next(Duration::ZERO) {
            self.snooper.hear(now, &happening, &mut effects);
        }
        self.snooper.tick(now, &self.store.snapshot(), &mut effects);
        for effect in effects {
            match effect {
                Effect::Write(write) => writes.push(write),
                Effect::Send(frame) => events.push(Event::Send(frame)),
                Effect::Tell(reason, times) => tracing::warn!("snooping: {reason} ({times} times so far)"),
            }
        }
        if !writes.is_empty() {
            let commit = self.store.change(writes).expect("the tables were declared with what a snooper writes");
            events.push(Event::Committed(commit));
        }
        events
    }
}
