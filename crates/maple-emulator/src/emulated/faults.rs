//! Faults on demand: links, ports, switches, control channels, hosts that move.

use maple_switch::Switch;
use maple_wire::{Dpid, PortNo};

use super::agenda::Event;
use super::{ControlFaults, EmulatedNetwork, Wire};

/// The error of a call that names something that the network does not have, or can't have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NetworkError {
    /// No switch of this datapath id.
    #[error("no switch has the datapath id {0}")]
    NoSwitch(Dpid),
    /// No controller of this number.
    #[error("switches have no controller of number {0}")]
    NoController(u16),
    /// No port of this number.
    #[error("switch {0} has no port {1}")]
    NoPort(Dpid, PortNo),
    /// No host of this name.
    #[error("no host is named {0:?}")]
    NoHost(String),
    /// A host that does not know the hardware address of another.
    #[error("{0} has not resolved the address of {1}")]
    NoNeighbour(String, String),
    /// No link between these switches.
    #[error("switches {0} and {1} are not linked")]
    NoLink(Dpid, Dpid),
    /// Something else is plugged in.
    #[error("port {1} of switch {0} is taken")]
    PortTaken(Dpid, PortNo),
    /// A share of frames outside 0.0 to 1.0.
    #[error("{0} is not a share of frames from 0 to 1")]
    BadLoss(f64),
    /// A port number that no port can have.
    #[error("{0} is not a port number")]
    BadPort(PortNo),
}

impl EmulatedNetwork {
    /// Takes all links between two switches down or up.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no link between them.
    pub fn set_link(&mut self, a: Dpid, b: Dpid, up: bool) -> Result<(), NetworkError> {
        let between = |l: &super::Link| [(a, b), (b, a)].contains(&(l.spec.a.0, l.spec.b.0));
        if !self.links.iter().any(between) {
            return Err(NetworkError::NoLink(a, b));
        }
        self.links.iter_mut().filter(|l| between(l)).for_each(|l| l.up = up);
        [a, b].into_iter().for_each(|dpid| self.disturb(dpid));
        self.update_carriers(a);
        self.update_carriers(b);
        Ok(())
    }

    /// Takes the links between two switches down.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no link between them.
    pub fn link_down(&mut self, a: Dpid, b: Dpid) -> Result<(), NetworkError> {
        self.set_link(a, b, false)
    }

    /// Takes the links between two switches up.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no link between them.
    pub fn link_up(&mut self, a: Dpid, b: Dpid) -> Result<(), NetworkError> {
        self.set_link(a, b, true)
    }

    /// Takes a port administratively down or up. The far end of its link loses its signal as well.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such port.
    pub fn set_port(&mut self, dpid: Dpid, port: PortNo, up: bool) -> Result<(), NetworkError> {
        self.with_port(dpid, port, |switch| switch.set_port_down(port, !up))?;
        let far = self.links.iter().flat_map(|l| [(l.spec.a, l.spec.b), (l.spec.b, l.spec.a)]);
        let far: Vec<Dpid> = far.filter(|(near, _)| *near == (dpid, port)).map(|(_, far)| far.0).collect();
        far.into_iter().chain([dpid]).for_each(|dpid| self.disturb(dpid));
        self.update_carriers(dpid);
        Ok(())
    }

