//! A YAML document as a tree that knows its lines and columns.
//!
//! Scalars stay text: what a value means depends on its place. So `no`, `010` and `12:30:45` hold no surprises.
//! Anchors, tags and several documents are errors, since an access list needs none of them.

use std::borrow::Cow;

use rustc_hash::FxHashSet;
use saphyr_parser::{Event, Parser, Span};

use crate::error::{Fault, FilePlace};

/// The maximum nesting depth of values, which bounds memory and the recursion over them. Lists need a few levels.
const MAX_DEPTH: usize = 32;

/// A value with its place.
#[derive(Clone, Debug)]
pub struct YamlNode {
    pub place: FilePlace,
    pub value: YamlValue,
}

#[derive(Clone, Debug)]
pub enum YamlValue {
    Scalar(String),
    List(Vec<YamlNode>),
    /// Keys and values in the order of the file.
    Map(Vec<(YamlKey, YamlNode)>),
}

/// A key of a map.
#[derive(Clone, Debug)]
pub struct YamlKey {
    pub place: FilePlace,
    pub name: String,
}

/// A list or a map whose end has not been read.
struct Unclosed {
    node: YamlNode,
    /// In a map: the key whose value comes next.
    key: Option<YamlKey>,
    /// The keys so far.
    seen: FxHashSet<String>,
}

/// Parses a document to a tree.
///
/// # Errors
/// [`Fault`] at the place where the text is not YAML, has aliases, anchors, tags, duplicate keys or several documents,
/// is nested too deeply, or is empty.
pub fn parse(text: &str) -> Result<YamlNode, Fault> {
    let (mut open, mut root): (Vec<Unclosed>, Option<YamlNode>) = (Vec::new(), None);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let at = error.marker();
            Fault::new(FilePlace { line: at.line(), column: at.col() + 1 }, error.info())
        })?;
        let place = place_of(&span);
        let done = match event {
            Event::Scalar(text, _, anchor, tag) => {
                plain(place, anchor, tag.is_some())?;
                Some(YamlNode { place, value: YamlValue::Scalar(Cow::into_owned(text)) })
            }
            Event::SequenceStart(anchor, tag) => {
                plain(place, anchor, tag.is_some())?;
                open.push(Unclosed::new(place, YamlValue::List(Vec::new())));
                None
            }
            Event::MappingStart(anchor, tag) => {
                plain(place, anchor, tag.is_some())?;
                open.push(Unclosed::new(place, YamlValue::Map(Vec::new())));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|open| open.node),
            Event::Alias(_) => return Err(Fault::new(place, "an access list has no YAML aliases (`*name`)")),
            Event::DocumentStart(_) if root.is_some() => {
                return Err(Fault::new(place, "an access list is one YAML document"));
            }
            _ => None,
        };
        if open.len() > MAX_DEPTH {
            return Err(Fault::new(place, format!("values are nested more than {MAX_DEPTH} deep")));
        }
        let Some(node) = done else { continue };
        match open.last_mut() {
            Some(parent) => parent.add(node)?,
            None => root = Some(node),
        }
    }
    root.ok_or_else(|| Fault::new(FilePlace { line: 1, column: 1 }, "the file is empty"))
}

impl Unclosed {
    fn new(place: FilePlace, value: YamlValue) -> Unclosed {
        Unclosed { node: YamlNode { place, value }, key: None, seen: FxHashSet::default() }
    }

    fn add(&mut self, node: YamlNode) -> Result<(), Fault> {
        match &mut self.node.value {
            YamlValue::Scalar(_) => unreachable!("a scalar is never open"),
            YamlValue::List(list) => list.push(node),
            YamlValue::Map(map) => match (self.key.take(), node) {
                (Some(key), node) => map.push((key, node)),
                (None, YamlNode { place, value: YamlValue::Scalar(name) }) => {
                    if !self.seen.insert(name.clone()) {
                        return Err(Fault::new(place, format!("`{name}` is given twice")));
                    }
                    self.key = Some(YamlKey { place, name });
                }
                (None, node) => return Err(Fault::new(node.place, "a key must be plain text")),
            },
        }
        Ok(())
    }
}

fn place_of(span: &Span) -> FilePlace {
    FilePlace { line: span.start.line(), column: span.start.col() + 1 }
}

fn plain(place: FilePlace, anchor: usize, tagged: bool) -> Result<(), Fault> {
    match (anchor, tagged) {
        (0, false) => Ok(()),
        (0, true) => {
            Err(Fault::new(place, "an access list has no YAML tags (`!name`); quote text that begins with `!`"))
        }
        _ => Err(Fault::new(place, "an access list has no YAML anchors (`&name`)")),
    }
}
