//! Drives a snooper in a running controller.

use maple_core::state::Write;

use super::{Effect, Snooper};
use crate::control::Handle;
use crate::listen::{Listener, Silence};
use crate::notice::Notice;
use crate::time::{Clock, until};

/// What is heard before it is written, at most: one commit for all of it.
const BATCH: usize = 256;

/// Hears and writes until the controller stops.
pub(crate) fn run(mut snooper: Snooper, listener: &Listener, clock: &Clock, handle: &Handle) {
    let mut effects = Vec::new();
    loop {
        let mut heard = listener.next(until(clock.now(), snooper.next()));
        for _ in 0..BATCH {
            match heard {
                Ok(happening) => snooper.hear(clock.now(), &happening, &mut effects),
                Err(Silence::Timeout) => break,
                Err(Silence::Ended) => return,
            }
            heard = listener.next(std::time::Duration::ZERO);
        }
        snooper.tick(clock.now(), &handle.snapshot(), &mut effects);
        perform(handle, effects.drain(..));
    }
}

fn perform(handle: &Handle, effects: impl Iterator<Item = Effect>) {
    let mut writes: Vec<Write> = Vec::new();
    for effect in effects {
        match effect {
            Effect::Write(write) => writes.push(write),
            // A port that has gone has nobody to ask.
            Effect::Send(frame) => drop(handle.send_frame(frame.at, frame.bytes.to_vec())),
            Effect::Tell(reason, times) => handle.tell_people(Notice::Ignored { reason, times }),
        }
    }
    if writes.is_empty() {
        return;
    }
    let commit = handle.store().change(writes).expect("the tables were declared with what a snooper writes");
    // Waiting keeps a flood of changes from piling up before the shards.
    if let Err(error) = handle.acknowledge(commit) {
        tracing::warn!("what snooping learned: {error}");
    }
}
