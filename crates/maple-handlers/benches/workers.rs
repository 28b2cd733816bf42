//! The gain from a second worker: the learning switch on one core, and on two at once, without sockets and without a
//! generator that would need cores of its own. `cargo bench -p maple-handlers --bench workers [-- CORE CORE …]`.
//!
//! Each worker does what a shard does with the messages of one read after the other, of eight switches in turn with
//! 100,000 addresses each: it cuts 64 KiB into frames, checks them, hands them over in batches and has answers
//! appended. Only the system calls are missing, which share nothing but the kernel. Rounds alternate between one worker
//! and all; printed are medians. The cores must have nothing else to do.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use maple_handlers::{BATCH, Handler, LearningSwitch, Replies};
use maple_wire::msg::{Frames, PacketIn, PacketInView};
use maple_wire::packet::build::Frame;
use maple_wire::{Message, Version};

/// Bytes of one read.
const READ: usize = 64 * 1024;
/// Bytes that the answers to one read take, about.
const ANSWERS: usize = 80 * 1024;
/// Switches of a worker.
const SWITCHES: usize = 8;
/// Addresses of a switch.
const ADDRESSES: u32 = 100_000;
/// The time that one round measures.
const ROUND: Duration = Duration::from_millis(1500);
/// The number of rounds.
const ROUNDS: usize = 5;
/// The position of the source address in a packet-in of OpenFlow 1.0 (§5.4.1), in bytes.
const SOURCE: usize = 18 + 6;

/// The messages that one read of a switch brings, each time from the next addresses.
struct Source {
    bytes: Vec<u8>,
    length: usize,
    next: u32,
}

impl Source {
    fn new() -> Source {
        let mut message = Vec::new();
        let data = Frame::ethernet([6, 0, 0, 0, 0, 1], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2).build();
        let packet_in = PacketIn { buffer_id: 1, ..PacketIn::new(1, data) };
        Message::PacketIn(packet_in).encode(Version::Of10, 1, &mut message).expect("a packet-in");
        let length = message.len();
        Source { bytes: message.repeat(READ / length), length, next: 0 }
    }

    fn read(&mut self) -> &[u8] {
        for message in self.bytes.chunks_exact_mut(self.length) {
            self.next = (self.next + 1) % ADDRESSES;
            message[SOURCE + 2..SOURCE + 6].copy_from_slice(&self.next.to_be_bytes());
        }
        &self.bytes
    }
}

/// One switch with its handler.
struct ServedSwitch {
    handler: LearningSwitch,
    source: Source,
}

impl ServedSwitch {
    /// Creates a switch whose addresses are all learned, and so is that of their destination.
    fn new() -> ServedSwitch {
        let mut switch = ServedSwitch { handler: LearningSwitch::new(), source: Source::new() };
        let mut teaching = Source::new();
        for message in teaching.bytes.chunks_exact_mut(teaching.length) {
            message[SOURCE..SOURCE + 6].copy_from_slice(&[6, 0, 0, 0, 0, 1]);
        }
        serve(&mut switch.handler, &teaching.bytes);
        let reads = ADDRESSES as usize * switch.source.length / READ + 1;
        (0..reads).for_each(|_| {
            switch.turn();
        });
        switch
    }

    /// Serves one read; how many messages it had.
    fn turn(&mut self) -> u64 {
        let ServedSwitch { handler, source } = self;
        serve(handler, source.read())
    }
}

/// Answers what one read brought; how many messages that were.
fn serve(handler: &mut LearningSwitch, bytes: &[u8]) -> u64 {
    let mut out = Replies::new(Version::Of10);
    out.reserve(ANSWERS);
    let (mut batch, mut messages) = (Vec::with_capacity(BATCH), 0);
    for (_, message) in Frames::new(bytes).map_while(Result::ok) {
        batch.extend(PacketInView::new_checked(Version::Of10, message));
        if batch.len() == BATCH {
            handler.packet_ins(&batch, &mut out);
            messages += BATCH as u64;
            batch.clear();
        }
    }
    handler.packet_ins(&batch, &mut out);
    assert!(!std::hint::black_box(out.bytes()).is_empty(), "there are answers");
    messages + batch.len() as u64
}

/// Returns the messages a second of these workers together, each on its core.
fn measure(cores: &[CoreId], switches: &mut [Vec<ServedSwitch>]) -> f64 {
    let (start, stop) = (Barrier::new(cores.len() + 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let workers: Vec<_> = cores
            .iter()
            .zip(switches)
            .map(|(core, switches)| {
                scope.spawn(|| {
                    assert!(core_affinity::set_for_current(*core), "this process may use core {}", core.id);
                    start.wait();
                    let mut messages = 0;
                    while !stop.load(Ordering::Relaxed) {
                        messages += switches.iter_mut().map(ServedSwitch::turn).sum::<u64>();
                    }
                    messages
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        std::thread::sleep(ROUND);
        stop.store(true, Ordering::Relaxed);
        let messages: u64 = workers.into_iter().map(|worker| worker.join().expect("a worker ends well")).sum();
        messages as f64 / began.elapsed().as_secs_f64()
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    if !std::env::args().any(|word| word == "--bench") {
        return println!("this measures under `cargo bench` only");
    }
    let named: Vec<CoreId> = std::env::args().filter_map(|word| word.parse().ok()).map(|id| CoreId { id }).collect();
    let cores = if named.is_empty() { core_affinity::get_core_ids().unwrap_or_default() } else { named };
    let mut switches: Vec<Vec<ServedSwitch>> =
        cores.iter().map(|_| (0..SWITCHES).map(|_| ServedSwitch::new()).collect()).collect();
    let mut rates = vec![Vec::new(); cores.len()];
    for _ in 0..ROUNDS {
        for workers in 1..=cores.len() {
            rates[workers - 1].push(measure(&cores[..workers], &mut switches[..workers]));
        }
    }
    let rates: Vec<f64> = rates.into_iter().map(median).collect();
    for (workers, rate) in (1..).zip(&rates) {
        println!("{workers} workers: {:.2} M messages/s, {:.2} times one", rate / 1e6, rate / rates[0]);
    }
}
