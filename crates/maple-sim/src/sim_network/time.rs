//! The simulated time: messages that are under way, timers of engines, and the effects of each turn.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_core::engine::testing::check_remembered;
use maple_core::engine::{BARRIER_ROUNDS, Effect, Engine, Event, ShardId, Time};
use maple_core::state::Write;
use maple_wire::Dpid;
use maple_wire::msg::{Message, PacketIn, PacketInView};

use super::{Channel, Happening, SimNetwork, SimSwitch};

/// The maximum number of steps until a network is at rest. The largest case needs a few thousand.
const MAX_STEPS: usize = 100_000;

/// The maximum time of a wait for what is being removed, if nothing else happens.
const SETTLED_WITHIN: Duration = Duration::from_secs(20);

impl SimNetwork {
    /// Runs until nothing is under way and no timer is due within a minute from the start.
    pub fn run(&mut self) {
        let end = self.now + Duration::from_secs(60);
        let mut left = MAX_STEPS;
        while let Some(next) = self.next_time().filter(|next| *next <= end || !self.schedule.queue.is_empty()) {
            self.step_to(next);
            left -= 1;
            assert!(left > 0, "never at rest; first of what moves: {:?}", self.schedule.queue.values().next());
        }
    }

    /// Writes from outside, and runs just until the rules have followed.
    pub fn write_and_settle(&mut self, writes: Vec<Write>) {
        let commit = self.store.update(|_| writes);
        for (shard, commit) in commit.by_shard(&self.store.snapshot()) {
            self.schedule(Channel::Outside(shard), Happening::Event(shard, Box::new(Event::Committed(commit))));
        }
        for _ in 0..BARRIER_ROUNDS {
            let wait = self.begin_wait();
            while self.controller.waits.contains_key(&wait) {
                let next = self.next_time().expect("a shard will answer");
                self.step_to(next);
            }
        }
    }

    /// Begins a wait for what is being removed: one round. Returns its number.
    pub fn begin_wait(&mut self) -> u64 {
        self.controller.last_wait += 1;
        let (wait, shards) =
            (self.controller.last_wait, (0..self.controller.engines.len()).map(|shard| ShardId(shard as u8)));
        let shards: BTreeSet<ShardId> = shards.collect();
        for shard in &shards {
            let event = Happening::Event(*shard, Box::new(Event::AwaitBarriers(wait)));
            self.schedule(Channel::Outside(*shard), event);
        }
        self.controller.waits.insert(wait, shards);
        wait
    }

    /// Checks that all waits end, those that have begun and one that begins here.
    ///
    /// # Errors
    /// What is not confirmed.
    pub fn check_settled(&mut self) -> Result<(), String> {
        // A switch without a connection confirms when it is back; these waits must end then.
        if self.is_any_away() {
            return Ok(());
        }
        for _ in 0..BARRIER_ROUNDS {
            self.begin_wait();
            let end = self.now + SETTLED_WITHIN;
            while !self.controller.waits.is_empty()
                && let Some(next) = self.next_time().filter(|next| *next <= end)
            {
                self.step_to(next);
            }
            if !self.controller.waits.is_empty() {
                let open: Vec<_> =
                    self.controller.engines.iter().flat_map(|engine| engine.view().unsettled()).collect();
                return Err(format!("the waits {:?} do not end: {open:?}", self.controller.waits));
            }
        }
        Ok(())
    }

