//! `maple-bench mt-route`: multi-tenant routing in a data centre (paper §6.1 and §6.3, first rows of Tables 1 and 2).
//!
//! Traffic between hosts of 392 racks fills one table until f has decided the requested number of pairs of racks. Then
//! every header is looked up again, and hosts and ports are invalidated one at a time. All rules match pairs of /24
//! prefixes at one priority. The benchmark checks that, so it can model the switch by a hash table.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use maple_core::{Augmented, Change, Fields, LeafAction, LeafId, Rule, RuleTable};
use maple_emulator::Random;
use maple_sim::oracles::Strategy;
use maple_wire::{Action, Field, Instruction, PortNo};
use serde::Serialize;

use crate::error::BenchError;
use crate::headers::FiveTuple;
use crate::output::{Output, with_note};
use crate::passes::Augments;
use crate::report::{Chart, Progress, Series, TextTable};
use crate::rules::play::table as table_of;

pub(crate) mod floor;

mod data_centre;
mod speeds;

use data_centre::{DataCentre, Port, RACK_MASK, Route};
use speeds::Played;

/// `maple-bench mt-route`.
#[derive(Debug, Args)]
pub struct MtRouteArgs {
    /// Number of pairs of racks that communicate; the paper's table has as many rules
    #[arg(long, value_name = "N", default_value_t = 73_563, value_parser = clap::value_parser!(u32).range(1..=140_000))]
    pub pairs: u32,
    /// Number of tenants that share the racks
    #[arg(long, value_name = "N", default_value_t = TENANTS, value_parser = clap::value_parser!(u16).range(1..=392))]
    pub tenants: u16,
    /// Seed for the traffic and the tenants' weights
    #[arg(long, value_name = "N", default_value_t = SEED)]
    pub seed: u64,
    /// Which compiler makes the rules
    #[arg(long, value_enum, default_value_t = Compiler::Both)]
    pub compiler: Compiler,
    /// The form of the results.
    #[command(flatten)]
    pub output: Output,
}

/// A choice of compilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compiler {
    /// Maple's
    Maple,
    /// The paper's
    Paper,
    /// Both in turn
    Both,
}

/// The results of a run. The fields are the keys in JSON, in this order. Rates are those of the fastest pass, unless
/// they are called medians.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MtRouteResult {
    /// The compiler's name.
    pub compiler: &'static str,
    /// Rules after the traffic.
    pub rules: usize,
    /// Distinct priorities of the rules.
    pub levels: usize,
    /// The total number of changes.
    pub flow_mods: usize,
    /// `flow_mods` for each of `rules`.
    pub mods_per_rule: f64,
    /// Traces added per second, including the runs of f.
    pub augments_per_s: f64,
    /// Look-ups in the tree per second.
    pub lookups_per_s: f64,
    /// Hosts invalidated per second.
    pub host_invalidations_per_s: f64,
    /// Ports invalidated per second.
    pub port_invalidations_per_s: f64,
    /// The time of a traced run of f, in microseconds.
    pub f_us: f64,
    /// The time from the end of f's run to the changes, in microseconds.
    pub augment_us: f64,
    /// Headers of the traffic.
    pub headers: usize,
    /// Hosts of the traffic.
    pub hosts: usize,
    /// Ports on routes.
    pub ports: usize,
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

/// The default number of tenants.
pub(crate) const TENANTS: u16 = 20;
/// The default seed.
pub(crate) const SEED: u64 = 1;

/// The paper's rates of augments, look-ups, host invalidations and port invalidations.
pub(crate) const RATES: [f64; 4] = [58_720.0, 555_937.0, 156_284.0, 13_215.0];

/// The paper's first rows of Tables 1 and 2.
const PUBLISHED: [&str; 8] = ["the paper", "73563", "1", "1.00", "58720", "555937", "156284", "13215"];

/// The number of ports of a switch of the fat tree, which gives 392 racks.
const SWITCH_PORTS: usize = 28;

/// The number of rounds, in which the compilers alternate.
const ROUNDS: u32 = 4;
/// The time of a round: a longer one makes more passes, and the benchmark takes longer.
const ROUND: Duration = Duration::from_secs(3);

/// A pair of racks, which a rule matches.
type Pair = (u32, u32);

