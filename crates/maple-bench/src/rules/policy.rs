//! f: a policy that interprets a filter set (paper §6.1).
//!
//! It tests one filter at a time, and decides by the number of the first match. Each filter has a different decision,
//! so no two rules agree by accident. A filter is one test of several conditions. Its ports are part of the test, or
//! are read: see [`Ranges`].

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;

use clap::ValueEnum;
use maple_core::{Cond, Range, Recorder, Replay};
use maple_wire::{Constraint, Field};

use crate::filters::{Filter, FilterSet, PortRange};
use crate::headers::FiveTuple;

/// A policy that interprets a filter set.
pub trait FilterPolicy {
    /// Runs f on a header. All its reads and tests go through `run`, or are repeated there ([`Replay::observe`]).
    /// Returns the first filter that the header matches, if there is one.
    ///
    /// # Errors
    /// The error of f, in its language's words.
    fn run(&mut self, header: &FiveTuple, run: &mut Replay<'_>) -> Result<Option<usize>, Box<dyn Error + Send + Sync>>;

    /// Runs f on a header with a recorder and without a tree.
    ///
    /// # Errors
    /// The error of f, in its language's words.
    fn run_alone(&mut self, header: &FiveTuple) -> Result<Option<usize>, Box<dyn Error + Send + Sync>>;
}

/// Answers f's reads and tests of a header.
trait Answers {
    /// Reports whether the conditions hold.
    fn fits(&mut self, header: &FiveTuple, cond: &Arc<Cond>) -> bool;
    /// Returns the value of a field.
    fn read(&mut self, header: &FiveTuple, field: Field) -> u128;
}

impl Answers for Replay<'_> {
    fn fits(&mut self, header: &FiveTuple, cond: &Arc<Cond>) -> bool {
        Replay::fits(self, header, cond)
    }

    fn read(&mut self, header: &FiveTuple, field: Field) -> u128 {
        self.read_there(header, field, field.full_mask())
    }
}

impl Answers for Recorder {
    fn fits(&mut self, header: &FiveTuple, cond: &Arc<Cond>) -> bool {
        Recorder::fits(self, header, cond, None)
    }

    fn read(&mut self, header: &FiveTuple, field: Field) -> u128 {
        self.read_there(header, field, field.full_mask(), None)
    }
}

/// A language that policies are written in.
pub trait Language {
    /// Makes the policy that interprets a filter set.
    ///
    /// # Errors
    /// If the policy can't be made.
    fn filter_policy(
        &self,
        set: &FilterSet,
        ranges: Ranges,
    ) -> Result<Box<dyn FilterPolicy>, Box<dyn Error + Send + Sync>>;
}

/// Rust: the policy is an [`Interpreter`].
pub struct Rust;

impl Language for Rust {
    fn filter_policy(
        &self,
        set: &FilterSet,
        ranges: Ranges,
    ) -> Result<Box<dyn FilterPolicy>, Box<dyn Error + Send + Sync>> {
        Ok(Box::new(Interpreter::new(set, ranges)))
    }
}

/// The test of the policy for a range of ports that is neither one port nor all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ranges {
    /// Tests the range as part of the filter; the compiler chooses a form for it
    Auto,
    /// Does as the paper: if everything else matches, read the port and compare
    Exact,
}

/// The policy in Rust.
pub struct Interpreter {
    tests: Vec<FilterTest>,
}

/// A filter as f tests it.
struct FilterTest {
    /// The filter as one test.
    assertion: Arc<Cond>,
    /// Ports that are read if the test holds.
    reads: Vec<(Field, PortRange)>,
}

impl Interpreter {
    /// Creates the policy for a filter set.
    pub fn new(set: &FilterSet, ranges: Ranges) -> Interpreter {
        Interpreter { tests: set.filters.iter().map(|filter| FilterTest::new(filter, ranges)).collect() }
    }

    fn first_match(&self, header: &FiveTuple, run: &mut impl Answers) -> Option<usize> {
        self.tests.iter().position(|test| test.fits(run, header))
    }
}

impl FilterPolicy for Interpreter {
    fn run(&mut self, header: &FiveTuple, run: &mut Replay<'_>) -> Result<Option<usize>, Box<dyn Error + Send + Sync>> {
        Ok(self.first_match(header, run))
    }

