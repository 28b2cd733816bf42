//! Random lists against direct evaluation of what their author wrote.

use maple_wire::PortNo;
use maple_wire::packet::build::frame_of;
use proptest::prelude::*;

use super::*;
use crate::analysis::FindingKind;
use crate::cube::{Found, SWITCH};
use crate::index::CubeIndex;

/// Generates random lists as text: few addresses and ports, so that rules overlap.
pub fn texts() -> impl Strategy<Value = String> {
    let address = prop::sample::select(vec![
        "any",
        "10.0.0.1",
        "10.0.0.0/30",
        "10.0.0.2-10.0.0.5",
        "[10.0.0.0/29, '!10.0.0.4']",
        "fd00::1",
        "'00:00:00:00:00:01'",
        "[10.0.0.1, 10.0.0.3, 10.0.0.5]",
        "[10.0.0.3, 10.0.0.6, 'fd00::1', 'fd00::3', '00:00:00:00:00:02']",
    ]);
    let place = prop::sample::select(vec!["", ", vlan: none", ", vlan: 5", ", at: '1'", ", at: '1:1'", ", at: '2:1'"]);
    let service = prop::sample::select(vec![
        "",
        "tcp/80",
        "tcp/70-90",
        "tcp/70-90, source_ports: 80-91",
        "tcp",
        "udp/53",
        "icmp/8",
        "icmpv6",
        "ip/47",
    ]);
    let action = prop::sample::select(vec!["allow", "deny", "pass"]);
    let rule = (action, address.clone(), address, service, place, any::<bool>());
    let rule = rule.prop_map(|(action, from, to, service, place, replies)| {
        let service = if service.is_empty() { String::new() } else { format!(", service: {service}") };
        format!("  - {{action: {action}, from: {from}, to: {to}{service}{place}, replies: {replies}}}\n")
    });
    let reads = |rule: &String| List::read(&format!("version: 1\nrules:\n{rule}"), "a.yaml").is_ok();
    let rule = rule.prop_filter("a rule that fits no packet is an error", reads);
    let rules = prop::collection::vec(rule, 0..12);
    (rules, prop::sample::select(vec!["allow", "deny", "pass"])).prop_map(|(rules, default)| {
        format!(
            "version: 1\ndefault: {default}\nrules: [{}]\n",
            rules.iter().map(|rule| rule.trim().trim_start_matches("- ")).collect::<Vec<_>>().join(", ")
        )
    })
}

/// A frame, and where it enters.
#[derive(Clone, Debug)]
pub struct Entering {
    pub switch: Dpid,
    pub port: u32,
    pub frame: Vec<u8>,
}

impl Entering {
    fn packet(&self) -> Packet<'_> {
        Packet::new(&self.frame, self.port)
    }
}

pub fn frames() -> impl Strategy<Value = Entering> {
    let ip = prop::sample::select(vec![1_u128, 2, 3, 4, 5, 6]).prop_map(|low| 0x0a00_0000 | low);
    let kind = prop::sample::select(vec![0x800_u128, 0x86dd, 0x806]);
    let proto = prop::sample::select(vec![6_u128, 17, 1, 58, 47]);
    let port = || prop::sample::select(vec![53_u128, 69, 70, 80, 90, 91, 0, 65535]);
    let mac = prop::sample::select(vec![1_u128, 2]);
    let icmp = prop::sample::select(vec![0_u128, 8, 128, 129]);
    let tag = prop::sample::select(vec![0_u128, 0x1005, 0x1006]);
    let packet = (kind, proto, ip.clone(), ip, port(), port(), mac, icmp, tag);
    (packet, 1..=3_u64, 1..=2_u32).prop_map(|((kind, proto, a, b, from, to, mac, icmp, tag), switch, port)| {
        let v6 = |low: u128| (0xfd00_u128 << 112) | (low & 0xf);
        let fields = [
            (Field::EthSrc, mac),
            (Field::EthDst, 1),
            (Field::EthType, kind),
            (Field::IpProto, proto),
            (Field::Ipv4Src, a),
            (Field::Ipv4Dst, b),
            (Field::Ipv6Src, v6(a)),
            (Field::Ipv6Dst, v6(b)),
            (Field::TcpSrc, from),
            (Field::TcpDst, to),
            (Field::UdpSrc, from),
            (Field::UdpDst, to),
            (Field::Icmpv4Type, icmp),
            (Field::Icmpv6Type, icmp),
        ];
        let tag = (tag != 0).then_some((Field::VlanVid, tag));
        let frame = frame_of(&fields.into_iter().chain(tag).collect());
        Entering { switch: Dpid(switch), port, frame }
    })
}

