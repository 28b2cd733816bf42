//! Reading the sizes of a switch's tables.

use maple_wire::msg::stats::{RequestBody, TableFeatures, TableStats};

use super::*;

fn counted(table_id: u8, max_entries: u32, active_count: u32) -> TableStats {
    TableStats { table_id, name: "".into(), wildcards: 0, max_entries, active_count, lookup_count: 0, matched_count: 0 }
}

fn features(table_id: u8, max_entries: u32) -> TableFeatures {
    TableFeatures {
        table_id,
        name: "".into(),
        metadata_match: 0,
        metadata_write: 0,
        config: 0,
        max_entries,
        properties: Vec::new(),
    }
}

fn reply(flags: u16, body: ReplyBody) -> Message {
    Message::StatsReply(StatsReply { flags, body })
}

/// Asks, and returns the ids of the requests.
fn ask(peer: &mut Peer) -> Vec<u32> {
    peer.session.ask_for_table_sizes(&mut peer.out);
    let sent = peer.sent();
    let is_meant = |message: &Message| {
        matches!(message, Message::StatsRequest(request)
            if matches!(&request.body, RequestBody::Table | RequestBody::TableFeatures(_)))
    };
    assert!(sent.iter().all(|(_, message)| is_meant(message)), "{sent:?}");
    sent.into_iter().map(|(xid, _)| xid).collect()
}

fn answer(peer: &mut Peer) -> Option<Vec<TableSize>> {
    let said = peer.out.drain(..).find_map(|output| match output {
        Output::TableSizes(tables) => Some(tables),
        _ => None,
    });
    assert!(peer.closed().is_none());
    said
}

fn size(table: u8, rules: Option<u32>, most: Option<u32>) -> TableSize {
    TableSize { table, rules, most }
}

#[test]
fn one_answer_of_1_0_states_sizes_and_numbers_of_rules() {
    let mut peer = Peer::up(Version::Of10);
    let [xid] = ask(&mut peer)[..] else { panic!("one request") };
    peer.says(Version::Of10, xid, &reply(1, ReplyBody::Table(vec![counted(0, 100, 7)])));
    assert_eq!(answer(&mut peer), None, "more follows");
    peer.says(Version::Of10, xid, &reply(0, ReplyBody::Table(vec![counted(1, 50, 0)])));
    assert_eq!(answer(&mut peer), Some(vec![size(0, Some(7), Some(100)), size(1, Some(0), Some(50))]));
}

#[test]
fn two_answers_of_1_3_are_one_in_any_order_and_one_may_be_a_refusal() {
    let refusal = Message::Error(ErrorMsg { kind: 1, code: 2, data: vec![] });
    for is_refused in [false, true] {
        for order in [[0, 1], [1, 0]] {
            let mut peer = Peer::up(Version::Of13);
            let asked = ask(&mut peer);
            assert_eq!(asked.len(), 2);
            let said = [
                reply(0, ReplyBody::Table(vec![counted(1, 0, 7)])),
                if is_refused { refusal.clone() } else { reply(0, ReplyBody::TableFeatures(vec![features(1, 100)])) },
            ];
            peer.says(Version::Of13, asked[order[0]], &said[order[0]]);
            assert_eq!(answer(&mut peer), None);
            peer.says(Version::Of13, asked[order[1]], &said[order[1]]);
            assert_eq!(answer(&mut peer), Some(vec![size(1, Some(7), (!is_refused).then_some(100))]));
        }
    }
}

#[test]
fn features_that_cannot_be_read_are_no_answer_and_no_reason_to_disconnect() {
    let mut peer = Peer::up(Version::Of13);
    let asked = ask(&mut peer);
    peer.says(Version::Of13, asked[0], &reply(0, ReplyBody::Table(vec![counted(0, 0, 3)])));
    let mut bytes = Vec::new();
    let features = reply(0, ReplyBody::TableFeatures(vec![features(0, 9)]));
    features.encode(Version::Of13, asked[1], &mut bytes).expect("it can be said");
    // The length of the first table.
    bytes[16..18].copy_from_slice(&[0xff, 0xff]);
    peer.sends(&bytes);
    assert_eq!(answer(&mut peer), Some(vec![size(0, Some(3), None)]));
}

#[test]
fn a_switch_that_never_answers_is_asked_once_and_stays() {
    let mut peer = Peer::up(Version::Of13);
    assert_eq!(ask(&mut peer).len(), 2);
    for _ in 0..90 {
        peer.waits(Duration::from_secs(1));
        peer.says(Version::Of13, 0, &packet_in());
        assert_eq!(answer(&mut peer), None);
    }
    assert!(ask(&mut peer).is_empty());
}
