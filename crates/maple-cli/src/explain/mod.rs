//! `maple explain`: why a packet goes where it goes, asked of a running controller.

pub mod dropped;
mod live;
mod recorded;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use maple_controller::control::explain::{Explain, ExplainRequest, ExplainRule, to_text};
use maple_controller::control::socket::{Live, Reach, Request, ask};
use maple_controller::names::Names;
use maple_core::policy::Policy;
use serde_json::Value;

use crate::decode::ethernet_frames;
use crate::options::controller_to_ask;
use crate::output::{json_text, print_text};
use crate::policy::PolicyLoader;
use crate::replay::ReplayParameters;
use crate::show::{hint, names};

/// The maximum number of packets of a capture that are explained. Chosen: each costs the controller a run of f, and
/// nobody reads as many explanations.
const MAX_PACKETS: usize = 1000;

/// `maple explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Fields have the names that policies use: tcp_dst=80 udp_src=53 ip_proto=47 vlan_vid=5 ipv4_src=10.0.9.9 eth_type=0x806. \
    What is not said is what the network knows of the hosts; without any field it is an echo request. \
    Nothing changes by asking: no rule, no count, no state."
)]
pub struct ExplainArgs {
    /// Fields of the packet: tcp_dst=80
    #[arg(value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// Sender of the packet: a host (its name, hardware address or IP address), or a port such as 1:3
    #[arg(long, value_name = "HOST|PORT")]
    from: Option<String>,
    /// Receiver of the packet: a host or a port, as with --from
    #[arg(long, value_name = "HOST|PORT")]
    to: Option<String>,
    /// Port where the packet enters [default: the one of its sender]
    #[arg(long, value_name = "SWITCH:PORT")]
    port: Option<String>,
    /// In the place of a running controller, what `maple run --record FOLDER` has recorded
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["control", "rule", "matching", "dropped", "live", "no_counters"])]
    recording: Option<PathBuf>,
    /// Moment in the recording: a time such as 90s since the recording's start,
    /// 2026-11-26T04:15:11Z, or 04:15 [default: its end]
    #[arg(long, value_name = "TIME", requires = "recording")]
    at: Option<String>,
    /// The whole frame as hex digits, from the Ethernet header on
    #[arg(long, value_name = "HEX", conflicts_with_all = ["fields", "to"])]
    packet: Option<String>,
    /// The frames of a capture (pcap or pcapng); `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fields", "to", "packet"])]
    pcap: Option<PathBuf>,
    /// The way back from a rule: the packet that it was made for, by the rule's cookie
    #[arg(long, value_name = "COOKIE", group = "which_rule", conflicts_with_all = ["fields", "from", "to", "port", "packet", "pcap"])]
    rule: Option<String>,
    /// The way back from a rule by its match, as `maple show rules` prints it
    #[arg(long = "match", value_name = "MATCH", group = "which_rule", conflicts_with_all = ["fields", "from", "to", "port", "packet", "pcap"])]
    matching: Option<String>,
    /// The switch that has this rule [default: the first one that has it]
    #[arg(long, value_name = "SWITCH", requires = "which_rule")]
    switch: Option<String>,
    /// Do not ask the switches for the counters of the rules
    #[arg(long)]
    no_counters: bool,
    /// In the place of one packet: what was dropped in the last minutes, by source line and host
    #[arg(long, conflicts_with_all = ["fields", "from", "to", "port", "packet", "pcap", "rule", "matching", "switch"])]
    dropped: bool,
    /// Number of minutes with --dropped, this one included (1 to 15)
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=15), requires = "dropped")]
    minutes: u64,
    /// Real packets of that kind, as they enter the network, with what happens to them
    #[arg(long, requires = "from", conflicts_with_all = ["port", "packet", "pcap", "rule", "matching", "switch", "dropped"])]
    live: bool,
    /// The controller's Unix socket [default: as in `maple run`]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Puts the question, and prints the answer. `own`: the policy of the program, if it has one of its own.
///
/// # Errors
/// If the question is wrong, or if the controller or the recording can't answer it.
pub fn main(args: &ExplainArgs, loader: Option<&dyn PolicyLoader>, own: Option<Arc<dyn Policy>>) -> anyhow::Result<u8> {
    if let Some(folder) = &args.recording {
        let again = ReplayParameters { until: args.at.as_deref(), limit: recorded::TIME_LIMIT, loader, own };
        return args.of_recording(folder, &again);
    }
    ask_controller(args, None)
}

