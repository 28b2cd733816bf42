//! Notices to members, and what they do then.

use maple_cluster::{Action, Event, Fence, Member, MemberOptions, ReplicaEvent, Time};
use maple_wire::msg::{FlowMod, FlowModCommand, Role};
use maple_wire::{Match, Message, Version};

use super::replicas::Owner;
use super::{Asker, Coming, Link, MS, Notice, PATIENCE, SECOND, World};
use crate::faults::Plant;
use crate::store::{Answer, Ask};

impl World {
    pub(super) fn start(&mut self, at: usize) {
        let name = format!("n{at}");
        let options = MemberOptions {
            cluster: "c".into(),
            name,
            address: None,
            lease: 3 * SECOND,
            retry: 300 * MS,
            step_down: 4 * SECOND,
        };
        let switches = self.switches.len();
        let node = &mut self.nodes[at];
        node.life += 1;
        node.member = Some(Member::new(options));
        node.owner = Some(Owner::new());
        (node.paused_until, node.watch) = (Time::ZERO, (node.watch.0 + 1, 0));
        node.inbox.clear();
        node.asked.clear();
        node.wake = None;
        let life = node.life;
        self.after(MS, Coming::Notice { node: at, life, what: Notice::Wake });
        self.after(MS, Coming::Notice { node: at, life, what: Notice::WakeReplica });
        self.after(SECOND, Coming::Notice { node: at, life, what: Notice::Commit });
        for switch in 0..switches {
            let delay = self.delay();
            self.after(delay, Coming::Connect { node: at, switch });
            let delay = MS * self.random.u32(1..200);
            self.after(delay, Coming::Notice { node: at, life, what: Notice::Decide(switch) });
        }
    }

    pub(super) fn crash(&mut self, at: usize) {
        self.nodes[at].life += 1;
        self.nodes[at].member = None;
        (self.nodes[at].owner, self.nodes[at].own_generation) = (None, None);
        for switch in 0..self.switches.len() {
            self.nodes[at].links[switch] = None;
            self.cut(at, switch);
        }
    }

    /// Notifies a member of something, after all notices that came while it was paused.
    pub(super) fn notify(&mut self, at: usize, what: Notice) {
        self.nodes[at].inbox.push_back(what);
        while self.now >= self.nodes[at].paused_until
            && let Some(what) = self.nodes[at].inbox.pop_front()
        {
            self.notify_now(at, what);
        }
    }

