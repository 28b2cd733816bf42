//! Fields of the packet that is being decided, and what each question to them records.
//!
//! Naming a field records nothing; using it does. A *test* asks a yes/no question, and all packets with the same answer
//! can share a rule. A *read* returns the value, and each value gets its own rule.
//!
//! | question | recorded |
//! | --- | --- |
//! | `pkt.tcp_dst() == 22`, `!=` | a test of the value |
//! | `pkt.tcp_dst() < 1024`, `<=`, `>`, `>=` | a test of a range |
//! | [`in_range`](PacketField::in_range), [`within`](PacketField::within), [`matches`](PacketField::matches) | a test |
//! | [`is_one_of`](PacketField::is_one_of) | tests, until one fits |
//! | [`is_present`](PacketField::is_present), [`is_multicast`](PacketField::is_multicast) | a test |
//! | [`prefix`](PacketField::prefix) | a read of the leading bits |
//! | [`value`](PacketField::value), [`get`](PacketField::get) | a read |
//! | `pkt.eth_src() == pkt.eth_dst()` | two reads |
//!
//! For a packet without the field, `==`, `<` and the like are false, and `!=` is true.

mod prefix;
mod value;

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use maple_core::route::RewrittenField;
use maple_core::run::Observe as _;
use maple_core::{PacketHandle, Source};
use maple_wire::field::VLAN_PRESENT;

pub use prefix::{Prefix, PrefixError};
pub use value::{Address, FieldValue, Ordered};

/// A header field, by the name that OpenFlow gives it.
///
/// ```
/// use maple::field::Field;
///
/// assert_eq!((Field::TcpDst.name(), Field::TcpDst.full_mask()), ("tcp_dst", 0xffff));
/// ```
#[doc(inline)]
pub use maple_wire::Field;

/// A condition on the bits of one field.
///
/// ```
/// use maple::field::{Constraint, Field};
///
/// let ten = Constraint::masked(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000);
/// assert!(ten.holds(0x0a01_0203) && !ten.is_exact());
/// ```
#[doc(inline)]
pub use maple_wire::Constraint;

/// A condition on the value of one field: its least and greatest value.
///
/// ```
/// use maple::field::{Field, Range};
///
/// let low = Range { field: Field::TcpDst, lo: 1, hi: 1023 };
/// assert!(low.holds(22) && !low.holds(8080));
/// ```
#[doc(inline)]
pub use maple_core::trace::Range;

/// Conditions on a packet that must all hold.
///
/// ```
/// use maple::field::{Cond, Constraint, Field, Range};
///
/// let low_tcp_ports = Cond::default()
///     .and(Constraint::exact(Field::IpProto, 6))
///     .within(Range { field: Field::TcpDst, lo: 1, hi: 1023 });
/// assert_eq!(low_tcp_ports.to_string(), "ip_proto=6, tcp_dst=1..1023");
/// ```
#[doc(inline)]
pub use maple_core::trace::Cond;

/// A field of the packet that is being decided, with values of type `T`.
///
/// ```
/// use maple::testing::*;
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let policy = |pkt: &Packet, net: &Net| {
///     if pkt.tcp_dst() == 22 { Route::drop() } else { net.flood() }
/// };
/// let decision = bench.decide(&policy, &tcp(1024, 22), bench.port(1, 1));
/// assert_eq!(decision.trace(), ["test eth_type=0x800, ip_proto=6, tcp_dst=22: yes"]);
/// ```
#[must_use = "naming a field records nothing; ask it"]
pub struct PacketField<'p, T> {
    packet: &'p PacketHandle,
    field: Field,
    values: PhantomData<fn() -> T>,
}

impl<T> Clone for PacketField<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for PacketField<'_, T> {}

/// Prints the field's name. Records nothing.
impl<T> fmt::Debug for PacketField<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pkt.{}", self.field)
    }
}

impl<'p, T: FieldValue> PacketField<'p, T> {
    pub(crate) fn new(packet: &'p PacketHandle, field: Field) -> PacketField<'p, T> {
        PacketField { packet, field, values: PhantomData }
    }

    /// Returns which field this is. Records nothing.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// maple::testing::run(|pkt, _| assert_eq!(pkt.tcp_dst().field(), Field::TcpDst));
    /// ```
    #[must_use]
    pub fn field(self) -> Field {
        self.field
    }

    /// Returns the value, or `None` if the packet has no such field. A read.
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// let trace = ask(&tcp(1024, 22), |pkt| {
    ///     assert_eq!(pkt.tcp_dst().value(), Some(22));
    ///     assert_eq!(pkt.udp_dst().value(), None);
    /// });
    /// assert_eq!(trace, ["read eth_type=0x800", "read ip_proto=6", "read tcp_dst=22"]);
    /// ```
    #[track_caller]
    pub fn value(self) -> Option<T> {
        self.read(self.field.full_mask(), Source::here()).map(T::from_bits)
    }

    /// Returns the value. A read.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let trace = ask(&tcp(1024, 22), |pkt| {
    ///     assert_eq!(pkt.eth_src().get(), "00:00:00:00:00:01".parse::<Mac>().unwrap());
    /// });
    /// assert_eq!(trace, ["read eth_src=00:00:00:00:00:01"]);
    /// ```
    ///
    /// # Panics
    /// If the packet has no such field. In a policy that is an error of this packet. `eth_src`, `eth_dst`, `eth_type`
    /// and `in_port` are always present.
    #[track_caller]
    #[must_use]
    pub fn get(self) -> T {
        self.value().unwrap_or_else(|| panic!("this packet has no {}", self.field))
    }

    /// Reports whether the packet has the field. A test.
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// let trace = ask(&tcp(1024, 22), |pkt| assert!(pkt.ip_proto().is_present()));
    /// assert_eq!(trace, ["test eth_type=0x800: yes"]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn is_present(self) -> bool {
        self.present(Source::here())
    }

