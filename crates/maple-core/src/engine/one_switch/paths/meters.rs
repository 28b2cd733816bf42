//! The meters of one switch that implement the limits of routes.
//!
//! A limit has a meter number, from [`FIRST`] up, for as long as a route or a rule needs it. The meter is added just
//! before the first rule that names it. A sweep, once every [`SWEEP`], deletes the meters that were unused at two
//! sweeps in a row: by then the rules that were being deleted are gone. A switch that has refused a meter gets no more
//! meters. Packets under limits then go through the controller, unlimited, and a report says so.
//!
//! Somebody else may delete or alter a meter. Open vSwitch then also deletes the rules that name it, and reports
//! neither in OpenFlow 1.3. So audits ask for the meters ([`Switch::ask_for_meters_there`]) and repair those that are
//! not as they were made. If a rule is refused because of its meter, the meter is made again with the next try.
//!
//! A switch that reconnects may still have meters of the earlier connection under these numbers. Adding one of them
//! fails, which is not reported, and the modification after it sets the right values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use maple_wire::Instruction;
use maple_wire::msg::ALL_METERS;
use maple_wire::msg::command::{ADD, DELETE, MODIFY};
use maple_wire::msg::stats::{MeterConfig, RequestBody, StatsRequest};
use maple_wire::msg::{Band, BandKind, ErrorMsg, Message, MeterMod};

use crate::engine::one_switch::Switch;
use crate::engine::one_switch::tables::Requests;
use crate::engine::tools::expected::Expected;
use crate::ids::Time;
use crate::route::{Limit, Unit};
use crate::rule::Rule;

/// The lowest number of our meters. Lower numbers are left to others, as people choose them by hand.
const FIRST: u32 = 0x8000;
/// The highest number of our meters. It must be at most `OFPM_MAX` (1.3 §7.3.4.4); 16 bits leave eight numbers for each
/// limit ([`MAX_LIMITS`]).
const LAST: u32 = 0xffff;
/// The maximum number of limits at a switch. Chosen: an eighth of our numbers, so that a number is not used again soon.
pub(in crate::engine) const MAX_LIMITS: usize = 4096;
/// The time between two sweeps for unused meters. Chosen: a limit that is soon needed again keeps its meter, and unused
/// ones give way within twenty seconds.
pub(in crate::engine) const SWEEP: Duration = Duration::from_secs(10);
/// The maximum number of requests that are remembered, to know which one an error is about. Chosen: an error comes
/// within the next few answers of the switch, and a list this short is searched fast.
const MAX_REQUESTS: usize = 256;

/// The flag of a meter-mod for rates in kilobits a second, `OFPMF_KBPS` (1.3 §7.3.4.4).
const KILOBITS: u16 = 1;
/// The flag of a meter-mod for rates in packets a second, `OFPMF_PKTPS` (1.3 §7.3.4.4).
const PACKETS: u16 = 2;
/// The flag of a meter-mod with a size of bursts, `OFPMF_BURST` (1.3 §7.3.4.4).
const BURST: u16 = 4;
/// The minimum time between two repairs of a meter that refused rules have shown to be missing. Chosen: all rules that
/// were sent before the repair may be refused for the same meter, and must not repair it again.
const LOST_FOR: Duration = Duration::from_secs(30);

/// The meters of a switch.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Meters {
    numbers: BTreeMap<Arc<Limit>, u32>,
    limits: BTreeMap<u32, Arc<Limit>>,
    /// The last number that was given out.
    last: Option<u32>,
    made: BTreeSet<u32>,
    /// The meters that were unused at the last sweep.
    idle: BTreeSet<u32>,
    /// The latest requests, each with whether it adds a meter.
    asked: Vec<(u32, bool)>,
    /// Whether the switch has refused a meter.
    is_refused: bool,
    /// The audit of the meters that goes on.
    audit: Option<MeterAudit>,
    /// Whether the switch refuses to report its meters.
    is_unreadable: bool,
    /// Meters whose absence a refused rule has shown, and when.
    lost: BTreeMap<u32, Time>,
}

/// An audit of meters.
#[derive(Clone, Debug)]
pub(in crate::engine) struct MeterAudit {
    xid: u32,
    /// The meters that the switch should have had when it was asked, and has not reported yet.
    missing: BTreeSet<u32>,
    /// The meters that it has reported otherwise than they were made.
    altered: BTreeSet<u32>,
}

