//! Maple's own form of access lists: from a document to rules.
//!
//! A document is a tree of `yaml`'s nodes. `fields` reads maps, `rule` one rule, `packets` turns what it says of
//! packets into cubes, and `expectation` reads tests and questions. The constants of this file list the valid keys;
//! `schema.json` has the same keys for editors.

mod expectation;
mod fields;
mod packets;
mod rule;

use maple_core::Location;
use maple_core::access::AccessAction;
use maple_wire::Field;
use maple_wire::eth_type::value::{ARP, IPV6};
use maple_wire::icmpv6_type::value::{NEIGHBOR_ADVERT, NEIGHBOR_SOLICIT, ROUTER_ADVERT, ROUTER_SOLICIT};
use maple_wire::ip_proto::value::ICMPV6;
use rustc_hash::FxHashMap;

use crate::address::Groups;
use crate::classes;
use crate::cube::Cube;
use crate::entry::{Entry, RuleRef};
use crate::error::{Fault, FilePlace};
use crate::fragments::{self, Fragments};
use crate::service::Services;
use crate::yaml::YamlNode;
use expectation::test_text;
use fields::Fields;
use packets::{Cubes, GroupedCube};
use rule::read_rule;

/// The keys of a document.
pub const DOCUMENT_KEYS: [&str; 10] =
    ["version", "name", "forward", "default", "arp", "fragments", "groups", "services", "rules", "tests"];
/// The keys of a rule.
pub const RULE_KEYS: [&str; 14] = [
    "action",
    "name",
    "from",
    "to",
    "service",
    "source_ports",
    "ethertype",
    "vlan",
    "at",
    "replies",
    "log",
    "mirror",
    "queue",
    "comment",
];

/// The maximum number of entries of all rules of a list, where one between groups counts for each pair of addresses. It
/// bounds memory, since few words can stand for very many entries.
const MAX_ENTRIES: usize = 1_000_000;
/// The number of rules that entries between groups must save. Chosen: for fewer, another table of a switch is not worth
/// it.
pub const MIN_SAVED: isize = 64;

/// The destination of allowed packets if the list is the whole policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Forward {
    /// A shortest path to the destination; all hosts if that is unknown or a group.
    #[default]
    ShortestPath,
    /// All hosts.
    Flood,
}

/// A rule as people wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule's place in the file.
    pub place: FilePlace,
    /// The action of the rule.
    pub action: AccessAction,
    /// The rule's name, if it has one.
    pub name: Option<String>,
    /// The author's comment.
    pub comment: Option<String>,
    /// Whether each packet is logged.
    pub log: bool,
    /// The port where a copy leaves.
    pub mirror: Option<Location>,
    /// The output queue.
    pub queue: Option<u32>,
}

/// A test of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The test's place in the file.
    pub place: FilePlace,
    /// The test as written.
    pub text: String,
    /// The packets.
    pub cubes: Vec<Cube>,
    /// The action that the list must take for all of them.
    pub action: AccessAction,
}

/// One value for each of the three settings for packets without a rule.
#[derive(Clone, Copy, Debug)]
pub struct PerSetting<T> {
    pub default: T,
    pub arp: T,
    pub fragments: T,
}

/// The content of a document.
#[derive(Debug)]
pub struct Document {
    pub name: Option<String>,
    pub forward: Option<Forward>,
    pub default: AccessAction,
    /// The action for ARP and IPv6 neighbour discovery.
    pub arp: AccessAction,
    /// The treatment of fragments, if the document sets it.
    pub fragments: Option<Fragments>,
    /// The lines of these three settings; 1 for those that are not set.
    pub lines: PerSetting<usize>,
    pub rules: Vec<Rule>,
    pub entries: Vec<Entry>,
    pub tests: Vec<Expectation>,
    /// The packets of a question about the list.
    pub asked: Vec<Cube>,
}

/// The names that a document defines.
struct Names<'a> {
    groups: Groups<'a>,
    services: Services<'a>,
    /// The number of rules that entries between groups must save.
    min_saved: isize,
}

const ACTIONS: [(&str, AccessAction); 3] =
    [("allow", AccessAction::Allow), ("deny", AccessAction::Deny), ("pass", AccessAction::Pass)];

