//! A TOML document with the places of its keys. It collects all faults, each with file, line and key.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use maple_wire::nearest;
use toml_edit::{Document as Toml, Item, Key, TableLike, Value};

use crate::declared::FileLine;

/// A fault at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place.
    pub at: FileLine,
    /// The key, with dots between the tables; empty for the document.
    pub key: String,
    /// A description of the fault.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "{}: {}", self.at, self.text),
            key => write!(f, "{}: {key}: {}", self.at, self.text),
        }
    }
}

/// A parsed document.
pub struct Document {
    file: PathBuf,
    toml: Toml<String>,
    problems: RefCell<Vec<Problem>>,
}

impl Document {
    /// Parses a text, which is the content of `file`.
    ///
    /// # Errors
    /// [`Problem`] if the text is not TOML.
    pub fn parse(file: &Path, text: String) -> Result<Document, Problem> {
        let toml = Toml::parse(text.clone()).map_err(|error| {
            let at = FileLine { file: file.to_owned(), line: line(&text, error.span().map_or(0, |span| span.start)) };
            Problem { at, key: String::new(), text: error.message().trim().replace('\n', "; ") }
        })?;
        Ok(Document { file: file.to_owned(), toml, problems: RefCell::default() })
    }

    /// Returns the whole document.
    pub fn root(&self) -> Section<'_> {
        Section { document: self, name: String::new(), table: self.toml.as_table(), known: Vec::new() }
    }

    /// Returns the folder to which paths of the document are relative.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }

    /// Returns the faults, in the order of lines.
    pub fn problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.at.line);
        problems
    }

    fn place(&self, span: Option<Range<usize>>) -> FileLine {
        FileLine { file: self.file.clone(), line: line(self.toml.raw(), span.map_or(0, |span| span.start)) }
    }
}

fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// A table of a document.
pub struct Section<'a> {
    document: &'a Document,
    name: String,
    table: &'a dyn TableLike,
    known: Vec<String>,
}

/// A key and its value.
#[derive(Clone)]
pub struct ConfigEntry<'a> {
    document: &'a Document,
    /// The key, with dots between the tables.
    pub key: String,
    /// The last part of the key.
    pub name: String,
    /// The place of the key.
    pub at: FileLine,
    item: &'a Item,
}

impl<'a> Section<'a> {
    /// Returns an optional key with its value.
    pub fn get(&mut self, name: &str) -> Option<ConfigEntry<'a>> {
        self.known.push(name.to_owned());
        self.table.get_key_value(name).map(|(key, item)| self.entry(key, item))
    }

    /// Returns a required key with its value, or records that it is missing.
    pub fn need(&mut self, name: &str, at: &ConfigEntry<'_>) -> Option<ConfigEntry<'a>> {
        let found = self.get(name);
        if found.is_none() {
            at.wrong(format!("{name} is missing"));
        }
        found
    }

    /// Returns all keys, known or not.
    pub fn all(self) -> Vec<ConfigEntry<'a>> {
        let name = |(key, _): (&str, &'a Item)| self.table.get_key_value(key).map(|(key, item)| self.entry(key, item));
        self.table.iter().filter_map(name).collect()
    }

    /// Records each key that was not read as unknown.
    pub fn end(self) {
        for (name, _) in self.table.iter().filter(|(name, _)| !self.known.iter().any(|known| known == name)) {
            let Some((key, item)) = self.table.get_key_value(name) else { continue };
            let hint = nearest(name, self.known.iter().map(String::as_str))
                .map(|known| format!("; did you mean {known:?}?"))
                .unwrap_or_default();
            self.entry(key, item).wrong(format!("unknown key{hint}"));
        }
    }

    fn entry(&self, key: &'a Key, item: &'a Item) -> ConfigEntry<'a> {
        let name = key.get().to_owned();
        let full = if self.name.is_empty() { name.clone() } else { format!("{}.{name}", self.name) };
        let at = self.document.place(key.span().or_else(|| item.span()));
        ConfigEntry { document: self.document, key: full, name, at, item }
    }
}

impl<'a> ConfigEntry<'a> {
    /// Records a fault of this entry.
    pub fn wrong(&self, text: impl Into<String>) {
        let problem = Problem { at: self.at.clone(), key: self.key.clone(), text: text.into() };
        self.document.problems.borrow_mut().push(problem);
    }

    /// Returns the value of a result, or records its error.
    pub fn ok<T>(&self, result: Result<T, impl fmt::Display>) -> Option<T> {
        result.map_err(|error| self.wrong(error.to_string())).ok()
    }

