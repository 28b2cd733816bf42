//! The encoding of tracked state and of the options of engines in a recording.

use std::sync::Arc;

use maple_core::engine::{LabelRange, Options};
use maple_core::ids::{LeafId, ShardId};
use maple_core::network::{
    Facts, Gauge, HostFacts, HostInfo, LinkName, Location, Mac, OwnFrame, PortInfo, PortKind, PortSet, SwitchFacts,
};
use maple_core::remembered::{Model, RememberedLabel, Surroundings, Witness};
use maple_core::state::{Cell, Commit, Float, Kind, Selection, SwitchInfo, Types, Value, Write};
use maple_core::trace::{Cond, Range};
use maple_wire::msg::Text;
use maple_wire::{Constraint, Dpid, Field, Port, PortNo, Version};

use super::codec::{Codec, Damaged, Reader, codec_enum, codec_struct};

macro_rules! newtypes {
    ($($type:ident),*) => {$(
        impl Codec for $type {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                Codec::take(from).map($type)
            }
        }
    )*};
}

newtypes!(Dpid, PortNo, Mac, ShardId, LeafId, PortSet, Text);

impl Codec for Version {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn take(from: &mut Reader<'_>) -> Result<Version, Damaged> {
        Version::from_wire(from.byte()?).ok_or(Damaged("there is no such version of OpenFlow"))
    }
}

impl Codec for Field {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.oxm());
    }

    fn take(from: &mut Reader<'_>) -> Result<Field, Damaged> {
        Field::from_oxm(from.byte()?).ok_or(Damaged("there is no such field"))
    }
}

