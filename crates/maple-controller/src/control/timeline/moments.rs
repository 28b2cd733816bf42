//! Answers of the timeline about moments, as JSON.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use maple_core::engine::Time;
use maple_core::network::{HostInfo, Location, PortInfo};
use maple_wire::Dpid;
use serde_json::{Value, json};

use super::clock::{DRIFT, HELD, OrderedClock};
use super::entry::{DropThen, Entry, Known, LineThen, RatesThen};
use super::network::{NetworkChange, NetworkThen};
use super::span_answers::{SpanAnswer, SpanStart};
use super::timeline_state::{ON_DISK, TimelineState};
use super::view::{Gap, Part, ReadError, ReadFile};
use super::{DiskReader, MILLISECOND, Timeline};
use crate::control::Handle;
use crate::control::answer::{host, kind, location, milliseconds};
use crate::control::doctor::quoted;
use crate::control::map;
use crate::control::request::{RefusalKind, RequestError, TimeSpan};

/// The maximum number of points of rates in an answer. Chosen: a line on a screen shows a point for every few pixels; a
/// day has one for each three minutes.
const MAX_POINTS: usize = 480;
/// The maximum number of lines of the log in an answer. Chosen: about as many as the log itself keeps.
const MAX_LINES: usize = 1000;
/// The maximum number of kinds of drops in an answer. Chosen: more than people look at; the rest is one sum.
const MAX_DROPS: usize = 1000;

/// Answers with the moments that are kept, and the rates of that time.
///
/// # Errors
/// [`RequestError`] if there is no timeline.
pub(in crate::control) fn overview(handle: &Handle) -> Result<Value, RequestError> {
    let timeline = timeline(handle)?;
    let recording = handle
        .operations()
        .recording()
        .filter(|recording| recording.failure().is_none())
        .map(|recording| recording.folder());
    let kept = timeline.kept();
    let kept = match kept.as_ref() {
        Ok(kept) => kept,
        Err(why) => {
            return Ok(json!({
                "from": null, "to": null, "gaps": [], "in_files": true, "bytes": 0, "most_bytes": ON_DISK.bytes.all,
                "rates": [], "recording": recording, "trouble": why,
            }));
        }
    };
    let (bytes, most_bytes) = kept.segments.size();
    let each = kept.rates.all.len().div_ceil(MAX_POINTS).max(1);
    let rates: Vec<(u64, RatesThen)> = kept.rates.all.iter().copied().collect();
    let point = |some: &[(u64, RatesThen)]| {
        let joined = some.iter().copied().reduce(|(_, sum), (time, next)| (time, sum.join(next)));
        joined.map(|(time, rates)| rates_at(kept.clock.shown(time), rates))
    };
    Ok(json!({
        "from": kept.range().map(|(from, _)| kept.clock.shown(from)),
        "to": kept.range().map(|(_, to)| kept.clock.shown(to)),
        "gaps": gaps(kept, 0, u64::MAX),
        "in_files": kept.segments.in_files(),
        "bytes": bytes,
        "most_bytes": most_bytes,
        "rates": rates.chunks(each).filter_map(point).collect::<Value>(),
        "recording": recording,
        "trouble": null,
    }))
}

/// Answers with the network at a moment, in milliseconds since 1970; without one, as it is kept now.
///
/// # Errors
/// [`RequestError`] if the moment is not kept, or the disk is late.
pub(in crate::control) fn at(handle: &Handle, time: Option<u64>) -> Result<Value, RequestError> {
    let Moment { time, network: then, known, passed } = timeline(handle)?.moment(time, now()).map_err(refused)?;
    let mut hosts: BTreeMap<Dpid, u64> = BTreeMap::new();
    for host in then.hosts.values() {
        *hosts.entry(host.location.switch).or_default() += 1;
    }
    let (names, places) = (handle.names(), map::places(handle));
    let switch = |(dpid, connected): (&Dpid, &bool)| {
        let place = places(*dpid);
        json!({
            "switch": dpid.to_string(), "name": names.of_switch(*dpid), "connected": connected,
            "x": place.map(|(x, _)| x), "y": place.map(|(_, y)| y),
            "hosts": hosts.get(dpid).copied().unwrap_or_default(),
        })
    };
    let link = |(from, to): (Location, Location)| json!({ "from": location(from), "to": location(to) });
    Ok(json!({
        "time": time,
        "version": known.version,
        "pending": known.pending,
        "not_kept": known.beyond,
        "unseen": known.unseen,
        "late": known.late,
        "replay": passed.and_then(|passed| replay_command(handle, passed)),
        "switches": then.switches.iter().map(switch).collect::<Value>(),
        "links": then.links().map(link).collect::<Value>(),
        "hosts": then.hosts.iter().map(|(mac, info)| host(*mac, info)).collect::<Value>(),
    }))
}

