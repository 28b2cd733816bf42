//! A label as people see it.

use maple_wire::PortNo;

use crate::network::Location;

/// A label of a switch, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelView {
    /// The VLAN id that packets carry when they arrive.
    pub id: u16,
    /// The port by which they arrive; `None` for any link port.
    pub port: Option<PortNo>,
    /// The stage of the label's life.
    pub stage: LabelStage,
    /// The number of routes and labels of other switches that send packets under it.
    pub holders: usize,
    /// The edge ports where its packets leave, in order.
    pub to: Vec<Location>,
    /// The reason why no packets may be sent under the label any more, if that is so.
    pub refused: Option<String>,
}

/// The stage of a label's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelStage {
    /// Something is missing: the labels of the next switches, or the confirmation of the switch.
    Waiting,
    /// Packets may be sent under it.
    Ready,
    /// Nobody sends packets under it any more, and some may be on their way.
    Quarantined,
    /// Its rule is being deleted.
    Leaving,
    /// The switch refused it, or it is not wanted any more.
    Refused,
}

impl LabelStage {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            LabelStage::Waiting => "waiting",
            LabelStage::Ready => "ready",
            LabelStage::Quarantined => "quarantined",
            LabelStage::Leaving => "leaving",
            LabelStage::Refused => "refused",
        }
    }
}
