//! Counts of what the cases of a test have covered.

use std::collections::BTreeMap;

/// The counts of what a test has covered.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cases.
    pub cases: u64,
    /// Packets that had to come out completely.
    pub exact: u64,
    /// Packets that may have come out incompletely.
    pub lossy: u64,
    /// Frames that came out.
    pub delivered: u64,
    /// Packet-ins from where packets entered.
    pub packet_ins: u64,
    /// Labels that exist at the end.
    pub labelled: u64,
    /// Times that a route was refused a label.
    pub refused: u64,
    /// Routes that constraints refused.
    pub violations: u64,
    /// Rules of look-ups, at each moment of rest.
    pub look_ups: u64,
    /// Packets that were explained, those of them that the switches forward without the controller, and alternatives
    /// that were found.
    pub explained: u64,
    pub agreed: u64,
    pub alternatives: u64,
    /// Reloads whose rules were to be those that their rehearsals announced.
    pub foreseen: u64,
    /// The steps, by name.
    pub happened: BTreeMap<&'static str, u64>,
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(all: I) -> Tally {
        all.fold(Tally::default(), |mut sum, one| {
            one.happened.iter().for_each(|(name, n)| *sum.happened.entry(name).or_default() += n);
            Tally {
                cases: sum.cases + one.cases,
                exact: sum.exact + one.exact,
                lossy: sum.lossy + one.lossy,
                delivered: sum.delivered + one.delivered,
                packet_ins: sum.packet_ins + one.packet_ins,
                labelled: sum.labelled + one.labelled,
                refused: sum.refused + one.refused,
                violations: sum.violations + one.violations,
                look_ups: sum.look_ups + one.look_ups,
                explained: sum.explained + one.explained,
                agreed: sum.agreed + one.agreed,
                alternatives: sum.alternatives + one.alternatives,
                foreseen: sum.foreseen + one.foreseen,
                happened: sum.happened,
            }
        })
    }
}
