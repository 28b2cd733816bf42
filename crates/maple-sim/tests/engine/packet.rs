//! The packets of scripts: a few words describe a frame.

use maple_wire::packet::Frame;

use crate::stage::Hosts;

/// The source port of every TCP and UDP packet of scripts.
const SOURCE_PORT: u16 = 1000;

/// Builds the frame for `FROM TO KIND …`: host names, and `arp`, `tcp PORT`, `udp PORT`, `ping` or `raw TYPE`. A `*`
/// stands for the broadcast address. `vlan ID` before the kind gives the frame a tag.
pub fn frame(words: &[&str], hosts: &Hosts) -> Result<Vec<u8>, String> {
    let [from, to, rest @ ..] = words else { return Err("expected packet FROM TO KIND".into()) };
    let (from, to) = (hosts.get(from)?, if *to == "*" { None } else { Some(hosts.get(to)?) });
    let frame = Frame::ethernet(to.map_or([0xff; 6], |host| host.mac.0), from.mac.0);
    let (frame, kind) = match rest {
        ["vlan", id, kind @ ..] => (frame.vlan(number(id)?), kind),
        kind => (frame, kind),
    };
    let (src, dst) = (from.ipv4, to.map_or([255; 4].into(), |host| host.ipv4));
    Ok(match kind {
        ["arp"] => frame.arp_request(src, dst),
        ["ping"] => frame.ipv4(src, dst).echo_request(1, 1).payload(b"ping"),
        ["tcp", port] => frame.ipv4(src, dst).tcp(SOURCE_PORT, number(port)?).payload(b""),
        ["udp", port] => frame.ipv4(src, dst).udp(SOURCE_PORT, number(port)?).payload(b"data"),
        ["raw", kind] => frame.raw(number(kind)?, b"data"),
        other => return Err(format!("{:?} is no kind of packet", other.first().unwrap_or(&""))),
    })
}

/// Parses a number in decimal, or in hexadecimal after `0x`.
pub fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let value = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| format!("{text:?} is not a number"))
}
