//! Tests how long a switch that floods can delay another one, in turns and bytes of its shard.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use maple_core::engine::ShardId;
use maple_wire::{Dpid, Message};
use mio::{Events, Poll, Waker};

use super::super::mailbox::{Mailbox, Outgoing};
use super::super::registry::Registry;
use super::super::testing::{Client, Setting, numbering, packet, shard};
use super::super::{Shard, WAKER};
use crate::framing::READ_SHARE;
use crate::notice::Notices;
use crate::time::Clock;

/// A shard that runs one turn at a time and never blocks.
struct Stepped {
    shard: Shard,
    waker: Arc<Waker>,
    ready: Events,
}

impl Stepped {
    fn turn(&mut self) {
        self.waker.wake().expect("the poll is there");
        self.shard.turn(&mut self.ready).expect("it runs");
    }

    /// Takes turns until the switch has a packet-out, and returns their number.
    fn turns_until_answered(&mut self, client: &mut Client) -> u32 {
        for turns in 1..1000 {
            self.turn();
            while let Ok(Some((_, message))) = client.try_next() {
                if matches!(message, Message::PacketOut(_)) {
                    return turns;
                }
            }
        }
        panic!("no answer");
    }
}

#[test]
fn a_switch_that_floods_delays_another_by_one_read_of_its_own() {
    let poll = Poll::new().expect("a poll");
    let waker = Arc::new(Waker::new(poll.registry(), WAKER).expect("a waker"));
    let (mailbox, inbox) = Mailbox::new(Arc::clone(&waker));
    let listener = mio::net::TcpListener::bind(([127, 0, 0, 1], 0).into()).expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    let (outgoing, (notices, _reader)) = (Outgoing::new(ShardId(0), vec![mailbox]), Notices::new(Arc::default()));
    let (registry, clock, listeners) = (Arc::new(Registry::new(1)), Clock::start(), vec![listener]);
    let setting = Setting { id: ShardId(0), poll, clock, listeners, registry, inbox, outgoing, notices };
    let parts = setting.parts(numbering(&Arc::new(AtomicU64::new(0))));
    let mut stepped = Stepped { shard: shard(parts).expect("a shard"), waker, ready: Events::with_capacity(64) };
    let (mut flooding, mut quiet) = (Client::connect(address, Dpid(1)), Client::connect(address, Dpid(2)));
    for client in [&mut flooding, &mut quiet] {
        client.write(&packet(1));
        stepped.turns_until_answered(client);
    }

    let flood: Vec<u8> = (0..10_000).flat_map(packet).collect();
    let mut offset = 0;
    for n in 2..40 {
        // Each round writes as much as the sockets hold, whole messages or not. Reading the answers keeps the flood
        // from being paused.
        while let Ok(written) = flooding.stream.write(&flood[offset..]) {
            offset = (offset + written) % flood.len();
        }
        while let Ok(Some(_)) = flooding.try_next() {}
        quiet.write(&packet(n));
        let before = stepped.shard.counters().of_bytes_in;
        let turns = stepped.turns_until_answered(&mut quiet);
        let read = stepped.shard.counters().of_bytes_in - before;
        assert!(turns <= 2, "packet {n} waited for {turns} turns");
        assert!(read <= 2 * (READ_SHARE + packet(n).len()) as u64, "while {read} bytes were read");
    }
    assert!(stepped.shard.counters().of_bytes_in > 20 * READ_SHARE as u64, "it did flood");
}
