//! Commands on a network such as `h1 ping h2` and `link s1 s2 down`, typed at a console, read from a
//! script, or called from a program.
//!
//! A [`CommandRunner`] runs them on any [`Ground`]: a network in real time whose switches talk to a controller over
//! TCP, or one in simulated time. The result of a command is a value ([`Pinged`], [`Streaming`], …) whose `Display` is
//! the console's output.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use maple_switch::time::{MILLISECOND, Nanoseconds, SECOND};
use maple_wire::packet::text::mac_text;
use maple_wire::{Dpid, PortNo};

use crate::Emulation;
use crate::driver::EmulationError;
use crate::emulated::{EmulatedNetwork, NetworkError};
use crate::topology::{HostSpec, LinkSpec, Topology};

mod command;
mod complete;
mod measure;
mod script;
mod show;
mod words;

#[cfg(test)]
mod tests;

pub use command::{Command, HELP, LinkChange, PortChange, Show};
pub use measure::{Pinged, PingedAll, Streaming};
pub use script::{ScriptError, run_script};

/// A network in which time passes.
pub trait Ground {
    /// Runs `f` on the network, between two of its events.
    ///
    /// # Errors
    /// [`CommandError`] if the network has ended.
    fn with<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut EmulatedNetwork) -> R + Send + 'static,
    ) -> Result<R, CommandError>;

    /// Lets time pass.
    ///
    /// # Errors
    /// [`CommandError`] if the network has ended, or if the user asked to stop.
    fn pass(&mut self, span: Nanoseconds) -> Result<(), CommandError>;

    /// Checks whether the controller in the same process accepts this command of `maple`; `None` if there is no
    /// controller.
    fn can_ask(&self, words: &[String]) -> Option<Result<(), CommandError>> {
        let _ = words;
        None
    }

    /// Queries the controller in the same process. The answer may have been printed already.
    ///
    /// # Errors
    /// [`CommandError`] if the controller refuses, or does not exist.
    fn ask(&mut self, words: &[String]) -> Result<String, CommandError> {
        Err(CommandError::Wrong(format!("there is no controller in this process to ask: {}", words.join(" "))))
    }
}

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The text is not a command, or names something that the network does not have.
    #[error("{0}")]
    Wrong(String),
    /// The command ran, and the expected result did not occur.
    #[error("{0}")]
    Failed(String),
    /// The network refuses it.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The emulation is over.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
}

/// A network in real time as a ground, which ends when a flag is set.
pub struct Live<'a> {
    emulation: &'a Emulation,
    stop: &'a AtomicBool,
    meanwhile: Box<dyn FnMut() -> Result<(), CommandError> + 'a>,
}

impl<'a> Live<'a> {
    /// Creates a ground of this emulation, which ends when `stop` is set. `meanwhile` is called regularly while time
    /// passes.
    pub fn new(
        emulation: &'a Emulation,
        stop: &'a AtomicBool,
        meanwhile: impl FnMut() -> Result<(), CommandError> + 'a,
    ) -> Live<'a> {
        Live { emulation, stop, meanwhile: Box::new(meanwhile) }
    }
}

impl Ground for Live<'_> {
    fn with<R: Send + 'static>(
        &mut self,
        f: impl FnOnce(&mut EmulatedNetwork) -> R + Send + 'static,
    ) -> Result<R, CommandError> {
        Ok(self.emulation.with_network(f)?)
    }

    fn pass(&mut self, span: Nanoseconds) -> Result<(), CommandError> {
        let end = Instant::now() + Duration::from_nanos(span);
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return Err(CommandError::Stopped);
            }
            (self.meanwhile)()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
}

/// Runs commands on a network. Clones share its topology.
#[derive(Clone)]
pub struct CommandRunner {
    topology: Arc<Topology>,
}

impl CommandRunner {
    /// Creates a runner for a network of this topology.
    pub fn new(topology: Topology) -> CommandRunner {
        CommandRunner { topology: Arc::new(topology) }
    }

    /// Returns the network's topology as it was in the beginning.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Runs the command of a line. Returns the text to print. Empty lines and those that begin with `#` do nothing.
    ///
    /// # Errors
    /// [`CommandError`] if the line is not a command, or if the command fails.
    pub fn line(&self, ground: &mut impl Ground, line: &str) -> Result<String, CommandError> {
        let Some(command) = Command::parse(line)? else { return Ok(String::new()) };
        self.run(ground, &command)
    }

