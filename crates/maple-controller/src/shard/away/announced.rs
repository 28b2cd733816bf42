//! Switches whose connections another process will hand over (`storage/takeover/`).
//!
//! The engine has such a switch before its connection comes, as the switch has described itself to the other process,
//! and restores it (`returns.rs`). When the connection is there, the switch is asked again. If its answer is unchanged,
//! it continues; otherwise it begins anew.

use std::collections::{BTreeMap, BTreeSet};

use maple_core::engine::{Event, ReportedRule};
use maple_wire::msg::{PortReason, PortStatus};
use maple_wire::{Dpid, Message, Port, PortNo};

use crate::session::SwitchInfo;
use crate::shard::registry::ConnectionId;
use crate::storage::takeover::CopiedSwitch;

/// The maximum number of packets that wait for a switch to be up. Chosen: they wait for one handshake, and memory is
/// bounded.
const MAX_PACKETS: usize = 1024;

/// The announced switches of a shard that are not up yet.
#[derive(Debug, Default)]
pub(in crate::shard) struct AnnouncedSwitches(BTreeMap<Dpid, AnnouncedSwitch>);

#[derive(Debug)]
pub(in crate::shard) struct AnnouncedSwitch {
    pub info: SwitchInfo,
    /// The switch's rules, until the engine restores it.
    rules: Option<Vec<ReportedRule>>,
    connection: Option<ConnectionId>,
    /// Whether the engine has been asked to restore the switch.
    pub is_restored: bool,
    /// The packets that the switch is to send when it is up.
    pub packets: Vec<(u32, Message)>,
}

impl AnnouncedSwitches {
    /// Announces a switch, whose connection another process will hand over. Returns the event for the engine.
    pub fn announce(&mut self, switch: CopiedSwitch) -> Event {
        let CopiedSwitch { info, rules } = switch;
        let (dpid, rules, packets) = (info.features.dpid, Some(rules), Vec::new());
        let announced = AnnouncedSwitch { info: info.clone(), rules, connection: None, is_restored: false, packets };
        self.0.insert(dpid, announced);
        up(info)
    }

    /// Takes a switch that is up.
    pub fn take(&mut self, dpid: Dpid) -> Option<AnnouncedSwitch> {
        self.0.remove(&dpid)
    }

    /// Takes the switches with this connection, or those with none. Their announcement ends.
    pub fn take_without(&mut self, connection: Option<ConnectionId>) -> BTreeMap<Dpid, AnnouncedSwitch> {
        let (taken, rest) = std::mem::take(&mut self.0).into_iter().partition(|(_, one)| one.connection == connection);
        self.0 = rest;
        taken
    }

    /// Reports whether this switch is announced.
    pub fn has(&self, dpid: Dpid) -> bool {
        self.0.contains_key(&dpid)
    }

    /// Records that the engine restores this switch. Returns its rules, if they are known.
    pub fn note_restored(&mut self, dpid: Dpid) -> Option<Vec<ReportedRule>> {
        let switch = self.0.get_mut(&dpid)?;
        switch.is_restored = true;
        switch.rules.take()
    }

    /// Records that the switch's connection has come.
    pub fn note_connection(&mut self, dpid: Dpid, connection: ConnectionId) {
        self.0.entry(dpid).and_modify(|switch| switch.connection = Some(connection));
    }

    /// Records a message of the engine to this switch. If that is a packet, and the connection has come, the switch
    /// gets it when it is up: another switch that was up earlier may have received the packet.
    pub fn note_sent(&mut self, dpid: Dpid, xid: u32, message: &Message) {
        let switch = self.0.get_mut(&dpid).filter(|switch| switch.connection.is_some());
        if let (Some(switch), Message::PacketOut(_)) = (switch, message)
            && switch.packets.len() < MAX_PACKETS
        {
            switch.packets.push((xid, message.clone()));
        }
    }
}

/// Returns the event of a switch that is up.
pub(in crate::shard) fn up(info: SwitchInfo) -> Event {
    let SwitchInfo { version, features, ports, description, has_bundles } = info;
    Event::SwitchUp { dpid: features.dpid, version, features, description, ports, has_bundles }
}

/// Lists the changes of a switch's ports.
pub(in crate::shard) fn port_changes(before: &[Port], now: &[Port]) -> Vec<PortStatus> {
    // Another port may have got the number of one that is gone.
    let identities = |ports: &[Port]| ports.iter().map(identity).collect::<BTreeSet<_>>();
    let (old, new) = (identities(before), identities(now));
    let gone = before.iter().filter(|port| !new.contains(&identity(port)));
    let gone = gone.map(|port| PortStatus { reason: PortReason::Delete, port: port.clone() });
    let others = now.iter().filter(|port| !before.contains(port)).map(|port| PortStatus {
        reason: if old.contains(&identity(port)) { PortReason::Modify } else { PortReason::Add },
        port: port.clone(),
    });
    gone.chain(others).collect()
}

/// Returns what distinguishes a port from another one that gets its number. Open vSwitch gives the switch's own port
/// another address when ports come and go.
fn identity(port: &Port) -> (PortNo, [u8; 6], [u8; 16]) {
    match port.number {
        PortNo::LOCAL => (port.number, [0; 6], [0; 16]),
        number => (number, port.hw_addr, port.name_raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_came_changed_or_went_are_reported_and_no_others() {
        let port = |number, state| Port { state, ..Port::new(PortNo(number), [0; 6], "port") };
        let (before, now) = ([port(1, 0), port(2, 0), port(3, 0)], [port(2, 0), port(3, 1), port(4, 0)]);
        let reported: Vec<(PortReason, u32)> =
            port_changes(&before, &now).into_iter().map(|status| (status.reason, status.port.number.0)).collect();
        assert_eq!(reported, [(PortReason::Delete, 1), (PortReason::Modify, 3), (PortReason::Add, 4)]);
    }

    #[test]
    fn a_number_that_another_port_has_now_is_another_port() {
        let (before, renamed) = (Port::new(PortNo(2), [1; 6], "wire"), Port::new(PortNo(2), [1; 6], "host"));
        let replaced = Port::new(PortNo(2), [2; 6], "wire");
        for now in [renamed, replaced] {
            let reported = port_changes(std::slice::from_ref(&before), std::slice::from_ref(&now));
            let reported: Vec<(PortReason, &Port)> =
                reported.iter().map(|status| (status.reason, &status.port)).collect();
            assert_eq!(reported, [(PortReason::Delete, &before), (PortReason::Add, &now)]);
        }
    }
}
