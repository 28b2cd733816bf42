//! The state of a running script: the network that it built, and what it has printed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, Options};
use maple_core::network::{Facts, HostFacts, Location, PortSet, SwitchFacts};
use maple_core::state::Write;
use maple_core::{Mac, Value};
use maple_sim::{SimNetwork, SimSwitch};
use maple_wire::msg::{FlowMod, FlowModCommand, Message, PacketOut};
use maple_wire::packet::text;
use maple_wire::{Dpid, Packet, PortNo, Version, print};

use crate::packet::{frame, number};
use crate::policy::{Clauses, field, stored, value_of};

/// The hosts of a script, by name.
#[derive(Debug, Default)]
pub struct Hosts(BTreeMap<String, Host>);

/// A host of a script.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub mac: Mac,
    pub ipv4: Ipv4Addr,
    pub at: Location,
}

impl Hosts {
    pub fn get(&self, name: &str) -> Result<Host, String> {
        self.0.get(name).copied().ok_or_else(|| format!("there is no host {name:?}"))
    }
}

/// The declarations of a script before `start`.
#[derive(Default)]
struct Setup {
    switches: Vec<SimSwitch>,
    links: Vec<(Location, Location)>,
    policy: Clauses,
    /// Declared roles of ports, and places of hosts.
    roles: Vec<(Location, String)>,
    places: BTreeMap<Mac, HostFacts>,
}

struct Stage {
    setup: Setup,
    hosts: Hosts,
    sim: Option<SimNetwork>,
    versions: BTreeMap<Dpid, Version>,
    names: Names,
    out: String,
}

/// Plays a script and returns what it prints.
///
/// # Errors
/// The line that is wrong, and what is wrong there.
pub fn play(script: &str) -> Result<String, String> {
    let mut stage = Stage {
        setup: Setup::default(),
        hosts: Hosts::default(),
        sim: None,
        versions: BTreeMap::new(),
        names: Names::default(),
        out: String::new(),
    };
    for (at, line) in script.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        stage.step(line).map_err(|error| format!("{}: {error}", at + 1))?;
    }
    Ok(stage.out)
}

/// Parses a `SWITCH:PORT`.
pub fn location(text: &str) -> Result<Location, String> {
    let parts = text.split_once(':').and_then(|(switch, port)| Some((switch.parse().ok()?, port.parse().ok()?)));
    parts
        .map(|(switch, port)| Location::new(Dpid(switch), PortNo(port)))
        .ok_or_else(|| format!("{text:?} is no SWITCH:PORT"))
}

impl Setup {
    /// Returns the declared facts.
    fn facts(&self) -> Facts {
        let facts_of = |switch: &SimSwitch| {
            let ports_with_role = |wanted: &str| {
                let here = self.roles.iter().filter(|(at, role)| at.switch == switch.model.dpid() && role == wanted);
                PortSet(here.map(|(at, _)| at.port.0..=at.port.0).collect())
            };
            let closed = ports_with_role("closed");
            let open = switch.model.ports().keys().filter(|port| !closed.contains(**port)).map(|port| port.0..=port.0);
            let ports = Some(PortSet(open.collect()));
            (
                switch.model.dpid(),
                SwitchFacts {
                    ports,
                    edge: ports_with_role("edge"),
                    link: ports_with_role("link"),
                    max_hosts: Vec::new(),
                },
            )
        };
        Facts::new(self.switches.iter().map(facts_of).collect(), self.places.clone())
    }
}

