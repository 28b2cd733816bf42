//! Streams: UDP datagrams at a steady rate, as `iperf -u` sends them. Each carries its stream's number, by which the
//! receiver distinguishes streams; no host answers.

use std::net::IpAddr;

use maple_switch::time::{Nanoseconds, SECOND};

use super::Host;
use super::reply::toward;
use super::segment::{Datagram, array};

/// The destination port of streams, which is iperf's.
pub const STREAM_PORT: u16 = 5001;
/// The beginning of datagrams of streams.
const MARK: &[u8; 12] = b"maple stream";
/// The length of Ethernet, IPv4 and UDP headers, in bytes (IEEE 802.3 §3.1, RFC 791 §3.1, RFC 768).
const HEADERS: usize = 14 + 20 + 8;
/// The maximum number of received streams that a host counts. Beyond it, some are forgotten. Chosen: it bounds memory,
/// and people run a few.
const KEPT: usize = 1024;

/// Identifies a stream of a host: its number there, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// The rate and duration of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// Bits a second, including headers. At least one frame in an hour.
    pub rate: u64,
    /// The duration, in nanoseconds.
    pub duration: Nanoseconds,
    /// The length of its frames in bytes, 60 to 1514.
    pub frame: usize,
}

/// The result of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streamed {
    /// The number of received frames.
    pub packets: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// The time when the first one arrived.
    pub first: Nanoseconds,
    /// The time when the last one arrived.
    pub last: Nanoseconds,
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    to: IpAddr,
    mac: [u8; 6],
    frame: usize,
    apart: Nanoseconds,
    start: Nanoseconds,
    count: u64,
    sent: u64,
}

impl Stream {
    /// Returns the time of the stream's next frame; `None` once all are sent.
    pub fn next(&self) -> Option<Nanoseconds> {
        (self.sent < self.count).then_some(self.start + self.sent * self.apart)
    }
}

impl Host {
    /// Starts a stream to an address whose hardware address the host knows; `None` if it does not.
    pub fn stream(&mut self, now: Nanoseconds, to: IpAddr, spec: StreamSpec) -> Option<StreamId> {
        let mac = self.neighbour(to)?;
        let frame = spec.frame.clamp(60, 1514);
        let apart = (frame as u128 * 8 * u128::from(SECOND) / u128::from(spec.rate.max(1))) as u64;
        let apart = apart.clamp(1, 3600 * SECOND);
        let count = spec.duration.div_ceil(apart);
        let id = StreamId(self.streams.len() as u32);
        self.streams.push(Stream { to, mac, frame, apart, start: now, count, sent: 0 });
        Some(id)
    }

    /// Returns the number of frames that the host has sent of a stream.
    pub fn stream_sent(&self, id: StreamId) -> u64 {
        self.streams.get(id.0 as usize).map_or(0, |stream| stream.sent)
    }

    /// Returns the received frames of another host's stream.
    pub fn streamed(&self, from: IpAddr, id: StreamId) -> Streamed {
        self.streamed.get(&(from, id.0)).copied().unwrap_or_default()
    }

    /// Sends due frames.
    pub(super) fn send_streams(&mut self, now: Nanoseconds, out: &mut Vec<Vec<u8>>) {
        for at in 0..self.streams.len() {
            while let Some(stream) = self.streams.get_mut(at).filter(|s| s.next().is_some_and(|due| due <= now)) {
                stream.sent += 1;
                let (mut payload, length) = (MARK.to_vec(), stream.frame - HEADERS);
                payload.extend((at as u32).to_be_bytes());
                payload.extend(stream.sent.to_be_bytes());
                payload.resize(length.max(payload.len()), 0);
                let (mac, to) = (stream.mac, stream.to);
                let frame = toward(&self.spec, self.link_local, mac, to).udp(STREAM_PORT, STREAM_PORT);
                self.send(frame.payload(&payload), out);
            }
        }
    }

    /// Counts a datagram, if it belongs to a stream. Reports whether it does.
    pub(super) fn hear_stream(&mut self, now: Nanoseconds, datagram: &Datagram<'_>) -> bool {
        let Some(payload) = datagram.body.get(8..).filter(|payload| payload.starts_with(MARK)) else { return false };
        let Some(id) = array::<4>(payload, MARK.len()).map(u32::from_be_bytes) else { return false };
        if !self.streamed.contains_key(&(datagram.src, id)) && self.streamed.len() >= KEPT {
            self.streamed.pop_first();
        }
        let fresh = Streamed { first: now, ..Streamed::default() };
        let streamed = self.streamed.entry((datagram.src, id)).or_insert(fresh);
        streamed.packets += 1;
        streamed.bytes += (HEADERS + payload.len()) as u64;
        streamed.last = now;
        true
    }
}
