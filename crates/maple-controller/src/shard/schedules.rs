//! Two shards, with their mailboxes, the registry and switches that move between them, in orders of steps that `shuttle`
//! chooses: each packet is answered once and in its turn, a shard with mail is awake, and a switch has one connection.
//!
//! Shards, sockets and polls are the real ones. Mailboxes have room for one piece, so that they are full now and then.
//! `MAPLE_SCHEDULES` is how many orders each test tries, for runs that take longer.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, bounded};
use maple_core::engine::ShardId;
use maple_wire::Dpid;
use mio::{Poll, Waker};
use shuttle::scheduler::RandomScheduler;

use super::post::{Letter, Mailbox, Post, Question};
use super::registry::Registry;
use super::sync::{self, Fault};
use super::testing::{Client, Setting, numbering, packet, shard};
use super::{Shard, WAKER};
use crate::notice::{Notice, Notices};
use crate::time::Clock;

/// Packets that the switch sends.
const PACKETS: u32 = 6;
/// How many times it is told to move.
const MOVES: u64 = 3;
/// More steps than any order takes in which nobody sleeps for ever.
const STEPS: usize = 50_000;
/// The switch of these tests.
const SWITCH: Dpid = Dpid(7);

/// Two shards that run, and what they share.
struct World {
    boxes: Vec<Mailbox>,
    registry: Arc<Registry>,
    address: SocketAddr,
    downs: Arc<AtomicU64>,
    threads: Vec<shuttle::thread::JoinHandle<()>>,
    _notices: Receiver<Notice>,
}

impl World {
    fn start() -> World {
        let polls: Vec<Poll> = (0..2).map(|_| Poll::new().expect("a poll")).collect();
        let wakers = polls.iter().map(|poll| Arc::new(Waker::new(poll.registry(), WAKER).expect("a waker")));
        let (boxes, inboxes): (Vec<_>, Vec<_>) = wakers.map(|waker| Mailbox::with_room(waker, 1)).unzip();
        let listener = mio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let (registry, downs) = (Arc::new(Registry::new(2)), Arc::new(AtomicU64::new(0)));
        let (notices, reader) = Notices::new();
        let (clock, mut listeners) = (Clock::start(), vec![listener]);
        let threads = polls.into_iter().zip(inboxes).enumerate().map(|(id, (poll, inbox))| {
            let (id, listeners) = (ShardId(id as u8), std::mem::take(&mut listeners));
            let post = Post::new(id, boxes.clone());
            let (registry, notices, clock) = (Arc::clone(&registry), notices.clone(), clock.clone());
            let setting = Setting { id, poll, clock, listeners, registry, inbox, post, notices };
            let parts = setting.parts(numbering(&downs));
            shuttle::thread::spawn(move || {
                shard(parts).and_then(Shard::run).expect("the shard runs");
            })
        });
        let threads = threads.collect();
        World { boxes, registry, address, downs, threads, _notices: reader }
    }

    /// Sends a shard a letter, once there is room.
    fn post(boxes: &[Mailbox], shard: u8, mut letter: Letter) {
        while let Err(back) = boxes[usize::from(shard)].offer(letter) {
            letter = *back;
            sync::step();
        }
    }

    /// Stops the shards, and waits for them.
    fn stop(self) -> u64 {
        for shard in 0..2 {
            World::post(&self.boxes, shard, Letter::Stop);
        }
        self.threads.into_iter().for_each(|thread| thread.join().expect("a shard ends well"));
        assert_eq!(self.registry.connections(), 0);
        assert_eq!(self.registry.shard_of(SWITCH), None);
        self.downs.load(Ordering::Relaxed)
    }
}

/// A switch sends packets in pieces, and hears each answered once, in turn, by one that has counted all before it.
fn converse(client: &mut Client, answered: &AtomicU64) {
    let mut heard = 0u32;
    for n in 1..=PACKETS {
        let bytes = packet(n);
        let (front, back) = bytes.split_at(n as usize * 13 % bytes.len());
        client.write(front);
        client.write(back);
        // Two are under way at a time.
        if n % 2 == 0 {
            for _ in 0..2 {
                heard += 1;
                assert_eq!(client.answer(), (heard, heard.to_be_bytes().to_vec()));
            }
            answered.fetch_add(2, Ordering::Relaxed);
        }
    }
}

/// Tells the shard that has the switch to give it away, each time that two more of its packets were answered.
fn shove(boxes: &[Mailbox], registry: &Registry, answered: &AtomicU64) {
    for n in 0..MOVES {
        while answered.load(Ordering::Relaxed) < 2 * n {
            sync::step();
        }
        let Some(at) = registry.shard_of(SWITCH) else { continue };
        World::post(boxes, at.0, Letter::Part(SWITCH, ShardId(1 - at.0)));
    }
}

