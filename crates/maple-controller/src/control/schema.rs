//! Checks requests against `schema.json`, the JSON schema of the control socket. Tests check answers against it.
//!
//! This implements the parts of JSON schema that the document uses. Where a value may have several forms, the error is
//! about the form that has the value's JSON type.

use std::sync::LazyLock;

use serde_json::Value;

/// The schema, as it is published.
pub const SCHEMA: &str = include_str!("schema.json");

static PARSED: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(SCHEMA).expect("a test reads the published schema"));

/// A violation of the schema by a member.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The path of the member, with dots between the names. Empty for the whole value.
    pub field: String,
    /// A text that says what the schema requires.
    pub text: String,
}

/// Checks that a value is a request.
pub(super) fn check(request: &Value) -> Result<(), Violation> {
    check_against(request, &PARSED)
}

/// Checks a value against a part of the schema.
fn check_against(value: &Value, schema: &Value) -> Result<(), Violation> {
    Walk { field: String::new() }.value(value, schema)
}

/// The state of a check that descends into a value.
struct Walk {
    /// The path of the member that is being checked.
    field: String,
}

impl Walk {
    fn value(&mut self, value: &Value, schema: &Value) -> Result<(), Violation> {
        if let Some(name) = schema["$ref"].as_str() {
            return self.value(value, definition(name));
        }
        if let Some(forms) = schema["anyOf"].as_array() {
            return self.any(value, forms);
        }
        if !types(schema).is_empty() && !has_type(value, schema) {
            return self.violation(format!("must be {}, not {}", types(schema).join(" or "), short(value)));
        }
        if let Some(values) = schema["enum"].as_array()
            && !values.contains(value)
        {
            return self.violation(format!("must be one of {}, not {}", listed(values), short(value)));
        }
        self.number(value, schema)?;
        self.object(value, schema)?;
        self.array(value, schema)
    }

    /// Accepts a value that has any of the forms. The error is about the first form that has the value's type.
    fn any(&mut self, value: &Value, forms: &[Value]) -> Result<(), Violation> {
        let mut closest = None;
        for form in forms {
            match self.value(value, form) {
                Ok(()) => return Ok(()),
                Err(violation) if has_type(value, form) => drop(closest.get_or_insert(violation)),
                Err(_) => {}
            }
        }
        match closest {
            Some(violation) => Err(violation),
            None => {
                let mut names: Vec<&str> = forms.iter().flat_map(|form| types(resolved(form))).collect();
                names.dedup();
                self.violation(format!("must be {}, not {}", names.join(" or "), short(value)))
            }
        }
    }

    fn number(&self, value: &Value, schema: &Value) -> Result<(), Violation> {
        let Some(number) = value.as_f64() else { return Ok(()) };
        let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
        if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
            let (least, most) = (&schema["minimum"], &schema["maximum"]);
            return self.violation(format!("must be {least} to {most}, not {value}"));
        }
        Ok(())
    }

    fn object(&mut self, value: &Value, schema: &Value) -> Result<(), Violation> {
        let Some(members) = value.as_object() else { return Ok(()) };
        let known = schema["properties"].as_object();
        let names = || known.into_iter().flat_map(|known| known.keys()).map(String::as_str).collect::<Vec<_>>();
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                return self.violation(format!("lacks {name:?}"));
            }
        }
        let most = schema["maxProperties"].as_u64();
        let counts = |count: usize| most.is_none_or(|most| count as u64 == most);
        for (name, member) in members {
            match known.and_then(|known| known.get(name)) {
                Some(schema) => self.member(&format!(".{name}"), member, schema)?,
                None if schema["additionalProperties"] == Value::Bool(false) => {
                    let names = names().join(", ");
                    return self.inside(&format!(".{name}"), |inner| {
                        inner.violation(format!("is unknown here; known names are {names}"))
                    });
                }
                None if schema["additionalProperties"].is_object() => {
                    self.member(&format!(".{name}"), member, &schema["additionalProperties"])?;
                }
                None => {}
            }
        }
        if !counts(members.len()) {
            return self.violation(format!("must have exactly one of {}", names().join(", ")));
        }
        Ok(())
    }

    fn array(&mut self, value: &Value, schema: &Value) -> Result<(), Violation> {
        let Some(items) = value.as_array() else { return Ok(()) };
        let first = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
        if schema["minItems"].as_u64().is_some_and(|least| (items.len() as u64) < least)
            || schema["maxItems"].as_u64().is_some_and(|most| items.len() as u64 > most)
        {
            return self.violation(format!("must have {} items, not {}", schema["minItems"], items.len()));
        }
        for (index, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(index).or_else(|| schema.get("items")) {
                self.member(&format!("[{index}]"), item, schema)?;
            }
        }
        Ok(())
    }

    fn member(&mut self, name: &str, value: &Value, schema: &Value) -> Result<(), Violation> {
        self.inside(name, |inner| inner.value(value, schema))
    }

    fn inside(&mut self, name: &str, work: impl FnOnce(&mut Walk) -> Result<(), Violation>) -> Result<(), Violation> {
        let before = self.field.len();
        self.field.push_str(if before == 0 { name.trim_start_matches('.') } else { name });
        let done = work(self);
        self.field.truncate(before);
        done
    }

    fn violation(&self, text: String) -> Result<(), Violation> {
        Err(Violation { field: self.field.clone(), text })
    }
}

/// Returns a definition by its reference, such as `#/$defs/place`.
fn definition(reference: &str) -> &'static Value {
    let name = reference.strip_prefix("#/$defs/").unwrap_or(reference);
    PARSED["$defs"].get(name).expect("a test follows every reference of the published schema")
}

fn resolved(schema: &Value) -> &Value {
    match schema["$ref"].as_str() {
        Some(name) => definition(name),
        None => schema,
    }
}

/// Returns the JSON types that a schema allows: the stated ones, or those of its listed values.
fn types(schema: &Value) -> Vec<&str> {
    match (&schema["type"], &schema["enum"]) {
        (Value::String(name), _) => vec![name],
        (Value::Array(names), _) => names.iter().filter_map(Value::as_str).collect(),
        (_, Value::Array(values)) => values.first().map(type_of).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn has_type(value: &Value, schema: &Value) -> bool {
    let is_whole = value.is_i64() || value.is_u64();
    types(resolved(schema)).iter().any(|name| *name == type_of(value) || *name == "integer" && is_whole)
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn listed(values: &[Value]) -> String {
    values
        .iter()
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns the value if it is short; otherwise its type and length in bytes.
fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= 60 { text } else { format!("{} of {} bytes", type_of(value), text.len()) }
}
