//! Captures built here byte by byte, and the lines that decoding prints.

use std::process::ExitCode;

use super::*;

const HELLO: &str = "0400000800000001";
const HELLO_TEXT: &str = "OFPT_HELLO (OF1.3) (xid=0x1): version bitmap: 0x01, 0x02, 0x03, 0x04";
const BARRIER: &str = "0414000800000002";
const BARRIER_TEXT: &str = "OFPT_BARRIER_REQUEST (OF1.3) (xid=0x2):";
/// A flow-mod whose match has a length of 3 bytes.
const BROKEN: &str =
    "040e003800000003000000000000000000000000000000000000000000008000ffffffffffffffffffffffff000000000001000300000000";
const ECHO: &str = "0402000a000000046162";

/// Runs the command. Returns its lines, and whether it succeeded.
fn run_on(inputs: &[&str], format: Format) -> anyhow::Result<(Vec<String>, bool)> {
    noted(inputs, format).map(|(lines, good, _)| (lines, good))
}

/// Runs the command. Returns its lines, whether it succeeded, and its notes.
fn noted(inputs: &[&str], format: Format) -> anyhow::Result<(Vec<String>, bool, String)> {
    let inputs = inputs.iter().map(|input| (*input).to_owned()).collect();
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let code = run(DecodeArgs { inputs, format, ports: vec![6653, 6633] }, &mut out, &mut notes)?;
    let lines = String::from_utf8(out)?.lines().map(str::to_owned).collect();
    Ok((lines, code == ExitCode::SUCCESS, String::from_utf8(notes)?))
}

/// Writes bytes to a file of its own and decodes it.
fn run_on_file(name: &str, bytes: &[u8]) -> anyhow::Result<(Vec<String>, bool)> {
    noted_on_file(name, bytes).map(|(lines, good, _)| (lines, good))
}

fn noted_on_file(name: &str, bytes: &[u8]) -> anyhow::Result<(Vec<String>, bool, String)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(name);
    std::fs::write(&path, bytes)?;
    noted(&[path.to_str().expect("a path")], Format::Auto)
}

fn unhex(text: &str) -> Vec<u8> {
    hex::parse(text.as_bytes()).expect("hex")
}

#[test]
fn hex_arguments_are_one_text() {
    let (lines, good) = run_on(&["0x04", "00 00 08", "00000001", BARRIER], Format::Auto).unwrap();
    assert_eq!(lines, [HELLO_TEXT, BARRIER_TEXT]);
    assert!(good);
}

#[test]
fn files_are_told_apart_by_what_they_hold() {
    let bytes = unhex(&[HELLO, BARRIER].concat());
    assert_eq!(run_on_file("binary", &bytes).unwrap().0, [HELLO_TEXT, BARRIER_TEXT]);
    assert_eq!(run_on_file("hex", format!("{HELLO}\n{BARRIER}\n").as_bytes()).unwrap().0, [HELLO_TEXT, BARRIER_TEXT]);
    assert!(run_on(&["no-such-file"], Format::Auto).unwrap_err().to_string().contains("no-such-file"));
    assert!(run_on_file("empty", b"").is_err());
}

#[test]
fn a_malformed_message_costs_a_line_and_no_other_message() {
    let (lines, good) = run_on(&[HELLO, BROKEN, BARRIER], Format::Auto).unwrap();
    assert_eq!(lines[0], HELLO_TEXT);
    assert!(lines[1].starts_with("***offset 8: OFPT_FLOW_MOD (OF1.3) (xid=0x3), 56 bytes: "), "{}", lines[1]);
    assert_eq!(lines[2], BARRIER_TEXT);
    assert!(!good);
}

#[test]
fn a_message_that_is_cut_off_and_one_without_a_length_are_reported() {
    let (lines, good) = run_on(&[HELLO, &BROKEN[..40]], Format::Auto).unwrap();
    assert_eq!(lines[1], "***offset 8: message of 56 bytes ends after 20***");
    assert!(!good);
    let (lines, good) = run_on(&[HELLO, "04000007 00000000", BARRIER], Format::Auto).unwrap();
    assert_eq!(lines[1..], ["***offset 8: header: bad length 7***", "***offset 8: 16 bytes skipped***"]);
    assert!(!good);
}

