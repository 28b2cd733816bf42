//! When a switch is asked what its ports and rules have counted, and what it said.
//!
//! A switch is asked while somebody wants to know: f, by a cell ([`crate::network::Gauge`]), each [`super::Options::poll`]; people who
//! watch, once a second. What f is told depends on the former alone, whoever watches: rates are taken between rounds that are
//! a whole period apart.
//!
//! The share of the switch and of its channel that this takes is bounded: one request is under way at a time, none while the
//! switch has rules to confirm, and after an answer that took some time the switch is left alone for [`REST`] times as long.

use crate::report::Counted;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::PortNo;
use maple_wire::msg::stats::{PortStats, ReplyBody, StatsReply};
use rustc_hash::FxHashMap;

use super::Time;
use super::cookies::is_ours;
use crate::network::Gauge;
use crate::update::{EntryKey, entry_key};

/// After an answer the switch is left alone for so many times as long as it took.
const REST: u32 = 19;
/// How often, at most, a switch is asked for people who watch.
const WATCH: Duration = Duration::from_secs(1);
/// How long a watcher counts as one after asking.
const WATCHED: Duration = Duration::from_secs(5);
/// Most rules, and most ports, of which counts are kept; what a switch says beyond is not looked at.
const MOST: usize = 1 << 18;

/// What a rule took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RuleCount {
    /// Its cookie.
    pub cookie: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One answer of a switch.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// When all of it was there.
    pub at: Time,
    pub ports: FxHashMap<PortNo, PortStats>,
    /// By table and entry, as switches tell the fields of a match in an order of their own; Maple's own.
    pub rules: FxHashMap<(u8, EntryKey), RuleCount>,
}

/// The rounds of one kind.
#[derive(Debug, Default)]
struct PollSeries {
    /// What f wanted when it was last looked for.
    wanted: BTreeSet<Gauge>,
    /// What f wanted in the last round that rates were taken from.
    wanted_before: BTreeSet<Gauge>,
    /// What was measured in that round.
    measured: BTreeSet<Gauge>,
    /// The switch is not asked for f before.
    from: Time,
    /// The round that the next rates begin at.
    sample: Option<Arc<Reading>>,
    /// The two newest rounds.
    newest: Option<Arc<Reading>>,
    before: Option<Arc<Reading>>,
    /// When the switch was last asked.
    asked: Option<Time>,
    watched: Option<Time>,
    /// The switch does not tell.
    is_refused: bool,
}

/// A request that waits for its answer.
#[derive(Debug)]
struct Asked {
    xid: u32,
    what: Counted,
    at: Time,
    reading: Reading,
}

/// The polls of one switch.
#[derive(Debug, Default)]
pub(super) struct Polls {
    ports: PollSeries,
    rules: PollSeries,
    asked: Option<Asked>,
    /// The switch is left alone until then.
    rest: Time,
    /// When this is looked at next.
    pub timer: Option<Time>,
    /// The time has come, but the switch was busy.
    pub is_postponed: bool,
}

/// What a whole answer means.
pub(super) struct CompleteAnswer {
    pub what: Counted,
    pub reading: Arc<Reading>,
    /// The round that rates are to be taken from, if it is time for that.
    pub since: Option<Arc<Reading>>,
    /// What to measure.
    pub measure: BTreeSet<Gauge>,
    /// What nobody has wanted for two rounds.
    pub forget: BTreeSet<Gauge>,
}

impl PollSeries {
    fn is_wanted(&self) -> bool {
        !self.wanted.is_empty() || !self.measured.is_empty()
    }

    /// When the switch is to be asked, if it is.
    fn due(&self, now: Time, period: Duration) -> Option<Time> {
        let since = |span: Duration| self.asked.map_or(Time(0), |asked| asked + span);
        let is_watched = self.watched.is_some_and(|watched| now < watched + WATCHED);
        let wanted = (self.is_wanted() && !period.is_zero()).then(|| since(period).max(self.from));
        wanted.into_iter().chain(is_watched.then(|| since(WATCH))).min()
    }
}

impl Polls {
    fn series(&mut self, what: Counted) -> &mut PollSeries {
        match what {
            Counted::Ports => &mut self.ports,
            Counted::Rules => &mut self.rules,
        }
    }

    /// The two newest rounds, the newest first.
    pub fn readings(&self, what: Counted) -> (Option<&Arc<Reading>>, Option<&Arc<Reading>>) {
        let series = match what {
            Counted::Ports => &self.ports,
            Counted::Rules => &self.rules,
        };
        (series.newest.as_ref(), series.before.as_ref())
    }

