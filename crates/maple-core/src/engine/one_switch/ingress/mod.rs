//! Decisions of f about the packets that enter at a switch, and their rules.

pub(in crate::engine) mod exploration;
pub(in crate::engine) mod sample_pass;

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use maple_wire::Constraint;
use rustc_hash::FxHashSet;

use crate::capabilities::Capabilities;
use crate::compile::{RuleTable, TableTarget};
use crate::engine::context::options::Options;
use crate::engine::one_switch::cookies::{dependent_cookie, own_cookie};
use crate::engine::one_switch::layout::Layout;
use crate::engine::one_switch::look_up_tables::LookUps;
use crate::engine::tools::versioned_cache::VersionedCache;
use crate::ids::LeafId;
use crate::rule::COMPILED;
use crate::update::{Change, changes};
use exploration::ExplorationState;
use sample_pass::SamplePass;

/// The trace tree of the packets that enter at a switch, and the changes of its rules.
pub(in crate::engine) struct Ingress {
    /// The trace tree, and its rules.
    pub table: RuleTable,
    /// The changes that rebuilding `table` made to its rules since the last flush.
    pub carried: Vec<Change>,
    /// The priorities of rules that `table` had before it was rebuilt, and has not now.
    pub former_priorities: Vec<(Vec<Constraint>, u16)>,
    /// Leaves of `table` whose action may have changed since the last flush.
    pub changed_actions: BTreeSet<LeafId>,
    /// The state of the pass over the policy's samples.
    pub sample_pass: SamplePass,
    /// The state of the exploration.
    pub exploration: ExplorationState,
    /// The look-ups for the packets that enter.
    pub look_ups: LookUps,
    /// Hosts whose location was verified for hits.
    pub verified_hosts: VersionedCache,
}

impl Ingress {
    /// Creates the ingress of a switch about which f has decided nothing.
    pub fn new(capabilities: &Capabilities, layout: Layout, options: &Options) -> Ingress {
        Ingress {
            table: table(capabilities, options),
            carried: Vec::new(),
            former_priorities: Vec::new(),
            changed_actions: BTreeSet::new(),
            sample_pass: SamplePass::default(),
            exploration: ExplorationState::default(),
            look_ups: LookUps::new(layout, options),
            verified_hosts: VersionedCache::default(),
        }
    }

    /// Copies the decisions, without the progress of passes and without the cache.
    pub fn copy(&self) -> Ingress {
        Ingress {
            table: self.table.clone(),
            carried: self.carried.clone(),
            former_priorities: self.former_priorities.clone(),
            changed_actions: self.changed_actions.clone(),
            sample_pass: SamplePass::default(),
            exploration: ExplorationState::default(),
            look_ups: self.look_ups.copy(),
            verified_hosts: VersionedCache::default(),
        }
    }

    /// Begins a change-over to another policy: puts an empty tree in the place of this one, and returns this one.
    pub fn begin_change_over(&mut self, mut empty: RuleTable) -> RuleTable {
        empty.begin_rebuild();
        self.changed_actions.clear();
        mem::replace(&mut self.table, empty)
    }

    /// Compiles the tree of a change-over, which has all its leaves. A rule gets the priority of a rule with its match
    /// that the old tree has, or one before it had.
    pub fn compile_new_tree(&mut self, old: &RuleTable) {
        let mut preferred = old.priorities();
        preferred.append(&mut self.former_priorities);
        self.table.end_rebuild(&preferred);
        let kept_matches: FxHashSet<Vec<Constraint>> =
            self.table.priorities().into_iter().map(|(all, _)| all).collect();
        self.former_priorities = preferred.into_iter().filter(|(all, _)| !kept_matches.contains(all)).collect();
    }

    /// Ends a change-over: collects the differences to the rules of the old tree, and forgets what was explored.
    pub fn end_change_over(&mut self, mut old: RuleTable) {
        self.carried.extend(old.take_changes());
        self.carried.extend(changes(&old.rules(), &self.table.rules()));
        // The comparison includes them.
        drop(self.table.take_changes());
        self.sample_pass = SamplePass::default();
        self.exploration.forget();
    }
}

/// Creates an empty tree with its rules.
pub(in crate::engine) fn table(capabilities: &Capabilities, options: &Options) -> RuleTable {
    let epoch = options.epoch;
    let cookie = Arc::new(move |leaf: Option<LeafId>| {
        leaf.map_or_else(|| own_cookie(epoch), |leaf| dependent_cookie(epoch, leaf))
    });
    let target = TableTarget { under: Vec::new(), capabilities: capabilities.clone(), priorities: COMPILED, cookie };
    (options.new_table)(target)
}
