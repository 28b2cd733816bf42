//! Connections of clients: accepted, bounded, and ended when they stall.
//!
//! | of | bound | then |
//! | --- | --- | --- |
//! | connections | [`MAX_CONNECTIONS`] | the oldest without a request in progress gives way |
//! | the head of a request | [`MAX_HEAD`], [`HEAD_TIMEOUT`] | 431, or the connection ends |
//! | the time that a client reads nothing of its answer | [`STALL_TIMEOUT`] | the connection ends |
//! | a TLS handshake | [`HEAD_TIMEOUT`] | the connection ends |

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderValue, Request, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;

use super::api::Peer;
use crate::tls::Tls;

/// Maximum number of connections at a time.
pub(super) const MAX_CONNECTIONS: usize = 512;
/// Maximum number of bytes of a request's head.
const MAX_HEAD: usize = 16 * 1024;
/// How long a client may take to send the head of a request, or be silent between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may leave an answer unread.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for which accepting pauses when the system is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often it is checked whether the files of TLS have changed.
const TLS_CHECK: Duration = Duration::from_secs(1);

/// Accepts connections for ever.
pub(super) async fn accept(listener: TcpListener, router: Router, tls: Option<Arc<Tls>>) {
    let (connections, router) = (Arc::<Connections>::default(), TowerToHyperService::new(router));
    let mut checked = Instant::now();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "can't accept a client of the HTTP API");
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
        let work = serve(stream, peer, router.clone(), tls.clone(), Arc::clone(&connection));
        let listed = Arc::clone(&connections);
        let of_task = Arc::clone(&connection);
        let task = tokio::spawn(async move {
            let _listed = Listed { all: listed, own: of_task };
            work.await;
        });
        // Nothing else sets it.
        let _ = connection.task.set(task.abort_handle());
    }
}

/// The connections, oldest first.
#[derive(Debug, Default)]
struct Connections(Mutex<VecDeque<Arc<Connection>>>);

/// One connection.
#[derive(Debug, Default)]
pub(super) struct Connection {
    task: OnceLock<AbortHandle>,
    /// The number of requests that are being answered.
    requests: AtomicUsize,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists a new connection. If there are too many, another one gives way, and without such a one the new one does.
    fn admit(&self) -> Option<Arc<Connection>> {
        let mut all = self.lock();
        if all.len() >= MAX_CONNECTIONS {
            let is_idle = |one: &Arc<Connection>| one.requests.load(Ordering::Relaxed) == 0;
            let idle = all.iter().position(is_idle)?;
            if let Some(task) = all.remove(idle).as_ref().and_then(|gone| gone.task.get()) {
                task.abort();
            }
        }
        let connection = Arc::new(Connection::default());
        all.push_back(Arc::clone(&connection));
        Some(connection)
    }
}

/// A connection in the list. Dropping this takes it out.
struct Listed {
    all: Arc<Connections>,
    own: Arc<Connection>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.all.lock().retain(|one| !Arc::ptr_eq(one, &self.own));
    }
}

/// A request that is being answered. Dropping this ends it.
#[derive(Debug)]
pub(super) struct InProgress(Arc<Connection>);

impl InProgress {
    /// Begins a request.
    pub fn begin(connection: &Arc<Connection>) -> InProgress {
        connection.requests.fetch_add(1, Ordering::Relaxed);
        InProgress(Arc::clone(connection))
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves one connection until it ends.
async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: TowerToHyperService<Router>,
    tls: Option<Arc<Tls>>,
    connection: Arc<Connection>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        return tracing::debug!(%error, %peer, "a client of the HTTP API has gone");
    }
    let Some(tls) = tls else { return speak(stream, peer, router, connection).await };
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    match tokio::time::timeout(HEAD_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => speak(stream, peer, router, connection).await,
        Ok(Err(error)) => tracing::debug!(%error, %peer, "a client of the HTTP API did not begin TLS"),
        Err(_) => tracing::debug!(%peer, "a client of the HTTP API took too long to begin TLS"),
    }
}

/// Speaks HTTP on a connection until it ends.
async fn speak<T: AsyncRead + AsyncWrite + Unpin>(
    stream: T,
    peer: SocketAddr,
    router: TowerToHyperService<Router>,
    connection: Arc<Connection>,
) {
    let answer = service_fn(move |mut request: Request<Incoming>| {
        let in_progress = InProgress::begin(&connection);
        request.extensions_mut().insert(Peer(peer));
        request.extensions_mut().insert(Arc::clone(&connection));
        let answer = router.call(request);
        async move {
            let mut response = answer.await?;
            drop(in_progress);
            let headers = response.headers_mut();
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
            headers.insert(header::CONTENT_SECURITY_POLICY, policy);
            headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD);
    if let Err(error) = http.serve_connection(TokioIo::new(Stalling::new(stream)), answer).await {
        tracing::debug!(%error, %peer, "a client's connection to the HTTP API failed");
    }
}

/// A stream whose writing fails when the other end reads nothing for too long.
struct Stalling<T> {
    stream: T,
    /// When it fails; `None` while there is room to write.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<T> Stalling<T> {
    fn new(stream: T) -> Stalling<T> {
        Stalling { stream, deadline: None }
    }

    /// Looks at the clock after an attempt to write.
    fn judge<R>(&mut self, context: &mut Context<'_>, attempt: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if attempt.is_ready() {
            self.deadline = None;
            return attempt;
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_TIMEOUT)));
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

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, attempt)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, attempt)
    }
}
