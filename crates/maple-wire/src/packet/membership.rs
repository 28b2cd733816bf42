//! What hosts say about the multicast groups that they belong to, in any protocol.
//!
//! Sources are not distinguished: a host that wants some senders of a group belongs to the group.

use std::net::IpAddr;

/// A message about groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// A router asks which hosts belong to a group; to any group if `None`.
    Query(Option<IpAddr>),
    /// A host reports what has changed, or what is still true, in this order.
    Report(Vec<Belonging>),
}

/// Whether a host belongs to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belonging {
    /// The group's address.
    pub group: IpAddr,
    /// Whether the host belongs to the group, from now on or still.
    pub joined: bool,
}

const MODE_IS_INCLUDE: u8 = 1;
const MODE_IS_EXCLUDE: u8 = 2;
const TO_INCLUDE: u8 = 3;
const TO_EXCLUDE: u8 = 4;
const ALLOW: u8 = 5;

/// The group records of an IGMPv3 or MLDv2 report, beginning with the number of records. Addresses have `N` bytes.
///
/// `None` if there are fewer than there should be. A record that blocks sources is left out, because it does not end a
/// membership. A host without any source left stops reporting, and its membership expires.
pub(super) fn records<const N: usize>(bytes: &[u8], address: impl Fn([u8; N]) -> IpAddr) -> Option<Vec<Belonging>> {
    let (count, mut rest) = bytes.split_first_chunk::<2>()?;
    let mut found = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let ([kind, extra, high, low], after) = rest.split_first_chunk::<4>()?;
        let (group, after) = after.split_first_chunk::<N>()?;
        let sources = usize::from(u16::from_be_bytes([*high, *low]));
        rest = after.get(sources * N + usize::from(*extra) * 4..)?;
        let group = address(*group);
        let joined = match *kind {
            MODE_IS_EXCLUDE | TO_EXCLUDE => true,
            MODE_IS_INCLUDE | TO_INCLUDE => sources > 0,
            ALLOW if sources > 0 => true,
            _ => continue,
        };
        if group.is_multicast() {
            found.push(Belonging { group, joined });
        }
    }
    Some(found)
}
