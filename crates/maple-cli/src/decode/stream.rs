//! Byte streams of messages: divides them into messages, and decodes and prints these. Streams of a capture are
//! assembled from TCP segments.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;

use maple_wire::msg::Header;
use maple_wire::{Message, print};

use super::segment::Segment;

/// The maximum number of bytes of a direction that wait for a missing segment. Beyond it, the segment counts as lost,
/// so a gap does not hold the rest of the capture in memory. Chosen: more than a TCP window of most systems.
const MAX_WAITING: usize = 4 * 1024 * 1024;

/// Decodes one stream and prints what it finds.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The start of every line.
    prefix: String,
    buffer: Vec<u8>,
    /// The position in the stream where `buffer` starts.
    offset: u64,
    failures: u64,
    /// Whether the stream lost its message boundaries: bytes are skipped until [`Decoder::resume`].
    lost: bool,
    /// The number of bytes skipped since then.
    skipped: u64,
}

impl Decoder {
    pub(super) fn new(prefix: String) -> Decoder {
        Decoder { prefix, buffer: Vec::new(), offset: 0, failures: 0, lost: false, skipped: 0 }
    }

    /// Returns the number of messages that could not be decoded, or only in part.
    pub(super) fn failures(&self) -> u64 {
        self.failures
    }

