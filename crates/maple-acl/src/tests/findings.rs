//! Rules that never match, contradict each other, or let in more than replies.

use maple_wire::packet::Frame;
use proptest::prelude::*;

use super::*;

/// Returns a list with a rule that has replies, followed by the rules of `rest`.
fn with_replies(service: &str, rest: &str) -> List {
    let rule =
        format!("  - {{action: allow, name: out, from: 10.0.0.1, to: 203.0.113.0/24{service}, replies: true}}\n");
    read(&format!("version: 1\nrules:\n{rule}{rest}"))
}

#[test]
fn replies_that_may_open_connections_are_named() {
    let reply_texts =
        |list: &List| -> Vec<String> { list.open_replies().into_iter().map(|found| found.text).collect() };
    for service in [", service: tcp", ", service: tcp/1-65535", ", service: tcp/1024-65535", ", service: udp", ""] {
        let found = reply_texts(&with_replies(service, ""));
        let [text] = &found[..] else { panic!("{service}: {found:?}") };
        assert!(text.starts_with("rule out (a.yaml:3) lets in more than replies: "), "{text}");
        assert!(text.contains("ipv4_dst=10.0.0.1") && text.contains("ipv4_src=203.0.113.0/24"), "{text}");
    }
    for service in [
        ", service: tcp/443",
        ", service: [tcp/1-1023, udp/53]",
        ", service: icmp/8",
        ", service: tcp, source_ports: 32768-60999",
    ] {
        assert_eq!(reply_texts(&with_replies(service, "")), [""; 0], "{service}");
    }
    // The packets of this rule do not need the replies.
    let allowed = "  - {action: allow, from: 203.0.113.0/24, to: 10.0.0.1, service: tcp}\n";
    assert_eq!(reply_texts(&with_replies(", service: tcp", allowed)), [""; 0]);
    let kinds: Vec<FindingKind> = with_replies(", service: tcp", "").findings().iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [FindingKind::Replies]);
    assert!(FindingKind::Replies.is_error());
}

proptest! {
    /// Checks that every packet of a finding is allowed, comes from a port of clients to one of a server, and is denied
    /// without the replies.
    #[test]
    fn packets_of_a_finding_are_allowed_only_because_of_replies(
        (lo, width, source) in (0..=65_535u32, 0..=65_535u32, proptest::option::of(0..=65_535u32)),
        rest in prop::collection::vec((any::<bool>(), 0..=65_535u32, 0..=65_535u32), 0..4),
    ) {
        let hi = (lo + width).min(65_535);
        let source = source.map_or(String::new(), |port| format!(", source_ports: {port}-65535"));
        let service = format!(", service: tcp/{lo}-{hi}{source}");
        let rest: String = rest
            .iter()
            .map(|(allow, a, b)| {
                let action = if *allow { "allow" } else { "deny" };
                format!("  - {{action: {action}, service: tcp/{}-{}}}\n", a.min(b), a.max(b))
            })
            .collect();
        let with = with_replies(&service, &rest);
        let text = format!("version: 1\nrules:\n  - {{action: allow, from: 10.0.0.1, to: 203.0.113.0/24{service}}}\n{rest}");
        let without = read(&text);
        let said = |list: &List, from: u16, to: u16| {
            let ip = Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]).ipv4([203, 0, 113, 9], [10, 0, 0, 1]);
            list.action(list.decide(Dpid(1), &Packet::new(&ip.tcp(from, to).payload(&[0; 8]), 1)))
        };
        // Every end of a range that a rule names, and its neighbours.
        let mut ports: Vec<u16> = vec![1, 22, 32_767, 32_768, 65_535, lo as u16, hi as u16];
        ports.extend(rest.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse::<u16>().ok()));
        ports = ports.iter().flat_map(|port| [port.saturating_sub(1), *port, port.saturating_add(1)]).collect();
        let opens = |from: &u16, to: &u16| {
            *from >= 32_768
                && (1..32_768).contains(to)
                && said(&with, *from, *to) == AccessAction::Allow
                && said(&without, *from, *to) != AccessAction::Allow
        };
        let is_open = ports.iter().any(|from| ports.iter().any(|to| opens(from, to)));
        prop_assert_eq!(!with.open_replies().is_empty(), is_open, "{}", text);
    }
}

#[test]
fn untagged_packets_are_no_mystery() {
    let list = read(
        "version: 1\nrules:\n  - {action: allow, vlan: none, service: tcp/23}\n  - {action: deny, service: tcp/23}\n  \
         - {action: allow, vlan: [7, none], service: tcp/22}\n  - {action: deny, vlan: 7, service: tcp/22}\n",
    );
    let found: Vec<String> = list.findings().into_iter().map(|f| format!("{} {}", f.kind.name(), f.text)).collect();
    assert_eq!(
        found,
        ["shadowed rule (a.yaml:6) never matches: rule (a.yaml:5) decides first, and allows"],
        "the second rule is reached by tagged packets"
    );
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
  - {action: allow, name: half, from: 172.16.0.0/13}
  - {action: deny, name: rest, from: 172.16.0.0/12}
  - {action: deny, name: under, from: 172.16.0.0/12, service: udp}
  - {action: deny, name: ssh, from: 203.0.113.0/24, service: tcp/22-23}
  - {action: allow, name: all, from: 203.0.113.0/24}
  - {action: deny, name: settled, to: 198.51.100.0/24, from: 203.0.113.0/24, service: tcp/22}
",
    );
    let found: Vec<String> = list.findings().into_iter().map(|f| format!("{} {}", f.kind.name(), f.text)).collect();
    assert_eq!(
        found,
        [
            "redundant rule twin (a.yaml:6) never matches: rule a (a.yaml:4) and rule b (a.yaml:5) already deny its packets",
            "shadowed rule never (a.yaml:7) never matches: rule a (a.yaml:4) decides first, and denies",
            "conflict rule crossing (a.yaml:8) would allow some packets that rule a (a.yaml:4) denies before: \
             eth_type=0x800, ip_proto=6, ipv4_src=10.0.0.0/9, tcp_dst=80",
            "conflict rule rest (a.yaml:11) would deny some packets that rule crossing (a.yaml:8) allows before: \
             eth_type=0x800, ip_proto=6, ipv4_src=172.16.0.0/12, tcp_dst=80",
            "shadowed rule under (a.yaml:12) never matches: rule half (a.yaml:10) and rule rest (a.yaml:11) decide first, \
             and not all deny",
            "fragments rule ssh (a.yaml:13) does not hold for fragments, in which switches see no ports and no ICMP type: \
             rule all (a.yaml:14) allows them; `fragments: deny` drops them, `fragments: match` says that this is meant",
            "redundant rule settled (a.yaml:15) never matches: rule ssh (a.yaml:13) already denies its packets",
        ]
    );
}

#[test]
fn findings_of_a_long_list_are_in_the_order_of_its_rules() {
    // Long enough for several threads.
    let twins = |at: usize| format!("  - {{action: deny, from: 10.{}.{}.0/24}}\n", at / 512, at / 2 % 256);
    let list = read(&format!("version: 1\ndefault: allow\nrules:\n{}", (0..2_000).map(twins).collect::<String>()));
    let found = list.findings();
    let lines: Vec<usize> = found.iter().map(|one| one.place.line).collect();
    let wanted: Vec<usize> = (0..1_000).map(|pair| 4 + 2 * pair + 1).collect();
    assert_eq!(lines, wanted);
    assert!(found.iter().all(|one| one.kind == FindingKind::Redundant), "{found:?}");
}
