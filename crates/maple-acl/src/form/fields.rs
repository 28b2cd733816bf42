//! Maps of a document: their values by key, with errors that name the line and what may be meant.

use crate::error::{Fault, FilePlace, did_you_mean};
use crate::yaml::{YamlKey, YamlNode, YamlValue};

/// A map's values by key. Unknown keys can't occur: they are rejected when it is made.
pub(super) struct Fields<'a> {
    pub place: FilePlace,
    all: &'a [(YamlKey, YamlNode)],
}

impl<'a> Fields<'a> {
    /// Reads a map that may have the `known` keys. `what`: its name in errors.
    pub fn from_map(node: &'a YamlNode, what: &str, known: &[&str]) -> Result<Fields<'a>, Fault> {
        let YamlValue::Map(all) = &node.value else {
            return Err(Fault::new(node.place, format!("{what} is a map of `key: value`")));
        };
        match all.iter().find(|(key, _)| !known.contains(&&*key.name)) {
            None => Ok(Fields { place: node.place, all }),
            Some((key, _)) => {
                let hint = did_you_mean(&key.name, known.iter().copied());
                Err(Fault::new(key.place, format!("{what} has no key `{}`{hint}", key.name)))
            }
        }
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&'a YamlNode> {
        self.all.iter().find(|(there, _)| there.name == key).map(|(_, node)| node)
    }

    /// Returns the one value of a key, as text.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Fault> {
        self.get(key).map(|node| scalar(node, key)).transpose()
    }

    /// Returns the map of a key, empty if it is not there.
    pub fn section(&self, key: &str) -> Result<&'a [(YamlKey, YamlNode)], Fault> {
        match self.get(key) {
            None => Ok(&[]),
            Some(YamlNode { value: YamlValue::Map(map), .. }) => Ok(map),
            Some(node) => Err(Fault::new(node.place, format!("`{key}` is a map of `name: …`"))),
        }
    }

    /// Returns the list of a key, empty if it is not there.
    pub fn list(&self, key: &str) -> Result<&'a [YamlNode], Fault> {
        match self.get(key) {
            None => Ok(&[]),
            Some(YamlNode { value: YamlValue::List(list), .. }) => Ok(list),
            Some(node) => Err(Fault::new(node.place, format!("`{key}` is a list of `- …`"))),
        }
    }

    /// Returns one of several values of a key by its name.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<Option<T>, Fault> {
        let Some(node) = self.get(key) else { return Ok(None) };
        let text = scalar(node, key)?;
        match choices.iter().find(|(name, _)| *name == text) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                let hint = did_you_mean(text, names.iter().copied());
                Err(Fault::new(node.place, format!("`{key}` is {}, not `{text}`{hint}", names.join(" or "))))
            }
        }
    }
}

/// Returns the text of a value that is neither a list nor a map.
pub(super) fn scalar<'a>(node: &'a YamlNode, key: &str) -> Result<&'a str, Fault> {
    match &node.value {
        YamlValue::Scalar(text) => Ok(text),
        _ => Err(Fault::new(node.place, format!("`{key}` is one value"))),
    }
}

/// Returns the values of a list, or the one value.
pub(super) fn scalars<'a>(node: &'a YamlNode, key: &str) -> Result<Vec<(FilePlace, &'a str)>, Fault> {
    let one = |node: &'a YamlNode| Ok((node.place, scalar(node, key)?));
    match &node.value {
        YamlValue::List(list) if list.is_empty() => Err(Fault::new(node.place, format!("`{key}` names nothing"))),
        YamlValue::List(list) => list.iter().map(one).collect(),
        _ => one(node).map(|one| vec![one]),
    }
}
