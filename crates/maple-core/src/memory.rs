//! The memory of a controller from one run to the next: the places of links and hosts, the meanings of labels and
//! look-ups, and the witness packet of each leaf (docs/restart.md). It saves time, and nothing depends on it.
//!
//! The engine says which leaves there are ([`Effect::Remember`](crate::engine::Effect::Remember)), and the store where
//! hosts, links and ports are ([`Surroundings::from_store`]). The next run gets both back
//! ([`Event::Presume`](crate::engine::Event::Presume), [`Event::Restore`](crate::engine::Event::Restore)).

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::{Constraint, Dpid, PortNo};
use serde::{Deserialize, Serialize};

pub use crate::capabilities::SwitchModel;
use crate::labels::{LabelIds, LabelKey};
use crate::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use crate::state::{Snapshot, Store};
pub use crate::trace::ReadMetadata;

/// The remembered part of a leaf: the packet that f decided, and the leaf's specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// The port by which the packet came in.
    pub at: Location,
    /// The captured bytes of the packet.
    pub frame: Arc<[u8]>,
    /// The length of the packet on the wire, in bytes.
    pub total_len: usize,
    /// The constraints that made the leaf narrower than its trace.
    pub extra_reads: Box<[Constraint]>,
    /// The classes of what f looked up.
    pub metadata: ReadMetadata,
    /// Whether nobody has sent the packet: exploration has made it up.
    pub is_made_up: bool,
}

/// The places of links, edge ports and hosts, the meanings of labels and look-ups, and the models of switches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// The links, each once.
    pub links: Vec<(Location, Location)>,
    /// The ports with hosts, or with a middlebox, behind them.
    pub edges: Vec<Location>,
    /// The hosts.
    pub hosts: Vec<(Mac, HostInfo)>,
    /// The labels in use.
    pub labels: Vec<RememberedLabel>,
    /// The models of the switches.
    pub models: Vec<(Dpid, SwitchModel)>,
    /// The meanings of look-ups at the switches, in a form that only the engine reads.
    pub look_ups: Vec<(Dpid, Vec<u8>)>,
}

/// A label in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RememberedLabel {
    /// The switch at which its packets arrive.
    pub switch: Dpid,
    /// The port by which its packets arrive; `None` for any link port.
    pub port: Option<PortNo>,
    /// The VLAN id that encodes the label.
    pub id: u16,
    /// A number for what is done with the label's packets. Equal meanings have equal numbers in every run of the
    /// program.
    pub meaning: u64,
}

impl Surroundings {
    /// Collects the surroundings of all switches from the store.
    ///
    /// ```
    /// use maple_core::{Store, memory::Surroundings};
    /// assert_eq!(Surroundings::from_store(&Store::new()), Surroundings::default());
    /// ```
    #[must_use]
    pub fn from_store(store: &Store) -> Surroundings {
        let state = store.snapshot();
        let mut labels = Vec::new();
        store.with_all_label_ids(|switch, ids| labels.extend(labels_of(switch, ids)));
        let edges = state.switches().flat_map(|(dpid, _)| edges_of(&state, dpid).collect::<Vec<_>>());
        Surroundings {
            links: state.links().filter(|(a, b)| a < b).collect(),
            edges: edges.collect(),
            hosts: state.hosts().map(|(mac, info)| (*mac, info.clone())).collect(),
            labels,
            models: store.models(),
            look_ups: store.look_ups(),
        }
    }

    /// Collects the surroundings of one switch: its links, ports, hosts and labels.
    pub(crate) fn of_switch(store: &Store, dpid: Dpid) -> Surroundings {
        let state = store.snapshot();
        let hosts = state.hosts_of(dpid).filter_map(|mac| Some((mac, state.host(mac)?.clone())));
        Surroundings {
            links: state.links_of(dpid).collect(),
            edges: edges_of(&state, dpid).collect(),
            hosts: hosts.collect(),
            labels: store.with_label_ids(dpid, |ids| labels_of(dpid, ids).collect()),
            models: store.model(dpid).map(|model| (dpid, model)).into_iter().collect(),
            look_ups: store.look_ups_of(dpid).map(|look_ups| (dpid, look_ups)).into_iter().collect(),
        }
    }

    /// Adds the surroundings of other switches.
    pub fn extend(&mut self, others: &Surroundings) {
        self.links.extend(&others.links);
        self.edges.extend(&others.edges);
        self.hosts.extend(others.hosts.iter().cloned());
        self.labels.extend(&others.labels);
        self.models.extend(&others.models);
        self.look_ups.extend(others.look_ups.iter().cloned());
    }

    /// Returns the ports of a switch that links or edges name.
    pub(crate) fn ports_of(&self, dpid: Dpid) -> BTreeSet<PortNo> {
        let links = self.links.iter().flat_map(|(a, b)| [*a, *b]);
        links.chain(self.edges.iter().copied()).filter(|at| at.switch == dpid).map(|at| at.port).collect()
    }

    /// Returns all switches that links, edges or hosts name.
    #[must_use]
    pub fn switches(&self) -> BTreeSet<Dpid> {
        let links = self.links.iter().flat_map(|(a, b)| [a.switch, b.switch]);
        let hosts = self.hosts.iter().map(|(_, host)| host.location.switch);
        links.chain(self.edges.iter().map(|at| at.switch)).chain(hosts).collect()
    }
}

/// Returns the ports of a switch that are up and have hosts, or a middlebox, behind them.
fn edges_of(state: &Snapshot, dpid: Dpid) -> impl Iterator<Item = Location> {
    let is_edge = |info: &PortInfo| info.up && matches!(info.kind, PortKind::Edge | PortKind::Middlebox);
    state.ports_of(dpid).filter(move |(_, info)| is_edge(info)).map(move |(port, _)| Location::new(dpid, port))
}

fn labels_of(switch: Dpid, ids: &LabelIds) -> impl Iterator<Item = RememberedLabel> {
    ids.meanings().map(move |(LabelKey { port, id }, meaning)| RememberedLabel { switch, port, id, meaning })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use maple_wire::Version;

    use super::*;
    use crate::ids::Time;
    use crate::state::Memorable;

    /// Look-ups that count how often they are asked for, those of all switches together.
    #[derive(Debug, Clone, Default)]
    struct CountedLookUps(Arc<AtomicUsize>);

    impl Memorable for CountedLookUps {
        fn bytes(&self) -> Vec<u8> {
            self.0.fetch_add(1, Ordering::Relaxed);
            vec![1]
        }
    }

    #[test]
    fn the_surroundings_of_a_switch_ask_for_nothing_of_others_that_ever_connected() {
        let (store, look_ups) = (Store::new(), CountedLookUps::default());
        let model = SwitchModel { version: Version::Of13, tables: 254, is_open_vswitch: true, has_bundles: true };
        for number in 1..=500 {
            let dpid = Dpid(number);
            store.note_model(Time(1), dpid, model);
            store.keep_look_ups(dpid, Arc::new(look_ups.clone()));
            let around = Surroundings::of_switch(&store, dpid);
            assert_eq!(around.models, [(dpid, model)]);
            assert_eq!(around.look_ups, [(dpid, vec![1])]);
            assert_eq!(look_ups.0.load(Ordering::Relaxed) as u64, number, "each is asked once, for itself");
        }
    }
}
