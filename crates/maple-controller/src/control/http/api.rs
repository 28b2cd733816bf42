//! Answers requests: from a route to the request that the control socket has, and from its answer to HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, get, on};
use axum::{Extension, Router};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use siphasher::sip128::SipHasher13;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinError;

use super::super::answer::{answer_to, each_rule};
use super::super::asker::Asker;
use super::super::membership::check_answers;
use super::super::request::{Request as ControlRequest, RequestError, Show, parse_value};
use super::super::schema::schema;
use super::super::socket::MAX_REQUEST;
use super::access::{Access, Client, Role};
use super::columns::Columns;
use super::connections::{HttpConnection, InProgress};
use super::events::EventStreams;
use super::lanes::{Lane, Lanes};
use super::list::Page;
use super::list_text::ListText;
use super::openapi::openapi;
use super::page::add_page;
use super::parameters;
use super::problem::Problem;
use super::routes::{Given, Method, QueryKind, ROUTES, Route};
use super::ryu::add_ryu;
use super::scrape::{self, METRICS, Scrape};
use super::{sign_in, watch};
use crate::control::Handle;
use crate::notice::{ClientNews, Notice};

/// The maximum number of characters of a request, and of its refusal, in the log. Chosen: a client chooses the text,
/// and lines of the log must stay readable.
const MAX_LOGGED: usize = 300;
/// The content type of answers.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An operation that asks the control socket nothing.
pub(super) struct Fixed {
    pub method: &'static str,
    pub path: &'static str,
    pub summary: &'static str,
    /// The type of its content.
    pub content: &'static str,
    /// The names of the parameters of its query, with what they are.
    pub query: &'static [(&'static str, &'static str)],
    /// The schema of its answer.
    pub answer: fn() -> Value,
    /// The schema of its body, if it has one.
    pub body: Option<fn() -> Value>,
}

/// The operations that ask the control socket nothing.
pub(super) const FIXED: &[Fixed] = &[
    Fixed::get(DESCRIPTION, "This description", "application/json"),
    Fixed {
        query: watch::PARAMETERS,
        ..Fixed::get(EVENTS, "Lines of the log and changes of state as they come", "text/event-stream")
    },
    Fixed::get(METRICS, "Counts for Prometheus", "text/plain"),
    Fixed { answer: sign_in::client, ..Fixed::get(SESSION, "Who asks", "application/json") },
    Fixed {
        method: "post",
        answer: sign_in::client,
        body: Some(sign_in::body),
        ..Fixed::get(SESSION, "Exchanges a token for the cookie of a session", "application/json")
    },
    Fixed { method: "delete", answer: sign_in::ended, ..Fixed::get(SESSION, "Ends the session", "application/json") },
];
const DESCRIPTION: &str = "/v1/openapi.json";
const EVENTS: &str = "/v1/events";
const SESSION: &str = "/v1/session";

impl Fixed {
    const fn get(path: &'static str, summary: &'static str, content: &'static str) -> Fixed {
        Fixed { method: "get", path, summary, content, query: &[], answer: || json!({}), body: None }
    }
}

/// The address of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub SocketAddr);

/// The parts of a controller that answers to requests need.
pub(super) struct Api {
    pub handle: Handle,
    pub access: Access,
    pub lanes: Lanes,
    /// The schema of the control socket.
    pub schema: Value,
    /// The description of the API.
    openapi: Vec<u8>,
    pub events: Arc<EventStreams>,
    scrape: Scrape,
    /// The time that a client may take to send the body of a request.
    body_deadline: Duration,
}

impl Api {
    /// Creates the API of a controller.
    pub fn new(
        handle: Handle,
        access: Access,
        events: Arc<EventStreams>,
        scrape: Scrape,
        body_deadline: Duration,
    ) -> Api {
        let schema = schema();
        let openapi = openapi(&schema).to_string().into_bytes();
        Api { handle, access, lanes: Lanes::new(), schema, openapi, events, scrape, body_deadline }
    }
}

/// Returns the router of all routes; with `ryu`, also of those of Ryu's.
pub(super) fn router(api: Arc<Api>, ryu: bool) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Put => MethodFilter::PUT,
            Method::Post => MethodFilter::POST,
            Method::Delete => MethodFilter::DELETE,
        };
        type InPath = Result<RawPathParams, RawPathParamsRejection>;
        let handler = move |State(api): State<Arc<Api>>,
                            Extension(peer): Extension<Peer>,
                            Extension(connection): Extension<Arc<HttpConnection>>,
                            in_path: InPath,
                            request: Request| async move {
            serve(api, route, peer, connection, in_path, request)
                .await
                .unwrap_or_else(|problem| problem.into_response())
        };
        router = router.route(route.path, on(filter, handler));
    }
    router = router.route(DESCRIPTION, get(describe)).route(EVENTS, get(follow)).route(METRICS, get(measure));
    router = router.route(SESSION, get(sign_in::who).post(sign_in::begin).delete(sign_in::end));
    if ryu {
        router = add_ryu(router);
    }
    add_page(router).method_not_allowed_fallback(wrong_method).fallback(no_such_path).with_state(api)
}

