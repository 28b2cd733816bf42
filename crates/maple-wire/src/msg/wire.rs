//! The layout of values in bytes: [`Wire`] for types with one form, [`Codec`] for fields with a form of their own, and
//! [`layout!`], which makes a structure and its form from one list of fields.
//!
//! Each file of a message has the structure, its form and tests with real bytes, in this order. Where a message is a
//! sequence of fields, `layout!` makes structure and form:
//!
//! ```text
//! layout! {
//!     /// Configures a table.
//!     pub struct TableMod {
//!         /// The table; 0xff means all.
//!         pub table_id: u8 as Padded<3>,
//!         /// Bits of `OFPTC_*`.
//!         pub config: u32,
//!     }
//! }
//! ```
//!
//! Where the versions order fields differently, or a field decides about others, the form is an `impl Wire`. A
//! structure takes all that it can read, and who asked for it checks that nothing remains ([`Reader::end`]).

use super::Version;
use super::bytes::{Element, Put, Reader, unsupported};
use super::text::Text;
use crate::Dpid;
use crate::error::Result;
use crate::port::PortNo;

/// A value with one form in each version.
pub(crate) trait Wire: Sized {
    /// The minimum number of bytes that a value takes, in 1.0 and in 1.3.
    const MIN: [usize; 2] = [0; 2];
    /// Whether each value takes just these.
    const FIXED: bool = false;
    /// The way in which values lie in a list, if they carry their own lengths there. If they do not, they lie one after
    /// the other.
    const ELEMENT: Option<Element> = None;

    /// Reads a value.
    fn read(reader: &mut Reader<'_>) -> Result<Self>;
    /// Appends the value.
    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()>;
}

/// A form of values of type `T`.
pub(crate) trait Codec<T> {
    /// The minimum number of bytes that a value takes, in 1.0 and in 1.3.
    const MIN: [usize; 2];
    /// Whether each value takes just these.
    const FIXED: bool;

    /// Reads a value.
    fn read(reader: &mut Reader<'_>) -> Result<T>;
    /// Appends a value.
    fn write(value: &T, version: Version, out: &mut Vec<u8>) -> Result<()>;
}

/// The form that the value's own type has.
pub(crate) struct Plain;

impl<T: Wire> Codec<T> for Plain {
    const MIN: [usize; 2] = T::MIN;
    const FIXED: bool = T::FIXED;

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<T> {
        T::read(reader)
    }

    #[inline]
    fn write(value: &T, version: Version, out: &mut Vec<u8>) -> Result<()> {
        value.write(version, out)
    }
}

/// A value with `A` zero bytes after it in 1.0, and `B` in 1.3.
pub(crate) struct Padded<const A: usize, const B: usize = A>;

impl<T: Wire, const A: usize, const B: usize> Codec<T> for Padded<A, B> {
    const MIN: [usize; 2] = [T::MIN[0] + A, T::MIN[1] + B];
    const FIXED: bool = T::FIXED;

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<T> {
        let value = T::read(reader)?;
        reader.take([A, B][reader.version().index()])?;
        Ok(value)
    }

    #[inline]
    fn write(value: &T, version: Version, out: &mut Vec<u8>) -> Result<()> {
        value.write(version, out)?;
        match version {
            Version::Of10 => out.put(&[0; A]),
            Version::Of13 => out.put(&[0; B]),
        }
        Ok(())
    }
}

/// A value with `N` bytes before it that are written as 0: padding, or a length that is filled in later.
pub(crate) struct After<const N: usize, C = Plain>(C);

impl<T, C: Codec<T>, const N: usize> Codec<T> for After<N, C> {
    const MIN: [usize; 2] = [N + C::MIN[0], N + C::MIN[1]];
    const FIXED: bool = C::FIXED;

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<T> {
        reader.take(N)?;
        C::read(reader)
    }

