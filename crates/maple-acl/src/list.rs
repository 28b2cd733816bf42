//! A list, ready to be queried, checked, compared and run.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use maple_core::access::{AccessAction, AccessDecision, AccessEntry, AccessList, AccessRule};
use maple_core::policy::SamplePacket;
use maple_core::trace::{CondList, Source};
use maple_core::{Location, Route};
use maple_wire::packet::build::frame_of;
use maple_wire::{Dpid, Field, Packet, PortNo};
use rustc_hash::FxHashMap;

use crate::classes::{self, AddressClasses};
use crate::cube::{BUDGET, Cube, Found, Point, SWITCH};
use crate::entry::{Entry, RuleRef};
use crate::error::{AclError, Fault, FilePlace};
use crate::form::{Document, Expectation, Forward, MIN_SAVED, PerSetting, Rule};
use crate::fragments::Fragments;
use crate::index::CubeIndex;
use crate::yaml;

/// An access list as its author wrote it.
///
/// ```
/// use maple_acl::List;
///
/// let text = "
/// version: 1
/// default: allow
/// groups: {office: 10.0.2.0/24}
/// rules:
///   - {action: deny, from: office, service: tcp/22, comment: no keys yet}
/// tests:
///   - 10.0.2.7 -> 10.0.9.9 tcp/22 denied
/// ";
/// let list = List::read(text, "office.yaml")?;
/// assert_eq!((list.rules().len(), list.failed_tests().len()), (1, 0));
/// # Ok::<(), maple_acl::AclError>(())
/// ```
#[derive(Clone, Debug)]
pub struct List {
    file: String,
    name: String,
    forward: Option<Forward>,
    default: AccessAction,
    arp: AccessAction,
    fragments: Option<Fragments>,
    lines: PerSetting<usize>,
    rules: Arc<Vec<Rule>>,
    entries: Arc<Vec<Entry>>,
    tests: Vec<Expectation>,
    /// Finds the first entry that a packet fits, apart from its groups.
    index: Arc<CondList>,
    /// Finds the entries that overlap a cube, apart from their groups.
    overlaps: Arc<CubeIndex>,
}

/// The maximum number of pairs of addresses of an entry between groups that have a sample each. Switches that don't
/// look groups up have their rules before packets then. Chosen: as many samples as a list of a few thousand rules has.
const MAX_PAIRS: usize = 4_096;

/// A switch that no entry names.
const NO_SWITCH: Dpid = Dpid(0);
/// A port that no entry names.
const NO_PORT: PortNo = PortNo(0);

/// A rule's share of the packets of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The rule.
    pub rule: RuleRef,
    /// The first part of the packets that the rule decides.
    pub part: String,
    /// The number of such parts.
    pub parts: usize,
}

/// A test that a list fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedTest {
    /// The test's place in the file.
    pub place: FilePlace,
    /// The test as written.
    pub text: String,
    /// A packet for which the test does not hold; empty if the search for one gave up.
    pub packet: String,
    /// The list's decision about the packet; `None` if the search gave up.
    pub decision: Option<AccessDecision>,
}

impl fmt::Display for FailedTest {
    /// Writes, for example, `10.0.0.1 -> web tcp/22 denied: not so for ipv4_src=10.0.0.1, tcp_dst=22: rule x (a.yaml:3)
    /// says allow`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.decision {
            Some(decision) => write!(f, "{}: not so for {}: {decision}", self.text, self.packet),
            None => write!(
                f,
                "{}: it is not known whether that holds: too many rules overlap there; test fewer packets at once",
                self.text
            ),
        }
    }
}

