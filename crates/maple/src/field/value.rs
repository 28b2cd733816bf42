//! The types of field values: numbers, addresses, ports.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use maple_core::network::Mac;
use maple_wire::PortNo;

pub(crate) mod sealed {
    /// Conversion between a value and its bits in a packet.
    pub trait Bits: Copy {
        fn to_bits(self) -> u128;
        fn from_bits(bits: u128) -> Self;
    }
}

use sealed::Bits;

/// The types of fields: `u8` to `u64`, [`Mac`], [`PortNo`], [`Ipv4Addr`] and [`Ipv6Addr`].
///
/// ```
/// use maple::field::{FieldValue, PacketField};
/// use maple::testing::{ask, tcp};
///
/// /// Whether a field has either value.
/// fn is_either<T: FieldValue>(field: PacketField<'_, T>, a: T, b: T) -> bool {
///     field == a || field == b
/// }
///
/// ask(&tcp(1024, 22), |pkt| assert!(is_either(pkt.tcp_dst(), 22, 23)));
/// ```
pub trait FieldValue: Bits + Eq + fmt::Display {}

/// Values with an order, so with ranges: numbers and IP addresses.
///
/// ```
/// use maple::field::{Ordered, PacketField};
/// use maple::testing::{ask, tcp};
///
/// fn is_outside<T: Ordered>(field: PacketField<'_, T>, low: T, high: T) -> bool {
///     field < low || field > high
/// }
///
/// ask(&tcp(1024, 22), |pkt| assert!(is_outside(pkt.tcp_dst(), 80, 443)));
/// ```
pub trait Ordered: FieldValue + Ord {}

/// Addresses, which have prefixes: [`Mac`], [`Ipv4Addr`], [`Ipv6Addr`].
///
/// ```
/// use maple::field::Prefix;
/// use maple::field::{Address, PacketField};
/// use maple::testing::{ask, tcp};
///
/// fn is_in_all<T: Address>(field: PacketField<'_, T>, prefixes: &[Prefix<T>]) -> bool {
///     prefixes.iter().all(|prefix| field.within(*prefix))
/// }
///
/// let prefixes = ["10.0.0.0/8".parse()?, "10.0.0.0/24".parse()?];
/// ask(&tcp(1024, 22), |pkt| assert!(is_in_all(pkt.ipv4_src(), &prefixes)));
/// # Ok::<(), maple::field::PrefixError>(())
/// ```
pub trait Address: FieldValue {
    /// The number of bits of an address.
    const BITS: u8;
    /// The prefix of all group addresses, as address and mask.
    #[doc(hidden)]
    const GROUPS: (u128, u128);
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Bits for $number {
            fn to_bits(self) -> u128 {
                self.into()
            }

            fn from_bits(bits: u128) -> $number {
                bits as $number
            }
        }

        impl FieldValue for $number {}
        impl Ordered for $number {})*
    };
}

numbers!(u8, u16, u32, u64);

macro_rules! addresses {
    ($($address:ty: $bits:literal, $groups:expr, $to:expr, $from:expr;)*) => {
        $(impl Bits for $address {
            fn to_bits(self) -> u128 {
                $to(self)
            }

            fn from_bits(bits: u128) -> $address {
                $from(bits)
            }
        }

        impl FieldValue for $address {}

        impl Address for $address {
            const BITS: u8 = $bits;
            const GROUPS: (u128, u128) = $groups;
        })*
    };
}

addresses! {
    Mac: 48, (1 << 40, 1 << 40), Mac::bits, Mac::from_bits;
    Ipv4Addr: 32, (0xe << 28, 0xf << 28), |ip| u32::from(ip).into(), |bits| Ipv4Addr::from(bits as u32);
    Ipv6Addr: 128, (0xff << 120, 0xff << 120), u128::from, Ipv6Addr::from;
}

impl Ordered for Ipv4Addr {}
impl Ordered for Ipv6Addr {}

impl Bits for PortNo {
    fn to_bits(self) -> u128 {
        self.0.into()
    }

    fn from_bits(bits: u128) -> PortNo {
        PortNo(bits as u32)
    }
}

impl FieldValue for PortNo {}