/// Returns the first entry that a packet fits, by a plain search.
fn naive(list: &List, switch: Dpid, packet: &Packet<'_>) -> usize {
    let is_there = |cube: &Cube| cube.get(SWITCH).is_none_or(|there| there.lo == u128::from(switch.0));
    let fits = |entry: &Entry| is_there(&entry.cube) && entry.cube.cond().holds(packet);
    list.entries().iter().position(fits).unwrap_or(list.entries().len())
}

fn entry_for(list: &List, entering: &Entering) -> usize {
    naive(list, entering.switch, &entering.packet())
}

/// Returns the text about the first rule before this one that decides some of its packets
/// otherwise: each entry of this rule is compared with each entry before it.
fn naive_conflict(list: &List, rule: usize) -> Option<String> {
    let entries: Vec<usize> = (0..list.entries().len()).filter(|at| list.rule_of(*at) == RuleRef::Rule(rule)).collect();
    let action = list.rules()[rule].action;
    let is_reached = entries.iter().any(|entry| matches!(list.witness(*entry), Found::One(_)));
    if !is_reached || action == AccessAction::Pass {
        return None;
    }
    let before = |at: usize| list.entries()[..at].iter().map(|entry| &entry.cube).enumerate();
    for (other, there) in before(entries[0]) {
        let does = match list.action(list.rule_of(other)) {
            AccessAction::Pass => continue,
            other if other == action => continue,
            AccessAction::Allow => "allows",
            AccessAction::Deny => "denies",
        };
        for entry in &entries {
            let cube = &list.entries()[*entry].cube;
            let both = cube.and(there).filter(|_| !cube.contains(there) && !there.contains(cube));
            if let Some(Found::One(both)) = both.map(|both| both.outside(before(other))) {
                let (name, by) = (list.describe(RuleRef::Rule(rule)), list.describe(list.rule_of(other)));
                return Some(format!("{name} would {action} some packets that {by} {does} before: {both}"));
            }
        }
    }
    None
}

/// Generates cubes of some of three fields, with blocks and other intervals.
fn cubes() -> impl Strategy<Value = Cube> {
    let interval = prop::option::of((0..64_u128, 0..16_u128));
    (interval.clone(), interval.clone(), interval).prop_map(|(a, b, c)| {
        let fields = [Field::Ipv4Src, Field::Ipv4Dst, Field::TcpDst];
        let intervals = fields.into_iter().zip([a, b, c]).filter_map(|(field, i)| Some((field, i?)));
        intervals.fold(Cube::all(), |cube, (field, (lo, size))| {
            cube.with(field, lo, lo + size).expect("each field comes once")
        })
    })
}

