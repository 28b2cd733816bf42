//! Tests two shards with their mailboxes, the registry, and a switch that migrates, under schedules that `shuttle`
//! chooses. Each packet is answered once and in order, a shard with messages is awake, and a switch has one connection.
//!
//! Shards, sockets and polls are those of the product. Mailboxes hold one batch, so that they are sometimes full. The
//! environment variable `MAPLE_SCHEDULES` sets the number of schedules that each test tries, for longer runs.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, bounded};
use maple_core::engine::ShardId;
use maple_wire::Dpid;
use mio::{Poll, Waker};
use shuttle::scheduler::RandomScheduler;

use super::super::mailbox::{Mailbox, Outgoing, ShardMessage, ShardQuery};
use super::super::registry::Registry;
use super::super::sync::{self, Fault};
use super::super::testing::{Client, Setting, numbering, packet, shard};
use super::super::{Shard, WAKER};
use crate::notice::{Notice, Notices};
use crate::time::Clock;

/// The number of packets that the switch sends. Chosen: two for each migration, and the schedules of more take too long
/// to explore.
const PACKETS: u32 = 6;
/// The number of times that the switch is migrated. Chosen: there, back, and there again.
const MIGRATIONS: u64 = 3;
/// The number of steps that a schedule exceeds only if a thread never wakes. Chosen: far more than a schedule of these
/// packets takes.
const STEPS: usize = 50_000;
/// The switch of these tests.
const SWITCH: Dpid = Dpid(7);

/// Two shards that run, and the state that they share.
struct ScheduledShards {
    mailboxes: Vec<Mailbox>,
    registry: Arc<Registry>,
    address: SocketAddr,
    downs: Arc<AtomicU64>,
    threads: Vec<shuttle::thread::JoinHandle<()>>,
    _notices: Receiver<Notice>,
}

impl ScheduledShards {
    fn start() -> ScheduledShards {
        let polls: Vec<Poll> = (0..2).map(|_| Poll::new().expect("a poll")).collect();
        let wakers = polls.iter().map(|poll| Arc::new(Waker::new(poll.registry(), WAKER).expect("a waker")));
        let (mailboxes, inboxes): (Vec<_>, Vec<_>) = wakers.map(|waker| Mailbox::with_capacity(waker, 1)).unzip();
        let listener = mio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let (registry, downs) = (Arc::new(Registry::new(2)), Arc::new(AtomicU64::new(0)));
        let (notices, reader) = Notices::new(Arc::default());
        let (clock, mut listeners) = (Clock::start(), vec![listener]);
        let threads = polls.into_iter().zip(inboxes).enumerate().map(|(id, (poll, inbox))| {
            let (id, listeners) = (ShardId(id as u8), std::mem::take(&mut listeners));
            let outgoing = Outgoing::new(id, mailboxes.clone());
            let (registry, notices, clock) = (Arc::clone(&registry), notices.clone(), clock.clone());
            let setting = Setting { id, poll, clock, listeners, registry, inbox, outgoing, notices };
            let parts = setting.parts(numbering(&downs));
            shuttle::thread::spawn(move || {
                shard(parts).and_then(Shard::run).expect("the shard runs");
            })
        });
        let threads = threads.collect();
        ScheduledShards { mailboxes, registry, address, downs, threads, _notices: reader }
    }

    /// Sends a shard a message as soon as there is room.
    fn send(mailboxes: &[Mailbox], shard: u8, mut message: ShardMessage) {
        while let Err(back) = mailboxes[usize::from(shard)].offer(message) {
            message = *back;
            sync::step();
        }
    }

    /// Stops the shards and waits for them. Returns how many switches went down.
    fn stop(self) -> u64 {
        for shard in 0..2 {
            ScheduledShards::send(&self.mailboxes, shard, ShardMessage::Stop);
        }
        self.threads.into_iter().for_each(|thread| thread.join().expect("a shard ends well"));
        assert_eq!(self.registry.connections(), 0);
        assert_eq!(self.registry.shard_of(SWITCH), None);
        self.downs.load(Ordering::Relaxed)
    }
}

/// Sends packets in pieces. Each is answered once and in order, by a handler that has counted all before it.
fn converse(client: &mut Client, answered: &AtomicU64) {
    let mut received = 0u32;
    for n in 1..=PACKETS {
        let bytes = packet(n);
        let (front, back) = bytes.split_at(n as usize * 13 % bytes.len());
        client.write(front);
        client.write(back);
        // Two packets are in flight at a time.
        if n % 2 == 0 {
            for _ in 0..2 {
                received += 1;
                assert_eq!(client.answer(), (received, received.to_be_bytes().to_vec()));
            }
            answered.fetch_add(2, Ordering::Relaxed);
        }
    }
}