/// Asks both shards for their switches until one has the one.
fn find(boxes: &[Mailbox]) -> u8 {
    loop {
        for shard in 0..2 {
            let (to, from) = bounded(1);
            World::post(boxes, shard, Letter::Ask(Question::Switches(to)));
            let switches = loop {
                sync::step();
                if let Ok(switches) = from.try_recv() {
                    break switches;
                }
            };
            if switches.iter().any(|switch| switch.dpid == SWITCH) {
                return shard;
            }
        }
    }
}

/// Runs `test` in many orders of its threads' steps.
fn in_orders(schedules: usize, fault: Option<Fault>, test: impl Fn() + Send + Sync + 'static) {
    let schedules = match std::env::var("MAPLE_SCHEDULES") {
        Ok(number) => number.parse().expect("MAPLE_SCHEDULES is a number"),
        Err(_) => schedules,
    };
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS);
    config.failure_persistence = shuttle::FailurePersistence::None;
    sync::simulate(Some(shuttle::thread::yield_now), fault);
    let run = || shuttle::Runner::new(RandomScheduler::new(schedules), config).run(test);
    let result = std::panic::catch_unwind(AssertUnwindSafe(run));
    sync::simulate(None, None);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

fn a_switch_that_talks_while_it_is_moved() {
    let world = World::start();
    let mut client = Client::connect(world.address, SWITCH);
    let (boxes, registry, answered) = (world.boxes.clone(), Arc::clone(&world.registry), Arc::new(AtomicU64::new(0)));
    let told = Arc::clone(&answered);
    let mover = shuttle::thread::spawn(move || shove(&boxes, &registry, &told));
    converse(&mut client, &answered);
    mover.join().expect("letters fit in the end");
    let shard = find(&world.boxes);
    assert_eq!(world.registry.shard_of(SWITCH), Some(ShardId(shard)), "the registry knows where it is");
    assert_eq!(world.stop(), 1, "the handler heard once that it is over");
}

fn a_second_connection_that_claims_a_switch_while_it_is_moved() {
    let world = World::start();
    let (mut client, address) = (Client::connect(world.address, SWITCH), world.address);
    find_and_answer(&mut client, &world.boxes);
    let (boxes, registry, answered) = (world.boxes.clone(), Arc::clone(&world.registry), Arc::new(AtomicU64::new(0)));
    let told = Arc::clone(&answered);
    let mover = shuttle::thread::spawn(move || shove(&boxes, &registry, &told));
    let impostor = shuttle::thread::spawn(move || {
        let mut client = Client::connect(address, SWITCH);
        while client.next().is_some() {}
    });
    let over = Arc::new(AtomicU64::new(0));
    let ended = Arc::clone(&over);
    let waiter = shuttle::thread::spawn(move || {
        mover.join().expect("letters fit in the end");
        impostor.join().expect("it is refused");
        ended.store(1, Ordering::Relaxed);
    });
    // It answers the echo that asks whether it is alive.
    let mut sent = 1;
    while over.load(Ordering::Relaxed) == 0 {
        sent += 1;
        client.write(&packet(sent));
        assert_eq!(client.answer(), (sent, sent.to_be_bytes().to_vec()));
        answered.fetch_add(1, Ordering::Relaxed);
    }
    waiter.join().expect("nobody sleeps for ever");
    find(&world.boxes);
    assert_eq!(world.stop(), 1);
}

/// Gets one packet answered, by when the switch is up.
fn find_and_answer(client: &mut Client, boxes: &[Mailbox]) {
    client.write(&packet(1));
    assert_eq!(client.answer(), (1, 1u32.to_be_bytes().to_vec()));
    find(boxes);
}

#[test]
fn a_switch_that_moves_loses_nothing_in_any_order() {
    in_orders(1500, None, a_switch_that_talks_while_it_is_moved);
}

#[test]
fn a_switch_that_moves_keeps_its_name_against_another_in_any_order() {
    in_orders(700, None, a_second_connection_that_claims_a_switch_while_it_is_moved);
}

#[test]
fn the_schedules_find_a_shard_that_is_woken_before_its_letters_are_there() {
    let found = std::panic::catch_unwind(|| {
        in_orders(1500, Some(Fault::WakesFirst), a_switch_that_talks_while_it_is_moved);
    });
    assert!(found.is_err());
}

#[test]
fn the_schedules_find_a_switch_that_is_not_known_where_it_has_moved_to() {
    let found = std::panic::catch_unwind(|| {
        in_orders(1500, Some(Fault::KeepsName), a_switch_that_talks_while_it_is_moved);
    });
    assert!(found.is_err());
}
