//! Random rules, groups and frames. They are made of few values, so that frames meet rules.
//!
//! What differs between the two switches on purpose is left out: `docs/emulator.md` has the list.

use maple_wire::ip_proto::{ICMP, ICMPV6, SCTP, TCP, UDP};
use maple_wire::msg::{Bucket, FlowMod, FlowModCommand, GroupMod};
use maple_wire::packet::Frame;
use maple_wire::{Action, Constraint, Field, Instruction, Match, Message, PortNo, Version};

/// A stream of numbers that its seed determines (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

const TABLES: u64 = 4;
const GROUPS: u64 = 4;
const MACS: [u128; 3] = [0x0200_0000_0001, 0x0200_0000_0002, 0x0300_0000_0002];
const IPS: [u32; 3] = [0x0a00_0001, 0x0a00_0002, 0xc0a8_0109];
const IPS6: [u128; 2] = [0x2001_0db8_0000_0000_0000_0000_0000_0001, 0xfe80_0000_0000_0000_0000_0000_0000_0002];
const PORTS: [u16; 3] = [53, 80, 0x8000];
const VIDS: [u16; 3] = [0, 1, 100];

/// The headers that a rule asks for, or that a frame has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Any,
    Ipv4(u8),
    Ipv6(u8),
    Arp,
    Mpls,
}

fn kind(random: &mut Random, version: Version) -> Kind {
    let last = if version == Version::Of10 { 8 } else { 12 };
    match random.below(last) {
        0 | 1 => Kind::Any,
        2 => Kind::Ipv4(0),
        3 => Kind::Ipv4(TCP),
        4 => Kind::Ipv4(UDP),
        5 => Kind::Ipv4(ICMP),
        6 => Kind::Ipv4(SCTP),
        7 => Kind::Arp,
        8 => Kind::Ipv6(random.pick(&[0, TCP, UDP])),
        9 => Kind::Ipv6(ICMPV6),
        _ => Kind::Mpls,
    }
}

/// Returns what a rule of this kind may ask for, besides what every rule may: fields, values, masks.
fn questions(kind: Kind, version: Version) -> Vec<(Field, u128, u128)> {
    let exact = |field: Field, value: u128| (field, value, field.full_mask());
    let ports = |src, dst| vec![exact(src, 80), exact(src, 53), exact(dst, 53), exact(dst, 0x8000)];
    let transport = |number| match number {
        TCP => ports(Field::TcpSrc, Field::TcpDst),
        UDP => ports(Field::UdpSrc, Field::UdpDst),
        SCTP if version == Version::Of13 => ports(Field::SctpSrc, Field::SctpDst),
        ICMP => vec![exact(Field::Icmpv4Type, 8), exact(Field::Icmpv4Type, 3), exact(Field::Icmpv4Code, 1)],
        ICMPV6 => vec![exact(Field::Icmpv6Type, 128), exact(Field::Icmpv6Code, 0)],
        _ => vec![],
    };
    let mut all = match kind {
        Kind::Any => vec![],
        Kind::Ipv4(number) => {
            let prefix = (Field::Ipv4Src, 0x0a00_0000, 0xff00_0000);
            let to = exact(Field::Ipv4Dst, IPS[1].into());
            [vec![exact(Field::IpDscp, 10), prefix, to, exact(Field::Ipv4Src, IPS[2].into())], transport(number)]
                .concat()
        }
        Kind::Ipv6(number) => {
            let holes = (Field::Ipv6Src, 1, 0xf);
            let prefix = (Field::Ipv6Dst, IPS6[0] & !0xffff, !0xffff);
            let label = exact(Field::Ipv6Flabel, 5);
            [vec![exact(Field::IpDscp, 10), holes, prefix, label], transport(number)].concat()
        }
        Kind::Arp => {
            vec![exact(Field::ArpOp, 1), exact(Field::ArpSpa, IPS[0].into()), exact(Field::ArpTpa, IPS[1].into())]
        }
        Kind::Mpls => vec![
            exact(Field::MplsLabel, 7),
            exact(Field::MplsLabel, 9),
            exact(Field::MplsTc, 3),
            exact(Field::MplsBos, 1),
        ],
    };
    if version == Version::Of13 && matches!(kind, Kind::Ipv4(_) | Kind::Ipv6(_)) {
        all.push(exact(Field::IpEcn, 2));
    }
    if version == Version::Of13 && kind == Kind::Arp {
        all.push(exact(Field::ArpSha, MACS[0]));
        all.push((Field::ArpTha, 0x0200_0000_0000, 0xff00_0000_0000));
    }
    all
}

