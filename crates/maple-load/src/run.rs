//! The generator's loop: handshakes, teaching, warm-up, measuring.

use std::io;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use crate::cpu::{Cpu, Process};
use crate::histogram::Histogram;
use crate::options::{LoadError, LoadOptions, Mode};
use crate::report::{Measured, Report};
use crate::switch::{Switch, Tally};

/// How long handshakes may take, all together.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between teaching and the first packet-in.
const LEARNING: Duration = Duration::from_millis(300);
/// All sockets are read into a buffer of this size; a message must fit in.
const BUFFER: usize = 1 << 20;
/// Most packet-ins that one switch sends at once.
const VOLLEY: u32 = 4096;
/// Windows from here on are filled up by quarters, so that writes stay large.
const LARGE_WINDOW: u32 = 8;
/// How long the poll waits when nothing is due sooner.
const NAP: Duration = Duration::from_millis(10);

/// Makes the load and says what came of it.
///
/// # Errors
/// If an option makes no sense, the controller can't be reached, closes a connection, breaks the protocol, or leaves
/// handshakes undone.
pub fn run(options: &LoadOptions) -> Result<Report, LoadError> {
    options.check()?;
    let mut load = Load::connect(options)?;
    load.until_known()?;
    load.pause(options.settle)?;
    for switch in &mut load.switches {
        switch.teach()?;
    }
    load.pause(LEARNING)?;
    load.start = load.now();
    load.due = load.start as f64;
    load.send_for(options.warmup)?;
    load.measure()
}

struct Load<'a> {
    options: &'a LoadOptions,
    poll: Poll,
    switches: Vec<Switch>,
    clock: Instant,
    /// When the first packet-in was sent.
    start: u64,
    /// When the next packet-in is due in rate mode, in nanoseconds.
    due: f64,
    /// Whose turn it is in rate mode.
    turn: usize,
    buffer: Vec<u8>,
    scratch: Vec<u8>,
    /// Switches with more to read.
    unread: Vec<usize>,
    latency: Histogram,
    /// How late packet-ins were sent in rate mode.
    lateness: Histogram,
    /// Packet-ins that were due in rate mode and found the window full.
    held_back: u64,
}

impl<'a> Load<'a> {
    fn connect(options: &'a LoadOptions) -> Result<Load<'a>, LoadError> {
        let poll = Poll::new()?;
        let (Mode::Throughput { window } | Mode::Rate { window, .. }) = options.mode;
        let mut switches = Vec::with_capacity(options.switches as usize);
        for id in 1..=options.switches {
            let mut switch = Switch::connect(options.connect, id, options.version, options.macs, window)?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut switch.socket, Token(switches.len()), interest)?;
            switches.push(switch);
        }
        Ok(Load {
            options,
            poll,
            switches,
            clock: Instant::now(),
            start: 0,
            due: 0.0,
            turn: 0,
            buffer: vec![0; BUFFER],
            scratch: Vec::new(),
            unread: Vec::new(),
            latency: Histogram::default(),
            lateness: Histogram::default(),
            held_back: 0,
        })
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Answers questions until every switch was asked for its features.
    fn until_known(&mut self) -> Result<(), LoadError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let missing = self.switches.iter().filter(|switch| !switch.is_known).count();
            if missing == 0 {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(LoadError::Handshake { missing, switches: self.options.switches, within: PATIENCE });
            }
            self.turn(NAP, false)?;
        }
    }

    /// Answers questions for so long.
    fn pause(&mut self, time: Duration) -> Result<(), LoadError> {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            self.turn(NAP, false)?;
        }
        Ok(())
    }

    /// Sends packet-ins for so long.
    fn send_for(&mut self, time: Duration) -> Result<(), LoadError> {
        let deadline = Instant::now() + time;
        if let Mode::Throughput { .. } = self.options.mode {
            for i in 0..self.switches.len() {
                self.fill_up(i)?;
            }
        }
        while Instant::now() < deadline {
            self.send_due()?;
            self.turn(self.nap(), true)?;
        }
        Ok(())
    }

    fn measure(mut self) -> Result<Report, LoadError> {
        self.latency = Histogram::default();
        self.lateness = Histogram::default();
        self.held_back = 0;
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
            latency: self.latency,
            lateness: self.lateness,
            held_back: self.held_back,
        };
        Ok(Report::of(self.options, &measured))
    }

    /// How long the next turn may wait for the controller.
    fn nap(&self) -> Duration {
        let due = Duration::from_nanos((self.due as u64).saturating_sub(self.now()));
        match self.options.mode {
            // The poll counts in milliseconds, which is too coarse for what is due sooner.
            Mode::Rate { .. } if due < 2 * Duration::from_millis(1) => Duration::ZERO,
            Mode::Rate { .. } => (due - Duration::from_millis(1)).min(NAP),
            Mode::Throughput { .. } => NAP,
        }
    }

    /// Waits for the controller, and reads each socket that is ready once.
    fn turn(&mut self, wait: Duration, sending: bool) -> Result<(), LoadError> {
        let mut events = Events::with_capacity(1024);
        let wait = if self.unread.is_empty() { wait } else { Duration::ZERO };
        match self.poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        let mut ready = std::mem::take(&mut self.unread);
        for event in &events {
            let i = event.token().0;
            if event.is_writable() && self.switches[i].is_behind() {
                self.switches[i].flush()?;
            }
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                self.switches[i].readable = true;
                ready.push(i);
            }
        }
        for i in ready.drain(..) {
            let now = self.now();
            let latency = &mut self.latency;
            self.switches[i].receive(&mut self.buffer, |sent| latency.add(now.saturating_sub(sent)))?;
            if self.switches[i].readable {
                self.unread.push(i);
            }
            if sending && matches!(self.options.mode, Mode::Throughput { .. }) {
                self.fill_up(i)?;
            }
        }
        self.unread.dedup();
        Ok(())
    }

    /// Fills a switch's window, if enough of it is free.
    fn fill_up(&mut self, i: usize) -> Result<(), LoadError> {
        let Mode::Throughput { window } = self.options.mode else { return Ok(()) };
        loop {
            let switch = &mut self.switches[i];
            let free = window.saturating_sub(switch.open()).min(switch.room()).min(VOLLEY);
            if free == 0 || switch.is_behind() || (window >= LARGE_WINDOW && free < window / 4) {
                return Ok(());
            }
            let now = self.now();
            self.switches[i].send(free, now, &mut self.scratch)?;
        }
    }

    /// Sends what is due in rate mode: one packet-in a switch, in turn, at equal distances.
    fn send_due(&mut self) -> Result<(), LoadError> {
        let Mode::Rate { per_second, .. } = self.options.mode else { return Ok(()) };
        let now = self.now();
        while self.due <= now as f64 {
            let due = self.due as u64;
            self.due += 1e9 / per_second;
            self.lateness.add(now - due);
            let switch = &mut self.switches[self.turn];
            self.turn = (self.turn + 1) % self.options.switches as usize;
            if switch.room() == 0 {
                self.held_back += 1;
            } else {
                // Counted from when it was due, so that a generator that lags does not hide what others wait for.
                switch.send(1, due, &mut self.scratch)?;
            }
        }
        Ok(())
    }
}