proptest! {
    #[test]
    fn an_index_finds_the_cubes_that_a_plain_search_finds(
        all in prop::collection::vec(cubes(), 0..150), asked in prop::collection::vec((cubes(), 0..160_usize), 20),
    ) {
        let all: Vec<&Cube> = all.iter().collect();
        let index = CubeIndex::new(&all);
        for (cube, below) in asked {
            let found: Vec<usize> = index.overlapping(&cube, below, |at| all[at]).iter().map(|(at, _)| *at).collect();
            let wanted: Vec<usize> = (0..all.len().min(below)).filter(|at| all[*at].overlaps(&cube)).collect();
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn an_index_knows_which_cubes_are_inside_of_others(
        all in prop::collection::vec(cubes(), 0..150), asked in prop::collection::vec((cubes(), 0..160_usize), 20),
    ) {
        let all: Vec<&Cube> = all.iter().collect();
        let index = CubeIndex::new(&all);
        for (cube, below) in asked {
            let wanted = all.iter().take(below).any(|other| other.contains(&cube));
            prop_assert_eq!(index.contains(&cube, below, |at| all[at]), wanted);
        }
    }

    #[test]
    fn conflicts_are_those_of_comparing_each_pair_of_entries(text in texts()) {
        let list = read(&text);
        let found = list.findings().into_iter().filter(|finding| finding.kind == FindingKind::Conflict);
        let wanted = (0..list.rules().len()).filter_map(|rule| naive_conflict(&list, rule));
        prop_assert_eq!(found.map(|finding| finding.text).collect::<Vec<_>>(), wanted.collect::<Vec<_>>(), "{}", text);
    }

    #[test]
    fn an_index_finds_the_wanted_cubes_that_cross_others_in_their_order(
        all in prop::collection::vec(cubes(), 0..150),
        asked in prop::collection::vec((prop::collection::vec(cubes(), 0..4), 0..160_usize), 20),
    ) {
        let all: Vec<&Cube> = all.iter().collect();
        let index = CubeIndex::new(&all);
        for (cubes, below) in asked {
            let cubes: Vec<&Cube> = cubes.iter().collect();
            let found: Vec<(usize, usize)> = index.crossing(&cubes, below, |at| at % 3 != 1, |at| all[at]).collect();
            let crosses = |at: usize, by: usize| {
                at % 3 != 1 && all[at].overlaps(cubes[by]) && !cubes[by].contains(all[at])
            };
            let pairs = (0..all.len().min(below)).flat_map(|at| (0..cubes.len()).map(move |by| (at, by)));
            let wanted: Vec<(usize, usize)> = pairs.filter(|(at, by)| crosses(*at, *by)).collect();
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn a_list_decides_as_a_plain_search(text in texts(), frames in prop::collection::vec(frames(), 40)) {
        let list = read(&text);
        for entering in frames {
            let found = list.first(entering.switch, &entering.packet());
            prop_assert_eq!(found, entry_for(&list, &entering), "{}", text);
        }
    }

    #[test]
    fn each_entry_has_a_witness_or_is_unreachable(text in texts(), frames in prop::collection::vec(frames(), 60)) {
        let list = read(&text);
        let reached: std::collections::BTreeSet<usize> = frames.iter().map(|frame| entry_for(&list, frame)).collect();
        for entry in 0..list.entries().len() {
            match list.witness(entry) {
                Found::One(sample) => {
                    let packet = Packet::new(&sample.frame, sample.port.unwrap_or(PortNo(0)).0);
                    prop_assert_eq!(naive(&list, sample.switch.unwrap_or(Dpid(0)), &packet), entry, "{}", text)
                }
                Found::None => prop_assert!(!reached.contains(&entry), "{entry} of {text}"),
                Found::Unknown => prop_assert!(false, "gave up on entry {entry} of {text}"),
            }
        }
    }

    #[test]
    fn the_parts_of_a_cube_are_disjoint_and_know_the_first_that_has_them(
        text in texts(), frames in prop::collection::vec(frames(), 60),
    ) {
        let list = read(&text);
        let Some(Entry { cube, .. }) = list.entries().last() else { return Ok(()) };
        let (mut parts, mut budget) = (Vec::new(), crate::cube::BUDGET);
        let others = || list.entries().iter().map(|entry| &entry.cube).take(list.entries().len() - 1);
        let is_all = cube.divide(others().enumerate(), &mut budget, &mut |part, first| {
            parts.push((part, first));
            true
        });
        prop_assert!(is_all);
        for entering in &frames {
            let packet = entering.packet();
            let switch = u128::from(entering.switch.0);
            let is_there = |cube: &Cube| cube.get(SWITCH).is_none_or(|i| i.lo <= switch && switch <= i.hi);
            let holds = |cube: &Cube| is_there(cube) && cube.cond().holds(&packet);
            let held: Vec<_> = parts.iter().filter(|(part, _)| holds(part)).map(|(_, first)| *first).collect();
            let wanted = if holds(cube) { vec![others().position(holds)] } else { vec![] };
            prop_assert_eq!(held, wanted, "{}", text);
        }
    }

    #[test]
    fn the_blocks_of_a_cube_are_disjoint_and_switches_can_match_them(
        text in texts(), frames in prop::collection::vec(frames(), 40),
    ) {
        for Entry { cube, .. } in read(&text).entries() {
            let blocks = cube.in_blocks().expect("there are few");
            prop_assert!(blocks.iter().all(|block| block.cond().ranges.is_empty()));
            for entering in &frames {
                let count = blocks.iter().filter(|block| block.cond().holds(&entering.packet())).count();
                prop_assert_eq!(count, usize::from(cube.cond().holds(&entering.packet())), "{}", cube);
            }
        }
    }

    #[test]
    fn lists_differ_exactly_on_the_packets_of_their_differences(
        a in texts(), b in texts(), frames in prop::collection::vec(frames(), 60),
    ) {
        let (a, b) = (read(&a), read(&b));
        let compared = a.compare(&b);
        for entering in frames {
            let (ours, theirs) = (a.rule_of(entry_for(&a, &entering)), b.rule_of(entry_for(&b, &entering)));
            let differ = a.action(ours) != b.action(theirs);
            let is_listed = compared.differences.iter().any(|one| (one.before, one.after) == (ours, theirs));
            // A few lists exceed the budget. Then some differences may be missing, but none is false.
            prop_assert!(differ == is_listed || differ && !compared.complete, "{ours:?} {theirs:?}");
        }
        for one in &compared.differences {
            prop_assert!(a.action(one.before) != b.action(one.after));
        }
        prop_assert!(a.compare(&a).differences.is_empty());
    }
}
