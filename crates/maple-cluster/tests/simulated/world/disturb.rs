//! The faults of a schedule, and what must hold when they are over.

use std::time::Duration;

use maple_cluster::{Event, Member};

use super::{Coming, FAULTS, FaultEnd, MS, Node, Notice, World};
use crate::faults::Plant;

impl World {
    pub(super) fn fault(&mut self) {
        if self.now >= FAULTS {
            return;
        }
        let delay = MS * self.random.u32(200..4_000);
        self.after(delay, Coming::Fault);
        let (at, switch) = (self.random.usize(..self.nodes.len()), self.random.usize(..self.switches.len()));
        let lasts = MS * self.random.u32(100..12_000);
        match self.random.u8(..13) {
            0 if self.nodes[at].member.is_some() => {
                self.crash(at);
                self.after(lasts, Coming::End(FaultEnd::Start(at)));
            }
            1 if self.nodes[at].member.is_some() => {
                self.event(at, Event::Leave);
                self.crash(at);
                self.after(lasts, Coming::End(FaultEnd::Start(at)));
            }
            2 | 3 => self.pause(at, lasts),
            4 => {
                self.nodes[at].sees_store = false;
                self.after(lasts, Coming::End(FaultEnd::SeesStore(at)));
            }
            5 => {
                self.nodes[at].sees_switch[switch] = false;
                self.cut(at, switch);
                self.after(lasts, Coming::End(FaultEnd::SeesSwitch(at, switch)));
            }
            6 => {
                (0..self.nodes.len()).for_each(|at| self.cut(at, switch));
                self.switches[switch].switch.restart();
                self.switches[switch].granted = None;
            }
            7 => self.store.change_leader(self.now),
            8 => self.store.compact(),
            9 => {
                self.store_is_away = true;
                self.after(lasts, Coming::End(FaultEnd::StoreIsBack));
            }
            10 => self.notify(at, Notice::Event(Event::StepDown)),
            // Somebody suspects another one, rightly or not; also two at the same time.
            _ => {
                let suspect = format!("n{}", self.random.usize(..self.nodes.len()));
                for at in [at, self.random.usize(..self.nodes.len())] {
                    self.notify(at, Notice::Event(Event::Suspected(suspect.clone())));
                }
            }
        }
    }

    pub(super) fn pause(&mut self, at: usize, lasts: Duration) {
        let (until, node) = (self.now + lasts, &mut self.nodes[at]);
        node.paused_until = node.paused_until.max(until);
        let life = node.life;
        // On waking it goes on where it was.
        self.after(lasts, Coming::Notice { node: at, life, what: Notice::Wake });
    }

    pub(super) fn end(&mut self, end: FaultEnd) {
        match end {
            FaultEnd::Start(at) if self.nodes[at].member.is_none() => self.start(at),
            FaultEnd::Start(_) => {}
            FaultEnd::SeesStore(at) => self.nodes[at].sees_store = true,
            FaultEnd::SeesSwitch(at, switch) => self.nodes[at].sees_switch[switch] = true,
            FaultEnd::StoreIsBack => self.store_is_away = false,
        }
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) {
        (self.is_calm, self.store_is_away) = (true, false);
        for at in 0..self.nodes.len() {
            self.end(FaultEnd::Start(at));
            self.end(FaultEnd::SeesStore(at));
            (0..self.switches.len()).for_each(|switch| self.end(FaultEnd::SeesSwitch(at, switch)));
            self.nodes[at].paused_until = self.now;
            self.notify(at, Notice::Wake);
        }
    }

    /// Checks that the cluster has come to rest: all agree on one master, who is master at every switch.
    pub(super) fn check_rest(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let leads = |node: &Node| node.member.as_ref().and_then(Member::own_generation);
        let masters: Vec<usize> = (0..self.nodes.len()).filter(|at| leads(&self.nodes[*at]).is_some()).collect();
        let [master] = masters[..] else { return self.fail(format!("masters at rest: {masters:?}")) };
        let generation = leads(&self.nodes[master]);
        let record = self.store.keys.get(&b"c/master"[..]);
        if record.map(|record| record.revision) != generation {
            return self.fail(format!("n{master} leads in generation {generation:?}, and the store has {record:?}"));
        }
        for at in 0..self.nodes.len() {
            let known = self.nodes[at].member.as_ref().and_then(|member| member.view().master()).cloned();
            if known.as_ref().map(|master| master.generation) != generation {
                return self.fail(format!("n{at} takes {known:?} for the master, not n{master} of {generation:?}"));
            }
            for switch in 0..self.switches.len() {
                let reported = if at == master { self.lead_of(at) } else { None };
                let mastery = self.nodes[at].links[switch].as_ref().and_then(|link| link.fence.mastery());
                if mastery != reported && !self.plants.contains(&Plant::AsksNoSwitch) {
                    return self.fail(format!("n{at} is {mastery:?} at s{switch} by its fence, and not {reported:?}"));
                }
            }
        }
        self.check_state_at_rest(master);
    }
}
