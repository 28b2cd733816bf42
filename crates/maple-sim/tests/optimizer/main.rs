//! The optimizer as a whole, compared with the naive oracle, which runs the policy and scans the table line by line.
//!
//! Policies and packets are random ([`policy`]), or written out as text ([`scripts`]).

mod policy;
#[path = "../../../../tests/skip.rs"]
mod skip;

mod classbench;
mod compile;
mod deep;
mod essay;
mod levels;
mod paper;
mod record;
mod scripts;
mod table;
mod update;
