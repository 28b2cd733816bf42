//! Applies one action of a switch to a frame.

use super::super::Packet;
use super::{
    RewriteError, copy_ttl_in, copy_ttl_out, dec_mpls_ttl, dec_ttl, pop_mpls, pop_vlan, push_mpls, push_vlan,
    set_field, set_mpls_ttl, set_ttl,
};
use crate::eth_type;
use crate::field::Field;
use crate::field::VLAN_PRESENT;
use crate::flow::{Action, Constraint};

/// The effect of an action on a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The frame is changed, or unchanged because it lacks the header: switches leave such frames alone.
    Done,
    /// The frame's time to live ran out: the switch drops it (1.0 §3.4, 1.3 §5.12).
    Expired,
    /// The action does not change frames. For example, it sends them somewhere.
    NoRewrite,
}

/// Applies an action to a frame, if it is one that changes frames (1.0 §5.2.4, 1.3 §5.12).
///
/// ```
/// use maple_wire::packet::{Frame, rewrite::{Applied, apply}};
/// use maple_wire::{Action, Field, Packet};
///
/// let mut frame = Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 53).payload(b"");
/// assert_eq!(apply(&Action::SetVlanVid(5), &mut frame), Applied::Done);
/// assert_eq!(Packet::new(&frame, 1).get(Field::VlanVid), Some(0x1005));
/// assert_eq!(apply(&Action::Group(1), &mut frame), Applied::NoRewrite);
/// ```
pub fn apply(action: &Action, frame: &mut Vec<u8>) -> Applied {
    let result = match action {
        Action::SetField(constraint) => set_field(frame, constraint),
        Action::PushVlan(eth_type) => push_vlan(frame, *eth_type),
        Action::PopVlan => pop_vlan(frame),
        Action::PushMpls(eth_type) => push_mpls(frame, *eth_type),
        Action::PopMpls(eth_type) => pop_mpls(frame, *eth_type),
        Action::SetMplsTtl(ttl) => set_mpls_ttl(frame, *ttl),
        Action::DecMplsTtl => dec_mpls_ttl(frame),
        Action::SetNwTtl(ttl) => set_ttl(frame, *ttl),
        Action::DecNwTtl => dec_ttl(frame),
        Action::CopyTtlOut => copy_ttl_out(frame),
        Action::CopyTtlIn => copy_ttl_in(frame),
        Action::SetVlanVid(vid) => set_tag(frame, Field::VlanVid, VLAN_PRESENT | u128::from(*vid)),
        Action::SetVlanPcp(pcp) => set_tag(frame, Field::VlanPcp, u128::from(*pcp)),
        Action::SetTpSrc(port) => set_transport(frame, [Field::TcpSrc, Field::UdpSrc], *port),
        Action::SetTpDst(port) => set_transport(frame, [Field::TcpDst, Field::UdpDst], *port),
        Action::Output { .. }
        | Action::Enqueue { .. }
        | Action::Group(_)
        | Action::SetQueue(_)
        | Action::PushPbb(_)
        | Action::PopPbb
        | Action::Experimenter { .. }
        | Action::Unknown { .. } => return Applied::NoRewrite,
    };
    if result == Err(RewriteError::TtlExceeded) { Applied::Expired } else { Applied::Done }
}

/// Sets a part of the outermost VLAN tag, and pushes the tag where there is none (1.0 §5.2.4).
fn set_tag(frame: &mut Vec<u8>, field: Field, value: u128) -> Result<(), RewriteError> {
    // A frame that ends within its tag has no tag, as in Open vSwitch.
    let tag = Packet::with_wire_len(frame, 0, frame.len()).switch_value(Field::VlanVid);
    if tag.is_none_or(|vid| vid & VLAN_PRESENT == 0) {
        push_vlan(frame, eth_type::VLAN)?;
    }
    set_field(frame, &Constraint::exact(field, value))
}

/// Sets the port of the transport header, whichever it is. A frame without one stays unchanged.
fn set_transport(frame: &mut [u8], fields: [Field; 2], port: u16) -> Result<(), RewriteError> {
    let field = fields.into_iter().find(|field| Packet::new(frame, 0).get(*field).is_some());
    field.map_or(Ok(()), |field| set_field(frame, &Constraint::exact(field, u128::from(port))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Frame;

    fn udp() -> Vec<u8> {
        Frame::ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2])
            .ttl(2)
            .udp(1, 53)
            .payload(b"x")
    }

    #[test]
    fn setting_a_vlan_id_in_1_0_pushes_a_tag_once() {
        let mut frame = udp();
        apply(&Action::SetVlanVid(5), &mut frame);
        apply(&Action::SetVlanPcp(3), &mut frame);
        assert_eq!(frame.len(), udp().len() + 4);
        let packet = Packet::new(&frame, 0);
        assert_eq!((packet.get(Field::VlanVid), packet.get(Field::VlanPcp)), (Some(0x1005), Some(3)));
        apply(&Action::PopVlan, &mut frame);
        assert_eq!(frame, udp());
    }

    #[test]
    fn transport_ports_are_set_whatever_the_transport_and_absent_headers_are_left_alone() {
        let mut frame = udp();
        apply(&Action::SetTpDst(5353), &mut frame);
        assert_eq!(Packet::new(&frame, 0).get(Field::UdpDst), Some(5353));
        let before = frame.clone();
        apply(&Action::SetField(Constraint::exact(Field::TcpDst, 1)), &mut frame);
        assert_eq!(frame, before);
    }

    #[test]
    fn a_time_to_live_of_one_does_not_survive_a_decrement() {
        let mut frame = udp();
        assert_eq!(apply(&Action::DecNwTtl, &mut frame), Applied::Done);
        assert_eq!(apply(&Action::DecNwTtl, &mut frame), Applied::Expired);
    }
}
