//! Actions that change the frame.

use maple_wire::packet::rewrite::{self, RewriteError};
use maple_wire::{Action, Constraint, Field, Packet};

/// The result for the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on, changed or, where it lacks the header in question, as it was.
    Done,
    /// Its time to live ran out.
    Expired,
}

/// Does one action that changes the frame.
pub fn apply(action: &Action, frame: &mut Vec<u8>) -> Outcome {
    let result = match action {
        Action::SetField(constraint) => rewrite::set_field(frame, constraint),
        Action::PushVlan(eth_type) => rewrite::push_vlan(frame, *eth_type),
        Action::PopVlan => rewrite::pop_vlan(frame),
        Action::PushMpls(eth_type) => rewrite::push_mpls(frame, *eth_type),
        Action::PopMpls(eth_type) => rewrite::pop_mpls(frame, *eth_type),
        Action::SetMplsTtl(ttl) => rewrite::set_mpls_ttl(frame, *ttl),
        Action::DecMplsTtl => rewrite::dec_mpls_ttl(frame),
        Action::SetNwTtl(ttl) => rewrite::set_ttl(frame, *ttl),
        Action::DecNwTtl => rewrite::dec_ttl(frame),
        Action::CopyTtlOut => rewrite::copy_ttl_out(frame),
        Action::CopyTtlIn => rewrite::copy_ttl_in(frame),
        Action::SetVlanVid(vid) => set_tag(frame, Field::VlanVid, 0x1000 | u128::from(*vid)),
        Action::SetVlanPcp(pcp) => set_tag(frame, Field::VlanPcp, u128::from(*pcp)),
        Action::SetTpSrc(port) => set_transport(frame, [Field::TcpSrc, Field::UdpSrc], *port),
        Action::SetTpDst(port) => set_transport(frame, [Field::TcpDst, Field::UdpDst], *port),
        // These change no frame, or the checks let them into no table.
        Action::Output { .. }
        | Action::Enqueue { .. }
        | Action::Group(_)
        | Action::SetQueue(_)
        | Action::PushPbb(_)
        | Action::PopPbb
        | Action::Experimenter { .. }
        | Action::Unknown { .. } => Ok(()),
    };
    match result {
        Err(RewriteError::TtlExceeded) => Outcome::Expired,
        // A switch leaves a packet alone that lacks the header.
        Ok(()) | Err(_) => Outcome::Done,
    }
}

/// 1.0 sets a tag's parts, and pushes the tag where there is none.
fn set_tag(frame: &mut Vec<u8>, field: Field, value: u128) -> Result<(), RewriteError> {
    // As in Open vSwitch a frame that ends within its tag has none.
    let tag = Packet::with_wire_len(frame, 0, frame.len()).switch_value(Field::VlanVid);
    if tag.is_none_or(|vid| vid & 0x1000 == 0) {
        rewrite::push_vlan(frame, 0x8100)?;
    }
    rewrite::set_field(frame, &Constraint::exact(field, value))
}

/// 1.0 sets the port of whichever transport there is.
fn set_transport(frame: &mut [u8], fields: [Field; 2], port: u16) -> Result<(), RewriteError> {
    let field = fields.into_iter().find(|field| Packet::new(frame, 0).get(*field).is_some());
    match field {
        Some(field) => rewrite::set_field(frame, &Constraint::exact(field, u128::from(port))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maple_wire::packet::Frame;

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
        assert_eq!(apply(&Action::DecNwTtl, &mut frame), Outcome::Done);
        assert_eq!(apply(&Action::DecNwTtl, &mut frame), Outcome::Expired);
    }
}
