//! Scrapes of Prometheus: a route of the HTTP API, and a server of its own that has no other.
//!
//! The server of its own has the bounds of `connections.rs`, no tokens and no TLS. It answers one scrape after the
//! other, and ends a connection after its answer. Each of its few connections may keep the text of one scrape.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::queries::LateShard;
use super::api::{failed, wrong_method};
use super::connections::{Connections, HttpConnection, HttpDeadlines, InProgress};
use super::problem::Problem;
use super::server::Server;

/// Makes the text of a scrape, in OpenMetrics if that is asked for, with the type of its content.
pub(crate) type Scrape = Arc<dyn Fn(bool) -> Result<(&'static str, Bytes), ScrapeError> + Send + Sync>;

/// The reason why there is no text of a scrape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScrapeError {
    /// A shard does not answer in time. Without its part sums would go down.
    #[error(transparent)]
    Late(#[from] LateShard),
    /// A metric has no text.
    #[error("a metric can't be written")]
    Unwritable,
}

/// The maximum number of connections of the server that has metrics alone. Chosen: several Prometheus servers and
/// people beside them.
const MAX_SCRAPERS: usize = 32;

/// The path of metrics.
pub(super) const METRICS: &str = "/metrics";

/// A server of metrics alone. Dropping it ends it.
pub(crate) struct MetricsServer(Server);

impl MetricsServer {
    /// Listens, and starts the thread.
    ///
    /// # Errors
    /// The system's error if it can't listen on the address, or can't start the thread.
    pub fn open(address: SocketAddr, scrape: Scrape) -> io::Result<MetricsServer> {
        let (connections, deadlines) = (Connections::new(MAX_SCRAPERS), HttpDeadlines::default());
        Server::open("metrics", address, router(scrape), None, connections, deadlines).map(MetricsServer)
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

/// Returns the router that has metrics only.
fn router(scrape: Scrape) -> Router {
    let turn = Arc::new(Semaphore::new(1));
    let measure = move |Extension(connection): Extension<Arc<HttpConnection>>, headers: HeaderMap| async move {
        let _in_progress = InProgress::answer(&connection);
        let permit = turn.acquire_owned().await.map_err(|_| Problem::busy("the server ends"))?;
        answer(&scrape, &headers, permit).await.map(|(kind, text)| response_of(kind, text.into()))
    };
    let no_such_path = || async { Problem::new(StatusCode::NOT_FOUND, format!("GET {METRICS} is what there is")) };
    Router::new()
        .route(METRICS, get(measure))
        .method_not_allowed_fallback(wrong_method)
        .fallback(no_such_path)
        .layer(map_response(last_of_connection))
}

/// Makes a response the last one of its connection, which nobody keeps.
async fn last_of_connection(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Answers a scrape on a thread that may wait for shards. Returns the text with the type of its content.
pub(super) async fn answer(
    scrape: &Scrape,
    headers: &HeaderMap,
    permit: OwnedSemaphorePermit,
) -> Result<(&'static str, Bytes), Problem> {
    let mut wished = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let is_open = wished.any(|value| value.contains("application/openmetrics-text"));
    let scrape = Arc::clone(scrape);
    let scraped = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        scrape(is_open)
    });
    scraped.await.map_err(failed)?.map_err(|error| match error {
        ScrapeError::Late(late) => late.into(),
        ScrapeError::Unwritable => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    })
}

/// Returns the response with the text of a scrape.
pub(super) fn response_of(kind: &'static str, text: Body) -> Response {
    let mut response = Response::new(text);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    /// Returns a server whose scrapes have this text; `None`: shard 3 is late.
    fn serving(text: Option<&'static str>) -> MetricsServer {
        let late = LateShard { shard: 3, waited: Duration::from_secs(5) };
        let scrape = move |is_open| match text {
            Some(text) => Ok((if is_open { "open" } else { "older" }, text.into())),
            None => Err(late.into()),
        };
        MetricsServer::open(([127, 0, 0, 1], 0).into(), Arc::new(scrape)).expect("it listens")
    }

    /// Sends a request.
    fn sent(server: &MetricsServer, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(server.address()).expect("it accepts");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it has a time limit");
        stream.write_all(request.as_bytes()).expect("it reads");
        stream
    }

    /// Returns the answer to a request, up to the end of the connection.
    fn answer_of(server: &MetricsServer, request: &str) -> String {
        let mut answer = String::new();
        sent(server, request).read_to_string(&mut answer).expect("it answers and ends");
        answer
    }

    #[test]
    fn a_scrape_is_answered_once_for_each_connection_and_nothing_else_is() {
        let server = serving(Some("up 1\n"));
        let accept = "Accept: text/plain,application/openmetrics-text; version=1.0.0\r\n";
        for (request, status, kind, body) in [
            ("GET /metrics HTTP/1.1\r\n", "200", "older", Some("up 1\n")),
            ("GET /metrics?x=/y HTTP/1.0\r\n", "200", "older", Some("up 1\n")),
            (&*format!("GET /metrics HTTP/1.1\r\n{accept}"), "200", "open", Some("up 1\n")),
            (&*format!("HEAD /metrics HTTP/1.1\r\n{accept}"), "200", "open", Some("")),
            ("GET / HTTP/1.1\r\n", "404", "application/problem+json", None),
            ("GET /metrics/x HTTP/1.1\r\n", "404", "application/problem+json", None),
            ("POST /metrics HTTP/1.1\r\n", "405", "application/problem+json", None),
        ] {
            let answer = answer_of(&server, &format!("{request}\r\n"));
            let (head, is) = answer.split_once("\r\n\r\n").expect("it has a head");
            assert!(head.starts_with("HTTP/1.") && head[8..].starts_with(&format!(" {status} ")), "{request}: {head}");
            let has = |header: &str| head.lines().any(|line| line == header);
            assert!(has(&format!("content-type: {kind}")) && has("connection: close"), "{request}: {head}");
            assert!(status != "200" || has("content-length: 5"), "{request}: {head}");
            assert!(body.is_none_or(|body| body == is), "{request}: {is}");
        }
        let server = serving(None);
        let failed = answer_of(&server, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(failed.starts_with("HTTP/1.1 503 "), "a scrape that fails is no empty answer: {failed}");
        assert!(failed.contains("\"shard\":3") && failed.contains("worker 3 did not answer within 5 s"), "{failed}");
    }

    #[test]
    fn clients_that_do_not_read_keep_nobody_out() {
        let long: &'static str = Box::leak("x".repeat(8 << 20).into_boxed_str());
        let server = serving(Some(long));
        let request = "GET /metrics HTTP/1.1\r\n\r\n";
        let begun = |_| {
            let mut stream = sent(&server, request);
            stream.read_exact(&mut [0]).expect("its answer begins");
            stream
        };
        let mut silent: Vec<TcpStream> = (0..2 * MAX_SCRAPERS).map(begun).collect();
        assert!(answer_of(&server, request).ends_with(long));
        let mut read = Vec::new();
        let oldest = silent[0].read_to_end(&mut read);
        assert!(oldest.is_err() || read.len() < long.len(), "the oldest have given way");
    }
}
