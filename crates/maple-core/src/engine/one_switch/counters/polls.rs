//! Polls: decides when a switch is asked for the counters of its ports and rules, and keeps its answers.
//!
//! A switch is polled while something wants its counters: f, through a cell ([`crate::network::Gauge`]), once every
//! [`crate::engine::Options::poll`]; for people, once a second. The rates for f depend only on the polls for f: they
//! are computed between readings that are a whole period apart.
//!
//! The load on the switch and its connection is bounded. At most one request is open. None is sent while the switch has
//! rules to confirm. After an answer, the switch is left alone for [`REST_FACTOR`] times as long as the answer took.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::msg::stats::{FlowStats, PortStats, ReplyBody, StatsReply};
use maple_wire::{PortNo, Version};
use rustc_hash::FxHashMap;

use crate::engine::messages::event::RuleCount;
use crate::engine::one_switch::cookies::is_ours;
use crate::engine::tools::expected::Expected;
use crate::ids::Time;
use crate::network::Gauge;
use crate::report::CounterKind;
use crate::update::{EntryKey, entry_key};

/// The rest after an answer, as a multiple of the time that the answer took. So the switch spends at most a twentieth
/// of its time on answers. Chosen: a share that a switch can spare, and a slow one is still polled.
pub(in crate::engine) const REST_FACTOR: u32 = 19;
/// The minimum time between two polls for people. Chosen: figures on a screen that change more often cannot be read.
const SHOWN_PERIOD: Duration = Duration::from_secs(1);
/// The time for which counters are polled for a person after the last question. It must exceed the time between two
/// questions of a page that shows them.
const SHOWN_FOR: Duration = Duration::from_secs(5);
/// The time after which a poll of a busy switch is tried again, if its barrier reply does not come before. Chosen: a
/// small part of the shortest period, and the look costs nothing at the switch.
const BUSY_RETRY: Duration = Duration::from_millis(100);
/// The maximum number of rules, and of ports, whose counters are kept. Further ones in an answer are ignored. Chosen:
/// more than the tables of switches hold, and a bound on what an answer can cost.
const MAX_KEPT: usize = 1 << 18;

/// A rule of Maple in a reading.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct CountedRule {
    pub count: RuleCount,
    /// The age of the counters in OpenFlow 1.0, where a rule that takes the place of another begins anew. `None` in
    /// 1.3, where it goes on with the counters of its predecessor.
    age: Option<Duration>,
}

/// One complete answer of a switch.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct StatisticsReading {
    /// The time when the answer was complete.
    pub at: Time,
    pub ports: FxHashMap<PortNo, PortStats>,
    /// The counters of Maple's own rules, by table and entry, because switches order the fields of a match differently.
    pub rules: FxHashMap<(u8, EntryKey), CountedRule>,
}

/// The polls of one kind: of ports, or of rules.
#[derive(Debug, Default)]
struct PollSeries {
    /// The gauges that f wants now.
    wanted: BTreeSet<Gauge>,
    /// The gauges that f wanted at the last reading from which rates were computed.
    wanted_before: BTreeSet<Gauge>,
    /// The gauges measured at that reading.
    measured: BTreeSet<Gauge>,
    /// The time before which the switch is not polled for f.
    from: Time,
    /// The reading from which the next rates begin.
    sample: Option<Arc<StatisticsReading>>,
    /// The two newest readings.
    newest: Option<Arc<StatisticsReading>>,
    before: Option<Arc<StatisticsReading>>,
    /// The time when the switch was last asked.
    asked: Option<Time>,
    shown: Option<Time>,
    /// Whether the switch refuses to report its counters.
    is_refused: bool,
}

/// A request that is not answered yet.
#[derive(Debug)]
struct OpenRequest {
    xid: u32,
    what: CounterKind,
    at: Time,
    reading: StatisticsReading,
}

/// The polls of one switch.
#[derive(Debug, Default)]
pub(in crate::engine) struct Polls {
    ports: PollSeries,
    rules: PollSeries,
    open_request: Option<OpenRequest>,
    /// The time until which the switch is left alone.
    rest: Time,
    /// The time when the timer for the next poll fires.
    timer: Option<Time>,
    /// Whether a poll was due, but the switch was busy.
    is_postponed: bool,
    kept: BTreeSet<Gauge>,
}

/// A complete answer, and the gauges to measure and to forget after it.
pub(in crate::engine) struct CompleteAnswer {
    pub what: CounterKind,
    pub reading: Arc<StatisticsReading>,
    /// The earlier reading for computing rates, if that is due.
    pub since: Option<Arc<StatisticsReading>>,
    /// The gauges to measure.
    pub measure: BTreeSet<Gauge>,
    /// The gauges that nothing has wanted for two readings.
    pub forget: BTreeSet<Gauge>,
}

