//! The thread of an emulation: sockets on one side, the simulated network on the other, the clock between them.
//!
//! Each turn waits for sockets, commands or the next event, reads, obeys commands, lets the network catch up with the
//! clock, and writes. The network's time is the time since the start, so its delays and timeouts are real.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use maple_switch::ControllerId;
use maple_switch::time::Nanoseconds;
use maple_wire::Dpid;
use mio::{Events, Poll, Token, Waker};

use super::connection::{Connection, ConnectionProgress, is_interruption};
use super::{EmulationError, EmulationOptions, HostStats, Stats, SwitchStats};
use crate::emulated::{ControlEvent, EmulatedNetwork};
use crate::host;
use crate::traffic::{Expectation, Traffic, TrafficOptions};

/// A request of the handle to the thread.
pub(super) enum LoopRequest {
    Do(Box<dyn FnOnce(&mut DriverLoop) + Send>),
    Stop,
}

/// The maximum time that the thread sleeps. Chosen: what is due wakes it, and this only bounds the cost of an error in
/// that.
const MAX_SLEEP: Duration = Duration::from_millis(200);

pub(super) struct DriverLoop {
    poll: Poll,
    inbox: mpsc::Receiver<LoopRequest>,
    network: EmulatedNetwork,
    names: Vec<(String, Dpid)>,
    /// The connections of the first switch, by controller, then those of the second one, and so on.
    connections: Vec<Connection>,
    controllers: Vec<SocketAddr>,
    start: Instant,
    /// The reason why the last attempt to reach each controller failed, if it did.
    troubles: Vec<Option<io::ErrorKind>>,
    traffic: TrafficState,
    settle: Duration,
}

/// The state of the traffic, which waits until all switches have been connected for a while.
enum TrafficState {
    None,
    Waiting { options: TrafficOptions, expectation: Option<Expectation>, connected_since: Option<Instant> },
    Running(Traffic),
}

