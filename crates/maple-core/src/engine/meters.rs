//! The meters of one switch that implement the limits of routes.
//!
//! A limit has a meter number, from [`FIRST`] up, for as long as a route or a rule needs it. The meter is added just
//! before the first rule that names it. A sweep, once every [`SWEEP`], deletes the meters that were unused at two
//! sweeps in a row: by then the rules that were being deleted are gone. A switch that has refused a meter gets no more
//! meters. Packets under limits then go through the controller, unlimited, and a report says so.
//!
//! A switch that reconnects may still have meters of the earlier connection under these numbers. Adding one of them
//! fails, which is not reported, and the modification after it sets the right values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use maple_wire::msg::{Band, BandKind, ErrorMsg, Message, MeterMod};
use maple_wire::{Dpid, Instruction, Version};

use super::switch::Switch;
use super::tables::Requests;
use super::timers::Timer;
use super::{Effect, Engine};
use crate::report::Report;
use crate::route::{Limit, Meter, Unit};

/// The numbers of our meters. Lower numbers are left to others.
const FIRST: u32 = 0x8000;
const LAST: u32 = 0xffff;
/// The maximum number of limits at a switch.
const MAX_LIMITS: usize = 4096;
/// The time between two sweeps for unused meters.
const SWEEP: Duration = Duration::from_secs(10);
/// The number of requests that are remembered, to know which one an error is about.
const MAX_REQUESTS: usize = 256;

/// The commands of a meter-mod.
const ADD: u16 = 0;
const MODIFY: u16 = 1;
const DELETE: u16 = 2;
/// Its flags: the unit, and whether there is a burst.
const KILOBITS: u16 = 1;
const PACKETS: u16 = 2;
const BURST: u16 = 4;
/// `OFPET_METER_MOD_FAILED` with `OFPMMFC_METER_EXISTS` (1.3 §7.4.4).
const EXISTS: (u16, u16) = (12, 1);

/// The meters of a switch.
#[derive(Clone, Debug, Default)]
pub(super) struct Meters {
    numbers: BTreeMap<Arc<Limit>, u32>,
    limits: BTreeMap<u32, Arc<Limit>>,
    /// The last number that was given out.
    last: Option<u32>,
    made: BTreeSet<u32>,
    /// The meters that were unused at the last sweep.
    idle: BTreeSet<u32>,
    /// The latest requests, each with whether it adds a meter.
    asked: Vec<(u32, bool)>,
    is_refused: bool,
}

impl Meters {
    /// The number of a limit's meter; none if the switch has too many meters or has refused one.
    fn number(&mut self, limit: &Arc<Limit>) -> Option<u32> {
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

    /// The requests to send before these messages, for the meters that their rules name and that do not exist yet.
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
    fn sweep(&mut self, needed: &BTreeSet<u32>) -> Vec<MeterMod> {
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

    fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    fn note(&mut self, xid: u32, adds: bool) {
        if self.asked.len() >= MAX_REQUESTS {
            self.asked.remove(0);
        }
        self.asked.push((xid, adds));
    }

    /// Whether an error is about a meter, and if so whether it is to be reported.
    fn refuse(&mut self, xid: u32, error: &ErrorMsg) -> Option<bool> {
        let at = self.asked.iter().position(|(asked, _)| *asked == xid)?;
        let (_, adds) = self.asked.remove(at);
        if adds && (error.kind, error.code) == EXISTS {
            return Some(false);
        }
        Some(!std::mem::replace(&mut self.is_refused, true))
    }
}

/// The meter of ours that an instruction names.
fn metered(instruction: &Instruction) -> Option<u32> {
    match instruction {
        Instruction::Meter(number) if *number >= FIRST => Some(*number),
        _ => None,
    }
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
    /// The requests for meters to send before these messages.
    pub(super) fn make_meters(&mut self, messages: &Requests) -> Requests {
        if self.meters.is_empty() {
            return Requests::new();
        }
        let requests = self.meters.missing_for(messages);
        self.ask_for_meters(requests)
    }

    fn ask_for_meters(&mut self, requests: Vec<MeterMod>) -> Requests {
        let mut asked = Requests::new();
        for request in requests {
            let xid = self.tables.take_xid();
            self.meters.note(xid, request.command == ADD);
            asked.push((xid, Message::MeterMod(request)));
        }
        asked
    }
}

impl Engine {
    /// The number of a route's meter at its ingress. `Err` if it needs a meter that it cannot have.
    pub(super) fn meter_number(&mut self, ingress: Dpid, meter: Option<&Meter>) -> Result<Option<u32>, ()> {
        let limit = match meter {
            None => return Ok(None),
            Some(Meter::Number(number)) => return Ok(Some(*number)),
            Some(Meter::Limit(limit)) => limit,
        };
        let Some(switch) = self.switches.get_mut(&ingress) else { return Err(()) };
        if switch.version() == Version::Of10 {
            self.report_no_meter(ingress, "OpenFlow 1.0 has none");
            return Ok(None);
        }
        let (was_empty, was_refused) = (switch.meters.is_empty(), switch.meters.is_refused);
        let number = switch.meters.number(limit);
        if number.is_none() && !was_refused {
            self.report_no_meter(ingress, &format!("it has {MAX_LIMITS} already"));
        } else if was_empty && number.is_some() {
            self.timers.insert((self.now + SWEEP, Timer::Meters(ingress)));
        }
        number.map(Some).ok_or(())
    }

    fn report_no_meter(&mut self, switch: Dpid, why: &str) {
        let report = Report::NotMetered { switch, why: why.into() };
        self.report_once(report, &format!("meter {switch} {why}"));
    }

    /// Sweeps the unused meters of a switch.
    pub(super) fn sweep_meters(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let mut needed = self.routes.meters_at(dpid);
        let rules = switch.tables.installed();
        needed.extend(rules.flat_map(|(_, rule)| rule.instructions.iter().filter_map(metered).collect::<Vec<_>>()));
        let requests = switch.meters.sweep(&needed);
        if !switch.meters.is_empty() {
            self.timers.insert((self.now + SWEEP, Timer::Meters(dpid)));
        }
        let requests = switch.ask_for_meters(requests);
        self.with_switch(dpid, |engine, switch| {
            engine.send_in_turn(switch, requests.into_iter().map(|(xid, message)| Effect::Send { dpid, xid, message }));
            true
        });
    }

    /// Whether an error is about a meter. If so, the leaves under limits are withdrawn, and get no meter there any
    /// more.
    pub(super) fn meter_refused(&mut self, dpid: Dpid, xid: u32, error: &ErrorMsg) -> bool {
        let Some(switch) = self.switches.get_mut(&dpid) else { return false };
        let Some(is_news) = switch.meters.refuse(xid, error) else { return false };
        if is_news {
            self.report_no_meter(
                dpid,
                &format!("it refused one: {}", maple_wire::print::error_name(Version::Of13, error)),
            );
            for leaf in self.routes.limited_leaves_at(dpid) {
                self.withdraw(leaf);
            }
        }
        true
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
        assert_eq!(meters.refuse(9, &error(12, 1)), None);
        assert_eq!(meters.refuse(1, &error(12, 1)), Some(false));
        assert_eq!(meters.number(&limit("a")), number);
        assert_eq!(meters.refuse(2, &error(12, 8)), Some(true));
        assert_eq!(meters.refuse(3, &error(12, 3)), Some(false));
        assert_eq!(meters.number(&limit("a")), None);
    }
}
