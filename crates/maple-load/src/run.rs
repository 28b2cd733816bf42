//! The generator's loop: handshakes, teaching, warm-up, measuring.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use maple_emulator::Random;
use mio::{Events, Interest, Poll, Token};

use crate::cpu::{Cpu, Process};
use crate::error::LoadError;
use crate::histogram::Histogram;
use crate::options::{FLOOD, LoadOptions, Mode};
use crate::report::{Measured, Report};
use crate::schedule::Schedule;
use crate::switch::{LoadSwitch, Tally};
use crate::tls::TlsFiles;
use crate::workload::Workload;

/// The maximum time for all handshakes together: far more than thousands of them take, so that only a fault exceeds it.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause between teaching and the first packet-in, in which the controller handles what taught it.
/// Chosen: a controller handles the last few packet-ins in much less time, and a measurement is hardly longer.
const LEARNING: Duration = Duration::from_millis(300);
/// The size of the buffer into which all sockets are read, in bytes. It must be at least 65,535, the length of the
/// longest OpenFlow message.
const BUFFER: usize = 1 << 20;
/// The maximum number of packet-ins that one switch sends in one write. Chosen: some hundred kilobytes, which a socket
/// takes at once; the other switches have their turn after that.
const VOLLEY: u32 = 4096;
/// The number of packet-ins that each switch of a network keeps open while the controller learns the hosts, before it
/// is offered a rate. Chosen: it keeps a controller busy, and floods none.
const ACQUAINTANCE: u32 = 8;
/// The size from which windows are filled up by quarters, so that writes stay large.
const LARGE_WINDOW: u32 = 8;
/// The maximum number of sockets that are read before due packet-ins are sent, and that are written to before answers
/// are read. Chosen: neither waits long for the other.
const STRIDE: usize = 32;
/// The seed of the random numbers, fixed so that runs can be compared.
const SEED: u64 = 0x6d61_706c_6500_0001;
/// The maximum time that the poll waits, and so the delay after which a deadline is noticed. Chosen: a small part of
/// any duration that is measured, and a wait that rarely ends without an event.
const NAP: Duration = Duration::from_millis(10);

/// Makes the load and reports the result.
///
/// # Errors
/// [`LoadError`] if an option is invalid, or if the controller cannot be reached, closes a connection, breaks the
/// protocol, or leaves handshakes undone.
pub fn run(options: &LoadOptions) -> Result<Report, LoadError> {
    options.check()?;
    let began = Instant::now();
    let mut load = Load::connect(options)?;
    load.until_known(began)?;
    for _ in 0..options.reconnects {
        load.pause(options.settle)?;
        load.reconnect()?;
    }
    load.pause(options.settle)?;
    for switch in &mut load.switches {
        switch.teach()?;
    }
    load.pause(LEARNING)?;
    load.warm_up()?;
    load.measure()
}

struct Load<'a> {
    options: &'a LoadOptions,
    switches: Vec<LoadSwitch>,
    reading: Reading,
    clock: Instant,
    /// The time until each switch was asked for its features, for each time that all connected.
    connected: Vec<Duration>,
    /// The number of packet-ins that each switch keeps open, except those that flood; `None` if they are sent when due.
    window: Option<u32>,
    /// The due times of packet-ins in rate mode.
    schedule: Schedule,
    /// Switches with packet-ins that are staged but not written.
    staged: Vec<usize>,
    /// The switch that sends next in rate mode.
    turn: usize,
    /// The random numbers, which are the same in every run.
    random: Random,
    /// The cumulative numbers of requests at the switches, if hosts send them.
    requests: Vec<u64>,
    /// The other end of each link: switch and port.
    links: HashMap<(usize, u32), (usize, u32)>,
    scratch: Vec<u8>,
    figures: Figures,
    /// Whether the flood has begun.
    is_flooding: bool,
}

/// The state of reading from the controller.
struct Reading {
    poll: Poll,
    /// The result of the last poll.
    events: Events,
    /// Switches with more to read.
    unread: Vec<usize>,
    buffer: Vec<u8>,
}

/// The figures that are measured.
#[derive(Default)]
struct Figures {
    latency: Histogram,
    /// The delays of packet-ins after their due times in rate mode.
    lateness: Histogram,
    /// Packet-ins that were due in rate mode and found the window full.
    held_back: u64,
}

