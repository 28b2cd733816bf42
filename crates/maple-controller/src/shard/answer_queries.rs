//! The questions of other threads: answered at once from what the parts of the shard know, or later, when the engine or
//! a switch has answered.

use std::collections::BTreeMap;
use std::time::Duration;

use crossbeam_channel::Sender;
use maple_core::engine::{CounterKind, Event, LiveNews, RuleCount, Traffic, Trial};
use maple_wire::Dpid;
use rustc_hash::FxHashMap;

use super::connection::Connection;
use super::context::Context;
use super::io::Io;
use super::mailbox::ShardQuery;
use super::registry::{ConnectionId, Registry};
use super::shard_metrics;
use super::switches::Switches;
use super::turn::EngineTurn;
use crate::session::{SwitchAnswer, SwitchInfo, SwitchQuestion, TableSize};
use crate::status::{ShardStats, SwitchPort, SwitchStatus};
use crate::storage::takeover::CopiedSwitch;
use crate::time::until;

/// The maximum number of open questions about rules' counters, and about table sizes, that a shard keeps. Chosen:
/// people ask for one at a time, so more are open only if switches do not answer.
const MAX_COUNTING: usize = 1024;

/// The threads that wait for something. A thread may have stopped waiting; then sending to it fails, and that is all.
#[derive(Debug, Default)]
pub(super) struct Queries {
    /// The threads that wait for the end of this turn.
    at_turn_end: Vec<Sender<()>>,
    /// The threads that wait until rules are deleted, by the engine's token.
    settling: FxHashMap<u64, Sender<()>>,
    /// The threads that wait for a rule's counters, by the numbers of their questions.
    counting: BTreeMap<u64, Sender<Option<RuleCount>>>,
    /// The threads that wait for the sizes of a switch's tables.
    sizing: Vec<(ConnectionId, Sender<Vec<TableSize>>)>,
    /// The threads that wait for a switch's answer to a question of this number.
    asking: Vec<(ConnectionId, u32, Sender<SwitchAnswer>)>,
    /// The threads that watch packets, by the numbers of their watches. There are at most as many as control clients.
    live: FxHashMap<u64, Sender<LiveNews>>,
    last_token: u64,
    /// The thread that waits for the trial of a policy, by the policy's number.
    tried: Option<(u64, Sender<Trial>)>,
    /// The thread that waits until a policy decides, by the policy's number.
    adopted: Option<(u64, Sender<()>)>,
}

impl Queries {
    /// Adds a thread that waits for the end of this turn.
    pub fn await_turn_end(&mut self, to: Sender<()>) {
        self.at_turn_end.push(to);
    }

    /// Adds a thread that waits until the switches have confirmed all deletions of rules so far.
    pub fn settle(&mut self, to: Sender<()>, ctx: &mut Context) {
        let token = self.next_token();
        self.settling.insert(token, to);
        ctx.events.push(Event::AwaitBarriers(token));
    }

    /// Answers the threads that wait for the end of this turn, once all its messages are sent.
    pub fn answer_at_turn_end(&mut self) {
        self.at_turn_end.drain(..).for_each(|to| _ = to.send(()));
    }

    /// Handles the confirmation of all deletions for which a thread waits. It is answered at the end of the turn.
    pub fn on_barriers_done(&mut self, token: u64) {
        self.at_turn_end.extend(self.settling.remove(&token));
    }

    /// Passes the counters of a rule on.
    pub fn on_rule_counted(&mut self, token: u64, count: Option<RuleCount>) {
        if let Some(to) = self.counting.remove(&token) {
            _ = to.send(count);
        }
    }

    /// Passes the result of a policy's trial on.
    pub fn on_tried(&mut self, candidate: u64, trial: Trial) {
        if let Some((_, to)) = self.tried.take_if(|(number, _)| *number == candidate) {
            _ = to.send(trial);
        }
    }

    /// Handles that a new policy decides. The thread that waits for it is answered at the end of the turn.
    pub fn on_adopted(&mut self, candidate: u64) {
        let waits = self.adopted.take_if(|(number, _)| *number == candidate);
        self.at_turn_end.extend(waits.map(|(_, to)| to));
    }

