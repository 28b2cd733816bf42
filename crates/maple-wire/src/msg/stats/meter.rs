//! Counters, configurations and features of meters (1.3 §7.3.5.12 to §7.3.5.14).

use crate::error::Result;
use crate::msg::bytes::{Elements, Layout, Put, exactly, records, u16_at, u32_at, u64_at};
use crate::msg::meter_mod::{Band, BandView};

/// Offsets in a meter's counters.
mod offset {
    pub const METER: usize = 0;
    pub const LENGTH: usize = 4;
    pub const FLOW_COUNT: usize = 12;
    pub const PACKET_COUNT: usize = 16;
    pub const BYTE_COUNT: usize = 24;
    pub const DURATION_SEC: usize = 32;
    pub const DURATION_NSEC: usize = 36;
    pub const BANDS: usize = 40;
    /// The length of a band's counters in bytes.
    pub const BAND_LEN: usize = 16;
}

/// Offsets in a meter's configuration.
mod config_offset {
    pub const LENGTH: usize = 0;
    pub const FLAGS: usize = 2;
    pub const METER: usize = 4;
    pub const BANDS: usize = 8;
}

/// Offsets in the features.
mod features_offset {
    pub const MAX_METER: usize = 0;
    pub const BAND_TYPES: usize = 4;
    pub const CAPABILITIES: usize = 8;
    pub const MAX_BANDS: usize = 12;
    pub const MAX_COLOR: usize = 13;
    pub const END: usize = 16;
}

const STATS: Layout =
    Layout { what: "meter statistics", length_at: offset::LENGTH, min: offset::BANDS, multiple: 1, pad_to: 1 };
const CONFIG: Layout =
    Layout { what: "meter", length_at: config_offset::LENGTH, min: config_offset::BANDS, multiple: 1, pad_to: 1 };

/// The counters of a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterStats {
    /// The meter.
    pub meter: u32,
    /// The number of rules that use the meter.
    pub flow_count: u32,
    /// Packets that entered the meter.
    pub packet_in_count: u64,
    /// Bytes that entered the meter.
    pub byte_in_count: u64,
    /// Seconds for which the meter has existed.
    pub duration_sec: u32,
    /// Nanoseconds beyond `duration_sec`.
    pub duration_nsec: u32,
    /// The counters of each band.
    pub bands: Vec<BandCounter>,
}

/// The counters of the packets that a band applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandCounter {
    /// Packets.
    pub packet_count: u64,
    /// Bytes.
    pub byte_count: u64,
}

/// The configuration of a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Bits of `OFPMF_*`.
    pub flags: u16,
    /// The meter.
    pub meter: u32,
    /// The meter's bands.
    pub bands: Vec<Band>,
}

/// The abilities of meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterFeatures {
    /// The maximum number of meters.
    pub max_meter: u32,
    /// Bits of `1 << OFPMBT_*`.
    pub band_types: u32,
    /// Bits of `OFPMF_*`.
    pub capabilities: u32,
    /// The maximum number of bands of a meter.
    pub max_bands: u8,
    /// The largest colour value.
    pub max_color: u8,
}

impl MeterStats {
    /// Reads the body of a reply.
    pub(super) fn parse_list(body: &[u8]) -> Result<Vec<MeterStats>> {
        Elements::new(STATS, body).map(|bytes| MeterStats::parse(bytes?)).collect()
    }