impl Meters {
    /// Returns the number of a limit's meter; `None` if the switch has too many meters or has refused one.
    pub fn number(&mut self, limit: &Arc<Limit>) -> Option<u32> {
        if self.is_refused {
            return None;
        }
        if let Some(number) = self.numbers.get(limit) {
            return Some(*number);
        }
        if self.numbers.len() >= MAX_LIMITS {
            return None;
        }
        let after = |number: u32| if number == LAST { FIRST } else { number + 1 };
        let mut number = self.last.map_or(FIRST, after);
        while self.limits.contains_key(&number) {
            number = after(number);
        }
        self.last = Some(number);
        self.numbers.insert(Arc::clone(limit), number);
        self.limits.insert(number, Arc::clone(limit));
        Some(number)
    }

    /// Returns the requests to send before these messages, for the meters that their rules name and that do not exist
    /// yet.
    fn missing_for(&mut self, messages: &Requests) -> Vec<MeterMod> {
        let mut first = Vec::new();
        for (_, message) in messages {
            let changed = if let Message::BundleAdd(add) = message { &add.message } else { message };
            let Message::FlowMod(flow_mod) = changed else { continue };
            for number in flow_mod.instructions.iter().filter_map(metered) {
                if let Some(limit) = self.limits.get(&number)
                    && self.made.insert(number)
                {
                    first.extend([ADD, MODIFY].map(|command| request(command, number, limit)));
                }
            }
        }
        first
    }

    /// Deletes the meters that are not `needed` now and were not at the last sweep.
    pub fn sweep(&mut self, needed: &BTreeSet<u32>) -> Vec<MeterMod> {
        let free: BTreeSet<u32> = self.limits.keys().filter(|number| !needed.contains(number)).copied().collect();
        let mut gone = Vec::new();
        for number in free.intersection(&self.idle) {
            if let Some(limit) = self.limits.remove(number) {
                self.numbers.remove(&limit);
            }
            if self.made.remove(number) {
                gone.push(MeterMod { command: DELETE, flags: 0, meter: *number, bands: Vec::new() });
            }
        }
        self.idle = free.difference(&self.idle).copied().collect();
        gone
    }

    /// Begins an audit with a request under a new transaction id. `None` if the switch should have no meters, or cannot
    /// be asked.
    fn begin_audit(&mut self, xid: impl FnOnce() -> u32) -> Option<u32> {
        if self.made.is_empty() || self.is_refused || self.is_unreadable {
            return None;
        }
        let xid = xid();
        self.audit = Some(MeterAudit { xid, missing: self.made.clone(), altered: BTreeSet::new() });
        Some(xid)
    }

    /// Reports whether the answer to this request belongs to an audit.
    pub fn is_audited_by(&self, xid: u32) -> bool {
        self.audit.as_ref().is_some_and(|audit| audit.xid == xid)
    }

    /// Compares the meters that the switch reports with those that were made.
    pub fn audit_part(&mut self, meters: &[MeterConfig]) {
        let Some(audit) = self.audit.as_mut().expected() else { return };
        for meter in meters {
            if audit.missing.remove(&meter.meter)
                && let Some(limit) = self.limits.get(&meter.meter)
                && !is_as_made(meter, limit)
            {
                audit.altered.insert(meter.meter);
            }
        }
    }

    /// Ends an audit. Returns the requests that repair the meters, and the numbers of missing and of altered ones.
    pub fn end_audit(&mut self) -> (Vec<MeterMod>, usize, usize) {
        let Some(MeterAudit { missing, altered, .. }) = self.audit.take().expected() else { return (Vec::new(), 0, 0) };
        let still_made = |numbers: BTreeSet<u32>| -> Vec<u32> { numbers.intersection(&self.made).copied().collect() };
        let (missing, altered) = (still_made(missing), still_made(altered));
        let all = missing.iter().flat_map(|number| [(ADD, number), (MODIFY, number)]);
        let all = all.chain(altered.iter().map(|number| (MODIFY, number)));
        let repair = |(command, number): (u16, &u32)| Some(request(command, *number, self.limits.get(number)?));
        (all.filter_map(repair).collect(), missing.len(), altered.len())
    }

    /// Gives up an audit: the switch was not asked for its meters, or refuses to report them (`is_refused`).
    pub fn give_up_audit(&mut self, is_refused: bool) {
        self.audit = None;
        self.is_unreadable |= is_refused;
    }

    /// Returns the meters of a refused rule that are to be made again: those that were made, and not again just now.
    pub fn lost_with(&self, now: Time, rule: &Rule) -> impl Iterator<Item = u32> {
        let is_old = move |number: &u32| self.lost.get(number).is_none_or(|lost| *lost + LOST_FOR <= now);
        let named = rule.instructions.iter().filter_map(metered);
        named.filter(move |number| self.made.contains(number) && is_old(number))
    }

