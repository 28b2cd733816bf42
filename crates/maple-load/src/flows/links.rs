//! The network between the switches: links, and the frames that cross them.
//!
//! The links assumes nothing about the encoding of routes: it follows a frame through the present rules, whatever they
//! push, set or pop. A frame crosses a link without delay, and no time passes at the switches, so no rule expires.

use maple_switch::{Outgoing, Switch, SwitchOptions};
use maple_wire::{Dpid, Message, PortNo, Version};

/// The maximum number of frames, with copies, that one frame becomes on its way: a loop ends here.
const MAX_HOPS: usize = 4096;
/// The number of tables of a switch that speaks 1.3: that of Open vSwitch.
pub(crate) const TABLES: u8 = 254;

/// A port of the network: the index of its switch, and its number there.
pub type NetworkPort = (usize, u32);

/// The other end of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FarEnd {
    /// A port with or without a host, but without a link.
    Edge,
    /// Another switch.
    Link(NetworkPort),
}

/// A switch, and where its ports lead.
#[derive(Debug)]
pub(crate) struct Node {
    pub switch: Switch,
    /// The other ends of the ports by number. The first one is port 0, which does not exist.
    pub ports: Vec<Option<FarEnd>>,
}

/// The outcome for a packet or a copy of it, or for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PacketOutcome {
    /// The frame left by an edge port.
    Egress { at: NetworkPort, frame: Vec<u8> },
    /// A switch says this to the controller.
    Says { switch: usize, xid: u32, message: Message },
    /// The frame was lost: no rule matched, the rule has no output, or a port is down.
    Lost,
}

/// The switches and links of a network.
#[derive(Debug)]
pub(crate) struct Links {
    nodes: Vec<Node>,
    /// Frames that are about to arrive.
    arriving: Vec<(NetworkPort, Vec<u8>)>,
    /// The ports of links that the last packet left by, in order.
    crossed: Vec<NetworkPort>,
}

impl Node {
    /// Creates a switch whose connection has begun: it waits for the controller's hello.
    pub fn new(dpid: u64, version: Version, ports: Vec<Option<FarEnd>>) -> Node {
        let room = u32::MAX as usize;
        let options = SwitchOptions { n_tables: TABLES, table_size: room, bundles: false, ..SwitchOptions::default() };
        let mut switch = Switch::new(Dpid(dpid), version, options);
        for (number, _) in (0..).zip(&ports).filter(|(_, far)| far.is_some()) {
            switch.add_port(0, PortNo(number));
        }
        switch.connect();
        Node { switch, ports }
    }
}

impl Links {
    pub fn new(nodes: Vec<Node>) -> Links {
        Links { nodes, arriving: Vec::new(), crossed: Vec::new() }
    }

    /// Takes the ends of a link down or up.
    pub fn set_link(&mut self, ends: [NetworkPort; 2], is_up: bool) {
        for (switch, number) in ends {
            self.nodes[switch].switch.set_link(PortNo(number), is_up);
        }
    }

    /// Lets a switch obey a message, whose encoded form is `bytes`, and follows the frames that it sends.
    pub fn obey(&mut self, switch: usize, xid: u32, message: Message, bytes: &[u8], seen: &mut Vec<PacketOutcome>) {
        self.crossed.clear();
        let is_packet = matches!(message, Message::PacketOut(_));
        let out = self.nodes[switch].switch.handle(0, xid, message, bytes);
        self.take(switch, out, is_packet, seen);
        self.settle(seen);
    }

    /// Takes a frame in by a port, and follows it.
    pub fn receive(&mut self, at: NetworkPort, frame: Vec<u8>, seen: &mut Vec<PacketOutcome>) {
        self.crossed.clear();
        self.arriving.push((at, frame));
        self.settle(seen);
    }

    /// Follows frames until none is in flight.
    fn settle(&mut self, seen: &mut Vec<PacketOutcome>) {
        let mut hops = 0;
        while let Some(((switch, port), frame)) = self.arriving.pop() {
            hops += 1;
            if hops > MAX_HOPS {
                seen.push(PacketOutcome::Lost);
                continue;
            }
            let out = self.nodes[switch].switch.receive(0, PortNo(port), frame);
            self.take(switch, out, true, seen);
        }
    }

    /// Sends on what comes out of a switch. `is_packet` says whether it comes of a packet, which may also be lost.
    fn take(&mut self, switch: usize, out: Vec<Outgoing>, is_packet: bool, seen: &mut Vec<PacketOutcome>) {
        let node = &self.nodes[switch];
        for item in out {
            match item {
                Outgoing::Message { xid, message, .. } => seen.push(PacketOutcome::Says { switch, xid, message }),
                Outgoing::Frame { port, frame, .. } => match node.ports.get(port.0 as usize).copied().flatten() {
                    Some(FarEnd::Link(to)) => {
                        self.crossed.push((switch, port.0));
                        self.arriving.push((to, frame));
                    }
                    Some(FarEnd::Edge) => seen.push(PacketOutcome::Egress { at: (switch, port.0), frame }),
                    None => seen.push(PacketOutcome::Lost),
                },
                Outgoing::Close(_) => {}
            }
        }
        if is_packet {
            seen.extend(node.switch.record().lost.iter().map(|_| PacketOutcome::Lost));
        }
    }

    /// Returns the ports of links that the last packet left by, in order.
    pub fn crossed(&self) -> &[NetworkPort] {
        &self.crossed
    }

    /// Returns the switch with this number.
    pub fn switch(&self, switch: usize) -> &Switch {
        &self.nodes[switch].switch
    }

    /// Returns the number of rules of a switch.
    pub fn rules(&self, switch: usize) -> usize {
        self.rules_by_table(switch).sum()
    }

    /// Returns the number of rules of each table of a switch.
    pub fn rules_by_table(&self, switch: usize) -> impl Iterator<Item = usize> {
        self.switch(switch).tables().iter().map(|table| table.len())
    }
}