async fn describe(
    State(api): State<Arc<Api>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Result<Response, Problem> {
    let (_, head) = admitted(&api, peer, request)?;
    Ok(response(&api, &head, api.openapi.clone()))
}

/// Sends events, or what a place of tracked state holds, until the client closes, or what it has shown is good no
/// longer.
async fn follow(
    State(api): State<Arc<Api>>,
    Extension(Peer(peer)): Extension<Peer>,
    Extension(connection): Extension<Arc<HttpConnection>>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = request.into_parts();
    let client = api.access.admit(&head, peer, Role::Read)?;
    let mut query = parameters::in_query(head.uri.query().unwrap_or_default())?;
    let place = watch::place(&mut query)?;
    if let Some(name) = query.keys().next() {
        return Err(no_such_parameter(name));
    }
    let last = head.headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default());
    let of_stream = Arc::clone(&api);
    let is_good = Box::new(move || of_stream.access.is_good(&client));
    match place {
        Some(place) => watch::stream(api, place, InProgress::stream(&connection), is_good).await,
        None => api.events.stream(last, InProgress::stream(&connection), is_good),
    }
}

/// Answers a scrape.
async fn measure(
    State(api): State<Arc<Api>>,
    Extension(Peer(peer)): Extension<Peer>,
    Extension(connection): Extension<Arc<HttpConnection>>,
    request: Request,
) -> Result<Response, Problem> {
    let (_, head) = admitted(&api, peer, request)?;
    let _in_progress = InProgress::answer(&connection);
    let permit = api.lanes.enter(Lane::Shards).await?;
    let (kind, text) = scrape::answer(&api.scrape, &head.headers, permit).await?;
    Ok(scrape::response_of(kind, api.lanes.body(text).into()))
}

/// Returns the client and the head of a request that only reads and has no parameters, if the client may send it.
pub(super) fn admitted(api: &Api, peer: SocketAddr, request: Request) -> Result<(Client, Parts), Problem> {
    let (head, _) = request.into_parts();
    Ok((admitted_head(api, peer, &head)?, head))
}

/// Returns the client of a request with this head, which has no parameters, if it may read.
pub(super) fn admitted_head(api: &Api, peer: SocketAddr, head: &Parts) -> Result<Client, Problem> {
    let client = api.access.admit(head, peer, Role::Read)?;
    match parameters::in_query(head.uri.query().unwrap_or_default())?.keys().next() {
        Some(name) => Err(no_such_parameter(name)),
        None => Ok(client),
    }
}

/// Notes a change that a client has asked for in the log.
pub(super) fn note(api: &Api, client: &Client, peer: SocketAddr, what: &str, refused: Option<&Problem>) {
    note_as(api, &client.name, peer, what, refused, true);
}

/// Notes in the log that a client was refused a change that it may not make at all. Returns the refusal. A
/// lock-out is in the log already, so further requests from that address are not noted.
pub(super) fn noted(api: &Api, peer: SocketAddr, head: &Parts, problem: Problem) -> Problem {
    if problem.status == StatusCode::TOO_MANY_REQUESTS {
        return problem;
    }
    let name = api.access.name(&head.headers);
    note_as(api, &name, peer, &what_is_asked(head, &Value::Null), Some(&problem), false);
    problem
}

/// Notes in the log what a client has asked for, which its role may not allow.
fn note_as(api: &Api, client: &Arc<str>, peer: SocketAddr, what: &str, refused: Option<&Problem>, is_allowed: bool) {
    let news = ClientNews::Asked {
        client: Arc::clone(client),
        peer: peer.ip(),
        what: beginning(what),
        refused: refused.map(|problem| beginning(problem.detail())),
        is_allowed,
    };
    api.handle.publish(Notice::Client(news));
}

fn no_such_parameter(name: &str) -> Problem {
    Problem::field(StatusCode::BAD_REQUEST, name, format!("{name}: there is no such parameter"))
}

/// Reports that a thread that answers has panicked.
pub(super) fn failed(error: JoinError) -> Problem {
    tracing::error!(%error, "a request of the HTTP API failed");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the controller has a fault; its log has more")
}

