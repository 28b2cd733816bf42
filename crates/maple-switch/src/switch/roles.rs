//! Roles of controllers: which of them may change the switch (1.3 §6.3.6; in 1.0 Nicira's extension, as in Open
//! vSwitch).
//!
//! A connection begins as an equal. At most one is master: who becomes master makes a former master a slave. Who asks
//! to be master or slave gives a generation, and the switch refuses one that is older than the latest it saw, on
//! whichever connection. It keeps the generation while nobody is connected, and forgets it when it restarts. Nobody
//! needs a generation to become an equal, so an equal is never kept out. Open vSwitch obeys Nicira's requests in 1.3
//! too, and so does a switch that claims to be one: they have no generation, so nobody is kept out who sends one.

use maple_wire::Message;
use maple_wire::Version;
use maple_wire::msg::{Experimenter, Role};

use super::refusal::Refusal;
use super::{ControllerId, Outgoing, Switch};

/// `OFPCRR_MASTER_REQUEST`: another controller has asked to be master.
const MASTER_REQUEST: u32 = 0;

/// A connection's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionRole {
    Equal,
    Master,
    Slave,
}

impl ConnectionRole {
    /// Returns the role's number in 1.3.
    fn number(self) -> u32 {
        match self {
            ConnectionRole::Equal => Role::EQUAL,
            ConnectionRole::Master => Role::MASTER,
            ConnectionRole::Slave => Role::SLAVE,
        }
    }
}

impl Switch {
    /// Returns the latest generation that a master or slave has given, if one did since the start.
    pub fn generation(&self) -> Option<u64> {
        self.generation
    }

    pub(super) fn take_role(
        &mut self,
        from: ControllerId,
        asked: Role,
        out: &mut Vec<Outgoing>,
    ) -> Result<Role, Refusal> {
        let role = match asked.role {
            Role::NOCHANGE => None,
            Role::EQUAL => Some(ConnectionRole::Equal),
            Role::MASTER => Some(ConnectionRole::Master),
            Role::SLAVE => Some(ConnectionRole::Slave),
            _ => return Err(Refusal::BadRole),
        };
        if matches!(role, Some(ConnectionRole::Master | ConnectionRole::Slave)) {
            // Generations wrap round, so the distance decides.
            let is_stale = |seen: u64| (asked.generation_id.wrapping_sub(seen) as i64) < 0;
            if self.generation.is_some_and(is_stale) {
                return Err(Refusal::StaleRole);
            }
            self.generation = Some(asked.generation_id);
        }
        if let Some(role) = role {
            self.change_role(from, role, out);
        }
        let role = self.connections[from.index()].role.number();
        Ok(Role { role, generation_id: self.generation.unwrap_or(u64::MAX) })
    }

    /// Obeys Nicira's request for a role, which has no generation: the last one that asks is master.
    pub(super) fn take_nicira_role(
        &mut self,
        from: ControllerId,
        request: &Experimenter,
        out: &mut Vec<Outgoing>,
    ) -> Result<Experimenter, Refusal> {
        // Open vSwitch obeys it in 1.3 as well.
        let is_known = self.version == Version::Of10 || self.options.open_vswitch;
        if !is_known || request.id != Experimenter::NICIRA {
            return Err(Refusal::BadExperimenter);
        }
        let Some((kind, role)) = request.body.split_first_chunk() else { return Err(Refusal::BadLength) };
        if u32::from_be_bytes(*kind) != Role::NICIRA_REQUEST {
            return Err(Refusal::BadExperimenter);
        }
        let role = role.try_into().map_err(|_| Refusal::BadLength)?;
        let role = u32::from_be_bytes(role);
        let asked = match role {
            0 => ConnectionRole::Equal,
            1 => ConnectionRole::Master,
            2 => ConnectionRole::Slave,
            _ => return Err(Refusal::BadRole),
        };
        self.change_role(from, asked, out);
        let body = [Role::NICIRA_REPLY, role].iter().flat_map(|number| number.to_be_bytes()).collect();
        Ok(Experimenter { id: Experimenter::NICIRA, body })
    }

    /// Gives a connection a role. A former master becomes a slave, and Open vSwitch notifies it in 1.3.
    fn change_role(&mut self, from: ControllerId, role: ConnectionRole, out: &mut Vec<Outgoing>) {
        let generation = self.generation.unwrap_or(u64::MAX);
        for (controller, connection) in (0..).map(ControllerId).zip(&mut self.connections) {
            let loses = role == ConnectionRole::Master && connection.role == ConnectionRole::Master;
            if controller == from || !loses {
                continue;
            }
            connection.role = ConnectionRole::Slave;
            if self.options.open_vswitch && self.version == Version::Of13 {
                let words = [Role::ONF_STATUS, Role::SLAVE, MASTER_REQUEST];
                let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
                body.extend(generation.to_be_bytes());
                let message = Message::Experimenter(Experimenter { id: Experimenter::ONF, body });
                out.push(Outgoing::Message { controller, xid: 0, message });
            }
        }
        self.connections[from.index()].role = role;
    }
}
