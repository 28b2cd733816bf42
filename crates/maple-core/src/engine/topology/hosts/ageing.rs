//! Ageing: forgets silent hosts, and addresses that are not announced again.
//!
//! # What
//!
//! A host is active when a packet of it comes to the controller, or when the counters of its rules have risen. Each
//! switch is checked four times in a `timeout`. If some host of a port was inactive for half a timeout, the counters of
//! that port's rules are read, one port after the other. A host that was inactive for a whole timeout is forgotten. If
//! a switch does not report its counters, only packets that come to the controller count.
//!
//! A host is asked for an address that it has not announced for a timeout. After two timeouts without an announcement
//! the address is forgotten.
//!
//! # Cost
//!
//! Nothing while all hosts are active. Otherwise one request and its answer for a port in each round. A port has few
//! rules for its hosts (1.3: up to four for each host in the classifier; 1.0: all rules that begin with its hosts).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_wire::msg::stats::{ReplyBody, StatsReply};
use maple_wire::{Dpid, Field, PortNo};

use super::probe::probe;
use super::{HostAction, Hosts};
use crate::engine::context::timers::Timer;
use crate::engine::tools::expected::Expected;
use crate::ids::Time;
use crate::network::{Location, Mac};

/// The number of rounds in a timeout. Chosen: a host that stays silent is noticed at most a quarter of a timeout late,
/// and more rounds would ask switches more often.
const ROUNDS: u32 = 4;

/// The current round at a switch.
#[derive(Debug, Default)]
pub(super) struct AgeingRound {
    due: Time,
    /// The ports whose counters are still to be read.
    ports: BTreeSet<PortNo>,
    /// The port whose counters are being read.
    pub asking: Option<PortNo>,
}

/// An open request for statistics.
#[derive(Debug)]
pub(super) struct CounterRequest {
    at: Location,
    /// The host that is searched for, if the request is about one.
    mac: Option<Mac>,
    packets: BTreeMap<Mac, u64>,
    sum: u64,
}

impl Hosts {
    fn period(&self) -> Duration {
        (self.limits.timeout / ROUNDS).max(Duration::from_secs(1))
    }

    /// Begins the rounds at a switch, unless they have begun.
    pub(super) fn begin_rounds(&mut self, now: Time, dpid: Dpid, out: &mut Vec<HostAction>) {
        let due = now + self.period();
        self.rounds.entry(dpid).or_insert_with(|| {
            out.push(HostAction::Wake(due, Timer::Hosts(dpid)));
            AgeingRound { due, ..AgeingRound::default() }
        });
    }

    /// Begins the next round at a switch, if it is due.
    pub fn on_round_timer(&mut self, now: Time, dpid: Dpid, out: &mut Vec<HostAction>) {
        let next = now + self.period();
        let half = self.limits.timeout / 2;
        let is_due = |known: &super::HostRecord| {
            let is_old = known.announced.first().is_some_and(|(_, since)| *since + self.limits.timeout <= now);
            known.last_active + half <= now || is_old
        };
        let ports: BTreeSet<PortNo> =
            self.at_ports_of(dpid).filter(|(_, known)| is_due(known)).map(|((at, _), _)| at.port).collect();
        let Some(round) = self.rounds.get_mut(&dpid).filter(|round| round.due <= now) else { return };
        if !self.per_switch.contains_key(&dpid) {
            self.rounds.remove(&dpid);
            return;
        }
        *round = AgeingRound { due: next, ports, asking: None };
        out.push(HostAction::Wake(next, Timer::Hosts(dpid)));
        // Answers to requests of the last round come too late.
        self.counts.retain(|(of, _), counting| *of != dpid || counting.mac.is_some());
        self.read_next_port(dpid, out);
    }

    fn read_next_port(&mut self, dpid: Dpid, out: &mut Vec<HostAction>) {
        let Some(round) = self.rounds.get_mut(&dpid).expected() else { return };
        round.asking = round.ports.pop_first();
        if let Some(port) = round.asking {
            out.push(HostAction::Count { at: Location::new(dpid, port), mac: None });
        }
    }

    /// Notes that a switch was asked for counters, with this transaction id.
    pub fn on_counting(&mut self, xid: u32, at: Location, mac: Option<Mac>) {
        let counting = CounterRequest { at, mac, packets: BTreeMap::new(), sum: 0 };
        self.counts.insert((at.switch, xid), counting);
    }

    /// Takes an answer of a switch, or a part of it.
    pub fn on_stats(&mut self, now: Time, dpid: Dpid, xid: u32, reply: &StatsReply, out: &mut Vec<HostAction>) {
        let Some(counting) = self.counts.get_mut(&(dpid, xid)) else { return };
        match &reply.body {
            ReplyBody::Aggregate(sum) => counting.sum += sum.packet_count,
            ReplyBody::Flow(flows) => {
                for flow in flows {
                    if let Some(mac) = flow.matching.get(Field::EthSrc).filter(|source| source.is_exact()) {
                        *counting.packets.entry(Mac::from_bits(mac.value)).or_default() += flow.packet_count;
                    }
                }
            }
            _ => {}
        }
        if !reply.more()
            && let Some(counting) = self.counts.remove(&(dpid, xid))
        {
            match counting.mac {
                Some(mac) => self.on_search_count(now, mac, Some(counting.sum), out),
                None => self.on_port_counts(now, counting.at, Some(counting.packets), out),
            }
        }
    }

    /// Handles the refusal of a request. Returns whether it was one for these counters.
    pub fn on_stats_refused(&mut self, now: Time, dpid: Dpid, xid: u32, out: &mut Vec<HostAction>) -> bool {
        let Some(counting) = self.counts.remove(&(dpid, xid)) else { return false };
        match counting.mac {
            Some(mac) => self.on_search_count(now, mac, None, out),
            None => self.on_port_counts(now, counting.at, None, out),
        }
        true
    }

    /// Takes the counters of a port's hosts; `None` if they cannot be known. Forgets silent hosts, and goes on with the
    /// next port.
    fn on_port_counts(
        &mut self,
        now: Time,
        at: Location,
        packets: Option<BTreeMap<Mac, u64>>,
        out: &mut Vec<HostAction>,
    ) {
        let timeout = self.limits.timeout;
        let macs: Vec<Mac> = self.at_port(at).map(|(mac, _)| mac).collect();
        for mac in macs {
            let Some(known) = self.known.get_mut(&(at, mac)) else { continue };
            if let Some(packets) = &packets {
                let count = packets.get(&mac).copied().unwrap_or_default();
                // If these packets are counted for the first time, it is not known when they came: they count as
                // recent.
                if known.counted.replace(count).unwrap_or_default() != count {
                    known.last_active = now;
                }
            }
            if known.last_active + timeout <= now {
                self.on_departure(mac, at);
                out.push(HostAction::Forget { mac, at });
                continue;
            }
            if known.last_active + timeout / 2 <= now {
                self.expiring.insert(mac);
            }
            for (ip, _) in known.announced.extract_if(.., |(_, since)| *since + timeout * 2 <= now) {
                out.push(HostAction::Unbind { mac, at, ip });
            }
            let old = known.announced.iter().filter(|(_, since)| *since + timeout <= now);
            out.extend(old.map(|(ip, _)| HostAction::Emit { at, frame: probe(mac, *ip) }));
        }
        if self.rounds.get(&at.switch).is_some_and(|round| round.asking == Some(at.port)) {
            self.read_next_port(at.switch, out);
        }
    }
}
