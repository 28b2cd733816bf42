//! Meter-mod: changes a meter (1.3 §7.3.4.4).

use super::bytes::{Elements, Layout, Put, at_least, exactly, u16_at, u32_at};
use crate::error::{Error, Result};

mod offset {
    pub const COMMAND: usize = 8;
    pub const FLAGS: usize = 10;
    pub const METER: usize = 12;
    pub const BANDS: usize = 16;
}

mod band_offset {
    pub const TYPE: usize = 0;
    pub const LENGTH: usize = 2;
    pub const RATE: usize = 4;
    pub const BURST: usize = 8;
    pub const BODY: usize = 12;
    pub const END: usize = 16;
}

/// The types of bands (`OFPMBT_*`).
mod kind {
    pub const DROP: u16 = 1;
    pub const DSCP_REMARK: u16 = 2;
    pub const EXPERIMENTER: u16 = 0xffff;
}

const BAND: Layout =
    Layout { what: "meter band", length_at: band_offset::LENGTH, min: band_offset::END, multiple: 1, pad_to: 1 };

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

/// A meter's action above a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    /// The rate, in kb/s or packets/s according to the meter's flags.
    pub rate: u32,
    /// The size of a burst, in kilobits or packets.
    pub burst: u32,
    /// The treatment of packets above the rate.
    pub kind: BandKind,
}

/// The treatment of packets above a rate. Other types of bands are refused (`OFPMMFC_BAD_BAND`).
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// A view of a meter-mod.
#[derive(Clone, Copy, Debug)]
pub struct MeterModView<'a> {
    bytes: &'a [u8],
}

impl<'a> MeterModView<'a> {
    /// Creates a view of the meter-mod that takes all of `bytes`, header included.
    ///
    /// # Errors
    /// [`Error::Truncated`] if `bytes` ends within the fixed part.
    pub fn new_checked(bytes: &'a [u8]) -> Result<MeterModView<'a>> {
        at_least("meter-mod", bytes, offset::BANDS)?;
        Ok(MeterModView { bytes })
    }

    /// Returns the command, `OFPMC_*`.
    pub fn command(&self) -> u16 {
        u16_at(self.bytes, offset::COMMAND)
    }

    /// Returns bits of `OFPMF_*`.
    pub fn flags(&self) -> u16 {
        u16_at(self.bytes, offset::FLAGS)
    }

    /// Returns the meter's number.
    pub fn meter(&self) -> u32 {
        u32_at(self.bytes, offset::METER)
    }

    /// Iterates over the bands. The first error is the last item.
    pub fn bands(&self) -> impl Iterator<Item = Result<BandView<'a>>> {
        BandView::list(&self.bytes[offset::BANDS..])
    }
}

/// A view of one band.
#[derive(Clone, Copy, Debug)]
pub struct BandView<'a> {
    bytes: &'a [u8],
}

impl<'a> BandView<'a> {
    /// Iterates over the bands that lie one after the other in `bytes`; the first error is the last item.
    pub fn list(bytes: &'a [u8]) -> impl Iterator<Item = Result<BandView<'a>>> {
        Elements::new(BAND, bytes).map(|bytes| bytes.map(|bytes| BandView { bytes }))
    }

    /// Returns the rate, in kb/s or packets/s according to the meter's flags.
    pub fn rate(&self) -> u32 {
        u32_at(self.bytes, band_offset::RATE)
    }

    /// Returns the size of a burst, in kilobits or packets.
    pub fn burst(&self) -> u32 {
        u32_at(self.bytes, band_offset::BURST)
    }

    /// Returns the treatment of packets above the rate.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a type that 1.3 does not have, [`Error::BadLength`] for a wrong length.
    pub fn kind(&self) -> Result<BandKind> {
        let kind = u16_at(self.bytes, band_offset::TYPE);
        if kind != kind::EXPERIMENTER {
            exactly(BAND.what, self.bytes, band_offset::END)?;
        }
        match kind {
            kind::DROP => Ok(BandKind::Drop),
            kind::DSCP_REMARK => Ok(BandKind::DscpRemark(self.bytes[band_offset::BODY])),
            kind::EXPERIMENTER => Ok(BandKind::Experimenter {
                id: u32_at(self.bytes, band_offset::BODY),
                body: self.bytes[band_offset::END..].to_vec(),
            }),
            kind => Err(Error::BadValue { what: "meter band type", value: kind.into() }),
        }
    }
}

impl MeterMod {
    /// Reads the owned form.
    ///
    /// # Errors
    /// The error of the first band that is malformed.
    pub fn parse(view: &MeterModView<'_>) -> Result<MeterMod> {
        Ok(MeterMod {
            command: view.command(),
            flags: view.flags(),
            meter: view.meter(),
            bands: view.bands().map(|band| Band::parse(&band?)).collect::<Result<_>>()?,
        })
    }

    /// Appends the message without its header.
    ///
    /// # Errors
    /// An error about lengths if a band is too long.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u16(self.command);
        out.put_u16(self.flags);
        out.put_u32(self.meter);
        self.bands.iter().try_for_each(|band| band.emit(out))
    }
}

impl Band {
    /// Reads the owned form.
    ///
    /// # Errors
    /// The errors of [`BandView::kind`].
    pub fn parse(view: &BandView<'_>) -> Result<Band> {
        Ok(Band { rate: view.rate(), burst: view.burst(), kind: view.kind()? })
    }

    /// Appends the band.
    ///
    /// # Errors
    /// An error about lengths if the band is too long.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_sized(band_offset::LENGTH, |out| {
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
                BandKind::DscpRemark(levels) => {
                    out.put_u8(*levels);
                    out.put_zeros(3);
                }
                BandKind::Experimenter { id, body } => {
                    out.put_u32(*id);
                    out.put(body);
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::test::{check, check_truncated, check_unsupported, hex};
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
        check_truncated(bytes);
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
