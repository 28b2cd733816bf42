//! `maple show topology`: switches, links and hosts as one picture, and with `--watch` their changes.
//!
//! The view queries the controller a few times a second and compares. It uses only the queries of `maple show`. On a
//! terminal the picture is redrawn, with the latest events below it. Otherwise each event is a line.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use maple_controller::control::socket::{AskError, Reach, Request, Show, ask};
use maple_controller::names::Names;
use maple_wire::counted;
use serde_json::{Value, json};

use super::{items, location, plain};
use crate::output::{is_watched, json_line, json_text, print_text, redraw};

/// The time between two questions to the controller. Chosen: a person sees a link fail at once, and a question puts no
/// load on switches.
const QUERY_INTERVAL: Duration = Duration::from_millis(250);
/// The number of events shown below the picture. Chosen: the picture and they fit a terminal.
const EVENTS: usize = 10;

/// The parts of the network, as the controller names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Topology {
    /// Each switch, with its description.
    switches: BTreeMap<String, String>,
    /// Both ends of each link, the lower first.
    links: BTreeSet<(String, String)>,
    /// The place and the IP addresses of each hardware address.
    hosts: BTreeMap<String, (String, String)>,
}

impl Topology {
    /// Queries a controller.
    fn ask(controller: &dyn Reach) -> Result<Topology, AskError> {
        let view = |what| ask(controller, &Request::Show(what));
        Ok(Topology::from_answers(&view(Show::Switches)?, &view(Show::Links)?, &view(Show::Hosts)?))
    }

    fn from_answers(switches: &Value, links: &Value, hosts: &Value) -> Topology {
        let host = |host: &Value| {
            let addresses: Vec<String> = items(&host["ipv4"]).chain(items(&host["ipv6"])).map(plain).collect();
            (plain(&host["mac"]), (location(&host["at"]), addresses.join(" ")))
        };
        Topology {
            switches: items(switches).map(|switch| (plain(&switch["switch"]), plain(&switch["description"]))).collect(),
            links: items(links).map(|link| (location(&link[0]), location(&link[1]))).collect(),
            hosts: items(hosts).map(host).collect(),
        }
    }

    /// Draws the picture: each switch with the links and hosts of its ports.
    fn text(&self) -> String {
        let mut text = format!(
            "{}, {}, {}\n",
            counted(self.switches.len(), "switch"),
            counted(self.links.len(), "link"),
            counted(self.hosts.len(), "host")
        );
        for (switch, description) in &self.switches {
            let _ = writeln!(text, "{switch}  {description}");
            for (port, what) in self.neighbours(switch) {
                let _ = writeln!(text, "  {port:>5}  {what}");
            }
        }
        text
    }

    /// Returns the links and hosts of a switch, by port.
    fn neighbours(&self, switch: &str) -> BTreeSet<(u64, String)> {
        let port = |at: &str| {
            let (dpid, port) = at.rsplit_once(':')?;
            (dpid == switch).then(|| port.parse().unwrap_or(u64::MAX))
        };
        let ends = self.links.iter().flat_map(|(a, b)| [(a, b), (b, a)]);
        let links = ends.filter_map(|(near, far)| port(near).map(|port| (port, format!("─── {far}"))));
        let hosts = self.hosts.iter().filter_map(|(mac, (at, addresses))| {
            port(at).map(|port| (port, format!("host {mac} {addresses}").trim_end().to_string()))
        });
        links.chain(hosts).collect()
    }

    /// Describes the changes between two states.
    fn events(&self, next: &Topology) -> Vec<String> {
        let mut all = Vec::new();
        let mut differ = |what: &str, before: BTreeSet<String>, after: BTreeSet<String>| {
            all.extend(before.difference(&after).map(|one| format!("{what} {one} down")));
            all.extend(after.difference(&before).map(|one| format!("{what} {one} up")));
        };
        let switches = |topology: &Topology| topology.switches.keys().cloned().collect();
        differ("switch", switches(self), switches(next));
        let links = |topology: &Topology| topology.links.iter().map(|(a, b)| format!("{a} - {b}")).collect();
        differ("link", links(self), links(next));
        for (mac, (at, _)) in &self.hosts {
            match next.hosts.get(mac) {
                None => all.push(format!("host {mac} gone from {at}")),
                Some((to, _)) if to != at => all.push(format!("host {mac} moved from {at} to {to}")),
                Some(_) => {}
            }
        }
        let new = next.hosts.iter().filter(|(mac, _)| !self.hosts.contains_key(*mac));
        all.extend(new.map(|(mac, (at, _))| format!("host {mac} found at {at}")));
        all
    }

