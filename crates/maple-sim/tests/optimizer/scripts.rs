//! Text scripts: packets of a policy go in, the tree and the rules come out.
//!
//! A script is a file in `tests/optimizer/scripts`. Its first part lists its steps, one a line:
//!
//! ```text
//! # A comment.
//! policy NAME                one of the policies in this file
//! switch 1.3 | 1.3 masked-ports | 1.0
//! under FIELD=VALUE …        compile for packets with these values only, and leave them out of the traces
//! packet FIELD=VALUE …       the policy runs on this packet; fields not named are 0
//! forget LEAF                the leaf is removed
//! show                       writes the tree and the rules
//! show algorithm-2           writes the rules of the paper's Algorithm 2
//! show algorithm-5           writes the rules of the paper's Algorithm 5
//! ```
//!
//! Its second part, after a line `----`, is the output of the script. `MAPLE_BLESS=1 cargo test` rewrites that part.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use maple_core::{Augmented, Capabilities, LeafAction, LeafId, Recorder, Rule, RuleTable, TableTarget, Tree};
use maple_sim::oracles::paper::{build_ft, opt_build_ft};
use maple_wire::{Action, Constraint, Field, Instruction, PortNo, print};

use crate::compile::{of10, of13, of13_masked_ports};
use crate::policy::Headers;

/// A policy. It returns the port by which the packet leaves, or 0 to drop it.
type Policy = fn(&mut Recorder, &Headers) -> u32;

const POLICIES: &[(&str, Policy)] = &[
    ("figure-2", figure_2),
    ("prefixes", prefixes),
    ("transport", transport),
    ("ranges", ranges),
    ("vlans", vlans),
    ("addresses", addresses),
    ("unfaithful", unfaithful),
];

fn is(recorder: &mut Recorder, packet: &Headers, field: Field, value: u128) -> bool {
    recorder.equals(packet, field, value, field.full_mask(), None)
}

fn get(recorder: &mut Recorder, packet: &Headers, field: Field) -> Option<u128> {
    recorder.read(packet, field, field.full_mask(), None)
}

/// Decides as the policy of the paper's figures 2 to 4.
fn figure_2(recorder: &mut Recorder, packet: &Headers) -> u32 {
    if is(recorder, packet, Field::TcpDst, 22) || get(recorder, packet, Field::EthDst) == Some(2) {
        return 0;
    }
    if get(recorder, packet, Field::EthSrc) == Some(6) { 30 } else { 31 }
}

/// Decides as the policy of the paper's figure 5.
fn prefixes(recorder: &mut Recorder, packet: &Headers) -> u32 {
    let mut is_in = |address: [u8; 4], length: u32| {
        let mask = u128::from(u32::MAX << (32 - length));
        recorder.equals(packet, Field::Ipv4Dst, u32::from_be_bytes(address).into(), mask, None)
    };
    if is_in([103, 23, 0, 0], 16) {
        return if is_in([103, 23, 3, 0], 24) { 1 } else { 2 };
    }
    if is_in([101, 1, 0, 0], 16) {
        return 3;
    }
    if is_in([101, 0, 0, 0], 13) { 4 } else { 5 }
}

/// Reads a field that many packets lack.
fn transport(recorder: &mut Recorder, packet: &Headers) -> u32 {
    match get(recorder, packet, Field::TcpDst) {
        Some(22) => 1,
        Some(_) => 2,
        None => 3,
    }
}

fn ranges(recorder: &mut Recorder, packet: &Headers) -> u32 {
    if recorder.in_range(packet, Field::TcpDst, 1000, 1030, None) {
        return 1;
    }
    // A packet for which the first test held is asked nothing new.
    if recorder.in_range(packet, Field::TcpDst, 1010, 1020, None) { 2 } else { 3 }
}

fn vlans(recorder: &mut Recorder, packet: &Headers) -> u32 {
    match get(recorder, packet, Field::VlanPcp) {
        Some(priority) => priority as u32,
        None => 9,
    }
}

fn addresses(recorder: &mut Recorder, packet: &Headers) -> u32 {
    if recorder.equals(packet, Field::Ipv6Src, 1, u128::MAX, None) {
        return 1;
    }
    match recorder.read(packet, Field::Ipv4Src, 0xffff_ff00, None) {
        Some(network) => (network >> 8 & 0xff) as u32,
        None => 0,
    }
}

/// Reads the source without the recorder.
fn unfaithful(recorder: &mut Recorder, packet: &Headers) -> u32 {
    get(recorder, packet, Field::InPort);
    match packet.0[&Field::EthSrc] {
        1 => get(recorder, packet, Field::EthDst).unwrap_or(0) as u32,
        2 => u32::from(is(recorder, packet, Field::EthDst, 5)),
        _ => 7,
    }
}

/// The state of a running script.
struct Stage {
    policy: Policy,
    capabilities: Capabilities,
    under: Vec<Constraint>,
    table: RuleTable,
    answers: BTreeMap<LeafId, u32>,
    out: String,
}

