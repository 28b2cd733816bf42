//! The faults of routes, and of frames that f sends itself.

use maple_wire::{Dpid, Field, PortNo};

use crate::ids::Name;
use crate::network::{Hop, Location};

/// The fault of a route that can't be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum RouteError {
    #[error("the route does not start at the ingress switch {ingress}: no hop leaves it")]
    NotAtIngress { ingress: Dpid },
    #[error("hop {0:?}: the switch is not reached from the ingress by the hops before it")]
    NotConnected(Hop),
    #[error("hop {hop:?}: there is no such port; {}", ports_text(.hop.switch, .ports))]
    NoSuchPort { hop: Hop, ports: Vec<PortNo> },
    #[error(
        "hop {hop:?} is a link to switch {next}, but the route has no hop there; \
         a route ends at edge ports (use net.shortest_path, or give the whole list of hops)"
    )]
    EndsAtLink { hop: Hop, next: Dpid },
    #[error("the route comes to switch {0} a second time")]
    Loop(Dpid),
    #[error(
        "hop {hop:?} is not in the slice {slice}: the slice does not have that {}",
        if *.is_link { "link" } else { "port" }
    )]
    NotInSlice { hop: Hop, slice: Name, is_link: bool },
    #[error("can't set {field}: the packet has no such field")]
    NoSuchField { field: Field },
    #[error("can't set {field} to {value:#x}: the field has {} bits", field.bits())]
    TooWide { field: Field, value: u128 },
    #[error("can't set {field}: no switch can rewrite it")]
    NotSettable { field: Field },
    #[error("routes with different rewrites or queues leave by the same switch {0}")]
    MixedTreatment(Dpid),
    #[error("the route beside is to make copies, but it {0}; copies go to ports, along paths, or where copy_to says")]
    NoCopy(&'static str),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// The fault of a frame of f's own that can't be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum FrameError {
    #[error("a frame has {least} to {most} bytes, not {0}", least = FRAME_BYTES.start(), most = FRAME_BYTES.end())]
    Length(usize),
    #[error("more than {MAX_FRAMES} frames are sent for one packet")]
    TooMany,
    #[error("{0} is not a port where a frame can leave the network: it is not there, or a link to another switch")]
    NoEdge(Location),
    #[error("a frame is to be sent out of {at}, which is not a port of the slice {slice}")]
    NotInSlice { at: Location, slice: Name },
}

/// The length of a frame of f's own, in bytes: an Ethernet header at least (IEEE 802.3 §3.1), a jumbo frame of 9,216
/// bytes at most, which is the limit of many switches.
pub const FRAME_BYTES: std::ops::RangeInclusive<usize> = 14..=9216;
/// The maximum number of frames of its own that f may send for one packet, so that a loop in f can't flood the network.
pub const MAX_FRAMES: usize = 64;

/// Lists the ports of a switch, as the end of an error.
fn ports_text(switch: Dpid, ports: &[PortNo]) -> String {
    match ports {
        [] => format!("there is no switch {switch}"),
        _ => {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            format!("switch {switch} has the ports {}", ports.join(", "))
        }
    }
}
