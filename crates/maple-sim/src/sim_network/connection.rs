//! The end of a switch's control connection, while its datapath goes on, and the return of the connection.

use maple_core::engine::Event;
use maple_core::network::Location;
use maple_wire::msg::PortReason;
use maple_wire::{Dpid, Message};

use super::{Channel, Happening, SimNetwork, SimSwitch, switch_of};

impl SimNetwork {
    /// Ends the control connection of a switch. Some of the messages under way to the switch arrive; those under way
    /// from it are lost. Its datapath goes on, and packets that it would send to the controller get no answer.
    pub fn lose_connection(&mut self, dpid: Dpid) {
        if !self.wiring.switches.contains_key(&dpid) || self.wiring.away.contains(&dpid) {
            return;
        }
        let shard = self.wiring.shards[&dpid];
        let mut arrives = self.schedule.random.below(8);
        let mut arrived: Vec<(u32, Box<Message>)> = Vec::new();
        let taken = std::mem::take(&mut self.schedule.queue);
        for (time, happening) in taken {
            match happening {
                Happening::Message(to, xid, message) if to == dpid => {
                    if arrives > 0 {
                        arrived.push((xid, message));
                    }
                    arrives = arrives.saturating_sub(1);
                }
                Happening::ReadRules(to) if to == dpid => {}
                // An earlier connection has ended, and the present one has begun.
                Happening::Event(_, ref event)
                    if matches!(**event, Event::SwitchDown { .. } | Event::SwitchUp { .. }) =>
                {
                    self.schedule.queue.insert(time, happening);
                }
                Happening::Event(to, event) if to == shard && switch_of(&event) == Some(dpid) => {}
                other => drop(self.schedule.queue.insert(time, other)),
            }
        }
        self.notify(dpid, Event::SwitchUnreachable { dpid });
        self.wiring.away.insert(dpid);
        arrived.into_iter().for_each(|(xid, message)| self.at_switch(dpid, xid, *message));
        if let Some(switch) = self.wiring.switches.get_mut(&dpid) {
            switch.model.disconnect();
        }
    }

    /// Lets a switch whose connection had ended connect again, without its rules if it is `empty`. If it speaks another
    /// version than before, it begins anew.
    pub fn regain_connection(&mut self, dpid: Dpid, empty: bool) {
        if !self.wiring.away.remove(&dpid) {
            return;
        }
        let Some(switch) = self.wiring.switches.get_mut(&dpid) else { return };
        if empty {
            switch.edit_flows(Vec::clear);
        }
        let (shard, version) = (usize::from(self.wiring.shards[&dpid].0), switch.model.version());
        if !self.controller.engines[shard].view().is_unreachable(dpid) {
            return self.announce(dpid);
        }
        let known = self.store.snapshot();
        if known.switch(dpid).is_none_or(|before| before.version != version) {
            self.notify(dpid, Event::SwitchDown { dpid });
            return self.announce(dpid);
        }
        self.wiring.switches.get_mut(&dpid).into_iter().for_each(SimSwitch::connect);
        self.notify(dpid, Event::SwitchReachable { dpid });
        let gone = known.ports_of(dpid).map(|(port, _)| Location::new(dpid, port));
        let gone: Vec<Location> = gone.filter(|at| self.port(*at).is_none()).collect();
        gone.into_iter().for_each(|at| self.report_port(PortReason::Delete, at));
        self.report_ports(dpid);
        self.schedule(Channel::ToShard(dpid), Happening::ReadRules(dpid));
    }

    /// Lets a switch whose connection had ended connect again after some time.
    pub fn regain_connection_in(&mut self, dpid: Dpid, wait: std::time::Duration) {
        self.wiring.away.remove(&dpid);
        self.wiring.switches.get_mut(&dpid).into_iter().for_each(SimSwitch::connect);
        let back = Happening::Event(self.wiring.shards[&dpid], Box::new(Event::SwitchReachable { dpid }));
        self.schedule_after(wait, Channel::ToShard(dpid), back);
        self.schedule_after(wait, Channel::ToShard(dpid), Happening::ReadRules(dpid));
    }

    /// Reports whether a switch has no connection.
    pub fn is_away(&self, dpid: Dpid) -> bool {
        self.wiring.away.contains(&dpid)
    }

    /// Reports whether some switch has no connection.
    pub fn is_any_away(&self) -> bool {
        !self.wiring.away.is_empty()
    }
}
