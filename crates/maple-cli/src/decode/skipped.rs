//! The TCP streams of a capture that are not decoded because they use other ports.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::segment::Segment;
use super::stream::starts_message;

/// The maximum number of ports that are named. Chosen: they fit a line; the number of the others follows.
const MAX_PORTS: usize = 8;

/// The streams, by their two ends in ascending order.
#[derive(Debug, Default)]
pub(super) struct Skipped(BTreeMap<[SocketAddr; 2], SkippedStream>);

/// A stream.
#[derive(Debug)]
struct SkippedStream {
    /// The server's port, to which the connection was opened; the lower port if the capture lacks the opening.
    port: u16,
    /// Whether a segment began like an OpenFlow message.
    is_openflow: bool,
}

impl Skipped {
    /// Counts a segment's stream.
    pub(super) fn add(&mut self, segment: &Segment<'_>) {
        let mut ends = [segment.from, segment.to];
        ends.sort();
        let lower = segment.from.port().min(segment.to.port());
        let stream = self.0.entry(ends).or_insert(SkippedStream { port: lower, is_openflow: false });
        if segment.syn {
            stream.port = if segment.ack { segment.from.port() } else { segment.to.port() };
        }
        stream.is_openflow |= starts_message(segment.data);
    }

    /// Describes what was skipped, besides the streams of these ports; `None` if nothing was.
    pub(super) fn note(&self, ports: &[u16]) -> Option<String> {
        let mut by_port: BTreeMap<u16, (usize, bool)> = BTreeMap::new();
        for stream in self.0.values() {
            let (count, is_openflow) = by_port.entry(stream.port).or_default();
            (*count, *is_openflow) = (*count + 1, *is_openflow | stream.is_openflow);
        }
        let mut by_port: Vec<(u16, (usize, bool))> = by_port.into_iter().collect();
        by_port.sort_by_key(|(port, (count, is_openflow))| (!is_openflow, std::cmp::Reverse(*count), *port));
        let (first, (_, is_openflow)) = by_port.first()?;
        let one = |(port, (count, is_openflow)): &(u16, (usize, bool))| {
            let like = if *is_openflow { ", like OpenFlow" } else { "" };
            format!("{port} ({count}{like})")
        };
        let mut named: Vec<String> = by_port.iter().take(MAX_PORTS).map(one).collect();
        if by_port.len() > MAX_PORTS {
            named.push(format!("and {} more", by_port.len() - MAX_PORTS));
        }
        let total = self.0.len();
        let (streams, were) = if total == 1 { ("stream", "was") } else { ("streams", "were") };
        let read: Vec<String> = ports.iter().map(u16::to_string).collect();
        let (read, named) = (read.join(" and "), named.join(", "));
        let option = if *is_openflow { first.to_string() } else { "PORT".to_owned() };
        Some(format!(
            "note: {total} TCP {streams} of other ports than {read} {were} skipped: {named}; see --port {option}"
        ))
    }
}
