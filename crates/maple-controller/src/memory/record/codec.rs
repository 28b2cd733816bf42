//! The encoding of values in a recording: numbers in 7 bits a byte, lengths before contents, a number before each
//! variant.
//!
//! Reading checks everything. A length never makes the reader reserve more memory than there are bytes, and values
//! within values are limited in depth.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The deepest nesting of values within values.
const MAX_DEPTH: usize = 128;

/// The error for bytes that are not a recording's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damaged(pub &'static str);

/// A value that a recording can hold.
pub(crate) trait Codec: Sized {
    fn put(&self, out: &mut Vec<u8>);

    fn take(from: &mut Reader<'_>) -> Result<Self, Damaged>;
}

/// Bytes that are read from the front.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    depth: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, depth: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(Damaged("it ends within a value"))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Result<u8, Damaged> {
        Ok(self.bytes(1)?[0])
    }

    pub fn number(&mut self) -> Result<u128, Damaged> {
        let mut number = 0;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            number |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Damaged("a number is too long"))
    }

    /// Reads the number of items that follow, each of at least one byte.
    pub fn length(&mut self) -> Result<usize, Damaged> {
        let length = usize::try_from(self.number()?).ok().filter(|length| *length <= self.bytes.len());
        length.ok_or(Damaged("a length is beyond the end"))
    }

    /// Reads bytes with their length before them.
    pub fn sized(&mut self) -> Result<&'a [u8], Damaged> {
        let length = self.length()?;
        self.bytes(length)
    }

    /// Reads a value that may contain others of its kind.
    pub fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Damaged>) -> Result<T, Damaged> {
        if self.depth == MAX_DEPTH {
            return Err(Damaged("values are nested too deeply"));
        }
        self.depth += 1;
        let done = read(self);
        self.depth -= 1;
        done
    }
}

pub(crate) fn put_number(mut number: u128, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn put_sized(bytes: &[u8], out: &mut Vec<u8>) {
    put_number(bytes.len() as u128, out);
    out.extend_from_slice(bytes);
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Codec for $type {
            fn put(&self, out: &mut Vec<u8>) {
                put_number(*self as u128, out);
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                <$type>::try_from(from.number()?).map_err(|_| Damaged("a number is too large"))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128, usize);

impl Codec for i128 {
    fn put(&self, out: &mut Vec<u8>) {
        put_number((*self as u128) << 1 ^ (*self >> 127) as u128, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<i128, Damaged> {
        let number = from.number()?;
        Ok((number >> 1) as i128 ^ -((number & 1) as i128))
    }
}

impl Codec for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<bool, Damaged> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damaged("a truth value is neither 0 nor 1")),
        }
    }
}

impl Codec for () {
    fn put(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut Reader<'_>) -> Result<(), Damaged> {
        Ok(())
    }
}

impl Codec for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_sized(self.as_bytes(), out);
    }

    fn take(from: &mut Reader<'_>) -> Result<String, Damaged> {
        String::from_utf8(from.sized()?.to_vec()).map_err(|_| Damaged("a text is not UTF-8"))
    }
}

