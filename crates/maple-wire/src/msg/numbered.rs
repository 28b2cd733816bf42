//! Enums that a number in the bytes tells apart: each a table of names, numbers and contents.

/// The name and the numbers of a variant of a table.
pub(crate) struct Row {
    /// Its name in errors.
    pub name: &'static str,
    /// Its number in 1.0, if 1.0 has it.
    pub in10: Option<u16>,
    /// Its number in 1.3.
    pub in13: u16,
}

/// Makes an enum from a table. A row has a variant, its name in errors, and its numbers in 1.0 and 1.3. The variants of
/// `others` have no rows: they are read and written by hand.
macro_rules! numbered {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            both versions {$(
                $(#[$doc:meta])*
                $variant:ident $(($body:ty $(as $codec:ty)?))? = $what:literal, $in10:literal, $in13:literal;
            )*}
            only 1.3 {$(
                $(#[$doc13:meta])*
                $variant13:ident $(($body13:ty $(as $codec13:ty)?))? = $what13:literal, $only13:literal;
            )*}
            others { $($others:tt)* }
        }
    ) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[$doc])* $variant $(($body))?,)*
            $($(#[$doc13])* $variant13 $(($body13))?,)*
            $($others)*
        }

        impl $name {
            /// Returns the row of the variant. The other variants have none.
            #[inline]
            fn row(&self) -> Option<&'static $crate::msg::numbered::Row> {
                use $crate::msg::numbered::Row;
                Some(match self {
                    $($name::$variant { .. } => &Row { name: $what, in10: Some($in10), in13: $in13 },)*
                    $($name::$variant13 { .. } => &Row { name: $what13, in10: None, in13: $only13 },)*
                    _ => return None,
                })
            }

            /// Reads all that remains as the row with this number. `None` if the version has no such row.
            fn read_row(
                number: u16, reader: &mut $crate::msg::bytes::Reader<'_>,
            ) -> $crate::Result<Option<$name>> {
                use $crate::Version::{Of10, Of13};
                let value = match (reader.version(), number) {
                    $((Of10, $in10) | (Of13, $in13) => {
                        reader.call($what);
                        $crate::msg::numbered::numbered!(@read reader, $name::$variant $(, $body $(as $codec)?)?)
                    })*
                    $((Of13, $only13) => {
                        reader.call($what13);
                        $crate::msg::numbered::numbered!(@read reader, $name::$variant13 $(, $body13 $(as $codec13)?)?)
                    })*
                    _ => return Ok(None),
                };
                reader.end()?;
                Ok(Some(value))
            }

            /// Appends the content of a row, without its number.
            #[inline]
            fn write_row(&self, version: $crate::Version, out: &mut Vec<u8>) -> $crate::Result<()> {
                match self {
                    $($name::$variant $(($crate::msg::numbered::numbered!(@bind body, $body)))? => {
                        $(<$crate::msg::wire::codec!($($codec)?) as $crate::msg::wire::Codec<$body>>::write(
                            body, version, out,
                        )?;)?
                    })*
                    $($name::$variant13 $(($crate::msg::numbered::numbered!(@bind body, $body13)))? => {
                        $(<$crate::msg::wire::codec!($($codec13)?) as $crate::msg::wire::Codec<$body13>>::write(
                            body, version, out,
                        )?;)?
                    })*
                    _ => debug_assert!(false, "{self:?} is no row"),
                }
                Ok(())
            }
        }
    };
    (@read $reader:ident, $name:ident::$variant:ident) => {
        $name::$variant
    };
    (@read $reader:ident, $name:ident::$variant:ident, $body:ty $(as $codec:ty)?) => {
        $name::$variant(
            <$crate::msg::wire::codec!($($codec)?) as $crate::msg::wire::Codec<$body>>::read($reader)?
        )
    };
    (@bind $body:ident, $type:ty) => {
        $body
    };
}

pub(crate) use numbered;
