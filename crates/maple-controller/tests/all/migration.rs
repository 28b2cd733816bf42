//! Switches that move from a shard that is always busy to one that is not, over real sockets. Nothing is lost, sent
//! twice or out of order, and the handler's state and timers move with its switch.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{LONG, Maple, Peer, eventually, packet_in};
use maple_controller::session::SwitchInfo;
use maple_handlers::{Handler, Handlers, Replies};
use maple_wire::msg::{NO_BUFFER, PacketInView, PacketOut};
use maple_wire::{Dpid, Message, PortNo, Version};

/// The number of packets that are sent at a time.
const WINDOW: u32 = 32;
/// The time for which a packet keeps the handler busy.
const WORK: Duration = Duration::from_micros(300);
/// The time between two calls of the handler's timer.
const TICK: Duration = Duration::from_millis(3);
/// The time after which shards compare how busy they were.
const PERIOD: Duration = Duration::from_millis(100);

/// A handler that numbers its answers, and all the while asks for barriers by a timer.
struct Diary {
    answered: u32,
    asked: BTreeSet<u32>,
    ticks: Arc<AtomicU64>,
    downs: Arc<AtomicU64>,
}

impl Handler for Diary {
    fn switch_up(&mut self, _: &SwitchInfo, out: &mut Replies) {
        out.wake_after(TICK);
    }

    fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies) {
        std::thread::sleep(WORK);
        self.answered += 1;
        let data = self.answered.to_be_bytes().to_vec();
        let answer = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo(1), actions: vec![], data };
        out.answer(packet.xid(), &Message::PacketOut(answer));
    }

    fn timer(&mut self, out: &mut Replies) {
        assert!(self.asked.insert(out.request(&Message::BarrierRequest)), "no transaction id is used twice");
        out.wake_after(TICK);
    }

    fn reply(&mut self, xid: u32, _: &Message, _: &mut Replies) {
        assert!(self.asked.contains(&xid), "it asked for this");
        self.ticks.fetch_add(1, Ordering::Relaxed);
    }

    fn switch_down(&mut self) {
        self.downs.fetch_add(1, Ordering::Relaxed);
    }
}

/// Two shards with two switches each. The switches of the first shard come first.
struct Shards {
    maple: Maple,
    peers: Vec<Peer>,
    /// The number of packets that each has sent.
    sent: [u32; 4],
    ticks: Arc<AtomicU64>,
    downs: Arc<AtomicU64>,
}

impl Shards {
    fn start(period: Duration, version: Version) -> Shards {
        let (ticks, downs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counts = (Arc::clone(&ticks), Arc::clone(&downs));
        let diary = move |_: &SwitchInfo| {
            let (ticks, downs) = (Arc::clone(&counts.0), Arc::clone(&counts.1));
            Diary { answered: 0, asked: BTreeSet::new(), ticks, downs }
        };
        let maple = Maple::with(|options| {
            options.programs = Some(Arc::new(Handlers::new(diary)));
            options.workers.count = 2;
            options.workers.balance_period = period;
        });
        let mut peers: Vec<Peer> = (1..=4).map(|dpid| Peer::begin(maple.address, version, dpid)).collect();
        peers.iter_mut().for_each(Peer::finish);
        let mut shards = Shards { maple, peers, sent: [0; 4], ticks, downs };
        eventually("all are up", || shards.maple.connected().len() == 4);
        let mut peers = std::mem::take(&mut shards.peers);
        peers.sort_by_key(|peer| shards.shard(peer.dpid));
        shards.peers = peers;
        assert_ne!(shards.shard(shards.peers[1].dpid), shards.shard(shards.peers[2].dpid), "each has two");
        shards
    }

    /// Returns the number of the shard that has this switch.
    fn shard(&self, dpid: Dpid) -> Option<u8> {
        self.maple.connected().iter().find(|switch| switch.dpid == dpid).map(|switch| switch.shard.0)
    }

    /// Keeps these switches busy until `done` returns. Returns the number of packets that all have sent since the
    /// start.
    fn busy(&mut self, which: &[usize], done: impl FnOnce(&Maple)) -> u64 {
        let stop = AtomicBool::new(false);
        let maple = &self.maple;
        std::thread::scope(|scope| {
            let all = self.peers.iter_mut().zip(&mut self.sent).enumerate();
            let chosen = all.filter(|(peer, _)| which.contains(peer));
            let threads: Vec<_> =
                chosen.map(|(_, (peer, sent))| scope.spawn(|| keep_busy(peer, sent, &stop))).collect();
            let stopping = SetWhenDropped(&stop);
            done(maple);
            drop(stopping);
            threads.into_iter().for_each(|thread| thread.join().expect("all is answered"));
        });
        self.sent.iter().map(|sent| u64::from(*sent)).sum()
    }
}

/// Sets this when it goes, also when a test fails: the threads would never end.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends numbered packets until `stop` is set. Checks that each is answered once and in order, by the handler that
/// answered the one before.
fn keep_busy(peer: &mut Peer, sent: &mut u32, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let numbers = *sent + 1..=*sent + WINDOW;
        numbers.clone().for_each(|n| send_in_two(peer, n));
        for n in numbers {
            assert!(peer.pump(LONG, |_, message| matches!(message, Message::PacketOut(_))), "packet {n} is answered");
            let Some((xid, Message::PacketOut(answer))) = peer.seen.pop() else { panic!("it is the last") };
            assert_eq!((xid, answer.data), (n, n.to_be_bytes().to_vec()));
        }
        peer.seen.clear();
        *sent += WINDOW;
    }
}