    #[inline]
    fn write(value: &T, version: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put(&[0; N]);
        C::write(value, version, out)
    }
}

/// A value that only 1.0 has.
pub(crate) struct Only10<C = Plain>(C);
/// A value that only 1.3 has.
pub(crate) struct Only13<C = Plain>(C);

macro_rules! only {
    ($form:ident, $version:ident) => {
        impl<T: Default, C: Codec<T>> Codec<T> for $form<C> {
            const MIN: [usize; 2] = {
                let mut min = [0; 2];
                min[Version::$version.index()] = C::MIN[Version::$version.index()];
                min
            };
            const FIXED: bool = C::FIXED;

            #[inline]
            fn read(reader: &mut Reader<'_>) -> Result<T> {
                if reader.version() == Version::$version { C::read(reader) } else { Ok(T::default()) }
            }

            #[inline]
            fn write(value: &T, version: Version, out: &mut Vec<u8>) -> Result<()> {
                if version == Version::$version { C::write(value, version, out) } else { Ok(()) }
            }
        }
    };
}

only!(Only10, Of10);
only!(Only13, Of13);

/// A text, padded with NULs to `N` bytes.
pub(crate) struct Chars<const N: usize>;

impl<const N: usize> Codec<Text> for Chars<N> {
    const MIN: [usize; 2] = [N; 2];
    const FIXED: bool = true;

    fn read(reader: &mut Reader<'_>) -> Result<Text> {
        Ok(Text::parse(reader.take(N)?))
    }

    fn write(text: &Text, _: Version, out: &mut Vec<u8>) -> Result<()> {
        text.write_padded(N, out)
    }
}

/// All bytes that remain.
pub(crate) struct Bytes;

impl Codec<Vec<u8>> for Bytes {
    const MIN: [usize; 2] = [0; 2];
    const FIXED: bool = false;

    fn read(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
        Ok(reader.rest().to_vec())
    }

    fn write(bytes: &Vec<u8>, _: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put(bytes);
        Ok(())
    }
}

/// Numbers in the order of their bytes, most significant first.
macro_rules! numbers {
    ($($number:ty, $put:ident;)*) => {$(
        impl Wire for $number {
            const MIN: [usize; 2] = [size_of::<$number>(); 2];
            const FIXED: bool = true;

            #[inline]
            fn read(reader: &mut Reader<'_>) -> Result<$number> {
                Ok(<$number>::from_be_bytes(reader.array()?))
            }

            #[inline]
            fn write(&self, _: Version, out: &mut Vec<u8>) -> Result<()> {
                out.$put(*self);
                Ok(())
            }
        }
    )*};
}

numbers! {
    u8, put_u8;
    u16, put_u16;
    u32, put_u32;
    u64, put_u64;
}

impl<T: Wire + Copy + Default, const N: usize> Wire for [T; N] {
    const MIN: [usize; 2] = [N * T::MIN[0], N * T::MIN[1]];
    const FIXED: bool = T::FIXED;

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<[T; N]> {
        let mut items = [T::default(); N];
        for item in &mut items {
            *item = T::read(reader)?;
        }
        Ok(items)
    }

    #[inline]
    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        self.iter().try_for_each(|item| item.write(version, out))
    }
}

/// A list takes all that remains.
impl<T: Wire> Wire for Vec<T> {
    fn read(reader: &mut Reader<'_>) -> Result<Vec<T>> {
        let min = T::MIN[reader.version().index()];
        let mut items = Vec::with_capacity(if T::FIXED { reader.remaining() / min } else { 0 });
        while reader.remaining() > 0 {
            items.push(match &T::ELEMENT {
                Some(element) => T::read(&mut reader.element(element, min)?)?,
                None => T::read(reader.restart())?,
            });
        }
        Ok(items)
    }

    #[inline]
    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        for item in self {
            match &T::ELEMENT {
                Some(element) => {
                    let start = out.len();
                    out.put_sized(element.length_at[version.index()], |out| item.write(version, out))?;
                    out.pad_from(start, element.pad_to);
                }
                None => item.write(version, out)?,
            }
        }
        Ok(())
    }
}