impl PollSeries {
    fn is_wanted(&self) -> bool {
        !self.wanted.is_empty() || !self.measured.is_empty()
    }

    /// Returns when the switch is to be asked, if at all.
    fn due(&self, now: Time, period: Duration) -> Option<Time> {
        let since = |span: Duration| self.asked.map_or(Time(0), |asked| asked + span);
        let is_shown = self.shown.is_some_and(|shown| now < shown + SHOWN_FOR);
        let wanted = (self.is_wanted() && !period.is_zero()).then(|| since(period).max(self.from));
        wanted.into_iter().chain(is_shown.then(|| since(SHOWN_PERIOD))).min()
    }

    fn complete(
        &mut self,
        what: CounterKind,
        reading: Arc<StatisticsReading>,
        period: Duration,
        rest: Duration,
    ) -> CompleteAnswer {
        let mut complete =
            CompleteAnswer { what, reading, since: None, measure: BTreeSet::new(), forget: BTreeSet::new() };
        if !self.is_wanted() {
            // The next wanted series starts from the beginning.
            self.sample = None;
            return complete;
        }
        // A reading for people came in between.
        let age = self.sample.as_ref().map(|sample| complete.reading.since(sample));
        if age.is_some_and(|age| age < period * 9 / 10) {
            return complete;
        }
        let sample = self.sample.replace(Arc::clone(&complete.reading));
        // After a pause, a rate over all of it would not describe the present.
        complete.since = sample.filter(|_| age.is_some_and(|age| age < period.max(rest) * 3));
        // A gauge that is unwanted now may be wanted again soon, so its history is kept for one more reading.
        complete.measure = self.wanted.union(&self.wanted_before).copied().collect();
        complete.forget = self.measured.difference(&complete.measure).copied().collect();
        self.wanted_before.clone_from(&self.wanted);
        self.measured.clone_from(&complete.measure);
        complete
    }
}

impl Polls {
    fn series(&self, what: CounterKind) -> &PollSeries {
        match what {
            CounterKind::Ports => &self.ports,
            CounterKind::Rules => &self.rules,
        }
    }

    fn series_mut(&mut self, what: CounterKind) -> &mut PollSeries {
        match what {
            CounterKind::Ports => &mut self.ports,
            CounterKind::Rules => &mut self.rules,
        }
    }

    /// Returns the two newest readings, the newest first.
    pub fn readings(&self, what: CounterKind) -> (Option<&Arc<StatisticsReading>>, Option<&Arc<StatisticsReading>>) {
        let series = self.series(what);
        (series.newest.as_ref(), series.before.as_ref())
    }

    /// Sets the gauges that f wants. If f wanted none so far, the switch is not asked before `from`.
    pub fn set_wanted(&mut self, what: CounterKind, wanted: BTreeSet<Gauge>, from: Time) {
        let series = self.series_mut(what);
        if !series.is_wanted() {
            series.from = from;
        }
        series.wanted = wanted;
    }

    /// Reports whether f wants the rates of pairs of hosts.
    pub fn wants_pairs(&self) -> bool {
        !self.rules.wanted.is_empty()
    }

    /// Notes that a person looks at these counters.
    pub fn show(&mut self, now: Time, what: CounterKind) {
        self.series_mut(what).shown = Some(now);
    }

    /// Returns what to ask the switch next, and when; `None` while a request is open or if nothing is wanted.
    pub fn next(&self, now: Time, period: Duration) -> Option<(Time, CounterKind)> {
        if self.open_request.is_some() {
            return None;
        }
        let due = |what, series: &PollSeries| series.due(now, period).map(|due| (due.max(self.rest), what));
        due(CounterKind::Ports, &self.ports).into_iter().chain(due(CounterKind::Rules, &self.rules)).min()
    }

    /// Plans a timer for the next poll. Returns whether it is to be set, because none fires before.
    pub fn plan_timer(&mut self, now: Time, due: Time) -> bool {
        let is_first = self.timer.is_none_or(|timer| timer <= now || due < timer);
        if is_first {
            self.timer = Some(due);
        }
        is_first
    }

    /// Postpones the poll that is due, because the switch is busy. Returns whether it was not postponed before, and the
    /// time of a timer, if one is to be set.
    pub fn postpone(&mut self, now: Time) -> (bool, Option<Time>) {
        let is_new = !std::mem::replace(&mut self.is_postponed, true);
        if self.timer.is_some_and(|timer| timer > now) {
            return (is_new, None);
        }
        self.timer = Some(now + BUSY_RETRY);
        (is_new, self.timer)
    }

    /// Reports whether a poll was due, but the switch was busy.
    pub fn is_postponed(&self) -> bool {
        self.is_postponed
    }

