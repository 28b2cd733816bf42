//! `maple replay`: replays a recording without a network, and compares another policy's decisions.

mod network;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use maple_controller::control::plan::decisions;
use maple_controller::names::Names;
use maple_controller::record::RecordedSource;
use maple_controller::replay::{Counts, Recorded, ReplayOptions, Replayed, replay};
use maple_core::compose::Canary;
use maple_core::engine::{Comparison, Time};
use maple_core::policy::Policy;
use maple_core::state::Store;
use serde_json::{Value, json};

use crate::moment;
use crate::options::ReplayArgs;
use crate::output::{Painted, are_errors_watched, json_text, print_line, print_painted, show_progress};
use crate::plan::{count, packets};
use crate::policy::{Loaded, PolicyLoader, load_for_replay};

/// The name of the compiler of rules in recordings.
pub(crate) const COMPILER: &str = "maple";
/// The exit status if something differs. It must be another than 1, which stands for a failed command.
const DIFFERS: u8 = 2;

/// Runs `maple replay`. Every error has status 1, because 2 means that something differs.
///
/// # Errors
/// If the recording is damaged, a policy can't be loaded, or there is no such time.
pub fn main(args: &ReplayArgs, loader: Option<&dyn PolicyLoader>) -> anyhow::Result<u8> {
    // A usage error would have status 2, which means that something differs.
    with(args, loader, None).map_err(|error| anyhow!("{error:#}"))
}

/// Runs `maple replay` for a program that may have a policy of its own (`own`).
///
/// # Errors
/// If the recording is damaged, a policy can't be loaded, or there is no such time.
pub fn with(args: &ReplayArgs, loader: Option<&dyn PolicyLoader>, own: Option<Arc<dyn Policy>>) -> anyhow::Result<u8> {
    if args.json {
        loader.map(PolicyLoader::print_aside).transpose()?;
    }
    let again = ReplayParameters { until: args.until.as_deref(), limit: args.policy_time_limit, loader, own };
    let comparison = args.policy.as_deref().map(|name| again.comparison(name)).transpose()?;
    let recorded = Recorded::open(&args.folder)?;
    let (began, shows_progress) = (Instant::now(), !args.json);
    let replayed = again.run(&recorded, comparison.as_ref(), shows_progress)?;
    let other = comparison.map(|comparison| decisions(&comparison.found()));
    let mut reported = document(&recorded, &replayed, began.elapsed(), other);
    if args.network {
        reported["network"] = network::network(&replayed);
    }
    if args.json {
        print_line(json_text(&reported));
    } else {
        let mut text = Painted::for_terminal();
        write(&mut text, &reported, args);
        print_painted(&text)?;
    }
    let is_same = reported["identical"] == true && count(&reported["other"]["counts"]) == 0;
    Ok(if is_same { 0 } else { DIFFERS })
}

/// The parameters of a replay up to a time.
pub struct ReplayParameters<'a> {
    /// The time as a user writes it; `None`: the end.
    pub until: Option<&'a str>,
    /// The maximum time of a policy's run.
    pub limit: Duration,
    /// Loads policies in other languages.
    pub loader: Option<&'a dyn PolicyLoader>,
    /// The policy of the program, if it has one of its own.
    pub own: Option<Arc<dyn Policy>>,
}

