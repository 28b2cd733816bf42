//! The built-in policies and handlers: `builtin:NAME`.

use std::sync::Arc;

use maple_controller::HandlerFactory;
use maple_controller::handler::{Hub, LearningSwitch};
use maple_controller::session::SwitchInfo;
use maple_core::policy::{Net, PacketHandle, Policy};
use maple_core::route::Route;
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

/// Every packet along the path with the fewest hops.
fn shortest_path(pkt: &PacketHandle, net: &Net) -> Route {
    match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
        (Some(src), Some(dst)) => net.shortest_path(src, dst),
        _ => Route::flood(),
    }
}

/// ssh along the path that the link attribute `secure` says, everything else along the shortest.
fn secure_routing(pkt: &PacketHandle, net: &Net) -> Route {
    match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
        (Some(src), Some(dst)) if pkt.is(Field::TcpDst, 22) => net.path(src, dst, WEIGHT),
        (Some(src), Some(dst)) => net.shortest_path(src, dst),
        _ => Route::flood(),
    }
}
