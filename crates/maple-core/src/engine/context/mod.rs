//! The context in which all parts of an engine work: the tracked state, the options, the time of the batch, and what
//! the batch sends and counts.
//!
//! The context knows none of the parts. What a part wants to happen outside of the engine is an effect of the batch
//! ([`Context::add_effect`]); what is to happen later gets a timer ([`Context::wake_at`]).

pub(super) mod access_hits;
pub(super) mod commit;
pub(super) mod news;
pub(super) mod options;
pub(super) mod reports;
pub(super) mod stats;
pub(super) mod timers;
pub(super) mod to_shards;
pub(super) mod uses;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use maple_wire::Dpid;

use crate::engine::messages::event::Effect;
use crate::engine::messages::mail::EngineMessage;
use crate::engine::tools::histogram::Histogram;
use crate::ids::{DependentId, ShardId, Time};
use crate::report::{Report, ReportSubject};
use crate::state::Store;
use news::CommitNews;
use options::Options;
use reports::{Novelty, Reports};
use stats::Stats;
use timers::Timer;
use uses::EngineStore;

/// The context of one engine.
pub(super) struct Context {
    pub store: EngineStore,
    pub options: Options,
    pub stats: Stats,
    /// The engine's own shard.
    shard: ShardId,
    /// The time of the batch.
    now: Time,
    /// The times from a leaf's decision, or its change to another route, to the confirmation of its rule by the switch.
    install_times: Histogram,
    timers: BTreeSet<(Time, Timer)>,
    /// The reports that were made.
    reports: Reports,
    /// The number of mails to other shards so far.
    mails: u64,
    /// Messages of this shard to itself.
    inbox: VecDeque<EngineMessage>,
    news: CommitNews,
    /// Switches whose tables have to be updated at the end of the batch.
    dirty: BTreeSet<Dpid>,
    /// The effects of the batch, in order.
    out: Vec<Effect>,
    /// Effects to send after the rules.
    after: Vec<Effect>,
}

