//! A policy on an emulated network: traffic or commands, their progress, and the summary.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use maple_controller::Handle;
use maple_core::policy::Policy;
use maple_emulator::commands::{CommandError, CommandRunner, Live};
use maple_emulator::driver::Stats;
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_lab::is_known;

use super::check_deliveries::{Checker, Verdicts};
use super::progress::Lines;
use super::real_network::http_lines;
use super::summary::Flows;
use super::{NOTICE_INTERVAL, flow_rules, summary};
use crate::options::{EmulationArgs, RunOptions};
use crate::output::print_line;
use crate::values::OnOff;
use crate::{console, emulate};
use maple_wire::counted;

/// The default duration of traffic. Chosen: all pairs of a small network talk, and a first try ends soon.
const TRAFFIC: Duration = Duration::from_secs(20);
/// The time for switches to connect and flows to end, in addition to the time of the traffic. Chosen: far more than
/// either takes on a loaded machine; it only ends runs that fail.
const SPARE_TIME: Duration = Duration::from_secs(60);
/// The time that commands wait for the controller to know the network. Chosen: discovery takes a second or two, and
/// links may be down on purpose, so they begin anyway.
const SETTLE: Duration = Duration::from_secs(5);
/// The time between two checks whether the controller knows the network. Chosen: a run begins without noticeable delay.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// The number of frames that the log holds between two reads. Chosen: it bounds memory, and is more than an emulated
/// network sends in a second.
const LOG: usize = 200_000;

/// A policy, and the network to run it on.
pub struct Emulated<'a> {
    pub topology: Topology,
    pub options: &'a RunOptions,
    pub policy: Arc<dyn Policy>,
    pub track_hosts: bool,
}

/// Counts at the last full second.
#[derive(Default)]
struct SecondCounts {
    number: u64,
    sent: u64,
    packet_ins: u64,
}

