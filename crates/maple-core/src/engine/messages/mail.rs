//! Messages between shards.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use maple_wire::Dpid;

use crate::ids::{DependentId, ShardId};
use crate::labels::{Acquire, Holder, News};
use crate::network::{Location, Mac};
use crate::route::SwitchHops;
use crate::state::LeafSelection;

/// A message from one shard to another. It is opaque. Deliver it as [`Event::Mail`](crate::engine::Event::Mail), and
/// keep the order between any two shards.
#[derive(Clone, Debug)]
pub struct Mail {
    from: ShardId,
    /// Its number among all mails of that shard.
    number: u64,
    pub(in crate::engine) message: EngineMessage,
}

impl Mail {
    /// Creates the mail of a shard that has sent `number` mails before.
    pub(in crate::engine) fn new(from: ShardId, number: u64, message: EngineMessage) -> Mail {
        Mail { from, number, message }
    }

    /// Returns the shard that sent it, and the number of mails that this shard had sent before.
    pub fn name(&self) -> (ShardId, u64) {
        (self.from, self.number)
    }
}

/// The content of a mail. "You" is the shard that receives it.
#[derive(Clone, Debug)]
pub(in crate::engine) enum EngineMessage {
    /// Withdraw those of your leaves that this selects.
    Withdraw(LeafSelection),
    /// State that these dependents of yours read has changed. Decide again whether leaves stay.
    Reconsider(BTreeSet<DependentId>),
    /// Ports or hosts of your switches have changed.
    Refresh(Refreshed),
    /// A route or label asks for a label of your switch.
    Acquire(Acquire),
    /// News of a label of this switch, which a route or label of yours had asked for.
    LabelNews(Dpid, Holder, News),
    /// A holder gives back a label of your switch. `confirmed`: a switch has confirmed that no rule leads to it.
    Release { at: Dpid, holder: Holder, confirmed: bool },
    /// Send a frame out of your switch.
    Emit { dpid: Dpid, hops: SwitchHops, frame: Arc<[u8]> },
    /// Find out whether a host is still at your port.
    FindHost(FindHost),
    /// The result of that search.
    HostSearched { mac: Mac, at: Location, found: SearchResult },
    /// A port has gone down. Its hosts may now be at ports of yours.
    Unplugged(Location),
    /// A host's packet came in at `seen`, the other end of the link at your port `at`.
    UnexpectedHost { mac: Mac, at: Location, seen: Location },
    /// Something now depends on the addresses of hosts.
    AddressesAreRead,
    /// Something now depends on measured rates.
    LoadsAreRead,
}

/// The question whether a host is still at a port.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct FindHost {
    pub mac: Mac,
    pub at: Location,
    /// The address that it announced elsewhere.
    pub named: Option<IpAddr>,
    /// The shard that wants to know.
    pub asker: ShardId,
}

/// The ports that changed, and the hosts that came to a port or left it.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Refreshed {
    pub ports: BTreeSet<Location>,
    pub hosts: BTreeSet<(Location, Mac)>,
}

/// The result of a search for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum SearchResult {
    /// The host is where it was.
    Alive,
    /// The host is not there. `was_asked`: it had announced addresses, so it could be asked.
    Gone { was_asked: bool },
}