/// Runs the benchmark.
pub(crate) fn main(args: &MtRouteArgs) -> Result<(), BenchError> {
    let strategies: &[_] = match args.compiler {
        Compiler::Maple => &[("maple", Strategy::Maple)],
        Compiler::Paper => &[("paper", Strategy::Paper)],
        Compiler::Both => &[("maple", Strategy::Maple), ("paper", Strategy::Paper)],
    };
    let centre = DataCentre::new(SWITCH_PORTS, args.tenants.into(), args.seed);
    let traffic = traffic(&centre, args.pairs as usize, args.seed);
    let progress = Progress::new((2 + u64::from(ROUNDS)) * strategies.len() as u64);
    let mut played = Vec::new();
    for (name, strategy) in strategies {
        played.push(Played::new(name, *strategy, &centre, &traffic, &progress)?);
    }
    for round in 1..=ROUNDS {
        for played in &mut played {
            progress.set_message(format!("{}: speeds, round {round} of {ROUNDS}", played.measured.compiler));
            played.passes_until(ROUND * round)?;
            progress.step();
        }
    }
    drop(progress);
    let results: Vec<MtRouteResult> = played.iter().map(Played::measured).collect();
    let note = "rates are per second, in the fastest pass (--json has the medians); us are microseconds of f and of an augment after it";
    args.output.print(&results, || with_note(&table(&results), note), || vec![chart(&results)])
}

/// Generates headers until the requested number of pairs of racks have communicated. All racks send equally often, but
/// some receive far more than others. Half of a rack's packets go to its own tenant.
fn traffic(centre: &DataCentre, pairs: usize, seed: u64) -> Vec<FiveTuple> {
    let mut random = Random::new(seed ^ 0x6d74);
    let racks = centre.racks();
    let (mut seen, mut headers) = (BTreeSet::new(), Vec::new());
    while seen.len() < pairs {
        let src = random.below(racks as u64) as usize;
        // The larger of two would favour late racks; the smaller one slightly favours early ones.
        let dst = random.below(racks as u64).min(random.below(racks as u64)) as usize;
        let dst = if random.chance(0.5) { dst } else { random.below(racks as u64) as usize };
        if src == dst {
            continue;
        }
        seen.insert((src, dst));
        let mut host = |rack| centre.address(rack, 1 + random.below(254) as u32);
        let (src, dst) = (host(src), host(dst));
        let src_port = 32_768 + random.below(28_000) as u16;
        headers.push(FiveTuple { src, dst, src_port, dst_port: 80, proto: 6 });
    }
    headers
}

/// A controller and its switch.
struct Play<'a> {
    centre: &'a DataCentre,
    table: RuleTable,
    switch: RackRules,
    /// The leaves of each rack as source or destination, by subnet.
    by_rack: HashMap<u32, Vec<LeafId>>,
    /// The leaves whose routes use each port.
    by_port: BTreeMap<Port, Vec<LeafId>>,
    /// The action of each leaf.
    ports: Vec<Option<Port>>,
    /// The headers that were misses, one for each leaf.
    misses: Vec<FiveTuple>,
    flow_mods: usize,
    wrong: usize,
}

/// The result of a miss.
struct LearningOutcome {
    route: Route,
    outcome: Augmented,
    changes: Vec<Change>,
}

