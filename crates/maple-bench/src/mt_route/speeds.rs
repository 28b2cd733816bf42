//! Measures speeds by passes over traffic: augments, look-ups and invalidations.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Duration;

use maple_core::{LeafId, RuleTable};
use maple_sim::oracles::Strategy;

use super::data_centre::DataCentre;
use super::{MtRouteResult, played};
use crate::error::BenchError;
use crate::headers::FiveTuple;
use crate::passes::{Augments, Passes, Spent, timed};
use crate::report::Progress;
use crate::rules::play::table;

/// Traffic that a compiler's table has learned, and passes over it.
pub(super) struct Played<'a> {
    strategy: Strategy,
    centre: &'a DataCentre,
    traffic: &'a [FiveTuple],
    /// The results except for the speeds.
    pub(super) measured: MtRouteResult,
    misses: Vec<FiveTuple>,
    of_hosts: Vec<Vec<LeafId>>,
    of_ports: Vec<Vec<LeafId>>,
    spent: Spent,
    speeds: Speeds,
}

/// The times of passes.
#[derive(Default)]
struct Speeds {
    augments: Passes<Augments>,
    lookups: Passes<Duration>,
    of_hosts: Passes<Duration>,
    of_ports: Passes<Duration>,
}

impl<'a> Played<'a> {
    /// Plays the traffic, and invalidates hosts and ports. All answers are checked.
    pub(super) fn new(
        name: &'static str,
        strategy: Strategy,
        centre: &'a DataCentre,
        traffic: &'a [FiveTuple],
        progress: &Progress,
    ) -> Result<Played<'a>, BenchError> {
        progress.set_message(format!("{name}: traffic, and hosts are invalidated"));
        let mut play = played(strategy, centre, traffic)?;
        play.check(traffic);
        let (rules, levels, flow_mods) = (play.switch.rules.len(), play.switch.levels(), play.flow_mods);
        let hosts: BTreeSet<u32> = traffic.iter().flat_map(|header| [header.src, header.dst]).collect();
        let of_hosts = play.groups_of_hosts(&hosts);
        play.invalidate(&of_hosts, traffic)?;
        progress.step();
        progress.set_message(format!("{name}: ports are invalidated"));
        let mut again = played(strategy, centre, traffic)?;
        let of_ports = again.groups_of_ports();
        again.invalidate(&of_ports, traffic)?;
        progress.step();
        let wrong = play.wrong + again.wrong;
        if wrong > 0 {
            return Err(BenchError::WrongResult(format!("{name}: {wrong} answers were wrong")));
        }
        let measured = MtRouteResult {
            compiler: name,
            rules,
            levels,
            flow_mods,
            mods_per_rule: flow_mods as f64 / rules.max(1) as f64,
            headers: traffic.len(),
            hosts: of_hosts.len(),
            ports: of_ports.len(),
            wrong,
            ..MtRouteResult::default()
        };
        let (misses, spent, speeds) = (play.misses, Spent::default(), Speeds::default());
        Ok(Played { strategy, centre, traffic, measured, misses, of_hosts, of_ports, spent, speeds })
    }

    /// Makes passes until the budget is spent.
    pub(super) fn passes_until(&mut self, budget: Duration) -> Result<(), BenchError> {
        let mut spent = std::mem::take(&mut self.spent);
        spent.spend(budget, || {
            self.pass();
            Ok(())
        })?;
        self.spent = spent;
        Ok(())
    }

    /// Fills two tables without a switch. Look-ups and host invalidations use one, port invalidations the other.
    fn pass(&mut self) {
        let mut table = self.grow();
        let look_up = |header| _ = black_box(table.tree().search(black_box(header)));
        self.speeds.lookups.push(timed(|| self.traffic.iter().for_each(look_up)).1);
        self.speeds.of_hosts.push(timed(|| invalidate(&mut table, &self.of_hosts)).1);
        table = self.grow();
        self.speeds.of_ports.push(timed(|| invalidate(&mut table, &self.of_ports)).1);
    }

    /// Builds the table after all misses.
    fn grow(&mut self) -> RuleTable {
        let (mut table, mut augments) = (table(self.strategy), Augments::default());
        for (miss, leaf) in self.misses.iter().zip(0..) {
            black_box(augments.learn(&mut table, self.centre, miss, LeafId(leaf)));
        }
        self.speeds.augments.push(augments);
        table
    }

    /// Returns the results with the speeds.
    pub(super) fn measured(&self) -> MtRouteResult {
        let Speeds { augments, lookups, of_hosts, of_ports } = &self.speeds;
        let Augments { in_f, in_augment } = augments.fastest();
        let per_augment = |time: Duration| time.as_secs_f64() * 1e6 / self.misses.len().max(1) as f64;
        let (augments, lookups) = (augments.per_second(self.misses.len()), lookups.per_second(self.traffic.len()));
        let (hosts, ports) = (of_hosts.per_second(self.of_hosts.len()), of_ports.per_second(self.of_ports.len()));
        MtRouteResult {
            augments_per_s: augments.fastest,
            lookups_per_s: lookups.fastest,
            host_invalidations_per_s: hosts.fastest,
            port_invalidations_per_s: ports.fastest,
            f_us: per_augment(in_f),
            augment_us: per_augment(in_augment),
            augments_per_s_median: augments.median,
            lookups_per_s_median: lookups.median,
            host_invalidations_per_s_median: hosts.median,
            port_invalidations_per_s_median: ports.median,
            ..self.measured
        }
    }
}

/// Removes leaves group by group.
fn invalidate(table: &mut RuleTable, groups: &[Vec<LeafId>]) {
    for group in groups {
        table.remove_all(group);
        black_box(table.take_changes());
    }
}