    /// Runs a command. Returns the text to print.
    ///
    /// # Errors
    /// [`CommandError`] if the command fails.
    pub fn run(&self, ground: &mut impl Ground, command: &Command) -> Result<String, CommandError> {
        match command {
            Command::Ping { from, to, count } => self.ping(ground, from, to, *count)?.into_output(),
            Command::PingAll => self.ping_all(ground)?.into_output(),
            Command::Iperf { from, to, duration, rate } => {
                self.iperf(ground, from, to, *duration, *rate)?.into_output()
            }
            Command::Move { host, switch, port } => self.move_host(ground, host, switch, *port),
            Command::Link { a, b, change } => {
                self.link(ground, a, b, *change)?;
                Ok(String::new())
            }
            Command::Port { switch, port, change } => {
                let (dpid, port, change) = (self.switch(switch)?, PortNo(*port), *change);
                ground.with(move |network| match change {
                    PortChange::Up(up) => network.set_port(dpid, port, up),
                    PortChange::Rate(rate) => network.set_port_rate(dpid, port, rate),
                })??;
                Ok(String::new())
            }
            Command::Queue { switch, port, queue, rates } => {
                let (dpid, port, queue, rates) = (self.switch(switch)?, PortNo(*port), *queue, *rates);
                ground.with(move |network| network.set_queue(dpid, port, queue, rates))??;
                Ok(String::new())
            }
            Command::Restart { switch } => {
                let dpid = self.switch(switch)?;
                ground.with(move |network| network.restart_switch(dpid))??;
                Ok(String::new())
            }
            Command::Show { what, switch } => self.show(ground, *what, switch.as_deref()),
            Command::Ask { words, without } => match (ground.can_ask(words), &**without) {
                (Some(can), _) => can.and_then(|()| ground.ask(words)),
                (None, Ok(command)) => self.run(ground, command),
                (None, Err(why)) => Err(CommandError::Wrong(why.clone())),
            },
            Command::Wait(span) => ground.pass(*span).map(|()| String::new()),
            Command::Not(command) => match self.run(ground, command) {
                Err(CommandError::Failed(text)) => Ok(text),
                Ok(text) => {
                    Err(CommandError::Failed(format!("{text}\nthat should not have worked").trim_start().into()))
                }
                Err(error) => Err(error),
            },
            Command::Help => Ok(HELP.trim_end().to_string()),
            Command::Exit => Err(CommandError::Stopped),
        }
    }

    /// Checks that the controller accepts a query, before anything runs.
    fn check(&self, ground: &impl Ground, command: &Command) -> Result<(), CommandError> {
        match command {
            Command::Not(command) => self.check(ground, command),
            Command::Ask { words, without } => match (ground.can_ask(words), &**without) {
                (Some(can), _) => can,
                (None, Ok(_)) => Ok(()),
                (None, Err(why)) => Err(CommandError::Wrong(why.clone())),
            },
            _ => Ok(()),
        }
    }

    /// Changes all links between two switches.
    ///
    /// # Errors
    /// [`CommandError`] if there is no link between them.
    pub fn link(&self, ground: &mut impl Ground, a: &str, b: &str, change: LinkChange) -> Result<(), CommandError> {
        let (x, y) = (self.switch(a)?, self.switch(b)?);
        let between = |link: &&LinkSpec| [(x, y), (y, x)].contains(&(link.a.0, link.b.0));
        if !self.topology.links.iter().any(|link| between(&link)) {
            let linked = |link: &LinkSpec| [(link.a.0, link.b.0), (link.b.0, link.a.0)];
            let ends = self.topology.links.iter().flat_map(linked);
            let mut neighbours: Vec<String> =
                ends.filter(|(near, _)| *near == x).map(|(_, far)| self.name(far)).collect();
            neighbours.dedup();
            let others = if neighbours.is_empty() { "nothing".into() } else { neighbours.join(", ") };
            return Err(CommandError::Wrong(format!("{a} and {b} are not linked; {a} is linked to {others}")));
        }
        ground.with(move |network| match change {
            LinkChange::Up(up) => network.set_link(x, y, up),
            LinkChange::Loss(loss) => network.set_link_loss(x, y, loss),
            LinkChange::Delay(delay) => network.set_link_delay(x, y, delay),
            LinkChange::Rate(rate) => network.set_link_rate(x, y, rate),
        })??;
        Ok(())
    }