    /// Reports whether the field has one of these values. Each value is a test, until one holds.
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// let trace = ask(&tcp(1024, 80), |pkt| assert!(pkt.tcp_dst().is_one_of([22, 80, 443])));
    /// assert_eq!(trace[0], "test eth_type=0x800, ip_proto=6, tcp_dst=22: no");
    /// assert_eq!(trace.last().unwrap(), "test eth_type=0x800, ip_proto=6, tcp_dst=80: yes");
    /// ```
    ///
    /// # Panics
    /// If the field cannot have one of these values, such as 4096 for `vlan_vid`.
    #[track_caller]
    pub fn is_one_of(self, values: impl IntoIterator<Item = T>) -> bool {
        let source = Source::here();
        values.into_iter().any(|value| self.equals(value.to_bits(), largest(self.field), source.clone()))
    }

    /// Reports whether the field has `value` in the bits of `mask`. A test.
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// let trace = ask(&tcp(1024, 80), |pkt| assert!(pkt.tcp_dst().matches(0, 1)));
    /// assert_eq!(trace, ["test eth_type=0x800, ip_proto=6, tcp_dst=0/0x1: yes"]);
    /// ```
    ///
    /// # Panics
    /// If the value has bits outside the mask, or the field lacks bits of the mask.
    #[track_caller]
    pub fn matches(self, value: T, mask: T) -> bool {
        let (value_bits, mask) = (value.to_bits(), mask.to_bits());
        assert!(value_bits & !mask == 0, "{}: the value has bits set outside the mask", self.field);
        assert!(mask & !largest(self.field) == 0, "{} has no such bits as the mask", self.field);
        if mask == 0 { self.present(Source::here()) } else { self.equals(value_bits, mask, Source::here()) }
    }

    fn read(self, mask: u128, source: Source) -> Option<u128> {
        let value = self.packet.read(self.field, mask, Some(source))?;
        match self.field {
            Field::VlanVid => (value & VLAN_PRESENT != 0).then_some(value & !VLAN_PRESENT),
            _ => Some(value),
        }
    }

    fn present(self, source: Source) -> bool {
        match self.field {
            Field::VlanVid => self.packet.equals(self.field, VLAN_PRESENT, VLAN_PRESENT, Some(source)),
            field => self.packet.present(field, Some(source)),
        }
    }

    #[track_caller]
    fn equals(self, value: u128, mask: u128, source: Source) -> bool {
        let (field, most) = (self.field, largest(self.field));
        assert!(value <= most, "{field} is 0 to {most}; it can't be {value}");
        self.packet.equals(field, raw(field, value), raw(field, mask), Some(source))
    }
}

impl<T: Ordered> PacketField<'_, T> {
    /// Reports whether the field is in a range. A test. An empty range contains no value and records nothing.
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// let trace = ask(&tcp(1024, 80), |pkt| assert!(pkt.tcp_dst().in_range(1..=1023)));
    /// assert_eq!(trace, ["test eth_type=0x800, ip_proto=6, tcp_dst=1..1023: yes"]);
    /// ```
    #[track_caller]
    pub fn in_range(self, range: impl RangeBounds<T>) -> bool {
        let lo = match range.start_bound() {
            Bound::Included(lo) => Some(lo.to_bits()),
            Bound::Excluded(lo) => lo.to_bits().checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let hi = match range.end_bound() {
            Bound::Included(hi) => Some(hi.to_bits()),
            Bound::Excluded(hi) => hi.to_bits().checked_sub(1),
            Bound::Unbounded => Some(u128::MAX),
        };
        self.between(lo, hi, Source::here())
    }

    /// Reports whether the field is from `lo` to `hi`, both included. Without one of them the range is empty.
    fn between(self, lo: Option<u128>, hi: Option<u128>, source: Source) -> bool {
        let (field, most) = (self.field, largest(self.field));
        let (Some(lo), Some(hi)) = (lo, hi.map(|hi| hi.min(most))) else { return false };
        if lo > hi {
            return false;
        }
        if (lo, hi) == (0, most) {
            return self.present(source);
        }
        self.packet.in_range(field, raw(field, lo), raw(field, hi), Some(source))
    }
}