/// Queries a controller, and prints the answer. `own`: the controller of this process, if the query is for it.
///
/// # Errors
/// If the question is wrong, or if the controller can't answer it.
pub fn ask_controller(args: &ExplainArgs, own: Option<&dyn Reach>) -> anyhow::Result<u8> {
    if own.is_some() && (args.recording.is_some() || args.pcap.as_deref() == Some(Path::new("-"))) {
        bail!(
            "a console asks its own network: `maple explain` in another terminal reads recordings and standard input"
        );
    }
    let controller = &*controller_to_ask(args.control.clone(), own);
    if args.dropped {
        return dropped::main(controller, args.minutes, args.json);
    }
    if let (true, Some(from)) = (args.live, &args.from) {
        let question = Live { from: from.clone(), to: args.to.clone(), fields: fields(&args.fields)? };
        return live::main(controller, question, args.json);
    }
    let questions = args.questions()?;
    let names = names(controller);
    let answer = |question: &ExplainRequest| ask(controller, &Request::Explain(question.clone())).map_err(hint);
    args.print(questions.iter().map(answer), &names)
}

impl ExplainArgs {
    /// Explains packets of a recording.
    fn of_recording(&self, folder: &Path, again: &ReplayParameters<'_>) -> anyhow::Result<u8> {
        let packet = |request| if let ExplainRequest::Packet(packet) = request { Some(packet) } else { None };
        let questions: Vec<Explain> = self.questions()?.into_iter().filter_map(packet).collect();
        let answers = recorded::answers(folder, again, &questions)?;
        self.print(answers.into_iter().map(Ok), &Names::new())
    }

    /// Prints answers as they come, or JSON at the end.
    fn print(&self, answers: impl Iterator<Item = anyhow::Result<Value>>, names: &Names) -> anyhow::Result<u8> {
        let mut all = Vec::new();
        for (number, answer) in answers.enumerate() {
            let answer = answer?;
            if self.json {
                all.push(answer);
                continue;
            }
            if number > 0 {
                print_text("\n")?;
            }
            print_text(&to_text(&answer, names))?;
        }
        if self.json {
            let all = if self.pcap.is_some() { Value::Array(all) } else { all.pop().unwrap_or_default() };
            print_text(&(json_text(&all) + "\n"))?;
        }
        Ok(0)
    }

    /// Returns the questions, one for each packet.
    fn questions(&self) -> anyhow::Result<Vec<ExplainRequest>> {
        let counters = self.no_counters.then_some(false);
        if self.rule.is_some() || self.matching.is_some() {
            let (cookie, matching, switch) = (self.rule.clone(), self.matching.clone(), self.switch.clone());
            return Ok(vec![ExplainRequest::Rule(ExplainRule { cookie, matching, switch, counters })]);
        }
        let question = Explain {
            from: self.from.clone(),
            to: self.to.clone(),
            at: self.port.clone(),
            fields: fields(&self.fields)?,
            frame: self.packet.clone(),
            counters,
        };
        if let Some(file) = &self.pcap {
            let frames = captured(file)?.into_iter();
            let question = |frame| Explain { frame: Some(hex::encode(frame)), ..question.clone() };
            return Ok(frames.map(|frame| ExplainRequest::Packet(question(frame))).collect());
        }
        if question == (Explain { counters, ..Explain::default() }) {
            bail!(
                "say which packet: --from HOST --to HOST [FIELD=VALUE…], --packet HEX, --pcap FILE, or --rule COOKIE"
            );
        }
        Ok(vec![ExplainRequest::Packet(question)])
    }
}

fn fields(given: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut fields = BTreeMap::new();
    for one in given {
        let Some((name, value)) = one.split_once('=') else {
            bail!("{one:?} is not a field with its value, such as tcp_dst=80");
        };
        if fields.insert(name.trim().to_owned(), value.trim().to_owned()).is_some() {
            bail!("{name} is given twice");
        }
    }
    Ok(fields)
}

/// Reads the frames of a capture.
fn captured(file: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let name = file.display();
    let bytes = if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).context("standard input")?;
        bytes
    } else {
        std::fs::read(file).with_context(|| name.to_string())?
    };
    let Some(frames) = ethernet_frames(&bytes, MAX_PACKETS + 1) else {
        bail!("{name} is not a capture (pcap or pcapng)")
    };
    let frames = frames.with_context(|| name.to_string())?;
    if frames.len() > MAX_PACKETS {
        bail!("{name} has more than {MAX_PACKETS} packets; take a part of it");
    }
    if frames.is_empty() {
        bail!("{name} has no packet");
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_and_values_once() {
        let read = |given: &[&str]| fields(&given.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(read(&["tcp_dst=80", "vlan_vid = 5"]).expect("two fields")["vlan_vid"], "5");
        assert!(read(&["tcp_dst"]).is_err_and(|error| error.to_string().contains("such as tcp_dst=80")));
        assert!(read(&["tcp_dst=1", "tcp_dst=2"]).is_err_and(|error| error.to_string().contains("twice")));
    }
}