impl DriverLoop {
    /// Creates the loop, and the waker that ends its sleep.
    ///
    /// # Errors
    /// [`EmulationError`] if the system refuses polling, or if a fault names something that does not exist.
    pub fn new(
        options: EmulationOptions,
        inbox: mpsc::Receiver<LoopRequest>,
    ) -> Result<(DriverLoop, Arc<Waker>), EmulationError> {
        let start = Instant::now();
        let poll = Poll::new()?;
        let names: Vec<_> = options.topology.switches.iter().map(|s| (s.name.clone(), s.dpid)).collect();
        let controllers = options.controllers;
        let count = names.len() * controllers.len();
        let waker = Arc::new(Waker::new(poll.registry(), Token(count))?);
        let number = u16::try_from(controllers.len()).map_err(io::Error::other)?;
        if number == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "switches need a controller").into());
        }
        let network_options = crate::NetworkOptions { connects: false, controllers: number, ..options.network };
        let mut network = EmulatedNetwork::with_options(&options.topology, network_options);
        for (after, fault) in options.faults {
            network.check_fault(&fault)?;
            network.schedule(nanoseconds(after), fault);
        }
        let expectation = options.expectation;
        let traffic = match options.traffic {
            Some(options) => TrafficState::Waiting { options, expectation, connected_since: None },
            None => TrafficState::None,
        };
        let connections = (0..count).map(|i| Connection::new(Token(i), start)).collect();
        let (troubles, settle) = (vec![None; controllers.len()], options.settle);
        let driver =
            DriverLoop { poll, inbox, network, names, connections, controllers, start, troubles, traffic, settle };
        Ok((driver, waker))
    }

    /// Returns the time when the network's clock was 0.
    pub fn start(&self) -> Instant {
        self.start
    }

    pub fn network(&self) -> &EmulatedNetwork {
        &self.network
    }

    pub fn network_mut(&mut self) -> &mut EmulatedNetwork {
        &mut self.network
    }

    /// Runs until it is asked to stop, or until every handle is dropped.
    ///
    /// # Errors
    /// [`EmulationError`] if polling fails, or if the traffic names something that the network does not have.
    pub fn run(mut self) -> Result<Stats, EmulationError> {
        let mut events = Events::with_capacity(1024);
        let mut scratch = vec![0; 64 * 1024];
        loop {
            match self.poll.poll(&mut events, Some(self.sleep())) {
                Err(error) if !is_interruption(&error) => return Err(error.into()),
                _ => {}
            }
            for event in &events {
                if event.token().0 < self.connections.len() {
                    self.socket_ready(event.token().0, &mut scratch)?;
                }
            }
            self.network.run_until(nanoseconds(self.start.elapsed()));
            if !self.obey() {
                return Ok(self.stats());
            }
            self.catch_up()?;
        }
    }

    /// Advances the network to the clock and writes the switches' messages, until nothing is due.
    fn catch_up(&mut self) -> Result<(), EmulationError> {
        let now = Instant::now();
        self.attempts(now);
        self.network.run_until(nanoseconds(now - self.start));
        self.poll_traffic(now)?;
        self.network.run_until(nanoseconds(now - self.start));
        for at in 0..self.connections.len() {
            self.forward(at, now)?;
        }
        Ok(())
    }

    fn sleep(&self) -> Duration {
        let now = self.start.elapsed();
        let until = |at: Nanoseconds| Duration::from_nanos(at).saturating_sub(now);
        let event = self.network.next_event().map(until);
        let flow = match &self.traffic {
            TrafficState::Running(traffic) => traffic.next_flow().map(until),
            TrafficState::None | TrafficState::Waiting { .. } => None,
        };
        let connections = self.connections.iter().enumerate();
        let free = connections.filter(|(at, _)| !self.network.is_cut(self.end_of(*at).0));
        let attempt = free.filter_map(|(_, connection)| connection.next_attempt()).min();
        let attempt = attempt.map(|at| at.saturating_duration_since(Instant::now()));
        [event, flow, attempt].into_iter().flatten().fold(MAX_SLEEP, Duration::min)
    }

    /// Returns the switch and the controller of a connection.
    fn end_of(&self, at: usize) -> (Dpid, ControllerId) {
        let (switch, controller) = (at / self.controllers.len(), at % self.controllers.len());
        (self.names[switch].1, ControllerId(controller as u16))
    }

    fn attempts(&mut self, now: Instant) {
        for at in 0..self.connections.len() {
            let (dpid, controller) = self.end_of(at);
            let place = usize::from(controller.0);
            if !self.network.is_cut(dpid)
                && let ConnectionProgress::Refused(why) =
                    self.connections[at].attempt(now, self.controllers[place], self.poll.registry())
            {
                self.troubles[place] = Some(why);
            }
        }
    }

    fn socket_ready(&mut self, at: usize, scratch: &mut [u8]) -> Result<(), EmulationError> {
        let (now, (dpid, controller)) = (Instant::now(), self.end_of(at));
        let place = usize::from(controller.0);
        match self.connections[at].complete(now) {
            ConnectionProgress::Opened => {
                self.troubles[place] = None;
                self.network.connect_to(dpid, controller)?;
            }
            ConnectionProgress::Refused(why) => self.troubles[place] = Some(why),
            ConnectionProgress::Nothing | ConnectionProgress::Closed => {}
        }
        let mut bytes = Vec::new();
        let progress = self.connections[at].read(now, &mut bytes, scratch);
        // The network's clock is set before it gets the message, so that a comparison of both sides' times finds no
        // effect before its cause.
        self.network.run_until(nanoseconds(self.start.elapsed()));
        if !bytes.is_empty() {
            self.network.bytes_from(dpid, controller, &bytes)?;
        }
        if progress == ConnectionProgress::Closed {
            // Bytes that arrived before the end still count.
            self.network.run_until(self.network.now());
            self.network.disconnect_from(dpid, controller)?;
        }
        Ok(())
    }

    /// Forwards messages of a switch to a controller.
    fn forward(&mut self, at: usize, now: Instant) -> Result<(), EmulationError> {
        let (dpid, controller) = self.end_of(at);
        for event in self.network.take_control_for(dpid, controller) {
            match event {
                ControlEvent::Opened => {}
                ControlEvent::Message(bytes) => self.connections[at].send(&bytes),
                ControlEvent::Closed => self.connections[at].hang_up(now),
            }
        }
        if self.connections[at].write(now) == ConnectionProgress::Closed {
            self.network.disconnect_from(dpid, controller)?;
        }
        Ok(())
    }

    /// Obeys the waiting commands. Returns `false` for the command to stop.
    fn obey(&mut self) -> bool {
        loop {
            match self.inbox.try_recv() {
                Ok(LoopRequest::Do(f)) => f(self),
                Ok(LoopRequest::Stop) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Err(mpsc::TryRecvError::Empty) => return true,
            }
        }
    }

    fn poll_traffic(&mut self, now: Instant) -> Result<(), EmulationError> {
        let all_connected = self.network.dpids().all(|d| self.network.switch(d).is_some_and(|s| s.is_connected()));
        if let TrafficState::Waiting { connected_since, .. } = &mut self.traffic {
            *connected_since = if all_connected { Some(connected_since.unwrap_or(now)) } else { None };
            if connected_since.is_none_or(|since| now < since + self.settle) {
                return Ok(());
            }
            let waiting = std::mem::replace(&mut self.traffic, TrafficState::None);
            if let TrafficState::Waiting { options, expectation, .. } = waiting {
                self.traffic = TrafficState::Running(Traffic::new(&self.network, options, expectation));
            }
        }
        if let TrafficState::Running(traffic) = &mut self.traffic {
            traffic.poll(&mut self.network)?;
        }
        Ok(())
    }

    /// Starts the waiting traffic.
    pub fn begin_traffic(&mut self) {
        self.settle = Duration::ZERO;
    }

    pub fn stats(&self) -> Stats {
        let traffic = match &self.traffic {
            TrafficState::Running(traffic) => Some(traffic),
            TrafficState::None | TrafficState::Waiting { .. } => None,
        };
        Stats {
            elapsed: self.start.elapsed(),
            trouble: self.trouble().map(|why| why.to_string()),
            switches: self.switch_stats(),
            hosts: self.host_stats(),
            pairs: self.network.pairs().clone(),
            flows: traffic.map(|t| t.counters().clone()).unwrap_or_default(),
            total: traffic.map(Traffic::total).unwrap_or_default(),
            traffic_over: traffic.is_some_and(Traffic::is_over),
            traffic_started: traffic.is_some(),
        }
    }

    /// Returns why the last attempts failed, if no controller was reached.
    fn trouble(&self) -> Option<io::ErrorKind> {
        let all: Option<Vec<io::ErrorKind>> = self.troubles.iter().copied().collect();
        all?.first().copied()
    }

    fn switch_stats(&self) -> Vec<SwitchStats> {
        let one = |((name, dpid), connections): (&(String, Dpid), &[Connection])| {
            let switch = self.network.switch(*dpid)?;
            let counters = switch.counters();
            Some(SwitchStats {
                name: name.clone(),
                dpid: *dpid,
                connected: switch.is_connected(),
                connections: connections.iter().map(|connection| connection.count).sum(),
                rules: switch.tables().iter().map(|t| t.len()).sum(),
                packet_ins: counters.packet_ins,
                packet_outs: counters.packet_outs,
                flow_mods: counters.flow_mods,
                errors: counters.errors,
                ambiguous_matches: switch.ambiguous_matches(),
            })
        };
        self.names.iter().zip(self.connections.chunks(self.controllers.len())).filter_map(one).collect()
    }

    fn host_stats(&self) -> Vec<HostStats> {
        let one = |h: &host::Host| {
            let counters = h.counters();
            HostStats {
                name: h.spec().name.clone(),
                sent: counters.sent,
                received: counters.received,
                foreign: counters.foreign,
                flows_done: counters.flows_done,
                flows_failed: counters.flows_failed,
            }
        };
        self.network.hosts().map(one).collect()
    }
}

fn nanoseconds(span: Duration) -> Nanoseconds {
    Nanoseconds::try_from(span.as_nanos()).unwrap_or(Nanoseconds::MAX)
}
