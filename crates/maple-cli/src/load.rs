//! `maple load`: packets for a controller, and how fast it answers.

use anyhow::bail;
use maple_load::{LoadOptions, Mode};

use crate::args::{LoadArgs, LoadMode};
use crate::say;

/// Window of `--mode throughput`.
const WINDOW: u32 = 512;
/// Window of `--mode rate`: so much that it seldom holds anything back.
const RATE_WINDOW: u32 = 4096;

/// Makes the load and prints the report. The exit status is 1 if its figures are no result.
pub fn main(args: &LoadArgs) -> anyhow::Result<u8> {
    let report = maple_load::run(&options(args)?)?;
    if args.json {
        say(serde_json::to_string(&report)?);
    } else {
        say(&report);
    }
    Ok(u8::from(!report.is_result()))
}

fn options(args: &LoadArgs) -> anyhow::Result<LoadOptions> {
    let mode = match (args.mode, args.rate) {
        (LoadMode::Throughput | LoadMode::Latency, Some(_)) => bail!("--rate needs --mode rate"),
        (LoadMode::Throughput, None) => Mode::Throughput { window: args.window.unwrap_or(WINDOW) },
        (LoadMode::Latency, None) if args.window.is_some_and(|window| window != 1) => {
            bail!("--mode latency is a window of 1: leave out --window, or choose --mode throughput")
        }
        (LoadMode::Latency, None) => Mode::Throughput { window: 1 },
        (LoadMode::Rate, Some(per_second)) => Mode::Rate { per_second, window: args.window.unwrap_or(RATE_WINDOW) },
        (LoadMode::Rate, None) => bail!("--mode rate needs --rate"),
    };
    Ok(LoadOptions {
        switches: args.switches,
        macs: args.macs,
        mode,
        version: args.of,
        duration: args.duration,
        warmup: args.warmup,
        watch: args.pid,
        ..LoadOptions::new(args.connect)
    })
}