impl Emulated<'_> {
    /// Runs the policy on the network. With an HTTP API the network stays after its traffic until the user stops.
    ///
    /// # Errors
    /// If a packet was lost or not delivered as f decided, if f failed on every packet, or if a command failed.
    pub fn run(self, controller: &Handle, stop: &AtomicBool) -> anyhow::Result<()> {
        let commands = self.options.emulation.has_commands();
        let traffic = self.options.emulation.traffic.or((!commands).then_some(TRAFFIC));
        let mut lines = if commands {
            Lines::new(controller.names(), self.options.logging())
        } else {
            Lines::with_bar(traffic.unwrap_or_default(), controller.names(), self.options.logging())
        };
        lines.print_line(&self.headline(traffic));
        let emulation = Emulation::start(self.emulation_options(controller, traffic))?;
        let checker = (self.options.check != Some(OnOff::Off))
            .then(|| Checker::new(Arc::clone(&self.policy), self.track_hosts, controller))
            .transpose()?;
        let mut watch = EmulationWatch { lines, controller, began: None, second: SecondCounts::default() };
        let (checker, done) = self.run_until_over(&mut watch, &emulation, checker, traffic, stop)?;
        let verdicts = checker.map(|checker| checker.finish(&emulation)).transpose()?;
        watch.notices();
        watch.lines.finish();
        let network = emulation.snapshot()?;
        print_results(controller, &network, verdicts.as_ref(), !commands);
        let is_stopped = stop.load(Ordering::SeqCst) || controller.failure().is_some();
        let result = done.and_then(|()| self.result(controller, &network, verdicts.as_ref(), traffic, is_stopped));
        if !commands {
            watch.until_read(result.as_ref().err(), stop);
        }
        emulation.stop()?;
        result
    }

    /// Returns the failure of a run that has ended, if it failed.
    fn result(
        &self,
        controller: &Handle,
        network: &Stats,
        verdicts: Option<&Verdicts>,
        traffic: Option<Duration>,
        is_stopped: bool,
    ) -> anyhow::Result<()> {
        if let Some(traffic) = traffic.filter(|_| !network.traffic_started && !is_stopped) {
            bail!(
                "hosts never began to talk: not all switches were known after {} s",
                (traffic + SPARE_TIME).as_secs()
            );
        }
        let flows = Flows {
            opened: network.total.opened,
            ended: network.total.done,
            // After a request to stop, the last flows are not awaited. The network itself can have lost packets of
            // other flows.
            may_drop: self.options.allow_drops || is_stopped || verdicts.is_some_and(|v| v.excused > 0),
        };
        match summary::failure(controller, verdicts, flows) {
            Some(failure) => bail!(failure),
            None => Ok(()),
        }
    }

    /// Runs traffic or commands to their end. Returns the checker, and the result of the commands.
    fn run_until_over(
        &self,
        watch: &mut EmulationWatch<'_>,
        emulation: &Emulation,
        checker: Option<Checker>,
        traffic: Option<Duration>,
        stop: &AtomicBool,
    ) -> anyhow::Result<(Option<Checker>, anyhow::Result<()>)> {
        // Commands do not wait for links, which can be down on purpose.
        let patience = traffic.map_or(SETTLE, |traffic| traffic + SPARE_TIME);
        watch.until_known(emulation, &self.topology, patience, stop)?;
        let args = &self.options.emulation;
        if args.has_commands() {
            return Ok(watch.commands(emulation, checker, &CommandRunner::new(self.topology.clone()), args, stop));
        }
        Ok((watch.until_over(emulation, checker, traffic.unwrap_or_default(), stop)?, Ok(())))
    }

    fn headline(&self, traffic: Option<Duration>) -> String {
        let Topology { switches, hosts, links, .. } = &self.topology;
        format!(
            "{}: {} (OpenFlow {}), {}, {}{}",
            self.options.emulate.as_deref().unwrap_or_default(),
            counted(switches.len(), "switch"),
            self.options.emulation.version(),
            counted(links.len(), "link"),
            counted(hosts.len(), "host"),
            traffic.map_or(String::new(), |traffic| {
                format!("; {} flows a second for {} s", self.options.emulation.rate(), traffic.as_secs_f64())
            }),
        )
    }

    fn emulation_options(&self, controller: &Handle, traffic: Option<Duration>) -> EmulationOptions {
        let address = controller.addresses()[0];
        let mut options = emulate::options(self.topology.clone(), address, &self.options.emulation);
        options.network.log_limit = LOG;
        options.traffic = traffic.map(|traffic| emulate::traffic(&self.options.emulation, traffic));
        options
    }
}

/// Prints how many rules a flow has, if wanted, and the summary.
fn print_results(controller: &Handle, network: &Stats, verdicts: Option<&Verdicts>, with_rules: bool) {
    if with_rules {
        match flow_rules::of_one_flow(controller) {
            Ok(rules) => print_line(format_args!("\n{rules}")),
            Err(late) => print_line(format_args!("\nno rules: {late}")),
        }
    }
    if let Err(late) = summary::of_network(controller, network, verdicts) {
        print_line(format_args!("no summary: {late}"));
    }
}

/// Watches an emulation while it runs.
struct EmulationWatch<'a> {
    lines: Lines,
    controller: &'a Handle,
    /// The time when traffic began.
    began: Option<Instant>,
    second: SecondCounts,
}