fn matching(random: &mut Random, version: Version, kind: Kind) -> Match {
    let mut all: Vec<Constraint> = match kind {
        Kind::Any => vec![],
        Kind::Ipv4(0) => vec![Constraint::exact(Field::EthType, 0x0800)],
        Kind::Ipv6(0) => vec![Constraint::exact(Field::EthType, 0x86dd)],
        Kind::Ipv4(number) => [(Field::EthType, 0x0800), (Field::IpProto, number.into())].map(exact).into(),
        Kind::Ipv6(number) => [(Field::EthType, 0x86dd), (Field::IpProto, number.into())].map(exact).into(),
        Kind::Arp => vec![Constraint::exact(Field::EthType, 0x0806)],
        Kind::Mpls => vec![Constraint::exact(Field::EthType, random.pick(&[0x8847, 0x8847, 0x8848]))],
    };
    let mut more = questions(kind, version);
    more.push((Field::InPort, u128::from(1 + random.below(4)), Field::InPort.full_mask()));
    more.push((Field::EthDst, random.pick(&MACS), Field::EthDst.full_mask()));
    more.push((Field::EthSrc, random.pick(&MACS), Field::EthSrc.full_mask()));
    let vid = if random.percent(30) { 0 } else { 0x1000 | u128::from(random.pick(&VIDS)) };
    more.push((Field::VlanVid, vid, Field::VlanVid.full_mask()));
    if version == Version::Of13 {
        more.push((Field::VlanVid, 0x1000, 0x1000));
        more.push((Field::EthDst, 0x0100_0000_0000, 0x0100_0000_0000));
        more.push((Field::EthSrc, 2, 3));
        more.push((Field::Metadata, u128::from(random.below(4)), 3));
    }
    for _ in 0..random.below(3) {
        let (field, value, mask) = random.pick(&more);
        if !all.iter().any(|c| c.field == field) {
            all.push(Constraint::masked(field, value, mask));
        }
    }
    // Priorities need an id that says that there is a tag.
    let is_tagged = all.iter().any(|c| c.field == Field::VlanVid && c.value & 0x1000 != 0);
    if is_tagged && random.percent(40) {
        all.push(Constraint::exact(Field::VlanPcp, u128::from(random.pick(&[0u8, 5]))));
    }
    Match::from_constraints(all)
}

fn exact((field, value): (Field, u128)) -> Constraint {
    Constraint::exact(field, value)
}

fn output(random: &mut Random) -> Action {
    match random.below(12) {
        0 => Action::output(PortNo::IN_PORT),
        1 => Action::output(PortNo::ALL),
        2 => Action::output(PortNo::FLOOD),
        3 => Action::to_controller(),
        4 => Action::output(PortNo(9)),
        _ => Action::output(PortNo(1 + random.below(4) as u32)),
    }
}

fn set(field: Field, value: u128) -> Action {
    Action::SetField(Constraint::exact(field, value))
}

/// Returns an action for packets of this kind. Some of them are not allowed there: then both switches must refuse.
fn action(random: &mut Random, version: Version, kind: Kind) -> Action {
    if random.percent(45) {
        return output(random);
    }
    let vid = random.pick(&VIDS);
    if version == Version::Of10 {
        let has_ports = matches!(kind, Kind::Ipv4(TCP | UDP));
        return match random.below(if has_ports { 10 } else { 8 }) {
            0 => Action::SetVlanVid(vid),
            1 => Action::SetVlanPcp(random.below(8) as u8),
            2 => Action::PopVlan,
            3 => set(Field::EthSrc, random.pick(&MACS)),
            4 => set(Field::EthDst, random.pick(&MACS)),
            5 => set(Field::Ipv4Src, random.pick(&IPS).into()),
            6 => set(Field::Ipv4Dst, random.pick(&IPS).into()),
            7 => set(Field::IpDscp, random.below(64).into()),
            8 => Action::SetTpSrc(random.pick(&PORTS)),
            _ => Action::SetTpDst(random.pick(&PORTS)),
        };
    }
    let general = 11;
    match random.below(general + 6) {
        0 => Action::PushVlan(random.pick(&[0x8100, 0x8100, 0x88a8])),
        1 => Action::PopVlan,
        2 => set(Field::VlanVid, u128::from(0x1000 | vid)),
        3 => set(Field::VlanPcp, random.below(8).into()),
        4 => set(Field::EthSrc, random.pick(&MACS)),
        5 => set(Field::EthDst, random.pick(&MACS)),
        6 => Action::Group(1 + random.below(GROUPS) as u32),
        7 => Action::SetQueue(random.below(3) as u32),
        8 => set(Field::Metadata, random.below(4).into()),
        9 => Action::PushMpls(random.pick(&[0x8847, 0x8848])),
        10 => Action::PopMpls(random.pick(&[0x0800, 0x8847])),
        _ => particular(random, kind),
    }
}

