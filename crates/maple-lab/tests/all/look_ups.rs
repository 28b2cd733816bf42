//! Look-ups of programs: their answers are those of the tables, with tables of switches for look-ups and without.

use std::net::Ipv4Addr;
use std::sync::Arc;

use maple::prelude::*;
use maple::wire::Version;
use maple_core::engine::{Event, Options, ReportedRule};
use maple_core::policy::Policy as CorePolicy;
use maple_core::state::{Snapshot, Stored, Value, Write};
use maple_sim::seeds::Seeds;
use maple_sim::{Choices, SimNetwork};
use maple_wire::Instruction;
use maple_wire::packet::build::Frame;

/// The port by which packets enter. The others are answers.
const INGRESS: PortNo = PortNo(9);

const HOSTS: u64 = 5;

/// A packet, by the last bytes of its addresses, and its port.
#[derive(Clone, Copy, Debug)]
struct Sent {
    src: u64,
    dst: u64,
    service: u64,
}

impl Sent {
    fn random(random: &mut Choices) -> Sent {
        let mut below = |most| random.below(most) as u64;
        Sent { src: below(HOSTS as usize), dst: below(HOSTS as usize), service: below(3) }
    }

    fn frame(self) -> Vec<u8> {
        let (src, dst) = (address(self.src).octets(), address(self.dst).octets());
        Frame::ethernet([2, 0, 0, 0, 1, 1], mac(self.src).0)
            .ipv4(src, dst)
            .udp(1000, self.service as u16)
            .payload(b"hello")
    }
}

fn mac(host: u64) -> Mac {
    Mac::from_bits(0x0200_0000_0000 + u128::from(host))
}

fn address(host: u64) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host as u8)
}

/// Drops what blocked hosts send. Otherwise the destination decides, and if it does not, the service.
fn policy() -> Arc<dyn CorePolicy> {
    let blocked = Table::<Mac, bool>::new("blocked");
    let (places, services) = (Table::<Ipv4Addr, i64>::new("places"), Table::<u32, i64>::new("services"));
    let decide = move |pkt: &Packet, net: &Net| {
        if net.has_key(&blocked, pkt.eth_src()) {
            return Route::drop();
        }
        let port = net.look_up(&places, pkt.ipv4_dst()).or_else(|| net.look_up(&services, pkt.udp_dst()));
        port.map_or_else(Route::drop, |port| Route::to([PortNo(port as u32)]))
    };
    App::new(decide).into_parts().unwrap().0.policy
}

/// Returns where the policy sends a packet in a state, found by searches of the tables.
fn wanted(state: &Snapshot, sent: Sent) -> Option<PortNo> {
    let row = |table: &str, key: Value| state.table(table).and_then(|rows| rows.get(&key)).cloned();
    if row("blocked", mac(sent.src).to_value()).is_some() {
        return None;
    }
    let port =
        row("places", address(sent.dst).to_value()).or_else(|| row("services", (sent.service as u32).to_value()));
    port.map(|port| PortNo(i64::from_value(&port).expect("ports are stored") as u32))
}

/// Draws a write of a random row, or its removal.
fn change(random: &mut Choices) -> Write {
    let number = random.below(HOSTS as usize) as u64;
    let port = (!random.one_in(3)).then(|| (1 + random.below(3) as i64).to_value());
    let (table, key, value) = match random.below(3) {
        0 => ("blocked", mac(number).to_value(), port.map(|_| true.to_value())),
        1 => ("places", address(number).to_value(), port),
        _ => ("services", (number as u32 % 3).to_value(), port),
    };
    Write::Table { table: table.into(), key, value }
}

/// Returns how many rules match an address after random changes and packets, all of which went where the tables say.
/// Rules of keys do not count.
fn rules_of_addresses(seed: u64, look_up_tables: u8) -> usize {
    let mut random = Choices::new(seed);
    let options = Options { look_up_tables, track_hosts: false, ..Options::default() };
    let mut sim = SimNetwork::new(policy(), 1, &options, seed);
    sim.add_switch(Dpid(1), Version::Of13, INGRESS.0);
    sim.run();
    sim.settle();
    for _ in 0..20 {
        sim.report(Event::Write((0..1 + random.below(3)).map(|_| change(&mut random)).collect()));
        sim.run();
        let state = sim.store.snapshot();
        for _ in 0..30 {
            let sent = Sent::random(&mut random);
            sim.inject(Location::new(Dpid(1), INGRESS), sent.frame());
            sim.run();
            let ports: Vec<PortNo> = sim.delivered.drain(..).map(|delivery| delivery.at.port).collect();
            assert_eq!(ports, wanted(&state, sent).into_iter().collect::<Vec<_>>(), "{sent:?}");
        }
    }
    let of_address = |flow: &ReportedRule| {
        let leads_on = Instruction::GotoTable(flow.table_id + 1);
        let fields = [Field::EthSrc, Field::Ipv4Dst];
        fields.iter().any(|field| flow.matching.get(*field).is_some()) && !flow.instructions.contains(&leads_on)
    };
    let flows = sim.switches().flat_map(|switch| switch.flows());
    flows.filter(of_address).count()
}

#[test]
fn look_ups_of_programs_find_the_rows_of_the_tables() {
    let Seeds { fixed, fresh } = Seeds::share(|all| all, 20, 10);
    for seed in fixed.chain(fresh) {
        println!("MAPLE_SEED={seed}");
        assert_eq!(rules_of_addresses(seed, 3), 0, "decisions are for what was found");
        assert!(rules_of_addresses(seed, 0) > 0);
    }
}
