//! The output of `show`: the current network, one line for each thing.

use maple_switch::{GroupKind, Switch};
use maple_wire::packet::text::mac_text;
use maple_wire::print::flow_line;
use maple_wire::{Dpid, Port, counted};

use super::{CommandError, CommandRunner, Ground, Show};
use crate::emulated::{EmulatedNetwork, Link};
use crate::quantity::{rate_text, time_text};
use crate::topology::Topology;

impl CommandRunner {
    /// Returns the output of `show`.
    ///
    /// # Errors
    /// [`CommandError`] if there is no such switch.
    pub fn show(&self, ground: &mut impl Ground, what: Show, switch: Option<&str>) -> Result<String, CommandError> {
        let one = switch.map(|name| self.switch(name)).transpose()?;
        if what == Show::Losses {
            return self.losses(ground);
        }
        let topology = self.topology.clone();
        let lines = ground.with(move |network| {
            let view = View { topology: &topology, network };
            match what {
                Show::Hosts => view.hosts(),
                Show::Links => network.links().iter().map(|link| view.link(link)).collect(),
                Show::Switches => view.each(None, |name, switch| vec![view.switch(name, switch)]),
                Show::Rules if one.is_none() => view
                    .each(None, |name, switch| vec![format!("{name}: {} rules (show rules {name})", rules_of(switch))]),
                Show::Rules => view.each(one, |_, switch| rules(switch)),
                Show::Groups => view.each(one, groups),
                Show::Meters => view.each(one, meters),
                Show::Queues => view.each(one, queues),
                Show::Losses => Vec::new(),
            }
        })?;
        Ok(if lines.is_empty() { "none".into() } else { lines.join("\n") })
    }
}

struct View<'a> {
    topology: &'a Topology,
    network: &'a EmulatedNetwork,
}

impl View<'_> {
    fn name(&self, dpid: Dpid) -> &str {
        let found = self.topology.switches.iter().find(|switch| switch.dpid == dpid);
        found.map_or("?", |switch| switch.name.as_str())
    }

    fn each(&self, one: Option<Dpid>, lines: impl Fn(&str, &Switch) -> Vec<String>) -> Vec<String> {
        let wanted = self.topology.switches.iter().filter(|spec| one.is_none_or(|dpid| dpid == spec.dpid));
        wanted.filter_map(|spec| Some(lines(&spec.name, self.network.switch(spec.dpid)?))).flatten().collect()
    }

    fn hosts(&self) -> Vec<String> {
        let names: std::collections::BTreeMap<Dpid, &str> =
            self.topology.switches.iter().map(|switch| (switch.dpid, switch.name.as_str())).collect();
        let one = |host: &crate::Host| {
            let spec = host.spec();
            let mac = mac_text(&spec.mac);
            let at = format!("{}:{}", names.get(&spec.switch).unwrap_or(&"?"), spec.port);
            format!("{:<6} {at:<8} {mac} {:<15} {}", spec.name, spec.ipv4, spec.ipv6)
        };
        self.network.hosts().map(one).collect()
    }

    fn link(&self, link: &Link) -> String {
        let end = |(dpid, port): (Dpid, maple_wire::PortNo)| {
            let description = self.network.switch(dpid).and_then(|switch| switch.ports().get(&port));
            let is_up = description.is_some_and(|port| port.description.config & Port::CONFIG_DOWN == 0);
            (format!("{}:{port}", self.name(dpid)), is_up)
        };
        let ((a, a_up), (b, b_up)) = (end(link.spec.a), end(link.spec.b));
        let state = match (link.up, a_up, b_up) {
            (false, ..) => "down".to_string(),
            (true, true, true) => "up".to_string(),
            (true, false, _) => format!("{a} is down"),
            (true, true, false) => format!("{b} is down"),
        };
        let mut line = format!("{a:<8} {b:<8} {state:<5} delay {}", time_text(link.spec.delay));
        if link.spec.loss > 0.0 {
            line += &format!(" loss {}%", link.spec.loss * 100.0);
        }
        if let Some(rate) = link.spec.rate {
            line += &format!(" rate {}", rate_text(rate));
        }
        line
    }

    fn switch(&self, name: &str, switch: &Switch) -> String {
        let counters = switch.counters();
        let down = switch.ports().values().filter(|port| !port.description.is_up()).count();
        let down = if down > 0 { format!(" ({down} down)") } else { String::new() };
        format!(
            "{name:<6} {:<13} {} ports{down}, {} rules, {} packet-ins, {} flow-mods, {} errors",
            if switch.is_connected() { "connected" } else { "not connected" },
            switch.ports().len(),
            rules_of(switch),
            counters.packet_ins,
            counters.flow_mods,
            counters.errors,
        )
    }
}

fn rules_of(switch: &Switch) -> usize {
    switch.tables().iter().map(|table| table.len()).sum()
}

fn rules(switch: &Switch) -> Vec<String> {
    let tables = (0..).zip(switch.tables());
    let rules = tables.flat_map(|(number, table)| table.rules().into_iter().map(move |rule| (number, rule)));
    rules
        .map(|(table, rule)| {
            let line =
                flow_line(switch.version(), table, rule.priority, rule.cookie, &rule.matching, &rule.instructions);
            format!("{:>16} {}", counted(rule.packets, "packet"), line.trim_start())
        })
        .collect()
}

fn groups(name: &str, switch: &Switch) -> Vec<String> {
    let one = |(number, group): (u32, &maple_switch::Group)| {
        let kind = match group.kind {
            GroupKind::All => "all",
            GroupKind::Select => "select",
            GroupKind::Indirect => "indirect",
            GroupKind::FastFailover => "fast failover",
        };
        let buckets = group.buckets.iter().zip(&group.bucket_counters).map(|(bucket, (packets, _))| {
            let does = maple_wire::print::actions(switch.version(), &bucket.actions);
            let weight =
                if group.kind == GroupKind::Select { format!("weight {} ", bucket.weight) } else { String::new() };
            let watch = match group.kind {
                GroupKind::FastFailover => format!("watching {} ", bucket.watch_port),
                _ => String::new(),
            };
            format!("[{weight}{watch}{does}: {packets} packets]")
        });
        format!("{name:<6} group {number} {kind}, {} packets {}", group.packets, buckets.collect::<Vec<_>>().join(" "))
    };
    switch.groups().map(one).collect()
}

fn meters(name: &str, switch: &Switch) -> Vec<String> {
    let one = |(number, meter): (u32, &maple_switch::Meter)| {
        let unit = if meter.counts_packets() { "packets/s" } else { "kbit/s" };
        let bands = meter.bands().map(|band| format!("drop above {} {unit}", band.rate)).collect::<Vec<_>>();
        let (packets, dropped) = meter.packets();
        format!("{name:<6} meter {number} {}, {packets} packets, {dropped} dropped", bands.join(", "))
    };
    switch.meters().map(one).collect()
}

fn queues(name: &str, switch: &Switch) -> Vec<String> {
    let one = |((port, number), queue): ((maple_wire::PortNo, u32), &maple_switch::Queue)| {
        let rate =
            |what: &str, rate: Option<u64>| rate.map(|rate| format!(" {what} {}", rate_text(rate))).unwrap_or_default();
        let c = queue.counters;
        format!(
            "{name:<6} port {port} queue {number}{}{}, {} packets, {} dropped",
            rate("min", queue.rates.min),
            rate("max", queue.rates.max),
            c.packets,
            c.dropped
        )
    };
    switch.queues().map(one).collect()
}
