//! Finding out whether a host is still where it was.
//!
//! # What
//!
//! A host that is looked for is asked by the addresses that it announced, in rounds of half a second, and its switch is
//! asked in each how many packets of it the rules took. It is *there* as soon as a packet of it comes, an answer or any
//! other, or when the counters rose in [`ROUNDS_WITH_TRAFFIC`] rounds. It is *gone* when it answered nothing and its counters stood still
//! for two rounds; a host that announced no address, so that it can't be asked, for as long as `silence` says.
//!
//! # Why two rounds
//!
//! Open vSwitch adds up what its datapath did up to half a second later. So the counters of a host that has left may rise
//! once more, and those of one that sends may stand still between two readings, but hardly ever over three.
//!
//! # Cost
//!
//! A host is looked for once, however many claim to be it, and for a while after it was found nobody looks again. Whoever
//! claims pays: claims are bounded for each port.

use std::collections::BTreeSet;
use std::time::Duration;

use super::claims::refuted_until;
use super::probe::probes;
use super::{HostAction, Hosts, Limits, SearchResult};
use crate::engine::timers::Timer;
use crate::engine::{ShardId, Time};
use crate::network::{Location, Mac};
use crate::state::Snapshot;

/// In how many rounds the counters of a host rise that sends and does not answer.
const ROUNDS_WITH_TRAFFIC: u32 = 3;

/// A host that somebody looks for.
#[derive(Debug)]
pub(super) struct Search {
    at: Location,
    state: SearchState,
}

#[derive(Debug)]
enum SearchState {
    Open(OpenSearch),
    /// It was found; until then nobody looks again.
    Found {
        until: Time,
    },
}

#[derive(Debug)]
struct OpenSearch {
    askers: BTreeSet<ShardId>,
    began: Time,
    /// Whether it can be asked.
    was_asked: bool,
    /// Since when nothing has come from it, as far as we know.
    silent_since: Time,
    /// What the counters said last.
    count: Option<u64>,
    /// When the reading of them began that is under way.
    reading: Option<Time>,
    /// In how many rounds they rose.
    rounds_with_traffic: u32,
    /// Its port has been down meanwhile: if it is not found, it is forgotten.
    forget_if_missing: bool,
}

impl Search {
    pub fn at(&self) -> Location {
        self.at
    }

    /// Whether it is not known yet.
    pub fn is_open(&self) -> bool {
        matches!(self.state, SearchState::Open(_))
    }

    fn open(&mut self) -> Option<&mut OpenSearch> {
        match &mut self.state {
            SearchState::Open(open) => Some(open),
            SearchState::Found { .. } => None,
        }
    }
}

impl OpenSearch {
    /// How long nothing must have come from it.
    fn quiet(&self, limits: &Limits) -> Duration {
        if self.was_asked { limits.probe_timeout * 2 } else { limits.silence }
    }

    /// Takes a reading, or learns that there is none.
    fn take(&mut self, now: Time, count: Option<u64>) {
        if let (Some(new), Some(old)) = (count, self.count) {
            // Counters fall where rules go, and what they had taken since is lost.
            if new != old {
                self.silent_since = now;
            }
            self.rounds_with_traffic += u32::from(new > old);
        }
        self.count = count.or(self.count);
    }
}

