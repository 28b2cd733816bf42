//! Watches: people see real packets of one kind as they enter the network.
//!
//! # What
//!
//! A host's packets pass the classifier by the rule of that host: match port and source, go on to the ingress table.
//! While somebody watches, a temporary rule above it takes some of these packets. It copies the beginning of each to
//! the controller, and goes on exactly as the rule below does. So the path of the packets does not change. The cookie
//! of the temporary rule is of a class of its own: the copies never reach f or the tracking of hosts, and audits do not
//! count the rule among ours.
//!
//! # Why packets never get a wrong answer
//!
//! The temporary rule is right as long as the rule below is there. It is only sent when the switch has confirmed that
//! rule and nothing in the classifier is about to change. Before anything changes there, the engine deletes the
//! temporary rule, with a barrier between the two. The rule comes back within a second, if the rule below is still the
//! same.
//!
//! # Why it goes
//!
//! The rule has a hard timeout of [`TIMEOUT`] seconds, and is sent again while somebody watches. So it goes if the
//! watcher ends, if the controller ends, and if the connection breaks. Another run of the controller deletes it when it
//! connects, like all rules with our cookies that it does not want.
//!
//! # Bounds
//!
//! A shard has at most [`MAX_WATCHES`] watches. A watch that has got [`MAX_COPIES_PER_SECOND`] copies within a second
//! gets no more in that second: its rule is deleted until the next one. Copies that are under way then still arrive,
//! but are not passed on.
//!
//! # Where
//!
//! Only switches with three tables have rules that go on. With one table, a rule above the leaves' would have to do
//! what each of them does, so a watch there is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::msg::{FlowMod, FlowModCommand, Message, PacketIn};
use maple_wire::{Action, Constraint, Dpid, Field, Instruction, Match, PortNo};

use crate::engine::context::timers::Timer;
use crate::engine::decisions::Decisions;
use crate::engine::fabric::Fabric;
use crate::engine::messages::event::Effect;
use crate::engine::messages::received_packet::{ReceivedPacket, from_port};
use crate::engine::messages::watched::{LiveAnswer, LiveFilter, LiveNews, LiveObstacle};
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::cookies::{live_cookie, watch_number};
use crate::engine::one_switch::layout::{CLASSIFIER, ENTRY};
use crate::engine::one_switch::priorities;
use crate::engine::tools::expected::Expected;
use crate::ids::Time;
use crate::update::entry_key;

/// The maximum number of watches of a shard. Cookies and priorities have 32 numbers for them. Chosen: each watch costs
/// a rule and up to [`MAX_COPIES_PER_SECOND`] packet-ins a second, which must not crowd out new flows.
pub const MAX_WATCHES: usize = 8;
/// The maximum number of copies of a watch in a second. Chosen: more than a person can read, and a small part of what a
/// switch sends to its controller.
pub const MAX_COPIES_PER_SECOND: u32 = 20;
/// The hard timeout of a temporary rule, in seconds. It must exceed [`ALIVE`], and twice the time between two checks,
/// since the rule is sent again after half of it. Chosen: a rule that a controller left behind copies packets no longer
/// than that.
const TIMEOUT: u16 = 5;
/// The time between two checks of a watch. It is the second in which copies are counted.
const PERIOD: Duration = Duration::from_secs(1);
/// The time for which a watch lives after the last sign that somebody watches. It must exceed the time between two such
/// signs, of which some may be late.
const ALIVE: Duration = Duration::from_secs(3);
/// The number of bytes of a packet that are copied. Chosen: all headers, with tags, IPv6 options and those of TCP, and
/// the beginning of what they carry.
const COPIED_BYTES: u16 = 256;
/// The lowest priority of temporary rules: above the rules of hosts, and below those that copy what hosts announce.
const PRIORITY: u16 = priorities::HOSTS + 250;

const _: () = assert!(priorities::HOSTS < PRIORITY && PRIORITY < priorities::COPIES);

/// The watches of a shard, by number.
#[derive(Debug, Default)]
pub(super) struct LiveWatches(BTreeMap<u8, LiveWatch>);

#[derive(Debug)]
struct LiveWatch {
    /// The number by which the caller knows the watch.
    token: u64,
    filter: LiveFilter,
    /// The time at which the watch ends, unless somebody confirms before that somebody still watches.
    until: Time,
    /// The time when the watch is checked next. An earlier timer is that of a former watch with this number.
    due: Time,
    /// The time and the transaction ids with which the rule was last sent; `None` if the switch is not to have the
    /// rule.
    sent: Option<SentRule>,
    /// The start of the second that is counted, and the copies in it.
    second: Time,
    copies: u32,
    reported: Option<LiveNews>,
}