impl Stage {
    fn step(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["switch", dpid, "ports", ports, ref more @ ..] => self.add_switch(dpid, ports, more),
            ["switch", ..] => Err("expected switch NUMBER ports NUMBER".into()),
            ["link", a, b] => {
                self.setup.links.push((location(a)?, location(b)?));
                Ok(())
            }
            ["host", name, "at", at] => {
                let n = self.hosts.0.len() as u8 + 1;
                let host = Host { mac: Mac([0, 0, 0, 0, 0, n]), ipv4: [10, 0, 0, n].into(), at: location(at)? };
                self.hosts.0.insert(name.to_owned(), host);
                Ok(())
            }
            ["declare", at, role @ ("edge" | "link" | "closed")] => {
                self.setup.roles.push((location(at)?, role.to_owned()));
                Ok(())
            }
            ["declare", name, "at", at] => {
                let host = self.hosts.get(name)?;
                let facts = HostFacts { at: Some(location(at)?), addresses: [host.ipv4.into()].into() };
                self.setup.places.insert(host.mac, facts);
                Ok(())
            }
            ["when" | "otherwise:", ..] => self.setup.policy.add(line, &self.hosts),
            ["start"] => self.start(),
            ["show", dpid] => self.show(line, Dpid(number(dpid)?)),
            ["packet", ..] => self.packet(line, &words[1..]),
            _ => self.event(line, &words),
        }
    }

    fn add_switch(&mut self, dpid: &str, ports: &str, more: &[&str]) -> Result<(), String> {
        let (dpid, mut version, mut capacity) = (Dpid(number(dpid)?), Version::Of13, None);
        for pair in more.chunks(2) {
            match pair {
                ["openflow", "1.0"] => version = Version::Of10,
                ["openflow", "1.3"] => version = Version::Of13,
                ["rules", most] => capacity = Some(number(most)?),
                other => return Err(format!("{:?} is no property of a switch", other.join(" "))),
            }
        }
        let mut switch = SimSwitch::new(dpid, version);
        switch.model.change_options(|options| options.capacity = capacity.unwrap_or(options.capacity));
        for port in 1..=number(ports)? {
            switch.model.add_port(0, PortNo(port));
        }
        self.versions.insert(dpid, version);
        self.setup.switches.push(switch);
        Ok(())
    }

    /// Connects the switches and lets discovery find everything. The messages of this phase are not printed.
    fn start(&mut self) -> Result<(), String> {
        let facts = Arc::new(self.setup.facts());
        let Setup { switches, links, policy, .. } = std::mem::take(&mut self.setup);
        let options = Options { host_timeout: Duration::from_secs(1_000_000), facts, ..Options::default() };
        let mut sim = SimNetwork::new(Arc::new(policy), 1, &options, 1);
        // Messages arrive in the order in which they were sent.
        sim.max_delay = Duration::ZERO;
        for switch in switches {
            sim.connect(switch, []);
        }
        sim.run();
        links.into_iter().for_each(|(a, b)| sim.add_link(a, b));
        sim.run();
        sim.settle_ports();
        self.hosts.0.values().for_each(|host| sim.place_host(host.mac, host.at));
        sim.run();
        sim.reports.clear();
        sim.messages = Some(Vec::new());
        self.sim = Some(sim);
        Ok(())
    }

    /// Sends a packet of a host, from the host's port or from `from SWITCH:PORT`.
    fn packet(&mut self, line: &str, words: &[&str]) -> Result<(), String> {
        let (words, from) = match words {
            [words @ .., "from", at] => (words, Some(location(at)?)),
            words => (words, None),
        };
        let bytes = frame(words, &self.hosts)?;
        let at = from.map_or_else(|| self.hosts.get(words[0]).map(|host| host.at), Ok)?;
        self.act(line, |sim| sim.inject(at, bytes))
    }

    fn event(&mut self, line: &str, words: &[&str]) -> Result<(), String> {
        match *words {
            ["port", at, state @ ("down" | "up")] => {
                let at = location(at)?;
                self.act(line, |sim| {
                    sim.set_port(at, state == "up");
                    if state == "up" {
                        sim.run_for(Duration::from_millis(1));
                        sim.rediscover(at);
                    }
                })
            }
            ["move", name, "to", at] => {
                let (mut host, to) = (self.hosts.get(name)?, location(at)?);
                let mac = host.mac;
                host.at = to;
                self.hosts.0.insert(name.to_owned(), host);
                self.act(line, |sim| sim.place_host(mac, to))
            }
            ["find", "link", a, b] => {
                let (a, b) = (location(a)?, location(b)?);
                self.act(line, |sim| sim.report(Event::LinkUp { a, b }))
            }
            ["find", "edge", at] => {
                let port = location(at)?;
                self.act(line, |sim| sim.report(Event::PortIsEdge { port }))
            }
            ["put", key, "in", table] | ["delete", key, "from", table] => {
                let (name, value) = key.split_once('=').ok_or_else(|| format!("{key:?} is no FIELD=VALUE"))?;
                let field = field(name)?;
                let key = stored(field, value_of(field, value, &self.hosts)?);
                let value = (words[0] == "put").then(|| Value::from(true));
                self.write(line, Write::Table { table: table.into(), key, value })
            }
            ["set", name, "=", value] => {
                let value = value.parse::<i64>().map_err(|_| format!("{value:?} is not a number"))?;
                self.write(line, Write::Var { name: name.into(), value: Some(Value::Int(value.into())) })
            }
            ["restart", dpid] => {
                let dpid = Dpid(number(dpid)?);
                self.act(line, |sim| {
                    sim.restart(dpid);
                    sim.run_for(Duration::from_millis(1));
                    sim.ports_of(dpid).into_iter().for_each(|at| sim.rediscover(at));
                })
            }
            ["lose", "rule", index, "of", dpid] => {
                let (index, dpid) = (number::<usize>(index)?, Dpid(number(dpid)?));
                self.act(line, |sim| sim.lose_rule(dpid, index.saturating_sub(1)))
            }
            ["wait", seconds] => {
                let span = Duration::from_secs(number(seconds)?);
                self.act(line, |sim| sim.run_for(span))
            }
            _ => Err(format!("{:?} is no step", words[0])),
        }
    }

    fn write(&mut self, line: &str, write: Write) -> Result<(), String> {
        self.act(line, |sim| sim.report(Event::Write(vec![write])))
    }

    /// Runs `happen`, waits until everything is at rest, and prints the effects.
    fn act(&mut self, line: &str, happen: impl FnOnce(&mut SimNetwork)) -> Result<(), String> {
        let sim = self.sim.as_mut().ok_or("the network has not started")?;
        happen(sim);
        sim.run();
        let _ = writeln!(self.out, "> {line}");
        for (dpid, message) in sim.messages.replace(Vec::new()).into_iter().flatten() {
            let version = self.versions[&dpid];
            if let Some(text) = self.names.message(version, &message) {
                let _ = writeln!(self.out, "  {} <- {text}", dpid.0);
            }
        }
        for delivery in std::mem::take(&mut sim.delivered) {
            let (at, packet) = (delivery.at, Packet::new(&delivery.frame, 0));
            let _ = writeln!(self.out, "  leaves at {}:{}: {}", at.switch.0, at.port, text::summary(&packet));
        }
        for report in std::mem::take(&mut sim.reports) {
            let _ = writeln!(self.out, "  report: {report}");
        }
        Ok(())
    }

    /// Prints the rules of a switch, by table and priority.
    fn show(&mut self, line: &str, dpid: Dpid) -> Result<(), String> {
        let sim = self.sim.as_mut().ok_or("the network has not started")?;
        let switch = sim.switch(dpid).ok_or_else(|| format!("there is no switch {}", dpid.0))?;
        let _ = writeln!(self.out, "> {line}");
        for flow in switch.flows() {
            let version = self.versions[&dpid];
            let matching = print::matching(version, &flow.matching);
            let actions = print::instructions(version, &flow.instructions);
            let (table, priority, owner) = (flow.table_id, flow.priority, self.names.owner(flow.cookie));
            let _ = writeln!(self.out, "  table={table}, {} {actions} ({owner})", comma(priority, &matching));
        }
        Ok(())
    }
}

