//! Thresholds of the compiler.

/// From which sizes on the compiler does more than the plain thing, and how much work it does at a time. None of it decides
/// whether a table is right.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// An entry that overlaps at most so many others is decided at once when its leaf goes; one with more overlaps is assumed
    /// to be required as a barrier rule, and decided later.
    pub few_overlaps: usize,
    /// How many deferred barrier rules are decided with each new trace.
    pub checks_per_trace: usize,
    /// A leaf is specialised only if at least so many barrier rules are required because of it.
    pub specialise_from: usize,
    /// And only if there is one of them for each so many entries of the table.
    pub specialise_entries_per_barrier: usize,
    /// And only if they are at most so many percent of the rules. In a table that is nearly all barrier rules for one leaf,
    /// other leaves will require the same ones.
    pub specialise_max_percent: usize,
    /// How many bits more a specialised leaf may state.
    pub specialise_max_bits: u32,
    /// So many bits more must save at least `2^bits` barrier rules, divided by 2 so many times: each block of packets may
    /// come to have a leaf of its own.
    pub specialise_discount: u32,
    /// Of so many changes sent, one may be a rule that is sent again to save a level.
    pub changes_per_resend: u64,
    /// After so many changes sent, it is seen whether a level can be given up.
    pub changes_between_level_checks: u64,
}

impl Default for Tuning {
    /// What `maple bench rules` measures (`docs/algorithm.md`).
    fn default() -> Tuning {
        Tuning {
            few_overlaps: 16,
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
    /// Lower thresholds: tables of a few rules reach everything that large tables do. For tests.
    pub fn for_small_tables() -> Tuning {
        Tuning {
            few_overlaps: 3,
            specialise_from: 2,
            specialise_max_percent: 90,
            specialise_discount: 2,
            changes_per_resend: 4,
            changes_between_level_checks: 8,
            ..Tuning::default()
        }
    }
}
