//! Suspicious things in a list: rules that never match, duplicates, conflicts, replies that may open connections, and
//! denials that do not hold for fragments.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use maple_core::access::{AccessAction, AccessDecision};
use maple_wire::Field;
use maple_wire::eth_type::value::IPV4;
use maple_wire::ip_proto::value::{TCP, UDP};

use crate::cube::{BUDGET, Cube, Found};
use crate::entry::RuleRef;
use crate::error::FilePlace;
use crate::form::Expectation;
use crate::fragments;
use crate::list::{List, numbered};

/// Something suspicious about a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's place.
    pub place: FilePlace,
    /// The kind of the finding.
    pub kind: FindingKind,
    /// A description, which names the other rules that are involved.
    pub text: String,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// No packet reaches the rule, and the rules before it decide the same.
    Redundant,
    /// No packet reaches the rule, and a rule before it decides otherwise.
    Shadowed,
    /// A rule before it decides some of the rule's packets otherwise, and is not simply an exception to it.
    Conflict,
    /// The rule denies by fields that fragments lack, and another rule allows the fragments.
    Fragments,
    /// The packets that the rule takes for replies may open connections to ports of servers.
    Replies,
    /// The search gave up, so it is not known whether packets reach the rule.
    Unknown,
}

/// A test that holds for whole packets, but not for their fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentNote {
    /// The test as written.
    pub text: String,
    /// The test's line in the file.
    pub line: usize,
    /// The list's decision about fragments of such packets.
    pub decision: AccessDecision,
}

/// The ports that clients connect from: those of Linux, and those that RFC 6335 §6 calls dynamic.
const CLIENTS: (u128, u128) = (32_768, 65_535);

/// The number of rules that a thread looks at before it asks for more: some milliseconds of work, so that all end
/// together.
const AT_ONCE: usize = 64;

/// The maximum number of rules that a finding names, so that it stays a line to read; it counts the others.
const NAMED: usize = 3;

/// Returns the verb for what a rule with this action does.
fn does(action: AccessAction) -> &'static str {
    match action {
        AccessAction::Allow => "allows",
        AccessAction::Deny => "denies",
        AccessAction::Pass => "passes on",
    }
}

impl FindingKind {
    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::Redundant => "redundant",
            FindingKind::Shadowed => "shadowed",
            FindingKind::Conflict => "conflict",
            FindingKind::Fragments => "fragments",
            FindingKind::Replies => "replies",
            FindingKind::Unknown => "unknown",
        }
    }

    /// Reports whether something is certainly wrong.
    pub fn is_error(self) -> bool {
        matches!(self, FindingKind::Redundant | FindingKind::Shadowed | FindingKind::Fragments | FindingKind::Replies)
    }
}

impl List {
    /// Returns the findings about the list's rules, in their order. Looks for them on all processors.
    pub fn findings(&self) -> Vec<Finding> {
        self.expanded().findings_without_groups()
    }