/// The names of rules' owners: cookies are numbered as they appear.
#[derive(Default)]
struct Names(Vec<u64>);

impl Names {
    /// The part of a cookie that stands in place of a leaf in the engine's own rules.
    const OWN: u64 = 0xff_ffff_ffff;

    fn owner(&mut self, cookie: u64) -> String {
        if cookie & Names::OWN == Names::OWN {
            return "Maple's own".into();
        }
        let at = self.0.iter().position(|known| *known == cookie).unwrap_or_else(|| {
            self.0.push(cookie);
            self.0.len() - 1
        });
        format!("owner {}", at + 1)
    }

    /// Returns a message to a switch as text; `None` for requests for its counters.
    fn message(&mut self, version: Version, message: &Message) -> Option<String> {
        Some(match message {
            Message::FlowMod(flow_mod) => self.flow_mod(version, flow_mod),
            Message::PacketOut(out) => packet_out(version, out),
            Message::BarrierRequest => "barrier".into(),
            Message::StatsRequest(_) => return None,
            other => format!("{other:?}"),
        })
    }

    fn flow_mod(&mut self, version: Version, flow_mod: &FlowMod) -> String {
        let verb = match flow_mod.command {
            FlowModCommand::Add => "add",
            FlowModCommand::Modify | FlowModCommand::ModifyStrict => "modify",
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => "delete",
        };
        let rule = comma(flow_mod.priority, &print::matching(version, &flow_mod.matching));
        let table = flow_mod.table_id;
        if verb == "delete" {
            return format!("delete table={table}, {rule}");
        }
        let actions = print::instructions(version, &flow_mod.instructions);
        format!("{verb} table={table}, {rule} {actions} ({})", self.owner(flow_mod.cookie))
    }
}

fn comma(priority: u16, matching: &str) -> String {
    if matching.is_empty() { format!("priority={priority}") } else { format!("priority={priority},{matching}") }
}

fn packet_out(version: Version, out: &PacketOut) -> String {
    let packet = Packet::new(&out.data, 0);
    format!("packet-out {} of {}", print::actions(version, &out.actions), text::summary(&packet))
}
