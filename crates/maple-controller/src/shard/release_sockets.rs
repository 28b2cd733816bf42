//! Gives the sockets of a shard to another process (`takeover/`), without ending the connections.

use std::collections::BTreeMap;
use std::time::Duration;

use maple_wire::Dpid;
use maple_wire::msg::PacketIn;

use super::connection::{Connection, ConnectionState};
use super::connection_socket::Socket;
use super::context::Context;
use super::listeners::owned;
use super::slots::Slots;
use crate::session::MAX_EARLY;
use crate::storage::takeover::HandedConnection;
use crate::time::until;

/// The time for which waiting output is written before connections are handed over, for all connections together. It
/// must be a small part of the time that a shard has to stop, five seconds.
const LAST_WRITE: Duration = Duration::from_millis(500);

/// Takes the connections with which another process can go on, with these packets, which have no answer yet.
pub(super) fn release(
    connections: &mut Slots,
    packets: Vec<(Dpid, PacketIn)>,
    poll: &mio::Registry,
    ctx: &Context,
) -> Vec<HandedConnection> {
    let mut of_switch: BTreeMap<Dpid, Vec<PacketIn>> = BTreeMap::new();
    for (dpid, packet) in packets {
        of_switch.entry(dpid).or_default().push(packet);
    }
    write_last(connections, ctx);
    let slots: Vec<usize> = connections.iter().map(|connection| connection.id.slot).collect();
    let released = slots.into_iter().filter_map(|slot| release_one(connections, slot, poll, ctx));
    let with_packets = released.map(|connection| {
        let mut packets = of_switch.remove(&connection.dpid).unwrap_or_default();
        packets.truncate(MAX_EARLY);
        HandedConnection { packets, ..connection }
    });
    with_packets.collect()
}

/// Writes the output that waits for the switches, as far as they take it within [`LAST_WRITE`] for all of them.
fn write_last(connections: &mut Slots, ctx: &Context) {
    let began = ctx.clock.now();
    loop {
        let mut waits = false;
        for Connection { outbox, socket, .. } in connections.iter_mut().filter(|one| !one.outbox.is_empty()) {
            // A connection that fails keeps its output, and is not handed over.
            waits |= outbox.write_to(socket).is_ok() && !outbox.is_empty();
        }
        if !waits || until(began, ctx.clock.now()) >= LAST_WRITE {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes a connection without ending it. Returns `None` unless all output is written,
/// the connection has no TLS, and a policy serves the switch.
fn release_one(connections: &mut Slots, slot: usize, poll: &mio::Registry, ctx: &Context) -> Option<HandedConnection> {
    let connection = connections.get(slot)?;
    let ConnectionState::Open { session, framer } = &connection.state else { return None };
    if !session.is_up() || connection.is_served() || connection.input.is_closed {
        return None;
    }
    let (version, partial) = (session.version(), framer.started().to_vec());
    let (id, dpid, is_written) = (connection.id, connection.dpid?, connection.outbox.is_empty());
    let socket = match &mut connection.socket {
        Socket::Tcp(stream) if is_written => owned(stream).ok()?,
        _ => return None,
    };
    // Closing our descriptor does not end the connection, because there is another one.
    let mut connection = connections.remove(slot)?;
    connection.socket.deregister(poll).ok()?;
    ctx.registry.release(dpid, id, false);
    ctx.registry.remove_connection(ctx.id);
    Some(HandedConnection { socket: socket.into(), dpid, version, partial, packets: Vec::new() })
}
