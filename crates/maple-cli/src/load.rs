//! `maple load`: sends packets to a controller and times its answers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use maple_controller::file_limit;
use maple_emulator::Topology;
use maple_load::{DISCOVERY, LoadError, LoadOptions, Mode, TlsFiles, Wiring, Workload, descriptors};

use crate::decode;
use crate::options::{LoadArgs, LoadMode};
use crate::output::{escape_json, print_line};
use crate::usage_error::{OrUsageError as _, usage_error};

/// The default window of `--mode throughput`, in packet-ins. Chosen: it keeps a controller busy by itself, also with
/// one switch; a larger one only adds delay.
const WINDOW: u32 = 512;
/// The default window of `--mode rate`, in packet-ins. Chosen: so large that it rarely limits the rate.
const RATE_WINDOW: u32 = 4096;
/// The maximum number of packets of a trace. Chosen: hundreds of megabytes of frames at most, and many times the flows
/// of a run.
const MAX_PACKETS: usize = 1_000_000;
/// The first bytes of a file that gzip has compressed (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Generates the load and prints the report. The exit status is 1 if the measurement is invalid.
///
/// # Errors
/// If options or files are wrong, or if the controller can't be reached or breaks the protocol.
pub fn main(args: &LoadArgs) -> anyhow::Result<u8> {
    let options = options(args)?;
    descriptors::suffice(file_limit::raise(), u64::from(options.switches))?;
    let progress = progress(&options);
    let report = maple_load::run(&options);
    progress.finish_and_clear();
    let report = report.map_err(|error| match error {
        LoadError::Wrong(_) => usage_error(error),
        _ => error.into(),
    })?;
    if args.json {
        print_line(escape_json(&serde_json::to_string(&report)?));
    } else {
        print_line(&report);
    }
    Ok(u8::from(!report.is_result()))
}

/// Shows the progress on standard error, if that is a terminal.
fn progress(options: &LoadOptions) -> ProgressBar {
    let all = options.settle + options.warmup + options.duration;
    let style = ProgressStyle::with_template("{spinner:.green} {elapsed} of {msg}");
    let bar = ProgressBar::new_spinner().with_message(HumanDuration(all).to_string());
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn options(args: &LoadArgs) -> anyhow::Result<LoadOptions> {
    let mode = match (args.mode, args.rate) {
        (LoadMode::Throughput | LoadMode::Latency, _) if args.burst.is_some() => {
            return Err(usage_error(anyhow!("--burst needs --mode rate")));
        }
        (LoadMode::Throughput | LoadMode::Latency, Some(_)) => {
            return Err(usage_error(anyhow!("--rate needs --mode rate")));
        }
        (LoadMode::Throughput, None) => Mode::Throughput { window: args.window.unwrap_or(WINDOW) },
        (LoadMode::Latency, None) if args.window.is_some_and(|window| window != 1) => {
            return Err(usage_error(anyhow!(
                "--mode latency is a window of 1: leave out --window, or choose --mode throughput"
            )));
        }
        (LoadMode::Latency, None) => Mode::Throughput { window: 1 },
        (LoadMode::Rate, Some(per_second)) => {
            let window = args.window.unwrap_or(RATE_WINDOW);
            let burst = args.burst.unwrap_or_else(|| maple_load::burst(per_second).min(window));
            Mode::Rate { per_second, window, burst }
        }
        (LoadMode::Rate, None) => return Err(usage_error(anyhow!("--mode rate needs --rate"))),
    };
    let mut options = LoadOptions {
        tls: args.tls_ca.clone().map(|authorities| TlsFiles {
            authorities,
            certificate: args.tls_cert.clone().zip(args.tls_key.clone()),
            version: args.tls_version,
        }),
        reconnects: args.reconnect,
        switches: args.switches,
        macs: args.macs,
        mode,
        flooding: args.flooding,
        version: args.of,
        duration: args.duration,
        warmup: args.warmup,
        watch: args.pid,
        ..LoadOptions::new(args.connect)
    };
    if let Some(file) = &args.trace {
        options.workload = Workload::Frames(Arc::new(frames(file)?));
    }
    if let Some(topology) = &args.topology {
        let network = Wiring::from(&Topology::parse(topology).or_usage_error()?);
        options.switches = network.switches.len() as u32;
        options.workload = Workload::Network(Arc::new(network));
        options.settle = DISCOVERY;
    }
    options.settle = args.settle.unwrap_or(options.settle);
    Ok(options)
}

/// Reads the frames of a capture, or builds them from the headers of a trace.
fn frames(file: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let bytes = std::fs::read(file).with_context(|| format!("can't read {}", file.display()))?;
    let frames = match decode::ethernet_frames(&bytes, MAX_PACKETS) {
        Some(frames) => frames.with_context(|| file.display().to_string())?,
        None => built_frames(&bytes, file)?,
    };
    if frames.is_empty() {
        bail!("{} has no packets", file.display());
    }
    Ok(frames)
}

/// Builds the frames of a header trace. Errors name file and line.
fn built_frames(bytes: &[u8], file: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    if bytes.starts_with(&GZIP) {
        bail!("{} is compressed: unpack it first (gunzip)", file.display());
    }
    let text = std::str::from_utf8(bytes).with_context(|| file.display().to_string())?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let frame = |(number, line): (usize, &str)| match maple_load::traced_header(line) {
        Ok((header, _)) => Ok(header.frame()),
        Err(wrong) => bail!("{}:{number}: {wrong}", file.display()),
    };
    lines.take(MAX_PACKETS).map(frame).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_a_capture_or_headers() {
        // The header has magic, version 2.4, zone 0, accuracy 0, 65535 bytes a packet and Ethernet; one packet of 16
        // bytes follows.
        let mut pcap = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
        pcap.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 16, 0, 0, 0]);
        pcap.extend_from_slice(&[7; 16]);
        let file = tempfile::Builder::new().prefix("maple-load-").tempfile().unwrap().into_temp_path();
        std::fs::write(&file, &pcap).unwrap();
        assert_eq!(frames(&file).unwrap(), [vec![7; 16]]);
        std::fs::write(&file, b"167772161\t167772162\t7\t80\t6\t0\t0\n").unwrap();
        let made = frames(&file).unwrap();
        assert_eq!((made.len(), &made[0][..12]), (1, &[2, 0, 10, 0, 0, 2, 2, 0, 10, 0, 0, 1][..]));
        std::fs::write(&file, b"167772161\tx\n").unwrap();
        assert!(frames(&file).unwrap_err().to_string().contains("maple-load-"), "the file is named");
        std::fs::write(&file, [0x1f, 0x8b, 8, 0]).unwrap();
        assert!(frames(&file).unwrap_err().to_string().ends_with("is compressed: unpack it first (gunzip)"));
        std::fs::write(&file, &pcap[..30]).unwrap();
        assert!(format!("{:#}", frames(&file).unwrap_err()).contains("offset 24"));
    }
}