    /// Restarts a switch as after a power cut: it loses its rules, its configuration and its connection, and connects
    /// again.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn restart_switch(&mut self, dpid: Dpid) -> Result<(), NetworkError> {
        if !self.nodes.contains_key(&dpid) {
            return Err(NetworkError::NoSwitch(dpid));
        }
        self.hang_up_all(dpid);
        self.disturb(dpid);
        let node = self.nodes.get_mut(&dpid).expect("it was there above");
        node.switch.restart();
        node.timer = None;
        self.update_carriers(dpid);
        self.reconnect_all_later(dpid);
        Ok(())
    }

    /// Closes a switch's connections and keeps it from connecting until [`EmulatedNetwork::mend_control`].
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn cut_control(&mut self, dpid: Dpid) -> Result<(), NetworkError> {
        let node = self.nodes.get_mut(&dpid).ok_or(NetworkError::NoSwitch(dpid))?;
        node.channels.iter_mut().for_each(|channel| channel.cut = true);
        self.disturb(dpid);
        self.hang_up_all(dpid);
        Ok(())
    }

    /// Drops all messages between a switch and its controllers, without notice to any of them, until
    /// [`EmulatedNetwork::mend_control`].
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn half_open_control(&mut self, dpid: Dpid) -> Result<(), NetworkError> {
        let node = self.nodes.get_mut(&dpid).ok_or(NetworkError::NoSwitch(dpid))?;
        node.channels.iter_mut().for_each(|channel| channel.half_open = true);
        self.disturb(dpid);
        Ok(())
    }

    /// Ends the faults of [`EmulatedNetwork::cut_control`] and [`EmulatedNetwork::half_open_control`]. A half-open
    /// connection is closed, because its lost messages cannot be recovered. The switch connects again.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn mend_control(&mut self, dpid: Dpid) -> Result<(), NetworkError> {
        let node = self.nodes.get_mut(&dpid).ok_or(NetworkError::NoSwitch(dpid))?;
        let (mut was_half_open, mut was_cut) = (false, false);
        for channel in &mut node.channels {
            was_half_open |= std::mem::take(&mut channel.half_open);
            was_cut |= std::mem::take(&mut channel.cut);
        }
        self.disturb(dpid);
        if was_half_open {
            self.hang_up_all(dpid);
        }
        if was_half_open || was_cut {
            self.reconnect_all_later(dpid);
        }
        Ok(())
    }

    /// Makes a switch's control channels slow or unreliable. The default repairs them.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn control_faults(&mut self, dpid: Dpid, faults: ControlFaults) -> Result<(), NetworkError> {
        let node = self.nodes.get_mut(&dpid).ok_or(NetworkError::NoSwitch(dpid))?;
        node.channels.iter_mut().for_each(|channel| channel.faults = faults);
        Ok(())
    }

    /// Unplugs a host and plugs it into a port of a switch, which is added if it does not exist. The host sends
    /// nothing; [`EmulatedNetwork::announce`] makes it announce itself.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such host or switch, the port number is not allowed, or something else is
    /// plugged in there.
    pub fn move_host(&mut self, host: &str, dpid: Dpid, port: PortNo) -> Result<(), NetworkError> {
        let at = self.host_names.get(host).copied();
        let at = at.ok_or_else(|| NetworkError::NoHost(host.to_string()))?;
        if !self.nodes.contains_key(&dpid) {
            return Err(NetworkError::NoSwitch(dpid));
        }
        if !port.is_physical() || port.0 >= 0xff00 {
            return Err(NetworkError::BadPort(port));
        }
        if self.wires.get(&(dpid, port)).is_some_and(|wire| *wire != Wire::Host(at)) {
            return Err(NetworkError::PortTaken(dpid, port));
        }
        let spec = self.hosts[at].host.spec_mut();
        let old = (spec.switch, spec.port);
        (spec.switch, spec.port) = (dpid, port);
        self.wires.remove(&old);
        self.wires.insert((dpid, port), Wire::Host(at));
        if old != (dpid, port) {
            self.with_port(old.0, old.1, |switch| switch.set_link(old.1, false))?;
            self.disturb(old.0);
        }
        let now = self.now;
        let node = self.nodes.get_mut(&dpid).expect("it was there above");
        let outgoing = node.switch.add_port(now, port);
        self.carry_out(dpid, outgoing, None);
        Ok(())
    }

    /// Returns the first free port number of a switch, which may be that of a port to be added.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn free_port(&self, dpid: Dpid) -> Result<PortNo, NetworkError> {
        if !self.nodes.contains_key(&dpid) {
            return Err(NetworkError::NoSwitch(dpid));
        }
        Ok((1..).map(PortNo).find(|port| !self.wires.contains_key(&(dpid, *port))).expect("wires are finite"))
    }

    pub(super) fn with_port(
        &mut self,
        dpid: Dpid,
        port: PortNo,
        change: impl FnOnce(&mut Switch) -> Vec<maple_switch::Outgoing>,
    ) -> Result<(), NetworkError> {
        let node = self.nodes.get_mut(&dpid).ok_or(NetworkError::NoSwitch(dpid))?;
        if !node.switch.ports().contains_key(&port) {
            return Err(NetworkError::NoPort(dpid, port));
        }
        let outgoing = change(&mut node.switch);
        self.carry_out(dpid, outgoing, None);
        Ok(())
    }

    fn disturb(&mut self, dpid: Dpid) {
        self.records.disturbances.insert(dpid, self.now);
    }

    /// Updates both ends of each link of a switch: there is light if the link is up and the operator has taken neither
    /// end down.
    pub(super) fn update_carriers(&mut self, dpid: Dpid) {
        let ends: Vec<_> = self
            .links
            .iter()
            .filter(|l| l.spec.a.0 == dpid || l.spec.b.0 == dpid)
            .map(|l| (l.spec.a, l.spec.b, l.up))
            .collect();
        for (a, b, up) in ends {
            for ((dpid, port), far) in [(a, b), (b, a)] {
                let light = up && self.operator_allows(far.0, far.1);
                if let Some(node) = self.nodes.get_mut(&dpid) {
                    let outgoing = node.switch.set_link(port, light);
                    self.carry_out(dpid, outgoing, None);
                }
            }
        }
    }

    fn operator_allows(&self, dpid: Dpid, port: PortNo) -> bool {
        let port = self.nodes.get(&dpid).and_then(|node| node.switch.ports().get(&port));
        port.is_some_and(|p| p.description.config & maple_wire::Port::CONFIG_DOWN == 0)
    }

    /// Checks that everything that a fault names exists.
    ///
    /// # Errors
    /// [`NetworkError`] for the first thing that does not exist.
    pub fn check_fault(&self, fault: &Fault) -> Result<(), NetworkError> {
        let switch = |dpid: &Dpid| self.nodes.get(dpid).ok_or(NetworkError::NoSwitch(*dpid));
        match fault {
            Fault::Link { a, b, .. } => {
                let ends = [(*a, *b), (*b, *a)];
                let linked = self.links.iter().any(|l| ends.contains(&(l.spec.a.0, l.spec.b.0)));
                if linked { Ok(()) } else { Err(NetworkError::NoLink(*a, *b)) }
            }
            Fault::Port { dpid, port, .. } => {
                let exists = switch(dpid)?.switch.ports().contains_key(port);
                if exists { Ok(()) } else { Err(NetworkError::NoPort(*dpid, *port)) }
            }
            Fault::Restart(dpid)
            | Fault::CutControl(dpid)
            | Fault::HalfOpenControl(dpid)
            | Fault::MendControl(dpid)
            | Fault::Control(dpid, _) => switch(dpid).map(|_| ()),
            Fault::Move { host, dpid, .. } => {
                self.host(host).ok_or_else(|| NetworkError::NoHost(host.clone()))?;
                switch(dpid).map(|_| ())
            }
        }
    }

    /// Schedules a fault, in order with all other events of its time. If something that it names does not exist by
    /// then, the error is added to [`EmulatedNetwork::failed_faults`].
    pub fn schedule(&mut self, at: maple_switch::time::Nanoseconds, fault: Fault) {
        self.at(at.max(self.now), Event::Fault(fault));
    }

    /// Applies a fault now.
    ///
    /// # Errors
    /// [`NetworkError`] if the fault names something that does not exist.
    pub fn inflict(&mut self, fault: Fault) -> Result<(), NetworkError> {
        match fault {
            Fault::Link { a, b, up } => self.set_link(a, b, up),
            Fault::Port { dpid, port, up } => self.set_port(dpid, port, up),
            Fault::Restart(dpid) => self.restart_switch(dpid),
            Fault::CutControl(dpid) => self.cut_control(dpid),
            Fault::HalfOpenControl(dpid) => self.half_open_control(dpid),
            Fault::MendControl(dpid) => self.mend_control(dpid),
            Fault::Control(dpid, faults) => self.control_faults(dpid, faults),
            Fault::Move { host, dpid, port } => self.move_host(&host, dpid, port),
        }
    }
}

/// A fault, or its repair.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The links between two switches go down or come up.
    Link {
        /// One switch.
        a: Dpid,
        /// The other.
        b: Dpid,
        /// Whether they come up.
        up: bool,
    },
    /// A port is taken down or up by its operator.
    Port {
        /// The switch.
        dpid: Dpid,
        /// The port.
        port: PortNo,
        /// Whether it comes up.
        up: bool,
    },
    /// A switch restarts with empty tables.
    Restart(Dpid),
    /// A control connection closes and stays closed.
    CutControl(Dpid),
    /// A control connection drops all messages.
    HalfOpenControl(Dpid),
    /// A control connection is repaired.
    MendControl(Dpid),
    /// A control channel becomes slow or unreliable.
    Control(Dpid, ControlFaults),
    /// A host moves.
    Move {
        /// Its name.
        host: String,
        /// The switch that it moves to.
        dpid: Dpid,
        /// The port there.
        port: PortNo,
    },
}