    /// Returns the entry as a table.
    pub fn section(&self) -> Option<Section<'a>> {
        let Some(table) = self.item.as_table_like() else {
            self.wrong("must be a table with keys and values, not one value");
            return None;
        };
        Some(Section { document: self.document, name: self.key.clone(), table, known: Vec::new() })
    }

    /// Reports whether the entry is a table.
    pub fn is_table(&self) -> bool {
        self.item.is_table_like()
    }

    /// Returns the tables of an array of tables, each with an entry of its own.
    pub fn sections(&self) -> Vec<(ConfigEntry<'a>, Section<'a>)> {
        let tables: Vec<(Option<Range<usize>>, &'a dyn TableLike)> = match self.item {
            Item::ArrayOfTables(all) => all.iter().map(|table| (table.span(), table as &dyn TableLike)).collect(),
            Item::Value(Value::Array(all)) if all.iter().all(Value::is_inline_table) => {
                let table = |value: &'a Value| Some((value.span(), value.as_inline_table()? as &dyn TableLike));
                all.iter().filter_map(table).collect()
            }
            _ => {
                self.wrong(format!("must be an array of tables: [[{}]]", self.key));
                Vec::new()
            }
        };
        let section = |(n, (span, table)): (usize, (Option<Range<usize>>, &'a dyn TableLike))| {
            let (key, at) = (format!("{}[{n}]", self.key), self.document.place(span));
            let section = Section { document: self.document, name: key.clone(), table, known: Vec::new() };
            (ConfigEntry { key, at, ..self.clone() }, section)
        };
        tables.into_iter().enumerate().map(section).collect()
    }

    /// Returns the entry as text.
    pub fn text(&self) -> Option<&'a str> {
        let text = self.item.as_str();
        if text.is_none() {
            self.wrong("must be text in quotes");
        }
        text
    }

    /// Returns the entry as a number, at least `least`.
    pub fn number(&self, least: u32) -> Option<u32> {
        let number = self.item.as_integer().and_then(|n| u32::try_from(n).ok()).filter(|n| *n >= least);
        if number.is_none() {
            self.wrong(format!("must be a whole number from {least} to {}", u32::MAX));
        }
        number
    }

    /// Returns the items of an array, or the single value.
    pub fn items(&self) -> Vec<&'a Value> {
        match self.item {
            Item::Value(Value::Array(all)) => all.iter().collect(),
            Item::Value(value) => vec![value],
            _ => {
                self.wrong("must be a value or an array of values");
                Vec::new()
            }
        }
    }

    /// Reports whether the entry is an array.
    pub fn is_array(&self) -> bool {
        self.item.is_array()
    }

    /// Returns the value as JSON. Datapath ids, addresses and dates are text.
    pub fn json(&self) -> Option<serde_json::Value> {
        match self.item {
            Item::Value(value) => Some(to_json(value)),
            _ => {
                self.wrong("must be a value");
                None
            }
        }
    }
}

/// Converts a value to JSON.
pub fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.value().as_str().into(),
        Value::Integer(number) => (*number.value()).into(),
        Value::Float(number) => (*number.value()).into(),
        Value::Boolean(truth) => (*truth.value()).into(),
        Value::Datetime(time) => time.value().to_string().into(),
        Value::Array(all) => all.iter().map(to_json).collect(),
        Value::InlineTable(all) => {
            all.iter().map(|(key, value)| (key.to_owned(), to_json(value))).collect::<serde_json::Map<_, _>>().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document::parse(Path::new("m.toml"), text.to_owned()).unwrap_or_else(|problem| panic!("{problem}"))
    }

    fn reported(document: Document) -> Vec<String> {
        document.problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unknown_keys_are_named_with_their_line_and_what_may_be_meant() {
        let document = document("listen = 1\n\n[switches.a]\ndpid = \"1\"\nedges = 1\nzzz = 2\n");
        let mut root = document.root();
        assert!(root.get("listen").is_some());
        let switches = root.get("switches").and_then(|entry| entry.section()).expect("a table");
        root.end();
        for entry in switches.all() {
            let mut switch = entry.section().expect("a table");
            drop((switch.get("dpid"), switch.get("edge"), switch.need("missing", &entry)));
            switch.end();
        }
        assert_eq!(
            reported(document),
            [
                "m.toml:3: switches.a: missing is missing",
                "m.toml:5: switches.a.edges: unknown key; did you mean \"edge\"?",
                "m.toml:6: switches.a.zzz: unknown key",
            ]
        );
    }

    #[test]
    fn invalid_toml_is_reported_with_its_line() {
        let problem = Document::parse(Path::new("m.toml"), "a = 1\nb = = 2\n".into()).err().expect("an error");
        assert_eq!((problem.at.line, problem.key.as_str()), (2, ""));
        let twice = Document::parse(Path::new("m.toml"), "a = 1\na = 2\n".into()).err().expect("an error");
        assert!(twice.to_string().starts_with("m.toml:2: duplicate key"), "{twice}");
    }

    #[test]
    fn values_of_another_type_are_named() {
        let document = document("a = 1\nb = \"x\"\nc = -1\n[d]\n");
        let mut root = document.root();
        let mut entry = |name: &str| root.get(name).expect("it is there");
        assert_eq!((entry("a").text(), entry("b").number(0), entry("c").number(0)), (None, None, None));
        assert!(entry("a").section().is_none() && entry("a").sections().is_empty() && entry("d").items().is_empty());
        assert_eq!(reported(document).len(), 6);
    }
}
