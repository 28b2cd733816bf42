//! A client that behaves byte for byte as `cbench` does, against the built-in learning switch.
//!
//! The peculiarities of its switches, tested here: packet-ins come right after the features reply, while the controller
//! still asks; a destination is taught by a gratuitous ARP reply without a buffer; the packet-ins that follow are 82
//! bytes long and have buffer ids from 1 on; their frames are IPv4 with protocol 255, from addresses that count up in
//! the second byte first (a little-endian number); echo replies leave the data out; questions other than for the
//! description are not answered, and vendor messages with an error that has no data. The reply with the configuration
//! has its length in host order, so that a reader waits for 3,072 bytes. Every flow-mod that adds and every packet-out
//! counts as an answer.
//!
//! Nothing here uses this project's codec: messages are written and read by offset (OpenFlow 1.0 §5).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{LONG, Maple, missing};
use maple_controller::session::SwitchInfo;
use maple_handlers::{Handlers, LearningSwitch};
use tempfile::TempDir;

/// Types of messages (§5.1).
const HELLO: u8 = 0;
const ERROR: u8 = 1;
const ECHO_REQUEST: u8 = 2;
const ECHO_REPLY: u8 = 3;
const VENDOR: u8 = 4;
const FEATURES_REQUEST: u8 = 5;
const FEATURES_REPLY: u8 = 6;
const GET_CONFIG_REQUEST: u8 = 7;
const GET_CONFIG_REPLY: u8 = 8;
const SET_CONFIG: u8 = 9;
const PACKET_IN: u8 = 10;
const PACKET_OUT: u8 = 13;
const FLOW_MOD: u8 = 14;
const STATS_REQUEST: u8 = 16;
const STATS_REPLY: u8 = 17;
const BARRIER_REQUEST: u8 = 18;
const BARRIER_REPLY: u8 = 19;

/// The payload of the frames in packet-ins.
const PAYLOAD: [u8; 30] = [
    0x7a, 0x18, 0x58, 0x6b, 0x11, 0x08, 0x97, 0xf5, 0x19, 0xe2, 0x65, 0x7e, 0x07, 0xcc, 0x31, 0xc3, 0x11, 0xc7, 0xc4,
    0x0c, 0x8b, 0x95, 0x51, 0x51, 0x33, 0x54, 0x51, 0xd5, 0x00, 0x36,
];
/// The number of buffer ids, after which they start over.
const BUFFERS: u32 = 100_000;

/// A switch of `cbench`.
struct Fake {
    id: u8,
    stream: TcpStream,
    held: Vec<u8>,
    /// The configuration that it was given: flags, and the length of a packet-in for a miss, in bytes.
    config: [u8; 4],
    next_buffer: u32,
    next_mac: u32,
    macs: u32,
    xid: u32,
    is_ready: bool,
    /// The number of answers, as `cbench` counts them.
    count: usize,
    answers: Vec<Vec<u8>>,
}

fn message_of(kind: u8, xid: [u8; 4], body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len()) as u16;
    [&[1, kind][..], &length.to_be_bytes(), &xid, body].concat()
}

impl Fake {
    fn connect(address: SocketAddr, id: u8, macs: u32) -> Fake {
        let mut stream = TcpStream::connect(address).expect("the controller listens");
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        stream.write_all(&message_of(HELLO, [0, 0, 0, 1], &[])).unwrap();
        Fake {
            id,
            stream,
            held: Vec::new(),
            config: [0; 4],
            next_buffer: 1,
            next_mac: 0,
            macs,
            xid: 1,
            is_ready: false,
            count: 0,
            answers: Vec::new(),
        }
    }

    fn say(&mut self, kind: u8, xid: [u8; 4], body: &[u8]) {
        self.stream.write_all(&message_of(kind, xid, body)).expect("the controller reads");
    }