    /// Notes that the switch was asked.
    pub fn on_asked(&mut self, now: Time, xid: u32, what: CounterKind) {
        self.series_mut(what).asked = Some(now);
        self.open_request = Some(OpenRequest { xid, what, at: now, reading: StatisticsReading::default() });
        self.is_postponed = false;
    }

    /// Reports whether a reply with this transaction id answers the open request.
    pub fn is_answer(&self, xid: u32) -> bool {
        self.open_request.as_ref().is_some_and(|request| request.xid == xid)
    }

    /// Adds a part of an answer. Returns the complete answer with its last part.
    pub fn on_answer(
        &mut self,
        now: Time,
        period: Duration,
        version: Version,
        reply: &StatsReply,
    ) -> Option<CompleteAnswer> {
        let request = self.open_request.as_mut()?;
        request.reading.add_part(version, &reply.body);
        if reply.more() {
            return None;
        }
        let OpenRequest { what, at, mut reading, .. } = self.open_request.take()?;
        let took = now.0.saturating_sub(at.0);
        self.rest = Time(now.0.saturating_add(took.saturating_mul(u64::from(REST_FACTOR))));
        reading.at = now;
        let reading = Arc::new(reading);
        let series = self.series_mut(what);
        series.is_refused = false;
        series.before = series.newest.replace(Arc::clone(&reading));
        // A poll comes no sooner than after the rest.
        let rest = Duration::from_nanos(took) * (REST_FACTOR + 1);
        Some(series.complete(what, reading, period, rest))
    }

    /// Notes that the switch refuses to report its counters. Returns the gauges whose rates have become unknown, and
    /// what the switch was asked for unless that was reported before.
    pub fn on_refused(&mut self) -> (BTreeSet<Gauge>, Option<CounterKind>) {
        let Some(OpenRequest { what, .. }) = self.open_request.take().expected() else {
            return (BTreeSet::new(), None);
        };
        let series = self.series_mut(what);
        let is_news = !std::mem::replace(&mut series.is_refused, true);
        series.sample = None;
        series.wanted_before.clear();
        (std::mem::take(&mut series.measured), is_news.then_some(what))
    }

    /// Returns the gauges whose rates the newest answer did not change, because it could not show all of the traffic.
    pub fn kept_rates(&self) -> &BTreeSet<Gauge> {
        &self.kept
    }

    /// Sets the gauges that [`Polls::kept_rates`] returns.
    pub fn keep_rates(&mut self, gauges: &BTreeSet<Gauge>) {
        self.kept.clone_from(gauges);
    }

    /// Forgets a request that was not sent. The switch is asked when it is due again.
    pub fn on_unsent(&mut self) {
        self.open_request = None;
    }
}

impl CountedRule {
    fn from_flow_stats(version: Version, flow: &FlowStats) -> CountedRule {
        let count = RuleCount { cookie: flow.cookie, packets: flow.packet_count, bytes: flow.byte_count };
        let age = || Duration::from_secs(flow.duration_sec.into()) + Duration::from_nanos(flow.duration_nsec.into());
        CountedRule { count, age: (version == Version::Of10).then(age) }
    }

    /// Reports whether these counters continue those of `before`, a rule with the same table, priority and match that
    /// was read `span` earlier.
    ///
    /// The cookie, the counters and the age decide: the counters alone do not, since a new rule may soon have counted
    /// more than the one before it.
    pub fn continues(&self, before: &CountedRule, span: Duration) -> bool {
        let is_younger = |(age, before): (Duration, Duration)| age != before && age < before + span / 2;
        self.count.cookie == before.count.cookie
            && self.count.bytes >= before.count.bytes
            && !self.age.zip(before.age).is_some_and(is_younger)
    }
}

impl StatisticsReading {
    /// Returns the time from an earlier reading to this one.
    pub fn since(&self, before: &StatisticsReading) -> Duration {
        Duration::from_nanos(self.at.0.saturating_sub(before.at.0))
    }

    fn add_part(&mut self, version: Version, body: &ReplyBody) {
        match body {
            ReplyBody::Port(ports) => {
                let capacity = MAX_KEPT.saturating_sub(self.ports.len());
                self.ports.extend(ports.iter().take(capacity).map(|port| (port.port, *port)));
            }
            ReplyBody::Flow(flows) => {
                let capacity = MAX_KEPT.saturating_sub(self.rules.len());
                let own = flows.iter().filter(|flow| is_ours(flow.cookie)).take(capacity);
                self.rules.extend(own.map(|flow| {
                    (
                        (flow.table_id, entry_key(flow.priority, &flow.matching)),
                        CountedRule::from_flow_stats(version, flow),
                    )
                }));
            }
            _ => {}
        }
    }
}
