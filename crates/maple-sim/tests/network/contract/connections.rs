//! Connections in the contract: switches reconnect, lose their connections and get them back, and the controller
//! restarts.

use std::time::Duration;

use maple_core::engine::ReportedRule;
use maple_core::network::Location;
use maple_sim::cases::{Knows, Step};
use maple_wire::msg::{FlowMod, FlowModCommand};
use maple_wire::{Dpid, Message, Version};

use super::play::Play;
use super::shape::other_version;

/// A time that is longer than a message takes.
const HEARD: Duration = Duration::from_millis(5);

impl Play<'_> {
    /// Makes a step that changes the connections between the controller and switches.
    pub(super) fn change_connections(&mut self, step: &Step) {
        self.lossy = true;
        match *step {
            Step::Reconnect { dpid, empty } => {
                if empty {
                    self.sim.restart(dpid);
                } else {
                    self.sim.reconnect(dpid);
                }
                self.rediscover([dpid]);
            }
            Step::LoseConnection(dpid) => self.sim.lose_connection(dpid),
            Step::RegainConnection { dpid, empty, as_other } => {
                // The shard learns of the end of the connection first.
                self.sim.run_for(HEARD);
                let loses_rules = as_other && self.sim.is_away(dpid) && !self.change_version(dpid);
                self.sim.regain_connection(dpid, empty || loses_rules);
                self.rediscover([dpid]);
            }
            Step::RestartController { shards, knows } => self.restart_controller(shards, knows),
            _ => unreachable!("{step:?} is about something else"),
        }
    }

    /// Makes a switch speak its other version. Returns whether it keeps its rules.
    fn change_version(&mut self, dpid: Dpid) -> bool {
        let Some(switch) = self.sim.switch(dpid) else { return true };
        switch.model.speak(other_version(switch.model.version()));
        switch.model.change_options(|options| options.n_tables = 254);
        // In 1.0, only Open vSwitch reports the table of a rule. It reports matches that 1.0 can't express as something
        // else.
        let are_reported = || switch.flows().iter().filter(|flow| flow.table_id == 0).all(of10_can_say);
        switch.model.version() == Version::Of13 || switch.model.options().open_vswitch && are_reported()
    }

    fn restart_controller(&mut self, shards: u8, knows: Knows) {
        match knows {
            Knows::Everything => self.sim.remember_surroundings(),
            Knows::Some => self.sim.forget_witnesses(|id| id.0.is_multiple_of(3)),
            Knows::Nothing => {}
        }
        (self.dropped, self.way_drops) = (0, 0);
        if self.case.changes_open_routes() {
            self.sim.set_options(|options| options.open_routes = !options.open_routes);
        }
        let reloads = self.sim.restart_controller(shards);
        if knows == Knows::Nothing {
            self.sim.forget_earlier_run();
        }
        if self.is_other == reloads.is_multiple_of(2) {
            // The last reload was not over yet, so the old policy runs again.
            self.swap_policies();
        }
        self.sim.run_for(3 * HEARD);
        self.rediscover(self.sim.dpids());
    }

    /// Lets discovery find again the kinds of the ports of these switches, after they are up.
    fn rediscover(&mut self, switches: impl IntoIterator<Item = Dpid>) {
        self.sim.run_for(HEARD);
        let ports: Vec<Location> = switches.into_iter().flat_map(|dpid| self.sim.ports_of(dpid)).collect();
        ports.into_iter().for_each(|at| self.sim.rediscover(at));
    }
}

/// Reports whether 1.0 can express the match of a rule.
pub(super) fn of10_can_say(flow: &ReportedRule) -> bool {
    let request = FlowMod::new(FlowModCommand::DeleteStrict, flow.priority, flow.matching.clone(), Vec::new());
    Message::FlowMod(request).encode(Version::Of10, 0, &mut Vec::new()).is_ok()
}
