//! Queries to shards and switches.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use maple_core::access::AccessList;
use maple_core::engine::{CounterKind, Dropped, Engine, PortCount, RuleCount, TableRule, Traffic};
use maple_core::rule::Rule;
use maple_wire::Dpid;

use super::{Handle, Operations};
use crate::session::{SwitchAnswer, SwitchQuestion, TableSize};
use crate::shard::mailbox::{Mailbox, ShardMessage, ShardQuery};
use crate::status::{ShardMetrics, Stats, SwitchStatus};

/// The age up to which counters are not requested again. It must exceed the time between two questions of a watching
/// `maple show`, a second, so that watching does not query switches more often.
const FRESH: Duration = Duration::from_millis(1200);
/// The time for which a query waits for the switches' counters of single rules. A rule of a slower switch is shown
/// without them. Chosen: people wait for it.
const COUNT_PATIENCE: Duration = Duration::from_secs(1);
/// The time for which a query waits for each group of switches to report their table sizes. Chosen: people wait for it,
/// and 1.3 switches with 254 tables have much to say.
const TABLES_PATIENCE: Duration = Duration::from_secs(2);
/// The time for which a query waits for the table sizes of all switches together. It must be as long as `maple doctor`
/// waits for them.
const ALL_TABLES_PATIENCE: Duration = Duration::from_secs(10);
/// The time for which a query waits for a switch's answer to a question. Chosen: a program asks, as it would ask Ryu,
/// and a large answer takes a slow switch seconds.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// The number of switches asked for table sizes at once: an answer may have hundreds of kilobytes.
const ASKED_AT_ONCE: usize = 16;
/// The time between two checks of [`Handle::count`] whether the switches have answered. Chosen: a person does not
/// notice it, and a check asks each shard.
const COUNT_INTERVAL: Duration = Duration::from_millis(20);

/// The error of a query that a shard did not answer in time. An answer without that shard's part would pass for one of
/// the whole network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("worker {shard} did not answer within {} s", waited.as_secs_f64())]
pub struct LateShard {
    /// The number of the shard, from 0.
    pub shard: usize,
    /// The time that the query waited.
    pub waited: Duration,
}

/// An access list, with the packets that each of its rules has decided, in the order of [`AccessList::rules`].
type ListHits = (Arc<AccessList>, Vec<u64>);

impl Handle {
    /// Returns the rules of a switch as the engine believes them to be: empty for a switch that it does not have.
    ///
    /// # Errors
    /// [`LateShard`] if the switch's shard does not answer in time.
    pub fn rules(&self, dpid: Dpid) -> Result<Vec<TableRule>, LateShard> {
        Ok(self.operations().rules_with_age(dpid)?.0)
    }

    /// Inspects the engine that serves a switch, between two of its turns. Returns `None` if no shard serves it.
    pub(crate) fn inspect<T: Send + 'static>(
        &self,
        dpid: Dpid,
        look: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Result<Option<T>, LateShard> {
        let shard = self.shared.registry.shard_of(dpid);
        shard.map(|shard| self.inspect_shard(usize::from(shard.0), look)).transpose()
    }