async fn no_such_path(uri: Uri) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("there is no {}; /v1/openapi.json lists what there is", uri.path()))
}

/// Refuses a method. The router adds the header `Allow`.
pub(super) async fn wrong_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path has other methods: see the header Allow")
}

/// Serves a request of a route.
async fn serve(
    api: Arc<Api>,
    route: &'static Route,
    Peer(peer): Peer,
    connection: Arc<HttpConnection>,
    in_path: Result<RawPathParams, RawPathParamsRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let client = match api.access.client(&head, peer) {
        Err(problem) if route.changes() => return Err(noted(&api, peer, &head, problem)),
        client => client?,
    };
    client.check(route.role).map_err(|problem| noted(&api, peer, &head, problem))?;
    let mut given = Given::default();
    let ready = prepared(&api, route, &head, body, in_path, &mut given).await;
    let (page, permit) = ready.inspect_err(|problem| {
        if route.changes() {
            note(&api, &client, peer, &what_is_asked(&head, &given.body), Some(problem));
        }
    })?;
    let _in_progress = InProgress::answer(&connection);
    let of_thread = Arc::clone(&api);
    let answer = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let answer = ask(&of_thread, route, &given, page.as_ref(), &client);
        if route.changes() {
            note(&of_thread, &client, peer, &what_is_asked(&head, &given.body), answer.as_ref().err());
        }
        Ok(match answer? {
            Answer::Text(text) => response(&of_thread, &head, text),
            Answer::List(list) => list_response(&of_thread, &head, list),
        })
    });
    answer.await.map_err(failed)?
}

/// Reads the parts of a request, and takes the permit to answer it.
async fn prepared(
    api: &Api,
    route: &Route,
    head: &Parts,
    body: Body,
    in_path: Result<RawPathParams, RawPathParamsRejection>,
    given: &mut Given,
) -> Result<(Option<Page>, OwnedSemaphorePermit), Problem> {
    given.path = parameters::in_path(in_path)?;
    let page = page(api, route, head, given)?;
    given.body = read_json(api, route.has_body, &head.headers, body).await?;
    if given.body.get("place").is_some() && !given.path.is_empty() {
        return Err(Problem::field(StatusCode::BAD_REQUEST, "place", "place: the path says it already"));
    }
    Ok((page, api.lanes.enter(route.lane).await?))
}

/// Reads the query: the route's own parameters, and those of lists.
fn page(api: &Api, route: &Route, head: &Parts, given: &mut Given) -> Result<Option<Page>, Problem> {
    let mut query = parameters::in_query(head.uri.query().unwrap_or_default())?;
    for (name, kind) in route.query {
        let default = match kind {
            QueryKind::Number(number) => Some(number.to_string()),
            QueryKind::Flag => Some("false".to_owned()),
            QueryKind::Moment => None,
        };
        if let Some(value) = query.remove(*name).or(default) {
            given.query.insert((*name).to_owned(), value);
        }
    }
    let columns = |rows| move || Columns::of(&api.schema, route, rows);
    let page = route.rows.map(|rows| Page::take(rows, &mut query, columns(rows))).transpose()?;
    match query.keys().next() {
        Some(name) => Err(no_such_parameter(name)),
        None => Ok(page),
    }
}

