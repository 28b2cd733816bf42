//! `maple check`: searches for reads of a policy that Maple cannot track.
//!
//! f runs on generated and given packets in an imaginary network, twice in succession and again in a few rounds
//! ([`maple_core::check`]). Findings of a language's loader, which reads the source, come first.

mod constraints;
mod print_findings;
mod topologies;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, anyhow};
use maple_controller::ControllerOptions;
use maple_core::check::Check;
use maple_core::state::Store;
use maple_emulator::Topology;
use maple_lab::costs_of;

use crate::options::{CheckArgs, CheckOptions};
use crate::policy::{Loaded, PolicyLoader, PolicyName, Suspicion, load};
use crate::usage_error::{OrUsageError as _, usage_error};
use crate::values::OnOff;
use crate::{decode, link_costs};

/// Runs `maple check POLICY`. The exit status is 1 if something was found.
///
/// # Errors
/// If the policy can't be loaded or is a handler, or if an option's file or topology is wrong.
pub fn main(args: CheckArgs, loader: Option<&dyn PolicyLoader>) -> anyhow::Result<u8> {
    let name = PolicyName::parse(&args.policy);
    loader.map_or(Ok(()), PolicyLoader::print_aside)?;
    let Loaded::Policy(loaded) = load(&args.policy, args.policy_time_limit, loader)? else {
        let why = "is a handler: what handlers read is not tracked, so there is nothing to check";
        return Err(usage_error(anyhow!("{} {why}", args.policy)));
    };
    let suspicions = match (name.program(), loader) {
        (Some((file, name)), Some(loader)) => loader.inspect(file, name)?,
        _ => Vec::new(),
    };
    check_loaded(&args.options, loaded, &suspicions)
}

/// Checks a loaded policy. The exit status is 1 if something was found.
///
/// # Errors
/// If an option's file or topology is wrong.
pub fn check_loaded(options: &CheckOptions, loaded: ControllerOptions, suspicions: &[Suspicion]) -> anyhow::Result<u8> {
    let ControllerOptions { policy, store, snooping, engine, .. } = loaded;
    // No subscription exists yet, so there is no leaf to invalidate.
    drop(snooping.declare(&store)?);
    let track_hosts = options.track_hosts.map_or(engine.track_hosts, |wish| wish == OnOff::On);
    let frames = captured(&options.pcap)?;
    let topology = Topology::parse(&options.network).or_usage_error()?;
    prepare(&store, &topology, options)?;
    let hosts = topologies::hosts(&topology, &frames);
    let samples = topologies::samples(&hosts, frames);
    let began = Instant::now();
    let clock = Box::new(move || began.elapsed());
    let check = Check::new(Arc::clone(&policy), store, hosts, track_hosts, options.seed, clock);
    let mut check = check.with_look_up_tables(options.look_ups);
    samples.into_iter().rev().for_each(|sample| check.give(sample));
    if options.constraints {
        if check.constraints().is_empty() {
            return Err(usage_error(anyhow!(
                "--constraints: the policy has none; guard(policy, …) puts it under some"
            )));
        }
        check.for_all_packets();
    }
    check.explore(options.packets);
    for _ in 0..options.rounds {
        std::thread::sleep(options.pause.0);
        check.again();
    }
    let size = print_findings::Size { hosts: options.hosts, switches: topology.switches.len() as u64 };
    Ok(print_findings::print(&check, suspicions, size, options)?)
}

/// Writes switches, links and costs into the store.
fn prepare(store: &Store, topology: &Topology, options: &CheckOptions) -> anyhow::Result<()> {
    store.update(|_| topologies::writes(topology));
    let costs = costs_of(topology, &store.snapshot());
    store.update(|_| costs);
    if let Some(path) = &options.costs {
        let costs = link_costs::read(path)?;
        store.update(|_| costs);
    }
    Ok(())
}

/// Reads the frames of captures, in order.
fn captured(files: &[PathBuf]) -> anyhow::Result<Vec<Vec<u8>>> {
    let read = |path: &Path| {
        let bytes = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
        let frames = decode::ethernet_frames(&bytes, usize::MAX)
            .context("it is not a capture (pcap or pcapng)")
            .and_then(|frames| frames);
        frames.with_context(|| path.display().to_string())
    };
    let all: Vec<Vec<Vec<u8>>> = files.iter().map(|path| read(path)).collect::<anyhow::Result<_>>()?;
    Ok(all.concat())
}
