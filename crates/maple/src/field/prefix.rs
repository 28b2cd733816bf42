//! Prefixes of addresses.

use std::fmt;
use std::str::FromStr;

use crate::field::Address;

/// The leading bits of IPv4, IPv6 or hardware addresses, such as `10.0.0.0/8`.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use maple::field::Prefix;
///
/// let private: Prefix<Ipv4Addr> = "10.0.0.0/8".parse()?;
/// assert!(private.contains(Ipv4Addr::new(10, 1, 2, 3)));
/// assert_eq!(private, Prefix::new(Ipv4Addr::new(10, 0, 0, 0), 8)?);
/// assert_eq!((private.address(), private.length()), (Ipv4Addr::new(10, 0, 0, 0), 8));
/// # Ok::<(), maple::field::PrefixError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<T> {
    address: T,
    length: u8,
}

/// The reason why a value is not a prefix.
///
/// ```
/// use maple::field::Prefix;
/// use maple::net::Mac;
///
/// let error = "00:00:00:00:00:00/49".parse::<Prefix<Mac>>().unwrap_err();
/// assert_eq!(error.to_string(), "a prefix of such addresses has 0 to 48 bits, not 49");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// The text has another form.
    #[error("{0:?} is not a prefix; write an address, a slash and a number of bits, as in 10.0.0.0/8")]
    Text(String),
    /// The length exceeds the number of bits of an address.
    #[error("a prefix of such addresses has 0 to {most} bits, not {length}")]
    Length {
        /// The length in bits.
        length: u8,
        /// The number of bits of such addresses.
        most: u8,
    },
    /// The address has bits set after the prefix.
    #[error("{address}/{length} has bits set after the first {length}")]
    Bits {
        /// The address.
        address: String,
        /// The length in bits.
        length: u8,
    },
}

impl<T: Address> Prefix<T> {
    /// Creates the prefix of the first `length` bits of `address`.
    ///
    /// ```
    /// use maple::field::{Prefix, PrefixError};
    /// use maple::net::Mac;
    ///
    /// assert!(Prefix::new(Mac([1, 0, 0x5e, 0, 0, 0]), 25).is_ok());
    /// assert!(matches!(Prefix::new(Mac([1, 0, 0x5e, 0, 0, 1]), 25), Err(PrefixError::Bits { .. })));
    /// ```
    ///
    /// # Errors
    /// [`PrefixError`] if addresses have fewer bits, or if later bits are set.
    pub fn new(address: T, length: u8) -> Result<Prefix<T>, PrefixError> {
        if length > T::BITS {
            return Err(PrefixError::Length { length, most: T::BITS });
        }
        let prefix = Prefix { address, length };
        if address.to_bits() & !prefix.mask() != 0 {
            return Err(PrefixError::Bits { address: address.to_string(), length });
        }
        Ok(prefix)
    }

    /// Returns the lowest address in the prefix.
    ///
    /// ```
    /// # use std::net::Ipv6Addr;
    /// let local: maple::field::Prefix<Ipv6Addr> = "fe80::/10".parse()?;
    /// assert_eq!(local.address(), Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0));
    /// # Ok::<(), maple::field::PrefixError>(())
    /// ```
    pub fn address(&self) -> T {
        self.address
    }

    /// Returns the length in bits.
    ///
    /// ```
    /// # use std::net::Ipv6Addr;
    /// let local: maple::field::Prefix<Ipv6Addr> = "fe80::/10".parse()?;
    /// assert_eq!(local.length(), 10);
    /// # Ok::<(), maple::field::PrefixError>(())
    /// ```
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Reports whether an address begins with this prefix.
    ///
    /// ```
    /// # use maple::field::Prefix;
    /// # use maple::net::Mac;
    /// let groups: Prefix<Mac> = "01:00:5e:00:00:00/25".parse()?;
    /// assert!(groups.contains(Mac([1, 0, 0x5e, 0x7f, 0, 1])));
    /// # Ok::<(), maple::field::PrefixError>(())
    /// ```
    pub fn contains(&self, address: T) -> bool {
        address.to_bits() & self.mask() == self.address.to_bits()
    }

    pub(crate) fn mask(&self) -> u128 {
        let all = u128::MAX >> (128 - u32::from(T::BITS));
        all & !all.checked_shr(self.length.into()).unwrap_or(0)
    }

    /// Returns the prefix of this length of the address 0.
    #[track_caller]
    pub(crate) fn of_length(length: u8) -> Prefix<T> {
        Prefix::new(T::from_bits(0), length).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the prefix of `address` with this length, without the bits after it.
    pub(crate) fn at(self, address: T) -> Prefix<T> {
        Prefix { address, ..self }
    }
}

impl<T: Address + FromStr> FromStr for Prefix<T> {
    type Err = PrefixError;

    /// Parses a text such as `10.0.0.0/8`. An address without a length is a prefix of all its bits.
    fn from_str(text: &str) -> Result<Prefix<T>, PrefixError> {
        let bad = || PrefixError::Text(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, length.parse().map_err(|_| bad())?),
            None => (text, T::BITS),
        };
        Prefix::new(address.parse().map_err(|_| bad())?, length)
    }
}

impl<T: Address + FromStr> TryFrom<&str> for Prefix<T> {
    type Error = PrefixError;

    fn try_from(text: &str) -> Result<Prefix<T>, PrefixError> {
        text.parse()
    }
}

impl<T: fmt::Display> fmt::Display for Prefix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl<T: fmt::Display> fmt::Debug for Prefix<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn the_shortest_and_the_longest_prefix_are_prefixes() {
        let all: Prefix<Ipv4Addr> = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains(Ipv4Addr::BROADCAST));
        let one: Prefix<Ipv6Addr> = "::1".parse().unwrap();
        assert_eq!((one.length(), one.mask()), (128, u128::MAX));
        assert!(!one.contains(Ipv6Addr::UNSPECIFIED));
    }

    #[test]
    fn invalid_prefixes_are_errors_that_say_why() {
        let error = |text: &str| text.parse::<Prefix<Ipv4Addr>>().unwrap_err();
        for text in ["", "10.0.0.0/", "10.0.0.0/x", "10.0.0/8", "::/8", "10.0.0.0/8/8", "10.0.0.0/-1"] {
            assert_eq!(error(text), PrefixError::Text(text.into()));
        }
        assert_eq!(error("10.0.0.0/33"), PrefixError::Length { length: 33, most: 32 });
        assert_eq!(error("10.0.0.1/31").to_string(), "10.0.0.1/31 has bits set after the first 31");
    }
}