    /// Passes the news of a watch on. A client that is too slow misses news.
    pub fn on_live_news(&mut self, token: u64, news: LiveNews) {
        let is_last = matches!(news, LiveNews::Refused(_));
        if let Some(to) = self.live.get(&token) {
            _ = to.try_send(news);
        }
        if is_last {
            self.live.remove(&token);
        }
    }

    /// Passes the sizes of a switch's tables on.
    pub fn on_table_sizes(&mut self, slot: usize, tables: &[TableSize], io: &mut Io) {
        let Some(connection) = io.present(slot).map(|connection| connection.id) else { return };
        for (_, to) in self.sizing.extract_if(.., |(of, _)| *of == connection) {
            let _ = to.send(tables.to_vec());
        }
    }

    /// Passes a switch's answer on.
    pub fn on_answered(&mut self, slot: usize, number: u32, answer: SwitchAnswer, io: &mut Io) {
        let Some(connection) = io.present(slot).map(|connection| connection.id) else { return };
        let found = self.asking.iter().position(|(of, asked, _)| (*of, *asked) == (connection, number));
        if let Some(at) = found {
            _ = self.asking.remove(at).2.send(answer);
        }
    }

    /// Answers a query. Returns the slot of the connection whose session has outputs, if any.
    pub fn answer(
        &mut self,
        query: ShardQuery,
        turn: &mut EngineTurn,
        switches: &Switches,
        io: &mut Io,
        ctx: &mut Context,
    ) -> Option<usize> {
        let engine = turn.engine();
        let now = ctx.clock.now();
        match query {
            ShardQuery::Rules(dpid, to) => {
                let age = engine.view().counted_at(dpid, CounterKind::Rules).map(|at| until(at, now));
                _ = to.send((engine.view().rules(dpid), age));
            }
            ShardQuery::Watch(what, only, to) => _ = to.send(request_counters(what, only, turn, switches, ctx)),
            ShardQuery::Ports(to) => {
                let counts = engine.view().switches().flat_map(|dpid| engine.view().port_counts(dpid));
                _ = to.send(counts.map(|count| (count, until(count.time, now))).collect());
            }
            ShardQuery::Traffic(to) => {
                let traffic = engine.view().switches().flat_map(|dpid| engine.view().traffic(dpid));
                let with_age = |one: Traffic| {
                    let age = until(one.time, now);
                    (one, age)
                };
                _ = to.send(traffic.map(with_age).collect());
            }
            ShardQuery::Drops(minutes, to) => {
                let drops = engine.view().switches().flat_map(|dpid| engine.view().drops(dpid, minutes));
                _ = to.send(drops.collect());
            }
            ShardQuery::Stats(to) => _ = to.send(ShardStats { counters: ctx.counters, engine: engine.view().stats() }),
            ShardQuery::Metrics(to) => _ = to.send(shard_metrics::collect(io, switches, turn, ctx)),
            ShardQuery::Failures(to) => _ = to.send(engine.view().failures()),
            ShardQuery::Violations(to) => _ = to.send(engine.view().violations()),
            ShardQuery::Copy(to) => _ = to.send(engine.copy()),
            ShardQuery::Inspect(look) => look(engine),
            ShardQuery::Copies(to) => _ = to.send(copied_switches(turn, switches, io)),
            ShardQuery::Switches(to) => {
                let unreachable = switches.away.unreachable.statuses(now, ctx.id);
                let statuses = io.connections().iter().filter_map(|connection| status(connection, &ctx.registry));
                _ = to.send(statuses.chain(unreachable).collect());
            }
            ShardQuery::TableSizes(dpid, to) => return self.ask_table_sizes(dpid, to, io),
            ShardQuery::Ask(dpid, question, to) => return self.ask_switch(dpid, question, to, io),
            later => self.ask_engine(later, ctx),
        }
        None
    }

    /// Passes a question to the engine, which answers it by an effect.
    fn ask_engine(&mut self, query: ShardQuery, ctx: &mut Context) {
        let event = match query {
            ShardQuery::Live(token, filter, to) => {
                self.live.insert(token, to);
                Event::LiveBegin { token, filter }
            }
            ShardQuery::LiveGoOn(token) => Event::LiveGoOn(token),
            ShardQuery::LiveEnd(token) => {
                self.live.remove(&token);
                Event::LiveEnd(token)
            }
            ShardQuery::Try(candidate, to) => {
                self.tried = Some((candidate.number, to));
                Event::Try(candidate)
            }
            ShardQuery::Adopt(candidate, to) => {
                self.adopted = Some((candidate.number, to));
                Event::Adopt(candidate)
            }
            ShardQuery::CountRule(dpid, table, rule, to) => {
                let token = self.next_token();
                if self.counting.len() == MAX_COUNTING {
                    // The oldest question was to a switch that has gone.
                    self.counting.pop_first();
                }
                self.counting.insert(token, to);
                Event::CountRule { dpid, token, table, rule }
            }
            _ => return debug_assert!(false, "the shard itself answers all other queries"),
        };
        ctx.events.push(event);
    }