    fn parse(bytes: &[u8]) -> Result<MeterStats> {
        let bands = records("band counters", &bytes[offset::BANDS..], offset::BAND_LEN)?;
        Ok(MeterStats {
            meter: u32_at(bytes, offset::METER),
            flow_count: u32_at(bytes, offset::FLOW_COUNT),
            packet_in_count: u64_at(bytes, offset::PACKET_COUNT),
            byte_in_count: u64_at(bytes, offset::BYTE_COUNT),
            duration_sec: u32_at(bytes, offset::DURATION_SEC),
            duration_nsec: u32_at(bytes, offset::DURATION_NSEC),
            bands: bands
                .map(|bytes| BandCounter { packet_count: u64_at(bytes, 0), byte_count: u64_at(bytes, 8) })
                .collect(),
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_sized(offset::LENGTH, |out| {
            out.put_u32(self.meter);
            out.put_zeros(8);
            out.put_u32(self.flow_count);
            out.put_u64(self.packet_in_count);
            out.put_u64(self.byte_in_count);
            out.put_u32(self.duration_sec);
            out.put_u32(self.duration_nsec);
            for band in &self.bands {
                out.put_u64(band.packet_count);
                out.put_u64(band.byte_count);
            }
            Ok(())
        })
    }
}

impl MeterConfig {
    /// Reads the body of a reply.
    pub(super) fn parse_list(body: &[u8]) -> Result<Vec<MeterConfig>> {
        Elements::new(CONFIG, body).map(|bytes| MeterConfig::parse(bytes?)).collect()
    }

    fn parse(bytes: &[u8]) -> Result<MeterConfig> {
        Ok(MeterConfig {
            flags: u16_at(bytes, config_offset::FLAGS),
            meter: u32_at(bytes, config_offset::METER),
            bands: BandView::list(&bytes[config_offset::BANDS..])
                .map(|band| Band::parse(&band?))
                .collect::<Result<_>>()?,
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_sized(config_offset::LENGTH, |out| {
            out.put_u16(0);
            out.put_u16(self.flags);
            out.put_u32(self.meter);
            self.bands.iter().try_for_each(|band| band.emit(out))
        })
    }
}

impl MeterFeatures {
    /// Reads the body of a reply.
    pub(super) fn parse(body: &[u8]) -> Result<MeterFeatures> {
        exactly("meter features", body, features_offset::END)?;
        Ok(MeterFeatures {
            max_meter: u32_at(body, features_offset::MAX_METER),
            band_types: u32_at(body, features_offset::BAND_TYPES),
            capabilities: u32_at(body, features_offset::CAPABILITIES),
            max_bands: body[features_offset::MAX_BANDS],
            max_color: body[features_offset::MAX_COLOR],
        })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.max_meter);
        out.put_u32(self.band_types);
        out.put_u32(self.capabilities);
        out.put_u8(self.max_bands);
        out.put_u8(self.max_color);
        out.put_zeros(2);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::meter_mod::BandKind;
    use crate::msg::stats::{ReplyBody, StatsReply};
    use crate::msg::test::{check, check_truncated, hex};
    use crate::msg::{Message, Version};

    fn reply(body: ReplyBody) -> Message {
        Message::StatsReply(StatsReply::new(body))
    }

    #[test]
    fn a_meter_counts_its_bands_apart() {
        let stats = MeterStats {
            meter: 7,
            flow_count: 2,
            packet_in_count: 3,
            byte_in_count: 300,
            duration_sec: 4,
            duration_nsec: 5,
            bands: vec![BandCounter { packet_count: 1, byte_count: 100 }],
        };
        let bytes = "04 13 0048 00000001 0009 0000 00000000
            00000007 0038 000000000000 00000002 0000000000000003 000000000000012c 00000004 00000005
            0000000000000001 0000000000000064";
        check(Version::Of13, bytes, reply(ReplyBody::Meter(vec![stats])));
        check_truncated(bytes);
    }

    #[test]
    fn a_meter_is_described_with_its_bands() {
        let band = Band { rate: 1000, burst: 10, kind: BandKind::Drop };
        let bytes = "04 13 0028 00000001 000a 0000 00000000 0018 000d 00000007
            0001 0010 000003e8 0000000a 00000000";
        let config = MeterConfig { flags: 13, meter: 7, bands: vec![band] };
        check(Version::Of13, bytes, reply(ReplyBody::MeterConfig(vec![config])));
        check_truncated(bytes);
    }

    #[test]
    fn features_are_numbers() {
        let features = MeterFeatures { max_meter: 256, band_types: 6, capabilities: 15, max_bands: 255, max_color: 1 };
        let bytes = "04 13 0020 00000001 000b 0000 00000000 00000100 00000006 0000000f ff 01 0000";
        check(Version::Of13, bytes, reply(ReplyBody::MeterFeatures(features)));
        check_truncated(bytes);
    }

    #[test]
    fn meters_of_length_zero_are_refused() {
        assert!(Message::decode(&hex("04 13 0018 00000001 000a 0000 00000000 0000 0003 00000007")).is_err());
    }
}
