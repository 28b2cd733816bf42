//! Values of options: on or off, times, addresses, ports, ranges of labels.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::{ArgAction, Command, ValueEnum};
use maple_controller::OPENFLOW_PORT;
use maple_controller::control::socket::Tolerance;
use maple_core::engine::LabelRange;
use maple_etcd::{AddressError, Endpoint};
use maple_load::TlsVersion;
use maple_wire::packet::text::parse_vlan_id;
use maple_wire::{BadDpid, Dpid};

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    /// On.
    On,
    /// Off.
    Off,
}

/// The fate of a switch whose control connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unreachable {
    /// Its links, hosts and rules stand.
    Keep,
    /// The switch is gone at once.
    Forget,
}

/// A time that may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause(pub Duration);

/// Parses a number of packets, or a share of them such as `5%`.
///
/// # Errors
/// A text that describes the valid values.
pub fn tolerance(text: &str) -> Result<Tolerance, String> {
    match text.strip_suffix('%').map(str::parse::<u8>) {
        Some(Ok(percent)) if percent <= 100 => Ok(Tolerance::Percent(percent)),
        Some(_) => Err("it is a share from 0% to 100%".into()),
        None => match text.parse::<u32>() {
            Ok(count) => Ok(Tolerance::Count(count.into())),
            Err(_) => Err("it is a number of packets such as 5, or a share of them such as 5%".into()),
        },
    }
}

/// Parses a time such as `20s`, `500ms`, `2m`, `1.5s`.
///
/// # Errors
/// A text that describes the valid values.
pub fn duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("{text:?} is not a time such as 20s, 500ms or 2m");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number: f64 = number.trim().parse().map_err(|_| invalid())?;
    let scale = match unit {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(invalid()),
    };
    match Duration::try_from_secs_f64(number * scale) {
        Ok(Duration::ZERO) => Err(format!("{text:?} is not longer than zero")),
        Ok(duration) => Ok(duration),
        Err(_) => Err(invalid()),
    }
}

/// Parses a number of bytes such as `1GiB`, `500MB` or `65536`.
///
/// # Errors
/// A text that describes the valid values.
pub fn bytes(text: &str) -> Result<u64, String> {
    let invalid = || format!("{text:?} is not a number of bytes such as 1GiB, 500MiB or 65536");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(invalid()),
    };
    let number: u64 = number.trim().parse().map_err(|_| invalid())?;
    number.checked_mul(scale).ok_or_else(invalid)
}

/// Parses a datapath id.
///
/// # Errors
/// A text that describes the valid values.
pub fn dpid(text: &str) -> Result<Dpid, String> {
    text.parse().map_err(|error: BadDpid| error.to_string())
}

/// The minimum limit of rules. Below it, Maple's own rules and the reserve leave none for the policy.
const MIN_RULES: u32 = 32;

/// Parses a limit of rules.
///
/// # Errors
/// A text, if it is not a number or less than [`MIN_RULES`].
pub fn max_rules(text: &str) -> Result<u32, String> {
    let number = text.parse().map_err(|_| format!("{text:?} is not a number from {MIN_RULES} to {}", u32::MAX))?;
    if number < MIN_RULES {
        return Err(format!(
            "must be at least {MIN_RULES}: Maple's own rules (a few for each switch and port) and a reserve for updates \
             would leave none for the policy"
        ));
    }
    Ok(number)
}

/// Parses a time that may be 0.
///
/// # Errors
/// A text that describes the valid values.
pub fn pause(text: &str) -> Result<Pause, String> {
    if text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse() == Ok(0.0) {
        return Ok(Pause(Duration::ZERO));
    }
    duration(text).map(Pause)
}

/// Parses an address with a port, a port alone, or an address with OpenFlow's default port.
///
/// # Errors
/// A text that describes the valid values.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, OPENFLOW_PORT));
    }
    match text.strip_prefix(':').unwrap_or(text).parse() {
        Ok(port) => Ok(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)),
        Err(_) => Err(format!("{text:?} is not an address such as 127.0.0.1:6653, [::]:6653 or 6653")),
    }
}

/// The maximum length of a controller's name in a cluster, in bytes: that of a label of a host name (RFC 1035 §2.3.4).
const MAX_MEMBER_NAME: usize = 63;

/// Parses the name of a controller in a cluster.
///
/// # Errors
/// A text that describes the valid values.
pub fn member_name(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=MAX_MEMBER_NAME).contains(&text.len()) && text.chars().all(is_allowed) {
        return Ok(text.to_owned());
    }
    Err(format!("a name is of 1 to {MAX_MEMBER_NAME} letters, digits, `-`, `_` and `.`"))
}

/// The default port at which controllers of a cluster reach each other. Chosen: one above that of OpenFlow.
const PEER_PORT: u16 = OPENFLOW_PORT + 1;

/// Parses the address at which the other controllers of a cluster reach this one.
///
/// # Errors
/// A text that describes the valid values.
pub fn peer_address(text: &str) -> Result<Endpoint, String> {
    let mut address: Endpoint = text.parse().map_err(|error: AddressError| error.to_string())?;
    if !text.ends_with(&format!(":{}", address.port)) {
        address.port = PEER_PORT;
    }
    Ok(address)
}

/// The default port of metrics. Chosen: 3,000 above that of OpenFlow.
const METRICS_PORT: u16 = 9653;

/// Parses the address of metrics. A port alone means the loopback interface, because the counters are not for
/// everybody.
///
/// # Errors
/// A text that describes the valid values.
pub fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    own_address(text, METRICS_PORT)
}

/// The default port of the HTTP API. Chosen: 2,000 above that of OpenFlow.
const HTTP_PORT: u16 = 8653;

