//! Metrics for Prometheus: the counts of the shards, the engine and the state, as text over HTTP.
//!
//! Shards count in plain numbers of their own. A scrape makes the thread of this module ask each shard for a copy
//! (`exporter.rs`), so counting a message costs no atomic operation and no lock. The thread is not a shard, so a slow
//! client delays no packet. `families.rs` lists all metrics, and docs/metrics.md is made from that list.
//!
//! What can be exported is bounded: no metric is labelled by a host's address, and the numbers of switches, ports and
//! source lines with rows of their own are limited (`rows.rs`).

mod families;
mod process;
mod rows;

mod exporter;

mod classic;
mod http;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use mio::Waker;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::control::{Handle, Scrape};
use classic::{CLASSIC, classic};
use exporter::Exporter;
pub use families::{Family, MetricKind, families};
use http::{HttpServer, OPENMETRICS, scraped};

/// A server of metrics. Dropping it ends it.
pub(crate) struct MetricsServer {
    address: SocketAddr,
    waker: Arc<Waker>,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens, and starts the thread.
    ///
    /// # Errors
    /// The system's error if it can't listen on the address, or can't start the thread.
    pub fn open(address: SocketAddr, handle: Handle) -> io::Result<MetricsServer> {
        let scrape = exporting(handle);
        let mut server = HttpServer::open(address)?;
        let (address, waker) = (server.address()?, server.waker()?);
        let closing = Arc::new(AtomicBool::new(false));
        let thread_closing = Arc::clone(&closing);
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(move || {
            if let Err(error) = server.run(scrape, &thread_closing) {
                tracing::error!(%error, "metrics are no longer exported");
            }
        })?;
        Ok(MetricsServer { address, waker, closing, thread: Some(thread) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Returns what makes the text of a scrape; `None` if a shard does not answer.
fn exporting(handle: Handle) -> impl Fn() -> Option<String> + Send + Sync {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exporter::new(handle)));
    move || {
        let mut text = String::new();
        encode(&mut text, &registry).ok().map(|()| text)
    }
}

/// Returns what answers scrapes of the HTTP API. The text of a scrape that took long is used again, as by
/// [`MetricsServer`].
pub(crate) fn scrape(handle: Handle) -> Scrape {
    let (scrape, last) = (exporting(handle), Mutex::new(None));
    Box::new(move |accepts_openmetrics| {
        let text = scraped(&mut last.lock().unwrap_or_else(PoisonError::into_inner), &scrape)?;
        Some(if accepts_openmetrics { (OPENMETRICS, text) } else { (CLASSIC, classic(&text).into()) })
    })
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        let is_woken = self.waker.wake().is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_woken)
            && thread.join().is_err()
        {
            tracing::error!("the thread of metrics panicked");
        }
    }
}
