//! Entries between groups: they decide as the entries for all pairs of addresses do.

use proptest::prelude::*;

use super::random::{Entering, frames, texts};
use super::*;
use crate::classes::{self, AddressClasses};

/// Reads a list with entries between groups wherever that is possible, or nowhere.
fn read_as(text: &str, has_groups: bool) -> List {
    let min_saved = if has_groups { isize::MIN } else { isize::MAX };
    List::read_and_ask(text, "a.yaml", None, min_saved).unwrap_or_else(|error| panic!("{error}: {text}")).0
}

fn has_groups(list: &List) -> bool {
    list.entries().iter().any(|entry| !entry.groups.is_empty())
}

/// Returns the text of a list from some hosts to some servers, none of whose addresses are adjacent.
fn hosts_to_servers(hosts: usize, servers: usize) -> String {
    let all = |net: u8, count: usize| -> Vec<String> {
        (0..count).map(|n| format!("10.{net}.{}.{}", n / 100, 2 * (n % 100))).collect()
    };
    format!(
        "version: 1\ngroups:\n  hosts: [{}]\n  servers: [{}]\nrules:\n  \
         - {{action: allow, from: hosts, to: servers, service: tcp/443}}\n",
        all(1, hosts).join(", "),
        all(2, servers).join(", ")
    )
}

fn kinds(list: &List) -> Vec<(FilePlace, FindingKind)> {
    list.findings().into_iter().map(|finding| (finding.place, finding.kind)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_list_with_groups_is_the_one_without(text in texts(), frames in prop::collection::vec(frames(), 60)) {
        let (grouped, plain) = (read_as(&text, true), read_as(&text, false));
        prop_assert!(!has_groups(&plain));
        for Entering { switch, port, frame } in frames {
            let packet = Packet::new(&frame, port);
            prop_assert_eq!(grouped.decide(switch, &packet), plain.decide(switch, &packet), "{}", text);
        }
        prop_assert_eq!(kinds(&grouped), kinds(&plain), "{}", text);
        prop_assert!(grouped.compare(&plain).differences.is_empty(), "{}", text);
        let places = |list: &List| list.open_replies().into_iter().map(|found| found.place).collect::<Vec<_>>();
        prop_assert_eq!(places(&grouped), places(&plain), "{}", text);
        let pairs = |list: &List| list.entries().iter().map(Entry::count).sum::<usize>();
        prop_assert_eq!(pairs(&grouped), pairs(&plain), "{}", text);
    }

    #[test]
    fn the_same_questions_have_the_same_answers(text in texts(), action in prop::sample::select(vec!["allowed", "denied"])) {
        let asked = "tests: ['10.0.0.1 -> 10.0.0.4 tcp/80 ACTION', '10.0.0.2-10.0.0.5 -> any udp/53 ACTION', 'any -> 10.0.0.3 ACTION']\n";
        let text = format!("{text}{}", asked.replace("ACTION", action));
        let failed = |list: List| list.failed_tests().into_iter().map(|failed| failed.text).collect::<Vec<_>>();
        prop_assert_eq!(failed(read_as(&text, true)), failed(read_as(&text, false)), "{}", text);
    }

    #[test]
    fn an_entry_has_at_least_one_part_and_contains_all_its_parts(text in texts()) {
        let list = read_as(&text, true);
        let classes = AddressClasses::of_entries(list.entries());
        for (at, entry) in list.entries().iter().enumerate() {
            let parts = classes::parts(&classes, &entry.cube, Some(entry));
            prop_assert!(!parts.is_empty(), "entry {} of {}", at, text);
            for part in parts {
                prop_assert!(entry.cubes().any(|cube| cube.contains(&part)), "{} of entry {} of {}", part, at, text);
            }
        }
    }
}

#[test]
fn a_rule_between_large_groups_is_one_entry() {
    let list = read(&hosts_to_servers(1_000, 1_000));
    assert!(list.entries().len() < 10, "{} entries", list.entries().len());
    assert_eq!(list.entries()[0].count(), 1_000_000);
    let samples = list.compile(&[]).samples().len();
    assert!((5..50).contains(&samples), "{samples} samples");
    let compared = list.entries()[0].cubes().take(3).map(|cube| cube.to_string()).collect::<Vec<_>>();
    let pair = |to: u8| format!("eth_type=0x800, ip_proto=6, ipv4_src=10.1.0.0, ipv4_dst=10.2.0.{to}, tcp_dst=443");
    assert_eq!(compared, [0, 2, 4].map(pair));
}

#[test]
fn groups_stand_only_where_they_save_rules() {
    assert!(!has_groups(&read(&hosts_to_servers(8, 8))), "64 pairs are few");
    assert!(!has_groups(&read(&hosts_to_servers(1_000, 1))), "there are no fewer addresses than pairs");
    assert!(has_groups(&read(&hosts_to_servers(20, 20))));
    // Each of these rules would be asked once for each combination of classes.
    let others: String = (0..200).map(|n| format!("  - {{action: deny, service: udp/{}}}\n", 2 * n)).collect();
    assert!(!has_groups(&read(&format!("{}{others}", hosts_to_servers(20, 20)))));
}