impl List {
    /// Reads the list in a file.
    ///
    /// # Errors
    /// [`AclError`] with file, line and column, if the file can't be read or is not an access list.
    pub fn load(path: &Path) -> Result<List, AclError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Fault::new(FilePlace { line: 1, column: 1 }, format!("can't be read: {error}")).in_file(&file)
        })?;
        List::read(&text, &file)
    }

    /// Reads a list from text. `file` is its name in errors and rules.
    ///
    /// # Errors
    /// [`AclError`] with line and column, if the text is not an access list.
    pub fn read(text: &str, file: &str) -> Result<List, AclError> {
        List::read_and_ask(text, file, None, MIN_SAVED).map(|(list, _)| list)
    }

    /// Reads a list, and parses a question about it into packets. The list has entries between groups if they save at
    /// least `min_saved` rules.
    pub(crate) fn read_and_ask(
        text: &str,
        file: &str,
        question: Option<&str>,
        min_saved: isize,
    ) -> Result<(List, Vec<Cube>), AclError> {
        let root = yaml::parse(text).map_err(|fault| fault.in_file(file))?;
        let document =
            Document::read(&root, question, min_saved).map_err(|faults| AclError::from_faults(file, faults))?;
        let Document { name, forward, default, arp, fragments, lines, rules, entries, tests, asked } = document;
        let stem = || Path::new(file).file_stem().map_or_else(|| file.to_owned(), |stem| stem.to_string_lossy().into());
        let (index, overlaps) = (Arc::default(), Arc::new(CubeIndex::new(&[])));
        let (rules, unindexed) = (Arc::new(rules), Arc::default());
        let name = name.unwrap_or_else(stem);
        let file = file.to_owned();
        let list = List {
            file,
            name,
            forward,
            default,
            arp,
            fragments,
            lines,
            rules,
            entries: unindexed,
            tests,
            index,
            overlaps,
        };
        Ok((list.with_entries(entries), asked))
    }

    /// Returns the list with other entries.
    fn with_entries(self, entries: Vec<Entry>) -> List {
        let index = Arc::new(CondList::new(entries.iter().map(|entry| Arc::new(entry.cube.cond()))));
        let overlaps = Arc::new(CubeIndex::new(&entries.iter().map(|entry| &entry.cube).collect::<Vec<_>>()));
        List { entries: Arc::new(entries), index, overlaps, ..self }
    }

    /// Returns the list with an entry for each pair of addresses in the place of those between groups.
    pub(crate) fn expanded(&self) -> Cow<'_, List> {
        if self.entries.iter().all(|entry| entry.groups.is_empty()) {
            return Cow::Borrowed(self);
        }
        let entries = self.entries.iter().flat_map(Entry::expanded).collect();
        Cow::Owned(self.clone().with_entries(entries))
    }

    /// Reads a list, and finds the rules that decide about the packets of a question, such as `office -> web tcp/22`.
    /// The question may use the groups and services of the list. Without a service it is about IP packets.
    ///
    /// ```
    /// use maple_acl::List;
    ///
    /// let text = "version: 1\ngroups: {office: 10.0.2.0/24}\nrules: [{action: deny, from: office, service: tcp/22}]";
    /// let (list, all) = List::explain(text, "a.yaml", "10.0.2.7 -> 10.0.9.9 tcp/22")?;
    /// assert_eq!(list.describe(all[0].rule), "rule (a.yaml:3)");
    /// # Ok::<(), maple_acl::AclError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`List::read`], and an [`AclError`] without a line of the list if the question is wrong.
    pub fn explain(text: &str, file: &str, question: &str) -> Result<(List, Vec<Decided>), AclError> {
        let list = List::read(text, file)?;
        let (_, asked) = List::read_and_ask(text, "the question", Some(question), MIN_SAVED)?;
        let (mut found, mut budget) = (BTreeMap::new(), BUDGET);
        let is_complete = asked.iter().all(|cube| {
            let others = list.overlapping(cube, list.entries.len());
            cube.divide(numbered(&others), &mut budget, &mut |part, entry| {
                let rule = list.rule_of(entry.unwrap_or(list.entries.len()));
                found.entry(rule).or_insert((part, 0)).1 += 1;
                true
            })
        });
        if !is_complete {
            let what = "too many rules overlap there; ask about fewer packets at once";
            return Err(Fault::new(FilePlace { line: 1, column: 1 }, what).in_file("the question"));
        }
        let decided = |(rule, (part, parts)): (RuleRef, (Cube, usize))| Decided { rule, part: part.to_string(), parts };
        Ok((list, found.into_iter().map(decided).collect()))
    }

    /// Returns the list's name in the file, or else the file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file's name as the caller gave it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the entries, in order: each rule has one for each combination of addresses, services and places. Where
    /// that saves rules in switches, groups of hosts are one address.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the tests.
    pub fn tests(&self) -> &[Expectation] {
        &self.tests
    }

    /// Returns the destination of allowed packets if the list is the whole policy; `None` if the list does not set it.
    pub fn forward(&self) -> Option<Forward> {
        self.forward
    }

    /// Returns the action of a rule.
    pub fn action(&self, rule: RuleRef) -> AccessAction {
        match rule {
            RuleRef::Rule(at) => self.rules[at].action,
            RuleRef::Arp => self.arp,
            RuleRef::Fragments => self.fragments.and_then(Fragments::action).unwrap_or(self.default),
            RuleRef::Default => self.default,
        }
    }

    /// Returns the decision of a rule.
    pub fn decision(&self, rule: RuleRef) -> AccessDecision {
        AccessDecision { action: self.action(rule), rule: self.describe(rule) }
    }

    /// Returns a rule's description for people: `rule no-ssh (acl.yaml:12)`, `the default`.
    pub fn describe(&self, rule: RuleRef) -> String {
        match rule {
            RuleRef::Arp => format!("`arp: {}` of {}", self.arp, self.file),
            RuleRef::Fragments => format!("`fragments: {}` of {}", self.action(rule), self.file),
            RuleRef::Default => format!("`default: {}` of {}", self.default, self.file),
            RuleRef::Rule(at) => {
                let Rule { place, name, .. } = &self.rules[at];
                let name = name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
                format!("rule{name} ({}:{})", self.file, place.line)
            }
        }
    }

    /// Returns the treatment of fragments, if the list sets it.
    pub fn fragments(&self) -> Option<Fragments> {
        self.fragments
    }

    /// Returns the rule of an entry; the default rule for the number of entries.
    pub(crate) fn rule_of(&self, entry: usize) -> RuleRef {
        self.entries.get(entry).map_or(RuleRef::Default, |entry| entry.rule)
    }

    /// Returns the rule that decides about a packet that enters at a switch.
    pub fn decide(&self, switch: Dpid, packet: &Packet<'_>) -> RuleRef {
        self.rule_of(self.first(switch, packet))
    }

    /// Returns the index of the first entry that a packet fits, or the number of entries.
    pub(crate) fn first(&self, switch: Dpid, packet: &Packet<'_>) -> usize {
        let is_there = |at: usize| self.entries[at].has_place_and_addresses(switch, packet);
        self.index.first_where(packet, is_there).unwrap_or(self.entries.len())
    }

    /// Returns the list if all of its tests hold.
    ///
    /// # Errors
    /// [`AclError`] for the first test that fails, at its place, with a packet.
    pub fn verified(self) -> Result<List, AclError> {
        match self.failed_tests().into_iter().next() {
            None => Ok(self),
            Some(failed) => Err(Fault::new(failed.place, format!("a test fails: {failed}")).in_file(&self.file)),
        }
    }

    /// Returns the tests that fail, with a packet for each.
    pub fn failed_tests(&self) -> Vec<FailedTest> {
        self.tests.iter().filter_map(|test| self.failure_of(test)).collect()
    }

    fn failure_of(&self, test: &Expectation) -> Option<FailedTest> {
        let failed = |packet: String, decision| {
            Some(FailedTest { place: test.place, text: test.text.clone(), packet, decision })
        };
        for cube in &test.cubes {
            match self.decided(cube, |action| action != test.action) {
                Found::None => {}
                Found::Unknown => return failed(String::new(), None),
                Found::One((part, rule)) => {
                    return failed(part.to_string(), Some(self.decision(rule)));
                }
            }
        }
        None
    }

    /// Searches a cube for a part whose action `fits`. Returns the part and the deciding rule.
    pub(crate) fn decided(&self, cube: &Cube, fits: impl Fn(AccessAction) -> bool) -> Found<(Cube, RuleRef)> {
        let (mut found, mut budget) = (None, BUDGET);
        let others = self.overlapping(cube, self.entries.len());
        let is_known = cube.divide(numbered(&others), &mut budget, &mut |part, entry| {
            let rule = self.rule_of(entry.unwrap_or(self.entries.len()));
            if fits(self.action(rule)) {
                found = Some((part, rule));
            }
            found.is_none()
        });
        match found {
            Some(found) => Found::One(found),
            None if is_known => Found::None,
            None => Found::Unknown,
        }
    }

    /// Returns the cubes of the first `below` entries that overlap a cube, with the numbers of the entries.
    pub(crate) fn overlapping(&self, cube: &Cube, below: usize) -> Vec<(usize, Cow<'_, Cube>)> {
        let mut found = Vec::new();
        for (at, there) in self.overlaps.overlapping(cube, below, |at| &self.entries[at].cube) {
            match &self.entries[at] {
                Entry { groups, .. } if groups.is_empty() => found.push((at, Cow::Borrowed(there))),
                entry => found.extend(entry.cubes_at(cube).map(|there| (at, Cow::Owned(there)))),
            }
        }
        found
    }

    /// Returns those of the first `below` entries that are wanted, overlap one of these cubes and are not inside it, in
    /// order, with the index of the cube. No entry has groups.
    pub(crate) fn crossing(
        &self,
        cubes: &[&Cube],
        below: usize,
        is_wanted: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = (usize, usize)> {
        self.overlaps.crossing(cubes, below, is_wanted, |at| &self.entries[at].cube)
    }

    /// Returns what entries lead to, in the order of the compiled list's rules.
    pub(crate) fn compiled_rules(&self) -> impl Iterator<Item = RuleRef> {
        (0..self.rules.len()).map(RuleRef::Rule).chain([RuleRef::Arp, RuleRef::Fragments])
    }

    /// Compiles the list to a part of policies. `before`: the lists that are asked before it.
    pub fn compile(&self, before: &[&List]) -> AccessList {
        let source = |line, name: Option<&str>, comment: Option<&str>| {
            let name = name.map(|name| format!("/{name}")).unwrap_or_default();
            let comment = comment.map(|comment| format!(" ({comment})")).unwrap_or_default();
            let tier = format!("{}{name}{comment}", self.name);
            Some(Source { tier: Some(tier.into()), ..Source::new(&*self.file, line) })
        };
        let rule = |rule: &Rule| {
            let source = source(rule.place.line as u32, rule.name.as_deref(), rule.comment.as_deref());
            let carries = (rule.queue.is_some() || rule.mirror.is_some()).then(|| {
                let route = rule.queue.iter().fold(Route::pass(), |route, queue| route.queue(*queue));
                rule.mirror.iter().fold(route, |route, place| route.copy_to(*place)).from_line(source.clone())
            });
            AccessRule { action: rule.action, source, carries, log: rule.log }
        };
        let plain = |action, what: &str, line: usize| {
            let source = source(line as u32, Some(what), None);
            AccessRule { action, source, carries: None, log: false }
        };
        let compiled = |reference| match reference {
            RuleRef::Rule(index) => rule(&self.rules[index]),
            RuleRef::Arp => plain(self.arp, "arp", self.lines.arp),
            RuleRef::Fragments => plain(self.action(reference), "fragments", self.lines.fragments),
            RuleRef::Default => plain(self.default, "default", self.lines.default),
        };
        let rules = self.compiled_rules().map(compiled).collect();
        let index_of: FxHashMap<RuleRef, u32> = self.compiled_rules().zip(0..).collect();
        let (mut entries, mut samples) = (Vec::with_capacity(self.entries.len()), Vec::new());
        let ports = self.ports();
        let classes = AddressClasses::of_entries(&self.entries);
        for (at, entry) in self.entries.iter().enumerate() {
            // Ranges are divided into blocks, since no single rule can match all answers of a test of a range.
            for cube in entry.cube.in_blocks().unwrap_or_else(|| vec![entry.cube.clone()]) {
                let parts = classes::parts(&classes, &cube, Some(entry));
                samples.extend(parts.iter().filter_map(|part| self.sample(part, at, before)));
                let switch = cube.get(SWITCH).map(|interval| Dpid(interval.lo as u64));
                let (cond, groups) = (cube.cond(), entry.groups.clone());
                entries.push(AccessEntry { cond, groups, switch, rule: index_of[&entry.rule] });
                if !entry.groups.is_empty() && entry.count() <= MAX_PAIRS {
                    samples.extend(entry.cubes_at(&cube).filter_map(|pair| self.sample(&pair, at, before)));
                }
            }
        }
        let parts = classes::parts(&classes, &Cube::all(), None);
        samples.extend(parts.iter().filter_map(|part| self.sample(part, self.entries.len(), before)));
        let samples = samples.into_iter().map(|sample| SamplePacket { not_at: Arc::clone(&ports), ..sample }).collect();
        AccessList::new(entries, rules, compiled(RuleRef::Default), samples).written_as(Arc::new(self.clone()))
    }

    /// Returns the ports that entries name.
    fn ports(&self) -> Arc<BTreeSet<Location>> {
        let port = |cube: &Cube| {
            let (switch, port) = (cube.get(SWITCH)?.lo, cube.get(Field::InPort)?.lo);
            Some(Location::new(Dpid(switch as u64), PortNo(port as u32)))
        };
        Arc::new(self.entries.iter().filter_map(|entry| port(&entry.cube)).collect())
    }

    /// Returns a packet of this cube that this entry decides even if the lists in `before` are asked first.
    fn sample(&self, cube: &Cube, entry: usize, before: &[&List]) -> Option<SamplePacket> {
        let reaches = |sample: &SamplePacket| {
            let packet = Packet::new(&sample.frame, sample.port.unwrap_or(NO_PORT).0);
            let switch = sample.switch.unwrap_or(NO_SWITCH);
            let passes = |list: &&List| list.action(list.decide(switch, &packet)) == AccessAction::Pass;
            self.first(switch, &packet) == entry && before.iter().all(passes)
        };
        let corners = [0, u64::MAX, 0xaaaa_aaaa_aaaa_aaaa, 0x5555_5555_5555_5555];
        let corner = corners.into_iter().map(|high| sample_of(cube.point(high))).find(reaches);
        corner.or_else(|| {
            let decide = before.iter().flat_map(|list| list.deciding(cube));
            let others: Vec<(usize, Cow<'_, Cube>)> = decide.chain(self.overlapping(cube, entry)).collect();
            let part = cube.outside(numbered(&others)).one()?;
            Some(sample_of(part.point(0))).filter(reaches)
        })
    }

    /// Returns the entries that overlap a cube and don't pass.
    fn deciding(&self, cube: &Cube) -> impl Iterator<Item = (usize, Cow<'_, Cube>)> {
        let decides = |(at, _): &(usize, Cow<'_, Cube>)| self.action(self.rule_of(*at)) != AccessAction::Pass;
        self.overlapping(cube, self.entries.len()).into_iter().filter(decides)
    }

    /// Searches for a packet that reaches an entry, which has no groups. The result is certain, unless it is `Unknown`.
    pub(crate) fn witness(&self, entry: usize) -> Found<SamplePacket> {
        let Some(Entry { cube, .. }) = self.entries.get(entry) else { return Found::Unknown };
        if let Some(sample) = self.sample(cube, entry, &[]) {
            return Found::One(sample);
        }
        match cube.outside(numbered(&self.overlapping(cube, entry))) {
            Found::None => Found::None,
            // Such packets exist, but this program cannot build a frame of them.
            Found::One(_) | Found::Unknown => Found::Unknown,
        }
    }
}

/// Returns cubes with their numbers.
pub(crate) fn numbered<'a>(cubes: &'a [(usize, Cow<'_, Cube>)]) -> impl Iterator<Item = (usize, &'a Cube)> {
    cubes.iter().map(|(at, cube)| (*at, &**cube))
}

/// Builds a frame with these values, with the place where it enters. Other fields get values that lists rarely test.
pub(crate) fn sample_of(mut point: Point) -> SamplePacket {
    let switch = point.remove(&SWITCH).map(|value| Dpid(value as u64));
    let port = point.remove(&Field::InPort).map(|value| PortNo(value as u32));
    point.entry(Field::EthSrc).or_insert(0x0200_0000_fe01);
    point.entry(Field::EthDst).or_insert(0x0200_0000_fe02);
    SamplePacket { frame: Arc::from(frame_of(&point)), switch, port, not_at: Arc::default() }
}
