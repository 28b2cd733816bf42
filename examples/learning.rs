//! Learning by location: the policy notes where each source is and sends to where the destination was seen.
//!
//! This is the second part of the motivating example in section 2 of the Maple paper, in the policy's own table. f
//! writes only when a host is new or has moved, so all other packets are answered by rules. (Maple learns locations by
//! itself; the other examples use that, by `net.locate`.)

use maple::Observe as _;
use maple::{App, Field, Location, Net, PacketHandle, Route, Value};

const TABLE: &str = "locations";
/// The group bit of a hardware address.
const GROUP: u128 = 1 << 40;

fn learning(pkt: &PacketHandle, net: &Net) -> Route {
    let here = Location::new(pkt.switch(), pkt.in_port());
    let source = Value::from(pkt.eth_src());
    if net.get(TABLE, &source) != Some(here.into()) && !pkt.equals(Field::EthSrc, GROUP, GROUP, None) {
        net.set(TABLE, source, here.into());
    }
    match net.get(TABLE, &pkt.eth_dst().into()) {
        Some(Value::Location(there)) => net.shortest_path(here, there),
        _ => Route::flood(),
    }
}

fn main() -> std::process::ExitCode {
    maple_cli::run(App::new(learning))
}
