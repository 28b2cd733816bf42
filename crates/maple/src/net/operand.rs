//! Addresses as arguments of questions about the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use maple_core::network::Mac;
use maple_core::snooping::MulticastGroup;
use maple_wire::Field;

use crate::field::{FieldValue, PacketField};

/// An address as an argument of [`Net`](crate::Net): the address itself, or a field of the packet, which is then read.
///
/// ```
/// use maple::testing::*;
/// use maple::net::Operand;
///
/// /// Whether two hosts are at one switch.
/// fn are_near(net: &Net, a: impl Operand<Mac>, b: impl Operand<Mac>) -> bool {
///     let (a, b) = (net.locate(a), net.locate(b));
///     a.is_some() && a.map(|at| at.switch()) == b.map(|at| at.switch())
/// }
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let (a, b) = (bench.port(1, 1), bench.port(1, 2));
/// let bench = bench.host("00:00:00:00:00:01", a).host("00:00:00:00:00:02", b);
/// bench.run(|pkt, net| assert!(are_near(net, pkt.eth_src(), Mac([0, 0, 0, 0, 0, 2]))));
/// ```
pub trait Operand<T> {
    /// Returns the address, or `None` if it is a field that the packet does not have.
    ///
    /// ```
    /// # use maple::net::Mac;
    /// use maple::net::Operand as _;
    ///
    /// let mac: Option<Mac> = Mac([2, 0, 0, 0, 0, 1]).operand();
    /// assert!(mac.is_some());
    /// # maple::testing::run(|pkt, _| {
    /// let mac: Option<Mac> = pkt.arp_sha().operand();
    /// assert!(mac.is_none());
    /// # });
    /// ```
    fn operand(self) -> Option<T>;

    /// Returns the field, if it is one. Then a switch may look up what [`Net`](crate::Net) says of its value, and the
    /// value is not read.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// use maple::net::Operand;
    ///
    /// # maple::testing::run(|pkt, _| {
    /// assert_eq!(Operand::<Mac>::as_field(&pkt.eth_dst()), Some(Field::EthDst));
    /// assert_eq!(Operand::<Mac>::as_field(&Mac([2, 0, 0, 0, 0, 1])), None);
    /// # });
    /// ```
    fn as_field(&self) -> Option<Field> {
        None
    }
}

impl<T: FieldValue> Operand<T> for T {
    fn operand(self) -> Option<T> {
        Some(self)
    }
}

impl<T: FieldValue> Operand<T> for PacketField<'_, T> {
    #[track_caller]
    fn operand(self) -> Option<T> {
        self.value()
    }

    fn as_field(&self) -> Option<Field> {
        Some(self.field())
    }
}

macro_rules! operands {
    ($($wanted:ty: $($given:ty),*;)*) => {
        $($(impl Operand<$wanted> for $given {
            fn operand(self) -> Option<$wanted> {
                Some(self.into())
            }
        }

        impl Operand<$wanted> for PacketField<'_, $given> {
            #[track_caller]
            fn operand(self) -> Option<$wanted> {
                self.value().map(Into::into)
            }

            fn as_field(&self) -> Option<Field> {
                Some(self.field())
            }
        })*)*
    };
}

operands! {
    IpAddr: Ipv4Addr, Ipv6Addr;
    MulticastGroup: Ipv4Addr, Ipv6Addr, Mac;
}

impl Operand<IpAddr> for IpAddr {
    fn operand(self) -> Option<IpAddr> {
        Some(self)
    }
}

impl Operand<MulticastGroup> for MulticastGroup {
    fn operand(self) -> Option<MulticastGroup> {
        Some(self)
    }
}

impl Operand<MulticastGroup> for IpAddr {
    fn operand(self) -> Option<MulticastGroup> {
        Some(self.into())
    }
}
