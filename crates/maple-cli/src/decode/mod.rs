//! `maple decode`: prints OpenFlow messages, one for each line, in the form of `ovs-ofctl ofp-print`.
//!
//! Messages come as hex text, as consecutive bytes, or as a packet capture, from arguments, files or standard input.
//! Hex text may be a dump, also one of captured packets. For a message that can't be decoded, one line names its place
//! and the fault. Decoding continues after it, by its length field.

mod dump;
mod follow;
mod hex;
mod pcap;
mod pcapng;
mod segment;
mod skipped;
mod stream;

use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use hex::Hex;
use pcap::Capture;
use segment::{LinkType, Segment};
use skipped::Skipped;
use stream::{Decoder, Streams, are_messages};

/// The maximum number of characters that are quoted from a text. Chosen: an error stays a line.
const MAX_QUOTED: usize = 60;

/// The arguments of `maple decode`.
#[derive(Clone, Debug, clap::Args)]
pub struct DecodeArgs {
    /// Messages in hex, or files; `-` or no argument reads standard input
    ///
    /// An argument that names a file is read. All others together are one text in hex, with or without white space
    /// and `0x`. Hex may also be what hexdump -C, xxd, od -t x1, tcpdump -x (-xx, -X), tshark -x and
    /// tshark -z follow,tcp,raw,N print.
    #[arg(value_name = "HEX|FILE")]
    pub inputs: Vec<String>,

    /// The form of the input
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    pub format: Format,

    /// TCP port of the controller in a capture; may be given several times
    #[arg(long = "port", value_name = "PORT", default_values_t = [6653, 6633])]
    pub ports: Vec<u16>,
}

/// The form of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Detect it: a capture by its magic number, hex if the text is hex digits or a dump, otherwise bytes
    Auto,
    /// Text in hex, or a dump in hex
    Hex,
    /// Consecutive messages as bytes
    Binary,
    /// A packet capture (pcap or pcapng)
    Pcap,
}

/// Returns at most `most` Ethernet frames of a capture; `None` if the bytes are not a capture.
pub(crate) fn ethernet_frames(bytes: &[u8], most: usize) -> Option<anyhow::Result<Vec<Vec<u8>>>> {
    if !pcap::is_capture(bytes) {
        return None;
    }
    let frames = || {
        let mut capture = Capture::new(bytes)?;
        let mut frames = Vec::new();
        while frames.len() < most
            && let Some(packet) = capture.next_packet()
        {
            match packet? {
                (segment::LinkType::Ethernet, frame) => frames.push(frame.to_vec()),
                (other, _) => bail!("its packets are no Ethernet frames, but {other:?}"),
            }
        }
        Ok(frames)
    };
    Some(frames())
}

/// Prints the messages to `out`, with a line for each that can't be decoded, and prints to `notes` what was left out.
///
/// The exit status is 1 if a message could not be decoded.
///
/// # Errors
/// If an input can't be read, or does not have its form.
pub fn run(args: DecodeArgs, out: &mut dyn Write, notes: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut failures = 0;
    for input in inputs(&args.inputs)? {
        failures += decode(&input, &args, out, notes).with_context(|| input.name.clone())?;
    }
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The bytes of an input, and their source.
struct Input {
    name: String,
    bytes: Vec<u8>,
    /// Whether the input was an argument, which must be hex.
    is_argument: bool,
}

fn inputs(arguments: &[String]) -> anyhow::Result<Vec<Input>> {
    if arguments.is_empty() {
        return Ok(vec![standard_input()?]);
    }
    let (mut inputs, mut text) = (Vec::new(), Vec::new());
    for argument in arguments {
        if argument == "-" {
            inputs.push(standard_input()?);
        } else if Path::new(argument).is_file() || !hex::is_hex(argument.as_bytes()) {
            let bytes =
                std::fs::read(argument).with_context(|| format!("{argument}: neither hex nor a file to read"))?;
            inputs.push(Input { name: argument.clone(), bytes, is_argument: false });
        } else {
            text.push(argument.as_str());
        }
    }
    if !text.is_empty() {
        let bytes = text.join(" ").into_bytes();
        inputs.insert(0, Input { name: "argument".to_owned(), bytes, is_argument: true });
    }
    Ok(inputs)
}

fn standard_input() -> anyhow::Result<Input> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("standard input")?;
    Ok(Input { name: "standard input".to_owned(), bytes, is_argument: false })
}

