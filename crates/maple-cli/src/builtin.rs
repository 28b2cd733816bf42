//! The built-in policies and handlers: `builtin:NAME`.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use maple_controller::session::SwitchInfo;
use maple_core::network::{Location, RESERVED};
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
use maple_core::run::{HostLocation, Observe as _};
use maple_core::trace::Source;
use maple_handlers::{HandlerFactory, Hub, LearningSwitch};
use maple_wire::Field;

/// The link cost that `builtin:secure-routing` uses for ssh.
pub const COSTS: &str = "secure";

/// Finds a built-in policy.
///
/// # Errors
/// If there is no built-in policy of this name.
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

/// Finds a built-in handler.
pub fn handlers(name: &str) -> Option<Arc<dyn HandlerFactory>> {
    match name {
        "learning-switch" => Some(Arc::new(|_: &SwitchInfo| LearningSwitch::new())),
        "hub" => Some(Arc::new(|_: &SwitchInfo| Hub)),
        _ => None,
    }
}

/// Returns a policy that tests whether the packet's address is never flooded, and leaves the decision to the next
/// policy.
pub fn ask_for_reserved() -> Arc<dyn Policy> {
    Arc::new(|pkt: &PacketHandle, _: &Net| {
        // The test has no source line, since no line of a policy makes it. Its outcome decides nothing here.
        for (value, mask) in RESERVED {
            if pkt.equals(Field::EthDst, value, mask, None) {
                break;
            }
        }
        Route::pass()
    })
}

/// Floods every packet.
fn flood(_: &PacketHandle, _: &Net) -> Route {
    Route::flood()
}

/// Routes every packet along the path with the fewest hops. Tests first whether to flood, so that all flooded packets
/// share one rule instead of one for each source.
fn shortest_path(pkt: &PacketHandle, net: &Net) -> Route {
    let Some((src, dst)) = ends(pkt, net) else { return Route::flood() };
    net.shortest_path(src, dst)
}

/// Routes ssh along the path of least `secure` cost, everything else along the shortest path.
fn secure_routing(pkt: &PacketHandle, net: &Net) -> Route {
    let Some((src, dst)) = ends(pkt, net) else { return Route::flood() };
    if pkt.is(Field::TcpDst, 22) { net.path(src, dst, COSTS) } else { net.shortest_path(src, dst) }
}

/// Returns where the path of a unicast packet starts and ends, if its source and destination are known. It starts at
/// the switch of the source, so the port of the source is not read.
fn ends<'n>(pkt: &PacketHandle, net: &'n Net) -> Option<(Location, HostLocation<'n>)> {
    if pkt.is_multicast() {
        return None;
    }
    let locate = |field, source| net.locate_by(field, Some(source)).ok().flatten();
    let dst = locate(Field::EthDst, Source::here())?;
    let src = locate(Field::EthSrc, Source::here())?;
    Some((src.start(), dst))
}
