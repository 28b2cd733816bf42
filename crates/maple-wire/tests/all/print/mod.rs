//! Messages in their printed form: the project's own vectors, and `ovs-ofctl ofp-print` as an oracle.
//!
//! The texts of the vectors are those of Open vSwitch 3.1. If it is installed, the tests compare with its output too.

mod corpus;
mod generated;
mod oracle;

use maple_wire::{Message, print as wire_print};
use proptest::prelude::*;
use proptest::sample::select;

/// Messages in hex, and below each the text that both print: `ovs-ofctl` and this crate.
const VECTORS: &str = include_str!("vectors.txt");

/// Messages that Open vSwitch prints differently: a reason, hex, our text, its text.
const DIFFERENCES: &str = include_str!("differences.txt");

fn paragraphs(file: &str) -> impl Iterator<Item = Vec<&str>> {
    file.split("\n\n").map(|text| text.lines().collect::<Vec<_>>()).filter(|lines| !lines.is_empty())
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

fn printed(bytes: &[u8]) -> String {
    match Message::decode(bytes) {
        Ok((header, message)) => wire_print::message(&header, &message),
        Err(error) => format!("error: {error}"),
    }
}

/// Compares texts and fails with all that differ.
fn check_all(cases: impl Iterator<Item = (String, String, String)>) {
    let mut count = 0;
    let mut wrong = Vec::new();
    for (name, is, should) in cases {
        count += 1;
        if is != should {
            wrong.push(format!("{name}\n    is {is}\nshould {should}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{} of {count} differ", wrong.join("\n"), wrong.len());
    assert!(count > 0, "no cases");
}

#[test]
fn every_vector_is_printed_as_open_vswitch_prints_it() {
    check_all(paragraphs(VECTORS).map(|v| (v[0].to_owned(), printed(&unhex(v[0])), v[1].to_owned())));
}

#[test]
fn the_known_differences_are_as_they_are_listed() {
    check_all(paragraphs(DIFFERENCES).map(|v| (v[0].to_owned(), printed(&unhex(v[1])), v[2].to_owned())));
    for lines in paragraphs(DIFFERENCES) {
        assert!(lines[0].starts_with("# ") && lines[2] != lines[3], "{}", lines[0]);
    }
}

#[test]
fn open_vswitch_prints_the_vectors_and_the_differences_as_they_are_listed() {
    if !oracle::is_there() {
        return;
    }
    let vectors = paragraphs(VECTORS).map(|v| (v[0], v[1]));
    let differences = paragraphs(DIFFERENCES).map(|v| (v[1], v[3]));
    check_all(
        vectors.chain(differences).map(|(hex, text)| (hex.to_owned(), oracle::text(&unhex(hex)), text.to_owned())),
    );
}

/// Generates a vector with some of its bytes changed. The header's length stays unchanged.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let vectors: Vec<&str> = paragraphs(VECTORS).map(|v| v[0]).collect();
    let changes = proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6);
    (select(vectors), changes).prop_map(|(hex, changes)| {
        let mut bytes = unhex(hex);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            if !(2..4).contains(&at) {
                bytes[at] = byte;
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_can_be_decoded_is_printed_on_one_line_of_plain_text(bytes in damaged()) {
        if let Ok((header, message)) = Message::decode(&bytes) {
            let text = wire_print::message(&header, &message);
            let starts = ["OFP", "ONFT_"].iter().any(|start| text.starts_with(start));
            prop_assert!(starts && text.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{}", text);
        }
    }
}
