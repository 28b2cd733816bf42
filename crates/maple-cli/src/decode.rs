//! `maple decode`: prints OpenFlow messages, one for each line, in the form of `ovs-ofctl ofp-print`.
//!
//! Messages come as hex text, as consecutive bytes, or as a packet capture, from arguments, files or standard input.
//! For a message that can't be decoded, one line says where it is and what is wrong. Decoding continues after it, by
//! its length field.

mod hex;
mod pcap;
mod pcapng;
mod segment;
mod stream;

use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use pcap::Capture;
use segment::Segment;
use stream::{Decoder, Streams};

/// What to decode.
#[derive(Clone, Debug, clap::Args)]
pub struct DecodeArgs {
    /// Messages in hex, or files; `-` or no argument reads standard input
    ///
    /// An argument that names a file is read. All others together are one text in hex, with or without white space
    /// and `0x`.
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
    /// Detect it: a capture by its magic number, hex if all characters are hex digits, otherwise bytes
    Auto,
    /// Text in hex
    Hex,
    /// Consecutive messages as bytes
    Binary,
    /// A packet capture (pcap or pcapng)
    Pcap,
}

/// At most `most` Ethernet frames of a capture; `None` if the bytes are no capture.
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

/// Prints the messages to `out`, and a line for each that can't be decoded.
///
/// The exit status is 1 if there were any of these.
///
/// # Errors
/// If an input can't be read, or does not have its form.
pub fn run(args: DecodeArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let mut failures = 0;
    for input in inputs(&args.inputs)? {
        failures += decode(&input, &args, out).with_context(|| input.name.clone())?;
    }
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The bytes of an input, and their source.
struct Input {
    name: String,
    bytes: Vec<u8>,
    /// The input was an argument, so it must be hex.
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
fn decode(input: &Input, args: &DecodeArgs, out: &mut dyn Write) -> anyhow::Result<u64> {
    let format = match args.format {
        _ if input.is_argument => Format::Hex,
        Format::Auto => detect(&input.bytes),
        forced => forced,
    };
    match format {
        Format::Hex => decode_bytes(&hex::parse(&input.bytes)?, out),
        Format::Binary | Format::Auto => decode_bytes(&input.bytes, out),
        Format::Pcap => decode_capture(&input.bytes, &args.ports, out),
    }
}

fn detect(bytes: &[u8]) -> Format {
    if pcap::is_capture(bytes) {
        Format::Pcap
    } else if hex::is_hex(bytes) {
        Format::Hex
    } else {
        Format::Binary
    }
}

fn decode_bytes(bytes: &[u8], out: &mut dyn Write) -> anyhow::Result<u64> {
    if bytes.is_empty() {
        bail!("no messages: the input is empty");
    }
    let mut decoder = Decoder::new(String::new());
    decoder.push(bytes, out)?;
    decoder.finish(out)?;
    Ok(decoder.failures())
}

fn decode_capture(bytes: &[u8], ports: &[u16], out: &mut dyn Write) -> anyhow::Result<u64> {
    let mut streams = Streams::default();
    let mut capture = Capture::new(bytes)?;
    let mut failures = 0;
    while let Some(record) = capture.next_packet() {
        match record {
            Ok((link_type, packet)) => {
                let segment = Segment::find(link_type, packet);
                if let Some(segment) =
                    segment.filter(|s| ports.contains(&s.from.port()) || ports.contains(&s.to.port()))
                {
                    streams.push(segment, out)?;
                }
            }
            Err(error) => {
                writeln!(out, "***{error}***")?;
                failures += 1;
            }
        }
    }
    Ok(failures + streams.finish(out)?)
}

#[cfg(test)]
mod tests;
