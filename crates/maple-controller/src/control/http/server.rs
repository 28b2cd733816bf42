//! A thread that serves a router at an address.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::connections::{Connections, HttpDeadlines, accept};
use super::lanes;
use crate::tls::Tls;

/// A running server. Dropping it ends it.
pub(super) struct Server {
    address: SocketAddr,
    /// The thread ends when this is dropped.
    running: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens, and starts the thread, which has this name.
    ///
    /// # Errors
    /// The system's error if it refuses the address or the thread.
    pub fn open(
        name: &str,
        address: SocketAddr,
        router: Router,
        tls: Option<Arc<Tls>>,
        connections: Connections,
        deadlines: HttpDeadlines,
    ) -> io::Result<Server> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = runtime()?;
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (running, ends) = oneshot::channel();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            let connections = Arc::new(connections);
            let accepting = runtime.spawn(accept(listener, router, tls, Arc::clone(&connections), deadlines));
            runtime.block_on(async {
                // The other end is only ever dropped.
                let _ = ends.await;
                accepting.abort();
                connections.finish(deadlines.end).await;
            });
            runtime.shutdown_timeout(deadlines.end);
        })?;
        Ok(Server { address, running: Some(running), thread: Some(thread) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Creates the runtime of the thread.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(lanes::THREADS)
        .thread_name("http-answer")
        .build()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.take();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of an HTTP server panicked");
        }
    }
}