    fn run_alone(&mut self, header: &FiveTuple) -> Result<Option<usize>, Box<dyn Error + Send + Sync>> {
        let mut run = Recorder::of_headers();
        let filter = self.first_match(header, &mut run);
        black_box(run.finish());
        Ok(filter)
    }
}

/// Returns the condition that a filter states, with its ranges of ports.
pub(crate) fn condition(filter: &Filter) -> Arc<Cond> {
    FilterTest::new(filter, Ranges::Auto).assertion
}

impl FilterTest {
    fn new(filter: &Filter, ranges: Ranges) -> FilterTest {
        let mut assertion = Cond::default();
        let mut reads = Vec::new();
        if let Some(proto) = filter.proto {
            assertion.constraints.push(Constraint::exact(Field::IpProto, proto.into()));
        }
        for (field, prefix) in [(Field::Ipv4Src, filter.src), (Field::Ipv4Dst, filter.dst)] {
            if prefix.length > 0 {
                assertion.constraints.push(Constraint::masked(field, prefix.address.into(), prefix.mask().into()));
            }
        }
        for (field, ports) in [(Field::TcpSrc, filter.src_ports), (Field::TcpDst, filter.dst_ports)] {
            let (lo, hi) = (ports.lo.into(), ports.hi.into());
            match ranges {
                _ if ports.is_all() => {}
                _ if lo == hi => assertion.constraints.push(Constraint::exact(field, lo)),
                Ranges::Auto => assertion.ranges.push(Range { field, lo, hi }),
                Ranges::Exact => reads.push((field, ports)),
            }
        }
        FilterTest { assertion: Arc::new(assertion), reads }
    }

    fn fits(&self, run: &mut impl Answers, header: &FiveTuple) -> bool {
        run.fits(header, &self.assertion)
            && self.reads.iter().all(|(field, ports)| ports.holds(run.read(header, *field) as u16))
    }
}

#[cfg(test)]
mod tests {
    use maple_core::{Capabilities, LeafId, Tree};

    use super::*;

    fn set(lines: &[&str]) -> FilterSet {
        FilterSet { name: "x".into(), filters: lines.iter().map(|line| line.parse().unwrap()).collect() }
    }

    /// Returns the decision, and the path through the tree to it.
    fn answer(set: &FilterSet, ranges: Ranges, header: &FiveTuple) -> (Option<usize>, String) {
        let (mut tree, can) = (Tree::new(), Capabilities::of_abstract_headers());
        let mut run = tree.begin_replay(&can);
        let filter = Interpreter::new(set, ranges).run(header, &mut run).unwrap();
        let run = run.finish(header);
        tree.insert_replayed(run, LeafId(0));
        let items: Vec<String> = tree.path(LeafId(0)).unwrap().iter().map(ToString::to_string).collect();
        (filter, items.join("; "))
    }

    #[test]
    fn ranges_are_part_of_the_test_or_read() {
        let set = set(&[
            "@10.0.0.0/8 0.0.0.0/0 0 : 65535 20 : 21 0x06/0xFF 0x0000/0x0000",
            "@0.0.0.0/0 1.2.3.4/32 53 : 53 1024 : 65535 0x00/0x00 0x0000/0x0000",
        ]);
        let header = FiveTuple { src: 0x0a00_0001, dst: 0x0102_0304, src_port: 53, dst_port: 5000, proto: 6 };
        // The second range has many blocks, so the leading bits of the port are read until they decide.
        let auto = "test ip_proto=6, ipv4_src=10.0.0.0/8, tcp_dst=20..21: no; test ipv4_dst=1.2.3.4, tcp_src=53: yes; \
                    read tcp_dst=0/0x8000; read tcp_dst=0/0xc000; read tcp_dst=0/0xe000; read tcp_dst=4096/0xf000";
        assert_eq!(answer(&set, Ranges::Auto, &header), (Some(1), auto.into()));
        let exact = "test ip_proto=6, ipv4_src=10.0.0.0/8: yes; read tcp_dst=5000; \
                     test ipv4_dst=1.2.3.4, tcp_src=53: yes";
        assert_eq!(answer(&set, Ranges::Exact, &header), (Some(1), exact.into()));
        let other = FiveTuple { src: 1, dst: 2, ..header };
        for ranges in [Ranges::Auto, Ranges::Exact] {
            assert_eq!(answer(&set, ranges, &other).0, None);
        }
    }
}