    /// Runs for this much simulated time.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(next) = self.next_time().filter(|next| *next <= end) {
            self.step_to(next);
        }
        self.now = end;
    }

    fn next_time(&self) -> Option<Time> {
        let timers = self.controller.engines.iter().filter_map(Engine::next_deadline);
        timers.chain(self.schedule.queue.keys().next().map(|(time, _)| *time)).min()
    }

    fn step_to(&mut self, time: Time) {
        self.now = self.now.max(time);
        let mut batches: BTreeMap<ShardId, Vec<Event>> = BTreeMap::new();
        while let Some(entry) = self.schedule.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            match entry.remove() {
                Happening::Event(shard, event) => batches.entry(shard).or_default().push(*event),
                Happening::Message(dpid, xid, message) => self.at_switch(dpid, xid, *message),
                Happening::ReadRules(dpid) => {
                    let rules = self.wiring.switches.get(&dpid).map(SimSwitch::flows).unwrap_or_default();
                    self.rules_read(dpid, rules);
                }
                Happening::Frame(at, frame) => self.arrive(at, &frame),
            }
        }
        let due = |engine: &Engine| engine.next_deadline().is_some_and(|deadline| deadline <= time);
        for index in 0..self.controller.engines.len() {
            let shard = ShardId(index as u8);
            if batches.contains_key(&shard) || due(&self.controller.engines[index]) {
                self.wake(shard, batches.remove(&shard).unwrap_or_default());
                self.continue_restoring();
            }
        }
    }

    /// Answers those packets in a shard's read buffer that a leaf answers, before the shard handles other events.
    /// Returns the other events.
    fn answer_hits(&mut self, shard: ShardId, events: Vec<Event>) -> Vec<Event> {
        // A shard reads nothing from a connection before its switch is up.
        let connects = |event: &Event| if let Event::SwitchUp { dpid, .. } = event { Some(*dpid) } else { None };
        let new: Vec<Dpid> = events.iter().filter_map(connects).collect();
        let mut others = Vec::new();
        for event in events {
            let answer = match &event {
                Event::PacketIn { dpid, packet_in } if !new.contains(dpid) => self.answer_hit(shard, *dpid, packet_in),
                _ => None,
            };
            if answer.is_none() {
                others.push(event);
            }
        }
        others
    }

    fn answer_hit(&mut self, shard: ShardId, dpid: Dpid, packet_in: &PacketIn) -> Option<()> {
        let version = self.wiring.switches.get(&dpid)?.model.version();
        let (mut bytes, mut answer) = (Vec::new(), Vec::new());
        Message::PacketIn(packet_in.clone()).encode(version, 0, &mut bytes).expect("a switch can say what it sends");
        let view = PacketInView::new_checked(version, &bytes).expect("it holds together");
        let answered = self.controller.engines[usize::from(shard.0)].hits(self.now, dpid)?.answer(&[view], &mut answer);
        assert_eq!(answered.packet_outs, usize::from(!answer.is_empty()));
        if answered.packets == 0 {
            return None;
        }
        if !answer.is_empty() {
            let (header, message) = Message::decode(&answer).expect("a packet-out");
            self.schedule(Channel::ToSwitch(dpid), Happening::Message(dpid, header.xid, Box::new(message)));
        }
        self.hits += 1;
        Some(())
    }

    pub(super) fn wake(&mut self, shard: ShardId, events: Vec<Event>) {
        for event in &events {
            if let Event::SwitchDown { dpid } = event {
                self.wiring.unheard.remove(dpid);
            }
        }
        let mut events = self.answer_hits(shard, events);
        let mut effects = Vec::new();
        self.controller.engines[usize::from(shard.0)].handle(self.now, &mut events, &mut effects);
        check_remembered(&self.controller.engines[usize::from(shard.0)]);
        self.history.extend(self.controller.trail.try_iter());
        for effect in effects {
            match effect {
                Effect::Send { dpid, xid, message } | Effect::Poll { dpid, xid, message } => {
                    self.schedule(Channel::ToSwitch(dpid), Happening::Message(dpid, xid, Box::new(message)));
                }
                Effect::ReadRules { dpid } => {
                    self.note_up(dpid);
                    self.schedule(Channel::ToSwitch(dpid), Happening::ReadRules(dpid));
                }
                Effect::Reconnect { dpid } => self.reconnect(dpid),
                Effect::AskPorts { dpid } => self.report_ports(dpid),
                Effect::Mail { to, mail } => {
                    let event = Happening::Event(to, Box::new(Event::Mail(mail)));
                    self.schedule(Channel::Mail(shard, to), event);
                }
                Effect::Report(report) => self.reports.push(report),
                Effect::BarriersDone(wait) => {
                    if let Some(shards) = self.controller.waits.get_mut(&wait) {
                        shards.remove(&shard);
                        if shards.is_empty() {
                            self.controller.waits.remove(&wait);
                        }
                    }
                }
                Effect::RuleCounted { token, count } => self.answers.counted.push((token, count)),
                Effect::Tried { candidate, trial } => {
                    self.answers.trials.push(trial);
                    let tried = self.controller.candidate.clone().filter(|there| there.number == candidate);
                    let adopt = tried.map(|tried| Happening::Event(shard, Box::new(Event::Adopt(tried))));
                    adopt.into_iter().for_each(|adopt| self.schedule(Channel::Outside(shard), adopt));
                }
                Effect::Adopted { candidate } => {
                    self.controller.adopted = self.controller.adopted.max(candidate as usize)
                }
                Effect::Remember(leaves) => self.controller.memory.note(leaves),
                // A switch of a simulation restarts without its rules, so its leaves are forgotten.
                Effect::Departed { leaves, .. } => {
                    self.controller.memory.note(leaves.into_iter().map(|(id, _)| (id, None)).collect());
                }
                Effect::ListenerPacket(heard) => self.answers.heard.push(heard),
                Effect::Live { token, news } => self.answers.live.push((token, news)),
            }
        }
    }

    pub(super) fn schedule(&mut self, channel: Channel, happening: Happening) {
        self.schedule_after(Duration::ZERO, channel, happening);
    }

    pub(super) fn schedule_after(&mut self, delay: Duration, channel: Channel, happening: Happening) {
        let is_lost = match channel {
            Channel::ToSwitch(dpid) => self.wiring.unheard.contains(&dpid) || self.wiring.away.contains(&dpid),
            Channel::ToShard(dpid) | Channel::Removals(dpid) => self.wiring.away.contains(&dpid),
            _ => false,
        };
        if is_lost {
            return;
        }
        let longest = self.max_delay.as_nanos().max(1) as usize;
        let time = self.now + delay + Duration::from_nanos(1 + self.schedule.random.below(longest) as u64);
        let last = self.schedule.last.entry(channel).or_default();
        *last = time.max(*last);
        self.schedule.sent += 1;
        self.schedule.queue.insert((*last, self.schedule.sent), happening);
    }
}
