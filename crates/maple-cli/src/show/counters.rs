//! `maple show ports` and `maple show flows`: counters of switches, and with `--watch` their rates.
//!
//! The controller computes the rates between the two newest answers of a switch. On a terminal the table is redrawn
//! each second. Otherwise each refresh adds a line for each port or pair of hosts that is not idle.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use maple_controller::control::socket::{Reach, Request, Show, ask};
use maple_wire::counted;
use serde_json::Value;

use super::{hint, items, plain};
use crate::output::{is_watched, json_line, print_text, redraw};

/// The time between two questions to the controller. It does not query switches more often because of this. Chosen:
/// figures that change more often can't be read.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// The subject of the table.
pub enum Counters {
    /// The ports of one switch, or of all.
    Ports(Option<String>),
    /// The pairs of hosts with the highest rates, at most this number, at one switch or all.
    Flows(Option<String>, usize),
}

impl Counters {
    /// Prints the counters once, or until the controller is gone, which is an error.
    ///
    /// # Errors
    /// If the controller does not answer, or if standard output can't be written.
    pub fn show(&self, controller: &dyn Reach, watch: bool, as_json: bool) -> anyhow::Result<u8> {
        let names = super::names(controller);
        if !watch {
            let mut answer = self.ask(controller)?;
            if matches!(self, Counters::Flows(..)) && items(&answer).any(|flow| flow["bits_per_second"].is_null()) {
                // There is a rate only when the switch was queried twice.
                std::thread::sleep(QUERY_INTERVAL);
                answer = self.ask(controller)?;
            }
            let text =
                if as_json { super::pretty(&answer) } else { names.in_text(&self.table(&answer, &hosts(controller)?)) };
            print_text(&text)?;
            return Ok(0);
        }
        let draws = !as_json && is_watched();
        let begun = Instant::now();
        loop {
            let asked = Instant::now();
            let answer = self.ask(controller)?;
            match (as_json, draws) {
                (true, _) => print_text(&(json_line(&answer) + "\n"))?,
                (_, true) => redraw(&names.in_text(&self.table(&answer, &hosts(controller)?)))?,
                (_, false) => print_text(&names.in_text(&self.lines(&answer, &hosts(controller)?, begun.elapsed())))?,
            }
            std::thread::sleep(QUERY_INTERVAL.saturating_sub(asked.elapsed()));
        }
    }

    /// Queries the controller, and sorts flows.
    fn ask(&self, controller: &dyn Reach) -> anyhow::Result<Value> {
        let what = match self {
            Counters::Ports(switch) => Show::Ports(switch.clone()),
            Counters::Flows(switch, _) => Show::Flows(switch.clone()),
        };
        let mut answer = ask(controller, &Request::Show(what)).map_err(hint)?;
        if let (Counters::Flows(_, top), Some(flows)) = (self, answer.as_array_mut()) {
            order(flows);
            flows.truncate(*top);
        }
        Ok(answer)
    }

    /// Writes all rows.
    fn table(&self, answer: &Value, hosts: &Hosts) -> String {
        match self {
            Counters::Ports(_) => items(answer).map(ports).collect(),
            Counters::Flows(..) => items(answer).map(|one| flow(one, hosts)).collect(),
        }
    }

    /// Writes the rows that are not idle, after this time.
    fn lines(&self, answer: &Value, hosts: &Hosts, time: Duration) -> String {
        let is_busy = |one: &Value, name: &str| one[name].as_f64().is_some_and(|rate| rate > 0.0);
        let mut text = String::new();
        let mut line = |what: String| {
            let _ = writeln!(text, "{:>8.1} s  {what}", time.as_secs_f64());
        };
        match self {
            Counters::Ports(_) => {
                for switch in items(answer) {
                    let busy =
                        |port: &&Value| ["tx", "rx"].iter().any(|way| is_busy(port, &format!("{way}_bits_per_second")));
                    for port in items(&switch["ports"]).filter(busy) {
                        line(format!("{}:{}  {}", plain(&switch["switch"]), plain(&port["port"]), rates(port)));
                    }
                }
            }
            Counters::Flows(..) => {
                let busy = items(answer).filter(|one| is_busy(one, "bits_per_second"));
                busy.for_each(|one| line(flow(one, hosts).trim_end().to_owned()));
            }
        }
        text
    }
}