#[test]
fn messages_of_other_versions_are_reported_and_skipped() {
    let (lines, good) = run_on(&["0612000800000005", BARRIER], Format::Auto).unwrap();
    assert!(lines[0].contains("version 0x06 is not supported"), "{}", lines[0]);
    assert_eq!(lines[1], BARRIER_TEXT);
    assert!(!good);
}

/// Builds a TCP segment in IPv4, between 10.0.0.1 port 6653 and 10.0.0.2 port 40000.
fn segment(from_controller: bool, sequence: u32, flags: u8, data: &[u8]) -> Vec<u8> {
    let (mut ends, mut ports) = ([[10, 0, 0, 2], [10, 0, 0, 1]], [40000_u16, 6653]);
    if from_controller {
        ends.reverse();
        ports.reverse();
    }
    let mut packet = vec![0x45, 0];
    packet.extend((40 + data.len() as u16).to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, 6, 0, 0]);
    packet.extend(ends.concat());
    packet.extend(ports.map(u16::to_be_bytes).concat());
    packet.extend(sequence.to_be_bytes());
    packet.extend([0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    packet.extend(data);
    packet
}

const SYN: u8 = 2;
const ACK: u8 = 16;

/// The form of a capture: byte order, nanoseconds, link type, first bytes of each packet.
type Style = (bool, bool, u32, &'static [u8]);

const RAW_IP: Style = (true, false, 101, &[]);

fn capture((little, nanoseconds, link_type, before): Style, packets: &[Vec<u8>]) -> Vec<u8> {
    let word = |value: u32| if little { value.to_le_bytes() } else { value.to_be_bytes() };
    let half = |value: u16| if little { value.to_le_bytes() } else { value.to_be_bytes() };
    let mut file = word(if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    file.extend([half(2), half(4)].concat());
    file.extend([word(0), word(0), word(65535), word(link_type)].concat());
    for packet in packets {
        let length = word((before.len() + packet.len()) as u32);
        file.extend([word(1), word(2), length, length].concat());
        file.extend(before);
        file.extend(packet);
    }
    file
}

const TO_SWITCH: &str = "10.0.0.1.6653 > 10.0.0.2.40000: ";
const TO_CONTROLLER: &str = "10.0.0.2.40000 > 10.0.0.1.6653: ";

#[test]
fn captures_of_every_link_type_and_byte_order_are_read() {
    const ETHERNET: &[u8] = &[1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 0x08, 0];
    const TAGGED: &[u8] = &[1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 0x81, 0, 0, 5, 0x08, 0];
    const COOKED: &[u8] = &[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0x08, 0];
    const COOKED_2: &[u8] = &[0x08, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0];
    let styles: [Style; 7] = [
        (true, false, 1, ETHERNET),
        (false, false, 1, TAGGED),
        (true, true, 113, COOKED),
        (false, true, 276, COOKED_2),
        RAW_IP,
        (false, false, 12, &[]),
        (true, false, 0, &[2, 0, 0, 0]),
    ];
    for (number, style) in styles.into_iter().enumerate() {
        let packets = [segment(true, 99, SYN, &[]), segment(true, 100, ACK, &unhex(HELLO))];
        let (lines, good) = run_on_file(&format!("link-{number}"), &capture(style, &packets)).unwrap();
        assert_eq!(lines, [format!("{TO_SWITCH}{HELLO_TEXT}")], "{style:?}");
        assert!(good);
    }
}

#[test]
fn a_stream_is_put_together_in_the_order_of_its_bytes() {
    let stream = unhex(&[HELLO, BARRIER, ECHO].concat());
    let packets = [
        segment(true, u32::MAX - 3, SYN, &[]),
        segment(false, 7, SYN, &[]),
        // The sequence numbers wrap around within the first message; the first segment comes twice, the last too early.
        segment(true, u32::MAX - 2, ACK, &stream[..5]),
        segment(true, 15, ACK, &stream[18..]),
        segment(true, u32::MAX - 2, ACK, &stream[..5]),
        segment(false, 8, ACK, &unhex(HELLO)),
        segment(true, 0, ACK, &stream[3..18]),
    ];
    let lines = [
        format!("{TO_CONTROLLER}{HELLO_TEXT}"),
        format!("{TO_SWITCH}{HELLO_TEXT}"),
        format!("{TO_SWITCH}{BARRIER_TEXT}"),
        format!("{TO_SWITCH}OFPT_ECHO_REQUEST (OF1.3) (xid=0x4): 2 bytes of payload 00000000 61 62 |ab |"),
    ];
    assert_eq!(run_on_file("order", &capture(RAW_IP, &packets)).unwrap(), (lines.into(), true));
}

#[test]
fn a_segment_that_is_missing_is_reported_and_reading_goes_on_behind_it() {
    let stream = unhex(&[HELLO, BARRIER].concat());
    let packets =
        [segment(true, 99, SYN, &[]), segment(true, 100, ACK, &stream[..12]), segment(true, 116, ACK, &unhex(HELLO))];
    let lines = [
        format!("{TO_SWITCH}{HELLO_TEXT}"),
        format!("{TO_SWITCH}***offset 8: 4 bytes are too few for a message***"),
        format!("{TO_SWITCH}***offset 12: 4 bytes are not in the capture***"),
        format!("{TO_SWITCH}{HELLO_TEXT}"),
    ];
    assert_eq!(run_on_file("gap", &capture(RAW_IP, &packets)).unwrap(), (lines.into(), false));
}

#[test]
fn a_capture_that_begins_within_a_connection_starts_with_the_next_message() {
    let packets = [
        segment(true, 100, ACK, &[0xff; 6]),
        segment(true, 106, ACK, &unhex(HELLO)),
        // A second connection uses the same ports.
        segment(true, 5000, SYN, &[]),
        segment(true, 5001, ACK, &unhex(BARRIER)),
    ];
    let lines = [
        format!("{TO_SWITCH}***offset 0: 6 bytes skipped***"),
        format!("{TO_SWITCH}{HELLO_TEXT}"),
        format!("{TO_SWITCH}{BARRIER_TEXT}"),
    ];
    assert_eq!(run_on_file("middle", &capture(RAW_IP, &packets)).unwrap(), (lines.into(), false));
}

/// Builds a segment like [`segment`], where the controller has another port.
fn on_port(port: u16, from_controller: bool, flags: u8, data: &[u8]) -> Vec<u8> {
    let mut other = segment(from_controller, 100, flags, data);
    let at = if from_controller { 20 } else { 22 };
    other[at..at + 2].copy_from_slice(&port.to_be_bytes());
    other
}

#[test]
fn streams_of_other_ports_are_left_out_and_counted() {
    let ours = [segment(true, 99, SYN, &[]), segment(true, 100, ACK, &unhex(HELLO))];
    let web = [on_port(80, false, SYN, &[]), on_port(80, true, SYN | ACK, &[]), on_port(80, false, ACK, b"GET /")];
    let openflow = [on_port(6654, true, ACK, &unhex(HELLO))];
    // In this connection the lower port is the client's.
    let high = [on_port(50000, true, SYN | ACK, &[]), on_port(50000, false, ACK, b"hi")];
    let noted = |name: &str, packets: &[Vec<u8>]| noted_on_file(name, &capture(RAW_IP, packets)).unwrap();
    let (lines, good, notes) = noted("ports", &[&ours[..], &web, &openflow, &high].concat());
    assert_eq!(lines, [format!("{TO_SWITCH}{HELLO_TEXT}")]);
    assert!(good);
    assert_eq!(
        notes,
        "note: 3 TCP streams of other ports than 6653 and 6633 were skipped: 6654 (1, like OpenFlow), 80 (1), \
         50000 (1); see --port 6654\n"
    );
    let (lines, good, notes) = noted("port", &web);
    assert!(lines.is_empty() && good);
    assert_eq!(notes, "note: 1 TCP stream of other ports than 6653 and 6633 was skipped: 80 (1); see --port PORT\n");
    let many: Vec<_> = (1..=20).map(|port| on_port(port, true, ACK, b"?")).collect();
    assert!(noted("many-ports", &many).2.contains("8 (1), and 12 more; see"));
    assert_eq!(noted("own-port", &ours).2, "");
    assert_eq!(noted("no-tcp", &[vec![0x45; 20]]).2, "note: no TCP stream is in the capture\n");
}

#[test]
fn dumps_of_captures_are_read_as_the_captures() {
    let wanted = [
        format!("{TO_SWITCH}{HELLO_TEXT}"),
        format!("{TO_CONTROLLER}{HELLO_TEXT}"),
        format!("{TO_SWITCH}{BARRIER_TEXT}"),
        format!(
            "{TO_SWITCH}OFPT_ECHO_REQUEST (OF1.3) (xid=0x4): 8 bytes of payload 00000000 64 65 61 64 62 65 65 66- \
             |deadbeef |"
        ),
    ];
    for (name, text) in [
        ("tcpdump -x", include_str!("captured/tcpdump.txt")),
        ("tcpdump -xx", include_str!("captured/tcpdump-link.txt")),
        ("tcpdump -X", include_str!("captured/tcpdump-characters.txt")),
        ("tcpdump -XX", include_str!("captured/tcpdump-link-characters.txt")),
        ("tcpdump -v -x", include_str!("captured/tcpdump-verbose.txt")),
        ("tshark -x", include_str!("captured/tshark.txt")),
        ("tshark -P -x", include_str!("captured/tshark-summaries.txt")),
    ] {
        let (lines, good) = run_on(&[text], Format::Auto).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        assert_eq!(lines, wanted, "{name}");
        assert!(good, "{name}");
        assert_eq!(run_on_file(&name.replace(' ', ""), text.as_bytes()).unwrap().0, wanted, "{name} in a file");
    }
    // The directions follow each other, without their ends.
    let follow = run_on(&[include_str!("captured/tshark-follow.txt")], Format::Auto).unwrap().0;
    let text = |at: usize| wanted[at].split_once(": ").expect("two ends").1;
    assert_eq!(follow, [text(0), text(2), text(3), text(1)]);
    let raw = include_str!("captured/tshark-follow-raw.txt");
    let reply = "OFPT_BARRIER_REPLY (OF1.3) (xid=0x2):";
    let follow = [text(1), reply, text(0), text(2), text(3)];
    assert_eq!(run_on(&[raw], Format::Auto).unwrap().0, follow);
    assert_eq!(run_on_file("follow-raw", raw.as_bytes()).unwrap().0, follow);
    // If one direction ends in the middle of a message, the other one is read nevertheless.
    let (cut, good) = run_on(&[&raw.replace("0415000800000002", "04150008")], Format::Auto).unwrap();
    assert_eq!(cut, [text(1), "***offset 8: 4 bytes are too few for a message***", text(0), text(2), text(3)]);
    assert!(!good);
}

#[test]
fn dumps_of_messages_and_of_capture_files_are_read() {
    let dump = |bytes: &[u8]| -> String {
        let line = |(row, bytes): (usize, &[u8])| {
            let hex: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
            format!("{:08x} {hex}  |...|\n", row * 16)
        };
        bytes.chunks(16).enumerate().map(line).collect()
    };
    let messages = dump(&unhex(&[HELLO, BARRIER, ECHO].concat()));
    assert_eq!(run_on(&[&messages], Format::Auto).unwrap().0[..2], [HELLO_TEXT, BARRIER_TEXT]);
    let file = capture(RAW_IP, &[segment(true, 99, SYN, &[]), segment(true, 100, ACK, &unhex(HELLO))]);
    assert_eq!(run_on(&[&dump(&file)], Format::Hex).unwrap().0, [format!("{TO_SWITCH}{HELLO_TEXT}")]);
    let ryu = "0x4 0x0 0x0 0x8 0x0 0x0 0x0 0x1";
    assert_eq!(run_on(&ryu.split(' ').collect::<Vec<_>>(), Format::Auto).unwrap().0, [HELLO_TEXT]);
}

#[test]
fn text_is_called_text() {
    let error = |bytes: &[u8]| format!("{:#}", run_on_file("text", bytes).unwrap_err());
    for (text, why) in [
        ("Hello, world\nsecond", "(line 1, column 1: 'H' is not a hex digit): it begins with \"Hello, world\""),
        ("0400 00g8", "(line 1, column 8: 'g' is not a hex digit): it begins with \"0400 00g8\""),
        ("\u{1b}[1mOFPT_HELLO\u{1b}[0m", "it begins with \"\\u{1b}[1mOFPT_HELLO"),
        ("0000  04 00\n0010  00 08  é\n", "(line 2: its offset is 0010, and 2 bytes come before it"),
        (&"é".repeat(1000), &format!("it begins with {:?}", "é".repeat(60))),
    ] {
        let error = error(text.as_bytes());
        assert!(
            error.contains("this is text, and no message, nor hex") && error.ends_with(why) | error.contains(why),
            "{error}"
        );
    }
    assert!(error(b"\x1f\x8b\x08\0").ends_with("this is compressed, and no message: decode what gunzip makes of it"));
    assert!(error(b" \n").ends_with("no messages: the input is empty"));
}

#[test]
fn ipv6_is_read_too() {
    let tcp = &segment(true, 99, SYN, &[])[20..];
    let tcp_data = &segment(true, 100, ACK, &unhex(HELLO))[20..];
    let ip = |tcp: &[u8]| {
        let mut packet = vec![0x60, 0, 0, 0, 0, tcp.len() as u8, 6, 64];
        packet.extend([&[0; 15][..], &[1], &[0; 15], &[2], tcp].concat());
        packet
    };
    let (lines, good) = run_on_file("ipv6", &capture(RAW_IP, &[ip(tcp), ip(tcp_data)])).unwrap();
    assert_eq!(lines, [format!("::1.6653 > ::2.40000: {HELLO_TEXT}")]);
    assert!(good);
}

/// Builds a block of a pcapng capture.
fn block(little: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let word = |value: u32| if little { value.to_le_bytes() } else { value.to_be_bytes() };
    let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
    let length = word((12 + body.len() + padding.len()) as u32);
    [&word(kind)[..], &length, body, &padding, &length].concat()
}

/// Builds a section of a pcapng capture with two interfaces, the second of raw IP, and a packet on that.
fn section(little: bool, packet: &[u8]) -> Vec<u8> {
    let word = |value: u32| if little { value.to_le_bytes() } else { value.to_be_bytes() };
    let interface = |kind: u16| [if little { kind.to_le_bytes() } else { kind.to_be_bytes() }, [0; 2]].concat();
    let length = word(packet.len() as u32);
    let header = [word(0x1a2b_3c4d), interface(1).try_into().unwrap(), [0xff; 4], [0xff; 4]].concat();
    let enhanced = [&word(1)[..], &word(0), &word(0), &length, &length, packet].concat();
    [
        block(little, 0x0a0d_0d0a, &header),
        block(little, 1, &[interface(1), word(65535).to_vec()].concat()),
        block(little, 4, b"names of hosts, passed over"),
        block(little, 1, &[interface(101), word(65535).to_vec()].concat()),
        block(little, 6, &enhanced),
    ]
    .concat()
}

#[test]
fn pcapng_captures_are_read_in_both_byte_orders() {
    let first = section(true, &segment(true, 99, SYN, &unhex(HELLO)));
    let second = section(false, &segment(true, 108, ACK, &unhex(BARRIER)));
    let (lines, good) = run_on_file("pcapng", &[&first[..], &second].concat()).unwrap();
    assert_eq!(lines, [format!("{TO_SWITCH}{HELLO_TEXT}"), format!("{TO_SWITCH}{BARRIER_TEXT}")]);
    assert!(good);
    let (lines, good) = run_on_file("pcapng-cut", &first[..first.len() - 4]).unwrap();
    assert!(lines[0].starts_with("***capture offset 108: a block of 80 bytes, but 76 are left"), "{lines:?}");
    assert!(!good);
}

#[test]
fn broken_captures_are_refused_or_reported() {
    let error = |name: &str, bytes: &[u8]| format!("{:#}", run_on_file(name, bytes).unwrap_err());
    assert!(error("short", &capture(RAW_IP, &[])[..10]).contains("10 bytes, 24 needed"));
    assert!(error("link", &capture((true, false, 147, &[]), &[])).contains("link type 147"));
    let mut cut = capture(RAW_IP, &[segment(true, 99, SYN, &[]), segment(true, 100, ACK, &unhex(HELLO))]);
    cut.truncate(cut.len() - 3);
    let (lines, good) = run_on_file("cut", &cut).unwrap();
    assert_eq!(lines, ["***capture offset 80: a packet of 48 bytes, but 45 are left***"]);
    assert!(!good);
    assert!(run_on(&["0400"], Format::Pcap).is_ok(), "an argument in hex is hex, whatever files are");
}
