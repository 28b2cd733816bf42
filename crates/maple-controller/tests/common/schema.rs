//! The published schema, read without anything of the product's.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Returns the forms of an enum: words, and the names of objects with one member.
fn forms<'a>(part: &'a Value, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
    let part = match part["$ref"].as_str() {
        Some(name) => &schema["$defs"][name.trim_start_matches("#/$defs/")],
        None => part,
    };
    let each = part["oneOf"].as_array().expect("it has forms").iter();
    let each = each.map(|form| match form["const"].as_str() {
        Some(word) => (word, &Value::Null),
        None => form["properties"].as_object().and_then(|all| all.iter().next()).map(|(k, v)| (&**k, v)).expect("one"),
    });
    each.collect()
}

/// Returns the requests of the schema, such as `state.set`.
pub fn requests(schema: &Value) -> BTreeSet<String> {
    let kinds = forms(&schema["$defs"]["request"], schema).into_iter();
    kinds.flat_map(|(kind, of)| forms(of, schema).into_iter().map(move |(word, _)| format!("{kind}.{word}"))).collect()
}

/// Returns the name of a request.
pub fn name(request: &Value) -> String {
    let (kind, what) = request.as_object().and_then(|all| all.iter().next()).expect("one member");
    let what = what.as_str().or_else(|| Some(what.as_object()?.keys().next()?.as_str()));
    format!("{kind}.{}", what.expect("a word or one member"))
}

/// Reports whether a value is as this part of the schema says; nothing of the product's is used.
pub fn matches(value: &Value, part: &Value, schema: &Value) -> bool {
    if let Some(name) = part["$ref"].as_str() {
        return matches(value, &schema["$defs"][name.trim_start_matches("#/$defs/")], schema);
    }
    if let Some(forms) = part["anyOf"].as_array() {
        return forms.iter().any(|form| matches(value, form, schema));
    }
    if let Some(forms) = part["oneOf"].as_array() {
        return forms.iter().filter(|form| matches(value, form, schema)).count() == 1;
    }
    let has_type = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type: {other}"),
    };
    let types: Vec<&str> = match &part["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let within = |count: usize, least: &str, most: &str| {
        part[least].as_u64().is_none_or(|n| count as u64 >= n) && part[most].as_u64().is_none_or(|n| count as u64 <= n)
    };
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    let first = part["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
    let items_match = items.iter().enumerate().all(|(index, item)| {
        first.get(index).or_else(|| part.get("items")).is_none_or(|part| matches(item, part, schema))
    });
    let members_match = value.as_object().into_iter().flatten().all(|(name, member)| match &part["properties"][name] {
        Value::Null if part["additionalProperties"].is_object() => {
            matches(member, &part["additionalProperties"], schema)
        }
        Value::Null => part["additionalProperties"] != false,
        known => matches(member, known, schema),
    });
    let in_range = value.as_f64().is_none_or(|number| {
        part["minimum"].as_f64().is_none_or(|least| number >= least)
            && part["maximum"].as_f64().is_none_or(|most| number <= most)
    });
    let required = part["required"].as_array().into_iter().flatten();
    (types.is_empty() || types.into_iter().any(has_type))
        && part["enum"].as_array().is_none_or(|values| values.contains(value))
        && (part["const"].is_null() || part["const"] == *value)
        && in_range
        && (value.is_array() && within(items.len(), "minItems", "maxItems") || !value.is_array())
        && value.as_object().is_none_or(|all| within(all.len(), "minProperties", "maxProperties"))
        && required.filter_map(Value::as_str).all(|name| value.get(name).is_some() || !value.is_object())
        && items_match
        && members_match
}

/// Returns each value that differs from `value` in one member: it is left out, added, or of another type.
pub fn changed(value: &Value) -> Vec<Value> {
    let others = [json!(null), json!(true), json!(-1), json!(1000), json!(1.5), json!("other"), json!([]), json!({})];
    let mut all: Vec<Value> = others.into_iter().filter(|other| other != value).collect();
    let with_member = |name: &str, member: Value| {
        let mut value = value.clone();
        value[name] = member;
        value
    };
    for (name, member) in value.as_object().into_iter().flatten() {
        let mut less = value.clone();
        less.as_object_mut().expect("it is one").remove(name);
        all.extend(
            changed(member)
                .into_iter()
                .map(|member| with_member(name, member))
                .chain([less, with_member("other", json!(1))]),
        );
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        all.extend(changed(item).into_iter().map(|item| {
            let mut value = value.clone();
            value[index] = item;
            value
        }));
    }
    all
}