    fn notify_now(&mut self, at: usize, what: Notice) {
        let (now, node) = (self.now, &mut self.nodes[at]);
        let life = node.life;
        match what {
            Notice::Wake => {
                node.wake = None;
                if node.member.as_ref().is_some_and(|member| member.wakes_at().is_some_and(|wakes| wakes <= now)) {
                    self.event(at, Event::Woken);
                }
            }
            Notice::Event(event) => self.event(at, event),
            Notice::Answer { serial, answer } => match node.asked.remove(&serial) {
                Some(Asker::Replica) => self.replica_answer(at, answer),
                Some(Asker::Lease | Asker::Member) => self.answer(at, answer),
                None => {}
            },
            Notice::TimedOut(serial) => match node.asked.remove(&serial) {
                Some(Asker::Lease) => self.event(at, Event::LeaseFailed),
                Some(Asker::Member) => self.event(at, Event::Failed),
                Some(Asker::Replica) => self.replica_event(at, ReplicaEvent::Failed),
                None => {}
            },
            Notice::Watch(number) if number == node.watch.0 => {
                let sees = node.sees_store && !self.store_is_away;
                let next = node.watch.1;
                let delay = MS * self.random.u32(1..60);
                self.after(delay, Coming::Notice { node: at, life, what: Notice::Watch(number) });
                if sees {
                    match self.store.changes(b"c/m", next) {
                        None => {
                            self.nodes[at].watch.0 += 1;
                            self.event(at, Event::Missed);
                        }
                        Some(changes) if changes.is_empty() => {}
                        Some(changes) => {
                            self.nodes[at].watch.1 = self.store.revision + 1;
                            self.event(at, Event::Changed(changes));
                        }
                    }
                }
            }
            Notice::Watch(_) => {}
            Notice::WatchState(number) => self.watch_state(at, number),
            Notice::WakeReplica => {
                if let Some(owner) = &mut node.owner {
                    owner.wake = None;
                }
                self.replica_event(at, ReplicaEvent::Woken);
            }
            Notice::Commit => {
                if !self.is_calm {
                    let delay = MS * self.random.u32(1..600);
                    self.after(delay, Coming::Notice { node: at, life, what: Notice::Commit });
                    self.commit(at);
                }
            }
            Notice::Connected { switch, epoch } => {
                let Some(member) = &node.member else { return };
                let latest = member.view().master().map(|master| master.generation);
                let (mut fence, mut ask) = Fence::new(Version::Of13, latest, self.lead_of(at));
                let former = self.nodes[at].links[switch].take();
                if self.plants.contains(&Plant::KeepsMasteryOverConnections)
                    && let Some(former) = former
                {
                    (fence, ask) = (former.fence, Vec::new());
                }
                self.nodes[at].links[switch] = Some(Link { epoch, fence });
                self.send(at, switch, ask);
            }
            Notice::Lost { switch, epoch } => {
                let keeps = self.plants.contains(&Plant::KeepsMasteryOverConnections);
                if node.links[switch].as_ref().is_some_and(|link| link.epoch == epoch) && !keeps {
                    node.links[switch] = None;
                }
            }
            Notice::Heard { switch, epoch, message, answers_role } => {
                if let Some(link) = &mut node.links[switch]
                    && link.epoch == epoch
                {
                    let (ask, _) = link.fence.on_message(&message, answers_role);
                    self.send(at, switch, ask);
                }
            }
            Notice::Decide(switch) => {
                let delay = MS * self.random.u32(20..400);
                self.after(delay, Coming::Notice { node: at, life, what: Notice::Decide(switch) });
                let node = &self.nodes[at];
                let Some(link) = &node.links[switch] else { return };
                let leads = node.member.as_ref().and_then(Member::own_generation);
                // With these the switch gets other generations than those that are compared.
                let by_store = [Plant::AsksNoSwitch, Plant::OneGeneration, Plant::OwnGenerations];
                let has_other_generation = by_store.iter().any(|plant| self.plants.contains(plant));
                let mastery = link.fence.mastery();
                let generation = match has_other_generation {
                    true if mastery.is_some() || self.plants.contains(&Plant::AsksNoSwitch) => leads,
                    true => None,
                    false => mastery,
                };
                if let Some(generation) = generation {
                    let what = Notice::Send { switch, epoch: link.epoch, generation };
                    // Nothing comes between looking and sending, but a pause.
                    self.nodes[at].inbox.push_front(what);
                    if self.random.u8(..) < 20 && !self.is_calm {
                        let lasts = MS * self.random.u32(100..12_000);
                        self.pause(at, lasts);
                    }
                }
            }
            Notice::Send { switch, epoch, generation } => {
                if node.links[switch].as_ref().is_some_and(|link| link.epoch == epoch) {
                    if self.plants.contains(&Plant::AsksToBeEqual) {
                        let equal = Role { role: Role::EQUAL, generation_id: 0 };
                        self.send(at, switch, vec![Message::RoleRequest(equal)]);
                    }
                    let rule = FlowMod::new(FlowModCommand::Add, 1, Match::any(), Vec::new());
                    self.send(at, switch, vec![Message::FlowMod(FlowMod { cookie: generation, ..rule })]);
                }
            }
        }
        self.schedule_wake(at);
    }

    /// Returns the generation in which a member leads, as it announces it to switches.
    pub(super) fn lead_of(&self, at: usize) -> Option<u64> {
        let leads = self.nodes[at].own_generation?;
        let own = if self.plants.contains(&Plant::OwnGenerations) { self.nodes[at].counted } else { leads };
        Some(if self.plants.contains(&Plant::OneGeneration) { 0 } else { own })
    }

    fn schedule_wake(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let Some(wakes) = node.member.as_ref().and_then(Member::wakes_at) else { return };
        let wakes = wakes.max(self.now + MS);
        if node.wake.is_none_or(|wake| wakes < wake) {
            node.wake = Some(wakes);
            let life = node.life;
            self.at(wakes, Coming::Notice { node: at, life, what: Notice::Wake });
        }
    }

    fn answer(&mut self, at: usize, answer: Answer) {
        let event = match answer {
            Answer::Granted { lease, good_for } => Event::Granted { lease, good_for },
            Answer::Kept { good_for } => Event::Kept { good_for },
            Answer::LeaseEnded => Event::LeaseEnded,
            Answer::Read { records, revision } => Event::Read { records, revision },
            Answer::Written { record, revision } => Event::Written { record, revision },
            Answer::NoSuchLease => Event::NoSuchLease,
            Answer::Deleted { revision } => Event::Deleted { revision },
            Answer::Nothing => return,
            other => return self.fail(format!("n{at} has not asked for {other:?}")),
        };
        self.event(at, event);
    }

    pub(super) fn event(&mut self, at: usize, event: Event) {
        let now = self.now;
        let about_store = match &event {
            Event::Granted { .. } | Event::Kept { .. } => Some(true),
            Event::Failed | Event::LeaseFailed => Some(false),
            _ => None,
        };
        let Some(member) = &mut self.nodes[at].member else { return };
        let actions = member.on_event(now, event);
        for action in actions {
            if self.trace {
                println!("{now:?}   n{at} {action:?}");
            }
            self.act(at, action);
        }
        if let Some(answers) = about_store {
            self.replica_event(at, ReplicaEvent::StoreAnswers(answers));
        }
    }

