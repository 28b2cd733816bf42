//! The copies of a packet that leave the network by a route's meaning alone, without rules, actions or labels. Tests
//! and checks compare what switches do with them.

use std::collections::BTreeMap;

use maple_wire::eth_type;
use maple_wire::packet::rewrite;
use maple_wire::{Constraint, Dpid, Field, Packet, PortNo};

use super::{Resolved, SwitchHops};
use crate::forwarding::TAG_PRESENT;
use crate::network::Location;

impl Resolved {
    /// Returns where copies of a frame that came in at `came_in` leave the network, and their bytes; in order. No copy
    /// goes back out of that port, unless the route says [`PortNo::IN_PORT`]. A copy whose rewrites don't fit the frame
    /// is not made. A header that is cut off stays as it is, as in the later fragments of an IP packet. Frames of f's
    /// own leave unchanged.
    pub fn copies(&self, frame: &[u8], came_in: Location) -> Vec<(Location, Vec<u8>)> {
        let mut copies = Vec::new();
        for (switch, hops) in &self.switches {
            let Some(bytes) = hops.rewritten(frame) else { continue };
            let places = hops.edges.iter().filter_map(|port| place(*switch, *port, came_in));
            copies.extend(places.map(|at| (at, bytes.clone())));
        }
        copies.extend(self.own.iter().map(|own| (own.at, own.bytes.to_vec())));
        copies.sort_unstable();
        copies
    }
}

fn place(switch: Dpid, port: PortNo, came_in: Location) -> Option<Location> {
    if port == PortNo::IN_PORT {
        return Some(came_in);
    }
    Some(Location::new(switch, port)).filter(|at| *at != came_in)
}

impl SwitchHops {
    /// Returns the frame as it leaves by this switch's edge ports; `None` if it lacks a field that is rewritten.
    fn rewritten(&self, frame: &[u8]) -> Option<Vec<u8>> {
        rewritten(frame, &self.treatment.rewrites, self.tagged)
    }
}

/// Returns a frame with these fields rewritten; `None` if it lacks one of them. `tagged` says whether it has a VLAN
/// tag, if its VLAN id is among the fields.
pub fn rewritten(frame: &[u8], rewrites: &BTreeMap<Field, u128>, tagged: bool) -> Option<Vec<u8>> {
    let mut bytes = frame.to_vec();
    if let Some(vid) = rewrites.get(&Field::VlanVid) {
        set_vlan(&mut bytes, *vid, tagged)?;
    }
    let untagged = rewrites.get(&Field::VlanVid) == Some(&0);
    for (field, value) in rewrites {
        match field {
            Field::VlanVid => {}
            // The priority is removed with the tag.
            Field::VlanPcp if untagged => {}
            field => {
                Packet::new(&bytes, 0).switch_value(*field)?;
                // The packet may be too short for the header, or a later fragment: switches skip the rewrite.
                let _ = rewrite::set_field(&mut bytes, &Constraint::exact(*field, *value));
            }
        }
    }
    Some(bytes)
}

/// Gives the frame this VLAN id, in the tag that it has or in a new one; 0 removes the tag. Returns `None` if that
/// fails.
fn set_vlan(bytes: &mut Vec<u8>, vid: u128, tagged: bool) -> Option<()> {
    if vid == 0 {
        return if tagged { rewrite::pop_vlan(bytes).ok() } else { Some(()) };
    }
    if !tagged {
        rewrite::push_vlan(bytes, eth_type::VLAN).ok()?;
    }
    rewrite::set_field(bytes, &Constraint::exact(Field::VlanVid, u128::from(TAG_PRESENT) | vid)).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use maple_wire::packet::build::Frame;

    use super::*;
    use crate::route::Treatment;

    const IN: Location = Location { switch: Dpid(1), port: PortNo(3) };

    fn route(edges: &[u32], rewrites: &[(Field, u128)], tagged: bool) -> Resolved {
        let edges: BTreeSet<PortNo> = edges.iter().copied().map(PortNo).collect();
        let treatment = Treatment { rewrites: rewrites.iter().copied().collect(), queue: None };
        let hops = SwitchHops { edges, treatment, tagged, ..SwitchHops::default() };
        Resolved { switches: BTreeMap::from([(Dpid(1), hops)]), ..Resolved::default() }
    }

    fn frame() -> Frame {
        Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1])
    }

    #[test]
    fn a_packet_goes_back_only_if_the_route_says_so_by_name() {
        let bytes = frame().raw(0x88b5, b"");
        let at = |edges: &[u32]| {
            let copies = route(edges, &[], false).copies(&bytes, IN);
            copies.into_iter().map(|(at, _)| at.port.0).collect::<Vec<_>>()
        };
        assert_eq!(at(&[2, 3, 4]), [2, 4]);
        assert_eq!(at(&[3]), [0; 0]);
        assert_eq!(at(&[3, 4, PortNo::IN_PORT.0]), [3, 4]);
    }

    #[test]
    fn a_vlan_id_comes_in_a_tag_and_goes_with_it() {
        let (plain, tagged) = (frame().raw(0x88b5, b"x"), frame().vlan(10).raw(0x88b5, b"x"));
        let out = |frame: &[u8], rewrites: &[(Field, u128)], is_tagged| {
            route(&[1], rewrites, is_tagged).copies(frame, IN).remove(0).1
        };
        assert_eq!(out(&plain, &[(Field::VlanVid, 10)], false), tagged);
        assert_eq!(out(&tagged, &[(Field::VlanVid, 20)], true), frame().vlan(20).raw(0x88b5, b"x"));
        assert_eq!(out(&tagged, &[(Field::VlanVid, 0), (Field::VlanPcp, 3)], true), plain);
        assert_eq!(out(&plain, &[(Field::VlanVid, 0)], false), plain);
    }

    #[test]
    fn a_later_fragment_leaves_as_it_is() {
        let later = frame().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).fragment(3, false, 7).proto(6).payload(b"x");
        let copies = route(&[1], &[(Field::TcpDst, 80)], false).copies(&later, IN);
        assert_eq!(copies, [(Location::new(Dpid(1), PortNo(1)), later)]);
    }

    #[test]
    fn a_rewrite_that_does_not_fit_makes_no_copy() {
        assert!(route(&[1], &[(Field::TcpDst, 80)], false).copies(&frame().raw(0x88b5, b""), IN).is_empty());
    }
}
