//! The results of `maple-bench rules`.

use serde::Serialize;

/// The results of a filter set under one compiler. The fields are the keys in JSON, in this order. Rates are those of
/// the fastest pass, unless they are called medians.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RulesResult {
    /// Filters of the set.
    pub filters: usize,
    /// Distinct filters that are the first match of a header of the trace.
    pub matched: usize,
    /// Rules after the trace.
    pub rules: usize,
    /// The number of rules that send to the controller.
    pub barriers: usize,
    /// Distinct priorities of the rules.
    pub levels: usize,
    /// The total number of changes: adds, modifications and deletes.
    pub flow_mods: usize,
    /// Rules whose priority changed. Each costs two changes.
    pub reprioritised: usize,
    /// `flow_mods` for each of `rules`.
    pub mods_per_rule: f64,
    /// Misses of the second trace.
    pub misses_then: Option<usize>,
    /// Traces added per second, including the runs of f.
    pub augments_per_s: f64,
    /// Look-ups in the tree per second.
    pub lookups_per_s: f64,
    /// Hosts invalidated per second.
    pub host_invalidations_per_s: f64,
    /// Ports invalidated per second.
    pub port_invalidations_per_s: f64,
    /// The time of a run of f that is followed along the tree, in microseconds.
    pub f_us: f64,
    /// The time of such a run with a recorder and without a tree, in microseconds.
    pub f_alone_us: f64,
    /// The time from the end of f's run to the changes, in microseconds.
    pub augment_us: f64,
    /// Bytes of tree and table for each trace; `None` if the allocator does not count.
    pub bytes_per_trace: Option<f64>,
    /// Headers of the trace.
    pub headers: usize,
    /// Wrong answers of the tree or the table in all checks.
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
