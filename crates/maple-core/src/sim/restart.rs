//! The controller restarts: what was under way to it is lost, and a new one begins with what the old one remembered.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_wire::Dpid;

use super::{Channel, Happening, Sim, new_store};
use crate::engine::{Engine, Event, InstalledFlow, Options, ShardId};
use crate::ids::LeafId;
use crate::remembered::{Surroundings, Witness};
use crate::state::Write;

/// What the next run of the controller will know.
#[derive(Debug, Default)]
pub(super) struct Memory {
    witnesses: BTreeMap<LeafId, Witness>,
    /// Where things were at some earlier time; `None`: use what is true at the end.
    surroundings: Option<Arc<Surroundings>>,
    /// After a restart, until the rules of all switches were read.
    restoring: Option<Restoring>,
}

#[derive(Debug)]
struct Restoring {
    witnesses: BTreeMap<Dpid, Vec<Witness>>,
    earlier: Arc<Surroundings>,
    /// The rules of switches; `None`: not read yet.
    flows: BTreeMap<Dpid, Option<Vec<InstalledFlow>>>,
}

impl Memory {
    /// Leaves that came, changed or went.
    pub fn note(&mut self, leaves: Vec<(LeafId, Option<Witness>)>) {
        for (id, witness) in leaves {
            match witness {
                Some(witness) => drop(self.witnesses.insert(id, witness)),
                None => drop(self.witnesses.remove(&id)),
            }
        }
    }
}

impl Sim {
    /// What the next run will know of where things are and what labels mean is what is so now.
    pub fn remember_surroundings(&mut self) {
        self.memory.surroundings = Some(Arc::new(Surroundings::of(&self.store)));
    }

    /// Forgets the witness packets of some leaves.
    pub fn forget_witnesses(&mut self, mut forgotten: impl FnMut(LeafId) -> bool) {
        self.memory.witnesses.retain(|id, _| !forgotten(*id));
    }

    /// How many leaves the next run will know.
    pub fn remembered(&self) -> usize {
        self.memory.witnesses.len()
    }

    /// The controller is killed, and another one starts, with this many shards. Returns the number of reloads that the
    /// policy that runs then has come by.
    pub fn restart_controller(&mut self, shards: u8) -> usize {
        let old = self.store.snapshot();
        let earlier = self.memory.surroundings.take().unwrap_or_else(|| Arc::new(Surroundings::of(&self.store)));
        let mut witnesses: BTreeMap<Dpid, Vec<Witness>> = BTreeMap::new();
        for witness in std::mem::take(&mut self.memory.witnesses).into_values() {
            witnesses.entry(witness.at.switch).or_default().push(witness);
        }
        (self.store, self.trail) = new_store();
        let persistent = |write: &Write| !matches!(write, Write::Types { .. } | Write::Kind { .. });
        self.store.update(|_| old.of_users().into_iter().filter(persistent).collect());
        self.options = Options { epoch: self.options.epoch + 1, ..self.options.clone() };
        // Reloads that were not over never happened.
        self.policies.truncate(self.adopted + 1);
        let (store, policy, options) = (&self.store, &self.policies[self.adopted], &self.options);
        let engine = |shard| Engine::new(ShardId(shard), store.clone(), policy.clone(), options.clone());
        self.engines = (0..shards.max(1)).map(engine).collect();
        // What the old one has sent arrives. What switches say to that is lost with the connection.
        for (time, happening) in std::mem::take(&mut self.queue) {
            match happening {
                Happening::Message(dpid, xid, message) => self.at_switch(dpid, xid, *message),
                Happening::Frame(..) => drop(self.queue.insert(time, happening)),
                Happening::Event(..) | Happening::ReadFlows(_) => {}
            }
        }
        self.queue.retain(|_, happening| matches!(happening, Happening::Frame(..)));
        self.last.retain(|channel, _| matches!(channel, Channel::Link(_)));
        self.unheard.clear();
        self.candidate = None;
        let dpids: Vec<Dpid> = self.switches.keys().copied().collect();
        let flows = dpids.iter().map(|dpid| (*dpid, None)).collect();
        self.memory.restoring = Some(Restoring { witnesses, earlier, flows });
        for dpid in dpids {
            self.shards.insert(dpid, ShardId((dpid.0 % self.engines.len() as u64) as u8));
            self.announce(dpid);
        }
        self.adopted
    }

    /// A switch was asked for its rules. The rules of an earlier run are not touched before all switches have answered.
    pub(super) fn flows_read(&mut self, dpid: Dpid, flows: Vec<InstalledFlow>) {
        let Some(restoring) = self.memory.restoring.as_mut().filter(|restoring| restoring.flows.contains_key(&dpid))
        else {
            return self.notify(dpid, Event::FlowsRead { dpid, flows });
        };
        restoring.flows.insert(dpid, Some(flows));
        if restoring.flows.values().any(Option::is_none) {
            return;
        }
        let Some(Restoring { mut witnesses, earlier, flows }) = self.memory.restoring.take() else { return };
        let first = ShardId(self.random.below(self.engines.len()) as u8);
        let switches = flows.keys().copied().collect();
        self.wake(first, vec![Event::Presume { earlier: Arc::clone(&earlier), switches }]);
        for (dpid, flows) in flows {
            let (witnesses, earlier) = (witnesses.remove(&dpid).unwrap_or_default(), Arc::clone(&earlier));
            let event = Event::Restore { dpid, flows: flows.unwrap_or_default(), witnesses, earlier };
            let shard = self.shards[&dpid];
            // After the mail of the shard that presumed.
            self.schedule(Channel::Mail(first, shard), Happening::Event(shard, Box::new(event)));
        }
    }
}