/// Reads the body as JSON; without a body, checks that there is none.
pub(super) async fn read_json(api: &Api, has_body: bool, headers: &HeaderMap, body: Body) -> Result<Value, Problem> {
    let most_bytes = if has_body { MAX_REQUEST as usize } else { 0 };
    let read = async {
        let (mut bytes, mut stream) = (Vec::new(), body.into_data_stream());
        while let Some(part) = stream.next().await {
            let part = part.map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "the body does not come to its end"))?;
            if bytes.len() + part.len() > most_bytes {
                let (status, text) = if has_body {
                    (StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {most_bytes} bytes"))
                } else {
                    (StatusCode::BAD_REQUEST, "this takes no body".to_owned())
                };
                return Err(Problem::new(status, text));
            }
            bytes.extend_from_slice(&part);
        }
        Ok(bytes)
    };
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the body takes too long");
    let bytes = tokio::time::timeout(api.body_deadline, read).await.map_err(late)??;
    if !has_body {
        return Ok(Value::Null);
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        let text = "the body has to be JSON: Content-Type: application/json";
        return Err(Problem::field(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type", text));
    }
    let wrong = |error| Problem::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"));
    serde_json::from_slice(&bytes).map_err(wrong)
}

/// The text of an answer.
enum Answer {
    Text(Vec<u8>),
    List(ListText),
}

/// Asks the controller, and returns the text of its answer.
fn ask(api: &Api, route: &Route, given: &Given, page: Option<&Page>, client: &Client) -> Result<Answer, Problem> {
    let asker = Asker::Client(Arc::clone(&client.name));
    let problem_of = |refusal: RequestError| problem(route, given, &refusal);
    let request = parse_value(route.request(given)).map_err(problem_of)?;
    check_answers(&api.handle, &request).map_err(Problem::of_standby)?;
    let (Some(page), Some(rows)) = (page, route.rows) else {
        let answer = answer_to(&api.handle, &asker, &request).map_err(problem_of)?;
        return Ok(Answer::Text(answer.to_string().into_bytes()));
    };
    let mut list = page.list(rows);
    if let ControlRequest::Show(Show::Rules(switch)) = &request {
        each_rule(&api.handle, switch.as_deref(), |row| list.add(&row)).map_err(problem_of)?;
    } else {
        list.add_all(answer_to(&api.handle, &asker, &request).map_err(problem_of)?);
    }
    list.finish().map(Answer::List)
}

/// Returns the beginning of a text that a client has chosen, for the log.
fn beginning(text: &str) -> Arc<str> {
    match text.char_indices().nth(MAX_LOGGED) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Describes a request for the log, without values of tracked state. The path is as the client has sent it, so it has
/// no spaces; another text of the client that has some is in quotes.
fn what_is_asked(head: &Parts, body: &Value) -> String {
    let asked = format!("{} {}", head.method, head.uri.path());
    let is_plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "/._-:".contains(c));
    match body["name"].as_str() {
        Some(policy) if is_plain(policy) => format!("{asked} of {policy}"),
        Some(policy) => format!("{asked} of {policy:?}"),
        None => asked,
    }
}

/// Translates a refusal: the client does not know the request that the route made of the parts of its own.
fn problem(route: &Route, given: &Given, refusal: &RequestError) -> Problem {
    let inner = refusal.field.strip_prefix(route.asks).unwrap_or_default().trim_start_matches('.');
    let mut names = route.query.iter().map(|(name, _)| *name);
    let first = names.clone().next().filter(|_| given.path.is_empty());
    let in_query = names.find(|name| inner == *name).or(first);
    let in_path = in_query.is_none() && !given.path.is_empty() && (!route.has_body || inner.starts_with("place"));
    let field = match in_query {
        Some(name) => name,
        None if in_path && inner.contains("key[1]") => "key",
        None if in_path => route.path_parameters().next().unwrap_or_default(),
        None => inner,
    };
    let detail = match refusal.text.strip_prefix(&format!("{}: ", refusal.field)) {
        Some(rest) if !field.is_empty() => format!("{field}: {rest}"),
        Some(rest) => rest.to_owned(),
        None => refusal.text.clone(),
    };
    Problem::from_refusal(refusal, field, &detail, in_path)
}

/// Makes the response of an answer. A reader that has the same answer already gets none.
pub(super) fn response(api: &Api, head: &Parts, text: Vec<u8>) -> Response {
    let digest = SipHasher13::new().hash(&text).as_bytes();
    response_with(head, digest, || Response::new(Body::from(api.lanes.body(text))))
}

/// Makes the response of a list, which is sent in parts.
fn list_response(api: &Api, head: &Parts, list: ListText) -> Response {
    response_with(head, list.digest(), || {
        let (length, held) = (list.len(), api.lanes.count(list.held_bytes()));
        // What is held counts until the last part is sent, and so does each part.
        let parts = list.into_parts().map(move |part| Ok::<_, Infallible>(held.part(part)));
        let mut response = Response::new(Body::from_stream(stream::iter(parts)));
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
        response
    })
}

/// Makes the response of an answer with this digest.
fn response_with(head: &Parts, digest: [u8; 16], whole: impl FnOnce() -> Response) -> Response {
    let is_read = matches!(head.method, axum::http::Method::GET | axum::http::Method::HEAD);
    let tag = format!("\"{}\"", hex::encode(digest));
    let mut response =
        if is_read && is_known(&head.headers, &tag) { StatusCode::NOT_MODIFIED.into_response() } else { whole() };
    if response.status() == StatusCode::OK {
        response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    }
    if let Some(tag) = HeaderValue::from_str(&tag).ok().filter(|_| is_read) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Reports whether a client says that it has the answer with this tag.
pub(super) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let names_tag = |value: &HeaderValue| {
        let known = value.to_str().unwrap_or_default();
        known.split(',').any(|known| matches!(known.trim().trim_start_matches("W/"), own if own == "*" || own == tag))
    };
    headers.get_all(header::IF_NONE_MATCH).iter().any(names_tag)
}
