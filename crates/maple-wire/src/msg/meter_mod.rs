//! Meter-mod: changes a meter (1.3 §7.3.4.4).

use serde::{Deserialize, Serialize};

use super::Version;
use super::bytes::{Element, Put, Reader};
use super::wire::{Wire, layout};
use crate::error::{Error, Result};

/// The types of bands (`OFPMBT_*`).
mod kind {
    pub const DROP: u16 = 1;
    pub const DSCP_REMARK: u16 = 2;
    pub const EXPERIMENTER: u16 = 0xffff;
}

layout! {
    /// Changes a meter.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct MeterMod {
        /// `OFPMC_*`: 0 add, 1 modify, 2 delete.
        pub command: u16,
        /// Bits of `OFPMF_*`: 0 kb/s, 1 packets/s, 2 burst, 3 statistics.
        pub flags: u16,
        /// The meter's number; 0xffff_ffff means all meters when deleting.
        pub meter: u32,
        /// The bands: the actions above certain rates.
        pub bands: Vec<Band>,
    }
}

/// A meter's action above a rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// The rate, in kb/s or packets/s according to the meter's flags.
    pub rate: u32,
    /// The size of a burst, in kilobits or packets.
    pub burst: u32,
    /// The treatment of packets above the rate.
    pub kind: BandKind,
}

/// The treatment of packets above a rate. Other types of bands are refused (`OFPMMFC_BAD_BAND`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BandKind {
    /// The packets are dropped.
    Drop,
    /// The packets' drop precedence rises by this many levels.
    DscpRemark(u8),
    /// An experimenter's band.
    Experimenter {
        /// The experimenter's id.
        id: u32,
        /// The bytes after the id.
        body: Vec<u8>,
    },
}

impl Wire for Band {
    const MIN: [usize; 2] = [16; 2];
    const ELEMENT: Option<Element> = Some(Element::new("meter band", 2));

    fn read(reader: &mut Reader<'_>) -> Result<Band> {
        let kind = reader.u16()?;
        reader.take(2)?;
        let (rate, burst) = (reader.u32()?, reader.u32()?);
        let kind = match kind {
            kind::DROP => reader.take(4).map(|_| BandKind::Drop)?,
            kind::DSCP_REMARK => reader.array().map(|[levels, ..]: [u8; 4]| BandKind::DscpRemark(levels))?,
            kind::EXPERIMENTER => BandKind::Experimenter { id: reader.u32()?, body: reader.rest().to_vec() },
            kind => return Err(Error::BadValue { what: "meter band type", value: kind.into() }),
        };
        reader.end()?;
        Ok(Band { rate, burst, kind })
    }

    fn write(&self, _: Version, out: &mut Vec<u8>) -> Result<()> {
        out.put_u16(match self.kind {
            BandKind::Drop => kind::DROP,
            BandKind::DscpRemark(_) => kind::DSCP_REMARK,
            BandKind::Experimenter { .. } => kind::EXPERIMENTER,
        });
        out.put_u16(0);
        out.put_u32(self.rate);
        out.put_u32(self.burst);
        match &self.kind {
            BandKind::Drop => out.put_zeros(4),
            BandKind::DscpRemark(levels) => out.put(&[*levels, 0, 0, 0]),
            BandKind::Experimenter { id, body } => {
                out.put_u32(*id);
                out.put(body);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, check_unsupported, hex};
    use crate::msg::{Message, Version};

    #[test]
    fn a_meter_has_bands_of_three_kinds() {
        let bands = vec![
            Band { rate: 1000, burst: 10, kind: BandKind::Drop },
            Band { rate: 500, burst: 20, kind: BandKind::DscpRemark(2) },
            Band { rate: 1, burst: 2, kind: BandKind::Experimenter { id: 9, body: vec![1, 2, 3, 4] } },
        ];
        let meter_mod = Message::MeterMod(MeterMod { command: 1, flags: 5, meter: 3, bands });
        let bytes = "04 1d 0044 00000001 0001 0005 00000003
            0001 0010 000003e8 0000000a 00000000
            0002 0010 000001f4 00000014 02 000000
            ffff 0014 00000001 00000002 00000009 01020304";
        check(Version::Of13, bytes, meter_mod.clone());
        check_unsupported(Version::Of10, meter_mod);
    }

    #[test]
    fn a_band_of_another_type_or_length_is_refused() {
        for band in ["0005 0010", "0001 0000", "0001 000f", "0001 0011"] {
            let bytes = hex(&format!("04 1d 0020 00000001 0001 0005 00000003 {band} 00000001 00000001 00000000"));
            assert!(Message::decode(&bytes).is_err(), "{band}");
        }
    }
}
