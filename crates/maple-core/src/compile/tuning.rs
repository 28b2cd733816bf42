//! Thresholds of the compiler.

/// The sizes above which the compiler does more than the simplest thing, and how much work it does at a time. None of
/// them affects whether a table is right.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// The maximum number of overlaps of an entry that is decided immediately when its leaf is removed. One with more
    /// overlaps is assumed to be required as a barrier rule, and decided later.
    pub few_overlaps: usize,
    /// The number of packed matches in a row that are read in the time of one that lies anywhere.
    pub matches_per_jump: usize,
    /// The number of deferred barrier rules that are decided with each new trace.
    pub checks_per_trace: usize,
    /// The minimum number of barrier rules that are required because of a leaf, if it is to be specialised.
    pub specialise_from: usize,
    /// The maximum number of entries in the table for each of these rules, if the leaf is to be specialised.
    pub specialise_entries_per_barrier: usize,
    /// The maximum percentage of these rules among all rules, if the leaf is to be specialised. In a table that is
    /// nearly all barrier rules for one leaf, other leaves will require the same ones.
    pub specialise_max_percent: usize,
    /// The maximum number of further bits that a specialised leaf may state.
    pub specialise_max_bits: u32,
    /// The number of times that `2^bits` is halved. For a number of further bits, more barrier rules must be saved than
    /// that, because each block of packets may get a leaf of its own.
    pub specialise_discount: u32,
    /// The number of changes sent for each rule that may be sent again to save a level.
    pub changes_per_resend: u64,
    /// The number of sent changes after which the compiler checks whether a level can be given up.
    pub changes_between_level_checks: u64,
}

impl Default for Tuning {
    /// Returns the values with which `maple-bench rules` measures (`docs/algorithm.md`).
    fn default() -> Tuning {
        Tuning {
            few_overlaps: 16,
            matches_per_jump: 4,
            checks_per_trace: 4,
            specialise_from: 32,
            specialise_entries_per_barrier: 10,
            specialise_max_percent: 40,
            specialise_max_bits: 8,
            specialise_discount: 0,
            changes_per_resend: 50,
            changes_between_level_checks: 200,
        }
    }
}

impl Tuning {
    /// Returns lower thresholds, for tests: small tables use everything that large tables do.
    pub fn for_small_tables() -> Tuning {
        Tuning {
            few_overlaps: 3,
            matches_per_jump: 1,
            specialise_from: 2,
            specialise_max_percent: 90,
            specialise_discount: 2,
            changes_per_resend: 4,
            changes_between_level_checks: 8,
            ..Tuning::default()
        }
    }
}
