//! Lists against direct evaluation of what their author wrote.

use maple_core::check::frame_of;
use maple_wire::{Dpid, Field, Packet};
use proptest::prelude::*;

use super::*;
use crate::form::{DOCUMENT_KEYS, RULE_KEYS};

const CAMPUS: &str = "
version: 1
name: campus
default: deny
groups:
  web: [10.0.1.10, 10.0.1.11]
  office: [10.0.2.0/24, '!10.0.2.99', 'fd00:2::/64']
  servers: [web, 10.0.1.20]
  printer: 00:00:00:00:00:07
services:
  ssh: tcp/22
  dns: [udp/53, tcp/53]
rules:
  - {action: deny, name: no-ssh, from: office, to: servers, service: [ssh, tcp/23], comment: no keys}
  - {action: allow, from: office, to: web, service: tcp/80, replies: true}
  - {action: allow, from: printer, at: '1:2', vlan: none}
  - {action: pass, service: dns, source_ports: 1024-65535}
";

fn read(text: &str) -> List {
    List::read(text, "a.yaml").unwrap_or_else(|error| panic!("{error}"))
}

fn fault(text: &str) -> String {
    List::read(text, "a.yaml").err().map_or_else(|| "no error".into(), |error| error.to_string())
}

fn tests_of(tests: &str) -> Vec<String> {
    let list = read(&format!("{CAMPUS}tests: [{tests}]"));
    list.failed_tests()
        .into_iter()
        .map(|failed| format!("{}: {}: {:?}", failed.text, failed.packet, failed.got))
        .collect()
}

#[test]
fn tests_of_a_list_hold_for_all_of_their_packets() {
    let hold = [
        "office -> servers tcp/22 denied",
        "office -> web tcp/80 allowed",
        "web -> office tcp denied",
        "10.0.2.99 -> web tcp/80 denied",
        "fd00:2::5 -> fd00:9::1 udp/53 denied",
    ];
    assert_eq!(tests_of(&format!("'{}'", hold[0])), [""; 0]);
    assert_eq!(tests_of(&format!("'{}'", hold[1])), [""; 0]);
    // The printer may send from any address.
    let failed = tests_of(&format!("'{}'", hold[3]));
    assert!(failed[0].contains("in_port=2, switch=1, eth_src=00:00:00:00:00:07"), "{failed:?}");
    // Replies come from port 80.
    let failed = tests_of(&format!("'{}'", hold[2]));
    assert!(failed[0].contains("tcp_src=80") && failed[0].contains("Allow"), "{failed:?}");
    let failed = tests_of(&format!("'{}'", hold[4]));
    assert!(failed[0].contains("udp_dst=53") && failed[0].contains("Allow"), "{failed:?}");
}

