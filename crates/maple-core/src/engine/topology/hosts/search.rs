//! Searches: find out whether a host is still at its location.
//!
//! # What
//!
//! A search proceeds in rounds. In each round the host is asked by the addresses that it announced, and its switch is
//! asked for the counters of its rules. The host is *there* as soon as any packet of it comes, or when the counters
//! rose in [`ROUNDS_WITH_TRAFFIC`] rounds. The host is *gone* when it answered nothing and its counters stood still for
//! two rounds. A host that announced no address cannot be asked, so its counters must stand still for as long as
//! `silence` says.
//!
//! A host that roams mostly announces its address at the new port at once. If no address of it was known, it is asked
//! by that one, and by the link-local address that belongs to its hardware address. A forger could name an address that
//! the host does not have. So the host's counters must stand still as well, as for any other host; and where an address
//! of the host is known, no other one counts.
//!
//! # Why two rounds
//!
//! Open vSwitch counts what its datapath did with a delay. So the counters of a host that has left may rise once more.
//! The counters of a host that sends may stand still between two readings, but hardly ever over three.
//!
//! # Cost
//!
//! There is one search for a host, however many ports claim it. After a host was found, there is no new search for a
//! while. The number of claims of each port is bounded, so the cost falls on the ports that claim.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use super::claims::refuted_until;
use super::probe::{link_local, probes};
use super::{HostAction, Hosts, Limits};
use crate::engine::context::timers::Timer;
use crate::engine::messages::mail::{FindHost, SearchResult};
use crate::engine::tools::expected::Expected;
use crate::ids::{ShardId, Time};
use crate::network::{Location, Mac};
use crate::state::Snapshot;

/// The number of rounds in which counters must rise for a host that sends but does not answer to count as there. It
/// must exceed 1, because the counters of a host that has left may rise once more.
const ROUNDS_WITH_TRAFFIC: u32 = 3;

/// A search for one host.
#[derive(Debug)]
pub(super) struct Search {
    at: Location,
    state: SearchState,
}

#[derive(Debug)]
enum SearchState {
    Open(OpenSearch),
    /// The host was found. There is no new search before this time.
    Found {
        until: Time,
    },
}

#[derive(Debug)]
struct OpenSearch {
    askers: BTreeSet<ShardId>,
    began: Time,
    /// Whether the host can be asked by an address that it announced.
    was_asked: bool,
    /// The address that was announced elsewhere in the host's name, if it has announced none itself.
    named: Option<IpAddr>,
    /// Since when the host has sent nothing, as far as is known.
    silent_since: Time,
    /// The counters at the last reading.
    count: Option<u64>,
    /// The time when the current reading began, if there is one.
    reading: Option<Time>,
    /// The number of rounds in which the counters rose.
    rounds_with_traffic: u32,
    /// Whether the host is forgotten if it is not found, because its port was down meanwhile.
    forget_if_missing: bool,
}

impl Search {
    pub fn at(&self) -> Location {
        self.at
    }

    /// Reports whether the result is not known yet.
    pub fn is_open(&self) -> bool {
        matches!(self.state, SearchState::Open(_))
    }

    /// Gives an open search more time.
    pub fn postpone(&mut self, by: Duration) {
        let Some(open) = self.open() else { return };
        (open.began, open.silent_since) = (open.began + by, open.silent_since + by);
        open.reading = open.reading.map(|began| began + by);
    }

    fn open(&mut self) -> Option<&mut OpenSearch> {
        match &mut self.state {
            SearchState::Open(open) => Some(open),
            SearchState::Found { .. } => None,
        }
    }
}

impl OpenSearch {
    /// Returns how long the host must be silent to count as gone.
    fn required_silence(&self, limits: &Limits) -> Duration {
        if self.was_asked || self.named.is_some() { limits.probe_timeout * 2 } else { limits.silence }
    }

    /// Takes a reading of the counters; `None` if the switch does not report them.
    fn take(&mut self, now: Time, count: Option<u64>) {
        if let (Some(new), Some(old)) = (count, self.count) {
            // Counters fall when a rule is deleted, and its last packets are not counted.
            if new != old {
                self.silent_since = now;
            }
            self.rounds_with_traffic += u32::from(new > old);
        }
        self.count = count.or(self.count);
    }
}

impl Hosts {
    /// Searches for a host whose port has been down, if the host can be asked.
    pub(super) fn verify_host(
        &mut self,
        now: Time,
        state: &Snapshot,
        mac: Mac,
        at: Location,
        out: &mut Vec<HostAction>,
    ) {
        self.on_arrival(now, state, mac, at, out);
        let is_open = self.searches.get(&mac).is_some_and(Search::is_open);
        if is_open || self.known.get(&(at, mac)).is_none_or(|known| known.announced.is_empty()) {
            return;
        }
        self.begin_search(now, mac, at, None, None, out);
    }

    /// Searches for a host of this shard that a port elsewhere claims.
    pub fn on_find(&mut self, now: Time, state: &Snapshot, question: FindHost, out: &mut Vec<HostAction>) {
        let FindHost { mac, at, named, asker } = question;
        // The message that reports the host's arrival here may still be on the way.
        if state.host(mac).is_some_and(|host| host.location == at) {
            self.on_arrival(now, state, mac, at, out);
        }
        if !self.known.contains_key(&(at, mac)) {
            return;
        }
        if let Some(search) = self.searches.get_mut(&mac).filter(|search| search.at == at) {
            match &mut search.state {
                SearchState::Open(open) => {
                    open.askers.insert(asker);
                    if let Some(ip) = named.filter(|_| !open.was_asked && open.named.is_none()) {
                        (open.named, open.silent_since) = (Some(ip), now);
                        self.ask_host(mac, at, out);
                    }
                    return;
                }
                SearchState::Found { until } if *until > now => {
                    return out.push(HostAction::ReportSearch { to: asker, mac, at, found: SearchResult::Alive });
                }
                SearchState::Found { .. } => {}
            }
        }
        self.begin_search(now, mac, at, named, Some(asker), out);
    }