/// Nothing: the body of messages that are just a header.
impl Wire for () {
    fn read(_: &mut Reader<'_>) -> Result<()> {
        Ok(())
    }

    fn write(&self, _: Version, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}

impl Wire for Dpid {
    const MIN: [usize; 2] = [8; 2];
    const FIXED: bool = true;

    fn read(reader: &mut Reader<'_>) -> Result<Dpid> {
        reader.u64().map(Dpid)
    }

    fn write(&self, _: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u64(self.0);
        Ok(())
    }
}

/// A port number has 16 bits in 1.0 and 32 in 1.3.
impl Wire for PortNo {
    const MIN: [usize; 2] = [2, 4];
    const FIXED: bool = true;

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<PortNo> {
        match reader.version() {
            Version::Of10 => reader.u16().map(PortNo::from_of10),
            Version::Of13 => reader.u32().map(PortNo),
        }
    }

    #[inline]
    fn write(&self, version: Version, out: &mut Vec<u8>) -> Result<()> {
        match (version, self.to_of10()) {
            (Version::Of10, Some(number)) => out.put_u16(number),
            (Version::Of10, None) => return unsupported(version, format!("port {self}")),
            (Version::Of13, _) => out.put_u32(self.0),
        }
        Ok(())
    }
}

/// Makes a structure and its [`Wire`] form from one list of fields, or only the form (`impl`).
///
/// A field has the form of its type, or the [`Codec`] after `as`. The name of an [`Element`] follows that of a
/// structure that carries its own length in lists.
macro_rules! layout {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(: $element:ident)? {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $type:ty $(as $codec:ty)?),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$field_meta])* $field_vis $field: $type),*
        }

        $crate::msg::wire::layout! { impl $name $(: $element)? { $($field: $type $(as $codec)?),* } }
    };
    (impl $name:ident $(: $element:ident)? { $($field:ident: $type:ty $(as $codec:ty)?),* $(,)? }) => {
        impl $crate::msg::wire::Wire for $name {
            const MIN: [usize; 2] = $crate::msg::wire::sum(&[
                $(<$crate::msg::wire::codec!($($codec)?) as $crate::msg::wire::Codec<$type>>::MIN),*
            ]);
            const FIXED: bool =
                true $(&& <$crate::msg::wire::codec!($($codec)?) as $crate::msg::wire::Codec<$type>>::FIXED)*;
            $(const ELEMENT: Option<$crate::msg::bytes::Element> = Some($element);)?

            #[inline]
            fn read(reader: &mut $crate::msg::bytes::Reader<'_>) -> $crate::Result<$name> {
                reader.need(Self::MIN)?;
                $(let $field =
                    <$crate::msg::wire::codec!($($codec)?) as $crate::msg::wire::Codec<$type>>::read(reader)?;)*
                Ok($name { $($field),* })
            }

            #[inline]
            fn write(&self, version: $crate::Version, out: &mut Vec<u8>) -> $crate::Result<()> {
                $(<$crate::msg::wire::codec!($($codec)?) as $crate::msg::wire::Codec<$type>>::write(
                    &self.$field, version, out,
                )?;)*
                Ok(())
            }
        }
    };
}

/// Names a field's form: the one that is given, or else that of its type.
macro_rules! codec {
    () => {
        $crate::msg::wire::Plain
    };
    ($codec:ty) => {
        $codec
    };
}

pub(crate) use {codec, layout};

/// Adds up numbers of bytes in 1.0 and in 1.3.
pub(crate) const fn sum(parts: &[[usize; 2]]) -> [usize; 2] {
    let (mut sum, mut n) = ([0; 2], 0);
    while n < parts.len() {
        sum = [sum[0] + parts[n][0], sum[1] + parts[n][1]];
        n += 1;
    }
    sum
}
