//! Hosts' messages about the multicast groups that they belong to, in any protocol.

use std::net::IpAddr;

/// A message about groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// A router asks which hosts belong to a group; to any group if `None`.
    Query(Option<IpAddr>),
    /// A host reports what has changed, or what is still true, in this order.
    Report(Vec<Belonging>),
}

/// A host's message about one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belonging {
    /// The group's address.
    pub group: IpAddr,
    /// The senders whose packets to the group the host wants.
    pub wants: Sources,
}

/// The senders whose packets to a group a host wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// All senders, or all but some: which ones makes no difference to membership.
    All,
    /// Only these senders; none if the host leaves the group.
    Only(Vec<IpAddr>),
    /// These senders in addition.
    Also(Vec<IpAddr>),
    /// All senders that were wanted before, without these.
    Not(Vec<IpAddr>),
}

const MODE_IS_INCLUDE: u8 = 1;
const MODE_IS_EXCLUDE: u8 = 2;
const TO_INCLUDE: u8 = 3;
const TO_EXCLUDE: u8 = 4;
const ALLOW: u8 = 5;
const BLOCK: u8 = 6;

/// Reads the group records of an IGMPv3 or MLDv2 report, beginning with the number of records. Addresses have `N`
/// bytes.
///
/// `None` if there are fewer records than their number requires.
pub(super) fn records<const N: usize>(bytes: &[u8], address: impl Fn([u8; N]) -> IpAddr) -> Option<Vec<Belonging>> {
    let (count, mut rest) = bytes.split_first_chunk::<2>()?;
    let mut found = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let ([kind, extra, high, low], after) = rest.split_first_chunk::<4>()?;
        let (group, after) = after.split_first_chunk::<N>()?;
        let sources = after.get(..usize::from(u16::from_be_bytes([*high, *low])) * N)?;
        rest = after.get(sources.len() + usize::from(*extra) * 4..)?;
        let group = address(*group);
        let named = || sources.as_chunks::<N>().0.iter().map(|source| address(*source)).collect::<Vec<IpAddr>>();
        let wants = match *kind {
            MODE_IS_EXCLUDE | TO_EXCLUDE => Sources::All,
            // A host repeats what it wants in answer to queries, and so do other hosts at the port, so this ends
            // nothing.
            MODE_IS_INCLUDE if !sources.is_empty() => Sources::Also(named()),
            MODE_IS_INCLUDE | TO_INCLUDE => Sources::Only(named()),
            ALLOW => Sources::Also(named()),
            BLOCK => Sources::Not(named()),
            _ => continue,
        };
        if group.is_multicast() {
            found.push(Belonging { group, wants });
        }
    }
    Some(found)
}