#[derive(Clone, Copy, Debug)]
struct SentRule {
    at: Time,
    xid: u32,
}

impl LiveWatch {
    /// Returns the match of its rule. `None` if no packet can have all its fields.
    fn matching(&self, track_hosts: bool) -> Option<Match> {
        with_prerequisites(self.entrance(track_hosts).chain(self.filter.fields.iter().copied()).collect())
            .map(Match::from_constraints)
    }

    /// Returns the constraints of the packets that enter where the watched ones do.
    fn entrance(&self, track_hosts: bool) -> impl Iterator<Item = Constraint> + use<> {
        let source = track_hosts.then(|| Constraint::exact(Field::EthSrc, self.filter.from.bits()));
        [from_port(self.filter.at.port)].into_iter().chain(source)
    }

    /// Counts from zero if the second that is counted is over.
    fn begin_second(&mut self, now: Time) {
        if self.second + PERIOD <= now {
            (self.second, self.copies) = (now, 0);
        }
    }

    /// Returns the messages that delete the rule of the watch, and a barrier request that keeps later messages behind.
    /// Empty if the switch does not have the rule.
    fn deletion(&mut self, number: u8, epoch: u16, track_hosts: bool, switch: &mut Switch) -> Vec<Effect> {
        let Some((_, matching)) = self.sent.take().zip(self.matching(track_hosts)) else { return Vec::new() };
        let flow_mod = FlowMod {
            cookie: live_cookie(epoch, number),
            table_id: CLASSIFIER,
            ..FlowMod::new(FlowModCommand::DeleteStrict, PRIORITY + u16::from(number), matching, Vec::new())
        };
        self.reported = None;
        let messages = [Message::FlowMod(flow_mod), Message::BarrierRequest];
        let dpid = switch.dpid();
        messages.map(|message| Effect::Send { dpid, xid: switch.tables.take_xid(), message }).into()
    }
}

impl LiveWatches {
    /// Begins a watch.
    pub(super) fn begin(&mut self, fabric: &mut Fabric, token: u64, filter: LiveFilter) {
        let free = (0..MAX_WATCHES as u8).find(|number| !self.0.contains_key(number));
        let Some(number) = free else {
            return report(fabric, token, LiveNews::Refused(LiveObstacle::TooManyWatches));
        };
        let now = fabric.ctx.now();
        let watch = LiveWatch {
            token,
            filter,
            until: now + ALIVE,
            due: now,
            sent: None,
            second: now,
            copies: 0,
            reported: None,
        };
        self.0.insert(number, watch);
        self.check(fabric, number);
    }

    /// Prolongs a watch, because somebody still watches.
    pub(super) fn prolong(&mut self, fabric: &mut Fabric, token: u64) {
        let until = fabric.ctx.now() + ALIVE;
        match self.0.values_mut().find(|watch| watch.token == token) {
            Some(watch) => watch.until = until,
            None => report(fabric, token, LiveNews::Refused(LiveObstacle::Ended)),
        }
    }

    /// Ends a watch that nobody watches any more.
    pub(super) fn end(&mut self, fabric: &mut Fabric, token: u64) {
        let number = self.0.iter().find(|(_, watch)| watch.token == token).map(|(number, _)| *number);
        if let Some(number) = number {
            self.delete_rule(fabric, number);
            self.0.remove(&number);
        }
    }

    /// Returns the number of watches.
    pub(super) fn watches(&self) -> usize {
        self.0.len()
    }

    /// Checks a watch: ends it if nobody watches any more, and sends its rule if the switch is to get it. Sets a timer
    /// for the next check.
    pub(super) fn check(&mut self, fabric: &mut Fabric, number: u8) {
        let now = fabric.ctx.now();
        let Some(watch) = self.0.get_mut(&number).filter(|watch| watch.due <= now) else { return };
        watch.due = now + PERIOD;
        if watch.until <= now {
            let token = watch.token;
            return self.end(fabric, token);
        }
        watch.begin_second(now);
        let renewal = Duration::from_secs(u64::from(TIMEOUT) / 2);
        let is_fresh = watch.sent.is_some_and(|sent| now < sent.at + renewal);
        if watch.copies < MAX_COPIES_PER_SECOND && !is_fresh {
            match self.rule(fabric, number) {
                Ok(matching) => self.send_rule(fabric, number, matching),
                Err(obstacle) => {
                    self.delete_rule(fabric, number);
                    self.send_news(fabric, number, LiveNews::NotNow(obstacle));
                    if obstacle == LiveObstacle::OneTable {
                        if let Some(watch) = self.0.remove(&number) {
                            report(fabric, watch.token, LiveNews::Refused(obstacle));
                        }
                        return;
                    }
                }
            }
        }
        fabric.ctx.wake_at(now + PERIOD, Timer::Live(number));
    }