/// Returns an action of 1.3 on the headers of one kind of packets.
fn particular(random: &mut Random, kind: Kind) -> Action {
    let ports: &[Field] = match kind {
        Kind::Ipv4(TCP) | Kind::Ipv6(TCP) => &[Field::TcpSrc, Field::TcpDst],
        Kind::Ipv4(UDP) | Kind::Ipv6(UDP) => &[Field::UdpSrc, Field::UdpDst],
        Kind::Ipv4(SCTP) => &[Field::SctpSrc, Field::SctpDst],
        _ => &[],
    };
    if !ports.is_empty() && random.percent(40) {
        return set(random.pick(ports), random.pick(&PORTS).into());
    }
    match (kind, random.below(6)) {
        (Kind::Ipv4(_) | Kind::Ipv6(_), 0 | 1) => Action::DecNwTtl,
        (Kind::Ipv4(_) | Kind::Ipv6(_), 2) => Action::SetNwTtl(random.pick(&[1, 2, 64])),
        (Kind::Ipv4(_) | Kind::Ipv6(_), 3) => set(Field::IpDscp, random.below(64).into()),
        (Kind::Ipv4(_) | Kind::Ipv6(_), 4) => set(Field::IpEcn, random.below(4).into()),
        (Kind::Ipv4(_), _) => set(random.pick(&[Field::Ipv4Src, Field::Ipv4Dst]), random.pick(&IPS).into()),
        (Kind::Ipv6(_), _) => set(random.pick(&[Field::Ipv6Src, Field::Ipv6Dst]), random.pick(&IPS6)),
        (Kind::Arp, 0) => set(Field::ArpOp, random.pick(&[1, 2])),
        (Kind::Arp, 1 | 2) => set(random.pick(&[Field::ArpSpa, Field::ArpTpa]), random.pick(&IPS).into()),
        (Kind::Arp, _) => set(random.pick(&[Field::ArpSha, Field::ArpTha]), random.pick(&MACS)),
        (Kind::Mpls, 0) => set(Field::MplsLabel, random.pick(&[7, 9])),
        (Kind::Mpls, 1) => set(Field::MplsTc, random.below(8).into()),
        (Kind::Mpls, 2 | 3) => Action::DecMplsTtl,
        (Kind::Mpls, 4) => Action::SetMplsTtl(random.pick(&[1, 64])),
        _ => output(random),
    }
}

fn actions(random: &mut Random, version: Version, kind: Kind) -> Vec<Action> {
    let mut all: Vec<Action> = (0..1 + random.below(4)).map(|_| action(random, version, kind)).collect();
    if random.percent(60) {
        all.push(output(random));
    }
    all
}

/// The place where the rules of a round push tags and labels. Packets with two tags differ on purpose, as do those with
/// four labels, so a packet meets at most one push of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pushes {
    /// Nowhere: then frames come in with a tag.
    Nowhere,
    /// Actions that the first table applies.
    Applied,
    /// The action set.
    Written,
}

/// The subject of a round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    version: Version,
    pushes: Pushes,
    /// Whether rules have write-actions. Then none makes a packet enter Open vSwitch's datapath a second time, as
    /// popping a label and selecting a bucket do: with an action set, Open vSwitch 3.1 can fail an assertion there.
    has_sets: bool,
}

impl Round {
    pub fn new(random: &mut Random, version: Version) -> Round {
        let pushes = random.pick(&[Pushes::Nowhere, Pushes::Applied, Pushes::Written]);
        Round { version, pushes, has_sets: random.percent(60) }
    }

    /// Reports whether packet-outs are a part of it. Open vSwitch forgets that a packet was injected when it enters the
    /// datapath a second time: its packet-ins then say that no rule took it.
    pub fn has_packet_outs(self) -> bool {
        self.has_sets || self.version == Version::Of10
    }
}