    fn findings_without_groups(&self) -> Vec<Finding> {
        let by_rule = self.entries_by_rule();
        let next = AtomicUsize::new(0);
        let look = || {
            let numbers = std::iter::repeat_with(|| next.fetch_add(AT_ONCE, Ordering::Relaxed));
            let starts = numbers.take_while(|start| *start < by_rule.len());
            let rules = starts.flat_map(|start| start..by_rule.len().min(start + AT_ONCE));
            rules.flat_map(|rule| self.findings_about(rule, &by_rule[rule]).map(move |one| (rule, one))).collect()
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(by_rule.len().div_ceil(AT_ONCE));
        let mut found: Vec<(usize, Finding)> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(look)).collect();
            let own: Vec<(usize, Finding)> = look();
            let theirs =
                others.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            own.into_iter().chain(theirs).collect()
        });
        found.sort_by_key(|(rule, _)| *rule);
        found.into_iter().map(|(_, one)| one).collect()
    }

    /// Returns the findings about a rule.
    fn findings_about(&self, rule: usize, entries: &[usize]) -> impl Iterator<Item = Finding> {
        let odd = self.finding(rule, entries);
        let matches = odd.as_ref().is_none_or(|odd| odd.kind == FindingKind::Conflict);
        let fragments = if matches { self.fragments_pass(rule, entries) } else { None };
        odd.into_iter().chain(fragments).chain(self.replies_open(rule, entries))
    }

    /// Returns the rules that admit packets as replies which may open connections. Everybody should know about them
    /// before the list is used.
    pub fn open_replies(&self) -> Vec<Finding> {
        let by_rule = self.entries_by_rule();
        by_rule.iter().enumerate().filter_map(|(rule, entries)| self.replies_open(rule, entries)).collect()
    }

    fn entries_by_rule(&self) -> Vec<Vec<usize>> {
        let mut by_rule: Vec<Vec<usize>> = vec![Vec::new(); self.rules().len()];
        for at in 0..self.entries().len() {
            if let RuleRef::Rule(rule) = self.rule_of(at) {
                by_rule[rule].push(at);
            }
        }
        by_rule
    }

    /// Checks whether a rule's replies let packets in: from a port that clients use to one of a server, where nothing
    /// else allows them.
    fn replies_open(&self, rule: usize, entries: &[usize]) -> Option<Finding> {
        if self.rules()[rule].action != AccessAction::Allow {
            return None;
        }
        let replies: Vec<usize> = entries.iter().copied().filter(|at| self.entries()[*at].is_reply).collect();
        let mut cubes = replies.iter().flat_map(|at| self.entries()[*at].cubes().map(move |cube| (*at, cube)));
        let packet = cubes.find_map(|(at, cube)| self.opens(at, &cube, &replies))?;
        let text = format!(
            "{} lets in more than replies: {packet} passes, whether there was a request or not, and may open a \
             connection; name the ports of the service, or those of its clients (`source_ports: 32768-60999`)",
            self.describe(RuleRef::Rule(rule))
        );
        Some(Finding { place: self.rules()[rule].place, kind: FindingKind::Replies, text })
    }

    /// Returns packets of a cube of an entry for replies that open a connection from a client's port, and that the list
    /// would not allow without these entries.
    fn opens(&self, at: usize, cube: &Cube, replies: &[usize]) -> Option<Cube> {
        let transports = [(TCP, Field::TcpSrc, Field::TcpDst), (UDP, Field::UdpSrc, Field::UdpDst)];
        transports.into_iter().find_map(|(protocol, from, to)| {
            let cube = match cube.get(Field::EthType) {
                Some(_) => cube.clone(),
                None => cube.clone().is(Field::EthType, IPV4)?,
            };
            let (lo, hi) = CLIENTS;
            let part = cube.is(Field::IpProto, protocol)?.with(from, lo, hi)?.with(to, 1, lo - 1)?;
            let others = self.overlapping(&part, self.entries().len());
            let others = numbered(&others).filter(|(other, _)| !replies.contains(other));
            let (mut found, mut budget) = (None, BUDGET);
            part.divide(others, &mut budget, &mut |piece, other| {
                let is_after = other.is_none_or(|other| other > at);
                let rule = self.rule_of(other.unwrap_or(self.entries().len()));
                if is_after && self.action(rule) != AccessAction::Allow {
                    found = Some(piece);
                }
                found.is_none()
            });
            found
        })
    }

    /// Checks whether a rule denies packets whose fragments another rule allows.
    fn fragments_pass(&self, rule: usize, entries: &[usize]) -> Option<Finding> {
        if self.rules()[rule].action != AccessAction::Deny {
            return None;
        }
        let by = self.describe(self.lets_fragments_pass(entries)?);
        let text = format!(
            "{} does not hold for fragments, in which switches see no ports and no ICMP type: {by} allows them; \
             `fragments: deny` drops them, `fragments: match` says that this is meant",
            self.describe(RuleRef::Rule(rule))
        );
        Some(Finding { place: self.rules()[rule].place, kind: FindingKind::Fragments, text })
    }

    fn finding(&self, rule: usize, entries: &[usize]) -> Option<Finding> {
        let finding = |kind, text| Some(Finding { place: self.rules()[rule].place, kind, text });
        let name = self.describe(RuleRef::Rule(rule));
        let mut unknown = false;
        for entry in entries {
            match self.witness(*entry) {
                Found::One(_) => return self.conflict(rule, entries),
                Found::Unknown => unknown = true,
                Found::None => {}
            }
        }
        if unknown {
            return finding(
                FindingKind::Unknown,
                format!("{name}: no packet was found that reaches it, nor a proof that there is none"),
            );
        }
        let action = self.rules()[rule].action;
        let covering = self.covering(rule, entries);
        let all_same = covering.iter().all(|other| self.action(*other) == action);
        let others = self.describe_all(&covering);
        let (kind, why) = match (all_same, covering.as_slice()) {
            (true, [_]) => (FindingKind::Redundant, format!("already {} its packets", does(action))),
            (true, _) => (FindingKind::Redundant, format!("already {action} its packets")),
            (false, [only]) => (FindingKind::Shadowed, format!("decides first, and {}", does(self.action(*only)))),
            (false, _) => (FindingKind::Shadowed, format!("decide first, and not all {action}")),
        };
        finding(kind, format!("{name} never matches: {others} {why}"))
    }

    /// Describes rules in words, the first few by name.
    fn describe_all(&self, rules: &[RuleRef]) -> String {
        let mut all: Vec<String> = rules.iter().take(NAMED).map(|rule| self.describe(*rule)).collect();
        if rules.len() > NAMED {
            all.push(format!("{} more", rules.len() - NAMED));
        }
        match all.split_last() {
            Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
            _ => all.concat(),
        }
    }

    /// Returns the rules that take the packets of a rule that gets none. For each entry, that is
    /// the first entry that contains all of it, if no earlier one takes a part; otherwise all that
    /// overlap it, up to the first that contains it.
    fn covering(&self, rule: usize, entries: &[usize]) -> Vec<RuleRef> {
        let mut all: Vec<RuleRef> = Vec::new();
        for entry in entries {
            let cube = &self.entries()[*entry].cube;
            let before = self.overlapping(cube, *entry);
            let whole = before.iter().find(|(_, other)| other.contains(cube)).map(|(at, _)| *at);
            let until = whole.unwrap_or(*entry);
            let overlap: Vec<RuleRef> =
                before.iter().filter(|(at, _)| *at <= until).map(|(at, _)| self.rule_of(*at)).collect();
            match whole.map(|at| self.rule_of(at)) {
                Some(whole) if overlap.iter().all(|other| self.action(*other) == self.action(whole)) => all.push(whole),
                _ => all.extend(overlap),
            }
        }
        all.retain(|other| *other != RuleRef::Rule(rule));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Finds a rule before this one that decides some of its packets otherwise, where neither is an exception to the
    /// other.
    fn conflict(&self, rule: usize, entries: &[usize]) -> Option<Finding> {
        let action = self.rules()[rule].action;
        let first = *entries.first()?;
        let differs = |at: usize| {
            let other = self.action(self.rule_of(at));
            other != action && other != AccessAction::Pass && action != AccessAction::Pass
        };
        let cubes: Vec<&Cube> = entries.iter().map(|entry| &self.entries()[*entry].cube).collect();
        for (other, by) in self.crossing(&cubes, first, differs) {
            let (there, cube) = (&self.entries()[other].cube, cubes[by]);
            // The packets of both entries that no earlier rule decides.
            let both = cube.and(there).filter(|_| !there.contains(cube));
            let contested = both.map(|both| both.outside(numbered(&self.overlapping(&both, other))));
            if let Some(Found::One(both)) = contested {
                let (name, before) = (self.describe(RuleRef::Rule(rule)), self.rule_of(other));
                let text = format!(
                    "{name} would {action} some packets that {} {} before: {both}",
                    self.describe(before),
                    does(self.action(before))
                );
                let place = self.rules()[rule].place;
                return Some(Finding { place, kind: FindingKind::Conflict, text });
            }
        }
        None
    }

    /// Returns the tests that hold for whole packets, but not for their fragments, which lack fields that the tests
    /// name. If the list has `fragments`, only denials are examined.
    pub fn fragment_notes(&self) -> Vec<FragmentNote> {
        let matters = |test: &&Expectation| self.fragments().is_none() || test.action == AccessAction::Deny;
        let note = |test: &Expectation| {
            let other = |part: Cube| self.decided(&part, |action| action != test.action).one();
            let (_, rule) = test.cubes.iter().flat_map(fragments::fragments_of).find_map(other)?;
            Some(FragmentNote { text: test.text.clone(), line: test.place.line, decision: self.decision(rule) })
        };
        self.tests().iter().filter(matters).filter_map(note).collect()
    }

    /// Returns the rule that allows fragments of packets that these entries deny. `None` if the list has `fragments`.
    fn lets_fragments_pass(&self, entries: &[usize]) -> Option<RuleRef> {
        if self.fragments().is_some() {
            return None;
        }
        let allowed = |part: Cube| self.decided(&part, |action| action == AccessAction::Allow).one();
        let mut parts = entries.iter().flat_map(|at| fragments::fragments_of(&self.entries()[*at].cube));
        parts.find_map(allowed).map(|(_, rule)| rule)
    }
}