/// Sends a packet in two pieces, so that a move sometimes finds half a message.
fn send_in_two(peer: &mut Peer, n: u32) {
    let bytes = packet_in(1, vec![0; 60]).to_bytes(peer.version, n).expect("it can be said");
    let (front, back) = bytes.split_at(n as usize % bytes.len());
    peer.send_bytes(front);
    peer.send_bytes(back);
}

#[test]
fn a_switch_moves_from_a_busy_shard_to_an_idle_one_and_loses_nothing() {
    for version in [Version::Of10, Version::Of13] {
        let mut shards = Shards::start(PERIOD, version);
        let ticked = Arc::clone(&shards.ticks);
        let sent = shards.busy(&[0, 1], |maple| {
            maple.wait_for("of_migrated", 1);
            eventually("it has arrived", || maple.connected().len() == 4);
            let (ticks, packets) = (ticked.load(Ordering::Relaxed), maple.count("of_packet_ins"));
            eventually("timers go on", || ticked.load(Ordering::Relaxed) > ticks);
            // It is used for a while at its new shard.
            maple.wait_for("of_packet_ins", packets + 20 * u64::from(WINDOW));
        });
        assert_ne!(shards.shard(shards.peers[0].dpid), shards.shard(shards.peers[1].dpid));
        assert_eq!((shards.maple.count("of_packet_ins"), shards.maple.count("of_migrated")), (sent, 1));
        assert_eq!(shards.downs.load(Ordering::Relaxed), 0);
        shards.peers.drain(..2);
        eventually("two are gone", || shards.maple.connected().len() == 2);
        assert_eq!(shards.downs.load(Ordering::Relaxed), 2, "and their handlers heard it once");
        let took = shards.maple.count("of_migration_nanoseconds");
        println!("moving a switch took {took} ns from its last turn at one shard to its first at the other");
    }
}

#[test]
fn no_switch_moves_while_both_shards_are_equally_busy() {
    let mut shards = Shards::start(PERIOD * 2, Version::Of10);
    shards.busy(&[0, 1, 2, 3], |_| std::thread::sleep(PERIOD * 25));
    assert_eq!(shards.maple.count("of_migrated"), 0);
}

#[test]
fn a_switch_that_moved_stays_for_a_while_even_if_it_would_go_back() {
    let mut shards = Shards::start(PERIOD, Version::Of10);
    let second = shards.shard(shards.peers[2].dpid);
    let at_second = |shards: &Shards| -> Vec<usize> {
        (0..4).filter(|peer| shards.shard(shards.peers[*peer].dpid) == second).collect()
    };
    shards.busy(&[0, 1], |maple| maple.wait_for("of_migrated", 1));
    eventually("it has arrived", || at_second(&shards).len() == 3);
    let moved = at_second(&shards)[0];
    // Now the other shard is busy. Of its three switches one moves, but not the one that has just moved.
    let busy = at_second(&shards);
    shards.busy(&busy, |maple| maple.wait_for("of_migrated", 2));
    eventually("it has arrived", || shards.maple.connected().len() == 4);
    assert_eq!(shards.shard(shards.peers[moved].dpid), second);
}