/// The IP addresses of hosts, by hardware address.
type Hosts = BTreeMap<String, String>;

fn hosts(controller: &dyn Reach) -> anyhow::Result<Hosts> {
    let hosts = ask(controller, &Request::Show(Show::Hosts)).map_err(hint)?;
    let named_host = |host: &Value| {
        let mut addresses = items(&host["ipv4"]).chain(items(&host["ipv6"])).map(plain);
        Some((plain(&host["mac"]), addresses.next()?))
    };
    Ok(items(&hosts).filter_map(named_host).collect())
}

/// Sorts by the highest rate first; equal ones by switch and hosts.
fn order(flows: &mut [Value]) {
    let number = |flow: &Value, name: &str| flow[name].as_f64().unwrap_or(0.0);
    flows.sort_by(|a, b| {
        let by = |name| number(b, name).total_cmp(&number(a, name));
        by("bits_per_second").then(by("bytes"))
    });
}

/// Writes the ports of a switch, a line each.
fn ports(switch: &Value) -> String {
    let mut text = format!("switch {}\n", plain(&switch["switch"]));
    for port in items(&switch["ports"]) {
        let state = if port["up"] == Value::Bool(true) { "up" } else { "down" };
        let kind = port["kind"].as_str().map(|kind| format!(", {kind}")).unwrap_or_default();
        let speed = port["speed"].as_f64().map(|speed| format!(", {}bit/s", scaled(speed))).unwrap_or_default();
        let _ = writeln!(
            text,
            "  port {} ({}): {state}{kind}{speed}{}",
            plain(&port["port"]),
            plain(&port["name"]),
            counts(port)
        );
    }
    text
}

/// Writes the counters and rates of a port, as far as its switch reports them.
fn counts(port: &Value) -> String {
    let sum = |way: &str, verb: &str| {
        let (packets, bytes) = (&port[format!("{way}_packets")], &port[format!("{way}_bytes")]);
        match (packets.as_u64(), bytes.as_f64()) {
            (Some(packets), Some(bytes)) => format!("; {verb} {}, {}B", counted(packets, "packet"), scaled(bytes)),
            _ => String::new(),
        }
    };
    let lost: u64 =
        ["rx_dropped", "tx_dropped", "rx_errors", "tx_errors"].iter().filter_map(|name| port[*name].as_u64()).sum();
    let lost = if lost > 0 { format!("; {lost} dropped or in error") } else { String::new() };
    let rates = if port["tx_bits_per_second"].is_null() { String::new() } else { format!("; now {}", rates(port)) };
    format!("{}{}{lost}{rates}{}", sum("tx", "sent"), sum("rx", "received"), old(port))
}

/// Writes the rates of a port.
fn rates(port: &Value) -> String {
    format!("sends {}, receives {}", rate(port, "tx_"), rate(port, "rx_"))
}

fn flow(flow: &Value, hosts: &Hosts) -> String {
    let host = |name: &str| match flow[name].as_str() {
        None => match &flow[format!("{name}_at")] {
            Value::Null => "any".to_owned(),
            at => format!("hosts at {}:{}", plain(&at["switch"]), plain(&at["port"])),
        },
        Some(mac) => hosts.get(mac).map_or_else(|| mac.to_owned(), |ip| format!("{mac} ({ip})")),
    };
    let rate = if flow["bits_per_second"].is_null() { "not known yet".into() } else { rate(flow, "") };
    let bytes = scaled(flow["bytes"].as_f64().unwrap_or(0.0));
    let (from, to, switch) = (host("from"), host("to"), plain(&flow["switch"]));
    format!(
        "{from} -> {to}  {rate}  (at {switch}, {}, {bytes}B so far{})\n",
        counted(plain(&flow["packets"]), "packet"),
        old(flow)
    )
}

