//! The columns of lists, as the schema of answers has them.

use serde_json::{Value, json};

use super::routes::{Route, Rows};

/// The rows of a route's answer in the schema.
#[derive(Clone, Debug)]
pub(super) struct Columns<'a> {
    schema: &'a Value,
    row: Value,
}

impl<'a> Columns<'a> {
    /// Finds the rows of a route.
    pub fn of(schema: &'a Value, route: &Route, rows: Rows) -> Columns<'a> {
        let answer = &schema["$defs"][format!("answer to {}", route.asks)];
        let items = items(schema, answer);
        let row = match rows.nested {
            None => items.clone(),
            Some(member) => joined(items, member),
        };
        Columns { schema, row }
    }

    /// Returns the schema of a row.
    pub fn row(&self) -> &Value {
        &self.row
    }

    /// Checks that rows may have a column: names and numbers of members, with dots between them.
    ///
    /// # Errors
    /// A text that lists the columns there are.
    pub fn check(&self, column: &str) -> Result<(), String> {
        let mut parts = forms(self.schema, &self.row);
        for name in column.split('.') {
            parts = parts.into_iter().flat_map(|part| member(self.schema, part, name)).collect();
        }
        if parts.is_empty() {
            Err(format!("{column:?} is not a column; there are {}", self.names().join(", ")))
        } else {
            Ok(())
        }
    }

    /// Returns the columns themselves, without what is inside of them.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for part in forms(self.schema, &self.row) {
            let count = part["prefixItems"].as_array().map_or(0, Vec::len);
            names.extend(["0", "1"].into_iter().take(count));
            names.extend(part["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()));
        }
        names.dedup();
        names
    }
}

/// Returns the forms that a part of the schema allows, without references.
fn forms<'a>(schema: &'a Value, part: &'a Value) -> Vec<&'a Value> {
    if let Some(name) = part["$ref"].as_str() {
        return forms(schema, &schema["$defs"][name.trim_start_matches("#/$defs/")]);
    }
    match part["anyOf"].as_array() {
        Some(all) => all.iter().flat_map(|form| forms(schema, form)).collect(),
        None => vec![part],
    }
}

/// Returns the forms of a member of an object, or of an item of an array.
fn member<'a>(schema: &'a Value, part: &'a Value, name: &str) -> Vec<&'a Value> {
    let member = match name.parse::<usize>() {
        Ok(index) => part["prefixItems"].get(index).or_else(|| part.get("items")),
        Err(_) => part["properties"].get(name),
    };
    member.map(|member| forms(schema, member)).unwrap_or_default()
}

/// Returns the schema of the items, where an answer may be an array.
fn items<'a>(schema: &'a Value, answer: &'a Value) -> &'a Value {
    let array = forms(schema, answer).into_iter().find(|form| form["type"] == "array");
    array.map_or(&Value::Null, |array| &array["items"])
}

/// Returns the schema of the rows in a member of objects, with the objects' other members.
fn joined(object: &Value, member: &str) -> Value {
    let mut row = object["properties"][member]["items"].clone();
    for (name, property) in object["properties"].as_object().into_iter().flatten().filter(|(name, _)| *name != member) {
        row["properties"][name.as_str()] = property.clone();
    }
    let required = |part: &Value| part["required"].as_array().cloned().unwrap_or_default();
    let all = required(&row).into_iter().chain(required(object)).filter(|name| name != member);
    row["required"] = json!(all.collect::<Vec<Value>>());
    row
}
