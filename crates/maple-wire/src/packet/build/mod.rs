//! Builders for frames: each layer's methods lead to the next layer, and the last method returns the bytes.
//!
//! ```
//! use maple_wire::packet::Frame;
//!
//! let (alice, bob) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
//! let frame = Frame::ethernet(bob, alice).vlan(5).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(1234, 80).payload(b"hi");
//! assert_eq!(frame.len(), 14 + 4 + 20 + 20 + 2);
//! ```
//! Sources come before destinations, except in [`Frame::ethernet`], which has them in the order of the wire. Lengths
//! and checksums are filled in at the end.

mod from_fields;
mod ip;

use std::net::{Ipv4Addr, Ipv6Addr};

use super::ethernet;
use super::mpls::Entry;
use super::{arp, lldp};
use crate::{eth_type, icmpv6_type};

pub use from_fields::frame_of;
pub use ip::{IpFrame, TransportFrame};

/// The address of all hosts.
pub const BROADCAST: [u8; 6] = [0xff; 6];

/// The default time to live.
const TTL: u8 = 64;

/// A frame with the beginning of its link layer.
#[derive(Clone, Debug)]
pub struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    /// Starts a frame with these addresses.
    pub fn ethernet(dst: [u8; 6], src: [u8; 6]) -> Frame {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&dst);
        bytes.extend_from_slice(&src);
        Frame { bytes }
    }

    /// Adds an 802.1Q tag with priority 0, after the existing tags.
    pub fn vlan(self, vid: u16) -> Frame {
        self.tag(eth_type::VLAN, vid, 0)
    }

    /// Adds an 802.1ad service tag with priority 0.
    pub fn service_vlan(self, vid: u16) -> Frame {
        self.tag(eth_type::QINQ, vid, 0)
    }

    /// Adds a tag of type `tpid`, with VLAN id (12 bits) and priority (3 bits).
    pub fn tag(mut self, tpid: u16, vid: u16, pcp: u8) -> Frame {
        self.put(&tpid.to_be_bytes());
        self.put(&(u16::from(pcp & 7) << 13 | vid & 0xfff).to_be_bytes());
        self
    }

    /// Returns MPLS unicast with these labels, the outermost first, traffic class 0 and time to live 64, over
    /// `payload`.
    pub fn mpls(mut self, labels: &[u32], payload: &[u8]) -> Vec<u8> {
        self.put(&eth_type::MPLS.to_be_bytes());
        for (i, label) in labels.iter().enumerate() {
            let entry = Entry { label: label & 0xf_ffff, tc: 0, bottom: i + 1 == labels.len(), ttl: TTL };
            self.put(&entry.to_bits().to_be_bytes());
        }
        self.put(payload);
        self.bytes
    }

    /// Returns a frame of any Ethernet type with this payload.
    pub fn raw(mut self, eth_type: u16, payload: &[u8]) -> Vec<u8> {
        self.put(&eth_type.to_be_bytes());
        self.put(payload);
        self.bytes
    }

    /// Returns the request "Who has `target`? Tell `sender`", from the frame's source.
    pub fn arp_request(self, sender: impl Into<Ipv4Addr>, target: impl Into<Ipv4Addr>) -> Vec<u8> {
        let sha = self.src();
        self.arp(arp::REQUEST, sha, sender.into(), [0; 6], target.into())
    }

    /// Returns the answer "`sender` is at this frame's source", to the frame's destination, which has address `target`.
    pub fn arp_reply(self, sender: impl Into<Ipv4Addr>, target: impl Into<Ipv4Addr>) -> Vec<u8> {
        let (sha, tha) = (self.src(), self.dst());
        self.arp(arp::REPLY, sha, sender.into(), tha, target.into())
    }

    /// Returns an ARP message with all its fields.
    pub fn arp(mut self, op: u16, sha: [u8; 6], spa: Ipv4Addr, tha: [u8; 6], tpa: Ipv4Addr) -> Vec<u8> {
        self.put(&eth_type::ARP.to_be_bytes());
        self.put(&arp::PREAMBLE);
        self.put(&op.to_be_bytes());
        self.put(&sha);
        self.put(&spa.octets());
        self.put(&tha);
        self.put(&tpa.octets());
        self.bytes
    }

    /// Returns an LLDP message of these entries. The end entry is added.
    ///
    /// # Panics
    /// If an entry is longer than [`lldp::MAX_VALUE`].
    pub fn lldp(mut self, tlvs: &[lldp::Tlv]) -> Vec<u8> {
        self.put(&eth_type::LLDP.to_be_bytes());
        lldp::emit(tlvs, &mut self.bytes);
        self.bytes
    }

    /// Adds an IPv4 header: time to live 64, no options, no fragment.
    pub fn ipv4(mut self, src: impl Into<Ipv4Addr>, dst: impl Into<Ipv4Addr>) -> IpFrame {
        self.put(&eth_type::IPV4.to_be_bytes());
        IpFrame::v4(self.bytes, src.into(), dst.into())
    }

    /// Adds an IPv6 header: hop limit 64, flow label 0.
    pub fn ipv6(mut self, src: impl Into<Ipv6Addr>, dst: impl Into<Ipv6Addr>) -> IpFrame {
        self.put(&eth_type::IPV6.to_be_bytes());
        IpFrame::v6(self.bytes, src.into(), dst.into())
    }

    /// Returns a neighbour solicitation for `target` from `sender`, to the target's solicited-node address.
    pub fn neighbor_solicit(self, sender: impl Into<Ipv6Addr>, target: impl Into<Ipv6Addr>) -> Vec<u8> {
        let (sll, target) = (self.src(), target.into());
        self.ipv6(sender, solicited_node(target)).ttl(255).discovery(icmpv6_type::NEIGHBOR_SOLICIT, 0, target, sll)
    }

    /// Returns a solicited neighbour advertisement to `receiver`: `target` is at this frame's source.
    pub fn neighbor_advert(self, target: impl Into<Ipv6Addr>, receiver: impl Into<Ipv6Addr>) -> Vec<u8> {
        let (tll, target) = (self.src(), target.into());
        self.ipv6(target, receiver).ttl(255).discovery(icmpv6_type::NEIGHBOR_ADVERT, 0x60, target, tll)
    }

    fn dst(&self) -> [u8; 6] {
        std::array::from_fn(|i| self.bytes[i])
    }

    fn src(&self) -> [u8; 6] {
        std::array::from_fn(|i| self.bytes[6 + i])
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

/// Returns the multicast address of neighbour solicitations for `target` (RFC 4291 §2.7.1).
pub fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let low = u128::from(target) & 0xff_ffff;
    Ipv6Addr::from(0xff02_0000_0000_0000_0000_0001_ff00_0000 | low)
}

/// Returns the Ethernet address of an IPv6 multicast group (RFC 2464 §7).
pub fn multicast_mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// Returns an 802.3 frame with LLC and SNAP, for tests and unusual devices: `payload` after `eth_type`.
pub fn snap(dst: [u8; 6], src: [u8; 6], eth_type: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let frame = Frame::ethernet(dst, src);
    debug_assert!(len < ethernet::TYPE_MIN);
    frame.raw(len, &[&[0xaa, 0xaa, 3, 0, 0, 0], &eth_type.to_be_bytes()[..], payload].concat())
}
