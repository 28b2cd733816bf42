//! The location of a host, as a run of f learns it: the whole location, or no more than that there is one.

use std::fmt;
use std::panic::Location as Caller;

use maple_wire::{Dpid, Field, PortNo};

use super::{Net, Observe};
use crate::network::Location;
use crate::trace::caller;

/// The place of a host, as a run of f learns it.
///
/// The source of the packet is where the packet came in, mostly. f may need the switch alone, for a path that starts
/// there. So the port is a read of `in_port` when f asks for it, and not before.
#[derive(Clone, Copy)]
pub struct HostLocation<'n>(Known<'n>);

/// The knowledge about the location.
#[derive(Clone, Copy)]
enum Known<'n> {
    /// The whole location.
    At(Location),
    /// The location where the packet of this run came in.
    WhereEntered(&'n Net),
    /// The location that a look-up by this field of the packet found. `at` is not known if the
    /// packet stands for others, and its own host has gone.
    Found { net: &'n Net, field: Field, at: Option<Location> },
}

impl<'n> HostLocation<'n> {
    /// Creates the location of a host that is where the packet of this run came in.
    pub(super) fn where_entered(net: &'n Net) -> HostLocation<'n> {
        HostLocation(Known::WhereEntered(net))
    }

    /// Creates the location of a host that a look-up by a field of the packet found.
    pub(super) fn found(net: &'n Net, field: Field, at: Option<Location>) -> HostLocation<'n> {
        HostLocation(Known::Found { net, field, at })
    }

    /// Returns the switch. Records no read of a field, but what a look-up found.
    #[track_caller]
    pub fn switch(self) -> Dpid {
        match self.0 {
            Known::WhereEntered(net) => net.0.packet().switch(),
            Known::At(_) | Known::Found { .. } => self.location().switch,
        }
    }

    /// Returns the port. A read of `in_port`, if the location is that of the packet's source.
    #[track_caller]
    pub fn port(self) -> PortNo {
        self.location().port
    }

    /// Returns switch and port. A read of `in_port`, if the location is that of the packet's source. Records what a
    /// look-up found, if the host was found by one.
    #[track_caller]
    pub fn location(self) -> Location {
        match self.0 {
            Known::At(at) => at,
            Known::WhereEntered(net) => {
                let packet = net.0.packet();
                let source = caller(Caller::caller());
                let port = packet.read(Field::InPort, Field::InPort.full_mask(), source).unwrap_or_default();
                Location::new(packet.switch(), PortNo(port as u32))
            }
            Known::Found { net, field, at } => {
                let source = caller(Caller::caller());
                let found = net.0.state().read_found(field, at, source);
                // The host of a packet that stands for others may have gone. Then the run answers no packet.
                found.unwrap_or_else(|| Location::new(net.0.packet().ingress(), PortNo(0)))
            }
        }
    }

    /// Returns the place where a look-up by a field of the packet found the host, for a path that ends there. Records
    /// nothing. `None` if the location is known otherwise.
    pub(super) fn as_found(self) -> Option<(Field, Option<Location>)> {
        match self.0 {
            Known::Found { field, at, .. } => Some((field, at)),
            Known::At(_) | Known::WhereEntered(_) => None,
        }
    }

    /// Returns a location for paths that start here: its switch counts, its port may be any. Records no read of a
    /// field.
    #[track_caller]
    pub fn start(self) -> Location {
        self.known().unwrap_or_else(|| Location::new(self.switch(), PortNo(0)))
    }

    /// Returns switch and port if they are known. `None`: it is only known that the packet came in there, or that a
    /// look-up found the host.
    pub fn known(self) -> Option<Location> {
        match self.0 {
            Known::At(at) => Some(at),
            Known::WhereEntered(_) | Known::Found { .. } => None,
        }
    }

    /// Returns the field by which a look-up found the host, if the run has observed no more of it.
    pub fn found_by(self) -> Option<Field> {
        self.as_found().map(|(field, _)| field)
    }
}

impl From<Location> for HostLocation<'_> {
    fn from(at: Location) -> Self {
        HostLocation(Known::At(at))
    }
}

/// Records nothing.
impl fmt::Debug for HostLocation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Known::At(at) => write!(f, "HostLocation({at})"),
            Known::WhereEntered(_) => f.write_str("HostLocation(where the packet entered)"),
            Known::Found { field, .. } => write!(f, "HostLocation(where {field} was found)"),
        }
    }
}
