//! Names of switches and hosts, from the configuration or an emulated network. People read and write names; programs
//! read ids.
//!
//! Messages are written with ids, wherever they come from, also those of policies. [`Names::in_text`] puts the names
//! into the finished text, so that no message can be forgotten. What programs read (JSON) keeps its ids.

use std::collections::BTreeMap;

use maple_core::network::{BadLocation, Location, Mac, split_place};
use maple_wire::Dpid;
use serde_json::{Value, json};

/// The number of hex digits of a datapath id in messages: 64 bits (1.0 §5.3.1, 1.3 §7.3.1).
const DPID_DIGITS: usize = 16;
/// The number of characters of a hardware address in messages: six bytes of two digits, with colons between them.
const MAC_LENGTH: usize = 17;

/// The names of switches and hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    switches: BTreeMap<Dpid, String>,
    hosts: BTreeMap<Mac, String>,
    by_name: BTreeMap<String, Named>,
}

/// Something that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A switch.
    Switch(Dpid),
    /// A host.
    Host(Mac),
}

impl Names {
    /// Creates an empty list of names.
    pub fn new() -> Names {
        Names::default()
    }

    /// Reports whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Gives a name to a switch or host.
    ///
    /// # Errors
    /// A text if this can't be a name, or something else has it, or the switch or host has another name.
    pub fn add(&mut self, name: &str, of: Named) -> Result<(), String> {
        if name.parse::<f64>().is_ok() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err("a name has letters, digits, '-', '_' and '.', and is not a number".into());
        }
        if name.starts_with("0x") || name.is_empty() || name.len() > 64 || name.len() == DPID_DIGITS && is_hex(name) {
            return Err("this can't be a name: it is an id, empty, or longer than 64 characters".into());
        }
        if self.by_name.contains_key(name) {
            return Err("another switch or host has this name".into());
        }
        let before = match of {
            Named::Switch(dpid) => self.of_switch(dpid),
            Named::Host(mac) => self.of_host(mac),
        };
        if let Some(before) = before {
            return Err(format!("{before:?} has the same id"));
        }
        match of {
            Named::Switch(dpid) => self.switches.insert(dpid, name.to_owned()),
            Named::Host(mac) => self.hosts.insert(mac, name.to_owned()),
        };
        self.by_name.insert(name.to_owned(), of);
        Ok(())
    }

    /// Returns the name of a switch.
    pub fn of_switch(&self, dpid: Dpid) -> Option<&str> {
        self.switches.get(&dpid).map(String::as_str)
    }

    /// Returns the name of a host.
    pub fn of_host(&self, mac: Mac) -> Option<&str> {
        self.hosts.get(&mac).map(String::as_str)
    }

    /// Returns a switch by its name or its datapath id.
    ///
    /// # Errors
    /// A text that says what is expected.
    pub fn switch(&self, text: &str) -> Result<Dpid, String> {
        match self.by_name.get(text) {
            Some(Named::Switch(dpid)) => Ok(*dpid),
            Some(Named::Host(_)) => Err(format!("{text:?} is a host, not a switch")),
            None => text.parse().map_err(|_| {
                format!("{text:?} is not a switch: neither a name nor a datapath id (hex digits, such as 1 or 1f)")
            }),
        }
    }

    /// Returns a host by its name or its hardware address.
    ///
    /// # Errors
    /// A text that says what is expected.
    pub fn host(&self, text: &str) -> Result<Mac, String> {
        match self.by_name.get(text) {
            Some(Named::Host(mac)) => Ok(*mac),
            Some(Named::Switch(_)) => Err(format!("{text:?} is a switch, not a host")),
            None => text.parse().map_err(|_| format!("{text:?} is not a host: neither a name nor a hardware address")),
        }
    }

    /// Returns a port, `SWITCH:PORT`, of a switch by its name or its datapath id.
    ///
    /// # Errors
    /// A text that says what is expected.
    pub fn location(&self, text: &str) -> Result<Location, String> {
        let (switch, port) = split_place(text).ok_or_else(|| BadLocation(text.to_owned()).to_string())?;
        Ok(Location::new(self.switch(switch)?, port))
    }

    /// Returns the id of the switch or host with this name, or of a port of a switch with a name, as text.
    pub(crate) fn id_of(&self, text: &str) -> Option<String> {
        match self.by_name.get(text) {
            Some(Named::Switch(dpid)) => Some(dpid.to_string()),
            Some(Named::Host(mac)) => Some(mac.to_string()),
            None => Some(self.location(text).ok()?.to_string()),
        }
    }

    /// Replaces ids in a text by names: datapath ids as messages have them (16 hex digits), and hardware addresses.
    ///
    /// ```
    /// use maple_controller::names::{Named, Names};
    /// use maple_wire::Dpid;
    ///
    /// let mut names = Names::new();
    /// names.add("core1", Named::Switch(Dpid(1))).unwrap();
    /// assert_eq!(names.in_text("port 0000000000000001:3 is down"), "port core1:3 is down");
    /// ```
    pub fn in_text(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_hexdigit()) {
            let (before, from) = rest.split_at(start);
            out.push_str(before);
            let is_begun = is_in_word(&out) || is_in_address(&out);
            match self.at_start(from).filter(|_| !is_begun) {
                Some((length, name)) => {
                    out.push_str(name);
                    rest = &from[length..];
                }
                None => {
                    let word = from.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(from.len());
                    out.push_str(&from[..word]);
                    rest = &from[word..];
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// Returns the length of the id with which the text begins, and the name of its switch or host.
    fn at_start(&self, text: &str) -> Option<(usize, &str)> {
        let ends = |length: usize| {
            let next = text.as_bytes().get(length);
            next.is_none_or(|next| !next.is_ascii_alphanumeric() && *next != b'_')
        };
        if let Some(id) = text.get(..DPID_DIGITS).filter(|id| is_hex(id) && ends(DPID_DIGITS)) {
            return Some((DPID_DIGITS, self.of_switch(id.parse().ok()?)?));
        }
        let id = text.get(..MAC_LENGTH).filter(|id| id.bytes().skip(2).step_by(3).all(|c| c == b':'))?;
        // Datapath ids with colons are longer.
        let is_longer = text.as_bytes().get(MAC_LENGTH) == Some(&b':')
            && text
                .as_bytes()
                .get(MAC_LENGTH + 1..MAC_LENGTH + 3)
                .is_some_and(|next| next.iter().all(u8::is_ascii_hexdigit));
        let mac = id.parse().ok().filter(|_| ends(MAC_LENGTH) && !is_longer)?;
        Some((MAC_LENGTH, self.of_host(mac)?))
    }

    /// Encodes the names for another process.
    pub(crate) fn to_json(&self) -> Value {
        let switches: Vec<Value> =
            self.switches.iter().map(|(dpid, name)| json!({ "switch": dpid.to_string(), "name": name })).collect();
        let hosts: Vec<Value> =
            self.hosts.iter().map(|(mac, name)| json!({ "mac": mac.to_string(), "name": name })).collect();
        json!({ "switches": switches, "hosts": hosts })
    }

    /// Decodes the names of another process. Invalid ones are left out.
    pub fn from_json(answer: &Value) -> Names {
        let mut names = Names::new();
        let items = |kind: &str| answer[kind].as_array().cloned().unwrap_or_default();
        let text = |item: &Value, member: &str| item[member].as_str().unwrap_or_default().to_owned();
        for item in items("switches") {
            if let Ok(dpid) = text(&item, "switch").parse() {
                drop(names.add(&text(&item, "name"), Named::Switch(dpid)));
            }
        }
        for item in items("hosts") {
            if let Ok(mac) = text(&item, "mac").parse() {
                drop(names.add(&text(&item, "name"), Named::Host(mac)));
            }
        }
        names
    }
}

/// Reports whether the text that follows is in the middle of a word.
fn is_in_word(before: &str) -> bool {
    before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
}

/// Reports whether the text that follows is in the middle of bytes with colons between them.
fn is_in_address(before: &str) -> bool {
    match before.as_bytes() {
        [start @ .., a, b, b':'] => {
            a.is_ascii_hexdigit() && b.is_ascii_hexdigit() && !start.last().is_some_and(u8::is_ascii_alphanumeric)
        }
        _ => false,
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use maple_wire::PortNo;

    use super::*;

    fn names() -> Names {
        let mut names = Names::new();
        names.add("core1", Named::Switch(Dpid(1))).expect("a name");
        names.add("alice", Named::Host(Mac([0, 0, 0, 0, 0, 0xa]))).expect("a name");
        names
    }

    #[test]
    fn ids_become_names_wherever_they_are_whole() {
        for (text, wanted) in [
            ("switch 0000000000000001 up", "switch core1 up"),
            ("0000000000000001:3 - 0000000000000002:1", "core1:3 - 0000000000000002:1"),
            ("host 00:00:00:00:00:0a at 0000000000000001:3", "host alice at core1:3"),
            ("(00:00:00:00:00:0A)", "(alice)"),
            ("a0000000000000001 00000000000000011", "a0000000000000001 00000000000000011"),
            ("00:00:00:00:00:00:00:0a", "00:00:00:00:00:00:00:0a"),
            ("00:00:00:00:00:0a:00:0a", "00:00:00:00:00:0a:00:0a"),
            ("eth_src=00:00:00:00:00:0a,x", "eth_src=alice,x"),
            ("Zürich é 0000000000000001é", "Zürich é core1é"),
            ("", ""),
        ] {
            assert_eq!(names().in_text(text), wanted, "{text}");
        }
    }

    #[test]
    fn switches_hosts_and_ports_are_found_by_name_or_id() {
        let names = names();
        assert_eq!((names.switch("core1"), names.switch("1f")), (Ok(Dpid(1)), Ok(Dpid(0x1f))));
        assert_eq!(names.location("core1:3"), Ok(Location::new(Dpid(1), PortNo(3))));
        for text in ["core1:LOCAL", "1:LOCAL", "0000000000000001:local", "00:00:00:00:00:00:00:01:LOCAL"] {
            assert_eq!(names.location(text), Ok(Location::new(Dpid(1), PortNo::LOCAL)), "{text}");
        }
        assert_eq!(names.host("alice"), Ok(Mac([0, 0, 0, 0, 0, 0xa])));
        assert!(names.switch("alice").is_err_and(|error| error.contains("is a host")));
        for text in ["core2:1", "core1", "core1:0", "core1:x", "core1:FLOOD", "00:00:00:00:00:00:00:01"] {
            assert!(names.location(text).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn names_that_people_read_are_accepted_as_input(dpid in 0_u64..4, port in 1..=PortNo::MAX.0, mac in 0_u8..20) {
            let names = names();
            for port in [PortNo(port), PortNo::LOCAL] {
                let at = Location::new(Dpid(dpid), port);
                assert_eq!(names.location(&names.in_text(&at.to_string())), Ok(at));
                assert_eq!(names.id_of(&names.in_text(&at.to_string())), Some(at.to_string()));
            }
            assert_eq!(names.switch(&names.in_text(&Dpid(dpid).to_string())), Ok(Dpid(dpid)));
            let mac = Mac([0, 0, 0, 0, 0, mac]);
            assert_eq!(names.host(&names.in_text(&mac.to_string())), Ok(mac));
        }
    }

    #[test]
    fn a_name_is_no_id_and_names_one_thing() {
        let mut names = names();
        for name in ["", "1", "1e5", "core 1", "a:b", "0x1", "000000000000000f", "a\u{1b}b", &"a".repeat(65)] {
            assert!(names.add(name, Named::Switch(Dpid(9))).is_err(), "{name:?}");
        }
        assert!(names.add("core1", Named::Switch(Dpid(9))).is_err_and(|error| error.contains("another")));
        assert!(
            names.add("core", Named::Switch(Dpid(1))).is_err_and(|error| error.contains("\"core1\" has the same id"))
        );
        assert_eq!((names.of_switch(Dpid(1)), names.switch("core").is_err()), (Some("core1"), true), "nothing changed");
        assert_eq!(names.add("c1", Named::Switch(Dpid(0xc1))), Ok(()));
    }

    #[test]
    fn names_survive_a_round_trip_through_json() {
        assert_eq!(Names::from_json(&names().to_json()), names());
    }
}
