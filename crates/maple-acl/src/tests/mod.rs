//! Lists against what their author wrote.

mod findings;
mod fragments;
mod groups;
mod random;
mod reading;

use maple_wire::{Dpid, Field, Packet};

use super::*;

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

fn tests_of(tests: &str) -> Vec<String> {
    let list = read(&format!("{CAMPUS}tests: [{tests}]"));
    list.failed_tests()
        .into_iter()
        .map(|failed| {
            let decision = failed.decision.map(|decision| (decision.action, decision.rule));
            format!("{}: {}: {decision:?}", failed.text, failed.packet)
        })
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
fn a_question_is_answered_with_the_rules_that_decide() {
    let text = "version: 1\ngroups: {office: 10.0.2.0/24, web: [10.0.9.1, 10.0.9.2]}\nrules:\n  \
                - {name: ssh, action: deny, from: office, service: tcp/22}\n  - {action: allow, to: web}\n";
    let asked = |question: &str| {
        let (list, all) = List::explain(text, "a.yaml", question).expect("it can be asked");
        all.iter().map(|one| (list.action(one.rule).to_string(), list.describe(one.rule))).collect::<Vec<_>>()
    };
    let (ssh, web) = ("rule ssh (a.yaml:4)".to_owned(), "rule (a.yaml:5)".to_owned());
    let default = "`default: deny` of a.yaml".to_owned();
    assert_eq!(asked("10.0.2.7 -> web tcp/22"), [("deny".to_owned(), ssh.clone())]);
    assert_eq!(asked("10.0.3.7 -> web tcp/22"), [("allow".to_owned(), web.clone())]);
    assert_eq!(asked("office->10.0.9.1"), [("deny".to_owned(), ssh), ("allow".to_owned(), web)]);
    assert_eq!(asked("10.0.3.7 -> 10.0.3.8 udp/53"), [("deny".to_owned(), default)]);
    let wrong = |question: &str| List::explain(text, "a.yaml", question).expect_err("it is wrong").to_string();
    assert!(wrong("ofice -> web").contains("did you mean `office`?"));
    assert!(wrong("office web").contains("packets are `FROM -> TO [SERVICE]`, not `office web`"));
}

#[test]
fn a_prefix_has_as_many_addresses_as_its_length_says() {
    for (prefix, inside, outside) in [
        ("::1/128", "::1", "::2"),
        ("::/128", "::", "::1"),
        ("::/0", "ffff::1", "10.0.0.1"),
        ("fd00::/127", "fd00::1", "fd00::2"),
        ("10.0.0.1/32", "10.0.0.1", "10.0.0.2"),
        ("0.0.0.0/0", "255.255.255.255", "::1"),
    ] {
        let text = format!(
            "version: 1\narp: deny\nrules: [{{action: allow, from: '{prefix}'}}]\n\
             tests: ['{inside} -> any allowed', expect: '{outside} → any denied']"
        );
        assert_eq!(read(&text).failed_tests(), [], "{prefix}");
    }
}

#[test]
fn a_long_list_of_addresses_is_tested_and_compared() {
    let hosts: String = (0..5_000)
        .map(|n| format!("  - {{action: deny, from: 10.{}.{}.{}}}\n", n % 7, n / 250, n * 37 % 250))
        .collect();
    let list = |service: &str| {
        format!(
            "version: 1\ndefault: allow\nrules:\n{hosts}  - {{action: deny, name: last, service: {service}}}\n\
             tests: ['any -> 10.0.0.5 tcp/23 denied', '10.3.0.251 -> any udp/5 allowed']\n"
        )
    };
    let old = read(&list("tcp/23"));
    assert_eq!(old.failed_tests(), []);
    let new = read(&list("tcp/24").replace("tcp/23 denied", "tcp/24 denied"));
    let compared = old.compare(&new);
    let differences = compared.differences.iter().map(|one| {
        let action = (old.action(one.before), new.action(one.after));
        (action, (one.before, one.after))
    });
    let last = RuleRef::Rule(5_000);
    let (allow, deny) = (AccessAction::Allow, AccessAction::Deny);
    assert!(compared.complete);
    let expected = [((deny, allow), (last, RuleRef::Default)), ((allow, deny), (RuleRef::Default, last))];
    assert_eq!(differences.collect::<Vec<_>>(), expected);
}

#[test]
fn ranges_are_installed_as_blocks_each_with_a_sample() {
    let list = read("version: 1\ndefault: allow\nrules: [{action: deny, service: udp/33434-33523}]\narp: pass\n");
    let before = read("version: 1\ndefault: pass\nrules: [{action: deny, at: '1:2', service: udp/33434}]\n");
    let compiled = list.compile(&[&before]);
    let denied: std::collections::BTreeSet<u128> = compiled
        .samples()
        .iter()
        .filter_map(|sample| Packet::new(&sample.frame, 1).switch_value(Field::UdpDst))
        .filter(|port| (33434..=33523).contains(port))
        .collect();
    // 33434-33435, 33436-33439, 33440-33471, 33472-33503, 33504-33519, 33520-33523, for IPv4 and for IPv6.
    assert_eq!(denied.len(), 6, "{denied:?}");
    assert!(compiled.samples().len() > 12);
    assert!(before.compile(&[]).samples().iter().any(|sample| sample.not_at.len() == 1));
}
