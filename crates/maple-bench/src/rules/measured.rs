//! What a run of `maple bench rules` measures.

use serde::Serialize;

/// The figures of a filter set under one compiler. As JSON the fields are the keys, in this order. Speeds are of the fastest pass unless
/// they are called medians.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Measured {
    /// Filters of the set.
    pub filters: usize,
    /// Distinct filters that headers of the trace meet first.
    pub matched: usize,
    /// Rules after the trace.
    pub rules: usize,
    /// Those of them that send to the controller.
    pub barriers: usize,
    /// Distinct priorities of the rules.
    pub levels: usize,
    /// Changes in all while the trace was played: adds, modifications, deletes.
    pub flow_mods: usize,
    /// Rules that were sent again only because their priority changed. Each costs two changes.
    pub reprioritised: usize,
    /// `flow_mods` for each of `rules`.
    pub mods_per_rule: f64,
    /// Headers of the second trace that went to the controller, which learned from them.
    pub misses_then: Option<usize>,
    /// Traces added in a second, the runs of f included.
    pub augments_per_s: f64,
    /// Headers that the tree answered in a second.
    pub lookups_per_s: f64,
    /// Hosts whose leaves were removed, in a second.
    pub host_invalidations_per_s: f64,
    /// Ports whose leaves were removed, in a second.
    pub port_invalidations_per_s: f64,
    /// A run of f, followed along the tree, in microseconds.
    pub f_us: f64,
    /// A run of f for the same header with a recorder and no tree, in microseconds.
    pub f_alone_us: f64,
    /// From the end of f's run to the changes, in microseconds.
    pub augment_us: f64,
    /// Bytes of tree and table for each trace; `None` where the heap can't be asked.
    pub bytes_per_trace: Option<f64>,
    /// Headers of the trace.
    pub headers: usize,
    /// Headers with a wrong answer, of tree or table, at any of the checks.
    pub wrong: usize,
    /// `augments_per_s` in the median pass.
    pub augments_per_s_median: f64,
    /// `lookups_per_s` in the median pass.
    pub lookups_per_s_median: f64,
    /// `host_invalidations_per_s` in the median pass.
    pub host_invalidations_per_s_median: f64,
    /// `port_invalidations_per_s` in the median pass.
    pub port_invalidations_per_s_median: f64,
}