    /// Notes that the meters of a refused rule are missing.
    pub fn lose(&mut self, now: Time, rule: &Rule) {
        for number in self.lost_with(now, rule).collect::<Vec<_>>() {
            self.made.remove(&number);
            self.lost.insert(number, now);
        }
        self.lost.retain(|_, lost| now < *lost + LOST_FOR);
    }

    /// Reports whether the switch has refused a meter, so that it gets no more.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Reports whether no route or rule of the switch needs a meter.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    fn note(&mut self, xid: u32, adds: bool) {
        if self.asked.len() >= MAX_REQUESTS {
            self.asked.remove(0);
        }
        self.asked.push((xid, adds));
    }

    /// Handles an error. Returns `None` if it is not about a meter, and else whether it is to be reported.
    pub fn on_error(&mut self, xid: u32, error: &ErrorMsg) -> Option<bool> {
        let at = self.asked.iter().position(|(asked, _)| *asked == xid)?;
        let (_, adds) = self.asked.remove(at);
        if adds && error.number() == ErrorMsg::METER_EXISTS {
            return Some(false);
        }
        Some(!std::mem::replace(&mut self.is_refused, true))
    }
}

/// Returns the meter of ours that an instruction names.
pub(in crate::engine) fn metered(instruction: &Instruction) -> Option<u32> {
    match instruction {
        Instruction::Meter(number) if *number >= FIRST => Some(*number),
        _ => None,
    }
}

/// Reports whether a meter, as a switch reports it, is as it was made. A switch may count, and may choose the burst
/// itself if the limit has none.
fn is_as_made(there: &MeterConfig, limit: &Limit) -> bool {
    let made = request(ADD, there.meter, limit);
    let is_same = |(is, was): (&Band, &Band)| {
        (&is.kind, is.rate) == (&was.kind, was.rate) && (limit.burst == 0 || is.burst == was.burst)
    };
    let units = KILOBITS | PACKETS;
    there.flags & units == made.flags & units
        && there.bands.len() == made.bands.len()
        && there.bands.iter().zip(&made.bands).all(is_same)
}

fn request(command: u16, meter: u32, limit: &Limit) -> MeterMod {
    let unit = match limit.unit {
        Unit::Kilobits => KILOBITS,
        Unit::Packets => PACKETS,
    };
    let burst = if limit.burst > 0 { BURST } else { 0 };
    let band = Band { rate: limit.rate, burst: limit.burst, kind: BandKind::Drop };
    MeterMod { command, flags: unit | burst, meter, bands: vec![band] }
}

impl Switch {
    /// Returns the requests for meters to send before these messages.
    pub fn make_meters(&mut self, messages: &Requests) -> Requests {
        if self.paths.meters.is_empty() {
            return Requests::new();
        }
        let requests = self.paths.meters.missing_for(messages);
        self.ask_for_meters(requests)
    }

    /// Returns the request for the meters that the switch has, for an audit; `None` if it should have none.
    pub fn ask_for_meters_there(&mut self) -> Option<(u32, Message)> {
        let xid = self.paths.meters.begin_audit(|| self.tables.take_xid())?;
        let request = StatsRequest::new(RequestBody::MeterConfig(ALL_METERS));
        Some((xid, Message::StatsRequest(request)))
    }

