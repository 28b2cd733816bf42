//! The generator against a tiny controller in this process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use maple_load::{LoadError, LoadOptions, Mode, run};
use maple_wire::msg::{FlowMod, FlowModCommand, Frames, Hello, NO_BUFFER, PacketIn, PacketOut};
use maple_wire::{Action, Instruction, Match, Message, PortNo, Version};

/// The way in which the controller answers a packet-in.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    FlowModWithBuffer,
    FlowModThenPacketOut,
    PacketOutWithData,
    Nothing,
    Close,
}

fn answers(how: Answer, packet_in: &PacketIn) -> Vec<Message> {
    let actions = vec![Action::output(PortNo(2))];
    let rule = vec![Instruction::ApplyActions(actions.clone())];
    let flow_mod = |buffer_id| {
        Message::FlowMod(FlowMod { buffer_id, ..FlowMod::new(FlowModCommand::Add, 1, Match::any(), rule.clone()) })
    };
    let packet_out = |buffer_id, data| {
        let (in_port, actions) = (PortNo(1), actions.clone());
        Message::PacketOut(PacketOut { buffer_id, in_port, actions, data })
    };
    match how {
        Answer::FlowModWithBuffer => vec![flow_mod(packet_in.buffer_id)],
        Answer::FlowModThenPacketOut => vec![flow_mod(NO_BUFFER), packet_out(packet_in.buffer_id, vec![])],
        Answer::PacketOutWithData => vec![packet_out(NO_BUFFER, packet_in.data.clone())],
        Answer::Nothing | Answer::Close => vec![],
    }
}

/// Serves one switch until it goes.
fn serve(mut switch: TcpStream, version: Version, how: Answer) -> std::io::Result<()> {
    let say = |message: &Message, xid, out: &mut Vec<u8>| message.encode(version, xid, out).expect("it can be said");
    let mut out = Vec::new();
    say(&Message::Hello(Hello { version: version as u8, elements: vec![] }), 1, &mut out);
    say(&Message::FeaturesRequest, 2, &mut out);
    let (mut held, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        switch.write_all(&out)?;
        out.clear();
        let read = switch.read(&mut chunk)?;
        if read == 0 {
            return Ok(());
        }
        held.extend_from_slice(&chunk[..read]);
        let mut frames = Frames::new(&held);
        for frame in frames.by_ref() {
            let (header, message) = Message::decode(frame.expect("a header").1).expect("a message");
            if let Message::PacketIn(packet_in) = message {
                if how == Answer::Close {
                    return Ok(());
                }
                answers(how, &packet_in).iter().for_each(|message| say(message, header.xid, &mut out));
            }
        }
        let consumed = frames.consumed();
        held.drain(..consumed);
    }
}

/// Starts a controller, which ends with the test's process.
fn controller(version: Version, how: Answer) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    std::thread::spawn(move || {
        for switch in listener.incoming().flatten() {
            std::thread::spawn(move || serve(switch, version, how));
        }
    });
    address
}

fn options(address: SocketAddr, version: Version, mode: Mode) -> LoadOptions {
    let ms = Duration::from_millis;
    let (duration, warmup, settle) = (ms(200), ms(50), ms(20));
    LoadOptions { switches: 3, macs: 10, mode, version, duration, warmup, settle, ..LoadOptions::new(address) }
}

#[test]
fn each_kind_of_answer_is_counted_once_in_both_versions() {
    for version in [Version::Of10, Version::Of13] {
        for how in [Answer::FlowModWithBuffer, Answer::FlowModThenPacketOut, Answer::PacketOutWithData] {
            let address = controller(version, how);
            let report = run(&options(address, version, Mode::Throughput { window: 16 })).expect("it runs");
            assert!(report.answers > 0.0 && report.silent_switches == 0 && report.strange == 0, "{report}");
            let (flow_mods, packet_outs) = (report.flow_mods > 0.0, report.packet_outs > 0.0);
            let expected = (how != Answer::PacketOutWithData, how != Answer::FlowModWithBuffer);
            assert_eq!((flow_mods, packet_outs), expected, "{report}");
            let under_way = f64::from(3 * 16) / report.seconds;
            assert!((report.packet_ins - report.answers).abs() <= under_way + 1e-6, "{report}");
            assert!(report.latency.p50 > 0.0 && report.latency.p50 <= report.latency.max);
        }
    }
}