    /// Returns the topology as JSON.
    fn json(&self) -> Value {
        let host = |(mac, (at, addresses)): (&String, &(String, String))| json!({"mac": mac, "at": at, "addresses": addresses.split_whitespace().collect::<Vec<_>>()});
        json!({
            "switches": self.switches.keys().collect::<Vec<_>>(),
            "links": self.links.iter().collect::<Vec<_>>(),
            "hosts": self.hosts.iter().map(host).collect::<Vec<_>>(),
        })
    }
}

/// Prints the topology, or follows it.
///
/// # Errors
/// If the controller does not answer, or if standard output can't be written.
pub fn main(controller: &dyn Reach, stays: bool, as_json: bool) -> anyhow::Result<u8> {
    if stays {
        return watch(controller, as_json);
    }
    let topology = Topology::ask(controller).map_err(super::hint)?;
    let text =
        if as_json { json_text(&topology.json()) + "\n" } else { super::names(controller).in_text(&topology.text()) };
    print_text(&text)?;
    Ok(0)
}

/// Follows the network until the controller is gone, which is an error.
fn watch(controller: &dyn Reach, as_json: bool) -> anyhow::Result<u8> {
    let mut now = Topology::ask(controller).map_err(super::hint)?;
    let draws = !as_json && is_watched();
    let begun = Instant::now();
    let mut events = VecDeque::new();
    let names = super::names(controller);
    let shown = ViewSettings { names: &names, begun, draws, as_json };
    show(&now, &[], &mut events, shown)?;
    loop {
        std::thread::sleep(QUERY_INTERVAL);
        let next = Topology::ask(controller)?;
        if next != now {
            let happened = now.events(&next);
            now = next;
            show(&now, &happened, &mut events, shown)?;
        }
    }
}

/// The settings of the view.
#[derive(Clone, Copy)]
struct ViewSettings<'a> {
    names: &'a Names,
    begun: Instant,
    draws: bool,
    as_json: bool,
}

/// Draws the picture with the latest events. Without a terminal, prints the picture once, and then each event.
fn show(
    now: &Topology,
    happened: &[String],
    events: &mut VecDeque<String>,
    ViewSettings { names, begun, draws, as_json }: ViewSettings<'_>,
) -> std::io::Result<()> {
    if as_json {
        return print_text(&(json_line(&now.json()) + "\n"));
    }
    let is_first = events.is_empty() && happened.is_empty();
    let stamp = |event: &String| format!("{:>8.1} s  {}", begun.elapsed().as_secs_f64(), names.in_text(event));
    events.extend(happened.iter().map(stamp));
    if draws {
        let surplus = events.len().saturating_sub(EVENTS);
        events.drain(..surplus);
        let events: String = events.iter().map(|event| format!("{event}\n")).collect();
        redraw(&(names.in_text(&now.text()) + &events))
    } else if is_first {
        print_text(&names.in_text(&now.text()))
    } else {
        print_text(&events.drain(..).map(|event| event + "\n").collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Topology {
        let place = |switch: &str, port: u32| json!({"switch": switch, "port": port});
        let switches =
            json!([{"switch": "01", "description": "emulated"}, {"switch": "02", "description": "emulated"}]);
        let host = json!({"mac": "00:00:00:00:00:01", "at": place("01", 1), "ipv4": ["10.0.0.1"], "ipv6": []});
        Topology::from_answers(&switches, &json!([[place("01", 10), place("02", 2)]]), &json!([host]))
    }

    #[test]
    fn the_picture_shows_each_switch_with_what_is_behind_its_ports() {
        let wanted = "2 switches, 1 link, 1 host\n01  emulated\n      1  host 00:00:00:00:00:01 10.0.0.1\n     \
                      10  ─── 02:2\n02  emulated\n      2  ─── 01:10\n";
        assert_eq!(line().text(), wanted);
    }

    #[test]
    fn changes_of_the_topology_are_reported_as_events() {
        let (before, mut after) = (line(), line());
        after.links.clear();
        after.switches.remove("02");
        after.hosts.insert("00:00:00:00:00:01".into(), ("01:3".into(), String::new()));
        after.hosts.insert("00:00:00:00:00:02".into(), ("01:4".into(), String::new()));
        let wanted = [
            "switch 02 down",
            "link 01:10 - 02:2 down",
            "host 00:00:00:00:00:01 moved from 01:1 to 01:3",
            "host 00:00:00:00:00:02 found at 01:4",
        ];
        assert_eq!(before.events(&after), wanted);
        assert!(after.events(&before).contains(&"link 01:10 - 02:2 up".to_string()));
        assert_eq!(before.events(&before), Vec::<String>::new());
    }
}
