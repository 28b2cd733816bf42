//! The description of the API, made of the routes and of the one schema of requests and answers.

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::api::{FIXED, Fixed};
use super::columns::Columns;
use super::routes::{Method, QueryKind, ROUTES, Route};

/// The statuses of refusals, for all routes.
const PROBLEMS: [StatusCode; 14] = [
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::CONFLICT,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    StatusCode::MISDIRECTED_REQUEST,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

/// Returns the description, in the form of OpenAPI 3.1. `schema` is that of the control socket.
pub(super) fn openapi(schema: &Value) -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let method = match route.method {
            Method::Get => "get",
            Method::Put => "put",
            Method::Post => "post",
            Method::Delete => "delete",
        };
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[method] = operation(schema, method, route);
    }
    for Fixed { method, path, summary, content, query, answer, body } in FIXED {
        let schema = answer();
        let content = json!({ *content: if schema == json!({}) { schema } else { json!({ "schema": schema }) } });
        let ok = json!({ "description": "the answer", "content": content });
        let id = format!("{method}{}", path.replace(['/', '.'], "_"));
        let mut operation = json!({ "operationId": id, "summary": summary, "responses": problems() });
        operation["responses"]["200"] = ok;
        if !query.is_empty() {
            operation["parameters"] =
                query.iter().map(|(name, what)| in_query(name, json!({ "type": "string" }), what)).collect();
        }
        if let Some(body) = body {
            let content = json!({ "application/json": { "schema": body() } });
            operation["requestBody"] = json!({ "required": true, "content": content });
        }
        let path = paths.entry((*path).to_owned()).or_insert_with(|| json!({}));
        path[*method] = operation;
    }
    let mut schemas = Map::new();
    for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
        schemas.insert(component(name), referring(part));
    }
    schemas.insert("problem".to_owned(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Maple",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "The requests of the control socket over HTTP: see docs/api.md.",
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }, { "session": [] }, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "session": { "type": "apiKey", "in": "cookie", "name": "maple_session" },
            },
        },
    })
}

fn operation(schema: &Value, method: &str, route: &Route) -> Value {
    let id = format!("{method}{}", route.path.replace(['{', '}'], "").replace(['/', '-'], "_"));
    let mut operation = json!({
        "operationId": id,
        "summary": route.summary,
        "description": format!("Needs the role {}.", route.role.name()),
        "parameters": parameters(schema, route),
        "responses": problems(),
    });
    let content = json!({ "application/json": { "schema": referring(&answer(schema, route)) } });
    operation["responses"]["200"] = json!({ "description": "the answer", "content": content });
    if route.method == Method::Get {
        operation["responses"]["304"] = json!({ "description": "the answer is still that of If-None-Match" });
    }
    if route.has_body {
        let content = json!({ "application/json": { "schema": referring(&body(schema, route)) } });
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    operation
}

fn problems() -> Value {
    let one = |status: &StatusCode| {
        let content = json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/problem" } } });
        let description = status.canonical_reason().unwrap_or_default();
        (status.as_u16().to_string(), json!({ "description": description, "content": content }))
    };
    PROBLEMS.iter().map(one).collect::<Map<String, Value>>().into()
}

/// Returns the schema of refusals.
fn problem() -> Value {
    json!({
        "type": "object",
        "properties": {
            "type": { "const": "about:blank" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string", "description": "the reason in words" },
            "field": {
                "type": "string",
                "description": "the parameter, header or member of the body that is wrong; empty for the whole request",
            },
            "shard": { "type": "integer", "description": "the worker that did not answer in time, if that is the reason" },
        },
        "required": ["type", "title", "status", "detail", "field"],
        "additionalProperties": false,
    })
}

fn in_query(name: &str, part: Value, description: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": part, "description": description })
}

fn parameters(schema: &Value, route: &Route) -> Vec<Value> {
    let in_path = route.path_parameters().map(
        |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } }),
    );
    let own = route.query.iter().map(|(name, kind)| match kind {
        QueryKind::Number(default) => {
            in_query(name, json!({ "type": "integer", "minimum": 1, "default": default }), "a number")
        }
        QueryKind::Moment => {
            in_query(name, json!({ "type": "integer", "minimum": 0 }), "a moment, in milliseconds since 1970")
        }
        QueryKind::Flag => {
            in_query(name, json!({ "type": "boolean", "default": false }), "whether to wait for the switches")
        }
    });
    let mut all: Vec<Value> = in_path.chain(own).collect();
    if let Some(rows) = route.rows {
        all.push(in_query("limit", json!({ "type": "integer", "minimum": 1 }), "the number of rows at most"));
        all.push(in_query("after", json!({ "type": "string" }), "what the page before had under next"));
        all.push(in_query("sort", json!({ "type": "string" }), "columns with commas, and - before those that descend"));
        let columns = Columns::of(schema, route, rows);
        for name in columns.names() {
            let description = "the value that this column is to have; AND.SO.ON for what is inside of it";
            all.push(in_query(name, json!({ "type": "string" }), description));
        }
    }
    all
}