/// Leaves out pushes where there are to be none, and all but the first one of a kind elsewhere, and pops of labels
/// beside action sets.
fn allowed(mut all: Vec<Action>, may_push: bool, round: Round) -> Vec<Action> {
    let (mut tags, mut labels) = (0, 0);
    all.retain(|action| {
        let count = match action {
            Action::PushVlan(_) => &mut tags,
            Action::PushMpls(_) | Action::PopMpls(_) => &mut labels,
            _ => return true,
        };
        *count += 1;
        // Where labels are pushed, what is under them may be anything.
        let may_pop = !round.has_sets && round.pushes == Pushes::Nowhere;
        let is_allowed = if matches!(action, Action::PopMpls(_)) { may_pop } else { may_push };
        is_allowed && *count == 1
    });
    // What a new label says at first differs on purpose.
    let said = [set(Field::MplsLabel, 7), set(Field::MplsTc, 3), Action::SetMplsTtl(64)];
    if let Some(at) = all.iter().position(|action| matches!(action, Action::PushMpls(_))) {
        all.splice(at + 1..at + 1, said);
    }
    all
}

fn instructions(random: &mut Random, round: Round, kind: Kind, table: u64) -> Vec<Instruction> {
    let Round { version, pushes, has_sets } = round;
    if version == Version::Of10 {
        let is_drop = random.percent(8);
        return if is_drop { vec![] } else { vec![Instruction::ApplyActions(actions(random, version, kind))] };
    }
    let mut all = Vec::new();
    if random.percent(60) {
        let may_push = pushes == Pushes::Applied && table == 0;
        all.push(Instruction::ApplyActions(allowed(actions(random, version, kind), may_push, round)));
    }
    if random.percent(10) {
        all.push(Instruction::ClearActions);
    }
    if has_sets && random.percent(50) {
        let may_push = pushes == Pushes::Written;
        let mut written = allowed(actions(random, version, kind), may_push, round);
        written.retain(|action| !sets_tag(action));
        all.push(Instruction::WriteActions(written));
    }
    if random.percent(20) {
        let mask = random.pick(&[1, 3]);
        all.push(Instruction::WriteMetadata { metadata: random.below(4) & mask, mask });
    }
    if table + 1 < TABLES && random.percent(60) {
        all.push(Instruction::GotoTable((table + 1 + random.below(TABLES - table - 1)) as u8));
    }
    all
}

/// Returns a rule, with a cookie of its own. No two rules have one priority: the winner would be open.
fn rule(random: &mut Random, round: Round, number: u64) -> FlowMod {
    let version = round.version;
    let kind = kind(random, version);
    let table = if version == Version::Of10 { 0 } else { random.below(TABLES) };
    let is_miss = version == Version::Of13 && random.percent(10);
    let matching = if is_miss { Match::any() } else { matching(random, version, kind) };
    let mut instructions = instructions(random, round, if is_miss { Kind::Any } else { kind }, table);
    if is_miss && !round.has_sets {
        instructions.iter_mut().for_each(keep_in_datapath);
    }
    // What is under a label that is popped is what the action says.
    let popped = instructions.iter().flat_map(Instruction::actions).find_map(|action| match action {
        Action::PopMpls(eth_type) => Some(Constraint::exact(Field::MplsBos, u128::from(*eth_type != 0x8847))),
        _ => None,
    });
    let matching = match popped.filter(|_| kind == Kind::Mpls && !is_miss) {
        Some(bottom) => Match::from_constraints(
            matching.constraints().copied().filter(|c| c.field != Field::MplsBos).chain([bottom]),
        ),
        None => matching,
    };
    let priority = if is_miss { 0 } else { 1 + number as u16 };
    let request = FlowMod::new(FlowModCommand::Add, priority, matching, instructions);
    FlowMod { table_id: table as u8, cookie: 0x100 + number, ..request }
}

/// Leaves out the actions that make a packet enter Open vSwitch's datapath a second time. It then forgets that the rule
/// was a table miss: later packet-ins of the rule say that an action sent them.
fn keep_in_datapath(instruction: &mut Instruction) {
    if let Instruction::ApplyActions(all) = instruction {
        all.retain(|action| !matches!(action, Action::Group(_) | Action::PopMpls(_)));
    }
}