    /// Begins a search, for another shard or for this one.
    fn begin_search(
        &mut self,
        now: Time,
        mac: Mac,
        at: Location,
        named: Option<IpAddr>,
        asker: Option<ShardId>,
        out: &mut Vec<HostAction>,
    ) {
        let Some(known) = self.known.get(&(at, mac)).expected() else { return };
        let open = OpenSearch {
            askers: asker.into_iter().collect(),
            began: now,
            was_asked: !known.announced.is_empty(),
            named: named.filter(|_| known.announced.is_empty()),
            silent_since: now,
            count: None,
            reading: None,
            rounds_with_traffic: 0,
            forget_if_missing: asker.is_none(),
        };
        self.searches.insert(mac, Search { at, state: SearchState::Open(open) });
        self.begin_round(now, mac, out);
    }

    /// Begins a round: asks the host, and its switch for the counters.
    fn begin_round(&mut self, now: Time, mac: Mac, out: &mut Vec<HostAction>) {
        let Some(search) = self.searches.get_mut(&mac).expected() else { return };
        let at = search.at;
        let Some(open) = search.open() else { return };
        open.reading = Some(now);
        self.ask_host(mac, at, out);
        out.push(HostAction::Count { at, mac: Some(mac) });
        out.push(HostAction::Wake(now + self.limits.probe_timeout, Timer::Search(mac)));
    }

    /// Asks a host that is searched for by its addresses.
    fn ask_host(&self, mac: Mac, at: Location, out: &mut Vec<HostAction>) {
        let named = match self.searches.get(&mac).map(|search| &search.state) {
            Some(SearchState::Open(open)) => open.named,
            _ => None,
        };
        let own = named.map(|_| IpAddr::V6(link_local(mac)));
        let announced = self.known.get(&(at, mac)).into_iter().flat_map(|known| known.announced.iter());
        let addresses: Vec<IpAddr> = own.into_iter().chain(named).chain(announced.map(|(ip, _)| *ip)).collect();
        out.extend(probes(mac, addresses.into_iter()).into_iter().map(|frame| HostAction::Emit { at, frame }));
    }

    /// Handles the end of a round, or the expiry of a search's result.
    pub fn on_search_timer(&mut self, now: Time, mac: Mac, out: &mut Vec<HostAction>) {
        let limits = self.limits;
        // A timer outlives its search.
        let Some(search) = self.searches.get_mut(&mac) else { return };
        match &mut search.state {
            SearchState::Found { until } if *until <= now => drop(self.searches.remove(&mac)),
            SearchState::Found { .. } => {}
            // The timer is of an earlier search.
            SearchState::Open(open) if open.reading.is_some_and(|began| now < began + limits.probe_timeout) => {}
            // The switch does not answer.
            SearchState::Open(open) if open.reading.is_some() && now >= open.began + limits.silence * 2 => {
                self.on_host_silent(mac, out);
            }
            SearchState::Open(open) if open.reading.is_some() => {
                out.push(HostAction::Wake(now + limits.probe_timeout, Timer::Search(mac)));
            }
            SearchState::Open(_) => self.begin_round(now, mac, out),
        }
    }

    /// Takes the counters of a host that is searched for; `None` if the switch does not report them.
    pub fn on_search_count(&mut self, now: Time, mac: Mac, count: Option<u64>, out: &mut Vec<HostAction>) {
        let limits = self.limits;
        // The search may be over before the switch answers.
        let Some(search) = self.searches.get_mut(&mac) else { return };
        let at = search.at;
        let Some(open) = search.open() else { return };
        let Some(began) = open.reading.take() else { return };
        open.take(now, count);
        if open.rounds_with_traffic >= ROUNDS_WITH_TRAFFIC {
            self.on_host_alive(now, mac, at, out);
        } else if began >= open.silent_since + open.required_silence(&limits) {
            self.on_host_silent(mac, out);
        }
    }

    /// Ends the search for a host that is active, if there is one.
    pub(super) fn on_host_alive(&mut self, now: Time, mac: Mac, at: Location, out: &mut Vec<HostAction>) {
        if self.searches.is_empty() {
            return;
        }
        let until = refuted_until(now, &self.limits);
        let is_open_here = |search: &&mut Search| search.at == at && search.is_open();
        let Some(search) = self.searches.get_mut(&mac).filter(is_open_here) else { return };
        if let SearchState::Open(open) = std::mem::replace(&mut search.state, SearchState::Found { until }) {
            out.extend(open.askers.into_iter().map(|to| HostAction::ReportSearch {
                to,
                mac,
                at,
                found: SearchResult::Alive,
            }));
        }
        out.push(HostAction::Wake(until, Timer::Search(mac)));
    }

    fn on_host_silent(&mut self, mac: Mac, out: &mut Vec<HostAction>) {
        let Some(Search { at, state: SearchState::Open(open) }) = self.searches.remove(&mac) else { return };
        let found = SearchResult::Gone { was_asked: open.was_asked || open.named.is_some() };
        // A host that is claimed goes to the port that claims it. Without a claim its location is unknown.
        if open.forget_if_missing && open.askers.is_empty() {
            self.on_departure(mac, at);
            out.push(HostAction::Forget { mac, at });
        }
        out.extend(open.askers.into_iter().map(|to| HostAction::ReportSearch { to, mac, at, found }));
    }
}