    /// Reads once, and answers what came.
    fn turn(&mut self) {
        let mut chunk = [0; 65_536];
        match self.stream.read(&mut chunk) {
            Ok(0) => panic!("the controller closed the connection"),
            Ok(read) => self.held.extend_from_slice(&chunk[..read]),
            Err(error) => assert!(matches!(error.kind(), std::io::ErrorKind::WouldBlock), "{error}"),
        }
        while self.held.len() >= 8 {
            let length = usize::from(u16::from_be_bytes([self.held[2], self.held[3]]));
            if self.held.len() < length {
                break;
            }
            let message: Vec<u8> = self.held.drain(..length).collect();
            assert!(message[0] == 1 || message[1] == HELLO, "it speaks OpenFlow 1.0, after it said what else it could");
            self.take(message);
        }
    }

    fn take(&mut self, message: Vec<u8>) {
        let xid = [message[4], message[5], message[6], message[7]];
        match message[1] {
            HELLO => {}
            FEATURES_REQUEST => {
                self.say(FEATURES_REPLY, xid, &features(self.id));
                self.teach();
                self.is_ready = true;
            }
            SET_CONFIG => self.config.copy_from_slice(&message[8..12]),
            GET_CONFIG_REQUEST => {
                let config = self.config;
                let mut reply = message_of(GET_CONFIG_REPLY, xid, &config);
                reply[2..4].reverse();
                self.stream.write_all(&reply).expect("the controller reads");
            }
            ECHO_REQUEST => self.say(ECHO_REPLY, xid, &[]),
            BARRIER_REQUEST => self.say(BARRIER_REPLY, xid, &[]),
            VENDOR => self.say(ERROR, xid, &[0, 1, 0, 3]),
            STATS_REQUEST if message[8..10] == [0, 0] => {
                let mut body = vec![0; 4 + 256 * 3 + 32 + 256];
                body[4..37].copy_from_slice(b"Cbench - controller I/O benchmark");
                self.say(STATS_REPLY, xid, &body);
            }
            PACKET_OUT => self.answered(message),
            FLOW_MOD if message[56..58] == [0, 0] || message[56..58] == [0, 2] => self.answered(message),
            STATS_REQUEST | FLOW_MOD => {}
            kind => panic!("a switch does not know type {kind}"),
        }
    }

    fn answered(&mut self, message: Vec<u8>) {
        self.count += 1;
        self.answers.push(message);
    }

    /// Teaches where the destination is, with a gratuitous ARP reply from port 2.
    fn teach(&mut self) {
        let (mac, ip) = (self.destination(), [192, 168, self.id, 40]);
        let mut frame = [&[0xff; 6][..], &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &mac, &ip, &mac, &ip].concat();
        frame.resize(64, 0);
        self.packet_in(u32::MAX, 2, &frame);
    }

    fn destination(&self) -> [u8; 6] {
        [0x80, 0, 0, 0, 0, self.id]
    }

    fn source(&self, number: u32) -> [u8; 6] {
        let [a, b, c, d] = number.to_le_bytes();
        [0, a, b, c, d, self.id]
    }

    fn packet_in(&mut self, buffer_id: u32, in_port: u16, frame: &[u8]) {
        let length = (frame.len() as u16).to_be_bytes();
        let body = [&buffer_id.to_be_bytes()[..], &length, &in_port.to_be_bytes(), &[0, 0], frame].concat();
        let xid = self.xid.to_be_bytes();
        self.xid += 1;
        self.say(PACKET_IN, xid, &body);
    }

    /// Sends the next packet-in of the switch. Returns the buffer id and the frame.
    fn ask(&mut self) -> (u32, Vec<u8>) {
        let ip = [
            0x45, 0, 0, 50, 0, 0, 0, 0, 64, 0xff, 0xf7, 0x2c, // without options, 64 hops, protocol 255, checksum
            192, 168, 0, 40, 192, 168, 1, 40,
        ];
        let source = self.source(self.next_mac);
        let frame = [&self.destination()[..], &source, &[8, 0], &ip, &PAYLOAD].concat();
        assert_eq!(frame.len() + 18, 82);
        let buffer_id = self.next_buffer;
        self.next_buffer = (buffer_id + 1) % BUFFERS;
        self.next_mac = (self.next_mac + 1) % self.macs;
        self.packet_in(buffer_id, 1, &frame);
        (buffer_id, frame)
    }
}

