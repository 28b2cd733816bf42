//! Fragments, in which switches see no ports.

use maple_wire::packet::Frame;

use super::*;

/// Returns a list that denies packets to port 53, and allows other UDP.
fn dns_denied(more: &str) -> List {
    read(&format!(
        "version: 1\n{more}rules:\n  - {{action: deny, name: no-dns, service: udp/53}}\n  \
         - {{action: allow, name: rest, service: udp}}\ntests: ['any -> 10.0.0.9 udp/53 denied', \
         'any -> 10.0.0.9 udp/54 allowed']\n"
    ))
}

/// Returns the list's action for a fragment of a UDP datagram to port 53. `offset` is in units of 8 bytes.
fn on_fragment(list: &List, offset: u16, more: bool) -> AccessAction {
    let ip = Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]).ipv4([10, 0, 0, 1], [10, 0, 0, 9]);
    let frame = ip.fragment(offset, more, 7).udp(4000, 53).payload(&[0; 64]);
    list.action(list.decide(Dpid(1), &Packet::new(&frame, 1)))
}

#[test]
fn fragments_are_denied_or_allowed_before_all_rules() {
    let (allow, deny) = (AccessAction::Allow, AccessAction::Deny);
    for (more, wanted) in
        [("", allow), ("fragments: match\n", allow), ("fragments: allow\n", allow), ("fragments: deny\n", deny)]
    {
        let list = dns_denied(more);
        assert_eq!(list.failed_tests(), [], "{more}");
        for (offset, is_more) in [(0, true), (20, true), (20, false)] {
            assert_eq!(on_fragment(&list, offset, is_more), wanted, "{more} offset {offset}");
        }
    }
    let list = read("version: 1\nfragments: allow\nrules: []\n");
    assert_eq!(on_fragment(&list, 0, true), allow, "the default is deny");
    let v6 = || {
        Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1])
            .ipv6([0xfd00, 0, 0, 0, 0, 0, 0, 1], [0xfd00, 0, 0, 0, 0, 0, 0, 2])
    };
    let said = |frame: Vec<u8>| list.action(list.decide(Dpid(1), &Packet::new(&frame, 1)));
    assert_eq!(said(v6().fragment(20, true, 7).udp(4000, 53).payload(&[0; 64])), allow, "a later fragment");
    assert_eq!(said(v6().fragment(0, true, 7).udp(4000, 53).payload(&[0; 64])), allow, "the first one");
    assert_eq!(said(v6().udp(4000, 53).payload(&[0; 64])), deny, "a whole packet");
    let compared = dns_denied("").compare(&dns_denied("fragments: deny\n"));
    assert!(compared.complete && compared.differences.iter().any(|one| one.after == RuleRef::Fragments));
}

#[test]
fn tests_and_rules_that_do_not_hold_for_fragments_are_named() {
    let noted = |list: &List| {
        let notes = list.fragment_notes().into_iter();
        notes.map(|note| format!("{}: {} {}", note.text, note.decision.rule, note.decision.action)).collect::<Vec<_>>()
    };
    let found = |list: &List| -> Vec<String> {
        let findings = list.findings().into_iter().filter(|finding| finding.kind == FindingKind::Fragments);
        findings.map(|finding| finding.text).collect()
    };
    let list = dns_denied("");
    let through = "any -> 10.0.0.9 udp/53 denied: rule rest (a.yaml:4) allow";
    assert_eq!(noted(&list), [through]);
    let texts = found(&list);
    assert!(
        texts.len() == 1 && texts[0].starts_with("rule no-dns (a.yaml:3) does not hold for fragments"),
        "{texts:?}"
    );
    assert!(texts[0].contains("rule rest (a.yaml:4) allows them; `fragments: deny` drops them"), "{texts:?}");

    let said = dns_denied("fragments: match\n");
    assert_eq!((noted(&said).len(), found(&said).len()), (1, 0), "it is meant, and still said with the test");
    let allowed = dns_denied("fragments: allow\n");
    assert_eq!(noted(&allowed), ["any -> 10.0.0.9 udp/53 denied: `fragments: allow` of a.yaml allow"]);
    let denied = dns_denied("fragments: deny\n");
    assert_eq!((noted(&denied), found(&denied)), (vec![], vec![]));

    let list = read("version: 1\nrules: [{action: allow, service: udp/53}]\ntests: [any -> any udp/53 allowed]\n");
    assert_eq!(noted(&list), ["any -> any udp/53 allowed: `default: deny` of a.yaml deny"], "large answers are lost");
    assert_eq!(found(&list), [""; 0], "nothing gets through");
    let list =
        read("version: 1\ndefault: allow\nrules: [{action: deny, service: icmp/8}, {action: deny, service: tcp}]\n");
    let texts = found(&list);
    assert!(texts.len() == 1 && texts[0].contains("rule (a.yaml:3)"), "not the one without ports: {texts:?}");
}
