//! The numbers by which a header names what follows it, each in two widths: as it lies in a frame, and as the value of
//! its field.

macro_rules! numbers {
    ($(#[$about:meta])* $list:ident: $type:ty { $($(#[$doc:meta])* $name:ident = $number:literal,)* }) => {
        $(#[$about])*
        pub mod $list {
            $($(#[$doc])* pub const $name: $type = $number;)*

            /// These numbers as values of the field.
            pub mod value {
                $($(#[$doc])* pub const $name: u128 = $number;)*
            }
        }
    };
}

numbers! {
    /// Ethernet types ([`Field::EthType`](crate::Field::EthType)).
    eth_type: u16 {
        /// IPv4.
        IPV4 = 0x0800,
        /// ARP.
        ARP = 0x0806,
        /// Reverse ARP.
        RARP = 0x8035,
        /// 802.1Q customer tag.
        VLAN = 0x8100,
        /// IPv6.
        IPV6 = 0x86dd,
        /// MPLS unicast.
        MPLS = 0x8847,
        /// MPLS with upstream-assigned label (once "multicast").
        MPLS_MULTICAST = 0x8848,
        /// 802.1ad service tag.
        QINQ = 0x88a8,
        /// LLDP.
        LLDP = 0x88cc,
        /// 802.1ah backbone service tag.
        PBB = 0x88e7,
        /// The broadcasts by which controllers find links over other people's bridges (ONOS, Floodlight and Maple).
        BDDP = 0x8942,
    }
}

numbers! {
    /// IP protocols ([`Field::IpProto`](crate::Field::IpProto)).
    ip_proto: u8 {
        /// ICMP for IPv4.
        ICMP = 1,
        /// IGMP.
        IGMP = 2,
        /// TCP.
        TCP = 6,
        /// UDP.
        UDP = 17,
        /// IPv6's fragment header, which is all that switches show of a later fragment.
        IPV6_FRAGMENT = 44,
        /// ICMPv6.
        ICMPV6 = 58,
        /// SCTP.
        SCTP = 132,
    }
}

numbers! {
    /// Types of ICMPv6 messages ([`Field::Icmpv6Type`](crate::Field::Icmpv6Type)).
    icmpv6_type: u8 {
        /// Router solicitation.
        ROUTER_SOLICIT = 133,
        /// Router advertisement.
        ROUTER_ADVERT = 134,
        /// Neighbour solicitation.
        NEIGHBOR_SOLICIT = 135,
        /// Neighbour advertisement.
        NEIGHBOR_ADVERT = 136,
    }
}
