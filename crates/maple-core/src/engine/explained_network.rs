//! Answers the questions of explanations (`crate::explain`). Nothing here changes the engine: no message is sent, no
//! leaf is used, and no count grows.

use std::sync::Arc;

use maple_wire::Dpid;

use crate::engine::dispatch::Engine;
use crate::explain::{Admission, EnteringPacket, ExplainedNetwork, LeafView, Passage};
use crate::network::Location;
use crate::policy::Policy;

/// All engines of a controller at rest, as a network that packets enter.
#[derive(Debug)]
pub struct Engines<'a>(pub Vec<&'a Engine>);

impl Engines<'_> {
    fn engine_of(&self, dpid: Dpid) -> Option<&Engine> {
        self.0.iter().copied().find(|engine| engine.fabric.switches.contains_key(&dpid))
    }
}

impl ExplainedNetwork for Engines<'_> {
    fn policy(&mut self, at: Location) -> Option<Arc<dyn Policy>> {
        self.engine_of(at.switch).map(|engine| Arc::clone(&engine.decisions.policy))
    }

    fn admit(&mut self, packet: &EnteringPacket) -> Admission {
        let refusal = || Admission::Refused("the switch is not connected".into());
        self.engine_of(packet.at.switch).map_or_else(refusal, |engine| engine.view().admit(packet))
    }

    fn leaf(&mut self, packet: &EnteringPacket, is_learned: bool) -> Option<LeafView> {
        self.engine_of(packet.at.switch)?.view().leaf_view(packet, is_learned)
    }

    fn pass(&mut self, at: Location, frame: &[u8]) -> Option<Passage> {
        self.engine_of(at.switch)?.view().passage(at, frame)
    }
}
