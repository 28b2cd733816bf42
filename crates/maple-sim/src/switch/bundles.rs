//! Bundles of a simulated switch, which behaves as Open vSwitch: a message that it refuses immediately is left out, and
//! the others are committed.

use maple_wire::Message;
use maple_wire::msg::{BundleAdd, BundleControl, ErrorMsg, Experimenter, FlowMod};

use super::{Placed, SimSwitch};

/// The error code `OFPBFC_BAD_ID`: there is no such bundle.
const BAD_ID: u16 = 2302;
/// The error code `OFPBFC_MSG_FAILED`: a message of the bundle could not be obeyed.
const MSG_FAILED: u16 = 2313;
/// The error `OFPBRC_BAD_EXPERIMENTER` of a switch without bundles.
const BAD_EXPERIMENTER: ErrorMsg = ErrorMsg { kind: 1, code: 3, data: Vec::new() };

/// The messages of an open bundle, with their transaction ids.
pub(crate) type Bundle = Vec<(u32, FlowMod)>;

impl SimSwitch {
    /// Adds a message to a bundle.
    ///
    /// # Errors
    /// The error that the switch answers with, if it has no bundles, refuses the message, or has no such bundle open.
    pub(crate) fn bundle_add(&mut self, xid: u32, request: BundleAdd) -> Result<(), ErrorMsg> {
        let Message::FlowMod(flow_mod) = *request.message else { panic!("the engine bundles flow-mods only") };
        if !self.takes_bundles {
            return Err(BAD_EXPERIMENTER);
        }
        self.check(&flow_mod)?;
        self.bundles.get_mut(&request.bundle).ok_or_else(|| failure(BAD_ID))?.push((xid, flow_mod));
        Ok(())
    }

    /// Obeys a request about a bundle. Returns the rules that were deleted, and errors with the requests' ids.
    pub(crate) fn bundle_control(&mut self, xid: u32, request: BundleControl) -> (Vec<Placed>, Vec<(u32, ErrorMsg)>) {
        if !self.takes_bundles {
            return (Vec::new(), vec![(xid, BAD_EXPERIMENTER)]);
        }
        if request.kind == BundleControl::OPEN {
            self.bundles.insert(request.bundle, Bundle::new());
            return (Vec::new(), Vec::new());
        }
        let Some(bundle) = self.bundles.remove(&request.bundle) else {
            return (Vec::new(), vec![(xid, failure(BAD_ID))]);
        };
        if request.kind != BundleControl::COMMIT {
            return (Vec::new(), Vec::new());
        }
        let (before, mut deleted) = (self.flow_tables.clone(), Vec::new());
        for (inner, flow_mod) in bundle {
            match self.flow_mod(&flow_mod) {
                Ok(gone) => deleted.extend(gone),
                Err(error) => {
                    self.flow_tables = before;
                    return (Vec::new(), vec![(inner, error), (xid, failure(MSG_FAILED))]);
                }
            }
        }
        (deleted, Vec::new())
    }
}

fn failure(code: u16) -> ErrorMsg {
    ErrorMsg { kind: ErrorMsg::EXPERIMENTER, code, data: Experimenter::ONF.to_be_bytes().to_vec() }
}
