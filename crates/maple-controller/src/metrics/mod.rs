//! Metrics for Prometheus: the counts of the shards, the engine and the state, as text.
//!
//! Shards count in plain numbers of their own. A scrape makes a thread of HTTP (`control/http/scrape.rs`) ask each
//! shard for a copy (`exporter.rs`), so counting a message costs no atomic operation and no lock. The thread is not a
//! shard, so a slow client delays no packet. `families.rs` lists all metrics, and docs/metrics.md is made from that
//! list.
//!
//! What can be exported is bounded: no metric is labelled by a host's address, and the numbers of switches, ports and
//! source lines with rows of their own are limited (`metric_rows.rs`).

mod families;
mod metric_rows;
mod process;

mod exporter;

mod classic;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::control::{Handle, Scrape, ScrapeError};
use classic::{CLASSIC, classic};
use exporter::Exporter;
pub use families::{Family, MetricKind, families};

/// The time for which the text of a scrape answers further requests, as a multiple of the time that the scrape took. So
/// scrapes take at most a twentieth of the time of a thread.
const REUSE_FACTOR: u32 = 20;
/// The maximum time for which the text of a scrape answers further requests. Chosen: less than the interval of most
/// scrapers; a scrape takes long if a shard is busy, which says nothing about the next.
const MAX_REST: Duration = Duration::from_secs(5);
/// The content type of OpenMetrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns what answers scrapes.
pub(crate) fn scrape(handle: Handle) -> Scrape {
    let (scrape, last) = (exporting(handle), Mutex::new(None));
    Arc::new(move |accepts_openmetrics| {
        let mut last = last.lock();
        let scraped = scraped(&mut last, &scrape)?;
        Ok(if accepts_openmetrics { (OPENMETRICS, scraped.text.clone()) } else { (CLASSIC, scraped.classic()) })
    })
}

/// Returns what makes the text of a scrape.
fn exporting(handle: Handle) -> impl Fn() -> Result<String, ScrapeError> + Send + Sync {
    let (mut registry, late) = (Registry::default(), Arc::default());
    registry.register_collector(Box::new(Exporter::new(handle, Arc::clone(&late))));
    move || {
        let mut text = String::new();
        encode(&mut text, &registry).map(|()| text).map_err(|_| {
            let late = late.lock().take();
            late.map_or(ScrapeError::Unwritable, ScrapeError::Late)
        })
    }
}

/// The text of the last scrape, and until when it answers requests. Answers share it.
struct Scraped {
    text: Bytes,
    /// The text in the older format, if a client has asked for it.
    classic: Option<Bytes>,
    until: Instant,
}

impl Scraped {
    fn classic(&mut self) -> Bytes {
        self.classic.get_or_insert_with(|| classic(&String::from_utf8_lossy(&self.text)).into()).clone()
    }
}

/// Returns the last scrape if it is still valid, or a new one.
///
/// # Errors
/// [`ScrapeError`] if the new one failed.
fn scraped<'l>(
    last: &'l mut Option<Scraped>,
    scrape: &impl Fn() -> Result<String, ScrapeError>,
) -> Result<&'l mut Scraped, ScrapeError> {
    let began = Instant::now();
    let valid = last.take().filter(|last| last.until > began);
    let new = || -> Result<Scraped, ScrapeError> {
        let text = scrape()?.into();
        let ended = Instant::now();
        let until = ended + ((ended - began) * REUSE_FACTOR).min(MAX_REST);
        Ok(Scraped { text, classic: None, until })
    };
    Ok(last.insert(valid.map_or_else(new, Ok)?))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_long_scrape_is_not_repeated_at_once() {
        let (mut last, count) = (None, Cell::new(0));
        let scrape = || {
            count.set(count.get() + 1);
            std::thread::sleep(Duration::from_secs(1));
            Ok("up 1\n".to_owned())
        };
        for _ in 0..1000 {
            assert_eq!(scraped(&mut last, &scrape).map(|scraped| scraped.text.clone()), Ok("up 1\n".into()));
        }
        assert_eq!(count.get(), 1);
        last.as_mut().expect("it is there").until = Instant::now();
        assert!(scraped(&mut last, &scrape).is_ok());
        assert_eq!(count.get(), 2, "when its time is over");
    }
}
