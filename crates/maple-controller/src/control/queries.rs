//! What shards and switches are asked.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use maple_core::access::AccessList;
use maple_core::engine::{Counted, Dropped, Engine, PortCount, RuleCount, TableRule, Traffic};
use maple_core::rule::Rule;
use maple_wire::Dpid;

use super::{Handle, SHARD_TIMEOUT};
use crate::session::TableSize;
use crate::shard::mailbox::{Mailbox, ShardMessage, ShardQuery};
use crate::status::{ShardMetrics, Stats, SwitchStatus};

/// Counters that are younger are not requested again. A little more than a watching client's polling interval.
const FRESH: Duration = Duration::from_millis(1200);
/// How long switches have for saying what single rules have counted.
const COUNT_PATIENCE: Duration = Duration::from_secs(1);
/// How long switches have for saying how large their tables are.
const TABLES_PATIENCE: Duration = Duration::from_secs(2);
/// How long all of them together have.
const ALL_TABLES_PATIENCE: Duration = Duration::from_secs(10);
/// How many of them are asked at once: an answer may have hundreds of kilobytes.
const ASKED_AT_ONCE: usize = 16;
/// How often [`Handle::count`] checks whether the switches have answered.
const COUNT_INTERVAL: Duration = Duration::from_millis(20);

impl Handle {
    /// The rules of a switch as the engine believes them to be. Empty for a switch that it does not have.
    pub fn rules(&self, dpid: Dpid) -> Vec<TableRule> {
        self.rules_with_age(dpid).0
    }

    /// The rules of a switch, and the age of their counters; `None` if the switch has never reported any.
    /// [`Handle::count`] requests fresh counters.
    pub fn rules_with_age(&self, dpid: Dpid) -> (Vec<TableRule>, Option<Duration>) {
        let Some(shard) = self.shared.registry.shard_of(dpid) else { return Default::default() };
        let (sender, receiver) = bounded(1);
        self.shared.mailboxes[usize::from(shard.0)].send(ShardMessage::Query(ShardQuery::Rules(dpid, sender)));
        receiver.recv_timeout(SHARD_TIMEOUT).unwrap_or_default()
    }

    /// Asks the engine that serves a switch, between two of its turns. `None` if no shard serves it, or not in time.
    pub(crate) fn inspect<T: Send + 'static>(
        &self,
        dpid: Dpid,
        look: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Option<T> {
        self.inspect_shard(usize::from(self.shared.registry.shard_of(dpid)?.0), look)
    }

