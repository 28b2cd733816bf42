//! Benchmarks of Maple as commands: what `maple bench …` runs (`docs/benchmarks.md`).
//!
//! Filter sets and header traces come in the formats of ClassBench. Policies are on the abstract 5-tuple, without the
//! prerequisites that OpenFlow puts on ports, so that filters need no frames.

mod command;
mod input;
mod passes;
mod switch;

pub mod rules;

pub mod growth;

pub mod floor;

pub mod filters;
pub mod headers;

pub mod statistics;

pub mod generate;

pub mod misses;
pub mod mt_route;

pub mod state;

pub mod report;

pub use command::{Bench, BenchArgs, BenchError, Output, main};
pub use filters::{Filter, FilterSet, PortRange, Prefix};
pub use headers::{FiveTuple, TracedHeader};
pub use input::InputError;
pub use rules::policy::{FilterPolicy, OtherLanguage, Ranges};
pub use statistics::Statistics;
