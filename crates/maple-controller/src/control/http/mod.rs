//! The HTTP API: the requests of the control socket for programs that speak HTTP.
//!
//! One thread runs everything that waits for clients: it accepts them, reads their requests and writes answers. What
//! asks shards, and may wait for them, runs on threads of its own, of which there are few. None of them is a shard, and
//! a shard waits for none of them.
//!
//! ```text
//!  client ──► connections ──► router ──► access: who, which role, which host ──► parameters, body
//!                                                                                      │
//!  client ◄── ETag, 304 ◄── list: filter, sort, page ◄── control::answer ◄── request ◄─┘ (routes.rs; a thread of a lane)
//! ```
//!
//! A route has no handler: it says which request of the socket it makes (`routes.rs`). So there is one implementation
//! and one schema of both.

mod access;
mod api;
mod columns;
mod connections;
mod events;
mod lanes;
mod list;
mod list_text;
mod openapi;
mod page;
mod parameters;
mod problem;
mod routes;
mod ryu;
mod scrape;
mod server;
mod sessions;
mod sign_in;
mod stream_end;
mod tokens;
mod watch;
mod wrong_tokens;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use self::access::Access;
use self::api::{Api, router};
use self::connections::Connections;
pub use self::connections::HttpDeadlines;
use self::events::EventStreams;
pub use self::page::HAS_PAGE;
pub(crate) use self::scrape::{MetricsServer, Scrape, ScrapeError};
use self::server::Server;
use self::sessions::Sessions;
use self::tokens::TokenFile;
pub use self::tokens::TokensError;
use self::wrong_tokens::Failures;
use super::Handle;
use crate::kept_files::KeptFile;
use crate::random::random;
use crate::tls::Tls;

/// The maximum number of connections at a time. Chosen: pages and programs of a whole team, and half of the 1,024
/// descriptors that a process has by default.
const MAX_CONNECTIONS: usize = 512;

/// The options of the HTTP API.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The address to listen on. Beyond the loopback interface there have to be TLS and tokens.
    pub address: SocketAddr,
    /// The certificate, if connections begin with TLS. Clients need none.
    pub tls: Option<Arc<Tls>>,
    /// The file of tokens. Without one, clients may only read.
    pub tokens: Option<PathBuf>,
    /// The times that clients may take.
    pub deadlines: HttpDeadlines,
    /// Whether paths of Ryu's REST applications are answered too.
    pub ryu: bool,
}

/// The reason why the HTTP API can't be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The address can be reached from other machines, and something is missing for that.
    #[error(
        "other machines reach this address, so it needs a certificate and tokens; without them it has to be one of the loopback interface, such as 127.0.0.1:8653"
    )]
    Unprotected,
    /// The file of tokens is wrong.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The system refuses the address or a thread.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A running HTTP API. Dropping it ends it.
pub(crate) struct HttpServer {
    events: Arc<EventStreams>,
    /// The thread that reads what becomes events.
    follower: Option<JoinHandle<()>>,
    server: Server,
}

impl HttpServer {
    /// Listens, and starts the threads.
    ///
    /// # Errors
    /// [`HttpError`] if options are wrong, or if the system refuses the address or a thread.
    pub fn open(options: HttpOptions, handle: Handle, scrape: Scrape) -> Result<HttpServer, HttpError> {
        let is_loopback = options.address.ip().is_loopback();
        if !is_loopback && (options.tls.is_none() || options.tokens.is_none()) {
            return Err(HttpError::Unprotected);
        }
        if let Some(path) = &options.tokens {
            handle.operations().files().keep(KeptFile::Tokens, path);
        }
        let tokens = options.tokens.as_deref().map(TokenFile::open).transpose()?;
        let has_tls = options.tls.is_some();
        let (sessions, failures) = (Sessions::default(), Failures::default());
        let access = Access { tokens, sessions, is_loopback, has_tls, failures, handle: handle.clone() };
        let events = Arc::new(EventStreams::new(u64::from_le_bytes(random()?)));
        let api = Api::new(handle.clone(), access, Arc::clone(&events), scrape, options.deadlines.body);
        let routes = router(Arc::new(api), options.ryu);
        let connections = Connections::new(MAX_CONNECTIONS);
        let server = Server::open("http", options.address, routes, options.tls, connections, options.deadlines)?;
        let follower = {
            let events = Arc::clone(&events);
            std::thread::Builder::new().name("http-events".into()).spawn(move || events.follow(&handle))?
        };
        Ok(HttpServer { events, follower: Some(follower), server })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.events.end();
        if self.follower.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of events of the HTTP API panicked");
        }
    }
}