/// Returns the command that prints the network at a time of this run, in milliseconds, as its recording has it. `None`
/// without a recording that goes on.
fn replay_command(handle: &Handle, passed: u64) -> Option<String> {
    let recording = handle.operations().recording().filter(|recording| recording.failure().is_none())?;
    // With all that a look in this millisecond has seen, though the clocks may be a little apart.
    let until = recording.timestamp(Time((passed + DRIFT + 2) * MILLISECOND));
    let folder = std::path::absolute(recording.folder()).unwrap_or_else(|_| recording.folder().to_owned());
    Some(format!("maple replay {} --until {until} --network", quoted(folder)))
}

/// Answers with what differs between two moments, and what happened between them.
///
/// # Errors
/// [`RequestError`] if one of the moments is not kept, or the disk is late.
pub(in crate::control) fn changes(handle: &Handle, span: &TimeSpan) -> Result<Value, RequestError> {
    let Span { from, to, before, after, gaps, happened } =
        timeline(handle)?.span((span.from, span.to), now()).map_err(refused)?;
    let mut answer = differences(&before, &after);
    (answer["from"], answer["to"], answer["gaps"]) = (from.into(), to.into(), gaps);
    let (drops, others) = happened.drops();
    (answer["drops"], answer["other_drops"]) = (drops, others.into());
    answer["left_out"] = happened.left_out.into();
    answer["lines"] = Vec::from(happened.lines).into();
    Ok(answer)
}

fn timeline(handle: &Handle) -> Result<&Arc<Timeline>, RequestError> {
    handle.timeline().ok_or_else(|| not_kept("", "this controller keeps no timeline"))
}

fn now() -> u64 {
    milliseconds(SystemTime::now())
}

fn not_kept(field: &str, why: &str) -> RequestError {
    let text = if field.is_empty() { why.to_owned() } else { format!("{field}: {why}") };
    RequestError::at(field, text).of_kind(RefusalKind::NotKept)
}

fn late_disk(text: String) -> RequestError {
    RequestError::at("", text).of_kind(RefusalKind::LateDisk)
}

fn refused(refused: Refused) -> RequestError {
    match refused {
        Refused::NotKept(field, why) => not_kept(field, &why),
        Refused::Order => {
            let field = "show.time_changes.to";
            RequestError::at(field, format!("{field}: must not be before from"))
        }
        Refused::Late => late_disk("the disk has not answered in time".to_owned()),
        Refused::Disk(why) => late_disk(format!("the disk can't be read now: {why}")),
    }
}

/// The reason why a moment or a span can't be shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The time is not kept. With the member of the request that names it, and why.
    NotKept(&'static str, String),
    /// The earlier moment is after the later one.
    Order,
    /// The disk has not answered in time.
    Late,
    /// The system refuses to read what is kept, for this reason. It may do so later.
    Disk(String),
}

/// A moment, by the clock as it is set now.
#[derive(Debug)]
pub(super) struct Moment {
    pub time: u64,
    pub network: NetworkThen,
    pub known: Known,
    /// The time of the run's clock, in milliseconds, if it was in this run.
    pub passed: Option<u64>,
}

/// Two moments, and what happened between them.
#[derive(Debug)]
pub(super) struct Span {
    pub from: u64,
    pub to: u64,
    pub before: Arc<NetworkThen>,
    pub after: NetworkThen,
    pub gaps: Value,
    pub happened: Happened,
}