/// Makes the body of a features reply: 256 buffers, 2 tables, 4 ports.
fn features(id: u8) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0, 0, 0, 0, id, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x07, 0xff];
    for n in 1..=4u8 {
        let mut port = vec![0, n, 0x02, 0, 0, 0, id, n];
        port.extend_from_slice(format!("veth{}", 2 * n - 1).as_bytes());
        port.resize(32, 0);
        port.extend_from_slice(&[0, 0, 0, 0xc0]);
        port.resize(48, 0);
        body.extend(port);
    }
    assert_eq!(body.len() + 8, 224);
    body
}

/// Makes the flow-mod that must answer a packet-in of these switches.
fn expected(xid: [u8; 4], buffer_id: u32, frame: &[u8]) -> Vec<u8> {
    let transport_and_pcp = 1u32 << 6 | 1 << 7 | 1 << 20;
    let matching = [
        &transport_and_pcp.to_be_bytes()[..],
        &[0, 1],        // in_port
        &frame[6..12],  // dl_src
        &frame[..6],    // dl_dst
        &[0xff, 0xff],  // no VLAN
        &[0, 0],        // priority, and padding
        &[8, 0],        // IPv4
        &[0, 255],      // type of service, protocol
        &[0, 0],        // padding
        &frame[26..34], // both addresses
        &[0; 4],        // ports: protocol 255 has none
    ];
    let body = [
        &matching.concat()[..],
        &[0; 8],                   // cookie
        &[0, 0],                   // add
        &[0, 5, 0, 0],             // idle for 5 seconds, no other limit
        &[0x80, 0],                // priority
        &buffer_id.to_be_bytes(),  // the packet goes along
        &[0xff, 0xff],             // OFPP_NONE
        &[0, 0],                   // flags
        &[0, 0, 0, 8, 0, 2, 0, 0], // output to port 2
    ];
    message_of(FLOW_MOD, xid, &body.concat())
}

fn learning() -> Maple {
    Maple::with(|options| options.programs = Some(Arc::new(Handlers::new(|_: &SwitchInfo| LearningSwitch::new()))))
}

fn until(what: &str, fakes: &mut [Fake], done: impl Fn(&[Fake]) -> bool) {
    let deadline = Instant::now() + LONG;
    while !done(fakes) {
        assert!(Instant::now() < deadline, "not in time: {what}");
        fakes.iter_mut().for_each(Fake::turn);
    }
}

/// Connects fakes and waits for their first answer: the flood of the packet that taught the destination.
fn ready(maple: &Maple, switches: u8) -> Vec<Fake> {
    let mut fakes: Vec<Fake> = (1..=switches).map(|id| Fake::connect(maple.address, id, 1000)).collect();
    until("the destinations are taught", &mut fakes, |fakes| fakes.iter().all(|fake| fake.is_ready && fake.count == 1));
    for fake in &mut fakes {
        let flood = fake.answers.remove(0);
        assert_eq!((flood[1], &flood[8..14]), (PACKET_OUT, &[0xff, 0xff, 0xff, 0xff, 0, 2][..]));
        assert_eq!(flood[16..24], [0, 0, 0, 8, 0xff, 0xfb, 0, 0], "to all ports");
        assert_eq!(flood.len(), 24 + 64, "with the packet, which the switch did not keep");
    }
    fakes
}

/// The load generator in C that behaves as `cbench` does, built in a folder of its own.
struct LoadGenerator {
    folder: TempDir,
}

