//! A canary: a new policy decides at some ingress switches, and the old one everywhere else.
//!
//! Neither policy asks for the switch where a packet enters. A canary need not ask either, because each switch has a
//! trace tree of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::Dpid;

use super::in_all;
use crate::access::AccessList;
use crate::policy::{Policy, SamplePacket};
use crate::policy_error::PolicyError;
use crate::route::Route;
use crate::run::{Net, PacketHandle, Run};

/// Two policies, each of which decides the packets that enter at some of the switches.
///
/// ```
/// use std::sync::Arc;
///
/// use maple_core::compose::Canary;
/// use maple_core::{Net, PacketHandle, Policy, Route};
/// use maple_wire::Dpid;
///
/// let flood: Arc<dyn Policy> = Arc::new(|_: &PacketHandle, _: &Net| Route::flood());
/// let drop: Arc<dyn Policy> = Arc::new(|_: &PacketHandle, _: &Net| Route::drop());
/// let _drops_at_switch_1: Arc<dyn Policy> = Arc::new(Canary::new(flood, drop, [Dpid(1)]));
/// ```
#[derive(Debug)]
pub struct Canary {
    old: Arc<dyn Policy>,
    new: Arc<dyn Policy>,
    switches: BTreeSet<Dpid>,
}

impl Canary {
    /// Lets `new` decide what enters at these switches, and `old` everything else.
    pub fn new(old: Arc<dyn Policy>, new: Arc<dyn Policy>, switches: impl IntoIterator<Item = Dpid>) -> Canary {
        Canary { old, new, switches: switches.into_iter().collect() }
    }

    fn at(&self, ingress: Dpid) -> &dyn Policy {
        if self.switches.contains(&ingress) { &*self.new } else { &*self.old }
    }
}

impl Policy for Canary {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        self.at(pkt.ingress()).decide(pkt, net)
    }

    fn decide_batch(&self, runs: &[Run]) -> Vec<Result<Route, PolicyError>> {
        // A batch mostly has all packets of one switch, and then those of another.
        let is_new = |run: &Run| self.switches.contains(&run.packet().ingress());
        let parts = runs.chunk_by(|a, b| is_new(a) == is_new(b));
        parts
            .flat_map(|part| if is_new(&part[0]) { self.new.decide_batch(part) } else { self.old.decide_batch(part) })
            .collect()
    }

    fn samples(&self) -> Vec<SamplePacket> {
        let mut samples = self.new.samples();
        samples.extend(self.old.samples());
        samples
    }

    fn access_lists(&self) -> Vec<Arc<AccessList>> {
        [self.new.access_lists(), self.old.access_lists()].concat()
    }

    fn constraints(&self) -> Vec<Arc<str>> {
        let mut names = self.old.constraints();
        for name in self.new.constraints() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn untracked_reads(&self) -> Vec<Arc<str>> {
        [self.old.untracked_reads(), self.new.untracked_reads()].concat()
    }

    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        in_all(&[&self.old, &self.new], worker);
    }
}
