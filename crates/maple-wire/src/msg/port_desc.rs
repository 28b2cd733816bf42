//! A port's description: `ofp_phy_port` (1.0 §5.2.1), `ofp_port` (1.3 §7.2.1).

use super::wire::{Only13, Padded, layout};
use crate::port::{Port, PortNo};

layout! {
    impl Port {
        number: PortNo as Padded<0, 4>,
        hw_addr: [u8; 6] as Padded<0, 2>,
        name_raw: [u8; 16],
        config: u32,
        state: u32,
        curr: u32,
        advertised: u32,
        supported: u32,
        peer: u32,
        curr_speed: u32 as Only13,
        max_speed: u32 as Only13,
    }
}