    /// Inspects the engine of a shard, between two of its turns.
    pub(super) fn inspect_shard<T: Send + 'static>(
        &self,
        shard: usize,
        look: impl FnOnce(&Engine) -> T + Send + 'static,
    ) -> Result<T, LateShard> {
        self.query(shard, |to| {
            // The other thread may have stopped waiting.
            ShardQuery::Inspect(Box::new(move |engine| drop(to.send(look(engine)))))
        })
    }

    /// Sends a shard a query, and waits for its answer.
    fn query<T>(&self, shard: usize, query: impl FnOnce(Sender<T>) -> ShardQuery) -> Result<T, LateShard> {
        let (sender, receiver) = bounded(1);
        let waited = self.shared.deadlines.query;
        let deadline = Instant::now() + waited;
        self.shared.mailboxes[shard].ask(query(sender), deadline);
        receiver.recv_deadline(deadline).map_err(|_| LateShard { shard, waited })
    }

    /// Sends each query to the shard of its switch, and waits until the shards have passed them on. Returns where each
    /// answer arrives: `None` if no shard serves the switch.
    fn pass_on<T, Q: FnOnce(Sender<T>) -> ShardQuery>(
        &self,
        queries: impl IntoIterator<Item = (Dpid, Q)>,
    ) -> Result<Vec<Option<Receiver<T>>>, LateShard> {
        let deadline = Instant::now() + self.shared.deadlines.query;
        let mut shards = BTreeSet::new();
        let mut ask = |(dpid, query): (Dpid, Q)| {
            let shard = usize::from(self.shared.registry.shard_of(dpid)?.0);
            let (sender, receiver) = bounded(1);
            self.shared.mailboxes[shard].ask(query(sender), deadline);
            shards.insert(shard);
            Some(receiver)
        };
        let answers = queries.into_iter().map(&mut ask).collect();
        // Queries are taken in their order, so a shard has passed these on when it answers the next one.
        shards.into_iter().try_for_each(|shard| self.inspect_shard(shard, |_| ()))?;
        Ok(answers)
    }

    /// Asks switches what rules have counted, each rule at a table of a switch, and waits up to a second. The result is
    /// `None` for a rule whose switch does not answer in time.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not pass the question on in time.
    pub fn count_rules(&self, rules: Vec<(Dpid, u8, Rule)>) -> Result<Vec<Option<RuleCount>>, LateShard> {
        let query = |(dpid, table, rule)| (dpid, move |to| ShardQuery::CountRule(dpid, table, rule, to));
        let answers = self.pass_on(rules.into_iter().map(query))?;
        let deadline = Instant::now() + COUNT_PATIENCE;
        Ok(answers.into_iter().map(|answer| answer?.recv_deadline(deadline).ok().flatten()).collect())
    }

    /// Asks switches how large their tables are, and how full. The result is `None` for a switch that does not answer
    /// in time.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not pass the question on in time.
    pub fn table_sizes(&self, switches: &[Dpid]) -> Result<Vec<Option<Vec<TableSize>>>, LateShard> {
        let end = Instant::now() + ALL_TABLES_PATIENCE;
        let mut sizes = Vec::new();
        for some in switches.chunks(ASKED_AT_ONCE) {
            let query = |dpid: Dpid| (dpid, move |to| ShardQuery::TableSizes(dpid, to));
            let answers = self.pass_on(some.iter().copied().map(query))?;
            let deadline = end.min(Instant::now() + TABLES_PATIENCE);
            sizes.extend(answers.into_iter().map(|answer| answer?.recv_deadline(deadline).ok()));
        }
        Ok(sizes)
    }

    /// Asks a switch a question. The result is `None` if the switch does not answer in time.
    ///
    /// # Errors
    /// [`LateShard`] if the switch's shard does not pass the question on in time.
    pub(crate) fn ask_switch(&self, dpid: Dpid, question: SwitchQuestion) -> Result<Option<SwitchAnswer>, LateShard> {
        let answer = self.pass_on([(dpid, |to| ShardQuery::Ask(dpid, question, to))])?.pop().flatten();
        Ok(answer.and_then(|answer| answer.recv_timeout(ANSWER_PATIENCE).ok()))
    }

    /// Requests fresh counters from all switches, or from one of them. Returns when all connected ones have answered,
    /// or after `timeout`. Counters younger than about a second are not requested again, and a busy switch is asked
    /// later.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not answer in time.
    pub fn count(&self, what: CounterKind, only: Option<Dpid>, timeout: Duration) -> Result<(), LateShard> {
        let deadline = Instant::now() + timeout;
        loop {
            let ages = self.query_all(|to| ShardQuery::Watch(what, only, to))?;
            let is_fresh = |age: &Option<Duration>| age.is_some_and(|age| age <= FRESH);
            if ages.iter().flatten().all(is_fresh) || Instant::now() >= deadline {
                return Ok(());
            }
            std::thread::sleep(COUNT_INTERVAL);
        }
    }

    /// Returns the latest port counters with their age, ordered by switch and port.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not answer in time.
    pub fn port_counts(&self) -> Result<Vec<(PortCount, Duration)>, LateShard> {
        let mut all: Vec<_> = self.query_all(ShardQuery::Ports)?.into_iter().flatten().collect();
        all.sort_by_key(|(count, _)| count.at);
        Ok(all)
    }

    /// Returns the traffic between hosts, from the counters of ingress rules, with the age of these counters.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not answer in time.
    pub fn traffic(&self) -> Result<Vec<(Traffic, Duration)>, LateShard> {
        let mut all: Vec<_> = self.query_all(ShardQuery::Traffic)?.into_iter().flatten().collect();
        all.sort_by_key(|(one, _)| (one.switch, one.from, one.to));
        Ok(all)
    }

    /// Returns the access lists of the policy, each with the packets that its rules have decided since the policy was
    /// loaded, in the order of [`AccessList::rules`]. Packets that switches have not reported yet are missing:
    /// [`Handle::count`] requests fresh counters.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not answer in time.
    pub fn access_hits(&self) -> Result<Vec<ListHits>, LateShard> {
        let mut all: Vec<ListHits> = Vec::new();
        for shard in 0..self.shared.mailboxes.len() {
            for (list, packets) in self.inspect_shard(shard, |engine| engine.view().access_hits())? {
                match all.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &list)) {
                    Some((_, sum)) => {
                        sum.iter_mut().zip(packets).for_each(|(sum, more)| *sum = sum.saturating_add(more));
                    }
                    None => all.push((list, packets)),
                }
            }
        }
        Ok(all)
    }

    /// Returns the drops of the last `minutes` minutes, the current one included, ordered by switch. Drops that
    /// switches have not reported yet are missing: [`Handle::count`] requests fresh counters.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not answer in time.
    pub fn drops(&self, minutes: u64) -> Result<Vec<Dropped>, LateShard> {
        let drops = self.query_all(|to| ShardQuery::Drops(minutes, to))?;
        let mut all: Vec<Dropped> = drops.into_iter().flatten().collect();
        all.sort_by_key(|one| one.switch);
        Ok(all)
    }

    /// Returns the switches, also those that are unreachable, ordered by datapath id.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not answer in time.
    pub fn switches(&self) -> Result<Vec<SwitchStatus>, LateShard> {
        let mut switches: Vec<SwitchStatus> = self.query_all(ShardQuery::Switches)?.into_iter().flatten().collect();
        switches.sort_by_key(|switch| switch.dpid);
        Ok(switches)
    }

    /// Returns all counters.
    ///
    /// # Errors
    /// [`LateShard`] if a shard does not answer in time.
    pub fn stats(&self) -> Result<Stats, LateShard> {
        let heap_bytes = self.shared.measures.heap_bytes.and_then(|count| count());
        let connections = self.shared.registry.connections();
        let mut stats = Stats { connections, heap_bytes, ..Stats::default() };
        for shard in self.query_all(ShardQuery::Stats)? {
            stats.total.counters += shard.counters;
            stats.total.engine += shard.engine;
            stats.shards.push(shard);
        }
        Ok(stats)
    }

    /// Returns what each shard exports as metrics. Without one of them sums would go down, as after a restart.
    pub(crate) fn shard_metrics(&self) -> Result<Vec<ShardMetrics>, LateShard> {
        self.query_all(ShardQuery::Metrics)
    }

    /// Asks all shards to look at their engines, between two turns of each, and waits for none of them. Returns the
    /// channels of their answers in the shards' order; `None` for a shard whose mailbox is full.
    pub(super) fn offer_all<T: Send + 'static>(
        &self,
        look: impl Fn(&Engine) -> T + Clone + Send + 'static,
    ) -> Vec<Option<Receiver<T>>> {
        let offer = |mailbox: &Mailbox| {
            let ((sender, receiver), look) = (bounded(1), look.clone());
            // The other thread may have stopped waiting.
            let query = ShardQuery::Inspect(Box::new(move |engine| drop(sender.send(look(engine)))));
            mailbox.offer(ShardMessage::Query(query)).is_ok().then_some(receiver)
        };
        self.shared.mailboxes.iter().map(offer).collect()
    }

    /// Sends every shard one query. Returns the answers in the shards' order.
    pub(super) fn query_all<T>(&self, query: impl Fn(Sender<T>) -> ShardQuery) -> Result<Vec<T>, LateShard> {
        self.query_all_within(self.shared.deadlines.query, query)
    }

    /// Asks all shards as [`Handle::query_all`] does, but waits at most `waited`.
    pub(super) fn query_all_within<T>(
        &self,
        waited: Duration,
        query: impl Fn(Sender<T>) -> ShardQuery,
    ) -> Result<Vec<T>, LateShard> {
        let deadline = Instant::now() + waited;
        let ask = |mailbox: &Mailbox| {
            let (sender, receiver) = bounded(1);
            mailbox.ask(query(sender), deadline);
            receiver
        };
        let receivers: Vec<Receiver<T>> = self.shared.mailboxes.iter().map(ask).collect();
        let answer = |(shard, receiver): (usize, Receiver<T>)| {
            receiver.recv_deadline(deadline).map_err(|_| LateShard { shard, waited })
        };
        receivers.into_iter().enumerate().map(answer).collect()
    }
}

impl Operations<'_> {
    /// Returns the rules of a switch, and the age of their counters: `None` if the switch has never reported any.
    /// [`Handle::count`] requests fresh counters.
    ///
    /// # Errors
    /// [`LateShard`] if the switch's shard does not answer in time.
    pub fn rules_with_age(&self, dpid: Dpid) -> Result<(Vec<TableRule>, Option<Duration>), LateShard> {
        let Some(shard) = self.handle.shared.registry.shard_of(dpid) else { return Ok(Default::default()) };
        self.handle.query(usize::from(shard.0), |to| ShardQuery::Rules(dpid, to))
    }

    /// Reports whether all shards answer in time.
    pub fn is_alive(&self) -> bool {
        self.handle.query_all(ShardQuery::Stats).is_ok()
    }
}
