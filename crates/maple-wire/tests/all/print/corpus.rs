//! The messages of the corpus beside the project, if it is there.

use std::path::{Path, PathBuf};

use maple_wire::{Message, print};
use serde::Deserialize;

use super::oracle;
use crate::skip::missing;

/// Messages of the corpus whose text differs from Open vSwitch's, and why. Texts with opaque parts of experimenters
/// also differ: [`is_opaque`].
const DIFFERENT: [(&str, &str); 4] = [
    ("ovs-ofpst_flow_reply_of1.0-1", "fields of a 1.0 match without their prerequisites are not read"),
    ("of13-4-32-ofp_group_features_reply", "actions that Open vSwitch does not support are shown"),
    ("of13-4-55-ofp_table_features_request", "table features have a form of their own"),
    ("ovs-ofpst_table_features_request_of1.3-1", "table features have a form of their own"),
];

#[derive(Deserialize)]
struct Entry {
    name: String,
    file: String,
    version: String,
    expect: String,
    text: Option<String>,
}

/// Returns the good 1.0 and 1.3 messages; none if there is no corpus.
fn entries() -> Vec<(Entry, Vec<u8>)> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/of-corpus");
    let Ok(index) = std::fs::read_to_string(folder.join("index.json")) else {
        missing(&format!("the OpenFlow corpus at {}", folder.display()));
        return Vec::new();
    };
    let entries: Vec<Entry> = serde_json::from_str(&index).expect("the index of the corpus");
    let read = |entry: Entry| {
        let bytes = std::fs::read(folder.join(&entry.file)).expect("a message of the corpus");
        (entry, bytes)
    };
    let good = |entry: &Entry| entry.expect == "ok" && matches!(entry.version.as_str(), "1.0" | "1.3");
    entries.into_iter().filter(good).map(read).collect()
}

fn printed(entry: &Entry, bytes: &[u8]) -> String {
    let (header, message) = Message::decode(bytes).unwrap_or_else(|error| panic!("{}: {error}", entry.name));
    print::message(&header, &message)
}

#[test]
fn every_good_message_of_the_corpus_is_printed_on_one_line() {
    for (entry, bytes) in entries() {
        let text = printed(&entry, &bytes);
        assert!(text.starts_with("OFP") && !text.contains(['\n', '\r', '\t']), "{}: {text}", entry.name);
    }
}

/// Reports whether Open vSwitch's text or ours has parts whose meaning only experimenters know.
fn is_opaque(ours: &str, theirs: &str) -> bool {
    let is_extension = theirs.starts_with("NX") || theirs.starts_with("ONF");
    is_extension || ours.contains("experimenter(0x00002320,") || ours.contains("oxm(0x0001,")
}

/// Compares our texts with others. Fails if they differ and are not listed, or if they are listed but agree.
fn check(entries: &[(Entry, Vec<u8>)], listed: &[(&str, &str)], other: impl Fn(&Entry, &[u8]) -> Option<String>) {
    let (mut compared, mut wrong) = (0, Vec::new());
    for (entry, bytes) in entries {
        let Some(should) = other(entry, bytes) else { continue };
        let is = printed(entry, bytes);
        if is_opaque(&is, &should) {
            continue;
        }
        compared += 1;
        let is_listed = listed.iter().any(|(name, _)| *name == entry.name);
        if (is != should) != is_listed {
            wrong.push(format!("{}\n    is {is}\nshould {should}", entry.name));
        }
    }
    assert!(wrong.is_empty(), "{}\n{} of {compared} differ", wrong.join("\n"), wrong.len());
}

#[test]
fn messages_of_the_corpus_are_printed_as_open_vswitch_prints_them() {
    if oracle::is_there() {
        let text = |_: &Entry, bytes: &[u8]| Some(oracle::text(bytes)).filter(|text| !oracle::refuses(text));
        check(&entries(), &DIFFERENT, text);
    }
}

#[test]
fn messages_of_the_corpus_are_printed_as_it_says() {
    let text = |entry: &Entry, _: &[u8]| {
        let text = entry.text.as_ref()?.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(text).filter(|text| !oracle::refuses(text))
    };
    check(&entries(), &DIFFERENT, text);
}