impl<T: Address> PacketField<'_, T> {
    /// Reports whether the address is in a prefix: a [`Prefix`], or text such as `"10.0.0.0/8"`. A test.
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// let trace = ask(&tcp(1024, 80), |pkt| assert!(pkt.ipv4_src().within("10.0.0.0/8")));
    /// assert_eq!(trace, ["test eth_type=0x800, ipv4_src=10.0.0.0/8: yes"]);
    /// ```
    ///
    /// # Panics
    /// If the text is not a prefix. In a policy that is an error of this packet.
    #[track_caller]
    pub fn within<P: TryInto<Prefix<T>, Error: fmt::Display>>(self, prefix: P) -> bool {
        let prefix: Prefix<T> = prefix.try_into().unwrap_or_else(|error| panic!("{}: {error}", self.field));
        match prefix.mask() {
            0 => self.present(Source::here()),
            mask => self.equals(prefix.address().to_bits(), mask, Source::here()),
        }
    }

    /// Returns the first `length` bits of the address, or `None` if the packet has no such field. A read of these bits.
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// let trace = ask(&tcp(1024, 80), |pkt| {
    ///     assert_eq!(pkt.ipv4_src().prefix(24).unwrap().to_string(), "10.0.0.0/24");
    /// });
    /// assert_eq!(trace, ["read eth_type=0x800", "read ipv4_src=10.0.0.0/24"]);
    /// ```
    ///
    /// # Panics
    /// If addresses of this type have fewer bits.
    #[track_caller]
    #[must_use]
    pub fn prefix(self, length: u8) -> Option<Prefix<T>> {
        let whole = Prefix::of_length(length);
        let bits = match whole.mask() {
            0 => self.present(Source::here()).then_some(0),
            mask => self.read(mask, Source::here()),
        };
        bits.map(|bits| whole.at(T::from_bits(bits)))
    }

    /// Reports whether the address is a group address, such as the broadcast address. A test.
    ///
    /// ```
    /// # use maple::testing::{ask, tcp};
    /// let trace = ask(&tcp(1024, 80), |pkt| assert!(!pkt.eth_dst().is_multicast()));
    /// assert_eq!(trace, ["test eth_dst=01:00:00:00:00:00/01:00:00:00:00:00: no"]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn is_multicast(self) -> bool {
        let (value, mask) = T::GROUPS;
        self.equals(value, mask, Source::here())
    }
}

#[allow(clippy::partialeq_ne_impl, reason = "the trait's own does not hand on the caller's line")]
impl<T: FieldValue> PartialEq<T> for PacketField<'_, T> {
    /// Compares in one test.
    ///
    /// # Panics
    /// If the field cannot have this value, such as 4096 for `vlan_vid`.
    #[track_caller]
    fn eq(&self, value: &T) -> bool {
        self.equals(value.to_bits(), largest(self.field), Source::here())
    }

    #[track_caller]
    fn ne(&self, value: &T) -> bool {
        !self.equals(value.to_bits(), largest(self.field), Source::here())
    }
}

impl<T: Ordered> PartialOrd<T> for PacketField<'_, T> {
    /// Compares by a read.
    #[track_caller]
    fn partial_cmp(&self, value: &T) -> Option<Ordering> {
        self.value().map(|mine| mine.cmp(value))
    }

    #[track_caller]
    fn lt(&self, value: &T) -> bool {
        self.between(Some(0), value.to_bits().checked_sub(1), Source::here())
    }

    #[track_caller]
    fn le(&self, value: &T) -> bool {
        self.between(Some(0), Some(value.to_bits()), Source::here())
    }

    #[track_caller]
    fn gt(&self, value: &T) -> bool {
        self.between(value.to_bits().checked_add(1), Some(u128::MAX), Source::here())
    }

    #[track_caller]
    fn ge(&self, value: &T) -> bool {
        self.between(Some(value.to_bits()), Some(u128::MAX), Source::here())
    }
}

#[allow(clippy::partialeq_ne_impl, reason = "the trait's own does not hand on the caller's line")]
impl<T: FieldValue> PartialEq<PacketField<'_, T>> for PacketField<'_, T> {
    /// Compares in two reads. The answer is false if either field is absent.
    #[track_caller]
    fn eq(&self, other: &PacketField<'_, T>) -> bool {
        let (mine, theirs) = (self.value(), other.value());
        mine.is_some() && mine == theirs
    }

    #[track_caller]
    fn ne(&self, other: &PacketField<'_, T>) -> bool {
        !self.eq(other)
    }
}

/// [`Route::set`](crate::Route::set) rewrites the field. Records nothing.
impl<T: FieldValue> RewrittenField for PacketField<'_, T> {
    type Value = T;

    fn with_bits(self, value: T) -> (Field, u128) {
        (self.field, value.to_bits())
    }
}

/// Returns the largest value that a policy can see in `field`.
fn largest(field: Field) -> u128 {
    match field {
        Field::VlanVid => VLAN_PRESENT - 1,
        _ => field.full_mask(),
    }
}

/// Returns the engine's form of a policy's value: `vlan_vid` gets its tag bit.
fn raw(field: Field, value: u128) -> u128 {
    match field {
        Field::VlanVid => value | VLAN_PRESENT,
        _ => value,
    }
}

#[cfg(test)]
mod tests;