#[test]
fn a_window_of_one_means_one_packet_at_a_time() {
    let address = controller(Version::Of10, Answer::FlowModWithBuffer);
    let report = run(&options(address, Version::Of10, Mode::Throughput { window: 1 })).expect("it runs");
    assert!(report.answers > 0.0 && (report.packet_ins - report.answers).abs() <= 3.0 / report.seconds + 1e-6);
}

#[test]
fn latency_of_the_others_is_reported_before_and_while_some_flood() {
    let address = controller(Version::Of10, Answer::FlowModWithBuffer);
    let mode = Mode::Throughput { window: 1 };
    let report = run(&LoadOptions { flooding: 1, ..options(address, Version::Of10, mode) }).expect("it runs");
    let before = report.latency_before_flood.expect("it was calm before");
    assert!(before.p50 > 0.0 && report.latency.p50 > 0.0 && report.flood_answers > 0.0, "{report}");
    assert!(report.to_string().contains("1 more flood"), "{report}");
    for wrong in [
        LoadOptions { flooding: 3, ..options(address, Version::Of10, mode) },
        LoadOptions {
            flooding: 1,
            ..options(address, Version::Of10, Mode::Rate { per_second: 9.0, window: 9, burst: 1 })
        },
    ] {
        assert!(matches!(run(&wrong), Err(LoadError::Wrong(_))));
    }
}

#[test]
fn a_rate_is_kept_and_no_more_is_sent() {
    let address = controller(Version::Of13, Answer::FlowModWithBuffer);
    for burst in [1, 10] {
        let mode = Mode::Rate { per_second: 500.0, window: 4096, burst };
        let duration = Duration::from_secs(2);
        let report = run(&LoadOptions { duration, ..options(address, Version::Of13, mode) }).expect("it runs");
        assert!(report.packet_ins > 300.0 && report.packet_ins < 700.0, "{report}");
        assert_eq!((report.offered, report.burst), (Some(500.0), Some(burst)));
        assert_eq!(report.to_string().contains("in bursts of 10"), burst == 10, "{report}");
        let sent = (report.packet_ins * report.seconds).round() as u32;
        assert_eq!(sent % burst, 0, "bursts are whole: {report}");
    }
}

#[test]
fn packets_that_find_the_window_full_are_reported_and_not_sent() {
    let address = controller(Version::Of10, Answer::Nothing);
    let mode = Mode::Rate { per_second: 5000.0, window: 8, burst: 3 };
    let report =
        run(&LoadOptions { warmup: Duration::ZERO, ..options(address, Version::Of10, mode) }).expect("it runs");
    assert_eq!((report.packet_ins * report.seconds).round(), 24.0, "8 of each switch: {report}");
    assert!(report.doubts.iter().any(|doubt| doubt.contains("found the window full")), "{report}");
}

#[test]
fn a_controller_that_answers_nothing_gives_no_result() {
    let address = controller(Version::Of10, Answer::Nothing);
    let report = run(&options(address, Version::Of10, Mode::Throughput { window: 4 })).expect("it runs");
    assert!(!report.is_result() && report.silent_switches == 3, "{report}");
    assert!(report.doubts.iter().any(|doubt| doubt == "no packet-in was answered"), "{:?}", report.doubts);
    assert!(report.to_string().contains("NO RESULT"));
}

#[test]
fn closed_connections_and_wrong_options_are_reported() {
    let closing = controller(Version::Of10, Answer::Close);
    let error = run(&options(closing, Version::Of10, Mode::Throughput { window: 4 })).unwrap_err();
    assert!(matches!(error, LoadError::Closed { .. }), "{error}");
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let error = run(&options(nobody, Version::Of10, Mode::Throughput { window: 4 })).unwrap_err();
    assert!(error.to_string().contains("can't connect to 127.0.0.1:1"), "{error}");
    let error = run(&options(nobody, Version::Of10, Mode::Throughput { window: 0 })).unwrap_err();
    assert!(matches!(error, LoadError::Wrong(_)), "{error}");
    for burst in [0, 5] {
        let wrong = Mode::Rate { per_second: 9.0, window: 4, burst };
        assert!(matches!(run(&options(nobody, Version::Of10, wrong)), Err(LoadError::Wrong(_))));
    }
}
