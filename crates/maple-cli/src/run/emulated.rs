//! A policy on an emulated network: traffic, what happens meanwhile, and what came of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use maple_controller::Handle;
use maple_emulator::driver::Stats;
use maple_emulator::{Emulation, EmulationOptions, Topology};

use super::check::Checker;
use super::progress::Lines;
use super::summary::Flows;
use super::{TURN, rules, summary};
use crate::LoadedPolicy;
use crate::args::{RunOptions, Switch};
use crate::{emulate, say};

/// How long traffic lasts where nothing else is said.
const TRAFFIC: Duration = Duration::from_secs(20);
/// How long switches may take to connect and flows to end, besides the time of the traffic.
const PATIENCE: Duration = Duration::from_secs(60);
/// Frames that the log holds between two looks at it.
const LOG: usize = 200_000;

/// A policy and the network to run it on.
pub struct Emulated<'a> {
    pub topology: Topology,
    pub options: &'a RunOptions,
    pub loaded: &'a LoadedPolicy,
    pub track_hosts: bool,
}

/// Counts at the last full second.
#[derive(Default)]
struct Second {
    number: u64,
    sent: u64,
    packet_ins: u64,
}

impl Emulated<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// What went wrong with the run as a whole: something was lost or delivered otherwise than f says, or f failed on
    /// every packet.
    pub fn run(self, controller: &Handle, stop: &AtomicBool) -> anyhow::Result<()> {
        let traffic = self.options.emulation.traffic.unwrap_or(TRAFFIC);
        let mut lines = Lines::with_bar(traffic);
        lines.say(&self.headline(traffic));
        let emulation = Emulation::start(self.emulation_options(controller, traffic))?;
        let checker = (self.options.check != Some(Switch::Off))
            .then(|| Checker::new(self.loaded.policy.clone(), self.track_hosts, controller))
            .transpose()?;
        let mut watch = Watch { lines, controller, began: None, second: Second::default() };
        let checker = watch.until_over(&emulation, checker, traffic, stop)?;
        let verdicts = checker.map(|checker| checker.finish(&emulation)).transpose()?;
        watch.notices();
        watch.lines.finish();
        let network = emulation.snapshot()?;
        say(format_args!("\n{}", rules::of_all(controller)));
        summary::of_network(controller, &network, verdicts.as_ref());
        emulation.stop()?;
        let is_stopped = stop.load(Ordering::SeqCst) || controller.failure().is_some();
        if !network.traffic_started && !is_stopped {
            bail!("hosts never began to talk: not all switches were known after {} s", (traffic + PATIENCE).as_secs());
        }
        let flows = Flows {
            opened: network.total.opened,
            ended: network.total.done,
            // Who stops it does not wait for the last ones; and the network itself may have lost packets of some.
            may_drop: self.options.allow_drops || is_stopped || verdicts.as_ref().is_some_and(|v| v.excused > 0),
        };
        match summary::failure(controller, verdicts.as_ref(), flows) {
            Some(failure) => bail!(failure),
            None => Ok(()),
        }
    }

    fn headline(&self, traffic: Duration) -> String {
        let Topology { switches, hosts, links, .. } = &self.topology;
        format!(
            "{}: {} switches (OpenFlow {}), {} links, {} hosts; {} flows a second for {} s",
            self.options.emulate.as_deref().unwrap_or_default(),
            switches.len(),
            self.options.emulation.version(),
            links.len(),
            hosts.len(),
            self.options.emulation.rate(),
            traffic.as_secs_f64(),
        )
    }

    fn emulation_options(&self, controller: &Handle, traffic: Duration) -> EmulationOptions {
        let address = controller.addresses()[0];
        let mut options = emulate::options(self.topology.clone(), address, &self.options.emulation);
        options.network.log_limit = LOG;
        options.traffic = Some(emulate::traffic(&self.options.emulation, traffic));
        options
    }
}

/// Looks after an emulation while it runs.
struct Watch<'a> {
    lines: Lines,
    controller: &'a Handle,
    /// When traffic began.
    began: Option<Instant>,
    second: Second,
}

impl Watch<'_> {
    /// Returns when all flows have ended, or the user or patience ends it.
    fn until_over(
        &mut self,
        emulation: &Emulation,
        mut checker: Option<Checker>,
        traffic: Duration,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<Checker>> {
        let deadline = Instant::now() + traffic + PATIENCE;
        while !stop.load(Ordering::SeqCst) && self.controller.failure().is_none() && Instant::now() < deadline {
            let turn = Instant::now() + TURN;
            self.notices();
            if let Some(checker) = &mut checker {
                checker.look(emulation)?;
            }
            let network = emulation.snapshot()?;
            if network.traffic_started {
                self.tell(&network, traffic);
            }
            if network.traffic_over {
                break;
            }
            std::thread::sleep(turn.saturating_duration_since(Instant::now()));
        }
        Ok(checker)
    }

    fn notices(&mut self) {
        while let Ok(notice) = self.controller.notices().try_recv() {
            self.lines.notice(&notice);
        }
    }

    /// A line for each second of traffic.
    fn tell(&mut self, network: &Stats, traffic: Duration) {
        let began = *self.began.get_or_insert_with(|| {
            self.lines.say("\n  time  packets/s  packet-ins/s  rules  flows done");
            Instant::now()
        });
        let elapsed = began.elapsed();
        let rules: usize = network.switches.iter().map(|switch| switch.rules).sum();
        self.lines.advance(elapsed.min(traffic), &format!("{rules} rules"));
        if elapsed.as_secs() <= self.second.number {
            return;
        }
        let sent: u64 = network.hosts.iter().map(|host| host.sent).sum();
        let packet_ins = self.controller.stats().total.engine.packet_ins;
        let (more, misses) = (sent - self.second.sent, packet_ins - self.second.packet_ins);
        let bar = "▇".repeat((misses as usize).div_ceil(10).min(40));
        self.second = Second { number: elapsed.as_secs(), sent, packet_ins };
        let (number, done) = (self.second.number, network.total.done);
        self.lines.say(&format!("{number:>4} s  {more:>9}  {misses:>12}  {rules:>5}  {done:>10}  {bar}"));
    }
}
