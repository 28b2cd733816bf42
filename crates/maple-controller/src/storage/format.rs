//! The one format of what outlives the process: postcard, with derived types.
//!
//! A number takes 7 bits a byte, a length precedes its items, and a number stands before each variant. Values don't say
//! of what type they are. So whatever is made of them has a number of its format.
//!
//! Reading checks everything. A length never reserves more memory than there are bytes, and values within values are
//! limited in depth (`maple_core::state`).

use serde::{Deserialize, Serialize};

/// The error for bytes that are not as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Damaged(pub &'static str);

impl From<postcard::Error> for Damaged {
    fn from(error: postcard::Error) -> Damaged {
        use postcard::Error as E;
        Damaged(match error {
            E::DeserializeUnexpectedEnd => "it ends within a value",
            E::DeserializeBadVarint => "a number is too long",
            E::DeserializeBadBool | E::DeserializeBadOption => "a truth value is neither 0 nor 1",
            E::DeserializeBadUtf8 | E::DeserializeBadChar => "a text is not UTF-8",
            _ => "there is no such value",
        })
    }
}

/// Bytes that are read from the front.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the next value.
    pub fn take<T: Deserialize<'a>>(&mut self) -> Result<T, Damaged> {
        let (value, rest) = postcard::take_from_bytes(self.0)?;
        self.0 = rest;
        Ok(value)
    }
}

/// Appends a value. On error, a part of it may be there.
///
/// # Errors
/// Postcard's error, if this type has values without a form and this is one.
pub(crate) fn put(value: &(impl Serialize + ?Sized), out: &mut Vec<u8>) -> postcard::Result<()> {
    struct Append<'a>(&'a mut Vec<u8>);

    impl Extend<u8> for Append<'_> {
        fn extend<T: IntoIterator<Item = u8>>(&mut self, bytes: T) {
            self.0.extend(bytes);
        }
    }

    postcard::to_extend(value, Append(out)).map(drop)
}

/// Encodes a value.
///
/// # Errors
/// Postcard's error, as for [`put`].
pub(crate) fn bytes(value: &(impl Serialize + ?Sized)) -> postcard::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    put(value, &mut bytes)?;
    Ok(bytes)
}

/// Reads the only value.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Damaged> {
    let mut from = Reader::new(bytes);
    let value = from.take()?;
    if from.is_empty() { Ok(value) } else { Err(Damaged("something follows the value")) }
}

/// Reads values until the end.
pub(crate) fn read_all<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<Vec<T>, Damaged> {
    let (mut from, mut all) = (Reader::new(bytes), Vec::new());
    while !from.is_empty() {
        all.push(from.take()?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;
    use std::net::{IpAddr, Ipv6Addr};
    use std::sync::Arc;
    use std::time::Duration;

    use maple_core::network::{
        Facts, Gauge, HostFacts, HostInfo, LinkName, Location, Mac, PortInfo, PortKind, PortSet, SwitchFacts,
    };
    use maple_core::state::{Float, Kind, Types, Value, Write};
    use maple_wire::{Dpid, PortNo};

    use super::*;

    fn check<T: Serialize + for<'a> Deserialize<'a> + PartialEq + Debug>(value: T) {
        let mut bytes = Vec::new();
        put(&value, &mut bytes).expect("it has a form");
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.take().as_ref(), Ok(&value));
        assert!(reader.is_empty());
        for end in 0..bytes.len() {
            assert!(Reader::new(&bytes[..end]).take::<T>().is_err(), "{value:?} has no shorter form");
        }
    }

    #[test]
    fn values_are_read_as_they_were_written() {
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
        put(&u64::MAX, &mut bytes).expect("it has a form");
        assert_eq!(Reader::new(&bytes).take::<Vec<u64>>(), Err(Damaged("it ends within a value")));
    }

    #[test]
    fn state_is_read_as_it_was_written() {
        let at = Location::new(Dpid(3), PortNo(7));
        let host = HostInfo { location: at, ipv4: [[10, 0, 0, 1].into()].into(), ipv6: Default::default() };
        let map = Value::Map(Arc::new([(Value::Int(-5), Value::Float(Float::new(0.5)))].into()));
        let types =
            Types { key: Kind::Tuple([Kind::Mac, Kind::Ip].into()), value: Kind::Optional(Arc::new(Kind::Int)) };
        check(vec![
            Write::Table { table: "t".into(), key: Value::Tuple([map].into()), value: Some(Value::from("x")) },
            Write::Add { name: "n".into(), amount: -3 },
            Write::Types { table: "t".into(), types: Arc::new(types) },
            Write::Cost { name: "c".into(), link: LinkName::Switches(Dpid(1), Dpid(2)), cost: Some(9) },
            Write::Port { at, info: Some(PortInfo { up: true, kind: PortKind::Shut { with: at, link: None } }) },
            Write::Rate { gauge: Gauge::Traffic { from: Mac([1; 6]), to: Mac([2; 6]) }, rate: None },
            Write::Host { mac: Mac([2, 0, 0, 0, 0, 1]), info: Some(host) },
            Write::Facts {
                number: 3,
                facts: Arc::new(Facts::new(
                    [(Dpid(3), SwitchFacts { edge: PortSet(vec![1..=7]), ..SwitchFacts::default() })].into(),
                    [(Mac([1; 6]), HostFacts { at: Some(at), ..HostFacts::default() })].into(),
                )),
            },
        ]);
    }

    #[test]
    fn values_are_not_nested_without_end() {
        let bytes: Vec<u8> = [11, 1].repeat(1000);
        assert_eq!(Reader::new(&bytes).take::<Value>(), Err(Damaged("there is no such value")));
        // A value that is nested less is read afterwards: the count begins anew.
        let nested = |depth: usize| [[11, 1].repeat(depth), vec![0]].concat();
        assert!(Reader::new(&nested(128)).take::<Value>().is_ok());
        assert!(Reader::new(&nested(129)).take::<Value>().is_err());
        assert!(Reader::new(&nested(128)).take::<Value>().is_ok());
    }
}
