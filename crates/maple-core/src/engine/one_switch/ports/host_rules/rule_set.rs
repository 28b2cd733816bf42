//! A set of kinds of rules, for a host or a port.

/// A set of kinds of rules. Each constant below is a set of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleSet(u8);

impl RuleSet {
    /// Adds rules to the set, if the condition holds.
    pub(super) fn with(self, other: RuleSet, condition: bool) -> RuleSet {
        if condition { RuleSet(self.0 | other.0) } else { self }
    }

    /// Removes rules from the set.
    pub(super) fn without(self, other: RuleSet) -> RuleSet {
        RuleSet(self.0 & !other.0)
    }

    /// Returns the rules that are in both sets.
    pub(super) fn within(self, other: RuleSet) -> RuleSet {
        RuleSet(self.0 & other.0)
    }

    /// Reports whether one of the rules is in the set.
    pub(super) fn has(self, one: RuleSet) -> bool {
        self.0 & one.0 != 0
    }

    pub(super) fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Iterates over the rules of the set, the most important ones first.
    pub(super) fn each(self) -> impl Iterator<Item = RuleSet> {
        ALL.into_iter().filter(move |one| self.has(*one))
    }
}

/// Kinds of rules that a host may have.
pub(super) const HOST: RuleSet = RuleSet(1);
pub(super) const COPY_ARP: RuleSet = RuleSet(2);
pub(super) const COPY_SOLICITATION: RuleSet = RuleSet(4);
pub(super) const COPY_ADVERTISEMENT: RuleSet = RuleSet(8);
/// The kinds that copy what a host announces.
pub(super) const COPYING: RuleSet = RuleSet(COPY_ARP.0 | COPY_SOLICITATION.0 | COPY_ADVERTISEMENT.0);
pub(super) const PASS_KNOWN: RuleSet = RuleSet(16);

/// Kinds of rules that a port may have.
pub(super) const GUARDED: RuleSet = RuleSet(32);
pub(super) const ARP_TO_CONTROLLER: RuleSet = RuleSet(64);
pub(super) const ALL: [RuleSet; 7] =
    [HOST, COPY_ARP, COPY_SOLICITATION, COPY_ADVERTISEMENT, PASS_KNOWN, GUARDED, ARP_TO_CONTROLLER];