#[test]
fn errors_name_line_column_and_what_may_be_meant() {
    let head = "version: 1\nrules:\n";
    let cases = [
        ("", "a.yaml:1:1: the file is empty"),
        ("rules: []", "a.yaml:1:1: `version: 1` is missing"),
        ("version: 2", "a.yaml:1:10: version 2 is unknown here; this Maple reads version 1"),
        ("version: 1\nrulez: []", "a.yaml:2:1: an access list has no key `rulez`; did you mean `rules`?"),
        (
            &format!("{head}  - {{action: alow}}"),
            "a.yaml:3:14: `action` is allow or deny or pass, not `alow`; did you mean `allow`?",
        ),
        (&format!("{head}  - {{form: any}}"), "a.yaml:3:6: a rule has no key `form`; did you mean `from`?"),
        (
            &format!("{head}  - {{action: deny, from: 10.0.0.1/8}}"),
            "a.yaml:3:26: `10.0.0.1/8` has bits after its length; did you mean `10.0.0.0/8`?",
        ),
        (
            &format!("{head}  - {{action: deny, from: ofice}}\ngroups: {{office: 10.0.0.1}}"),
            "a.yaml:3:26: `ofice` is neither an address nor a group; did you mean `office`?",
        ),
        (
            &format!("{head}  - {{action: deny, service: tcp/99999}}"),
            "a.yaml:3:29: `tcp/99999`: `99999` is no port from 0 to 65535",
        ),
        (
            &format!("{head}  - {{action: deny, from: 10.0.0.1, to: 'fd00::1'}}"),
            "a.yaml:3:5: the rule fits no packet: its addresses, services and types contradict each other",
        ),
        (&format!("{head}  - {{action: deny, queue: 1}}"), "a.yaml:3:27: a rule that denies can't have a `queue`"),
        ("version: 1\ngroups: {a: b, b: a}", "a.yaml:2:19: group `a` contains itself: a → b → a"),
        ("version: 1\nversion: 1", "a.yaml:2:1: `version` is given twice"),
        (
            "version: 1\ntests: ['10.0.0.1 -> 10.0.0.2 maybe']",
            "a.yaml:2:9: a test is `FROM -> TO [SERVICE] allowed`, denied or passed, not `maybe`",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(fault(text), wanted, "{text}");
    }
    assert!(fault("version: 1\nrules: [}").starts_with("a.yaml:2:9: "), "{}", fault("version: 1\nrules: [}"));
}

#[test]
fn the_schema_has_the_keys_of_the_reader() {
    let keys = |from: &str, known: &[&str]| {
        for key in known {
            assert!(from.contains(&format!("\"{key}\": {{")), "{key}");
        }
    };
    let (document, rule) = SCHEMA.split_once("\"rule\": {").expect("rules have a schema");
    keys(document, &DOCUMENT_KEYS);
    keys(rule, &RULE_KEYS);
    let count = |text: &str, what: &str| text.matches(what).count();
    // Each property is a line of its own, so that there can be no more of them than keys.
    let lines = |text: &str, indent: &str| {
        text.lines().filter(|line| line.starts_with(indent) && line[indent.len()..].starts_with('"')).count()
    };
    assert_eq!(lines(document.split("\"$defs\"").next().unwrap_or_default(), "    "), DOCUMENT_KEYS.len());
    assert_eq!(lines(rule, "        "), RULE_KEYS.len());
    assert!(count(SCHEMA, "additionalProperties\": false") == 2);
}

#[test]
fn findings_name_the_rules_that_decide_first() {
    let list = read(
        "
version: 1
rules:
  - {action: deny, name: a, from: 10.0.0.0/9}
  - {action: deny, name: b, from: 10.128.0.0/9}
  - {action: deny, name: twin, from: 10.0.0.0/8, service: tcp/80}
  - {action: allow, name: never, from: 10.5.0.0/16}
  - {action: allow, name: crossing, service: tcp/80}
  - {action: allow, name: fine, from: 192.168.0.0/16}
",
    );
    let found: Vec<String> = list.findings().into_iter().map(|f| format!("{} {}", f.kind.name(), f.text)).collect();
    assert_eq!(
        found,
        [
            "redundant rule twin (a.yaml:6) never matches: rule a (a.yaml:4), rule b (a.yaml:5) already deny its packets",
            "shadowed rule never (a.yaml:7) never matches: rule a (a.yaml:4) decide first, and not all allow",
            "conflict rule crossing (a.yaml:8) would allow some packets that rule a (a.yaml:4) denies before: \
             eth_type=0x800, ip_proto=6, ipv4_src=10.0.0.0/9, tcp_dst=80",
        ]
    );
}

/// A random list as text: few addresses and ports, so that rules overlap.
fn texts() -> impl Strategy<Value = String> {
    let address = prop::sample::select(vec![
        "any",
        "10.0.0.1",
        "10.0.0.0/30",
        "10.0.0.2-10.0.0.5",
        "fd00::1",
        "'00:00:00:00:00:01'",
    ]);
    let service = prop::sample::select(vec!["", "tcp/80", "tcp/70-90", "tcp", "udp/53", "icmp/8", "icmpv6", "ip/47"]);
    let rule = (prop::sample::select(vec!["allow", "deny", "pass"]), address.clone(), address, service, any::<bool>());
    let rule = rule.prop_map(|(action, from, to, service, replies)| {
        let service = if service.is_empty() { String::new() } else { format!(", service: {service}") };
        format!("  - {{action: {action}, from: {from}, to: {to}{service}, replies: {replies}}}\n")
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

fn frames() -> impl Strategy<Value = Vec<u8>> {
    let ip = prop::sample::select(vec![1_u128, 2, 3, 4, 5, 6]).prop_map(|low| 0x0a00_0000 | low);
    let kind = prop::sample::select(vec![0x800_u128, 0x86dd, 0x806]);
    let proto = prop::sample::select(vec![6_u128, 17, 1, 58, 47]);
    let port = || prop::sample::select(vec![53_u128, 69, 70, 80, 90, 91, 0, 65535]);
    let mac = prop::sample::select(vec![1_u128, 2]);
    let icmp = prop::sample::select(vec![0_u128, 8, 128, 129]);
    (kind, proto, ip.clone(), ip, port(), port(), mac, icmp).prop_map(|(kind, proto, a, b, from, to, mac, icmp)| {
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
        frame_of(&fields.into())
    })
}

/// The first entry that a frame fits, by a plain search.
fn naive(list: &List, packet: &Packet<'_>) -> usize {
    list.entries().iter().position(|entry| entry.cube.cond().holds(packet)).unwrap_or(list.entries().len())
}

proptest! {
    #[test]
    fn a_list_decides_as_a_plain_search(text in texts(), frames in prop::collection::vec(frames(), 40)) {
        let list = read(&text);
        for frame in frames {
            let packet = Packet::new(&frame, 1);
            prop_assert_eq!(list.first(Dpid(1), &packet), naive(&list, &packet), "{}", text);
        }
    }

    #[test]
    fn each_entry_has_a_witness_or_none_can_reach_it(text in texts(), frames in prop::collection::vec(frames(), 60)) {
        let list = read(&text);
        let reached: std::collections::BTreeSet<usize> =
            frames.iter().map(|frame| naive(&list, &Packet::new(frame, 1))).collect();
        for entry in 0..list.entries().len() {
            match list.witness(entry) {
                crate::cube::Found::One(sample) => {
                    prop_assert_eq!(naive(&list, &Packet::new(&sample.frame, 1)), entry, "{}", text)
                }
                crate::cube::Found::None => prop_assert!(!reached.contains(&entry), "{entry} of {text}"),
                crate::cube::Found::Unknown => prop_assert!(false, "gave up on entry {entry} of {text}"),
            }
        }
    }

    #[test]
    fn lists_differ_exactly_on_the_packets_of_their_differences(
        a in texts(), b in texts(), frames in prop::collection::vec(frames(), 60),
    ) {
        let (a, b) = (read(&a), read(&b));
        let compared = a.compare(&b);
        prop_assert!(compared.complete);
        let rules = |list: &List, packet: &Packet<'_>| list.rule_of(naive(list, packet));
        for frame in frames {
            let packet = Packet::new(&frame, 1);
            let (ours, theirs) = (rules(&a, &packet), rules(&b, &packet));
            let differ = a.action(ours) != b.action(theirs);
            let told = compared.differences.iter().any(|one| one.rules == (ours, theirs));
            prop_assert_eq!(differ, told, "{:?} {:?}", ours, theirs);
        }
        for one in &compared.differences {
            prop_assert!(one.action.0 != one.action.1);
        }
        prop_assert!(a.compare(&a).differences.is_empty());
    }

    #[test]
    fn what_is_left_of_a_cube_is_what_it_has_and_the_other_lacks(
        text in texts(), frames in prop::collection::vec(frames(), 40),
    ) {
        let list = read(&text);
        for pair in list.entries().windows(2) {
            let (a, b) = (&pair[0].cube, &pair[1].cube);
            let pieces = a.minus(b);
            for frame in &frames {
                let packet = Packet::new(frame, 1);
                let holds = |cube: &Cube| cube.cond().holds(&packet);
                let count = pieces.iter().filter(|piece| holds(piece)).count();
                prop_assert_eq!(count, usize::from(holds(a) && !holds(b)), "{} minus {}", a, b);
            }
        }
    }
}