impl Hosts {
    /// The port of a host has been down. It is looked for, if it can be asked.
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
        self.begin_search(now, mac, at, None, out);
    }

    /// Somebody thinks that a host of ours is elsewhere.
    pub fn on_look(
        &mut self,
        now: Time,
        state: &Snapshot,
        (mac, at): (Mac, Location),
        asker: ShardId,
        out: &mut Vec<HostAction>,
    ) {
        // The message that it came here may be on its way still.
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
                    return;
                }
                SearchState::Found { until } if *until > now => {
                    return out.push(HostAction::ReportSearch { to: asker, mac, at, found: SearchResult::Alive });
                }
                SearchState::Found { .. } => {}
            }
        }
        self.begin_search(now, mac, at, Some(asker), out);
    }

    /// Begins to look for a host, for another shard or for ourselves.
    fn begin_search(&mut self, now: Time, mac: Mac, at: Location, asker: Option<ShardId>, out: &mut Vec<HostAction>) {
        let Some(known) = self.known.get(&(at, mac)) else { return };
        let open = OpenSearch {
            askers: asker.into_iter().collect(),
            began: now,
            was_asked: !known.announced.is_empty(),
            silent_since: now,
            count: None,
            reading: None,
            rounds_with_traffic: 0,
            forget_if_missing: asker.is_none(),
        };
        self.searches.insert(mac, Search { at, state: SearchState::Open(open) });
        self.ask_again(now, mac, out);
    }

    /// Begins a round.
    fn ask_again(&mut self, now: Time, mac: Mac, out: &mut Vec<HostAction>) {
        let Some(search) = self.searches.get_mut(&mac) else { return };
        let at = search.at;
        let Some(open) = search.open() else { return };
        open.reading = Some(now);
        if let Some(known) = self.known.get(&(at, mac)) {
            let frames = probes(mac, known.announced.iter().map(|(ip, _)| *ip));
            out.extend(frames.into_iter().map(|frame| HostAction::Emit { at, frame }));
        }
        out.push(HostAction::Count { at, mac: Some(mac) });
        out.push(HostAction::Wake(now + self.limits.probe_timeout, Timer::Search(mac)));
    }

    /// A round has ended, or what was found is old.
    pub fn on_search_timer(&mut self, now: Time, mac: Mac, out: &mut Vec<HostAction>) {
        let limits = self.limits;
        let Some(search) = self.searches.get_mut(&mac) else { return };
        match &mut search.state {
            SearchState::Found { until } if *until <= now => drop(self.searches.remove(&mac)),
            SearchState::Found { .. } => {}
            // Timers of an earlier search.
            SearchState::Open(open) if open.reading.is_some_and(|began| now < began + limits.probe_timeout) => {}
            // The switch does not say what its counters are.
            SearchState::Open(open) if open.reading.is_some() && now >= open.began + limits.silence * 2 => {
                self.not_found(mac, out);
            }
            SearchState::Open(open) if open.reading.is_some() => {
                out.push(HostAction::Wake(now + limits.probe_timeout, Timer::Search(mac)));
            }
            SearchState::Open(_) => self.ask_again(now, mac, out),
        }
    }

    /// A host's counters were read; `None` where the switch does not tell.
    pub(super) fn on_search_count(&mut self, now: Time, mac: Mac, count: Option<u64>, out: &mut Vec<HostAction>) {
        let limits = self.limits;
        let Some(search) = self.searches.get_mut(&mac) else { return };
        let at = search.at;
        let Some(open) = search.open() else { return };
        let Some(began) = open.reading.take() else { return };
        open.take(now, count);
        if open.rounds_with_traffic >= ROUNDS_WITH_TRAFFIC {
            self.found_alive(now, mac, at, out);
        } else if began >= open.silent_since + open.quiet(&limits) {
            self.not_found(mac, out);
        }
    }

    /// A host that may be looked for is there.
    pub(super) fn found_alive(&mut self, now: Time, mac: Mac, at: Location, out: &mut Vec<HostAction>) {
        if self.searches.is_empty() {
            return;
        }
        let until = refuted_until(now, &self.limits);
        let is_it = |search: &&mut Search| search.at == at && search.is_open();
        let Some(search) = self.searches.get_mut(&mac).filter(is_it) else { return };
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

    fn not_found(&mut self, mac: Mac, out: &mut Vec<HostAction>) {
        let Some(Search { at, state: SearchState::Open(open) }) = self.searches.remove(&mac) else { return };
        let found = SearchResult::Gone { was_asked: open.was_asked };
        // Who claims it gets it; without a claim nobody knows where it is.
        if open.forget_if_missing && open.askers.is_empty() {
            self.on_departure(mac, at);
            out.push(HostAction::Forget { mac, at });
        }
        out.extend(open.askers.into_iter().map(|to| HostAction::ReportSearch { to, mac, at, found }));
    }
}