/// Prints the messages of one input. Returns the number that could not be decoded.
fn decode(input: &Input, args: &DecodeArgs, out: &mut dyn Write, notes: &mut dyn Write) -> anyhow::Result<u64> {
    let format = match args.format {
        _ if input.is_argument => Format::Hex,
        Format::Auto => detect(&input.bytes)?,
        forced => forced,
    };
    let mut packets = Packets::new(&args.ports, out);
    match format {
        Format::Hex => match hex::read(&input.bytes)? {
            Hex::Bytes(bytes) if pcap::is_capture(&bytes) => packets.capture(&bytes)?,
            Hex::Bytes(bytes) => return decode_dumps(&[bytes], packets, notes),
            Hex::Dumps(dumps) => return decode_dumps(&dumps, packets, notes),
            Hex::Streams(streams) => return streams.iter().map(|bytes| decode_bytes(bytes, packets.out)).sum(),
        },
        Format::Binary | Format::Auto => return decode_bytes(&input.bytes, out),
        Format::Pcap => packets.capture(&input.bytes)?,
    }
    packets.finish(notes)
}

/// Detects the form of these bytes.
///
/// # Errors
/// A description of the bytes, if they can't be messages.
fn detect(bytes: &[u8]) -> anyhow::Result<Format> {
    if pcap::is_capture(bytes) {
        return Ok(Format::Pcap);
    }
    if hex::is_hex(bytes) {
        return Ok(Format::Hex);
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        bail!("this is compressed, and no message: decode what gunzip makes of it");
    }
    // The first byte of a message is its version, with which no text begins.
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(is_of_text) && !text.trim().is_empty() => {
            let why = hex::read(bytes).err().map(|error| format!(" ({error})")).unwrap_or_default();
            let first: String = text.trim().lines().next().unwrap_or_default().chars().take(MAX_QUOTED).collect();
            bail!("this is text, and no message, nor hex{why}: it begins with {first:?}")
        }
        _ => Ok(Format::Binary),
    }
}

/// Reports whether text contains such characters: of the control characters, only white space and that of colours.
fn is_of_text(c: char) -> bool {
    !c.is_control() || c.is_ascii_whitespace() || c == '\u{1b}'
}

fn decode_bytes(bytes: &[u8], out: &mut dyn Write) -> anyhow::Result<u64> {
    if bytes.trim_ascii().is_empty() {
        bail!("no messages: the input is empty");
    }
    let mut decoder = Decoder::new(String::new());
    decoder.push(bytes, out)?;
    decoder.finish(out)?;
    Ok(decoder.failures())
}

/// Decodes dumps, which are consecutive messages or captured packets.
fn decode_dumps(dumps: &[Vec<u8>], mut packets: Packets<'_>, notes: &mut dyn Write) -> anyhow::Result<u64> {
    let link_type = |dump: &Vec<u8>| if are_messages(dump) { None } else { LinkType::guess(dump) };
    if !dumps.iter().any(|dump| link_type(dump).is_some()) {
        return decode_bytes(&dumps.concat(), packets.out);
    }
    for dump in dumps {
        if let Some(link_type) = link_type(dump) {
            packets.take(link_type, dump)?;
        }
    }
    packets.finish(notes)
}

/// Captured packets. The streams of some ports are decoded.
struct Packets<'a> {
    ports: &'a [u16],
    out: &'a mut dyn Write,
    streams: Streams,
    skipped: Skipped,
    failures: u64,
}

impl<'a> Packets<'a> {
    fn new(ports: &'a [u16], out: &'a mut dyn Write) -> Packets<'a> {
        Packets { ports, out, streams: Streams::default(), skipped: Skipped::default(), failures: 0 }
    }

    fn capture(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut capture = Capture::new(bytes)?;
        while let Some(record) = capture.next_packet() {
            match record {
                Ok((link_type, packet)) => self.take(link_type, packet)?,
                Err(error) => {
                    writeln!(self.out, "***{error}***")?;
                    self.failures += 1;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, link_type: LinkType, packet: &[u8]) -> std::io::Result<()> {
        match Segment::find(link_type, packet) {
            Some(segment) if [segment.from, segment.to].iter().any(|end| self.ports.contains(&end.port())) => {
                self.streams.push(segment, self.out)
            }
            Some(segment) => {
                self.skipped.add(&segment);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Prints the rest, and notes what was left out. Returns the number of failures.
    fn finish(self, notes: &mut dyn Write) -> anyhow::Result<u64> {
        if let Some(note) = self.skipped.note(self.ports) {
            writeln!(notes, "{note}")?;
        } else if self.streams.is_empty() && self.failures == 0 {
            writeln!(notes, "note: no TCP stream is in the capture")?;
        }
        Ok(self.failures + self.streams.finish(self.out)?)
    }
}

#[cfg(test)]
mod tests;
