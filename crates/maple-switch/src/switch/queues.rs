//! Queues of ports: their configuration and counters (1.0 §5.3.4–5.3.5, 1.3 §7.2.2, §7.3.5.8).
//!
//! OpenFlow can use and query queues, but not create them: the operator does that, as on Open vSwitch. The order in
//! which frames leave is decided where time passes, in `emulated/egress.rs`. A frame for a queue that its port does not
//! have is treated as a frame without a queue.

use maple_wire::PortNo;
use maple_wire::msg::stats::{QueueStats, QueueStatsRequest};
use maple_wire::msg::{QueueConfig, QueueDesc, QueueProperty};

use super::refusal::Refusal;
use super::{Outgoing, Switch};
use crate::time::{Nanoseconds, SECOND};

/// `OFPQ_ALL`.
const ALL_QUEUES: u32 = 0xffff_ffff;
/// The default rate of a port, in bits a second: 10 Gb/s, the speed that its description has.
const LINE: u64 = 10_000_000_000;

/// The rates of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueRates {
    /// Its minimum rate when others compete, in bits a second.
    pub min: Option<u64>,
    /// Its maximum rate, in bits a second.
    pub max: Option<u64>,
}

/// The counters of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets that found the queue full.
    pub dropped: u64,
}

/// A queue of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its rates.
    pub rates: QueueRates,
    /// Its counters.
    pub counters: QueueCounters,
    added: Nanoseconds,
}

impl Switch {
    /// Returns the switch's queues, by port and number.
    pub fn queues(&self) -> impl Iterator<Item = ((PortNo, u32), &Queue)> {
        self.queues.iter().map(|(at, queue)| (*at, queue))
    }

    /// Adds, changes or removes a queue of a port, as the operator would. A changed queue keeps its counters.
    pub fn set_queue(&mut self, now: Nanoseconds, port: PortNo, queue: u32, rates: Option<QueueRates>) {
        match rates {
            None => drop(self.queues.remove(&(port, queue))),
            Some(rates) => {
                let fresh = Queue { rates, counters: QueueCounters::default(), added: now };
                self.queues.entry((port, queue)).or_insert(fresh).rates = rates;
            }
        }
    }

    /// Sets or removes the maximum rate of a port in bits a second, as the operator would. The controller is notified.
    pub fn set_port_rate(&mut self, number: PortNo, rate: Option<u64>) -> Vec<Outgoing> {
        let Some(port) = self.ports.get_mut(&number) else { return Vec::new() };
        if port.rate == rate {
            return Vec::new();
        }
        port.rate = rate;
        if self.version == maple_wire::Version::Of13 {
            port.description.curr_speed = u32::try_from(rate.unwrap_or(LINE) / 1000).unwrap_or(u32::MAX);
        }
        self.port_status(maple_wire::msg::PortReason::Modify, number)
    }

    /// Counts a frame that has left by a port, from this queue or none.
    pub fn queue_sent(&mut self, port: PortNo, queue: Option<u32>, bytes: usize) {
        if let Some(queue) = queue.and_then(|queue| self.queues.get_mut(&(port, queue))) {
            queue.counters.packets += 1;
            queue.counters.bytes += bytes as u64;
        }
    }

    /// Counts a frame that found its queue full.
    pub fn queue_dropped(&mut self, port: PortNo, queue: Option<u32>, bytes: usize) {
        if let Some(port) = self.ports.get_mut(&port) {
            let counters = &mut port.counters;
            counters.tx_packets = counters.tx_packets.saturating_sub(1);
            counters.tx_bytes = counters.tx_bytes.saturating_sub(bytes as u64);
            counters.tx_dropped += 1;
        }
        if let Some(queue) = queue.and_then(|queue| self.queues.get_mut(&(port, queue))) {
            queue.counters.dropped += 1;
        }
    }

    pub(super) fn queue_config(&self, port: PortNo) -> Result<QueueConfig, Refusal> {
        let all = port == PortNo::ANY && self.version == maple_wire::Version::Of13;
        if !all && !self.ports.contains_key(&port) {
            return Err(Refusal::QueuePort);
        }
        let wanted = self.queues.iter().filter(|((at, _), _)| port == PortNo::ANY || *at == port);
        let one = |((at, id), queue): (&(PortNo, u32), &Queue)| {
            let line = self.ports.get(at).and_then(|port| port.rate).unwrap_or(LINE).max(1);
            let share = |rate: u64| (u128::from(rate) * 1000 / u128::from(line)).min(1000) as u16;
            let min = queue.rates.min.map(|rate| QueueProperty::MinRate(share(rate)));
            let max = queue.rates.max.map(|rate| QueueProperty::MaxRate(share(rate)));
            // 1.0 has no property for the maximum rate.
            let max = max.filter(|_| self.version == maple_wire::Version::Of13);
            QueueDesc { id: *id, port: *at, properties: min.into_iter().chain(max).collect() }
        };
        Ok(QueueConfig { port, queues: wanted.map(one).collect() })
    }

    pub(super) fn queue_stats(&self, now: Nanoseconds, asked: QueueStatsRequest) -> Result<Vec<QueueStats>, Refusal> {
        // 1.0 calls all ports `ALL`, 1.3 `ANY`. Open vSwitch accepts both in 1.0.
        let any_port =
            asked.port == PortNo::ANY || asked.port == PortNo::ALL && self.version == maple_wire::Version::Of10;
        if !any_port && !self.ports.contains_key(&asked.port) {
            return Err(Refusal::QueuePort);
        }
        let is_wanted =
            |at: PortNo, id: u32| (any_port || at == asked.port) && (asked.queue == ALL_QUEUES || id == asked.queue);
        let wanted = self.queues.iter().filter(|((at, id), _)| is_wanted(*at, *id));
        let one = |((port, id), queue): (&(PortNo, u32), &Queue)| QueueStats {
            port: *port,
            queue: *id,
            tx_bytes: queue.counters.bytes,
            tx_packets: queue.counters.packets,
            tx_errors: queue.counters.dropped,
            duration_sec: ((now - queue.added) / SECOND) as u32,
            duration_nsec: ((now - queue.added) % SECOND) as u32,
        };
        let found: Vec<QueueStats> = wanted.map(one).collect();
        if found.is_empty() && asked.queue != ALL_QUEUES { Err(Refusal::UnknownQueue) } else { Ok(found) }
    }
}