/// The parts that a span is read from.
struct SpanParts {
    from: u64,
    to: u64,
    parts: Vec<Part>,
    gaps: Value,
    clock: OrderedClock,
}

impl Timeline {
    /// Returns the network at a moment; without one, as it is kept now.
    ///
    /// # Errors
    /// [`Refused`] if the moment is not kept, or the disk is late.
    pub(super) fn moment(&self, time: Option<u64>, now: u64) -> Result<Moment, Refused> {
        let (refused, reader) = (|why| Refused::NotKept("show.time_at", why), self.reader());
        loop {
            let (part, own, shown, passed) = {
                let kept = self.kept();
                let kept = kept.as_ref().map_err(|why| refused(why.clone()))?;
                let own = own_time(kept, time, now);
                (kept.part_of(own).map_err(refused)?, own, kept.clock.shown(own), kept.run_times.passed(own))
            };
            if let Some((network, known)) = self.tried(&part, &reader, |read| part.network_at(read, own))? {
                return Ok(Moment { time: shown, network, known, passed });
            }
        }
    }

    /// Returns two moments and what happened between them; by default from the first one to the last one. A moment that
    /// lies in a gap becomes the nearest one within the span that is kept.
    ///
    /// # Errors
    /// [`Refused`] if the span is not kept, or the disk is late.
    pub(super) fn span(&self, span: (Option<u64>, Option<u64>), now: u64) -> Result<Span, Refused> {
        let reader = self.reader();
        'again: loop {
            let SpanParts { from, to, parts, gaps, clock } = self.span_parts(span, now)?;
            let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
                return Err(Refused::NotKept("", "nothing is kept yet".to_owned()));
            };
            // What was before the first look is shown with it.
            let since = if span.0.is_none() { from } else { from + 1 };
            let start = SpanStart { first: first.number, from, since, ahead: clock.ahead() };
            let mut answer = self.span_answers().of(&start, last.number, Instant::now());
            let (mut after, known) = (NetworkThen::default(), answer.until);
            for part in parts.iter().filter(|part| Some(part.number) > known) {
                let (is_first, is_last) = (part.number == first.number, part.number == last.number);
                if is_last && answer.until != known {
                    self.span_answers().add(start, answer.clone(), Instant::now());
                }
                let each = |read: ReadFile<'_>| {
                    part.each(read, |one| {
                        if is_first && one.time <= from {
                            Arc::make_mut(&mut answer.before).follow(&one.entry);
                        }
                        if is_last && one.time <= to {
                            after.follow(&one.entry);
                        }
                        if (since..=to).contains(&one.time) {
                            answer.happened.add(clock.shown(one.time), one.entry);
                        }
                    })
                };
                match self.tried(part, &reader, each) {
                    Ok(Some(())) => answer.until = Some(part.number),
                    Ok(None) => continue 'again,
                    Err(refused) => {
                        // Nothing of this part was read. The next request goes on here.
                        if answer.until != known && matches!(refused, Refused::Late | Refused::Disk(_)) {
                            self.span_answers().add(start, answer, Instant::now());
                        }
                        return Err(refused);
                    }
                }
            }
            let SpanAnswer { before, happened, .. } = answer;
            return Ok(Span { from: clock.shown(from), to: clock.shown(to), before, after, gaps, happened });
        }
    }

    fn span_parts(&self, (from, to): (Option<u64>, Option<u64>), now: u64) -> Result<SpanParts, Refused> {
        let (in_from, in_to) = ("show.time_changes.from", "show.time_changes.to");
        let kept = self.kept();
        let kept = kept.as_ref().map_err(|why| Refused::NotKept(in_from, why.clone()))?;
        let from = match from {
            None => kept.range().map_or(0, |(from, _)| from),
            from => own_time(kept, from, now),
        };
        let to = own_time(kept, to, now);
        let (first, last) = (kept.nearest(from).0, kept.nearest(to).1);
        kept.part_of(first).map_err(|why| Refused::NotKept(in_from, why))?;
        kept.part_of(last).map_err(|why| Refused::NotKept(in_to, why))?;
        if from > to {
            return Err(Refused::Order);
        }
        if first > last {
            // Both lie in one gap.
            let why = kept.part_of(from).err().unwrap_or_default();
            return Err(Refused::NotKept(in_from, why));
        }
        Ok(SpanParts {
            from: first,
            to: last,
            parts: kept.parts(first, last),
            gaps: gaps(kept, from, to),
            clock: kept.clock,
        })
    }

    /// Reads a part. What turns out to be unreadable becomes a gap, and nothing is returned.
    fn tried<T>(
        &self,
        part: &Part,
        reader: &DiskReader<'_>,
        of: impl FnOnce(ReadFile<'_>) -> Result<T, ReadError>,
    ) -> Result<Option<T>, Refused> {
        match of(&|number, length| reader.read(number, length)) {
            Ok(read) => Ok(Some(read)),
            Err(ReadError::Late) => Err(Refused::Late),
            Err(ReadError::Refused(why)) => Err(Refused::Disk(why)),
            // Reading it again would change nothing.
            Err(ReadError::Unreadable(why)) if part.is_in_memory() => {
                tracing::error!("the timeline: what is in memory can't be read: {why}");
                Err(Refused::NotKept("", format!("what was kept can't be read: {why}")))
            }
            Err(ReadError::Unreadable(why)) => {
                if let Ok(kept) = self.kept().as_mut() {
                    kept.segments.lose(part.number, &why);
                }
                Ok(None)
            }
        }
    }
}

