//! The work that any controller has with a new trace: run f, build the rule, and index both.

use std::hint::black_box;
use std::time::Duration;

use maple_core::{Change, Fields, LeafAction, LeafId, Rule};
use maple_wire::{Constraint, Field, Match};
use rustc_hash::FxHashMap;

use super::data_centre::{DataCentre, Port, RACK_MASK};
use super::{Pair, SWITCH_PORTS, action, pair, traffic};
use crate::headers::FiveTuple;
use crate::passes::median_time;

/// Measures the traffic of `maple-bench mt-route` with default options. Returns the number of pairs, and the
/// microseconds for each pair: of f alone, and of f with a rule and two index entries.
pub(crate) fn floor(pairs: usize, tenants: usize, seed: u64) -> (usize, f64, f64) {
    let centre = DataCentre::new(SWITCH_PORTS, tenants, seed);
    let mut seen = FxHashMap::default();
    let mut headers = traffic(&centre, pairs, seed);
    headers.retain(|header| seen.insert(pair(header), ()).is_none());
    let a_pair = |time: Duration| time.as_secs_f64() * 1e6 / headers.len().max(1) as f64;
    let f = median_time(|| headers.iter().for_each(|header| _ = black_box(first_port(&centre, header))));
    let all = median_time(|| drop(black_box(kept(&centre, &headers))));
    (headers.len(), a_pair(f), a_pair(all))
}

/// Lets f decide, builds and outputs the rule, and makes two index entries: from the match to the leaf, and from the
/// leaf to the match, because an invalidation must find the rule.
fn kept(centre: &DataCentre, headers: &[FiveTuple]) -> (FxHashMap<Pair, LeafId>, FxHashMap<LeafId, Pair>) {
    let (mut by_match, mut by_leaf) = (FxHashMap::default(), FxHashMap::default());
    for (header, leaf) in headers.iter().zip(0..) {
        let (pair, leaf) = (pair(header), LeafId(leaf));
        let LeafAction::Apply(instructions) = action(first_port(centre, header)) else { continue };
        let mask = RACK_MASK.into();
        let constraint = |field, value: u32| Constraint { field, value: value.into(), mask };
        let all = [constraint(Field::Ipv4Src, pair.0), constraint(Field::Ipv4Dst, pair.1)];
        let rule = Rule {
            priority: 1,
            matching: Match::from_constraints(all),
            instructions: instructions.into(),
            cookie: leaf.0,
        };
        black_box(vec![Change::Add(rule)]);
        by_match.insert(pair, leaf);
        by_leaf.insert(leaf, pair);
    }
    (by_match, by_leaf)
}

fn first_port(centre: &DataCentre, header: &FiveTuple) -> Option<Port> {
    centre.decide(|field, mask| header.value(field).unwrap_or(0) & mask).ports.first().copied()
}
