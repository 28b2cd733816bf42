//! Counters, configurations and features of meters (1.3 §7.3.5.12 to §7.3.5.14).

use serde::{Deserialize, Serialize};

use crate::msg::bytes::Element;
use crate::msg::meter_mod::Band;
use crate::msg::wire::{After, Padded, layout};

const METER_STATS: Element = Element::new("meter statistics", 4);
const METER: Element = Element::new("meter", 0);

layout! {
    /// The counters of a meter.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct MeterStats: METER_STATS {
        /// The meter.
        pub meter: u32,
        /// The number of rules that use the meter.
        pub flow_count: u32 as After<8>,
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
}

layout! {
    /// The counters of the packets that a band applied to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct BandCounter {
        /// Packets.
        pub packet_count: u64,
        /// Bytes.
        pub byte_count: u64,
    }
}

layout! {
    /// The configuration of a meter.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct MeterConfig: METER {
        /// Bits of `OFPMF_*`.
        pub flags: u16 as After<2>,
        /// The meter.
        pub meter: u32,
        /// The meter's bands.
        pub bands: Vec<Band>,
    }
}

layout! {
    /// The abilities of meters.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
        pub max_color: u8 as Padded<2>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msg::meter_mod::BandKind;
    use crate::msg::stats::{ReplyBody, StatsReply};
    use crate::msg::test::{check, hex};
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
    }

    #[test]
    fn a_meter_is_described_with_its_bands() {
        let band = Band { rate: 1000, burst: 10, kind: BandKind::Drop };
        let bytes = "04 13 0028 00000001 000a 0000 00000000 0018 000d 00000007
            0001 0010 000003e8 0000000a 00000000";
        let config = MeterConfig { flags: 13, meter: 7, bands: vec![band] };
        check(Version::Of13, bytes, reply(ReplyBody::MeterConfig(vec![config])));
    }

    #[test]
    fn features_are_numbers() {
        let features = MeterFeatures { max_meter: 256, band_types: 6, capabilities: 15, max_bands: 255, max_color: 1 };
        let bytes = "04 13 0020 00000001 000b 0000 00000000 00000100 00000006 0000000f ff 01 0000";
        check(Version::Of13, bytes, reply(ReplyBody::MeterFeatures(features)));
    }

    #[test]
    fn meters_of_length_zero_are_refused() {
        assert!(Message::decode(&hex("04 13 0018 00000001 000a 0000 00000000 0000 0003 00000007")).is_err());
    }
}
