//! The JSON schema of the control socket: requests as their types are defined, answers as `answers.json` says.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::{Value, json};

use super::request::Request;

/// The definitions of answers, and of the values that requests have too.
const ANSWERS: &str = include_str!("answers.json");

/// Returns the schema of all requests and answers, as it is published.
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let request = generator.subschema_for::<Request>();
    let mut all: Value = serde_json::from_str(ANSWERS).expect("a test reads the published schema");
    if let Some(definitions) = all["$defs"].as_object_mut() {
        definitions.extend(generator.take_definitions(true));
    }
    all["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    all["title"] = json!("Maple's control socket");
    all["description"] = json!(
        "A line to the socket is a request, and a line comes back: see docs/control.md. For each request there is a \
         definition of what its answer has under ok."
    );
    all["$ref"] = request.to_value()["$ref"].take();
    all
}

/// Stands for a value of tracked state in the schemas of types that hold it as JSON.
pub(super) struct StateValue;

impl JsonSchema for StateValue {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "value".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "$ref": "#/$defs/value" })
    }
}

/// Deserializes a share in per cent, of at least `LEAST`.
pub(super) fn percent<'de, const LEAST: u8, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    match u64::deserialize(deserializer)? {
        share @ 0..=100 if share >= u64::from(LEAST) => Ok(share as u8),
        other => Err(D::Error::custom(format!("must be {LEAST} to 100, not {other}"))),
    }
}

/// Deserializes a list that has an item.
pub(super) fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let all = Vec::deserialize(deserializer)?;
    if all.is_empty() { Err(D::Error::custom("must have an item")) } else { Ok(all) }
}