impl<'a> Load<'a> {
    fn connect(options: &'a LoadOptions) -> Result<Load<'a>, LoadError> {
        let poll = Poll::new()?;
        let (Mode::Throughput { window } | Mode::Rate { window, .. }) = options.mode;
        let tls = options.tls.as_ref().map(TlsFiles::read).transpose()?;
        let all_packets = options.workload.switch_packets(options.version, options.switches, options.macs)?;
        let mut switches = Vec::with_capacity(all_packets.len());
        for (id, packets) in (1..).zip(all_packets) {
            let window = if options.floods(switches.len()) { FLOOD } else { window };
            let mut switch = LoadSwitch::connect(options.connect, tls.as_ref(), id, options.version, packets, window)?;
            register(&poll, &mut switch, switches.len())?;
            switches.push(switch);
        }
        let links = match &options.workload {
            Workload::Network(network) => network.links.iter().flat_map(|[a, b]| [(*a, *b), (*b, *a)]).collect(),
            Workload::Addresses | Workload::Frames(_) => HashMap::new(),
        };
        let sum = |sum: &mut u64, switch: &LoadSwitch| {
            *sum += switch.requests() as u64;
            Some(*sum)
        };
        Ok(Load {
            options,
            reading: Reading {
                poll,
                events: Events::with_capacity(STRIDE),
                unread: Vec::new(),
                buffer: vec![0; BUFFER],
            },
            random: Random::new(SEED),
            requests: switches.iter().scan(0, sum).collect(),
            links,
            switches,
            clock: Instant::now(),
            connected: Vec::new(),
            window: match options.mode {
                Mode::Throughput { window } => Some(window),
                Mode::Rate { .. } => None,
            },
            schedule: Schedule::new(0, 1.0, 1),
            staged: Vec::new(),
            turn: 0,
            scratch: Vec::new(),
            figures: Figures::default(),
            is_flooding: false,
        })
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Disconnects all switches, and connects them again.
    fn reconnect(&mut self) -> Result<(), LoadError> {
        let began = Instant::now();
        self.reading.unread.clear();
        for (i, switch) in self.switches.iter_mut().enumerate() {
            switch.reconnect(self.options.connect)?;
            register(&self.reading.poll, switch, i)?;
        }
        self.until_known(began)
    }

    /// Serves the controller until it has asked every switch for its features. The first of them began to connect at
    /// `began`.
    fn until_known(&mut self, began: Instant) -> Result<(), LoadError> {
        let deadline = began + HANDSHAKE_TIMEOUT;
        loop {
            let missing = self.switches.iter().filter(|switch| !switch.is_known).count();
            if missing == 0 {
                self.connected.push(began.elapsed());
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(LoadError::Handshake {
                    missing,
                    switches: self.switches.len() as u32,
                    within: HANDSHAKE_TIMEOUT,
                });
            }
            self.turn(NAP, false)?;
        }
    }

    /// Serves the controller for this long.
    fn pause(&mut self, time: Duration) -> Result<(), LoadError> {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            self.turn(NAP, false)?;
        }
        Ok(())
    }

    /// Sends before the measurement. For a network, a time with a window precedes the offered rate: a controller that
    /// must first find a route for each pair of hosts would otherwise start with a long queue.
    fn warm_up(&mut self) -> Result<(), LoadError> {
        if let Mode::Rate { per_second, burst, window } = self.options.mode {
            if let Workload::Network(_) = self.options.workload {
                self.window = Some(ACQUAINTANCE.min(window));
                self.send_for(self.options.warmup)?;
                self.window = None;
                self.pause(LEARNING)?;
            }
            self.schedule = Schedule::new(self.now(), per_second, burst);
        }
        self.send_for(self.options.warmup)
    }

    /// Sends packet-ins for this long.
    fn send_for(&mut self, time: Duration) -> Result<(), LoadError> {
        let deadline = Instant::now() + time;
        for i in 0..self.switches.len() {
            self.fill_up(i)?;
        }
        while Instant::now() < deadline {
            self.send_due()?;
            self.turn(self.nap(), true)?;
        }
        Ok(())
    }

    /// Measures the latency before the flood, and starts the flood, if some switches flood.
    fn before_the_flood(&mut self) -> Result<Option<Histogram>, LoadError> {
        if self.options.flooding == 0 {
            return Ok(None);
        }
        self.figures.latency = Histogram::default();
        self.send_for(self.options.duration)?;
        let calm = std::mem::take(&mut self.figures.latency);
        self.is_flooding = true;
        self.send_for(self.options.warmup)?;
        Ok(Some(calm))
    }

    fn measure(mut self) -> Result<Report, LoadError> {
        let calm = self.before_the_flood()?;
        self.figures = Figures::default();
        let before: Vec<Tally> = self.switches.iter().map(|switch| switch.tally).collect();
        let used = self.options.watch.map(Process::now).transpose()?;
        let (cpu, began) = (Cpu::now()?, Instant::now());
        self.send_for(self.options.duration)?;
        let (elapsed, cpu) = (began.elapsed(), Cpu::now()?.since(cpu));
        let now = self.options.watch.map(Process::now).transpose()?;
        let measured = Measured {
            elapsed,
            cpu,
            controller: used.zip(now).map(|(used, now)| Process { ran: now.ran.saturating_sub(used.ran), ..now }),
            tallies: self.switches.iter().zip(before).map(|(switch, before)| switch.tally - before).collect(),
            connected: self.connected,
            resumed: self.switches.iter().filter(|switch| switch.channel.socket.is_resumed()).count(),
            latency: self.figures.latency,
            calm,
            lateness: self.figures.lateness,
            held_back: self.figures.held_back,
        };
        Ok(Report::from_measured(self.options, &measured))
    }

    /// Returns the maximum time that the next turn waits for the controller.
    fn nap(&self) -> Duration {
        let due = Duration::from_nanos(self.schedule.next().saturating_sub(self.now()));
        match self.window {
            Some(_) => NAP,
            // The poll counts in milliseconds, which is too coarse for earlier times.
            None if due < 2 * Duration::from_millis(1) => Duration::ZERO,
            None => (due - Duration::from_millis(1)).min(NAP),
        }
    }

    /// Waits for the controller, and reads each ready socket once.
    fn turn(&mut self, wait: Duration, sending: bool) -> Result<(), LoadError> {
        let wait = if self.reading.unread.is_empty() { wait } else { Duration::ZERO };
        match self.reading.poll.poll(&mut self.reading.events, Some(wait)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let mut ready = std::mem::take(&mut self.reading.unread);
        for event in &self.reading.events {
            let i = event.token().0;
            if event.is_writable() && self.switches[i].channel.is_behind() {
                self.switches[i].channel.flush()?;
            }
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                self.switches[i].channel.is_readable = true;
                ready.push(i);
            }
        }
        for i in ready.drain(..) {
            let now = self.now();
            let (latency, counts) = (&mut self.figures.latency, !self.options.floods(i));
            self.switches[i].receive(&mut self.reading.buffer, |sent| {
                if counts {
                    latency.add(now.saturating_sub(sent));
                }
            })?;
            self.forward(i, now)?;
            if self.switches[i].channel.is_readable {
                self.reading.unread.push(i);
            }
            if sending {
                self.fill_up(i)?;
            }
        }
        self.reading.unread.dedup();
        Ok(())
    }

    /// Carries frames of a switch over its links to their other ends, and records answers to requests of other
    /// switches.
    fn forward(&mut self, i: usize, now: u64) -> Result<(), LoadError> {
        for (port, frame) in std::mem::take(&mut self.switches[i].carried) {
            if let Some((switch, port)) = self.links.get(&(i, port)).copied() {
                self.switches[switch].deliver(port, &frame)?;
            }
        }
        for (switch, id) in std::mem::take(&mut self.switches[i].strayed) {
            if let Some(sent) = self.switches.get_mut(switch as usize).and_then(|switch| switch.answered_elsewhere(id))
            {
                self.figures.latency.add(now.saturating_sub(sent));
            }
        }
        Ok(())
    }

    /// Fills a switch's window, if it has one and enough of it is free.
    fn fill_up(&mut self, i: usize) -> Result<(), LoadError> {
        let Some(window) = self.window else { return Ok(()) };
        let floods = self.options.floods(i);
        if self.switches[i].is_mute() || (floods && !self.is_flooding) {
            return Ok(());
        }
        let window = if floods { FLOOD } else { window };
        loop {
            let switch = &mut self.switches[i];
            let free = window.saturating_sub(switch.open()).min(switch.room()).min(VOLLEY);
            if free == 0 || switch.channel.is_behind() || (window >= LARGE_WINDOW && free < window / 4) {
                return Ok(());
            }
            let now = self.clock.elapsed().as_nanos() as u64;
            switch.send(free, now, || self.random.number(), &mut self.scratch)?;
        }
    }

    /// Returns the switch that sends the next packet-in in rate mode. Switches take turns; if hosts send requests, all
    /// pairs are equally likely.
    fn next_switch(&mut self) -> usize {
        match self.requests.last() {
            Some(all @ 1..) => {
                let pair = self.random.below(*all);
                self.requests.partition_point(|sum| *sum <= pair)
            }
            _ => {
                self.turn = (self.turn + 1) % self.switches.len();
                self.turn
            }
        }
    }

    /// Sends due packet-ins in rate mode, in one write for each of at most [`STRIDE`] switches.
    fn send_due(&mut self) -> Result<(), LoadError> {
        let (Mode::Rate { burst, .. }, None) = (self.options.mode, self.window) else { return Ok(()) };
        let now = self.now();
        while self.staged.len() < STRIDE
            && let Some(due) = self.schedule.take(now)
        {
            let i = self.next_switch();
            let switch = &mut self.switches[i];
            let count = burst.min(switch.room());
            self.figures.held_back += u64::from(burst - count);
            if !switch.channel.is_behind() {
                self.staged.push(i);
            }
            // Counted from its due time, so that a late generator does not hide delays.
            switch.stage(count, due, || self.random.number());
            self.figures.lateness.add(now - due);
        }
        for i in self.staged.drain(..) {
            self.switches[i].channel.flush()?;
        }
        Ok(())
    }
}

/// Registers a switch's socket with the poll.
fn register(poll: &Poll, switch: &mut LoadSwitch, place: usize) -> io::Result<()> {
    poll.registry().register(switch.channel.socket.stream(), Token(place), Interest::READABLE | Interest::WRITABLE)
}
