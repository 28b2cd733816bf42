//! The other scenarios of `maple-bench flows`: a link that fails, a port that floods, all pairs of hosts, discovery.

mod all_pairs;
mod discovery;
mod failover;
mod flood;

use std::fmt::Display;

use maple_emulator::Topology;
use maple_load::{NetworkHost, Wiring};
use serde::Serialize;

use super::FlowsArgs;
use super::targets::{self, TargetResult};
use crate::error::BenchError;
use crate::output::print_line;
use crate::report::TextTable;

/// The results of a scenario as text, with its targets.
#[derive(Debug, Default, Serialize)]
pub struct Answer {
    question: String,
    figures: Vec<(String, String)>,
    targets: Vec<TargetResult>,
    /// The reasons why the result is invalid, if it is.
    doubts: Vec<String>,
}

impl Answer {
    fn new(question: impl Into<String>) -> Answer {
        Answer { question: question.into(), ..Answer::default() }
    }

    fn figure(&mut self, what: &str, value: impl Display) {
        self.figures.push((what.to_owned(), value.to_string()));
    }

    fn text(&self) -> String {
        let mut table = TextTable::new([self.question.as_str(), ""]);
        self.figures.iter().for_each(|(what, value)| table.row([what, value]));
        let doubts: String = self.doubts.iter().map(|doubt| format!("NO RESULT: {doubt}\n")).collect();
        format!("{table}{doubts}\n{}", targets::table(&self.targets)).trim_end().to_owned()
    }
}

/// Runs the requested scenario, if there is one. Returns the exit status.
///
/// # Errors
/// If a topology is invalid, or if the controller or the network can't be started, or fails.
pub fn main(args: &FlowsArgs) -> anyhow::Result<Option<u8>> {
    let answer = if let Some(topology) = &args.failover {
        failover::answer(args, topology)?
    } else if let Some(addresses) = args.flood_port {
        flood::answer(args, addresses)?
    } else if let Some(topology) = &args.all_pairs {
        all_pairs::answer(args, topology)?
    } else if let Some(switches) = args.discovery {
        discovery::answer(args, switches)?
    } else {
        return Ok(None);
    };
    print_line(if args.output.json { serde_json::to_string_pretty(&answer)? } else { answer.text() });
    Ok(Some(u8::from(!answer.doubts.is_empty())))
}

/// Builds the network of a topology, with several hosts at the port of each of its hosts.
fn network(topology: &str, each: u32) -> anyhow::Result<Wiring> {
    let mut network = Wiring::from(&Topology::parse(topology).map_err(BenchError::usage)?);
    let ports: Vec<NetworkHost> = std::mem::take(&mut network.hosts);
    let hosts = ports.iter().flat_map(|host| (0..each).map(move |_| host.clone()));
    network.hosts = (1u32..)
        .zip(hosts)
        .map(|(n, host)| {
            let [a, b, c, d] = n.to_be_bytes();
            NetworkHost { mac: [2, 0, a, b, c, d], ip: [10, b, c, d].into(), ..host }
        })
        .collect();
    Ok(network)
}
