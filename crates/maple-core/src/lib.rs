//! Maple's engine: packet → policy → trace → tree → rules → ordered changes.
//!
//! Nothing here does I/O, reads a clock or starts a thread: the same events in give the same rules out.

pub mod trace;

pub mod tree;

pub mod capabilities;
pub mod compile;

pub mod update;

pub use capabilities::Capabilities;
pub use compile::{Compiler, LeafAction, Rule};
pub use trace::{Cond, Fields, Item, Range, Recorder, Source, Trace};
pub use tree::{Augmented, LeafId, Tree};
pub use update::{Change, changes};
