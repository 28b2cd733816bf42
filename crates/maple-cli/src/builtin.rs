//! The built-in policies and handlers: `builtin:NAME`.

use std::sync::Arc;

use maple_controller::HandlerFactory;
use maple_controller::session::SwitchInfo;
use maple_core::network::Location;
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_handlers::{Hub, LearningSwitch};
use maple_wire::Field;

/// The link attribute that `builtin:secure-routing` goes by.
pub const WEIGHT: &str = "secure";

/// The built-in policy of this name.
pub fn named(name: &str) -> anyhow::Result<Arc<dyn Policy>> {
    Ok(match name {
        "flood" => Arc::new(flood),
        "shortest-path" => Arc::new(shortest_path),
        "secure-routing" => Arc::new(secure_routing),
        _ => anyhow::bail!(
            "there is no built-in policy {name:?}; there are builtin:flood, builtin:shortest-path, \
             builtin:secure-routing, and the handlers builtin:learning-switch and builtin:hub"
        ),
    })
}

/// The built-in handlers of this name, if it is one of theirs.
pub fn handlers(name: &str) -> Option<Arc<dyn HandlerFactory>> {
    match name {
        "learning-switch" => Some(Arc::new(|_: &SwitchInfo| LearningSwitch::new())),
        "hub" => Some(Arc::new(|_: &SwitchInfo| Hub)),
        _ => None,
    }
}

/// Every packet to everyone.
fn flood(_: &PacketHandle, _: &Net) -> Route {
    Route::flood()
}

/// Every packet along the path with the fewest hops. What floods is asked for first: one rule for all that floods, not one for
/// each source.
fn shortest_path(pkt: &PacketHandle, net: &Net) -> Route {
    ends(pkt, net).map_or_else(Route::flood, |(src, dst)| net.shortest_path(src, dst))
}

/// ssh along the path that the link attribute `secure` says, everything else along the shortest.
fn secure_routing(pkt: &PacketHandle, net: &Net) -> Route {
    let Some((src, dst)) = ends(pkt, net) else { return Route::flood() };
    if pkt.is(Field::TcpDst, 22) { net.path(src, dst, WEIGHT) } else { net.shortest_path(src, dst) }
}

/// Where the packet comes from and goes to, if it is for one host and both were seen.
fn ends(pkt: &PacketHandle, net: &Net) -> Option<(Location, Location)> {
    if pkt.is_multicast() {
        return None;
    }
    let dst = net.locate(pkt.eth_dst())?;
    Some((net.locate(pkt.eth_src())?, dst))
}