/// Returns a moment by the timeline's clock; without one, the newest. What has happened since that is about to be kept,
/// unless nobody has looked for too long.
fn own_time(kept: &TimelineState, time: Option<u64>, now: u64) -> u64 {
    let newest = kept.range().map_or(0, |(_, to)| to);
    match time {
        None => newest,
        Some(time) if time <= now && kept.clock.own(time) <= newest.saturating_add(HELD) => {
            kept.clock.own(time).min(newest)
        }
        Some(time) => kept.clock.own(time),
    }
}

/// Encodes the times within a span of which not everything is kept.
fn gaps(kept: &TimelineState, from: u64, to: u64) -> Value {
    let mut all: Vec<Gap> = kept.gaps().chain(kept.late()).filter(|gap| gap.from <= to && from <= gap.to).collect();
    all.sort_by_key(|gap| (gap.from, gap.to));
    let gap = |Gap { from, to, why }: &Gap| {
        let (from, to) = (kept.clock.shown(*from), kept.clock.shown(*to));
        json!({ "from": from, "to": to, "why": why.name(), "text": why.to_string() })
    };
    all.iter().map(gap).collect()
}

fn rates_at(time: u64, rates: RatesThen) -> Value {
    let RatesThen { span, growth, switches, links, hosts, changes, pending, left_out, .. } = rates;
    let growth = growth.filter(|growth| growth.span > 0);
    let (counts, of) = (growth.map(|growth| growth.counts), growth.map_or(0, |growth| growth.span));
    let rate = |count: u64| (count as f64 / of as f64 * 1_000_000.0).round() / 1000.0;
    json!({
        "time": time, "seconds": span as f64 / 1000.0, "switches": switches, "links": links, "hosts": hosts, "changes": changes,
        "pending": pending, "left_out": left_out,
        "packet_ins_per_second": counts.map(|counts| rate(counts.packet_ins)),
        "decisions_per_second": counts.map(|counts| rate(counts.decisions)),
        "flow_mods_per_second": counts.map(|counts| rate(counts.flow_mods)),
        "failures_per_second": counts.map(|counts| rate(counts.failures)),
    })
}