impl Codec for Arc<str> {
    fn put(&self, out: &mut Vec<u8>) {
        put_sized(self.as_bytes(), out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Arc<str>, Damaged> {
        String::take(from).map(Arc::from)
    }
}

impl<const N: usize> Codec for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(from: &mut Reader<'_>) -> Result<[u8; N], Damaged> {
        from.bytes(N)?.try_into().map_err(|_| Damaged("it ends within a value"))
    }
}

impl Codec for Duration {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(self.as_nanos(), out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Duration, Damaged> {
        u64::take(from).map(Duration::from_nanos)
    }
}

impl Codec for SystemTime {
    fn put(&self, out: &mut Vec<u8>) {
        self.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<SystemTime, Damaged> {
        let since = Duration::take(from)?;
        SystemTime::UNIX_EPOCH.checked_add(since).ok_or(Damaged("a time is too large"))
    }
}

impl Codec for NonZeroU32 {
    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<NonZeroU32, Damaged> {
        NonZeroU32::new(u32::take(from)?).ok_or(Damaged("a number is 0"))
    }
}

impl Codec for Ipv4Addr {
    fn put(&self, out: &mut Vec<u8>) {
        self.octets().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Ipv4Addr, Damaged> {
        <[u8; 4]>::take(from).map(Ipv4Addr::from)
    }
}

impl Codec for Ipv6Addr {
    fn put(&self, out: &mut Vec<u8>) {
        self.octets().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Ipv6Addr, Damaged> {
        <[u8; 16]>::take(from).map(Ipv6Addr::from)
    }
}

impl<T: Codec> Codec for RangeInclusive<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.start().put(out);
        self.end().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<RangeInclusive<T>, Damaged> {
        Ok(T::take(from)?..=T::take(from)?)
    }
}

impl<T: Codec> Codec for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Option<T>, Damaged> {
        bool::take(from)?.then(|| T::take(from)).transpose()
    }
}

/// Writes the number of values, and then each.
fn put_all<'a, T: Codec + 'a>(all: impl ExactSizeIterator<Item = &'a T>, out: &mut Vec<u8>) {
    put_number(all.len() as u128, out);
    all.for_each(|one| one.put(out));
}

fn take_all<T: Codec, C: FromIterator<T>>(from: &mut Reader<'_>) -> Result<C, Damaged> {
    (0..from.length()?).map(|_| T::take(from)).collect()
}

impl<T: Codec> Codec for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_all(self.iter(), out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Vec<T>, Damaged> {
        take_all(from)
    }
}

impl<T: Codec> Codec for Box<[T]> {
    fn put(&self, out: &mut Vec<u8>) {
        put_all(self.iter(), out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Box<[T]>, Damaged> {
        take_all(from)
    }
}

impl<T: Codec> Codec for Arc<[T]> {
    fn put(&self, out: &mut Vec<u8>) {
        put_all(self.iter(), out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Arc<[T]>, Damaged> {
        take_all(from)
    }
}

impl<T: Codec + Ord> Codec for BTreeSet<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_all(self.iter(), out);
    }

    fn take(from: &mut Reader<'_>) -> Result<BTreeSet<T>, Damaged> {
        take_all(from)
    }
}

impl<K: Codec + Ord, V: Codec> Codec for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(self.len() as u128, out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<BTreeMap<K, V>, Damaged> {
        take_all(from)
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*)),*) => {$(
        impl<$($name: Codec),*> Codec for ($($name,)*) {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$index.put(out);)*
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                Ok(($($name::take(from)?,)*))
            }
        }
    )*};
}

tuples!((A 0, B 1), (A 0, B 1, C 2));

impl Codec for IpAddr {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            IpAddr::V4(ip) => (4u8, *ip).put(out),
            IpAddr::V6(ip) => (6u8, *ip).put(out),
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<IpAddr, Damaged> {
        match from.byte()? {
            4 => Ipv4Addr::take(from).map(IpAddr::V4),
            6 => Ipv6Addr::take(from).map(IpAddr::V6),
            _ => Err(Damaged("an IP address has no such version")),
        }
    }
}

/// Encodes a struct as its fields in this order.
macro_rules! codec_struct {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl $crate::memory::record::codec::Codec for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let $type { $($field),* } = self;
                $($field.put(out);)*
            }

            fn take(
                from: &mut $crate::memory::record::codec::Reader<'_>,
            ) -> Result<Self, $crate::memory::record::codec::Damaged> {
                $(let $field = $crate::memory::record::codec::Codec::take(from)?;)*
                Ok($type { $($field),* })
            }
        }
    };
}

/// Encodes an enum as the number of the variant, and its fields.
macro_rules! codec_enum {
    ($type:ident { $($tag:literal => $variant:ident $({ $($field:ident),* })? $(( $($item:ident),* ))?),* $(,)? }) => {
        impl $crate::memory::record::codec::Codec for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($type::$variant $({ $($field),* })? $(( $($item),* ))? => {
                        out.push($tag);
                        $($($field.put(out);)*)?
                        $($($item.put(out);)*)?
                    })*
                }
            }

            fn take(
                from: &mut $crate::memory::record::codec::Reader<'_>,
            ) -> Result<Self, $crate::memory::record::codec::Damaged> {
                let tag = from.byte()?;
                from.nested(|from| {
                    // A variant without fields reads nothing.
                    let _ = &from;
                    Ok(match tag {
                        $($tag => {
                            $($(let $field = $crate::memory::record::codec::Codec::take(from)?;)*)?
                            $($(let $item = $crate::memory::record::codec::Codec::take(from)?;)*)?
                            $type::$variant $({ $($field),* })? $(( $($item),* ))?
                        })*
                        _ => return Err($crate::memory::record::codec::Damaged(
                            concat!("there is no such variant of ", stringify!($type)),
                        )),
                    })
                })
            }
        }
    };
}

pub(crate) use {codec_enum, codec_struct};

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Codec + PartialEq + std::fmt::Debug>(value: T) {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(T::take(&mut reader).as_ref(), Ok(&value));
        assert!(reader.is_empty());
        for end in 0..bytes.len() {
            assert!(T::take(&mut Reader::new(&bytes[..end])).is_err(), "{value:?} has no shorter form");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        [0, 1, 127, 128, u64::MAX].into_iter().for_each(check::<u64>);
        [0, -1, 1, i128::MIN, i128::MAX].into_iter().for_each(check::<i128>);
        check(u128::MAX);
        check((true, Some(7u8), String::from("text")));
        check(vec![BTreeMap::from([(1u8, IpAddr::from([10, 0, 0, 1]))])]);
        check(Duration::from_millis(1500));
        check(Ipv6Addr::LOCALHOST);
    }

    #[test]
    fn a_length_beyond_the_end_reserves_no_memory() {
        let mut bytes = Vec::new();
        put_number(u128::from(u64::MAX), &mut bytes);
        assert_eq!(<Vec<u64>>::take(&mut Reader::new(&bytes)), Err(Damaged("a length is beyond the end")));
    }
}
