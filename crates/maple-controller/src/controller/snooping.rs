//! Drives a snooper in a thread of the controller.

use std::time::{Duration, SystemTime};

use maple_core::state::{Write, Writer, Written};

use crate::control::Handle;
use crate::listener::{Listener, ListenerError};
use crate::notice::Notice;
use crate::snoop::{SnoopEffect, Snooper};
use crate::time::{Clock, until};

/// The maximum number of events that are handled before their writes are committed. Chosen: a flood of reports makes
/// few commits, and others see what is new within a moment.
const MAX_EVENTS: usize = 256;

/// Passes events to the snooper and performs its effects, until the controller stops.
pub(super) fn run(mut snooper: Snooper, listener: &Listener, clock: &Clock, handle: &Handle) {
    let mut effects = Vec::new();
    loop {
        let mut next = listener.next(until(clock.now(), snooper.deadline()));
        for _ in 0..MAX_EVENTS {
            match next {
                Ok(event) => snooper.on_event(clock.now(), &event, &mut effects),
                Err(ListenerError::Timeout) => break,
                Err(ListenerError::Ended) => return,
            }
            next = listener.next(Duration::ZERO);
        }
        snooper.on_timer(clock.now(), &handle.snapshot(), &mut effects);
        perform(handle, effects.drain(..));
    }
}

fn perform(handle: &Handle, effects: impl Iterator<Item = SnoopEffect>) {
    let mut writes: Vec<Write> = Vec::new();
    for effect in effects {
        match effect {
            SnoopEffect::Write(write) => writes.push(write),
            // If the port is down, there is no host to query.
            SnoopEffect::Send(frame) => drop(handle.send_frame(frame.bytes.to_vec(), frame.at)),
            SnoopEffect::Warn(reason, times) => handle.publish(Notice::Ignored { reason, times }),
        }
    }
    if writes.is_empty() {
        return;
    }
    let written = Written { by: Writer::Snooping, at: SystemTime::now() };
    let commit = handle.store().change_as(writes, written).expect("a snooper writes values of the declared types");
    // Waiting keeps changes from piling up in the shards' mailboxes.
    if let Err(error) = handle.operations().acknowledge(commit) {
        tracing::warn!("snooping: {error}");
    }
}