    /// The same for the engine of a shard.
    pub(super) fn inspect_shard<T: Send + 'static>(
        &self,
        shard: usize,
        look: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = bounded(1);
        // The other thread may have stopped waiting.
        let look: Box<dyn FnOnce(&Engine) + Send> = Box::new(move |engine| drop(sender.send(look(engine))));
        self.shared.mailboxes.get(shard)?.send(ShardMessage::Query(ShardQuery::Inspect(look)));
        receiver.recv_timeout(SHARD_TIMEOUT).ok()
    }

    /// What rules have counted now, each at a table of a switch. The switches have a second to say it.
    pub(crate) fn count_rules(&self, rules: Vec<(Dpid, u8, Rule)>) -> Vec<Option<RuleCount>> {
        let ask = |(dpid, table, rule): (Dpid, u8, Rule)| {
            let shard = self.shared.registry.shard_of(dpid)?;
            let (sender, receiver) = bounded(1);
            let query = ShardQuery::CountRule(dpid, table, rule, sender);
            self.shared.mailboxes.get(usize::from(shard.0))?.send(ShardMessage::Query(query));
            Some(receiver)
        };
        let asked: Vec<_> = rules.into_iter().map(ask).collect();
        let deadline = Instant::now() + COUNT_PATIENCE;
        asked.into_iter().map(|answer| answer?.recv_deadline(deadline).ok().flatten()).collect()
    }

    /// How large the tables of switches are, and how full. `None` if a switch does not say it in time.
    pub(crate) fn table_sizes(&self, switches: &[Dpid]) -> Vec<Option<Vec<TableSize>>> {
        let ask = |dpid: &Dpid| {
            let shard = self.shared.registry.shard_of(*dpid)?;
            let (sender, receiver) = bounded(1);
            let query = ShardQuery::TableSizes(*dpid, sender);
            self.shared.mailboxes.get(usize::from(shard.0))?.send(ShardMessage::Query(query));
            Some(receiver)
        };
        let end = Instant::now() + ALL_TABLES_PATIENCE;
        let some_of = |some: &[Dpid]| {
            let asked: Vec<_> = some.iter().map(ask).collect();
            let deadline = end.min(Instant::now() + TABLES_PATIENCE);
            asked.into_iter().map(move |answer| answer?.recv_deadline(deadline).ok()).collect::<Vec<_>>()
        };
        switches.chunks(ASKED_AT_ONCE).flat_map(some_of).collect()
    }

    /// Requests fresh counters from all switches, or from one of them. Returns when all that have a
    /// connection have answered, or after `timeout`. Counters younger than about a second are not requested again, and a
    /// busy switch is asked later.
    pub fn count(&self, what: Counted, only: Option<Dpid>, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        loop {
            let ages = self.query_all(|to| ShardQuery::Watch(what, only, to));
            let is_fresh = |age: &Option<Duration>| age.is_some_and(|age| age <= FRESH);
            if ages.iter().flatten().all(is_fresh) || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(COUNT_INTERVAL);
        }
    }

    /// The latest port counters with their age, ordered by switch and port.
    pub fn port_counts(&self) -> Vec<(PortCount, Duration)> {
        let mut all: Vec<_> = self.query_all(ShardQuery::Ports).into_iter().flatten().collect();
        all.sort_by_key(|(count, _)| count.at);
        all
    }

    /// The traffic between hosts, from the counters of ingress rules, with the age of these counters.
    pub fn traffic(&self) -> Vec<(Traffic, Duration)> {
        let mut all: Vec<_> = self.query_all(ShardQuery::Traffic).into_iter().flatten().collect();
        all.sort_by_key(|(one, _)| (one.switch, one.from, one.to));
        all
    }

    /// The access lists of the policy, each with the packets that its rules have decided since the policy was loaded, in
    /// the order of [`AccessList::rules`]. What switches have not said yet is not in it: [`Handle::count`] asks them.
    pub fn access_hits(&self) -> Vec<(Arc<AccessList>, Vec<u64>)> {
        let shards = 0..self.shared.mailboxes.len();
        let mut all: Vec<(Arc<AccessList>, Vec<u64>)> = Vec::new();
        for (list, packets) in shards.filter_map(|shard| self.inspect_shard(shard, Engine::access_hits)).flatten() {
            match all.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &list)) {
                Some((_, sum)) => sum.iter_mut().zip(packets).for_each(|(sum, more)| *sum = sum.saturating_add(more)),
                None => all.push((list, packets)),
            }
        }
        all
    }

    /// The drops of the last minutes, this one included, by switch. What switches have not said yet is not in it:
    /// [`Handle::count`] asks them.
    pub fn drops(&self, minutes: u64) -> Vec<Dropped> {
        let mut all: Vec<Dropped> = self.query_all(|to| ShardQuery::Drops(minutes, to)).into_iter().flatten().collect();
        all.sort_by_key(|one| one.switch);
        all
    }

    /// The switches, also those that are unreachable, ordered by datapath id.
    pub fn switches(&self) -> Vec<SwitchStatus> {
        let mut switches: Vec<SwitchStatus> = self.query_all(ShardQuery::Switches).into_iter().flatten().collect();
        switches.sort_by_key(|switch| switch.dpid);
        switches
    }

    /// All counters. A shard that does not answer in time is left out.
    pub fn stats(&self) -> Stats {
        let heap_bytes = self.shared.heap_bytes.and_then(|count| count());
        let connections = self.shared.registry.connections();
        let mut stats = Stats { connections, heap_bytes, ..Stats::default() };
        for shard in self.query_all(ShardQuery::Stats) {
            stats.total.counters += shard.counters;
            stats.total.engine += shard.engine;
            stats.shards.push(shard);
        }
        stats
    }

    /// Whether all shards answer.
    pub fn is_alive(&self) -> bool {
        self.query_all(ShardQuery::Stats).len() == self.shared.mailboxes.len()
    }

    /// What all shards export as metrics. `None` if one does not answer in time: then sums would go down, as after a
    /// restart.
    pub(crate) fn shard_metrics(&self) -> Option<Vec<ShardMetrics>> {
        let shards = self.query_all(ShardQuery::Metrics);
        (shards.len() == self.shared.mailboxes.len()).then_some(shards)
    }

    /// Sends every shard the same query. Returns where the answers will come, in the shards' order.
    pub(super) fn send_all<T>(&self, query: impl Fn(Sender<T>) -> ShardQuery) -> Vec<Receiver<T>> {
        let send = |mailbox: &Mailbox| {
            let (sender, receiver) = bounded(1);
            mailbox.send(ShardMessage::Query(query(sender)));
            receiver
        };
        self.shared.mailboxes.iter().map(send).collect()
    }

    /// Sends every shard the same query. Returns the answers in the shards' order.
    pub(super) fn query_all<T>(&self, query: impl Fn(Sender<T>) -> ShardQuery) -> Vec<T> {
        let receivers = self.send_all(query);
        let deadline = Instant::now() + SHARD_TIMEOUT;
        receivers.into_iter().filter_map(|receiver| receiver.recv_deadline(deadline).ok()).collect()
    }
}
