//! Looks for hosts that may have moved when ports come and go (`hosts/flaps.rs`).

use std::collections::BTreeSet;

use maple_wire::PortNo;

use super::Topology;
use super::hosts::{HostAction, RECENTLY_UP, hosts_to_ask_for, probe_host};
use crate::engine::fabric::Fabric;
use crate::engine::messages::mail::EngineMessage;
use crate::ids::{ShardId, Time};
use crate::network::{Location, PortInfo, PortKind};
use crate::state::Snapshot;

impl Topology {
    /// Handles a port of this shard that may have come or gone. If an edge port with hosts has gone down, all shards
    /// look for these hosts.
    pub fn on_port_change(&mut self, fabric: &mut Fabric, state: &Snapshot, at: Location) {
        let now = fabric.ctx.now();
        let Some(switch) = fabric.switches.get_mut(&at.switch).filter(|_| fabric.ctx.options.track_hosts) else {
            return;
        };
        match state.port(at) {
            Some(PortInfo { up: true, kind: PortKind::Edge }) => {
                if switch.ports.note_edge(now, at.port) {
                    self.with_hosts(fabric, |hosts, now, actions| hosts.on_edge(now, state, at, actions));
                }
            }
            info => {
                let was_edge = switch.ports.forget_edge(at.port);
                if was_edge && info.is_none_or(|port| !port.up) && state.hosts_at(at).next().is_some() {
                    let shards: BTreeSet<ShardId> = state.switches().map(|(_, info)| info.shard).collect();
                    shards.into_iter().for_each(|to| fabric.ctx.send_to_shard(to, EngineMessage::Unplugged(at)));
                }
            }
        }
    }

    /// Looks for the hosts of a port that has gone down. They may be at ports of this shard that have just come up.
    pub fn look_for_unplugged_hosts(&mut self, fabric: &mut Fabric, from: Location) {
        let state = fabric.ctx.store.snapshot();
        let lately = |(_, since): &(PortNo, Time)| *since + RECENTLY_UP > fabric.ctx.now();
        let places: Vec<Location> = fabric
            .switches
            .iter()
            .flat_map(|(dpid, switch)| switch.ports.edges().filter(lately).map(|(port, _)| Location::new(*dpid, port)))
            .collect();
        let hosts = hosts_to_ask_for(&state, from);
        self.with_hosts(fabric, |_, _, actions: &mut Vec<HostAction>| {
            for at in places {
                hosts.iter().for_each(|mac| probe_host(&state, *mac, at, actions));
            }
        });
    }
}