    /// Returns the match of a watch's rule, or the reason why the switch cannot have the rule now.
    fn rule(&self, fabric: &Fabric, number: u8) -> Result<Match, LiveObstacle> {
        let watch = self.0.get(&number).ok_or(LiveObstacle::NoSwitch)?;
        let switch = fabric.switches.get(&watch.filter.at.switch).ok_or(LiveObstacle::NoSwitch)?;
        if !switch.has_pipeline() {
            return Err(LiveObstacle::OneTable);
        }
        if switch.tables.is_unconfirmed() || switch.restoring.is_some() || fabric.ctx.is_dirty(switch.dpid()) {
            return Err(LiveObstacle::Changing);
        }
        let track_hosts = fabric.ctx.options.track_hosts;
        let below = Match::from_constraints(watch.entrance(track_hosts));
        if !switch.tables.has_instructions(
            CLASSIFIER,
            &entry_key(priorities::HOSTS, &below),
            &to_ingress(switch, track_hosts),
        ) {
            return Err(LiveObstacle::NoRule);
        }
        watch.matching(track_hosts).ok_or(LiveObstacle::NoRule)
    }

    fn send_rule(&mut self, fabric: &mut Fabric, number: u8, matching: Match) {
        let now = fabric.ctx.now();
        let Some(watch) = self.0.get(&number).expected() else { return };
        let dpid = watch.filter.at.switch;
        let copy = Action::Output { port: PortNo::CONTROLLER, max_len: COPIED_BYTES };
        let Some(switch) = fabric.switches.get(&dpid).expected() else { return };
        let instructions =
            [vec![Instruction::ApplyActions(vec![copy])], to_ingress(switch, fabric.ctx.options.track_hosts)].concat();
        let flow_mod = FlowMod {
            cookie: live_cookie(fabric.ctx.options.epoch, number),
            table_id: CLASSIFIER,
            hard_timeout: TIMEOUT,
            ..FlowMod::new(FlowModCommand::Add, PRIORITY + u16::from(number), matching, instructions)
        };
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let xid = switch.tables.take_xid();
        // A deletion in this batch comes after it.
        fabric.ctx.add_effect(Effect::Send { dpid, xid, message: Message::FlowMod(flow_mod) });
        if let Some(watch) = self.0.get_mut(&number) {
            watch.sent = Some(SentRule { at: now, xid });
        }
        self.send_news(fabric, number, LiveNews::Watching);
    }

    /// Deletes the rule of a watch, if the switch may have it.
    fn delete_rule(&mut self, fabric: &mut Fabric, number: u8) {
        let (epoch, track_hosts) = (fabric.ctx.options.epoch, fabric.ctx.options.track_hosts);
        let Some(watch) = self.0.get_mut(&number).expected() else { return };
        // The rule has gone with its switch.
        let Some(switch) = fabric.switches.get_mut(&watch.filter.at.switch) else { return watch.sent = None };
        let effects = watch.deletion(number, epoch, track_hosts, switch);
        // Before everything that is sent later.
        fabric.ctx.add_effects(effects);
    }

    /// Deletes the temporary rules of a switch if something in its classifier is about to change.
    pub(super) fn suspend(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        if self.0.is_empty() || !switch.tables.is_about_to_change(CLASSIFIER) {
            return;
        }
        let (epoch, track_hosts) = (fabric.ctx.options.epoch, fabric.ctx.options.track_hosts);
        for (number, watch) in self.0.iter_mut().filter(|(_, watch)| watch.filter.at.switch == dpid) {
            let effects = watch.deletion(*number, epoch, track_hosts, switch);
            fabric.ctx.add_effects(effects);
        }
    }

    /// Forgets the temporary rules of a switch that has gone. They end by themselves.
    pub(super) fn forget_rules(&mut self, dpid: Dpid) {
        let here = self.0.values_mut().filter(|watch| watch.filter.at.switch == dpid);
        here.for_each(|watch| watch.sent = None);
    }

    /// Ends the watch whose rule a switch has refused. Returns whether the error is about the rule of a watch.
    pub(super) fn on_rule_refused(&mut self, fabric: &mut Fabric, dpid: Dpid, xid: u32) -> bool {
        let is_refused_watch =
            |watch: &LiveWatch| watch.filter.at.switch == dpid && watch.sent.is_some_and(|sent| sent.xid == xid);
        let Some(number) = self.0.iter().find(|(_, watch)| is_refused_watch(watch)).map(|(number, _)| *number) else {
            return false;
        };
        if let Some(watch) = self.0.remove(&number) {
            report(fabric, watch.token, LiveNews::Refused(LiveObstacle::RefusedBySwitch));
        }
        true
    }

