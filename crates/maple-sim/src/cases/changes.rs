//! Random changes of the state, by programs and from outside.

use maple_core::network::Mac;
use maple_core::state::Value;
use maple_wire::Field;

use super::super::Choices;
use super::domain::{Domain, FIELDS, KEYS, small};
use super::packets::PacketSpec;
use super::program::{Change, Operand, TABLES, VARS, int};

/// Random changes of the state.
impl Domain {
    /// Returns a change that a program makes.
    pub fn change(&self, random: &mut Choices) -> Change {
        let (table, name) = (*random.pick(&TABLES), *random.pick(&VARS));
        match random.below(12) {
            0..4 => Change::Put { table, key: self.operand(random), value: Operand::Constant(small(random, 3)) },
            4 => Change::Put { table, key: self.operand(random), value: Operand::Field(Field::InPort) },
            5 => Change::Take { table, key: self.operand(random) },
            6..8 => Change::Set { name, value: Operand::Constant(small(random, 3)) },
            8 => Change::Count { name },
            9..11 => self.cost(random),
            _ => {
                let field = *random.pick(&FIELDS);
                Change::Invalidate { field, value: self.value(random, field) }
            }
        }
    }

    /// Returns a write that needs no packet: [`Change::event`] makes it.
    pub fn outside_write(&self, random: &mut Choices) -> Change {
        let constant = |value| Operand::Constant(value);
        match self.change(random) {
            Change::Put { table, value: Operand::Field(_), .. } => {
                let key = constant(self.key(random));
                Change::Put { table, key, value: constant(small(random, 4)) }
            }
            Change::Put { table, value, .. } => Change::Put { table, key: constant(self.key(random)), value },
            Change::Take { table, .. } => Change::Take { table, key: constant(self.key(random)) },
            Change::Count { name } | Change::Set { name, .. } => {
                Change::Set { name, value: constant(small(random, 3)) }
            }
            Change::Invalidate { .. } => Change::Set { name: VARS[0], value: constant(small(random, 3)) },
            change => change,
        }
    }

    /// Returns a write to what programs of look-ups read.
    pub fn write_to_looked_up(&self, random: &mut Choices) -> Change {
        let constant = |value| Operand::Constant(value);
        let (table, field) = (*random.pick(&TABLES), *random.pick(&KEYS));
        let key = constant(int(self.value(random, field)));
        match random.below(8) {
            0..5 => Change::Put { table, key, value: constant(int(random.below(6) as u128)) },
            5..7 => Change::Take { table, key },
            _ => Change::Set { name: random.pick::<&str>(&VARS), value: constant(small(random, 3)) },
        }
    }

    /// Returns writes that change what [`Domain::program_of_pairs`] and [`Domain::program_of_sources`] read for a
    /// packet, mostly all of it.
    pub fn writes_to_pair(random: &mut Choices, packet: &PacketSpec) -> Vec<Change> {
        let value = |random: &mut Choices| Operand::Constant(small(random, 3));
        let key = |mac| Operand::Constant(int(Mac(mac).bits()));
        let mut all = vec![
            Change::Put { table: TABLES[0], key: key(packet.src), value: value(random) },
            Change::Put { table: TABLES[1], key: key(packet.dst), value: value(random) },
            Change::Set { name: VARS[0], value: value(random) },
        ];
        if random.one_in(4) {
            all[0] = Change::Take { table: TABLES[0], key: key(packet.src) };
        }
        all.retain(|_| !random.one_in(4));
        all
    }

    /// Returns a change of the cost of a link in one direction.
    pub fn cost(&self, random: &mut Choices) -> Change {
        let (a, b) = *random.pick(&self.links);
        let (from, to) = *random.pick(&[(a, b), (b, a)]);
        Change::Cost { from: from.switch, to: to.switch, cost: *random.pick(&[0, 1, 2, 5, 9]) }
    }

    /// Returns a key that can be computed from packets.
    fn key(&self, random: &mut Choices) -> Value {
        let field = *random.pick(&[Field::EthSrc, Field::TcpDst, Field::InPort]);
        int(self.value(random, field))
    }
}
