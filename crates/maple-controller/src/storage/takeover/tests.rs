//! A take-over in tests: what one process sends, and what another receives.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixListener;

use maple_core::engine::ReportedRule;
use maple_core::memory::{ReadMetadata, Witness};
use maple_core::network::Location;
use maple_wire::msg::Features;
use maple_wire::msg::stats::Desc;
use maple_wire::{Action, Field, Instruction, Match, Port, PortNo};

use super::*;
use crate::endpoint::HandedListener;
use crate::session::SwitchInfo;

const KEY: Key = Key([3; 16]);

fn pair() -> (TcpListener, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
    let far = listener.accept().expect("it was connected").0;
    (listener, near, far)
}

fn line(stream: &UnixStream) -> String {
    let mut line = String::new();
    BufReader::new(stream.try_clone().expect("a descriptor")).read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

/// Hands over a store, switches and `handed`. Returns what another process receives.
fn handed(store: &Store, switches: Vec<CopiedSwitch>, handed: HandedOver) -> (Copy, HandedOver) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let socket = UnixListener::bind(&path).expect("a socket");
    let store = store.copy();
    let sender = std::thread::spawn(move || {
        let (mut stream, _) = socket.accept().expect("it asks");
        assert_eq!(line(&stream), request(false));
        let copied = Copied { listening: Vec::new(), state_file: None, archive: None, probe_key: KEY, switches };
        let base = send_copy(&mut stream, &store, copied).expect("it is received");
        assert_eq!(line(&stream), READY);
        Successor { stream, base }.send(&handed).expect("it is received");
    });
    let mut takeover = Takeover::ask(&path, false).expect("a copy");
    let copy = std::mem::replace(&mut takeover.copy, empty());
    let (received, released) = takeover.finish().expect("all of it");
    sender.join().expect("it sends");
    released();
    (copy, received)
}

fn empty() -> Copy {
    Copy {
        listening: Vec::new(),
        state_file: None,
        names: Vec::new(),
        kept: Vec::new(),
        state: Vec::new(),
        remembered: None,
        probe_key: KEY,
        switches: Vec::new(),
    }
}

fn switch(version: Version) -> CopiedSwitch {
    let port = |number| Port { state: number, ..Port::new(PortNo(number), [2, 0, 0, 0, 0, 1], "port") };
    let features = Features {
        dpid: Dpid(7),
        n_buffers: 256,
        n_tables: 4,
        auxiliary_id: 0,
        capabilities: 0x47,
        actions: if version == Version::Of10 { 0xfff } else { 0 },
        ports: Vec::new(),
    };
    let description = Desc { manufacturer: maple_wire::msg::Text(b"Nicira".to_vec()), ..Desc::default() };
    let rule = |n: u16| ReportedRule {
        table_id: if version == Version::Of10 { 0 } else { 1 },
        priority: n,
        cookie: n.into(),
        matching: Match::any().exact(Field::InPort, 1),
        instructions: vec![Instruction::ApplyActions(vec![Action::output(PortNo(2))])],
    };
    let info = SwitchInfo { version, features, ports: vec![port(1), port(2)], description, has_bundles: true };
    // These are more rules than fit into a message.
    CopiedSwitch { info, rules: (0..300).map(rule).collect() }
}

fn packet_in(version: Version, size: u8) -> PacketIn {
    PacketIn {
        total_len: 1500,
        cookie: if version == Version::Of10 { u64::MAX } else { 5 },
        ..PacketIn::new(2, vec![7; usize::from(size)])
    }
}

#[test]
fn a_copy_has_the_state_and_what_switches_have_said() {
    let store = Store::new();
    let all = vec![
        StateWrite::Table { table: "t".into(), key: maple_core::state::Value::None, value: Some("one".into()) },
        StateWrite::Var { name: "v".into(), value: Some(maple_core::state::Value::None) },
    ];
    store.update(|_| all.clone());
    let switches = [Version::Of10, Version::Of13].map(switch);
    let (copy, _) = handed(&store, switches.to_vec(), HandedOver::default());
    assert_eq!(copy.state, all);
    assert_eq!(copy.switches, switches);
    assert_eq!(copy.probe_key.0, KEY.0);
}

#[test]
fn sockets_arrive_open_and_in_order_with_what_is_to_be_known_of_them() {
    let (listener, ..) = pair();
    let address = listener.local_addr().expect("an address");
    let (mut far, mut connections) = (Vec::new(), Vec::new());
    // These are more connections than go with one byte.
    for n in 0..150u8 {
        let (_, near, other) = pair();
        let version = if n.is_multiple_of(3) { Version::Of10 } else { Version::Of13 };
        let (dpid, partial) = (Dpid(n.into()), vec![n; usize::from(n % 4)]);
        let packets = (0..n % 3).map(|size| packet_in(version, size)).collect();
        connections.push(HandedConnection { socket: near, dpid, version, partial, packets });
        far.push(other);
    }
    let state = vec![
        StateWrite::Table { table: "t".into(), key: 1.into(), value: Some("one".into()) },
        StateWrite::Table { table: "t".into(), key: 2.into(), value: None },
        StateWrite::Var { name: "v".into(), value: None },
    ];
    let at = Location::new(Dpid(1), PortNo(1));
    let witness = Witness {
        at,
        frame: [1, 2].into(),
        total_len: 2,
        extra_reads: [].into(),
        metadata: ReadMetadata::default(),
        is_made_up: false,
    };
    let sent = HandedOver {
        listeners: vec![HandedListener { socket: listener, has_tls: true }],
        connections,
        names: vec!["empty".into(), "t".into(), "v".into()],
        state: state.clone(),
        leaves: [(5, Some(witness.clone())), (6, None)].into(),
        surroundings: Some(Surroundings { edges: vec![at], ..Surroundings::default() }),
    };
    let (_, received) = handed(&Store::new(), Vec::new(), sent);
    let HandedOver { listeners, connections, names, state: changed, leaves, surroundings } = received;
    assert_eq!((names.len(), changed), (3, state));
    assert_eq!(leaves, [(5, Some(witness)), (6, None)].into());
    assert_eq!(surroundings.expect("they are reported").edges, [at]);
    assert!(listeners[0].has_tls);
    assert_eq!(listeners[0].socket.local_addr().expect("an address"), address);
    TcpStream::connect(address).expect("it listens still");
    for (n, (connection, mut far)) in (0u8..).zip(connections.into_iter().zip(far)) {
        let is_old = connection.version == Version::Of10;
        assert_eq!((connection.partial.len(), is_old), (usize::from(n % 4), n % 3 == 0));
        assert_eq!(connection.dpid, Dpid(n.into()));
        let packets: Vec<PacketIn> = (0..n % 3).map(|size| packet_in(connection.version, size)).collect();
        assert_eq!(connection.packets, packets);
        far.write_all(&[n]).expect("it is open");
        let mut byte = [0];
        (&connection.socket).read_exact(&mut byte).expect("it is open");
        assert_eq!(byte, [n]);
    }
}

#[test]
fn nobody_to_take_over_from_is_an_error() {
    assert!(Takeover::ask(Path::new("/nowhere/control"), false).is_err());
}
