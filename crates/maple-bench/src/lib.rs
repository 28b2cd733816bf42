//! Benchmarks of Maple as commands: the program `maple-bench` (`docs/benchmarks.md`).
//!
//! Filter sets and header traces have the formats of ClassBench. Policies read the abstract 5-tuple, without the
//! prerequisites that OpenFlow requires for ports, so filters need no frames.
//!
//! Modules are listed in the order of their layers, the lowest first.

mod input;
mod report;
mod values;

mod error;
mod output;

mod headers;

mod filters;
mod passes;
mod statistics;
mod switch;

mod generate;
mod misses;
pub mod rules;
mod state;

mod growth;
mod mt_route;
mod rebuild;

mod floor;

mod controllers;

mod flows;
mod throughput;

mod command;

pub use command::main;
pub use error::BenchError;
pub use filters::{Filter, FilterSet, PortRange, Prefix};
pub use headers::{FiveTuple, TracedHeader};
pub use input::InputError;
pub use output::Output;
pub use rules::policy::{FilterPolicy, Language, Ranges, Rust};
pub use statistics::Statistics;
