//! Snooping in simulated time.

use std::sync::Arc;
use std::time::Duration;

use maple_controller::listener::{Listener, Subscription, subscribe};
use maple_controller::snoop::{SnoopEffect, Snooper, Snooping};
use maple_core::engine::{Event, Time};
use maple_core::state::Store;
use maple_emulator::commands::CommandError;

/// A snooper with its listener.
pub struct LabSnooper {
    snooper: Snooper,
    listener: Listener,
    store: Arc<Store>,
}

impl LabSnooper {
    /// Creates a snooper and its subscription; neither if there is nothing to snoop on.
    ///
    /// # Errors
    /// [`CommandError::Failed`] if it needs too many conditions.
    pub fn new(
        snooping: &Snooping,
        store: &Arc<Store>,
    ) -> Result<(Vec<Subscription>, Option<LabSnooper>), CommandError> {
        if !snooping.is_on() {
            return Ok((Vec::new(), None));
        }
        let (subscription, listener) =
            subscribe(snooping.conditions()).map_err(|error| CommandError::Failed(error.to_string()))?;
        let snooper = Snooper::new(snooping.clone(), Duration::ZERO, &store.snapshot());
        Ok((vec![subscription], Some(LabSnooper { snooper, listener, store: Arc::clone(store) })))
    }

    /// Returns the latest time for the next [`LabSnooper::turn`].
    pub fn deadline(&self) -> Time {
        self.snooper.deadline()
    }

    /// Passes waiting events to the snooper. Returns the resulting events for the engine.
    pub fn turn(&mut self, now: Time) -> Vec<Event> {
        let (mut effects, mut events, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        while let Ok(event) = self.listener.next(Duration::ZERO) {
            self.snooper.on_event(now, &event, &mut effects);
        }
        self.snooper.on_timer(now, &self.store.snapshot(), &mut effects);
        for effect in effects {
            match effect {
                SnoopEffect::Write(write) => writes.push(write),
                SnoopEffect::Send(frame) => events.push(Event::Send(frame)),
                SnoopEffect::Warn(reason, times) => tracing::warn!("snooping: {reason} ({times} times so far)"),
            }
        }
        if !writes.is_empty() {
            let commit = self.store.change(writes).expect("a snooper writes values of the declared types");
            events.push(Event::Committed(commit));
        }
        events
    }
}