impl<'a> Play<'a> {
    fn new(strategy: Strategy, centre: &'a DataCentre) -> Play<'a> {
        Play {
            centre,
            table: table_of(strategy),
            switch: RackRules::default(),
            by_rack: HashMap::new(),
            by_port: BTreeMap::new(),
            ports: Vec::new(),
            misses: Vec::new(),
            flow_mods: 0,
            wrong: 0,
        }
    }

    /// Handles a header that arrives at the switch.
    fn header(&mut self, header: &FiveTuple) -> Result<(), BenchError> {
        if self.switch.rules.contains_key(&pair(header)) {
            return Ok(());
        }
        let leaf = LeafId(self.misses.len() as u64);
        let mut times = Augments::default();
        let LearningOutcome { route, outcome, changes } = times.learn(&mut self.table, self.centre, header, leaf);
        if outcome != Augmented::Added {
            return Err(BenchError::WrongResult(format!(
                "{header:?}: the tree has the trace, but the switch has no rule"
            )));
        }
        self.ports.push(route.ports.first().copied());
        self.misses.push(*header);
        for subnet in [header.src & RACK_MASK, header.dst & RACK_MASK] {
            self.by_rack.entry(subnet).or_default().push(leaf);
        }
        for port in route.ports.into_iter().collect::<BTreeSet<_>>() {
            self.by_port.entry(port).or_default().push(leaf);
        }
        self.change(&changes)
    }

    fn change(&mut self, changes: &[Change]) -> Result<(), BenchError> {
        self.flow_mods += changes.len();
        changes.iter().try_for_each(|change| self.switch.apply(change)).map_err(BenchError::WrongResult)
    }

    /// Counts headers for which the tree or the switch disagrees with f. Sending to the controller is always correct.
    fn check(&mut self, headers: &[FiveTuple]) {
        for header in headers {
            let wanted =
                self.centre.decide(|field, mask| header.value(field).unwrap_or(0) & mask).ports.first().copied();
            let by_switch = self.switch.rules.get(&pair(header)).is_none_or(|rule| rule.port == wanted);
            let by_tree = self.table.tree().search(header).is_none_or(|leaf| self.ports[leaf.0 as usize] == wanted);
            self.wrong += usize::from(!by_switch || !by_tree);
        }
    }

    /// Removes leaves group by group, and checks answers half-way and at the end.
    fn invalidate(&mut self, groups: &[Vec<LeafId>], headers: &[FiveTuple]) -> Result<(), BenchError> {
        for (at, group) in groups.iter().enumerate() {
            self.table.remove_all(group);
            let changes = self.table.take_changes();
            self.change(&changes)?;
            if at == groups.len() / 2 {
                self.check(headers);
            }
        }
        self.check(headers);
        Ok(())
    }

    /// Returns for each host the leaves of its rack, unless an earlier host has them.
    fn groups_of_hosts(&mut self, hosts: &BTreeSet<u32>) -> Vec<Vec<LeafId>> {
        let mut by_rack = std::mem::take(&mut self.by_rack);
        hosts.iter().map(|host| by_rack.remove(&(host & RACK_MASK)).unwrap_or_default()).collect()
    }

    /// Returns for each port the leaves whose routes use it.
    fn groups_of_ports(&mut self) -> Vec<Vec<LeafId>> {
        std::mem::take(&mut self.by_port).into_values().collect()
    }
}

fn played<'a>(strategy: Strategy, centre: &'a DataCentre, traffic: &[FiveTuple]) -> Result<Play<'a>, BenchError> {
    let mut play = Play::new(strategy, centre);
    traffic.iter().try_for_each(|header| play.header(header))?;
    Ok(play)
}

impl Augments {
    /// Decides for a new header, as the controller.
    fn learn(
        &mut self,
        table: &mut RuleTable,
        centre: &DataCentre,
        header: &FiveTuple,
        leaf: LeafId,
    ) -> LearningOutcome {
        let begin = Instant::now();
        let mut run = table.begin_replay();
        let route = centre.decide(|field, mask| run.read_there(header, field, mask));
        let followed = run.finish(header);
        let ran = Instant::now();
        let outcome = table.insert_replayed(followed, leaf, action(route.ports.first().copied()), header);
        let changes = table.take_changes();
        self.in_augment += ran.elapsed();
        self.in_f += ran - begin;
        LearningOutcome { route, outcome, changes }
    }
}

/// The rules of a switch, one for each pair of racks.
#[derive(Default)]
struct RackRules {
    rules: HashMap<Pair, SwitchRule>,
}

#[derive(PartialEq, Eq)]
struct SwitchRule {
    priority: u16,
    /// The output port; `None` drops packets.
    port: Option<Port>,
}

impl RackRules {
    fn apply(&mut self, change: &Change) -> Result<(), String> {
        let rule = change.rule();
        let pair = pair_of(rule)?;
        let new = SwitchRule { priority: rule.priority, port: port_of(rule)? };
        match change {
            // A rule may be added at its new priority before it is deleted at the old one.
            Change::Add(_) | Change::Modify(_) => drop(self.rules.insert(pair, new)),
            Change::Delete(_) => {
                if self.rules.get(&pair).is_some_and(|there| there.priority == new.priority) {
                    self.rules.remove(&pair);
                }
            }
        }
        Ok(())
    }

    /// Returns the number of different priorities.
    fn levels(&self) -> usize {
        self.rules.values().map(|rule| rule.priority).collect::<BTreeSet<_>>().len()
    }
}

