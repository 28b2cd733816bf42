//! Connections of clients: accepted, bounded, and ended when they stall.
//!
//! | of | bound | then |
//! | --- | --- | --- |
//! | connections | [`Connections::new`] | the oldest that is idle gives way, or that reads nothing |
//! | the head of a request | [`MAX_HEAD`], [`HttpDeadlines::head`] | 431, or the connection ends |
//! | the time that a client reads nothing of its answer | [`HttpDeadlines::stall`] | the connection ends |
//! | a TLS handshake | [`HttpDeadlines::head`] | the connection ends |
//!
//! A connection is idle unless a request is being answered that has come to its end, or an answer waits to be read. So
//! clients that begin requests keep nobody out.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderValue, Request, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;

use super::api::Peer;
use crate::tls::Tls;

/// The maximum number of bytes of a request's head. Chosen: cookies, a token and a cursor fit several times over, and
/// all connections together take at most a few megabytes.
const MAX_HEAD: usize = 16 * 1024;
/// The time between two checks at the end whether all answers have been read. Chosen: nobody notices it, and the checks
/// cost nothing.
const END_CHECK: Duration = Duration::from_millis(10);
/// The time for which accepting pauses when the system is out of descriptors. Chosen: the log gets at most ten lines a
/// second, and a client hardly notices it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The time between two checks whether the files of TLS have changed, at least. Chosen: a new certificate counts at
/// once for people, and a check costs a look at each file.
const TLS_CHECK: Duration = Duration::from_secs(1);

/// The times that clients may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpDeadlines {
    /// The limit for the head of a request, for the silence between two, and for the beginning of TLS.
    pub head: Duration,
    /// The limit for the body of a request.
    pub body: Duration,
    /// The time for which nothing of an answer may be read.
    pub stall: Duration,
    /// The time for which the end waits for requests that are being answered, and for streams to say that they end.
    pub end: Duration,
}

impl Default for HttpDeadlines {
    fn default() -> HttpDeadlines {
        let [head, body, stall, end] = [10, 10, 30, 1].map(Duration::from_secs);
        HttpDeadlines { head, body, stall, end }
    }
}

/// Accepts connections for ever.
pub(super) async fn accept(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<Tls>>,
    connections: Arc<Connections>,
    deadlines: HttpDeadlines,
) {
    let router = TowerToHyperService::new(router);
    let mut checked = Instant::now();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "can't accept an HTTP client");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if let Some(tls) = tls.as_ref().filter(|_| checked.elapsed() >= TLS_CHECK) {
            checked = Instant::now();
            if let Err(error) = tls.reload_if_changed() {
                tracing::warn!(%error, "the HTTP API goes on with the certificate as it was");
            }
        }
        let Some(connection) = connections.admit() else { continue };
        let client = ClientEnd { peer, connection: Arc::clone(&connection), deadlines };
        let work = serve(stream, client, router.clone(), tls.clone());
        let listed = Arc::clone(&connections);
        let of_task = Arc::clone(&connection);
        let task = tokio::spawn(async move {
            let _listed = ListedConnection { all: listed, own: of_task };
            work.await;
        });
        // Nothing else sets it.
        let _ = connection.task.set(task.abort_handle());
    }
}

/// The connections, oldest first.
#[derive(Debug)]
pub(super) struct Connections {
    all: Mutex<VecDeque<Arc<HttpConnection>>>,
    most: usize,
}

/// One connection.
#[derive(Debug, Default)]
pub(super) struct HttpConnection {
    task: OnceLock<AbortHandle>,
    /// The number of requests that are being answered.
    requests: AtomicUsize,
    /// The number of streams of events.
    streams: AtomicUsize,
    /// Whether a part of an answer waits to be read.
    is_unread: AtomicBool,
}

impl HttpConnection {
    /// Reports whether a request is being answered, or its answer waits to be read.
    fn is_answering(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0 || self.is_unread.load(Ordering::Relaxed)
    }

    fn is_idle(&self) -> bool {
        self.has_nothing_in_progress() && !self.is_answering()
    }

    /// Reports whether no request is being answered and no stream goes on.
    fn has_nothing_in_progress(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0 && self.streams.load(Ordering::Relaxed) == 0
    }
}