    /// Asks a switch for the sizes of its tables. Nothing is sent to the thread if the switch is not connected.
    fn ask_table_sizes(&mut self, dpid: Dpid, to: Sender<Vec<TableSize>>, io: &mut Io) -> Option<usize> {
        let slot = io.connections().slot_of(dpid)?;
        let (id, ..) = io.up(slot)?;
        let (session, outputs) = io.session(slot)?;
        session.ask_for_table_sizes(outputs);
        if self.sizing.len() == MAX_COUNTING {
            // The oldest question was to a switch that has gone, or never answers.
            self.sizing.remove(0);
        }
        self.sizing.push((id, to));
        Some(slot)
    }

    /// Asks a switch a question. Nothing is sent to the thread if the switch is not connected.
    fn ask_switch(
        &mut self,
        dpid: Dpid,
        question: SwitchQuestion,
        to: Sender<SwitchAnswer>,
        io: &mut Io,
    ) -> Option<usize> {
        let slot = io.connections().slot_of(dpid)?;
        let (id, ..) = io.up(slot)?;
        let (session, outputs) = io.session(slot)?;
        match session.ask(question, outputs) {
            Err(answer) => _ = to.send(answer),
            Ok(number) => {
                if self.asking.len() == MAX_COUNTING {
                    // The oldest question was to a switch that has gone, or never answers.
                    self.asking.remove(0);
                }
                self.asking.push((id, number, to));
            }
        }
        Some(slot)
    }

    fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }
}

/// Asks the engine to request counters of all its switches, or of one. Returns the ages of the known counters. Switches
/// without a connection are left out, so nobody waits for them.
fn request_counters(
    what: CounterKind,
    only: Option<Dpid>,
    turn: &EngineTurn,
    switches: &Switches,
    ctx: &mut Context,
) -> Vec<Option<Duration>> {
    let (engine, now) = (turn.engine(), ctx.clock.now());
    let is_asked = |dpid: &Dpid| only.is_none_or(|only| only == *dpid) && !switches.away.unreachable.has(*dpid);
    let selected: Vec<Dpid> = engine.view().switches().filter(is_asked).collect();
    ctx.events.extend(selected.iter().map(|dpid| Event::ShowCounters { dpid: *dpid, what }));
    selected.iter().map(|dpid| engine.view().counted_at(*dpid, what).map(|at| until(at, now))).collect()
}

/// Collects the switches, with their present ports and rules.
fn copied_switches(turn: &EngineTurn, switches: &Switches, io: &Io) -> Vec<CopiedSwitch> {
    let engine = turn.engine();
    let copied = |connection: &Connection| {
        let (dpid, switch) = (connection.dpid?, connection.switch.as_ref()?);
        let info = SwitchInfo { ports: (*switch.ports).clone(), ..switch.info.clone() };
        Some(CopiedSwitch { info, rules: engine.view().installed(dpid) })
    };
    let unreachable = switches.away.unreachable.copies(|dpid| engine.view().installed(dpid));
    io.connections().iter().filter_map(copied).chain(unreachable).collect()
}

/// Returns the status of a connection's switch, if its handshake is done.
fn status(connection: &Connection, registry: &Registry) -> Option<SwitchStatus> {
    let (switch, dpid) = (connection.switch.as_ref()?, connection.dpid?);
    Some(SwitchStatus {
        dpid,
        peer: Some(connection.peer),
        unreachable: None,
        silent: registry.is_away(dpid),
        version: switch.version,
        description: switch.description.clone(),
        tables: switch.tables,
        bundles: switch.has_bundles,
        shard: connection.id.shard,
        waiting_bytes: connection.outbox.len(),
        ports: switch.ports.iter().map(SwitchPort::from).collect(),
    })
}