impl Stage {
    fn step(&mut self, line: &str) -> Result<(), String> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "policy" => {
                let found = POLICIES.iter().find(|(name, _)| *name == rest);
                self.policy = found.ok_or(format!("no policy is called {rest}"))?.1;
            }
            "switch" => {
                self.capabilities = match rest {
                    "1.3" => of13(),
                    "1.3 masked-ports" => of13_masked_ports(),
                    "1.0" => of10(),
                    _ => return Err(format!("no switch is called {rest}")),
                };
                self.table = table(&self.capabilities, &self.under);
            }
            "under" => {
                self.under = values(rest)?.into_iter().map(|(f, v)| Constraint::exact(f, v)).collect();
                self.table = table(&self.capabilities, &self.under);
            }
            "packet" => self.learn(&Headers(values(rest)?.into_iter().collect())),
            "forget" => {
                let leaf = LeafId(rest.parse().map_err(|_| format!("{rest} is not a leaf"))?);
                let _ = writeln!(self.out, "forgets {rest}: {}", self.table.remove(leaf));
            }
            "show" if rest == "algorithm-2" => self.show_rules(self.paper(build_ft)),
            "show" if rest == "algorithm-5" => self.show_rules(self.paper(opt_build_ft)),
            "show" => self.show(),
            _ => return Err(format!("{verb} is no step")),
        }
        Ok(())
    }

    fn learn(&mut self, packet: &Headers) {
        let mut packet = packet.clone();
        packet.0.extend(self.under.iter().map(|c| (c.field, c.value)));
        packet.0.entry(Field::EthSrc).or_insert(0);
        let mut recorder = Recorder::new();
        for constraint in &self.under {
            get(&mut recorder, &packet, constraint.field);
        }
        let given = recorder.items().len();
        let answer = (self.policy)(&mut recorder, &packet);
        let items = recorder.finish().lower(&packet, &self.capabilities).items.split_off(given);
        let leaf = LeafId(self.answers.len() as u64 + 1);
        self.answers.insert(leaf, answer);
        let list: Vec<String> = items.iter().map(|item| item.to_string()).collect();
        let action = self.action(leaf);
        let came = match self.table.augment(&items, leaf, action) {
            Augmented::Added => format!("leaf {}", leaf.0),
            Augmented::Existing(there) => format!("leaf {} again", there.0),
            Augmented::Replaced { removed, depth } => {
                let removed: Vec<String> = removed.iter().map(|leaf| leaf.0.to_string()).collect();
                format!("leaf {} for {} after {depth} items", leaf.0, removed.join(", "))
            }
        };
        let _ = writeln!(self.out, "{came}: {}", list.join("; "));
    }

    fn show(&mut self) {
        self.out.push_str(&self.table.tree().render());
        self.show_rules(self.table.rules());
    }

    /// Returns the rules that one of the paper's algorithms makes from the tree, with priorities
    /// from 0 as the paper counts them.
    fn paper(&self, algorithm: impl Fn(&Tree, TableTarget, &dyn Fn(LeafId) -> LeafAction) -> Vec<Rule>) -> Vec<Rule> {
        let (under, capabilities) = (self.under.clone(), self.capabilities.clone());
        let target = TableTarget { under, capabilities, priorities: 0..=100, cookie: Arc::new(leaf_number) };
        algorithm(self.table.tree(), target, &|leaf| self.action(leaf))
    }

    fn action(&self, leaf: LeafId) -> LeafAction {
        match self.answers[&leaf] {
            0 => LeafAction::Apply(Vec::new()),
            port => LeafAction::Apply(vec![Instruction::ApplyActions(vec![Action::output(PortNo(port))])]),
        }
    }

    fn show_rules(&mut self, rules: Vec<Rule>) {
        for rule in rules {
            let version = self.capabilities.version;
            let matching = print::matching(version, &rule.matching);
            let actions = print::instructions(version, &rule.instructions);
            let owner = if rule.cookie == 0 { "barrier".to_string() } else { format!("leaf {}", rule.cookie) };
            let _ = writeln!(self.out, "{:3} {matching} {actions} ({owner})", rule.priority);
        }
    }
}

fn leaf_number(leaf: Option<LeafId>) -> u64 {
    leaf.map_or(0, |leaf| leaf.0)
}

fn values(text: &str) -> Result<Vec<(Field, u128)>, String> {
    let value = |word: &str| {
        let (name, value) = word.split_once('=')?;
        let field = Field::from_name(name)?;
        let number = match (value.strip_prefix("0x"), value.parse::<std::net::Ipv4Addr>()) {
            (Some(hex), _) => u128::from_str_radix(hex, 16).ok()?,
            (None, Ok(address)) => u32::from(address).into(),
            (None, Err(_)) => value.parse().ok()?,
        };
        Some((field, number))
    };
    text.split_whitespace().map(|word| value(word).ok_or(format!("{word} is no FIELD=VALUE"))).collect()
}

fn table(capabilities: &Capabilities, under: &[Constraint]) -> RuleTable {
    let (under, capabilities) = (under.to_vec(), capabilities.clone());
    RuleTable::new(TableTarget { under, capabilities, priorities: 1..=100, cookie: Arc::new(leaf_number) })
}

fn play(script: &str) -> Result<String, String> {
    let mut stage = Stage {
        policy: figure_2,
        capabilities: of13(),
        under: Vec::new(),
        table: table(&of13(), &[]),
        answers: BTreeMap::new(),
        out: String::new(),
    };
    for (at, line) in script.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        stage.step(line).map_err(|error| format!("line {}: {error}", at + 1))?;
    }
    Ok(stage.out)
}

#[test]
fn scripts_print_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/optimizer/scripts");
    let files = std::fs::read_dir(&folder).expect("the scripts are there");
    let mut paths: Vec<_> = files.map(|file| file.expect("the folder can be read").path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a script can be read");
        let (script, wanted) = text.split_once("----\n").unwrap_or((&text, ""));
        let printed = play(script).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if std::env::var_os("MAPLE_BLESS").is_some() {
            std::fs::write(&path, format!("{script}----\n{printed}")).expect("a script can be written");
        } else {
            assert_eq!(printed, wanted, "{} (MAPLE_BLESS=1 writes it anew)", path.display());
        }
    }
}