/// Returns the schema of a route's answer.
pub(super) fn answer(schema: &Value, route: &Route) -> Value {
    let definition = |name: &str| json!({ "$ref": format!("#/$defs/{name}") });
    let Some(rows) = route.rows else {
        let whole = format!("answer to {}", route.asks);
        let forms = format!("{whole}.");
        let names = schema["$defs"].as_object().into_iter().flatten().map(|(name, _)| name);
        let answers: Vec<Value> =
            names.filter(|name| **name == whole || name.starts_with(&forms)).map(|name| definition(name)).collect();
        return json!({ "anyOf": answers });
    };
    json!({
        "type": "object",
        "properties": {
            "rows": { "type": "array", "items": Columns::of(schema, route, rows).row() },
            "total": { "type": "integer", "description": "how many rows there are on all pages" },
            "next": { "type": ["string", "null"], "description": "what asks for the next page as after; null on the last" },
        },
        "required": ["rows", "total", "next"],
        "additionalProperties": false,
    })
}

/// Returns the schema of a route's body: the argument of the request, without what the path says.
fn body(schema: &Value, route: &Route) -> Value {
    let mut part = json!({ "$ref": "#/$defs/request" });
    for name in route.asks.split('.') {
        part = form(schema, &part, name);
    }
    if route.path_parameters().next().is_some() {
        part = resolved(schema, &part);
        if let Some(members) = part["properties"].as_object_mut() {
            members.remove("place");
        }
        if let Some(required) = part["required"].as_array_mut() {
            required.retain(|name| name != "place");
        }
    }
    part
}

fn resolved(schema: &Value, part: &Value) -> Value {
    match part["$ref"].as_str() {
        Some(name) => schema["$defs"][name.trim_start_matches("#/$defs/")].clone(),
        None => part.clone(),
    }
}

/// Returns the argument of a form of an enum.
fn form(schema: &Value, part: &Value, name: &str) -> Value {
    let part = resolved(schema, part);
    let mut forms = part["oneOf"].as_array().into_iter().flatten();
    forms.find_map(|form| form["properties"].get(name)).cloned().unwrap_or_default()
}

/// Returns the name of a definition as OpenAPI has names.
fn component(name: &str) -> String {
    name.replace(' ', "-")
}

/// Returns a part of the schema with references to components.
fn referring(part: &Value) -> Value {
    match part {
        Value::Array(items) => items.iter().map(referring).collect(),
        Value::Object(members) => {
            let one = |(name, value): (&String, &Value)| match value.as_str().and_then(|to| to.strip_prefix("#/$defs/"))
            {
                Some(to) if name == "$ref" => (name.clone(), format!("#/components/schemas/{}", component(to)).into()),
                _ => (name.clone(), referring(value)),
            };
            members.iter().map(one).collect::<Map<String, Value>>().into()
        }
        other => other.clone(),
    }
}
