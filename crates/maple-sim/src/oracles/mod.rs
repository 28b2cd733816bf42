//! Other compilers of trace trees, to test [`maple_core::compile`] and to measure it against.
//!
//! * [`ReferenceCompiler`] compiles a tree from scratch each time, in the simplest correct way.
//! * [`paper`] is the paper's compiler, incremental as the paper describes.
//!
//! Both see a tree as the traces of its leaves, and share with Maple's compiler only what a packet region and a match
//! are ([`maple_core::trace::Region`]).

use maple_core::compile::{RuleTable, TableTarget, Tuning};

pub mod paper;
mod reference;

pub use reference::ReferenceCompiler;

/// The compiler that makes a table's rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Maple's own compiler ([`RuleTable::new`]).
    #[default]
    Maple,
    /// Maple's own compiler, with thresholds at which small tables use everything that large ones do
    /// ([`Tuning::for_small_tables`]).
    MapleForSmallTables,
    /// The paper's compiler ([`paper::table`]).
    Paper,
}

impl Strategy {
    /// Returns a function that makes an empty table with this compiler.
    pub fn new_table(self) -> fn(TableTarget) -> RuleTable {
        match self {
            Strategy::Maple => RuleTable::new,
            Strategy::MapleForSmallTables => |target| RuleTable::tuned(target, Tuning::for_small_tables()),
            Strategy::Paper => paper::table,
        }
    }
}
