//! The allocations that a message costs: none, on the hot paths of handlers and of policies.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use maple_controller::ControllerOptions;
use maple_controller::session::SwitchInfo;
use maple_handlers::{Handlers, LearningSwitch};
use maple_wire::msg::Frames;
use maple_wire::packet::build::Frame;
use maple_wire::{Message, Version};
use stats_alloc::Region;

use crate::common::{LONG, Maple, Peer, SHORT, packet_in};
use crate::{MEMORY, alone};

/// The number of hosts at each of two ports.
const HOSTS: u8 = 50;
/// The number of times that all their packets are sent while allocations are counted.
const ROUNDS: usize = 200;

#[test]
fn packets_of_the_learning_switch_and_hits_of_a_policy_allocate_nothing() {
    let _alone = alone();
    let learning = Maple::with(|options| {
        options.programs = Some(Arc::new(Handlers::new(|_: &SwitchInfo| LearningSwitch::new())));
        seldom(options);
    });
    let policy = Maple::with(seldom);
    for version in [Version::Of10, Version::Of13] {
        let stream = packets(version);
        let messages = Frames::new(&stream).count();
        // Each packet is answered with a rule and, because the switch buffers none, with a packet-out.
        let mut peer = Peer::begin(learning.address, version, 1);
        peer.pump(LONG, |_, message| matches!(message, Message::SetConfig(_)));
        assert_eq!(count(&mut peer, &stream, 2 * messages), 0, "learning switch, {version}");
        let mut peer = Peer::up(&policy, version, 1);
        assert_eq!(count(&mut peer, &stream, messages), 0, "policy, {version}");
    }
}

/// Makes probes of ports and echoes so rare that they are not counted.
fn seldom(options: &mut ControllerOptions) {
    let hour = Duration::from_secs(3600);
    (options.openflow.timing.interval, options.openflow.deadlines.idle, options.workers.balance_period) =
        (hour, hour, Duration::ZERO);
}

/// Teaches the controller a stream, whose packets it then answers with this many messages. Returns the number of
/// allocations when the stream is sent again.
fn count(peer: &mut Peer, stream: &[u8], messages: usize) -> usize {
    let is_answer = |(_, message): &(u32, Message)| matches!(message, Message::PacketOut(_) | Message::FlowMod(_));
    let is_known = (0..50).any(|_| {
        peer.seen.clear();
        peer.send_bytes(stream);
        peer.pump(SHORT, |_, _| false);
        peer.seen.len() == messages && peer.seen.iter().all(is_answer)
    });
    assert!(is_known, "the last time it said {} messages: {:?}", peer.seen.len(), peer.seen.last());
    let mut answers = Vec::new();
    peer.send_bytes(stream);
    while Frames::new(&answers).filter(Result::is_ok).count() < messages {
        let mut chunk = [0; 65536];
        let read = peer.stream.read(&mut chunk).expect("there is more");
        answers.extend_from_slice(&chunk[..read]);
    }
    assert!(MEMORY.stats().allocations > 0, "it counts");
    let region = Region::new(MEMORY);
    for _ in 0..ROUNDS {
        peer.stream.write_all(stream).expect("the controller reads");
        peer.stream.read_exact(&mut answers).expect("the controller answers");
    }
    let stats = region.change();
    stats.allocations + stats.reallocations
}

/// Makes a packet-in from each host to one at the other port.
fn packets(version: Version) -> Vec<u8> {
    let mut stream = Vec::new();
    for (port, host) in (0..HOSTS).flat_map(|host| [(1, host), (2, host)]) {
        let address = |port: u32| ([2, 0, 0, 0, port as u8, host], [10, 0, port as u8, host]);
        let ((src, from), (dst, to)) = (address(port), address(3 - port));
        let frame = Frame::ethernet(dst, src).ipv4(from, to).udp(1, 2).build();
        packet_in(port, frame).encode(version, 1, &mut stream).expect("a packet-in");
    }
    stream
}