impl Context {
    /// Creates the context of an engine that has done nothing.
    pub fn new(shard: ShardId, store: Arc<Store>, options: Options) -> Context {
        Context {
            store: EngineStore::new(store),
            options,
            stats: Stats::default(),
            shard,
            now: Time::default(),
            install_times: Histogram::default(),
            timers: BTreeSet::new(),
            reports: Reports::default(),
            mails: 0,
            inbox: VecDeque::new(),
            news: CommitNews::default(),
            dirty: BTreeSet::new(),
            out: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Returns the context of an engine's copy: what is under way with leaves, routes and labels. Hosts, counters and
    /// refused rules are other matters.
    pub fn copy(&self) -> Context {
        use Timer::{EarlyRequests, Labels, Leaf, NextPath, Routes};
        let is_kept = |timer: &Timer| matches!(timer, Leaf(_) | Labels(_) | Routes | NextPath(_) | EarlyRequests);
        Context {
            now: self.now,
            timers: self.timers.iter().filter(|(_, timer)| is_kept(timer)).copied().collect(),
            inbox: self.inbox.clone(),
            news: self.news.clone(),
            dirty: self.dirty.clone(),
            ..Context::new(self.shard, Arc::clone(self.store.shared()), self.options.quiet())
        }
    }

    /// Returns the engine's own shard.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Returns the time of the batch.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Begins a batch at this time. Time does not run backwards.
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// Adds an effect to those of the batch.
    pub fn add_effect(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    /// Adds effects to those of the batch.
    pub fn add_effects(&mut self, effects: impl IntoIterator<Item = Effect>) {
        self.out.extend(effects);
    }

    /// Adds an effect that comes after the batch's rules.
    pub fn add_after_rules(&mut self, effect: Effect) {
        self.after.push(effect);
    }

    /// Adds effects that come after the batch's rules.
    pub fn add_all_after_rules(&mut self, effects: impl IntoIterator<Item = Effect>) {
        self.after.extend(effects);
    }

    /// Withholds those effects of the batch that are not to be sent.
    pub fn retain_effects(&mut self, mut is_kept: impl FnMut(&Effect) -> bool) {
        self.out.retain(&mut is_kept);
        self.after.retain(&mut is_kept);
    }

    /// Removes the effects of the batch, and appends them to `out`, in order.
    pub fn take_effects(&mut self, out: &mut Vec<Effect>) {
        out.append(&mut self.out);
        out.append(&mut self.after);
    }

    /// Counts the time from a leaf's decision to the confirmation of its rule.
    pub fn count_installation(&mut self, took: Duration) {
        self.install_times.record(took, 1);
    }

    /// Returns the times from decisions to confirmations.
    pub fn install_times(&self) -> Histogram {
        self.install_times
    }

    /// Returns what was reported.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// Returns what was reported, to count more of it.
    pub fn reports_mut(&mut self) -> &mut Reports {
        &mut self.reports
    }

    /// Forgets what was reported, because another policy decides now.
    pub fn forget_reports(&mut self) {
        self.reports = Reports::default();
    }

    /// Reports something.
    pub fn report(&mut self, report: Report) {
        self.add_effect(Effect::Report(report));
    }

    /// Counts a message about a switch that has gone.
    pub fn count_late_message(&mut self) {
        self.stats.late_messages += 1;
    }

    /// Reports something, unless something of this kind was reported under this key before, or too much about this
    /// subject.
    pub fn report_once(&mut self, about: ReportSubject, key: &str, report: Report) {
        let novelty = report.kind().map_or(Novelty::New, |kind| self.reports.note(kind, about, key));
        self.report_novel(about, novelty, report);
    }

    /// Reports what is new. Counts reports that are suppressed because there were too many, and says once that there
    /// are such.
    pub fn report_novel(&mut self, about: ReportSubject, novelty: Novelty, report: Report) {
        match novelty {
            Novelty::New => self.report(report),
            Novelty::Known => {}
            Novelty::TooMany { is_first } => {
                self.stats.reports_suppressed += 1;
                if let Some(kind) = report.kind().filter(|_| is_first) {
                    self.report(Report::Suppressed { kind, about });
                }
            }
        }
    }

    /// Reports whether this shard owns the dependent.
    pub fn owns(&self, dependent: DependentId) -> bool {
        ShardId::owning(dependent) == self.shard
    }

    /// Forgets a switch that is gone.
    pub fn forget_switch(&mut self, dpid: Dpid) {
        self.store.change_restoring(|all| all.unreachable.remove(&dpid));
        self.unmark_dirty(dpid);
        self.news.forget_switch(dpid);
    }

    /// Marks a switch whose tables have to be updated at the end of the batch.
    pub fn mark_dirty(&mut self, dpid: Dpid) {
        self.dirty.insert(dpid);
    }

    /// Takes the mark from a switch whose changes are not to be sent.
    pub fn unmark_dirty(&mut self, dpid: Dpid) {
        self.dirty.remove(&dpid);
    }

    /// Reports whether the tables of a switch have to be updated.
    pub fn is_dirty(&self, dpid: Dpid) -> bool {
        self.dirty.contains(&dpid)
    }

    /// Returns the switches whose tables have to be updated, in order.
    pub fn dirty(&self) -> impl Iterator<Item = Dpid> {
        self.dirty.iter().copied()
    }

    /// Removes and returns the switches whose tables have to be updated.
    pub fn take_dirty(&mut self) -> BTreeSet<Dpid> {
        std::mem::take(&mut self.dirty)
    }

    /// Reports whether some switch has not reported its rules yet, so that labels may not be what they were.
    pub fn is_any_unconfirmed(&self) -> bool {
        self.store.restoring(|all| !all.unconfirmed.is_empty())
    }

    /// Reports whether some switch still keeps the rules of an earlier run. Meanwhile a new label may have to wait.
    pub fn is_any_restoring(&self) -> bool {
        self.store.restoring(|all| !all.unconfirmed.is_empty() || !all.asking.is_empty())
    }
}
