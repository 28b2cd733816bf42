//! Five thousand switches that flood. `MAPLE_STRESS=10` makes the flood ten times as long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use maple_controller::session::SwitchInfo;
use maple_handlers::{Handlers, LearningSwitch};
use maple_load::{LoadOptions, Mode};

use crate::common::{LONG, Maple, descriptors, eventually, longer};
use crate::{alone, held_bytes};

#[test]
fn five_thousand_switches_flood_and_memory_stays_flat() {
    const SWITCHES: u32 = 5000;
    let _alone = alone();
    // Each connection has both of its ends in this process.
    if !descriptors(2 * u64::from(SWITCHES)) {
        return;
    }
    let maple = Maple::with(|options| {
        options.programs = Some(Arc::new(Handlers::new(|_: &SwitchInfo| LearningSwitch::new())));
    });
    let options = LoadOptions {
        switches: SWITCHES,
        macs: 8,
        mode: Mode::Throughput { window: 16 },
        duration: Duration::from_secs(3) * longer(),
        warmup: Duration::from_millis(500),
        settle: Duration::from_millis(100),
        ..LoadOptions::new(maple.address)
    };
    let load = std::thread::spawn(move || maple_load::run(&options));
    // By then every switch has sent all of its addresses, and all buffers have been used.
    let packets = u64::from(SWITCHES) * 16;
    let start = Instant::now();
    while maple.count("of_packet_ins") < packets && !load.is_finished() {
        assert!(start.elapsed() < LONG * 6, "{} packet-ins", maple.count("of_packet_ins"));
        std::thread::sleep(Duration::from_millis(20));
    }
    let (before, mut most, mut connected) = (held_bytes(), 0, 0);
    while !load.is_finished() {
        most = most.max(held_bytes());
        connected = connected.max(maple.handle.stats().unwrap().connections);
        std::thread::sleep(Duration::from_millis(20));
    }
    let report = load.join().expect("it does not panic").expect("no switch was cut off");
    assert_eq!(report.silent_switches, 0, "{report}");
    assert_eq!((connected, maple.count("of_dp_connections")), (SWITCHES as usize, u64::from(SWITCHES)));
    let grown = most.saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more, {} packet-ins later", maple.count("of_packet_ins") - packets);
    eventually("all are gone", || maple.handle.stats().unwrap().connections == 0);
}
