//! Paths of packets from a switch on, and what it does with packets that arrive from others.

pub(in crate::engine) mod meters;
pub(in crate::engine) mod route_rules;

use maple_wire::{Dpid, Version};

use crate::engine::context::options::Options;
use crate::labels::{LabelTable, Quarantine};
use meters::Meters;
use route_rules::RouteRules;

/// The routes that begin at a switch, and the labels by which packets arrive.
#[derive(Clone)]
pub(in crate::engine) struct Paths {
    /// The labels of packets that arrive from other switches.
    pub labels: LabelTable,
    /// The rules in the table of routes.
    pub route_rules: RouteRules,
    /// Whether rules may lead to the table of routes.
    pub route_table: RouteTable,
    /// The meters for the limits of routes.
    pub meters: Meters,
}

/// Whether the table of routes may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) enum RouteTable {
    /// The table may not be used: the switch does not have it, or has not confirmed the rule that sends everything else
    /// there to the controller.
    #[default]
    Closed,
    Open,
    /// The switch refused a rule of the table.
    Refused,
}

impl Paths {
    /// Creates the paths of a switch without labels and routes.
    pub fn new(dpid: Dpid, version: Version, has_pipeline: bool, options: &Options) -> Paths {
        Paths {
            labels: LabelTable::new(dpid, version, !has_pipeline, quarantine(options)),
            route_rules: RouteRules::default(),
            route_table: RouteTable::default(),
            meters: Meters::default(),
        }
    }
}

/// Returns the times for which labels are kept for packets in flight.
pub(in crate::engine) fn quarantine(options: &Options) -> Quarantine {
    Quarantine { confirmed: options.quarantine, unconfirmed: options.lost_quarantine }
}
