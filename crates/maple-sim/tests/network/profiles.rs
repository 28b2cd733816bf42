//! Switches as they are sold (`profiles.txt`): whatever a switch can do, each packet gets f's answer.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::str::FromStr;

use maple_core::engine::Options;
use maple_core::report::{Lowered, Report};
use maple_sim::seeds::Seeds;
use maple_sim::{Choices, SimNetwork, SimSwitch};
use maple_wire::{Dpid, Field, Version};

use crate::look_ups::{check_all, keys, network, packet_ins, write};

const ONE: Dpid = Dpid(1);
/// The numbers of hosts: more than the smallest tables hold.
const HOSTS: u64 = 14;

/// A switch that is sold, or a limit case.
struct Profile {
    name: &'static str,
    tables: u8,
    taken: u8,
    metadata: bool,
    sizes: Vec<(u8, usize)>,
    exact: Vec<(u8, Vec<Field>)>,
}

fn number<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn profile(line: &'static str) -> Profile {
    let [name, tables, taken, metadata, sizes, exact, source] =
        line.split(" | ").collect::<Vec<_>>().try_into().unwrap_or_else(|of| panic!("{line}: {of:?}"));
    assert!(!source.trim().is_empty(), "{name} needs a source");
    let pairs =
        |text: &'static str| text.split(' ').filter(|part| *part != "-").filter_map(|part| part.split_once(':'));
    let size = |(table, size): (&str, &str)| (number(table), number(size));
    let all = if sizes.contains([':', '-']) { None } else { Some(number(sizes)) };
    let fields = |names: &'static str| names.split(',').map(|name| Field::from_name(name).expect("a field")).collect();
    Profile {
        name,
        tables: number(tables),
        taken: number(taken),
        metadata: metadata == "yes",
        sizes: all.map_or_else(|| pairs(sizes).map(size).collect(), |all| (0..9).map(|table| (table, all)).collect()),
        exact: pairs(exact).map(|(table, names)| (number(table), fields(names))).collect(),
    }
}

fn profiles() -> Vec<Profile> {
    let lines = include_str!("profiles.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(profile).collect()
}

impl Profile {
    fn switch(&self) -> SimSwitch {
        let mut switch = SimSwitch::new(ONE, Version::Of13);
        switch.model.change_options(|options| options.n_tables = self.tables);
        switch.refuses_table = (self.taken < self.tables).then_some(self.taken);
        switch.takes_metadata = self.metadata;
        self.sizes.iter().for_each(|(table, rules)| switch.model.set_table_size(*table, *rules));
        switch.exact_tables.extend(self.exact.iter().cloned());
        switch
    }
}

/// Writes other rows: hosts get other groups and ports, or none.
fn change(sim: &mut SimNetwork, random: &mut Choices) {
    let mut some = |most: usize| -> Vec<(u64, Option<i64>)> {
        let hosts = (0..HOSTS).filter(|_| random.one_in(2)).collect::<Vec<_>>();
        hosts.into_iter().map(|n| (n, (!random.one_in(4)).then(|| 1 + random.below(most) as i64))).collect()
    };
    let (groups, ports) = (some(9), some(4));
    write(sim, "groups", groups);
    write(sim, "ports", ports);
}

#[test]
fn each_packet_gets_the_answer_of_the_policy_on_every_switch() {
    let Seeds { fixed, fresh } = Seeds::share(|all| all, 2, 1);
    for (seed, profile) in fixed.chain(fresh).flat_map(|seed| profiles().into_iter().map(move |of| (seed, of))) {
        println!("{} MAPLE_SEED={seed}", profile.name);
        let (mut sim, mut random) = (network(profile.switch(), &Options::default()), Choices::new(seed));
        for _ in 0..4 {
            change(&mut sim, &mut random);
            check_all(&mut sim, 0..HOSTS + 2);
        }
        sim.check_settled().unwrap();
        println!("{} and {} keys, {} packet-ins", keys(&mut sim, 1), keys(&mut sim, 2), packet_ins(&sim));
    }
}

#[test]
fn a_switch_says_which_look_ups_it_does_not_do() {
    let lowered = |profile: &Profile| {
        let mut sim = network(profile.switch(), &Options::default());
        write(&mut sim, "groups", (0..HOSTS).map(|n| (n, Some(n as i64))));
        write(&mut sim, "ports", (0..HOSTS).map(|n| (n, Some(1 + n as i64 % 4))));
        check_all(&mut sim, 0..HOSTS);
        let text = |report: &Report| match report {
            Report::LookUpLowered { look_up, why, .. } => Some(format!("{look_up}: {why}")),
            Report::FewerTables { tables, .. } => Some(format!("tables: {tables}")),
            _ => None,
        };
        let mut said: BTreeSet<String> = sim.reports.iter().filter_map(text).collect();
        assert!(!said.iter().any(|text| text.ends_with(&Lowered::NoTables.to_string())), "only shown: {said:?}");
        let shown = sim.engines().iter().flat_map(|engine| engine.view().look_ups(Dpid(1)).unwrap_or_default());
        let without_tables = shown.filter(|status| status.lowered == Some(Lowered::NoTables));
        said.extend(without_tables.map(|status| format!("{}: {}", status.look_up, Lowered::NoTables)));
        format!("{} {:?}", profile.name, Vec::from_iter(said))
    };
    let all: Vec<String> = profiles().iter().map(lowered).collect();
    let (refuses, full) = ("the switch refuses its rules", "its table in the switch is full");
    let no_table = "ports[eth_dst]: the switch has no further table for look-ups";
    let no_tables = |name: &str, before: &[&str]| {
        let no = Lowered::NoTables;
        let said = [format!("groups[eth_src]: {no}"), format!("ports[eth_dst]: {no}")];
        let before = before.iter().map(|text| (*text).to_owned());
        format!("{name} {:?}", said.into_iter().chain(before).collect::<Vec<_>>())
    };
    let expected = [
        "open-vswitch []".to_owned(),
        "ofsoftswitch13 []".to_owned(),
        no_tables("dell-n3200", &[]),
        no_tables("dell-s4048-os10", &[]),
        no_tables("junos-ex9200", &[]),
        format!("arubaos-custom-pipeline [\"groups[eth_src]: {refuses}\", \"ports[eth_dst]: {refuses}\"]"),
        format!("dell-force10-l2 [\"ports[eth_dst]: {refuses}\"]"),
        "exact-l2 []".to_owned(),
        no_tables("two-tables", &[]),
        no_tables("four-tables", &[]),
        format!("five-tables [\"{no_table}\"]"),
        no_tables("announced-and-refused", &["tables: 4"]),
        "announced-and-refused-routes []".to_owned(),
        format!("small-tcam [\"groups[eth_src]: {full}\", \"ports[eth_dst]: {full}\"]"),
    ];
    assert_eq!(all, expected);
}
