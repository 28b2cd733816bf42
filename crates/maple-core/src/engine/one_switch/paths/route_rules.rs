//! The rules in a switch's table of routes: one for each route that its leaves' rules lead to.

use std::collections::BTreeMap;

use crate::ids::RouteId;
use crate::rule::Rule;
use crate::update::Change;

/// The rules in the table of routes of one switch, and their changes that were not taken yet.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct RouteRules {
    all: BTreeMap<RouteId, Rule>,
    changes: Vec<Change>,
}

impl RouteRules {
    /// Sets the route's rule, or removes it.
    pub fn set(&mut self, route: RouteId, rule: Option<Rule>) {
        let before = match &rule {
            Some(rule) => self.all.insert(route, rule.clone()),
            None => self.all.remove(&route),
        };
        let same_entry = |a: &Rule, b: &Rule| (a.priority, &a.matching) == (b.priority, &b.matching);
        match (before, rule) {
            (Some(before), Some(rule)) if before == rule => {}
            (Some(before), Some(rule)) if same_entry(&before, &rule) => self.changes.push(Change::Modify(rule)),
            (before, rule) => {
                self.changes.extend(before.map(Change::Delete));
                self.changes.extend(rule.map(Change::Add));
            }
        }
    }

    /// Removes and returns the changes so far.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Returns the rules of all routes.
    pub fn all(&self) -> impl Iterator<Item = &Rule> {
        self.all.values()
    }
}