/// Reports whether an action sets a part of a tag. Open vSwitch pushes a tag for it if there is none, which groups and
/// action sets leave open.
fn sets_tag(action: &Action) -> bool {
    matches!(action, Action::SetField(c) if matches!(c.field, Field::VlanVid | Field::VlanPcp))
}

/// Returns a group. Select groups have one bucket, since each switch has its own hash.
fn group(random: &mut Random, round: Round, number: u32) -> GroupMod {
    let kind = random.pick(if round.has_sets { &[0, 2, 3] } else { &[0, 1, 2, 3] });
    let count = if matches!(kind, 1 | 2) { 1 } else { 1 + random.below(3) };
    let bucket = |random: &mut Random| Bucket {
        weight: u16::from(kind == 1),
        watch_port: if kind == 3 { PortNo(random.pick(&[1, 2, 9])) } else { PortNo::ANY },
        watch_group: u32::MAX,
        actions: {
            let kind = random.pick(&[Kind::Any, Kind::Ipv4(UDP)]);
            let mut all = allowed(actions(random, Version::Of13, kind), false, round);
            // Groups within groups lead to later ones only, so there is no circle.
            all.retain(|action| !matches!(action, Action::Group(other) if *other <= number));
            // What is under a popped label is unknown.
            all.retain(|action| !sets_tag(action) && !matches!(action, Action::PopMpls(_)));
            all
        },
    };
    GroupMod { command: 0, kind, group: number, buckets: (0..count).map(|_| bucket(random)).collect() }
}

/// Returns random groups and rules.
pub fn messages(random: &mut Random, round: Round) -> Vec<Message> {
    let version = round.version;
    let mut all = Vec::new();
    if version == Version::Of13 {
        // Later groups first, since others lead to them.
        all.extend((1..=GROUPS as u32).rev().map(|number| Message::GroupMod(group(random, round, number))));
    }
    let rules = 4 + random.below(24);
    all.extend((0..rules).map(|number| Message::FlowMod(rule(random, round, number))));
    all
}

/// Returns a random frame.
pub fn frame(random: &mut Random, round: Round) -> Vec<u8> {
    let mac = |random: &mut Random| -> [u8; 6] {
        let [_, _, a, b, c, d, e, f] = (random.pick(&MACS) as u64).to_be_bytes();
        [a, b, c, d, e, f]
    };
    let mut ethernet = Frame::ethernet(mac(random), mac(random));
    if round.pushes == Pushes::Nowhere && random.percent(50) {
        let tpid = random.pick(&[0x8100, 0x8100, 0x88a8]);
        ethernet = ethernet.tag(tpid, random.pick(&VIDS), random.pick(&[0, 5]));
    }
    let payload: Vec<u8> = (0..random.pick(&[0, 1, 7, 40])).map(|n| n as u8).collect();
    let (ttl, dscp, ecn) = (random.pick(&[1, 2, 64]), random.pick(&[0, 10]), random.pick(&[0, 2]));
    let (src, dst) = (random.pick(&PORTS), random.pick(&PORTS));
    let ip = match random.below(16) {
        0 => return ethernet.raw(0x88b5, &payload),
        1 => {
            let (op, sha, tha) = (random.pick(&[1, 2]), mac(random), mac(random));
            return ethernet.arp(op, sha, random.pick(&IPS).into(), tha, random.pick(&IPS).into());
        }
        2 | 3 => {
            let inner = Frame::ethernet([0; 6], [0; 6]).ipv4(random.pick(&IPS), random.pick(&IPS)).ttl(ttl);
            let inner = inner.udp(src, dst).payload(&payload);
            let labels: &[u32] = random.pick(&[&[7], &[9], &[9, 7]]);
            return ethernet.mpls(labels, &inner[14..]);
        }
        4..=11 => ethernet.ipv4(random.pick(&IPS), random.pick(&IPS)),
        _ => ethernet.ipv6(random.pick(&IPS6), random.pick(&IPS6)).flow_label(random.pick(&[0, 5])),
    };
    let ip = ip.ttl(ttl).dscp(dscp).ecn(ecn);
    let ip = if random.percent(8) { ip.fragment(0, true, 9) } else { ip };
    match random.below(6) {
        0 | 1 => ip.tcp(src, dst).payload(&payload),
        2 | 3 => ip.udp(src, dst).payload(&payload),
        4 => ip.sctp(src, dst).payload(&payload),
        _ => ip.echo_request(1, 2).payload(&payload),
    }
}