/// Parses the address of the HTTP API. A port alone means the loopback interface.
///
/// # Errors
/// A text that describes the valid values.
pub fn http_address(text: &str) -> Result<SocketAddr, String> {
    own_address(text, HTTP_PORT)
}

/// Parses an address where this port is the default, and where a port alone means the loopback interface.
fn own_address(text: &str, default: u16) -> Result<SocketAddr, String> {
    let ip = |ip: IpAddr| SocketAddr::new(ip, default);
    let port = |port: u16| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    let parsed = text.parse().ok().or_else(|| text.parse().ok().map(ip));
    let parsed = parsed.or_else(|| text.strip_prefix(':').unwrap_or(text).parse().ok().map(port));
    parsed
        .ok_or_else(|| format!("{text:?} is not an address such as 127.0.0.1:{default}, [::1]:{default} or {default}"))
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: SocketAddr,
    /// Whether connections to it begin with TLS.
    pub is_tls: bool,
}

/// Parses an address to listen on, after an optional `tls:` or `tcp:`.
///
/// # Errors
/// A text that describes the valid values.
pub fn listen(text: &str) -> Result<Listen, String> {
    let (is_tls, rest) = match text.split_once(':') {
        Some(("tls", rest)) => (true, rest),
        Some(("tcp", rest)) => (false, rest),
        _ => (false, text),
    };
    Ok(Listen { address: address(rest)?, is_tls })
}

/// Parses a range of VLAN ids, such as 2000-2999; hex numbers start with `0x`.
///
/// # Errors
/// A text that describes the valid values.
pub fn labels(text: &str) -> Result<LabelRange, String> {
    let invalid = || format!("{text:?} is not a range of VLAN ids such as 2000-2999");
    let number = |text: &str| parse_vlan_id(text).ok_or_else(invalid);
    let (first, last) = text.split_once('-').ok_or_else(invalid)?;
    LabelRange::new(number(first)?..=number(last)?).map_err(|error| error.to_string())
}

/// Parses a version of TLS, 1.2 or 1.3.
///
/// # Errors
/// A text that names the supported versions.
pub fn tls_version(text: &str) -> Result<TlsVersion, String> {
    match text {
        "1.2" => Ok(TlsVersion::V12),
        "1.3" => Ok(TlsVersion::V13),
        _ => Err(format!("TLS {text} is not supported; 1.2 and 1.3 are")),
    }
}

/// Lets flags take a value too: `--watch=false` overrides a configuration.
pub fn with_values(command: Command) -> Command {
    command.mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue => arg
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .value_parser(clap::value_parser!(bool))
            .value_name("true|false")
            .default_value("false")
            .default_missing_value("true")
            .hide_possible_values(true)
            .hide_default_value(true),
        _ => arg,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_are_positive() {
        assert_eq!(duration("20s"), Ok(Duration::from_secs(20)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for text in ["", "s", "-1s", "0s", "5 parsecs", "nan"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_limit_of_rules_leaves_some_for_the_policy() {
        assert_eq!(max_rules("32"), Ok(32));
        assert!(max_rules("31").is_err_and(|error| error.contains("at least 32: Maple's own rules")));
        assert!(max_rules("many").is_err_and(|error| error.contains("from 32 to 4294967295")));
    }

    #[test]
    fn labels_are_a_range_of_vlan_ids() {
        assert_eq!(labels("1-4094"), Ok(LabelRange::ALL));
        assert_eq!(labels("0x1064-0x10c7"), labels("100-199"), "as vlan_vid is printed");
        assert_eq!(labels("0x64-199"), Ok(LabelRange::new(100..=199).expect("VLAN ids")));
        for (text, why) in [
            ("", "not a range of VLAN ids"),
            ("100", "not a range of VLAN ids"),
            ("100-70000", "not a range of VLAN ids"),
            ("200-100", "the first not above the last"),
            ("0-15", "within 1 to 4094"),
            ("15-4095", "within 1 to 4094"),
        ] {
            assert!(labels(text).is_err_and(|error| error.contains(why)), "{text}");
        }
    }

    #[test]
    fn metrics_of_a_port_alone_are_for_this_machine() {
        assert_eq!(metrics_address("9000"), Ok("127.0.0.1:9000".parse().unwrap()));
        assert_eq!(metrics_address(":9000"), Ok("127.0.0.1:9000".parse().unwrap()));
        assert_eq!(metrics_address("::1"), Ok("[::1]:9653".parse().unwrap()));
        assert_eq!(metrics_address("0.0.0.0:1"), Ok("0.0.0.0:1".parse().unwrap()));
        assert!(metrics_address("here").is_err());
        assert_eq!(http_address("::1"), Ok("[::1]:8653".parse().unwrap()));
    }

    #[test]
    fn controllers_reach_each_other_at_a_host() {
        let shown = |text: &str| peer_address(text).map(|address| address.to_string());
        assert_eq!(shown("a"), Ok("a:6654".into()));
        assert_eq!(shown("a:2379"), Ok("a:2379".into()));
        assert_eq!(shown("[::1]"), Ok("[::1]:6654".into()));
        assert_eq!(shown("[::1]:1"), Ok("[::1]:1".into()));
        assert_eq!(shown("a:0"), Err("`a:0` is not HOST:PORT".into()));
    }

    #[test]
    fn an_address_or_a_port_alone_is_complete() {
        assert_eq!(address("6633"), Ok("0.0.0.0:6633".parse().unwrap()));
        assert_eq!(address("127.0.0.1"), Ok("127.0.0.1:6653".parse().unwrap()));
        assert_eq!(address("[::1]:1"), Ok("[::1]:1".parse().unwrap()));
        assert!(address("switch").is_err());
    }
}