    /// Moves a host to a port of a switch, or to the first free one, where it announces itself. Returns its new place.
    ///
    /// # Errors
    /// [`CommandError`] if one of them does not exist, or if something else is plugged in.
    pub fn move_host(
        &self,
        ground: &mut impl Ground,
        host: &str,
        switch: &str,
        port: Option<u32>,
    ) -> Result<String, CommandError> {
        let host = self.host(host)?;
        let (name, dpid) = (host.to_string(), self.switch(switch)?);
        let at = ground.with(move |network| {
            let port = port.map_or_else(|| network.free_port(dpid), |port| Ok(PortNo(port)))?;
            network.move_host(&name, dpid, port)?;
            network.announce(&name)?;
            Ok::<_, NetworkError>(port)
        })??;
        Ok(format!("{host} is at port {at} of {switch}"))
    }

    /// Returns the datapath id of the switch with this name or datapath id.
    ///
    /// # Errors
    /// [`CommandError::Wrong`], with the nearest name.
    pub fn switch(&self, name: &str) -> Result<Dpid, CommandError> {
        let switches = &self.topology.switches;
        let dpid = name.parse::<Dpid>().ok();
        let found = switches.iter().find(|switch| switch.name == name);
        let found = found.or_else(|| switches.iter().find(|switch| Some(switch.dpid) == dpid));
        let names = || switches.iter().map(|switch| switch.name.as_str());
        found.map(|switch| switch.dpid).ok_or_else(|| CommandError::Wrong(unknown("switch", name, names())))
    }

    /// Returns the name of the host with this name or address.
    ///
    /// # Errors
    /// [`CommandError::Wrong`], with the nearest name.
    pub fn host(&self, text: &str) -> Result<&str, CommandError> {
        let hosts = &self.topology.hosts;
        let names = || hosts.iter().map(|host| host.name.as_str());
        if let Some(host) = hosts.iter().find(|host| host.name == text) {
            return Ok(&host.name);
        }
        let has = |host: &&HostSpec| match text.parse::<IpAddr>() {
            Ok(ip) => ip == host.ipv4 || ip == host.ipv6,
            Err(_) => text.eq_ignore_ascii_case(&mac_text(&host.mac)),
        };
        let found = hosts.iter().find(has).map(|host| host.name.as_str());
        found.ok_or_else(|| CommandError::Wrong(unknown("host", text, names())))
    }

    /// Returns the name of a switch.
    fn name(&self, dpid: Dpid) -> String {
        let found = self.topology.switches.iter().find(|switch| switch.dpid == dpid);
        found.map_or_else(|| dpid.to_string(), |switch| switch.name.clone())
    }

    /// Waits until a condition holds for the network, at most for `within`.
    fn until<R: Send + 'static>(
        &self,
        ground: &mut impl Ground,
        within: Nanoseconds,
        holds: impl Fn(&EmulatedNetwork) -> Option<R> + Send + Clone + 'static,
    ) -> Result<Option<R>, CommandError> {
        let mut waited = 0;
        loop {
            let ask = holds.clone();
            if let Some(found) = ground.with(move |network| ask(network))? {
                return Ok(Some(found));
            }
            if waited >= within {
                return Ok(None);
            }
            ground.pass(MILLISECOND)?;
            waited += MILLISECOND;
        }
    }
}

/// Returns the error for an unknown name, with a suggestion.
fn unknown<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = maple_wire::nearest(name, names.clone()) {
        return format!("there is no {what} {name}; did you mean {near}?");
    }
    let (first, last) = (names.clone().next(), names.last());
    match (first, last) {
        (Some(first), Some(last)) if first != last => format!("there is no {what} {name}; there are {first} to {last}"),
        (Some(only), _) => format!("there is no {what} {name}; there is {only}"),
        _ => format!("there is no {what} {name}; there are none"),
    }
}

/// The maximum time in nanoseconds that a command waits for a flow: more than an address and one packet take with all
/// their attempts, a second apart.
const FLOW_TIMEOUT: Nanoseconds = 10 * SECOND;