    /// Gives requests for meters their transaction ids, and notes them.
    pub fn ask_for_meters(&mut self, requests: Vec<MeterMod>) -> Requests {
        let mut asked = Requests::new();
        for request in requests {
            let xid = self.tables.take_xid();
            self.paths.meters.note(xid, request.command == ADD);
            asked.push((xid, Message::MeterMod(request)));
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::Match;
    use maple_wire::msg::{FlowMod, FlowModCommand};

    use super::*;

    fn limit(name: &str) -> Arc<Limit> {
        Arc::new(Limit::kilobits(name, 1000))
    }

    fn rule(number: u32) -> Requests {
        let instructions = vec![Instruction::Meter(number)];
        vec![(1, Message::FlowMod(FlowMod::new(FlowModCommand::Add, 1, Match::any(), instructions)))]
    }

    fn refused(number: u32) -> Rule {
        Rule { priority: 1, matching: Match::any(), instructions: [Instruction::Meter(number)].into(), cookie: 0 }
    }

    fn commands(requests: &[MeterMod]) -> Vec<(u16, u32)> {
        requests.iter().map(|request| (request.command, request.meter)).collect()
    }

    #[test]
    fn a_meter_is_added_before_its_first_rule_and_deleted_after_two_sweeps_without_need() {
        let mut meters = Meters::default();
        let number = meters.number(&limit("a")).unwrap();
        assert_eq!(meters.number(&limit("a")), Some(number), "equal limits are one");
        assert_eq!(commands(&meters.missing_for(&rule(number))), [(ADD, number), (MODIFY, number)]);
        assert_eq!(meters.missing_for(&rule(number)), []);
        assert_eq!(meters.missing_for(&rule(7)), [], "a number outside our range");
        let (needed, nobody) = (BTreeSet::from([number]), BTreeSet::new());
        assert_eq!(meters.sweep(&nobody), []);
        assert_eq!(meters.sweep(&needed), []);
        assert_eq!(meters.sweep(&nobody), []);
        assert_eq!(commands(&meters.sweep(&nobody)), [(DELETE, number)]);
        assert!(meters.is_empty());
        assert_ne!(meters.number(&limit("a")), Some(number), "a number is not reused at once");
    }

    #[test]
    fn an_audit_finds_meters_that_are_missing_or_altered() {
        let mut meters = Meters::default();
        assert_eq!(meters.begin_audit(|| 1), None, "there are none");
        let numbers = ["a", "b", "c"].map(|name| meters.number(&limit(name)).unwrap());
        for number in numbers {
            meters.missing_for(&rule(number));
        }
        let reported_meter = |number: u32, rate| {
            let bands = vec![Band { rate, burst: 77, kind: BandKind::Drop }];
            MeterConfig { flags: KILOBITS | 8, meter: number, bands }
        };
        assert_eq!(meters.begin_audit(|| 7), Some(7));
        assert!(meters.is_audited_by(7) && !meters.is_audited_by(8));
        meters.audit_part(&[reported_meter(numbers[0], 1000), reported_meter(5, 9), reported_meter(numbers[1], 999)]);
        let (requests, missing, altered) = meters.end_audit();
        assert_eq!((missing, altered), (1, 1));
        assert_eq!(commands(&requests), [(ADD, numbers[2]), (MODIFY, numbers[2]), (MODIFY, numbers[1])]);
        meters.begin_audit(|| 8);
        meters.audit_part(&numbers.map(|number| reported_meter(number, 1000)));
        assert_eq!(meters.end_audit(), (Vec::new(), 0, 0));
    }

    #[test]
    fn a_meter_that_a_refused_rule_lacks_is_made_again_once_in_a_while() {
        let (mut meters, mut now) = (Meters::default(), Time(1));
        let number = meters.number(&limit("a")).unwrap();
        let lost = |meters: &Meters, now| meters.lost_with(now, &refused(number)).collect::<Vec<_>>();
        assert_eq!(lost(&meters, now), [], "it was not made");
        assert_eq!(meters.missing_for(&rule(number)).len(), 2);
        assert_eq!(lost(&meters, now), [number]);
        meters.lose(now, &refused(number));
        assert_eq!(meters.missing_for(&rule(number)).len(), 2);
        assert_eq!(lost(&meters, now), [], "it was made just now");
        now = now + LOST_FOR;
        assert_eq!(lost(&meters, now), [number]);
    }

    #[test]
    fn meter_numbers_wrap_around_and_are_bounded() {
        let mut meters = Meters { last: Some(LAST), ..Meters::default() };
        let numbers: BTreeSet<u32> = (0..MAX_LIMITS).filter_map(|n| meters.number(&limit(&n.to_string()))).collect();
        assert_eq!((numbers.len(), numbers.first()), (MAX_LIMITS, Some(&FIRST)));
        assert_eq!(meters.number(&limit("one more")), None);
    }

    #[test]
    fn an_existing_meter_is_not_reported_and_a_refusal_is_reported_once() {
        let mut meters = Meters::default();
        let number = meters.number(&limit("a"));
        (1..=3).for_each(|xid| meters.note(xid, xid < 3));
        let error = |kind, code| ErrorMsg { kind, code, data: Vec::new() };
        assert_eq!(meters.on_error(9, &error(12, 1)), None);
        assert_eq!(meters.on_error(1, &error(12, 1)), Some(false));
        assert_eq!(meters.number(&limit("a")), number);
        assert_eq!(meters.on_error(2, &error(12, 8)), Some(true));
        assert_eq!(meters.on_error(3, &error(12, 3)), Some(false));
        assert_eq!(meters.number(&limit("a")), None);
    }
}
