//! Mistakes in a document: what is wrong, where, and what may be meant.

use super::*;
use crate::form::{DOCUMENT_KEYS, RULE_KEYS};

fn fault(text: &str) -> String {
    List::read(text, "a.yaml").err().map_or_else(|| "no error".into(), |error| error.to_string())
}

#[test]
fn all_errors_of_a_list_are_reported_together() {
    let text = "version: 1\nrules:\n  - {action: alow}\n  - {action: deny, from: 10.0.0.1}\n  - {form: any}\n\
                tests:\n  - any -> any maybe\n  - any -> any tcp/22 denied\n";
    let error = List::read(text, "a.yaml").expect_err("three lines are wrong").to_string();
    let lines: Vec<&str> = error.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(lines, ["a.yaml:3:14:", "a.yaml:5:6:", "a.yaml:7:5:"], "{error}");
    let many = format!("version: 1\nrules:\n{}", "  - {form: any}\n".repeat(120));
    let error = List::read(&many, "a.yaml").expect_err("all lines are wrong").to_string();
    assert!(error.lines().count() == 51 && error.ends_with("\na.yaml: and 70 more"), "{error}");
}

#[test]
fn places_and_vlan_ids_are_read_as_they_are_printed() {
    let list = |place: &str, vlan: &str| {
        read(&format!("version: 1\nrules:\n  - {{action: deny, at: '{place}', vlan: {vlan}}}\n"))
    };
    let printed = list("1:LOCAL", "20").entries()[0].cube.to_string();
    assert_eq!(printed, "in_port=LOCAL, switch=1, vlan_vid=20");
    let places = ["1:LOCAL", "1:local", "0000000000000001:LOCAL", "00:00:00:00:00:00:00:01:LOCAL", "1:4294967294"];
    for (place, vlan) in places.into_iter().flat_map(|place| ["20", "0x14", "0x1014"].map(|vlan| (place, vlan))) {
        assert_eq!(list(place, vlan).entries()[0].cube.to_string(), printed, "{place} {vlan}");
    }
    for (what, wrong) in [("at", "'1:FLOOD'"), ("at", "'1:0'"), ("vlan", "0x1fff"), ("vlan", "4116"), ("vlan", "0")] {
        let text = format!("version: 1\nrules:\n  - {{action: deny, {what}: {wrong}}}\n");
        assert!(List::read(&text, "a.yaml").is_err(), "{what}: {wrong}");
    }
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
            &format!("{head}  - {{action: allow, reply: true}}"),
            "a.yaml:3:21: a rule has no key `reply`; did you mean `replies`?",
        ),
        (
            &format!("{head}  - {{action: allow, service: upd/123}}"),
            "a.yaml:3:30: `upd/123` is neither a service of this file nor one written out, such as `tcp/22`; did you mean \
             `udp/123`?",
        ),
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
            "a.yaml:3:29: `tcp/99999`: `99999` is not a port from 0 to 65535",
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
        (
            "version: 1\ntests: ['10.0.0.1/8 -> any allowed']",
            "a.yaml:2:9: `10.0.0.1/8` has bits after its length; did you mean `10.0.0.0/8`?",
        ),
        (
            "version: 1\ngroups: {office: 10.0.0.1}\ntests: ['ofice -> any allowed']",
            "a.yaml:3:9: `ofice` is neither an address nor a group; did you mean `office`?",
        ),
        (
            "version: 1\ntests: [{expekt: a -> b denied}]",
            "a.yaml:2:10: a test has no key `expekt`; did you mean `expect`?",
        ),
        (
            &format!("{head}  - {{action: deny, at: '1:2:3'}}"),
            "a.yaml:3:24: `1:2:3` is not a place, such as \"1:2\" (switch and port) or \"1\"",
        ),
        (
            &format!("{head}  - {{action: deny, at: '00:00:00:00:00:07'}}"),
            "a.yaml:3:24: `00:00:00:00:00:07` is not a place, such as \"1:2\" (switch and port) or \"1\"",
        ),
        (
            &format!("{head}  - {{action: deny, from: ['!10.0.0.0/8']}}"),
            "a.yaml:3:26: this names no address at all: `!x` takes x out of the others, such as [0.0.0.0/0, '!x']",
        ),
        (
            &format!("{head}  - {{action: deny, from: [any, '!10.0.0.0/8']}}"),
            "a.yaml:3:27: `any` stands alone; among other addresses write 0.0.0.0/0 and ::/0",
        ),
        (
            "version: 1\nservices: {web: [http], http: tcp/80}",
            "a.yaml:2:18: `http` is defined only later: a service may name those that come before it",
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
    assert!(count(SCHEMA, "additionalProperties\": false") == 3);
}
