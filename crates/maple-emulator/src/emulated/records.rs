//! Events of the past in the network, for those who watch it.

use std::collections::BTreeMap;

use maple_switch::time::Nanoseconds;
use maple_wire::Dpid;

use super::faults::NetworkError;
use super::log::{DeliveryLog, Drop};
use crate::pairs::{PairCounters, PairKey};

/// The records of a network. They change nothing of what happens.
#[derive(Debug)]
pub(super) struct Records {
    pub log: DeliveryLog,
    pub pairs: BTreeMap<PairKey, PairCounters>,
    /// Copies that were dropped, by switch and reason.
    pub losses: BTreeMap<(Dpid, Drop), u64>,
    /// The times when a part of each switch last failed or returned.
    pub disturbances: BTreeMap<Dpid, Nanoseconds>,
    /// The errors of scheduled faults.
    pub failed_faults: Vec<NetworkError>,
}

impl Records {
    /// Creates empty records, whose log has at most `log_limit` frames and deliveries.
    pub fn new(log_limit: usize) -> Records {
        Records {
            log: DeliveryLog::new(log_limit),
            pairs: BTreeMap::new(),
            losses: BTreeMap::new(),
            disturbances: BTreeMap::new(),
            failed_faults: Vec::new(),
        }
    }
}
