//! The path `/v1/session`: a browser exchanges a token for a cookie, asks who it is, and ends its session.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::request::parse_as;
use super::access::{Client, Credential};
use super::api::{Api, Peer, admitted, admitted_head, note, noted, read_json};
use super::problem::Problem;
use super::sessions::set_cookie;

/// The body of the request that begins a session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    token: String,
}

/// Returns the schema of the body.
pub(super) fn body() -> Value {
    json!({
        "type": "object",
        "properties": { "token": { "type": "string", "description": "as in the file of tokens" } },
        "required": ["token"],
        "additionalProperties": false,
    })
}

/// Returns the schema of what is said of a client.
pub(super) fn client() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": ["string", "null"], "description": "the name of the token; null if there are no tokens" },
            "role": { "enum": ["read", "state", "admin"] },
            "csrf": {
                "type": ["string", "null"],
                "description": "what the header X-CSRF-Token has of requests that change something; null unless the session has just begun",
            },
        },
        "required": ["name", "role", "csrf"],
        "additionalProperties": false,
    })
}

/// Returns the schema of the answer to the end of a session.
pub(super) fn ended() -> Value {
    json!({
        "type": "object",
        "properties": { "ended": { "type": "boolean", "description": "whether the client had a session" } },
        "required": ["ended"],
        "additionalProperties": false,
    })
}

/// Says who asks.
pub(super) async fn who(
    State(api): State<Arc<Api>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, Problem> {
    let (client, _) = admitted(&api, peer, request)?;
    Ok(answer(description(&client, false), None))
}

/// Begins a session.
pub(super) async fn begin(
    State(api): State<Arc<Api>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let begun = begun(&api, peer, &head, body).await;
    let (client, secret) = begun.map_err(|problem| noted(&api, peer, &head, problem))?;
    note(&api, &client, peer, "POST /v1/session", None);
    Ok(answer(
        description(&client, true),
        Some(set_cookie(&api.access.cookie_name(), Some(&secret), api.access.has_tls)),
    ))
}

/// Begins the session that a request asks for. Returns the client, and what its cookie has.
async fn begun(api: &Api, peer: SocketAddr, head: &Parts, body: Body) -> Result<(Client, String), Problem> {
    api.access.check_site(head)?;
    let body = read_json(api, true, &head.headers, body).await?;
    let wrong = |refusal| Problem::from_refusal(&refusal, &refusal.field, &refusal.text, false);
    let SignIn { token } = parse_as(body).map_err(wrong)?;
    api.access.begin_session(&token, peer)
}

/// Ends the client's session.
pub(super) async fn end(
    State(api): State<Arc<Api>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    let client = admitted_head(&api, peer, &head);
    let client = client.map_err(|problem| noted(&api, peer, &head, problem))?;
    let Credential::Session(session) = &client.shows else { return Ok(answer(json!({ "ended": false }), None)) };
    api.access.sessions.end(session);
    note(&api, &client, peer, "DELETE /v1/session", None);
    Ok(answer(json!({ "ended": true }), Some(set_cookie(&api.access.cookie_name(), None, api.access.has_tls))))
}

fn description(client: &Client, begins: bool) -> Value {
    let (name, csrf) = match &client.shows {
        Credential::Nothing => (None, None),
        Credential::Token(_) => (Some(&client.name), None),
        Credential::Session(session) => (Some(&client.name), begins.then_some(&session.csrf)),
    };
    json!({ "name": name.map(|name| &**name), "role": client.role.name(), "csrf": csrf })
}

/// Makes an answer that nobody keeps.
fn answer(body: Value, cookie: Option<String>) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(cookie) = cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
        headers.insert(header::SET_COOKIE, cookie);
    }
    response
}
