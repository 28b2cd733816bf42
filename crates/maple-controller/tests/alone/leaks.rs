//! Leaks of 500 reconnects, in descriptors and in memory.

use maple_wire::{Message, Version};

use crate::common::{LONG, Maple, Peer, eventually};
use crate::{alone, held_bytes};

#[test]
fn five_hundred_reconnects_leak_nothing() {
    let _alone = alone();
    let maple = Maple::with(|options| options.workers.count = 2);
    let mut bystander = Peer::up(&maple, Version::Of13, 1);
    let round = |n: u64| {
        let version = if n.is_multiple_of(2) { Version::Of10 } else { Version::Of13 };
        let mut peer = Peer::begin(maple.address, version, 2 + n % 3);
        // Some leave in the middle of the handshake.
        if n.is_multiple_of(5) {
            peer.pump(LONG, |_, message| *message == Message::FeaturesRequest);
        } else {
            peer.finish();
        }
    };
    let settle = || {
        eventually("all but one are gone", || maple.handle.stats().unwrap().connections == 1);
        (descriptors(), held_bytes())
    };
    // Buffers that are used again have reached their size after some rounds.
    (0..100).for_each(round);
    let (open, held) = settle();
    (100..600).for_each(round);
    let (open_after, held_after) = settle();
    assert!(maple.count("of_dp_connections") > 450, "most of them came up");
    assert_eq!(open_after, open, "descriptors");
    bystander.echo();
    assert_eq!(maple.connected().len(), 1);
    let grown = held_after.saturating_sub(held);
    assert!(grown < 1024 * 1024, "{grown} bytes more after 500 reconnects");
}

/// Returns how many descriptors this process has open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count())
}
