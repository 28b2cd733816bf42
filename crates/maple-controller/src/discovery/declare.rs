//! Declarations of ports that change while the controller runs.

use std::sync::Arc;

use maple_core::engine::Time;
use maple_core::network::{Facts, Location, PortRole};
use maple_wire::{Dpid, Port};

use super::{Attachment, Discovery, DiscoveryOutput};

impl Discovery {
    /// Replaces what is declared of ports. `switches` are those that are connected, with their ports. Outputs what is
    /// known of each port that is up, also if it was output before.
    pub fn declare<'a>(
        &mut self,
        now: Time,
        facts: &Arc<Facts>,
        switches: impl Iterator<Item = (Dpid, &'a [Port])>,
        out: &mut Vec<DiscoveryOutput>,
    ) {
        let before = std::mem::replace(&mut self.facts, Arc::clone(facts));
        let is_looked_at = |role| matches!(role, PortRole::Any | PortRole::Link);
        for (dpid, ports) in switches {
            for port in ports {
                let at = Location::new(dpid, port.number);
                let (old, new) = (before.role(at), facts.role(at));
                if old == new || is_looked_at(old) && is_looked_at(new) {
                    self.conclude(now, at, out);
                } else {
                    self.on_port_down(now, at, out);
                    self.on_port_up(now, dpid, port, out);
                    // Hosts are there until a switch is found.
                    if let Some(port) =
                        self.ports.get_mut(&at).filter(|_| (old, new) == (PortRole::Edge, PortRole::Any))
                    {
                        port.attachment = Attachment::Edge;
                    }
                }
                let found = match self.ports.get(&at) {
                    Some(port) => port.attachment.clone(),
                    None if self.is_unprobed_edge(at, port) => Attachment::Edge,
                    None => Attachment::New,
                };
                if found != Attachment::New {
                    out.push(DiscoveryOutput::Attachment { at, now: found.clone(), before: found });
                }
            }
        }
    }

    /// Reports whether this is an edge port without being probed.
    fn is_unprobed_edge(&self, at: Location, port: &Port) -> bool {
        let is_excluded = || self.unprobed.contains(&at) && self.facts.role(at) != PortRole::Closed;
        port.is_up() && (self.edges.contains_key(&at) || is_excluded())
    }
}