impl LoadGenerator {
    /// Builds the generator. `None` if its source or a C compiler is missing; that is printed, and in CI it is a
    /// failure.
    fn build() -> Option<LoadGenerator> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/bench/of_load.c");
        let compiler = Command::new("cc").arg("--version").output();
        if !source.is_file() || compiler.is_err() {
            missing(&format!("{} and a C compiler", source.display()));
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let built = LoadGenerator { folder };
        let status = Command::new("cc").args(["-O2", "-o"]).arg(built.program()).arg(&source).status();
        assert!(status.expect("cc runs").success());
        Some(built)
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("of_load")
    }

    /// Returns the line of figures that cbench prints for one run against this controller.
    fn run(&self, maple: &Maple, arguments: &[&str]) -> String {
        let port = maple.address.port().to_string();
        let output = Command::new(self.program()).args(["-p", &port]).args(arguments).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }
}

#[test]
fn the_load_generator_in_c_with_cbenchs_configuration_reply_is_served() {
    let Some(generator) = LoadGenerator::build() else { return };
    let maple = learning();
    let line = generator.run(&maple, &["-G", "-s", "4", "-d", "0.5", "-w", "0.2", "-D", "50"]);
    let answers = line.split_whitespace().find_map(|word| word.strip_prefix("flow_mod/s=")?.parse::<u64>().ok());
    assert!(answers.is_some_and(|answers| answers > 0), "{line}");
    assert_eq!((maple.count("of_malformed"), maple.count("of_handshake_failures")), (0, 0));
}

#[test]
fn latency_mode_gets_one_exact_flow_mod_for_each_packet() {
    let maple = learning();
    let mut fakes = ready(&maple, 3);
    for round in 0..50 {
        let asked: Vec<_> = fakes.iter_mut().map(|fake| (fake.xid.to_be_bytes(), fake.ask())).collect();
        until("an answer each", &mut fakes, |fakes| fakes.iter().all(|fake| fake.count == round + 2));
        for (fake, (xid, (buffer_id, frame))) in fakes.iter_mut().zip(asked) {
            assert_eq!(fake.answers.pop().unwrap(), expected(xid, buffer_id, &frame));
            assert!(fake.answers.is_empty());
        }
    }
    assert_eq!(maple.count("of_unencodable"), 0);
}

#[test]
fn throughput_mode_gets_as_many_answers_as_it_sends_packets() {
    const PACKETS: usize = 2500;
    let maple = learning();
    let mut fakes = ready(&maple, 4);
    for _ in 0..PACKETS / 100 {
        for fake in &mut fakes {
            (0..100).for_each(|_| drop(fake.ask()));
            fake.turn();
        }
    }
    until("all are answered", &mut fakes, |fakes| fakes.iter().all(|fake| fake.count == 1 + PACKETS));
    for fake in &fakes {
        let buffers: Vec<u32> =
            fake.answers.iter().map(|rule| u32::from_be_bytes(rule[64..68].try_into().unwrap())).collect();
        assert_eq!(buffers, (1..=PACKETS as u32).collect::<Vec<_>>(), "in the order of the packets");
        assert!(fake.answers.iter().all(|answer| answer[1] == FLOW_MOD));
    }
    assert_eq!(maple.count("of_flow_mods"), 4 * PACKETS as u64, "no rule but those that it asked for");
}

#[test]
fn echo_replies_without_data_keep_a_switch_alive() {
    let quick = Duration::from_millis(200);
    let maple = Maple::with(|options| {
        options.programs = Some(Arc::new(Handlers::new(|_: &SwitchInfo| LearningSwitch::new())));
        options.openflow.deadlines.idle = quick;
        options.openflow.deadlines.echo = LONG;
    });
    let mut fakes = ready(&maple, 1);
    let until_later = Instant::now() + quick * 5;
    until("several echoes", &mut fakes, |_| Instant::now() > until_later);
    fakes[0].ask();
    until("it is still served", &mut fakes, |fakes| fakes[0].count == 2);
    assert_eq!(maple.count("of_timeouts"), 0);
}