impl ReplayParameters<'_> {
    /// Replays the recording. Returns the engines and the state as they were at the time. `shows_progress`: print the
    /// progress on a terminal.
    ///
    /// # Errors
    /// If the recording is damaged, a policy of it can't be loaded, or there is no such time.
    pub fn run(
        &self,
        recorded: &Recorded,
        comparison: Option<&Arc<Comparison>>,
        shows_progress: bool,
    ) -> anyhow::Result<Replayed> {
        let until = self.until.map(|text| moment::of_recording(text, recorded)).transpose()?;
        let mut policies = self.policies(recorded)?;
        if let Some(comparison) = comparison {
            policies = policies.into_iter().map(|(number, policy)| (number, comparison.wrap(policy))).collect();
        }
        let name = recorded.compiler();
        ensure!(name == COMPILER, "there is no compiler {name:?}");
        let shows = shows_progress && are_errors_watched();
        let progress = |counts: &Counts| {
            if shows {
                let at = recorded.timestamp(counts.at);
                show_progress(Some(&format!("{at}: {} events, {} flow-mods", counts.events, counts.flow_mods)));
            }
        };
        let replayed = replay(recorded, ReplayOptions { policies, until, progress: &progress });
        if shows {
            show_progress(None);
        }
        Ok(replayed?)
    }

    /// Loads all policies of the recording, by number.
    fn policies(&self, recorded: &Recorded) -> anyhow::Result<BTreeMap<u64, Arc<dyn Policy>>> {
        let mut all: BTreeMap<u64, Arc<dyn Policy>> = BTreeMap::new();
        for (number, source) in recorded.sources() {
            let policy = match source {
                RecordedSource::Builtin { name } => self.load(name)?.0,
                RecordedSource::Files { .. } => {
                    recorded.check_files(source)?;
                    let path = recorded.policy_path(source).context("the recording names a file outside of it")?;
                    self.load(&path)?.0
                }
                RecordedSource::Program => self.own.clone().context(
                    "the recording is of a program with a policy of its own: run that program, with `replay` and this \
                     folder",
                )?,
                RecordedSource::Canary { old, new, switches } => {
                    let policy_of =
                        |number: &u64| all.get(number).cloned().context("the recording names a later policy");
                    Arc::new(Canary::new(policy_of(old)?, policy_of(new)?, switches.iter().copied()))
                }
            };
            all.insert(*number, policy);
        }
        Ok(all)
    }

    /// Loads a policy to compare with those of the recording.
    fn comparison(&self, name: &str) -> anyhow::Result<Arc<Comparison>> {
        let (policy, store) = self.load(name)?;
        let writes = store.snapshot().of_users();
        Ok(Comparison::new(policy, writes))
    }

    /// Loads a policy. Returns it with the store that its file wrote while it was loaded.
    fn load(&self, name: &str) -> anyhow::Result<(Arc<dyn Policy>, Arc<Store>)> {
        let store = Store::new();
        match load_for_replay(&store, name, self.limit, self.loader)? {
            Loaded::Policy(loaded) => Ok((loaded.policy, loaded.store)),
            Loaded::Handlers(_) => bail!("{name} is not a policy, but a handler"),
        }
    }
}

/// Returns the outcome of a replay as a document.
fn document(recorded: &Recorded, replayed: &Replayed, took: Duration, other: Option<Value>) -> Value {
    let Replayed { counts, difference, is_cut, .. } = replayed;
    let span = Duration::from_nanos(counts.at.0).as_secs_f64();
    let took = took.as_secs_f64();
    let first = difference.as_ref().map(|first| {
        let switch = first.switch.map(|dpid| dpid.to_string());
        json!({
            "time": recorded.timestamp(first.at),
            "since_start": Duration::from_nanos(first.at.0).as_secs_f64(),
            "shard": first.shard.0,
            "switch": switch,
            "what": first.what,
        })
    });
    json!({
        "recording": recorded.folder().display().to_string(),
        "began": recorded.timestamp(Time(0)),
        "ended": recorded.timestamp(counts.at),
        "seconds": span,
        "took": took,
        "speed": if took > 0.0 { span / took } else { 0.0 },
        "shards": recorded.shards(),
        "turns": counts.turns,
        "events": counts.events,
        "messages": counts.messages,
        "flow_mods": counts.flow_mods,
        "identical": difference.is_none(),
        "difference": first,
        "is_cut": is_cut,
        "end": recorded.end(),
        "other": other,
    })
}

/// Writes the outcome for people.
fn write(out: &mut Painted, reported: &Value, args: &ReplayArgs) {
    let plain = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut text = String::new();
    if !reported["other"].is_null() {
        packets(out, &reported["other"], args.all, &Names::new());
        let (all, changed) = (&reported["other"]["packets"], count(&reported["other"]["counts"]));
        let name = args.policy.as_deref().unwrap_or_default();
        text += &format!("{changed} of {all} packets would have gone otherwise by {name}\n");
    }
    text += &network::text(&reported["network"]);
    text += &format!(
        "{}: from {} to {}, {} shards\n{} events, {} messages to switches, {} of them flow-mods\n",
        plain(&reported["recording"]),
        plain(&reported["began"]),
        plain(&reported["ended"]),
        reported["shards"],
        reported["events"],
        reported["messages"],
        reported["flow_mods"],
    );
    let number = |name: &str| reported[name].as_f64().unwrap_or_default();
    text += &format!(
        "replayed {:.1} s in {:.2} s: {:.0} times real time\n",
        number("seconds"),
        number("took"),
        number("speed")
    );
    if reported["is_cut"] == true {
        text += "the end of the recording is missing, so the last moments of the run are not replayed\n";
    }
    match &reported["difference"] {
        Value::Null => text += "identical: every message is the same, byte for byte\n",
        first => {
            let at = match first["switch"].as_str() {
                Some(switch) => format!("switch {switch}"),
                None => format!("shard {}", first["shard"]),
            };
            text += &format!("first difference at {}, {at}: {}\n", plain(&first["time"]), plain(&first["what"]));
        }
    }
    out.push(&text);
}