impl EmulationWatch<'_> {
    /// Waits until the controller knows the network, so that traffic can begin, the user stops, or the time is over.
    fn until_known(
        &mut self,
        emulation: &Emulation,
        topology: &Topology,
        patience: Duration,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        while !is_known(&self.controller.snapshot(), topology) {
            let is_over = stop.load(Ordering::SeqCst) || self.controller.failure().is_some();
            // Automatic traffic does not wait for ports that stay new: they would have to be edge ports.
            if is_over || Instant::now() > deadline || emulation.snapshot()?.traffic_started {
                return Ok(());
            }
            self.notices();
            std::thread::sleep(CHECK_INTERVAL);
        }
        Ok(emulation.begin_traffic()?)
    }

    /// Runs commands. Returns their result, and the checker.
    fn commands(
        &mut self,
        emulation: &Emulation,
        mut checker: Option<Checker>,
        runner: &CommandRunner,
        args: &EmulationArgs,
        stop: &AtomicBool,
    ) -> (Option<Checker>, anyhow::Result<()>) {
        let mut look = Instant::now();
        let (mut failed, controller) = (None, self.controller);
        let meanwhile = || {
            if look.elapsed() < NOTICE_INTERVAL {
                return Ok(());
            }
            look = Instant::now();
            self.notices();
            if self.controller.failure().is_some() {
                return Err(CommandError::Stopped);
            }
            if let Some(Err(error)) = checker.as_mut().map(|checker| checker.look(emulation)) {
                failed = Some(error);
                return Err(CommandError::Stopped);
            }
            Ok(())
        };
        let done = console::run(runner, &mut Live::new(emulation, stop, meanwhile), args, Some(controller));
        (checker, failed.map_or(done, Err))
    }

    /// Waits until all flows have ended, the user stops, or the time is over.
    fn until_over(
        &mut self,
        emulation: &Emulation,
        mut checker: Option<Checker>,
        traffic: Duration,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<Checker>> {
        let deadline = Instant::now() + traffic + SPARE_TIME;
        while !stop.load(Ordering::SeqCst) && self.controller.failure().is_none() && Instant::now() < deadline {
            let turn = Instant::now() + NOTICE_INTERVAL;
            self.notices();
            if let Some(checker) = &mut checker {
                checker.look(emulation)?;
            }
            let network = emulation.snapshot()?;
            if network.traffic_started {
                self.report(&network, traffic);
            }
            if network.traffic_over {
                break;
            }
            std::thread::sleep(turn.saturating_duration_since(Instant::now()));
        }
        Ok(checker)
    }

    /// Says why the run has failed, if it has, and where the HTTP API is. Goes on until the user stops. Does nothing
    /// without an HTTP API.
    fn until_read(&mut self, failure: Option<&anyhow::Error>, stop: &AtomicBool) {
        let Some(address) = http_lines(self.controller).pop() else { return };
        if stop.load(Ordering::SeqCst) || self.controller.failure().is_some() {
            return;
        }
        if let Some(failure) = failure {
            self.lines.print_line(&format!("failed: {failure:#}"));
        }
        self.lines.print_line(&format!("the network stays until Ctrl-C; {address}"));
        while !stop.load(Ordering::SeqCst) && self.controller.failure().is_none() {
            self.lines.follow(self.controller, NOTICE_INTERVAL);
        }
    }

    fn notices(&mut self) {
        self.lines.follow(self.controller, Duration::ZERO);
    }

    /// Prints a line for each second of traffic.
    fn report(&mut self, network: &Stats, traffic: Duration) {
        let began = *self.began.get_or_insert_with(|| {
            self.lines.print_line("\n  time  packets/s  packet-ins/s  rules  flows done");
            Instant::now()
        });
        let elapsed = began.elapsed();
        let rules: usize = network.switches.iter().map(|switch| switch.rules).sum();
        self.lines.advance(elapsed.min(traffic), &format!("{rules} rules"));
        if elapsed.as_secs() <= self.second.number {
            return;
        }
        let sent: u64 = network.hosts.iter().map(|host| host.sent).sum();
        // A shard that is late is reported in the next second.
        let Ok(packet_ins) = self.controller.stats().map(|stats| stats.total.engine.packet_ins) else { return };
        let (more, misses) = (sent - self.second.sent, packet_ins - self.second.packet_ins);
        let bar = "▇".repeat((misses as usize).div_ceil(10).min(40));
        self.second = SecondCounts { number: elapsed.as_secs(), sent, packet_ins };
        let (number, done) = (self.second.number, network.total.done);
        self.lines.print_line(&format!("{number:>4} s  {more:>9}  {misses:>12}  {rules:>5}  {done:>10}  {bar}"));
    }
}
