//! Leaks of 500 reconnects. Alone in its process, so that descriptors and memory can be counted.

mod common;

use common::{LONG, Maple, Peer, eventually};
use maple_wire::{Message, Version};

#[test]
fn five_hundred_reconnects_leak_nothing() {
    let maple = Maple::with(|options| options.workers = 2);
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
        (descriptors(), resident_pages())
    };
    // Buffers that are used again have reached their size after some rounds.
    (0..100).for_each(round);
    let (open, pages) = settle();
    (100..600).for_each(round);
    let (open_after, pages_after) = settle();
    assert!(maple.count("of_dp_connections") > 450, "most of them came up");
    assert_eq!(open_after, open, "descriptors");
    bystander.echo();
    assert_eq!(maple.connected().len(), 1);
    let grown = pages_after.saturating_sub(pages) * 4096;
    assert!(grown < 16 * 1024 * 1024, "{grown} bytes more after 500 reconnects");
}

/// Returns how many descriptors this process has open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count())
}

/// Returns how many pages of memory this process has.
fn resident_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}
