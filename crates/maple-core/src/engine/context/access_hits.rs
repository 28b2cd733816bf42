//! Counts the packets that each rule of the policy's access lists has decided, for people who read a list line by line.
//!
//! A packet counts when an OpenFlow rule of a leaf has matched it, or when the controller decides it. A leaf counts for
//! the rule of each list that f asked, even if that rule passes the packet on. A new policy starts with counts of zero.

use std::sync::Arc;

use crate::access::AccessList;
use crate::policy::Policy;
use crate::trace::Trace;

/// A rule of an access list: the indexes of the list and of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct AskedRule {
    list: usize,
    rule: usize,
}

/// The access lists of a policy, and the number of packets that each of their rules has decided.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct AccessHits {
    lists: Vec<Arc<AccessList>>,
    packets: Vec<Vec<u64>>,
}

impl AccessHits {
    /// Starts with the lists of a policy, and all counts at zero.
    pub fn new(policy: &dyn Policy) -> AccessHits {
        let lists = policy.access_lists();
        let packets = lists.iter().map(|list| vec![0; list.rules().len()]).collect();
        AccessHits { lists, packets }
    }

    /// Reports whether there are no lists.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns the rules of access lists that answered the run of a trace.
    pub fn rules_asked(&self, trace: &Trace) -> Vec<AskedRule> {
        let lists = || self.lists.iter().enumerate();
        let asked_rule =
            |answer| lists().find_map(|(list, access)| Some(AskedRule { list, rule: access.rule_of(answer)? }));
        trace.lists.iter().filter_map(asked_rule).collect()
    }

    /// Counts a packet with this trace that the controller has decided.
    pub fn count_packet(&mut self, trace: &Trace) {
        if !trace.lists.is_empty() {
            let asked = self.rules_asked(trace);
            self.count(&asked, 1);
        }
    }

    /// Adds `packets` to the count of each of these rules.
    pub fn count(&mut self, asked: &[AskedRule], packets: u64) {
        for AskedRule { list, rule } in asked {
            if let Some(count) = self.packets.get_mut(*list).and_then(|rules| rules.get_mut(*rule)) {
                *count = count.saturating_add(packets);
            }
        }
    }

    /// Returns the access lists, each with the packets that its rules have decided, in the order of
    /// [`AccessList::rules`].
    pub fn all(&self) -> impl Iterator<Item = (&Arc<AccessList>, &[u64])> {
        self.lists.iter().zip(self.packets.iter().map(Vec::as_slice))
    }
}