    /// What f wants now; the switch is not asked before `from` if f wanted nothing so far.
    pub fn want(&mut self, what: Counted, wanted: BTreeSet<Gauge>, from: Time) {
        let series = self.series(what);
        if !series.is_wanted() {
            series.from = from;
        }
        series.wanted = wanted;
    }

    /// Somebody watches.
    pub fn watch(&mut self, now: Time, what: Counted) {
        self.series(what).watched = Some(now);
    }

    /// What the switch is to be asked and when, if nothing is under way.
    pub fn next(&self, now: Time, period: Duration) -> Option<(Time, Counted)> {
        if self.asked.is_some() {
            return None;
        }
        let due = |what, series: &PollSeries| series.due(now, period).map(|due| (due.max(self.rest), what));
        due(Counted::Ports, &self.ports).into_iter().chain(due(Counted::Rules, &self.rules)).min()
    }

    /// The switch is asked.
    pub fn on_asked(&mut self, now: Time, xid: u32, what: Counted) {
        self.series(what).asked = Some(now);
        self.asked = Some(Asked { xid, what, at: now, reading: Reading::default() });
        self.is_postponed = false;
    }

    /// Whether this is an answer to a poll.
    pub fn is_answer(&self, xid: u32) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.xid == xid)
    }

    /// A part of an answer; the whole, if it is the last one.
    pub fn on_answer(&mut self, now: Time, period: Duration, reply: &StatsReply) -> Option<CompleteAnswer> {
        let asked = self.asked.as_mut()?;
        asked.reading.add_part(&reply.body);
        if reply.more() {
            return None;
        }
        let Asked { what, at, mut reading, .. } = self.asked.take()?;
        let took = now.0.saturating_sub(at.0);
        self.rest = Time(now.0.saturating_add(took.saturating_mul(u64::from(REST))));
        reading.at = now;
        let reading = Arc::new(reading);
        let series = self.series(what);
        series.is_refused = false;
        series.before = series.newest.replace(Arc::clone(&reading));
        Some(series.whole(what, reading, period))
    }

    /// The switch does not tell. Gives what is not known any more, and what it was asked for if that is news.
    pub fn on_refused(&mut self) -> (BTreeSet<Gauge>, Option<Counted>) {
        let Some(Asked { what, .. }) = self.asked.take() else { return (BTreeSet::new(), None) };
        let series = self.series(what);
        let is_news = !std::mem::replace(&mut series.is_refused, true);
        series.sample = None;
        series.wanted_before.clear();
        (std::mem::take(&mut series.measured), is_news.then_some(what))
    }

    /// The switch was not asked: it is when it is time again.
    pub fn on_unsent(&mut self) {
        self.asked = None;
    }
}

impl PollSeries {
    fn whole(&mut self, what: Counted, reading: Arc<Reading>, period: Duration) -> CompleteAnswer {
        let mut whole =
            CompleteAnswer { what, reading, since: None, measure: BTreeSet::new(), forget: BTreeSet::new() };
        if !self.is_wanted() {
            // The next that is wanted begins anew.
            self.sample = None;
            return whole;
        }
        // A round for those who watch comes between.
        let age =
            self.sample.as_ref().map(|sample| Duration::from_nanos(whole.reading.at.0.saturating_sub(sample.at.0)));
        if age.is_some_and(|age| age < period * 9 / 10) {
            return whole;
        }
        let sample = self.sample.replace(Arc::clone(&whole.reading));
        // After a pause a rate over all of it would say nothing of now.
        whole.since = sample.filter(|_| age.is_some_and(|age| age < period * 3));
        // What nobody wants at this moment may be wanted again at the next: its memory is kept for one more round.
        whole.measure = self.wanted.union(&self.wanted_before).copied().collect();
        whole.forget = self.measured.difference(&whole.measure).copied().collect();
        self.wanted_before.clone_from(&self.wanted);
        self.measured.clone_from(&whole.measure);
        whole
    }
}

impl Reading {
    fn add_part(&mut self, body: &ReplyBody) {
        match body {
            ReplyBody::Port(ports) => {
                let capacity = MOST.saturating_sub(self.ports.len());
                self.ports.extend(ports.iter().take(capacity).map(|port| (port.port, *port)));
            }
            ReplyBody::Flow(flows) => {
                let capacity = MOST.saturating_sub(self.rules.len());
                let own = flows.iter().filter(|flow| is_ours(flow.cookie)).take(capacity);
                self.rules.extend(own.map(|flow| {
                    let count = RuleCount { cookie: flow.cookie, packets: flow.packet_count, bytes: flow.byte_count };
                    ((flow.table_id, entry_key(flow.priority, &flow.matching)), count)
                }));
            }
            _ => {}
        }
    }
}