    /// Takes the stream's next bytes, and prints every message that is complete.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut dyn Write) -> std::io::Result<()> {
        if self.lost {
            self.skipped += bytes.len() as u64;
            return Ok(());
        }
        self.buffer.extend_from_slice(bytes);
        let mut at = 0;
        while !self.lost {
            let rest = &self.buffer[at..];
            match Header::peek(rest) {
                Ok(Some(header)) if rest.len() >= usize::from(header.length) => {
                    let end = at + usize::from(header.length);
                    self.print(&header, at..end, out)?;
                    at = end;
                }
                Ok(_) => break,
                Err(error) => {
                    self.failures += 1;
                    self.lost = true;
                    let (prefix, offset) = (&self.prefix, self.offset + at as u64);
                    writeln!(out, "{prefix}***offset {offset}: {error}***")?;
                }
            }
        }
        self.buffer.drain(..at);
        self.offset += at as u64;
        if self.lost {
            self.skipped = self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    fn print(&mut self, header: &Header, range: std::ops::Range<usize>, out: &mut dyn Write) -> std::io::Result<()> {
        let (prefix, offset) = (&self.prefix, self.offset + range.start as u64);
        match Message::decode(&self.buffer[range]) {
            Ok((header, message)) => writeln!(out, "{prefix}{}", print::message(&header, &message)),
            Err(error) => {
                self.failures += 1;
                let (what, length) = (print::header(header), header.length);
                writeln!(out, "{prefix}***offset {offset}: {what}, {length} bytes: {error}***")
            }
        }
    }

    /// Reports that `missing` bytes are absent. The bytes after them are skipped.
    fn miss(&mut self, missing: u64, out: &mut dyn Write) -> std::io::Result<()> {
        self.finish(out)?;
        writeln!(out, "{}***offset {}: {missing} bytes are not in the capture***", self.prefix, self.offset)?;
        self.failures += 1;
        self.offset += missing;
        self.lost = true;
        Ok(())
    }

    /// Reports whether the stream has lost its message boundaries.
    fn is_lost(&self) -> bool {
        self.lost
    }

    /// Resumes decoding at the next bytes, which start a message, and reports what was skipped.
    fn resume(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        self.lost = false;
        self.report_skipped(out)
    }

    fn report_skipped(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        let skipped = std::mem::take(&mut self.skipped);
        if skipped == 0 {
            return Ok(());
        }
        self.failures += 1;
        writeln!(out, "{}***offset {}: {skipped} bytes skipped***", self.prefix, self.offset)?;
        self.offset += skipped;
        Ok(())
    }

    /// Ends the stream. The remaining bytes are the start of a message.
    pub(super) fn finish(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        self.report_skipped(out)?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.failures += 1;
        let (prefix, offset, have) = (&self.prefix, self.offset, self.buffer.len());
        match Header::peek(&self.buffer) {
            Ok(Some(Header { length, .. })) => {
                writeln!(out, "{prefix}***offset {offset}: message of {length} bytes ends after {have}***")?;
            }
            _ => writeln!(out, "{prefix}***offset {offset}: {have} bytes are too few for a message***")?,
        }
        self.offset += have as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// The streams of a capture, one for each direction of each connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    directions: BTreeMap<(SocketAddr, SocketAddr), Direction>,
    failures: u64,
}

impl Streams {
    /// Takes the next segment of the capture, and prints what it completes.
    pub(super) fn push(&mut self, segment: Segment, out: &mut dyn Write) -> std::io::Result<()> {
        let key = (segment.from, segment.to);
        if self.directions.get(&key).is_some_and(|old| old.is_ended_by(&segment))
            && let Some(mut old) = self.directions.remove(&key)
        {
            self.failures += old.finish(out)?;
        }
        let direction = self.directions.entry(key).or_insert_with(|| Direction::new(&segment));
        direction.push(segment, out)
    }

    /// Reports whether no segment has come.
    pub(super) fn is_empty(&self) -> bool {
        self.directions.is_empty()
    }

    /// Prints all that is complete without the missing segments. Returns the number of failures.
    pub(super) fn finish(mut self, out: &mut dyn Write) -> std::io::Result<u64> {
        for direction in self.directions.values_mut() {
            self.failures += direction.finish(out)?;
        }
        Ok(self.failures)
    }
}

/// One direction of a connection: bytes in the order of their sequence numbers.
#[derive(Debug)]
struct Direction {
    decoder: Decoder,
    /// Sequence number of the next byte for the decoder.
    next: u32,
    /// Segments that came too early, by their distance from the stream's first byte.
    early: BTreeMap<u64, Vec<u8>>,
    /// Bytes in `early`.
    waiting: usize,
    /// Distance of `next` from the stream's first byte.
    position: u64,
}

impl Direction {
    /// Creates a stream that starts with this segment: after its SYN, or with its data if the capture began later.
    fn new(first: &Segment) -> Direction {
        let prefix = format!("{} > {}: ", endpoint(first.from), endpoint(first.to));
        let mut decoder = Decoder::new(prefix);
        // Without the SYN the data can start anywhere in a message.
        decoder.lost = !first.syn;
        let next = first.sequence.wrapping_add(u32::from(first.syn));
        Direction { decoder, next, early: BTreeMap::new(), waiting: 0, position: 0 }
    }

    /// Reports whether this segment opens another connection between the same ports. A repeated SYN does not.
    fn is_ended_by(&self, segment: &Segment) -> bool {
        let first = self.next.wrapping_sub(self.position as u32);
        segment.syn && segment.sequence.wrapping_add(1) != first
    }

    fn push(&mut self, segment: Segment, out: &mut dyn Write) -> std::io::Result<()> {
        let sequence = segment.sequence.wrapping_add(u32::from(segment.syn));
        let ahead = sequence.wrapping_sub(self.next) as i32;
        if ahead > 0 {
            self.keep(self.position + ahead as u64, segment.data);
        } else if let Some(new) = segment.data.get(ahead.unsigned_abs() as usize..) {
            self.take(new, out)?;
        }
        self.take_early(out)?;
        while self.waiting > MAX_WAITING {
            self.skip_gap(out)?;
        }
        Ok(())
    }

    fn keep(&mut self, position: u64, data: &[u8]) {
        let known = self.early.get(&position).map_or(0, Vec::len);
        if data.len() > known {
            self.waiting += data.len() - known;
            self.early.insert(position, data.to_vec());
        }
    }

    fn take(&mut self, data: &[u8], out: &mut dyn Write) -> std::io::Result<()> {
        if self.decoder.is_lost() && starts_message(data) {
            self.decoder.resume(out)?;
        }
        self.next = self.next.wrapping_add(data.len() as u32);
        self.position += data.len() as u64;
        self.decoder.push(data, out)
    }

    /// Takes the early segments whose turn has come.
    fn take_early(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        while let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() <= self.position) {
            let (position, data) = entry.remove_entry();
            self.waiting -= data.len();
            if let Some(new) = data.get((self.position - position) as usize..) {
                self.take(new, out)?;
            }
        }
        Ok(())
    }

    /// Gives up the missing bytes before the first early segment.
    fn skip_gap(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        if let Some((position, _)) = self.early.first_key_value() {
            let missing = position - self.position;
            self.decoder.miss(missing, out)?;
            self.position += missing;
            self.next = self.next.wrapping_add(missing as u32);
        }
        self.take_early(out)
    }

    fn finish(&mut self, out: &mut dyn Write) -> std::io::Result<u64> {
        while !self.early.is_empty() {
            self.skip_gap(out)?;
        }
        self.decoder.finish(out)?;
        Ok(self.decoder.failures())
    }
}

/// Reports whether these bytes look like the start of a message. They can be the middle of one.
pub(super) fn starts_message(data: &[u8]) -> bool {
    length_of_first(data).is_some()
}

/// Reports whether these bytes look like complete messages.
pub(super) fn are_messages(mut data: &[u8]) -> bool {
    while let Some(rest) = length_of_first(data).and_then(|length| data.get(length..)) {
        data = rest;
    }
    data.is_empty()
}

/// Returns the length of the message whose start these bytes look like.
fn length_of_first(data: &[u8]) -> Option<usize> {
    let known = |header: &Header| (1..=6).contains(&header.version) && header.kind <= 35;
    Header::peek(data).ok().flatten().filter(known).map(|header| header.length.into())
}

/// Returns an address and port as Open vSwitch prints them.
fn endpoint(address: SocketAddr) -> String {
    format!("{}.{}", address.ip(), address.port())
}
