//! Views for people: what is in the switches and why.

use std::sync::Arc;

use maple_wire::Dpid;

use super::leaf::{leaf_of, source_lines};
use super::location::reason;
use super::{Engine, TableRule};
use crate::compile::Rule;
use crate::trace::{Trace, show};
use crate::tree::LeafId;

impl Engine {
    /// The rules of a switch, by table and falling priority; empty for one that this shard does not serve.
    pub fn rules(&self, dpid: Dpid) -> Vec<TableRule> {
        let Some(switch) = self.switches.get(&dpid) else { return Vec::new() };
        let mut rules: Vec<TableRule> = switch
            .installed()
            .map(|(table_id, rule)| {
                let leaf = leaf_of(self.options.epoch, rule.cookie);
                TableRule { table_id, rule: rule.clone(), leaf, why: self.why(dpid, rule, leaf) }
            })
            .collect();
        rules.sort_by_key(|r| (r.table_id, std::cmp::Reverse(r.rule.priority)));
        rules
    }

    /// Whether an update of a switch's rules is half-way: new ones are on their way, and old ones still there.
    pub fn is_half_way(&self, dpid: Dpid) -> bool {
        self.switches.get(&dpid).is_some_and(|switch| switch.wanted.is_half_way())
    }

    /// The errors of f that were reported, each with the number of packets that were dropped because of it.
    pub fn failures(&self) -> Vec<(Arc<str>, u64)> {
        self.failures.iter().map(|(error, count)| (error.clone(), *count)).collect()
    }

    /// The trace tree of a switch as text; empty for one that this shard does not serve.
    pub fn tree(&self, dpid: Dpid) -> String {
        self.switches.get(&dpid).map(|switch| switch.table.tree().render()).unwrap_or_default()
    }

    fn why(&self, dpid: Dpid, rule: &Rule, leaf: Option<LeafId>) -> String {
        let Some(id) = leaf else { return reason(rule).to_owned() };
        let tagged = self.switches.get(&dpid).and_then(|switch| {
            switch.transit.tagged.users().find(|(leaf, ..)| *leaf == id).map(|(_, tag, user)| (tag, &user.trace))
        });
        if let Some(leaf) = self.leaves.get(&id) {
            let narrowing = leaf.narrowing.iter().map(|read| format!("narrowed to {}", show(read)));
            return reasons(&leaf.trace, narrowing.chain(leaf.tag.as_ref().map(|tag| path_tag(tag.id))));
        }
        if let Some((tag, trace)) = tagged {
            return reasons(trace, [path_tag(tag)]);
        }
        let passing = self.switches.get(&dpid).and_then(|switch| switch.transit.parts().find(|(leaf, _)| *leaf == id));
        passing.map(|(_, passing)| source_lines(&passing.trace)).unwrap_or_default()
    }
}

/// What decided, and what else there is to say.
fn reasons(trace: &Trace, more: impl IntoIterator<Item = String>) -> String {
    let lines = Some(source_lines(trace)).filter(|lines| !lines.is_empty());
    lines.into_iter().chain(more).collect::<Vec<_>>().join(", ")
}

fn path_tag(id: u16) -> String {
    format!("path tag {id:#x}")
}