fn rate(one: &Value, way: &str) -> String {
    let number = |unit: &str| one[format!("{way}{unit}_per_second")].as_f64().unwrap_or(0.0);
    format!("{}bit/s ({:.0} packet/s)", scaled(number("bits")), number("packets"))
}

/// Writes the age of the figures, if it is more than users expect.
fn old(one: &Value) -> String {
    match one["counted_seconds_ago"].as_f64() {
        Some(age) if age > 3.0 => format!("; {age:.0} s ago"),
        _ => String::new(),
    }
}

/// Writes a number with three digits and the unit's prefix.
pub fn scaled(number: f64) -> String {
    let (mut number, mut prefixes) = (number, ["", "k", "M", "G", "T"].iter().peekable());
    while number >= 999.5 && prefixes.len() > 1 {
        number /= 1000.0;
        prefixes.next();
    }
    let prefix = prefixes.next().unwrap_or(&"");
    let digits = if prefix.is_empty() || number >= 99.95 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    format!("{number:.digits$} {prefix}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_prefix() {
        let wanted = [
            (0.0, "0 "),
            (999.0, "999 "),
            (1000.0, "1.00 k"),
            (12_345.0, "12.3 k"),
            (999_600.0, "1.00 M"),
            (5e7, "50.0 M"),
            (1e10, "10.0 G"),
            (2.5e16, "25000 T"),
        ];
        wanted.iter().for_each(|(number, text)| assert_eq!(scaled(*number), *text));
    }

    #[test]
    fn ports_say_what_they_carry_and_leave_out_what_a_switch_does_not_count() {
        let busy = json!({"port": 1, "name": "eth1", "up": true, "kind": "edge", "speed": 10_000_000_000u64,
            "tx_packets": 3, "tx_bytes": 4500, "rx_packets": 1, "rx_bytes": 60, "rx_dropped": 2, "counted_seconds_ago": 7.2,
            "tx_bits_per_second": 36_000.0, "tx_packets_per_second": 3.0, "rx_bits_per_second": 0.0, "rx_packets_per_second": 0.0});
        let silent = json!({"port": 2, "name": "eth2", "up": false, "kind": null, "speed": null});
        let answer = json!([{"switch": "01", "ports": [busy, silent]}]);
        let counters = Counters::Ports(None);
        assert_eq!(
            counters.table(&answer, &Hosts::new()),
            "switch 01\n  port 1 (eth1): up, edge, 10.0 Gbit/s; sent 3 packets, 4.50 kB; received 1 packet, 60 B; 2 dropped or in \
             error; now sends 36.0 kbit/s (3 packet/s), receives 0 bit/s (0 packet/s); 7 s ago\n  port 2 (eth2): down\n"
        );
        assert_eq!(
            counters.lines(&answer, &Hosts::new(), Duration::from_secs(2)),
            "     2.0 s  01:1  sends 36.0 kbit/s (3 packet/s), receives 0 bit/s (0 packet/s)\n"
        );
    }

    #[test]
    fn flows_come_in_the_order_of_their_rates() {
        let one = |to: &str, rate: f64| {
            json!({"switch": "01", "from": null, "to": to, "packets": 2, "bytes": 120, "bits_per_second": rate,
                "packets_per_second": 1.0, "counted_seconds_ago": 0.1})
        };
        let mut flows = vec![one("a", 0.0), one("b", 9.0), one("c", 5e6)];
        order(&mut flows);
        let hosts = Hosts::from([("b".to_owned(), "10.0.0.2".to_owned())]);
        let lines = Counters::Flows(None, 9).lines(&json!(flows), &hosts, Duration::ZERO);
        assert_eq!(
            lines,
            "     0.0 s  any -> c  5.00 Mbit/s (1 packet/s)  (at 01, 2 packets, 120 B so far)\n     \
             0.0 s  any -> b (10.0.0.2)  9 bit/s (1 packet/s)  (at 01, 2 packets, 120 B so far)\n"
        );
    }
}