    fn act(&mut self, at: usize, action: Action) {
        let ask = match action {
            Action::Grant(time) => Ask::Grant(time),
            Action::KeepAlive(lease) => Ask::KeepAlive(lease),
            Action::Read(prefix) => Ask::Read(prefix),
            Action::Write { key, value, lease, former } => Ask::Write { key, value, lease, former },
            Action::Delete { key, former } => Ask::Delete { key, former },
            Action::Revoke(lease) => Ask::Revoke(lease),
            Action::Watch { from, .. } => {
                let node = &mut self.nodes[at];
                node.watch = (node.watch.0 + 1, from);
                let (life, number) = (node.life, node.watch.0);
                return self.after(MS, Coming::Notice { node: at, life, what: Notice::Watch(number) });
            }
            Action::Lead(generation) => {
                if self.plants.contains(&Plant::LeadsWithoutReading) {
                    self.check_ready(at, generation);
                    self.lead(at, generation);
                }
                return self.replica_event(at, ReplicaEvent::Lead(generation));
            }
            Action::Follow => {
                self.nodes[at].own_generation = None;
                let latest = self.nodes[at].member.as_ref().and_then(|m| m.view().master()).map(|m| m.generation);
                for switch in 0..self.switches.len() {
                    if let Some(link) = &mut self.nodes[at].links[switch] {
                        let (ask, _) = link.fence.follow(latest);
                        self.send(at, switch, ask);
                    }
                }
                return self.replica_event(at, ReplicaEvent::Follow);
            }
            Action::NameTaken => return,
        };
        let asker = if matches!(ask, Ask::Grant(_) | Ask::KeepAlive(_)) { Asker::Lease } else { Asker::Member };
        self.ask_of(at, asker, ask);
    }

    /// Asks the store. The part that asks gets the answer, or the notice that none came.
    pub(super) fn ask_of(&mut self, at: usize, asker: Asker, ask: Ask) {
        self.serial += 1;
        let serial = self.serial;
        let node = &mut self.nodes[at];
        if !matches!(ask, Ask::Revoke(_)) {
            node.asked.insert(serial, asker);
        }
        let (life, sees) = (node.life, node.sees_store && !self.store_is_away);
        self.after(PATIENCE, Coming::Notice { node: at, life, what: Notice::TimedOut(serial) });
        if sees {
            let delay = self.delay();
            // Now and then a request arrives twice.
            if self.random.u8(..) < 8 && matches!(ask, Ask::Transact(_)) {
                let delay = self.delay();
                self.after(delay, Coming::Asked { node: at, life, serial, ask: ask.clone() });
            }
            self.after(delay, Coming::Asked { node: at, life, serial, ask });
        }
    }

    /// Looks what the watch of the tracked state has.
    fn watch_state(&mut self, at: usize, number: u64) {
        let life = self.nodes[at].life;
        let sees = self.nodes[at].sees_store && !self.store_is_away;
        let Some(owner) = &mut self.nodes[at].owner else { return };
        if owner.watch.0 != number {
            return;
        }
        let changes = self.store.changes(b"c/state/", owner.watch.1);
        if sees
            && let Some(changes) = &changes
            && !changes.is_empty()
        {
            owner.watch.1 = self.store.revision + 1;
        }
        let delay = MS * self.random.u32(1..60);
        self.after(delay, Coming::Notice { node: at, life, what: Notice::WatchState(number) });
        if !sees {
            return;
        }
        match changes {
            None => {
                self.nodes[at].owner.iter_mut().for_each(|owner| owner.watch.0 += 1);
                self.replica_event(at, ReplicaEvent::Missed);
            }
            Some(changes) if changes.is_empty() => {}
            Some(changes) => self.replica_event(at, ReplicaEvent::Changed(changes)),
        }
    }

    pub(super) fn lead(&mut self, at: usize, generation: u64) {
        self.counts.masters += 1;
        let life = self.nodes[at].life;
        let owner = *self.generations.entry(generation).or_insert((at, life));
        if owner != (at, life) {
            self.fail(format!("generation {generation} is that of {owner:?} and of {:?}", (at, life)));
        }
        let name = format!("n{at}");
        if self.store.masters.get(&generation) != Some(&name) {
            self.fail(format!("{name} leads in generation {generation}, which the store did not give it"));
        }
        self.nodes[at].counted += 1;
        self.nodes[at].own_generation = Some(generation);
        let reported = self.lead_of(at).unwrap_or(generation);
        for switch in 0..self.switches.len() {
            if let Some(link) = &mut self.nodes[at].links[switch] {
                let (ask, _) = link.fence.lead(reported);
                self.send(at, switch, ask);
            }
        }
    }
}
