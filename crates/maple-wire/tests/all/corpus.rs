//! Every 1.0 and 1.3 message of the shared corpus. Good messages decode and re-encode to equal bytes, and broken ones
//! are refused. The corpus, which its README describes, is beside the project. Without it this test reports that and
//! passes; in CI it fails.

use std::path::{Path, PathBuf};

use maple_wire::{Error, Field, Header, Match, Message, Version};
use serde::Deserialize;
use serde_json::Value;

use crate::skip::missing;

/// A row of the corpus's index.
#[derive(Deserialize)]
struct Entry {
    name: String,
    file: PathBuf,
    version: String,
    xid: u32,
    type_code: u8,
    length: usize,
    expect: String,
    json: Option<Value>,
}

/// Messages that re-encode to other bytes, and why the lost parts have no meaning. Their second encoding must be
/// stable.
const CANONICALISED: &[(&str, &str)] = &[
    ("ovs-ofpst_flow_request_of1.0-1", "the match has a port number under the in_port wildcard"),
    ("ovs-ofpst_aggregate_request_of1.0-1", "the match has a port number under the in_port wildcard"),
    ("ovs-ofpst_flow_reply_of1.0-1", "matches on ARP are exact in nw_tos and tp_*, which ARP packets do not have"),
];

/// Messages that the corpus's source calls broken although they are whole, and why.
const WHOLE: &[(&str, &str)] = &[(
    "ovs-ofpt_error_prints_type_of_truncated_inner_messages-1",
    "the error is whole; the request that it quotes is cut to 64 bytes, as the specification allows",
)];

fn corpus() -> Option<(PathBuf, Vec<Entry>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/of-corpus");
    match std::fs::read_to_string(folder.join("index.json")) {
        Ok(index) => Some((folder, serde_json::from_str(&index).expect("the index is a list of entries"))),
        Err(error) => {
            missing(&format!("the OpenFlow corpus at {} ({error})", folder.display()));
            None
        }
    }
}

fn version(entry: &Entry) -> Option<Version> {
    entry.version.parse().ok()
}

fn reason<'a>(list: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    list.iter().find(|(listed, _)| *listed == name).map(|(_, reason)| *reason)
}

#[test]
fn good_messages_come_back_as_they_were_and_broken_ones_are_refused() {
    let Some((folder, entries)) = corpus() else { return };
    let mut failures = Vec::new();
    for entry in &entries {
        let Some(version) = version(entry) else { continue };
        let bytes = std::fs::read(folder.join(&entry.file)).expect("the index names files that exist");
        if let Err(failure) = check(entry, version, &bytes) {
            failures.push(format!("{}: {failure}", entry.name));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn check(entry: &Entry, version: Version, bytes: &[u8]) -> Result<(), String> {
    let good = entry.expect == "ok" || reason(WHOLE, &entry.name).is_some();
    match (entry.expect.as_str(), Message::decode(bytes)) {
        (_, Ok((header, message))) if good => check_good(entry, version, bytes, header, message),
        (_, Err(error)) if good => Err(format!("refused: {error}")),
        ("trailing", _) => {
            // The message at the front is good. Together with the bytes after it, it is not one message.
            let (header, message) = Message::decode(&bytes[..entry.length]).map_err(|e| e.to_string())?;
            check_good(entry, version, &bytes[..entry.length], header, message)
        }
        (_, Ok((_, message))) => Err(format!("read as {message:?}")),
        (_, Err(_)) => Ok(()),
    }
}

fn check_good(entry: &Entry, version: Version, bytes: &[u8], header: Header, message: Message) -> Result<(), String> {
    let expect = Header { version: bytes[0], kind: entry.type_code, length: entry.length as u16, xid: entry.xid };
    if header != expect {
        return Err(format!("the header reads {header:?}"));
    }
    let encode = |message: &Message| -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        message.encode(version, header.xid, &mut out).map(|()| out)
    };
    let again = encode(&message).map_err(|error| format!("not encoded: {error}"))?;
    if reason(CANONICALISED, &entry.name).is_some() {
        let (_, second) = Message::decode(&again).map_err(|error| format!("second decoding: {error}"))?;
        let stable = second == message && encode(&second).as_ref() == Ok(&again) && again != bytes;
        return if stable { Ok(()) } else { Err("not stable, or no exception".to_string()) };
    }
    if again == bytes { Ok(()) } else { Err(format!("encoded {}\n    not {}", hex(&again), hex(bytes))) }
}

#[test]
fn fields_read_as_another_implementation_reads_them() {
    let Some((folder, entries)) = corpus() else { return };
    let mut checked = 0;
    for entry in entries.iter().filter(|entry| entry.expect == "ok" && version(entry).is_some()) {
        let Some(fields) = entry.json.as_ref().and_then(|json| json.as_object()?.values().next()) else { continue };
        let bytes = std::fs::read(folder.join(&entry.file)).expect("the index names files that exist");
        let (_, message) = Message::decode(&bytes).expect("good messages are read");
        for (name, value) in numbers(&message) {
            if let Some(expect) = fields.get(name).and_then(Value::as_u64) {
                assert_eq!(value, expect, "{} of {}", name, entry.name);
                checked += 1;
            }
        }
        checked += check_match(entry, &message, &fields["match"]["OFPMatch"]["oxm_fields"]);
    }
    assert!(checked > 100, "only {checked} fields were compared");
}

/// Returns some of a message's numbers, by their names in the other implementation.
fn numbers(message: &Message) -> Vec<(&'static str, u64)> {
    match message {
        Message::FeaturesReply(f) => vec![
            ("datapath_id", f.dpid.0),
            ("n_tables", f.n_tables.into()),
            ("auxiliary_id", f.auxiliary_id.into()),
            ("capabilities", f.capabilities.into()),
        ],
        Message::PacketIn(p) => vec![("buffer_id", p.buffer_id.into()), ("total_len", p.total_len.into())],
        Message::FlowRemoved(r) => vec![
            ("byte_count", r.byte_count),
            ("duration_nsec", r.duration_nsec.into()),
            ("idle_timeout", r.idle_timeout.into()),
            ("priority", r.priority.into()),
        ],
        Message::FlowMod(f) => vec![
            ("cookie", f.cookie),
            ("cookie_mask", f.cookie_mask),
            ("table_id", f.table_id.into()),
            ("command", f.command as u64),
            ("priority", f.priority.into()),
            ("buffer_id", f.buffer_id.into()),
        ],
        _ => vec![],
    }
}

/// Compares the entries of a match that the other implementation has as plain numbers. Returns the number of entries
/// compared.
fn check_match(entry: &Entry, message: &Message, oxm_fields: &Value) -> usize {
    let matching: &Match = match message {
        Message::PacketIn(p) => &p.pipeline,
        Message::FlowMod(f) => &f.matching,
        _ => return 0,
    };
    let mut checked = 0;
    for oxm in oxm_fields.as_array().into_iter().flatten().map(|oxm| &oxm["OXMTlv"]) {
        let field = oxm["field"].as_str().and_then(Field::from_name);
        if let (Some(field), Some(expect), true) = (field, oxm["value"].as_u64(), oxm["mask"].is_null()) {
            let value = matching.get(field).map(|c| c.value);
            assert_eq!(value, Some(expect.into()), "{field} of {}", entry.name);
            checked += 1;
        }
    }
    checked
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