    /// Handles a copy of a watched packet. The switch has let the packet itself go on. If the rules of several watches
    /// take it, one rule has copied it, so all of these watches get the copy.
    pub(super) fn on_packet_in(&mut self, decisions: &Decisions, fabric: &mut Fabric, dpid: Dpid, packet_in: PacketIn) {
        let rule = watch_number(fabric.ctx.options.epoch, packet_in.cookie);
        let (Some(rule), Some(received)) = (rule, ReceivedPacket::from_packet_in(dpid, packet_in)) else { return };
        let (at, total_len) = (received.at, received.total_len);
        let leaf = fabric.switches.find_leaf(&received).and_then(|id| decisions.leaves.get(&id));
        let leaf = leaf.map(|leaf| LiveAnswer { drops: leaf.drops(), origin: Arc::clone(&leaf.origin) });
        let track_hosts = fabric.ctx.options.track_hosts;
        let wants = |(number, watch): &(&u8, &LiveWatch)| **number == rule || watch.filter.fits(&received, track_hosts);
        let here = self.0.iter().filter(|(_, watch)| watch.filter.at == at);
        let numbers: Vec<u8> = here.filter(wants).map(|(number, _)| *number).collect();
        for number in numbers {
            let frame = Arc::clone(&received.frame);
            self.send_copy(fabric, number, LiveNews::Packet { frame, total_len, leaf: leaf.clone() });
        }
    }

    /// Passes a packet on to a watch, unless the watch has got enough in this second.
    fn send_copy(&mut self, fabric: &mut Fabric, number: u8, packet: LiveNews) {
        let now = fabric.ctx.now();
        let Some(watch) = self.0.get_mut(&number).expected() else { return };
        watch.begin_second(now);
        watch.copies += 1;
        let (copies, token) = (watch.copies, watch.token);
        if copies <= MAX_COPIES_PER_SECOND {
            report(fabric, token, packet);
        }
        if copies == MAX_COPIES_PER_SECOND {
            self.delete_rule(fabric, number);
            report(fabric, token, LiveNews::TooMany);
        }
    }

    /// Sends a report on a watch, unless it equals the last one.
    fn send_news(&mut self, fabric: &mut Fabric, number: u8, news: LiveNews) {
        let Some(watch) = self.0.get_mut(&number).expected() else { return };
        if watch.reported.as_ref() != Some(&news) {
            watch.reported = Some(news.clone());
            let token = watch.token;
            report(fabric, token, news);
        }
    }
}

fn report(fabric: &mut Fabric, token: u64, news: LiveNews) {
    fabric.ctx.add_after_rules(Effect::Live { token, news });
}

/// Adds to the constraints the prerequisites of their fields. Where there is a choice, takes the first that does not
/// contradict the others: IPv4 before IPv6. `None` if the constraints contradict each other.
fn with_prerequisites(given: Vec<Constraint>) -> Option<Vec<Constraint>> {
    let mut all: Vec<Constraint> = Vec::new();
    let mut todo = given;
    while let Some(next) = todo.pop() {
        match all.iter().find(|one| one.field == next.field) {
            Some(one) if (one.value ^ next.value) & one.mask & next.mask != 0 => return None,
            Some(one) if one.mask & next.mask == next.mask => continue,
            Some(_) => return None,
            None => all.push(next),
        }
        let alternatives = next.field.prerequisites();
        let known = |field: Field| all.iter().chain(&todo).find(|one| one.field == field);
        let fits = |alternative: &&&[maple_wire::field::Prerequisite]| {
            alternative.iter().all(|need| {
                known(need.field).is_none_or(|one| one.value & one.mask & need.mask == need.value & one.mask)
            })
        };
        if alternatives.is_empty() {
            continue;
        }
        let chosen = alternatives.iter().find(fits)?;
        todo.extend(chosen.iter().map(|need| Constraint { field: need.field, value: need.value, mask: need.mask }));
    }
    all.sort_by_key(|one| one.field);
    Some(all)
}
/// Returns what the classifier does with packets that may enter by an edge port.
fn to_ingress(switch: &Switch, track_hosts: bool) -> Vec<Instruction> {
    if track_hosts { switch.ports.host_rules.to_ingress() } else { vec![Instruction::GotoTable(ENTRY)] }
}
