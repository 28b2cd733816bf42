//! The fields of one packet, each read at most once: the shapes of a table ask for the same few again and again.

use maple_wire::Field;

/// The values of a packet's fields that were asked for.
#[derive(Clone, Debug)]
pub struct Fields {
    /// A bit for each field that was asked for.
    known: u64,
    /// A bit for each field that the packet has.
    present: u64,
    values: [u128; 64],
}

impl Default for Fields {
    fn default() -> Fields {
        Fields { known: 0, present: 0, values: [0; 64] }
    }
}

impl Fields {
    /// Forgets the packet.
    pub fn clear(&mut self) {
        (self.known, self.present) = (0, 0);
    }

    /// Returns the value of a field, which `read` reads for the first time.
    pub fn get(&mut self, field: Field, read: impl FnOnce() -> Option<u128>) -> Option<u128> {
        let bit = 1u64 << field as u8;
        if self.known & bit == 0 {
            self.known |= bit;
            if let Some(value) = read() {
                self.present |= bit;
                self.values[field as usize] = value;
            }
        }
        (self.present & bit != 0).then(|| self.values[field as usize])
    }
}