fn pair(header: &FiveTuple) -> Pair {
    (header.src & RACK_MASK, header.dst & RACK_MASK)
}

fn pair_of(rule: &Rule) -> Result<Pair, String> {
    let constraints: Vec<_> = rule.matching.constraints().collect();
    match constraints[..] {
        [src, dst] if src.field == Field::Ipv4Src && dst.field == Field::Ipv4Dst && src.mask == dst.mask => {
            if src.mask == u128::from(RACK_MASK) { Ok((src.value as u32, dst.value as u32)) } else { Err(()) }
        }
        _ => Err(()),
    }
    .map_err(|()| format!("a rule does not match a pair of racks: {rule:?}"))
}

fn port_of(rule: &Rule) -> Result<Option<Port>, String> {
    match &rule.instructions[..] {
        [] => Ok(None),
        [Instruction::ApplyActions(actions)] => match actions[..] {
            [Action::Output { port, .. }] if port != PortNo::CONTROLLER => Ok(Some(port.0 - 1)),
            _ => Err(format!("{rule:?} has actions that no route of f has")),
        },
        _ => Err(format!("{rule:?} has actions that no route of f has")),
    }
}

fn action(port: Option<Port>) -> LeafAction {
    let output = |port| Instruction::ApplyActions(vec![Action::output(PortNo(port + 1))]);
    LeafAction::Apply(port.map(output).into_iter().collect())
}

fn table(results: &[MtRouteResult]) -> TextTable {
    let heads = [
        "compiler",
        "rules",
        "levels",
        "mods/rule",
        "augments",
        "lookups",
        "host inval.",
        "port inval.",
        "f us",
        "augment us",
    ];
    let mut table = TextTable::new(heads);
    for m in results {
        let rates = [m.augments_per_s, m.lookups_per_s, m.host_invalidations_per_s, m.port_invalidations_per_s];
        let mut cells = vec![m.compiler.to_string(), m.rules.to_string(), m.levels.to_string()];
        cells.push(format!("{:.2}", m.mods_per_rule));
        cells.extend(rates.map(|rate| format!("{rate:.0}")));
        cells.extend([m.f_us, m.augment_us].map(|us| format!("{us:.2}")));
        table.row(cells);
    }
    table.row(PUBLISHED);
    table
}

fn chart(results: &[MtRouteResult]) -> Chart {
    let line = |m: &MtRouteResult| {
        let rates = [m.augments_per_s, m.lookups_per_s, m.host_invalidations_per_s, m.port_invalidations_per_s];
        let points = rates.iter().enumerate().map(|(i, rate)| ((i + 1) as f64, *rate)).collect();
        Series { name: m.compiler.into(), points }
    };
    let points = RATES.iter().enumerate().map(|(i, rate)| ((i + 1) as f64, *rate)).collect();
    let published = Series { name: "the paper's figures".into(), points };
    Chart {
        title: "mt-route".into(),
        x: "1 augments, 2 look-ups, 3 host invalidations, 4 port invalidations".into(),
        y: "a second".into(),
        log_x: false,
        log_y: true,
        labels: Vec::new(),
        series: results.iter().map(line).chain([published]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_compilers_make_one_rule_a_pair_at_one_priority_and_answer_as_f_does() {
        let centre = DataCentre::new(4, 3, 1);
        let traffic = traffic(&centre, 40, 1);
        for (name, strategy) in [("maple", Strategy::Maple), ("paper", Strategy::Paper)] {
            let mut played = Played::new(name, strategy, &centre, &traffic, &Progress::hidden()).unwrap();
            played.passes_until(Duration::from_millis(1)).unwrap();
            let measured = played.measured();
            assert_eq!((measured.rules, measured.levels, measured.flow_mods, measured.wrong), (40, 1, 40, 0));
        }
    }

    #[test]
    fn a_seed_determines_the_traffic_of_the_requested_number_of_pairs() {
        let centre = DataCentre::new(6, 2, 1);
        let headers = traffic(&centre, 100, 7);
        assert_eq!(headers, traffic(&centre, 100, 7));
        assert_ne!(headers, traffic(&centre, 100, 8));
        assert_eq!(headers.iter().map(pair).collect::<BTreeSet<_>>().len(), 100);
    }
}