/// Encodes how two moments differ.
fn differences(before: &NetworkThen, after: &NetworkThen) -> Value {
    let (mut switches, mut ports, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
    for change in before.changes_to_other(after) {
        match change {
            NetworkChange::Switch(dpid, now) => {
                let was = before.switches.get(&dpid);
                let word = change_word(was, now.as_ref(), |_, now| if *now { "connected" } else { "unreachable" });
                switches.push(json!({ "switch": dpid.to_string(), "how": word }));
            }
            NetworkChange::Port(at, now) => {
                let was = before.ports.get(&at);
                let word = change_word(was, now.as_ref(), |was, now| match (was.up, now.up) {
                    (false, true) => "up",
                    (true, false) => "down",
                    _ => "changed",
                });
                let mut row = location(at);
                (row["how"], row["before"], row["after"]) =
                    (word.into(), json!(was.map(port)), json!(now.as_ref().map(port)));
                ports.push(row);
            }
            NetworkChange::Host(mac, now) => {
                let was = before.hosts.get(&mac);
                let word =
                    change_word(
                        was,
                        now.as_ref(),
                        |was, now| if was.location == now.location { "changed" } else { "moved" },
                    );
                let host_then = |info: Option<&HostInfo>| info.map(|info| host(mac, info));
                hosts.push(json!({ "mac": mac.to_string(), "how": word, "before": host_then(was), "after": host_then(now.as_ref()) }));
            }
        }
    }
    json!({ "switches": switches, "ports": ports, "links": links(before, after), "hosts": hosts })
}

/// Returns the word for how a part changed.
fn change_word<T>(was: Option<&T>, now: Option<&T>, other: impl Fn(&T, &T) -> &'static str) -> &'static str {
    match (was, now) {
        (Some(was), Some(now)) => other(was, now),
        (None, _) => "added",
        (_, None) => "gone",
    }
}

fn port(info: &PortInfo) -> Value {
    json!({ "up": info.up, "kind": kind(info.kind) })
}

/// Encodes the links of one of two moments only.
fn links(before: &NetworkThen, after: &NetworkThen) -> Value {
    let only = |some: &NetworkThen, other: &NetworkThen, word: &str| -> Vec<Value> {
        let missing = some.links().filter(|(from, to)| other.peer(*from) != Some(*to));
        missing.map(|(from, to)| json!({ "from": location(from), "to": location(to), "how": word })).collect()
    };
    [only(before, after, "gone"), only(after, before, "added")].concat().into()
}

/// The events between two moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Happened {
    /// The latest lines, encoded.
    pub lines: VecDeque<Value>,
    /// The packets that were dropped, by line, reason and switch.
    drops: BTreeMap<(Option<String>, String, Dpid), u64>,
    other_drops: u64,
    /// The number of lines that are left out.
    pub left_out: u64,
}

impl Happened {
    fn add(&mut self, time: u64, entry: Entry) {
        match entry {
            Entry::Line(LineThen { before, number, level, area, text }) => {
                if self.lines.len() == MAX_LINES {
                    self.lines.pop_front();
                    self.left_out = self.left_out.saturating_add(1);
                }
                let time = time.saturating_sub(before);
                self.lines
                    .push_back(json!({ "number": number, "time": time, "level": level, "area": area, "text": text }));
            }
            Entry::Drops { rows, others } => {
                self.other_drops = self.other_drops.saturating_add(others);
                for DropThen { packets, switch, line, why } in rows {
                    let sum = self.drops.entry((line, why, switch)).or_default();
                    *sum = sum.saturating_add(packets);
                }
            }
            Entry::Rates(rates) => self.left_out = self.left_out.saturating_add(rates.left_out),
            Entry::Begin(_) | Entry::Look { .. } => {}
        }
    }

    /// Encodes the drops, those with the most packets first, and the packets of all others.
    fn drops(&self) -> (Value, u64) {
        let mut rows: Vec<_> = self.drops.iter().collect();
        rows.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        let others = rows.iter().skip(MAX_DROPS).fold(self.other_drops, |sum, row| sum.saturating_add(*row.1));
        let row = |((line, why, switch), packets): (&(Option<String>, String, Dpid), &u64)| json!({ "packets": packets, "switch": switch.to_string(), "line": line, "why": why });
        (rows.into_iter().take(MAX_DROPS).map(row).collect(), others)
    }
}