/// Migrates the switch each time that two more of its packets are answered.
fn migrate_repeatedly(mailboxes: &[Mailbox], registry: &Registry, answered: &AtomicU64) {
    for n in 0..MIGRATIONS {
        while answered.load(Ordering::Relaxed) < 2 * n {
            sync::step();
        }
        let Some(at) = registry.shard_of(SWITCH) else { continue };
        ScheduledShards::send(mailboxes, at.0, ShardMessage::MigrateSwitch(SWITCH, ShardId(1 - at.0)));
    }
}

/// Queries both shards until one serves the switch.
fn find(mailboxes: &[Mailbox]) -> u8 {
    loop {
        for shard in 0..2 {
            let (to, from) = bounded(1);
            ScheduledShards::send(mailboxes, shard, ShardMessage::Query(ShardQuery::Switches(to)));
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

/// Runs `test` under many schedules.
fn under_schedules(schedules: usize, fault: Option<Fault>, test: impl Fn() + Send + Sync + 'static) {
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

fn packets_during_migration() {
    let world = ScheduledShards::start();
    let mut client = Client::connect(world.address, SWITCH);
    let (mailboxes, registry, answered) =
        (world.mailboxes.clone(), Arc::clone(&world.registry), Arc::new(AtomicU64::new(0)));
    let counter = Arc::clone(&answered);
    let migrator = shuttle::thread::spawn(move || migrate_repeatedly(&mailboxes, &registry, &counter));
    converse(&mut client, &answered);
    migrator.join().expect("all messages are sent");
    let shard = find(&world.mailboxes);
    assert_eq!(world.registry.shard_of(SWITCH), Some(ShardId(shard)), "the registry knows where it is");
    assert_eq!(world.stop(), 1, "the handler got one end");
}

fn second_connection_during_migration() {
    let world = ScheduledShards::start();
    let (mut client, address) = (Client::connect(world.address, SWITCH), world.address);
    find_and_answer(&mut client, &world.mailboxes);
    let (mailboxes, registry, answered) =
        (world.mailboxes.clone(), Arc::clone(&world.registry), Arc::new(AtomicU64::new(0)));
    let counter = Arc::clone(&answered);
    let migrator = shuttle::thread::spawn(move || migrate_repeatedly(&mailboxes, &registry, &counter));
    let impostor = shuttle::thread::spawn(move || {
        let mut client = Client::connect(address, SWITCH);
        while client.next().is_some() {}
    });
    let over = Arc::new(AtomicU64::new(0));
    let ended = Arc::clone(&over);
    let waiter = shuttle::thread::spawn(move || {
        migrator.join().expect("all messages are sent");
        impostor.join().expect("it is refused");
        ended.store(1, Ordering::Relaxed);
    });
    // The first connection answers the echo request that checks it.
    let mut sent = 1;
    while over.load(Ordering::Relaxed) == 0 {
        sent += 1;
        client.write(&packet(sent));
        assert_eq!(client.answer(), (sent, sent.to_be_bytes().to_vec()));
        answered.fetch_add(1, Ordering::Relaxed);
    }
    waiter.join().expect("no thread sleeps for ever");
    find(&world.mailboxes);
    assert_eq!(world.stop(), 1);
}

/// Waits for the answer to one packet, so that the handshake is done.
fn find_and_answer(client: &mut Client, mailboxes: &[Mailbox]) {
    client.write(&packet(1));
    assert_eq!(client.answer(), (1, 1u32.to_be_bytes().to_vec()));
    find(mailboxes);
}

#[test]
fn a_migrating_switch_loses_nothing_under_any_schedule() {
    under_schedules(1500, None, packets_during_migration);
}

#[test]
fn a_migrating_switch_keeps_its_datapath_id_under_any_schedule() {
    under_schedules(700, None, second_connection_during_migration);
}

#[test]
fn the_schedules_find_a_shard_that_is_woken_too_early() {
    let found = std::panic::catch_unwind(|| {
        under_schedules(1500, Some(Fault::WakesFirst), packets_during_migration);
    });
    assert!(found.is_err());
}

#[test]
fn the_schedules_find_a_stale_registry() {
    let found = std::panic::catch_unwind(|| {
        under_schedules(1500, Some(Fault::KeepsOwner), packets_during_migration);
    });
    assert!(found.is_err());
}