impl Connections {
    /// Creates an empty list for at most this many connections.
    pub fn new(most: usize) -> Connections {
        Connections { all: Mutex::default(), most }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<HttpConnection>>> {
        self.all.lock()
    }

    /// Lists a new connection. If there are too many, another one gives way, and without such a one the new one does.
    fn admit(&self) -> Option<Arc<HttpConnection>> {
        let mut all = self.lock();
        if all.len() >= self.most {
            // What nobody reads gives way too, or those who read nothing would keep the others out.
            let is_unread = |one: &Arc<HttpConnection>| one.has_nothing_in_progress();
            let idle = all.iter().position(|one| one.is_idle()).or_else(|| all.iter().position(is_unread))?;
            if let Some(task) = all.remove(idle).as_ref().and_then(|gone| gone.task.get()) {
                task.abort();
            }
        }
        let connection = Arc::new(HttpConnection::default());
        all.push_back(Arc::clone(&connection));
        Some(connection)
    }

    /// Waits until all requests are answered that are in progress, at most for this long.
    pub async fn finish(&self, most: Duration) {
        let is_busy = || self.lock().iter().any(|one| !one.is_idle());
        let wait = async {
            while is_busy() {
                tokio::time::sleep(END_CHECK).await;
            }
        };
        // What is not answered by then is cut off.
        let _ = tokio::time::timeout(most, wait).await;
    }
}

/// A connection in the list. Dropping this takes it out.
struct ListedConnection {
    all: Arc<Connections>,
    own: Arc<HttpConnection>,
}

impl Drop for ListedConnection {
    fn drop(&mut self) {
        self.all.lock().retain(|one| !Arc::ptr_eq(one, &self.own));
    }
}

/// A request that is being answered, or a stream. Dropping this ends it.
#[derive(Debug)]
pub(super) struct InProgress {
    connection: Arc<HttpConnection>,
    count: fn(&HttpConnection) -> &AtomicUsize,
}

impl InProgress {
    /// Begins to answer a request.
    pub fn answer(connection: &Arc<HttpConnection>) -> InProgress {
        InProgress::begin(connection, |connection| &connection.requests)
    }

    /// Begins a stream, which only the client ends.
    pub fn stream(connection: &Arc<HttpConnection>) -> InProgress {
        InProgress::begin(connection, |connection| &connection.streams)
    }

    fn begin(connection: &Arc<HttpConnection>, count: fn(&HttpConnection) -> &AtomicUsize) -> InProgress {
        count(connection).fetch_add(1, Ordering::Relaxed);
        InProgress { connection: Arc::clone(connection), count }
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        (self.count)(&self.connection).fetch_sub(1, Ordering::Relaxed);
    }
}

/// The client of a connection.
#[derive(Clone, Debug)]
struct ClientEnd {
    peer: SocketAddr,
    connection: Arc<HttpConnection>,
    deadlines: HttpDeadlines,
}

/// Serves one connection until it ends.
async fn serve(stream: TcpStream, client: ClientEnd, router: TowerToHyperService<Router>, tls: Option<Arc<Tls>>) {
    let peer = client.peer;
    if let Err(error) = stream.set_nodelay(true) {
        return tracing::debug!(%error, %peer, "an HTTP client has gone");
    }
    let Some(tls) = tls else { return speak(stream, client, router).await };
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    match tokio::time::timeout(client.deadlines.head, handshake).await {
        Ok(Ok(stream)) => speak(stream, client, router).await,
        Ok(Err(error)) => tracing::debug!(%error, %peer, "an HTTP client did not begin TLS"),
        Err(_) => tracing::debug!(%peer, "an HTTP client took too long to begin TLS"),
    }
}

/// Speaks HTTP on a connection until it ends.
async fn speak<T: AsyncRead + AsyncWrite + Unpin>(stream: T, client: ClientEnd, router: TowerToHyperService<Router>) {
    let ClientEnd { peer, connection, deadlines } = client;
    let stream = Stalling::new(stream, Arc::clone(&connection), deadlines.stall);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        request.extensions_mut().insert(Arc::clone(&connection));
        let answer = router.call(request);
        async move {
            let mut response = answer.await?;
            let headers = response.headers_mut();
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
            headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
            headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
            headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(deadlines.head).max_buf_size(MAX_HEAD);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), answer).await {
        tracing::debug!(%error, %peer, "an HTTP connection failed");
    }
}

/// A stream whose writing fails when the other end reads nothing for too long.
struct Stalling<T> {
    stream: T,
    connection: Arc<HttpConnection>,
    most: Duration,
    /// The end of the write's time; `None` while there is room to write.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> Stalling<T> {
    fn new(stream: T, connection: Arc<HttpConnection>, most: Duration) -> Stalling<T> {
        Stalling { stream, connection, most, deadline: None }
    }

    /// Looks at the clock after an attempt to write.
    fn judge<R>(&mut self, context: &mut Context<'_>, attempt: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        self.connection.is_unread.store(attempt.is_pending(), Ordering::Relaxed);
        if attempt.is_ready() {
            self.deadline = None;
            return attempt;
        }
        let longest = self.most;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(longest)));
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stalling<T> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, to)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stalling<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.judge(context, attempt)
    }

    /// Answers are written from where they are, and not copied before, if the stream can do that.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, attempt)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, attempt)
    }
}