impl Document {
    /// Reads a document, and a question about it if there is one: `FROM -> TO [SERVICE]`. There are entries between
    /// groups if these save at least `min_saved` rules.
    ///
    /// # Errors
    /// All that is wrong in the rules and tests, or the one thing that is wrong before them.
    pub fn read(root: &YamlNode, question: Option<&str>, min_saved: isize) -> Result<Document, Vec<Fault>> {
        let fields = Fields::from_map(root, "an access list", &DOCUMENT_KEYS)?;
        check_version(&fields)?;
        let groups = Groups::from_section(fields.section("groups")?)?;
        let services = Services::from_section(fields.section("services")?)?;
        let mut names = Names { groups, services, min_saved };
        let mut document = Document::from_settings(&fields)?;
        let mut faults = document.add_rules(&mut names, fields.list("rules")?);
        document.add_arp_and_fragments();
        if !classes::save_enough(&document.entries, min_saved) {
            document.entries = document.entries.iter().flat_map(Entry::expanded).collect();
        }
        for node in fields.list("tests")? {
            match test_text(node).and_then(|text| names.expectation(text, node.place)) {
                Ok(test) => document.tests.push(test),
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        if let Some(question) = question {
            document.asked = names.packets(question, FilePlace { line: 1, column: 1 })?;
        }
        Ok(document)
    }

    /// Reads all but rules and tests.
    fn from_settings(fields: &Fields<'_>) -> Result<Document, Fault> {
        let line = |key| fields.get(key).map_or(1, |node| node.place.line);
        Ok(Document {
            name: fields.text("name")?.map(str::to_owned),
            forward: fields
                .choice("forward", &[("shortest-path", Forward::ShortestPath), ("flood", Forward::Flood)])?,
            default: fields.choice("default", &ACTIONS)?.unwrap_or(AccessAction::Deny),
            arp: fields.choice("arp", &ACTIONS)?.unwrap_or(AccessAction::Allow),
            fragments: fields.choice("fragments", &fragments::CHOICES)?,
            lines: PerSetting { default: line("default"), arp: line("arp"), fragments: line("fragments") },
            rules: Vec::new(),
            entries: Vec::new(),
            tests: Vec::new(),
            asked: Vec::new(),
        })
    }

    /// Adds the rules and their entries, as long as there are not too many. Returns all that is wrong in them.
    fn add_rules<'a>(&mut self, names: &mut Names<'a>, rules: &'a [YamlNode]) -> Vec<Fault> {
        let (mut faults, mut known) = (Vec::new(), FxHashMap::default());
        for (index, node) in rules.iter().enumerate() {
            faults.extend(self.add_rule(names, &mut known, RuleRef::Rule(index), node).err());
            if self.count() > MAX_ENTRIES {
                break;
            }
        }
        faults
    }

    /// Adds a rule and its entries. `known` has the named rules before it.
    fn add_rule<'a>(
        &mut self,
        names: &mut Names<'a>,
        known: &mut FxHashMap<String, FilePlace>,
        reference: RuleRef,
        node: &'a YamlNode,
    ) -> Result<(), Fault> {
        let rule = Fields::from_map(node, "a rule", &RULE_KEYS)?;
        let Cubes { once, replies } = names.cubes(&rule)?;
        let entry = |(cube, groups): GroupedCube, is_reply| Entry::between(groups, cube, reference, is_reply);
        self.entries.extend(once.into_iter().map(|packets| entry(packets, false)));
        self.entries.extend(replies.into_iter().map(|packets| entry(packets, true)));
        if self.count() > MAX_ENTRIES {
            return Err(Fault::new(node.place, format!("with this rule the list has more than {MAX_ENTRIES} entries")));
        }
        let rule = read_rule(&rule)?;
        if let Some(name) = &rule.name
            && let Some(other) = known.insert(name.clone(), rule.place)
        {
            let what = format!("two rules are called `{name}`; the other one is in line {}", other.line);
            return Err(Fault::new(rule.place, what));
        }
        self.rules.push(rule);
        Ok(())
    }

    /// Returns the number of entries, where one between groups counts for each pair of addresses.
    fn count(&self) -> usize {
        self.entries.iter().map(Entry::count).sum()
    }

    /// Adds the entries of `arp`, and those of `fragments` before all others.
    fn add_arp_and_fragments(&mut self) {
        self.entries.extend(resolution().map(|cube| Entry::from_cube(cube, RuleRef::Arp)));
        if self.fragments.is_some_and(|all| all.action().is_some()) {
            let before = fragments::recognised().map(|cube| Entry::from_cube(cube, RuleRef::Fragments));
            self.entries.splice(..0, before);
        }
    }
}

fn check_version(fields: &Fields<'_>) -> Result<(), Fault> {
    match fields.text("version")? {
        Some("1") => Ok(()),
        Some(other) => {
            let place = fields.get("version").map_or(fields.place, |node| node.place);
            Err(Fault::new(place, format!("version {other} is unknown here; this Maple reads version 1")))
        }
        None => Err(Fault::new(fields.place, "`version: 1` is missing")),
    }
}

/// Returns the packets of ARP and IPv6 neighbour discovery, without which hosts do not find each other.
fn resolution() -> impl Iterator<Item = Cube> {
    let arp = Cube::all().is(Field::EthType, ARP);
    let icmp = Cube::all().is(Field::EthType, IPV6).and_then(|cube| cube.is(Field::IpProto, ICMPV6));
    // The types are separate cubes, since no switch can match several types at once.
    let discovery = [ROUTER_SOLICIT, ROUTER_ADVERT, NEIGHBOR_SOLICIT, NEIGHBOR_ADVERT]
        .map(|kind| icmp.clone().and_then(|cube| cube.is(Field::Icmpv6Type, kind)));
    std::iter::once(arp).chain(discovery).flatten()
}