impl Codec for Float {
    fn put(&self, out: &mut Vec<u8>) {
        self.get().to_bits().to_be_bytes().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Float, Damaged> {
        <[u8; 8]>::take(from).map(|bits| Float::new(f64::from_bits(u64::from_be_bytes(bits))))
    }
}

macro_rules! shared {
    ($($type:ty),*) => {$(
        impl Codec for Arc<$type> {
            fn put(&self, out: &mut Vec<u8>) {
                (**self).put(out);
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Damaged> {
                Codec::take(from).map(Arc::new)
            }
        }
    )*};
}

shared!(Kind, Types, Facts, std::collections::BTreeMap<Value, Value>);

codec_struct!(Location { switch, port });
codec_struct!(Constraint { field, value, mask });
codec_struct!(Range { field, lo, hi });
codec_struct!(Cond { all, ranges });
codec_struct!(SwitchInfo { shard, version });
codec_struct!(PortInfo { up, kind });
codec_struct!(HostInfo { location, ipv4, ipv6 });
codec_struct!(OwnFrame { at, bytes });
codec_struct!(Types { key, value });
codec_struct!(Commit { withdraw, ports, hosts, invalidate, kept });
codec_struct!(Witness { at, frame, total_len, specialisation });
codec_struct!(Surroundings { links, edges, hosts, labels, models });
codec_struct!(RememberedLabel { switch, port, id, meaning });
codec_struct!(Model { version, tables, is_open_vswitch, has_bundles });
codec_struct!(SwitchFacts { ports, edge, link, max_hosts });
codec_struct!(HostFacts { at, addresses });
codec_struct!(Port {
    number,
    hw_addr,
    name_raw,
    config,
    state,
    curr,
    advertised,
    supported,
    peer,
    curr_speed,
    max_speed,
});

codec_enum!(PortKind {
    0 => New,
    1 => Edge,
    2 => Link(peer),
    3 => Shared { with, link },
    4 => Middlebox,
});

codec_enum!(LinkName { 0 => Port(at), 1 => Switches(from, to) });

codec_enum!(Gauge { 0 => Sent(at), 1 => Received(at), 2 => Traffic { from, to } });

codec_enum!(Value {
    0 => None,
    1 => Bool(truth),
    2 => Int(number),
    3 => Float(number),
    4 => Str(text),
    5 => Bytes(bytes),
    6 => Mac(mac),
    7 => Ipv4(ip),
    8 => Ipv6(ip),
    9 => Switch(dpid),
    10 => Location(at),
    11 => Tuple(items),
    12 => Map(items),
});

codec_enum!(Kind {
    0 => Any,
    1 => None,
    2 => Bool,
    3 => Int,
    4 => Float,
    5 => Str,
    6 => Bytes,
    7 => Mac,
    8 => Ip,
    9 => Ipv4,
    10 => Ipv6,
    11 => Switch,
    12 => Location,
    13 => Map,
    14 => Tuple(items),
    15 => List(item),
    16 => Optional(item),
});

codec_enum!(Write {
    0 => Table { table, key, value },
    1 => Var { name, value },
    2 => Add { name, amount },
    3 => Types { table, types },
    4 => Kind { name, kind },
    5 => Weight(name),
    6 => Cost { name, link, cost },
    7 => Switch { dpid, info },
    8 => Port { at, info },
    9 => Speed { at, speed },
    10 => Rate { gauge, rate },
    11 => Host { mac, info },
    12 => Facts { number, facts },
});

impl Codec for Selection {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Selection::All => out.push(0),
            Selection::Fields(constraints) => (1u8, constraints.clone()).put(out),
            Selection::Host(mac) => (2u8, *mac).put(out),
            Selection::Port(at) => (3u8, *at).put(out),
            Selection::Leaves(leaves) => (4u8, leaves.clone()).put(out),
            Selection::Cell(Cell::Table(table, key)) => (5u8, table.clone(), key.clone()).put(out),
            Selection::Cell(Cell::Var(name)) => (6u8, name.clone()).put(out),
            // Nothing outside of an engine selects by another cell. Withdrawing more is never wrong, but the replay
            // then reports a difference.
            Selection::Cell(_) => out.push(0),
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Selection, Damaged> {
        Ok(match from.byte()? {
            0 => Selection::All,
            1 => Selection::Fields(Codec::take(from)?),
            2 => Selection::Host(Codec::take(from)?),
            3 => Selection::Port(Codec::take(from)?),
            4 => Selection::Leaves(Codec::take(from)?),
            5 => Selection::Cell(Cell::Table(Codec::take(from)?, Codec::take(from)?)),
            6 => Selection::Cell(Cell::Var(Codec::take(from)?)),
            _ => return Err(Damaged("there is no such selection")),
        })
    }
}

impl Codec for LabelRange {
    fn put(&self, out: &mut Vec<u8>) {
        self.ids().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<LabelRange, Damaged> {
        LabelRange::new(Codec::take(from)?).map_err(|_| Damaged("there is no such range of labels"))
    }
}

impl Codec for Facts {
    fn put(&self, out: &mut Vec<u8>) {
        let switches: Vec<_> = self.switches().map(|(dpid, facts)| (*dpid, facts.clone())).collect();
        let hosts: Vec<_> = self.hosts().map(|(mac, facts)| (*mac, facts.clone())).collect();
        (switches, hosts).put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Facts, Damaged> {
        let (switches, hosts): (Vec<_>, Vec<_>) = Codec::take(from)?;
        Ok(Facts::new(switches.into_iter().collect(), hosts.into_iter().collect()))
    }
}

/// Encodes the options of an engine, all but the compiler: the header has its name.
macro_rules! codec_options {
    ($($field:ident),* $(,)?) => {
        impl Codec for Options {
            fn put(&self, out: &mut Vec<u8>) {
                let Options { new_table: _, $($field),* } = self;
                $($field.put(out);)*
            }

            fn take(from: &mut Reader<'_>) -> Result<Options, Damaged> {
                $(let $field = Codec::take(from)?;)*
                Ok(Options { new_table: Options::default().new_table, $($field),* })
            }
        }
    };
}

codec_options!(
    track_hosts,
    labels,
    epoch,
    remember,
    first_xid,
    held_packets,
    parked_packets,
    held_bytes,
    reroute_timeout,
    hold,
    new_port_hold,
    quarantine,
    lost_quarantine,
    facts,
    middleboxes,
    probe_timeout,
    silence,
    max_hosts_per_port,
    max_hosts,
    host_timeout,
    max_rules,
    max_traces,
    eviction_period,
    poll,
    audit,
    flow_mod_rate,
    max_reruns,
    listener_filters,
    max_reconsidered,
    check_rate,
    wall_clock,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_read_as_it_was_written() {
        let at = Location::new(Dpid(3), PortNo(7));
        let host = HostInfo { location: at, ipv4: [[10, 0, 0, 1].into()].into(), ipv6: Default::default() };
        let map = Value::Map(Arc::new([(Value::Int(-5), Value::Float(Float::new(0.5)))].into()));
        let types =
            Types { key: Kind::Tuple([Kind::Mac, Kind::Ip].into()), value: Kind::Optional(Arc::new(Kind::Int)) };
        let writes = vec![
            Write::Table { table: "t".into(), key: Value::Tuple([map].into()), value: Some(Value::from("x")) },
            Write::Add { name: "n".into(), amount: -3 },
            Write::Types { table: "t".into(), types: Arc::new(types) },
            Write::Cost { name: "c".into(), link: LinkName::Switches(Dpid(1), Dpid(2)), cost: Some(9) },
            Write::Port { at, info: Some(PortInfo { up: true, kind: PortKind::Shared { with: at, link: None } }) },
            Write::Rate { gauge: Gauge::Traffic { from: Mac([1; 6]), to: Mac([2; 6]) }, rate: None },
            Write::Host { mac: Mac([2, 0, 0, 0, 0, 1]), info: Some(host) },
            Write::Facts {
                number: 3,
                facts: Arc::new(Facts::new(
                    [(Dpid(3), SwitchFacts { edge: PortSet(vec![1..=7]), ..SwitchFacts::default() })].into(),
                    [(Mac([1; 6]), HostFacts { at: Some(at), ..HostFacts::default() })].into(),
                )),
            },
        ];
        let mut bytes = Vec::new();
        writes.put(&mut bytes);
        assert_eq!(<Vec<Write>>::take(&mut Reader::new(&bytes)), Ok(writes));
    }

    #[test]
    fn values_are_not_nested_without_end() {
        let bytes: Vec<u8> = [11, 1].repeat(1000);
        assert_eq!(Value::take(&mut Reader::new(&bytes)), Err(Damaged("values are nested too deeply")));
    }
}
