//! Dumps of the same bytes by different programs.

use super::*;

/// The dumped bytes: `abcdefgh` in the middle and `deadbeef` at the end look like bytes next to a dump.
const BYTES: &[u8] = b"\x04\x02\0\x10\0\0\0\x04abcdefgh\x04\x02\0\x10\0\0\0\x05deadbeef";

fn read(text: &str) -> Vec<Vec<u8>> {
    all(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn every_program_s_dump_is_read() {
    let hexdump = "\
00000000  04 02 00 10 00 00 00 04  61 62 63 64 65 66 67 68  |........abcdefgh|
00000010  04 02 00 10 00 00 00 05  64 65 61 64 62 65 65 66  |........deadbeef|
00000020
";
    let xxd = "\
00000000: 0402 0010 0000 0004 6162 6364 6566 6768  ........abcdefgh
00000010: 0402 0010 0000 0005 6465 6164 6265 6566  ........deadbeef
";
    let narrow_xxd = "\
00000000: 0402 0010 0000 0004  ........
00000008: 6162 6364 6566 6768  abcdefgh
00000010: 0402 0010 0000 0005  ........
00000018: 6465 6164 6265 6566  deadbeef
";
    let od = "\
0000000 04 02 00 10 00 00 00 04 61 62 63 64 65 66 67 68
0000020 04 02 00 10 00 00 00 05 64 65 61 64 62 65 65 66
0000040
";
    let od_decimal = "\
0000000 04 02 00 10 00 00 00 04 61 62 63 64 65 66 67 68
0000016 04 02 00 10 00 00 00 05 64 65 61 64 62 65 65 66
0000032
";
    let od_with_characters = "\
000000 04 02 00 10 00 00 00 04 61 62 63 64 65 66 67 68  >........abcdefgh<
000010 04 02 00 10 00 00 00 05 64 65 61 64 62 65 65 66  >........deadbeef<
000020
";
    let tcpdump = "\
\t0x0000:  0402 0010 0000 0004 6162 6364 6566 6768
\t0x0010:  0402 0010 0000 0005 6465 6164 6265 6566
";
    let tcpdump_with_characters = "\
\t0x0000:  0402 0010 0000 0004 6162 6364 6566 6768  ........abcdefgh
\t0x0010:  0402 0010 0000 0005 6465 6164 6265 6566  ........deadbeef
";
    let tshark = "\
0000  04 02 00 10 00 00 00 04 61 62 63 64 65 66 67 68   ........abcdefgh
0010  04 02 00 10 00 00 00 05 64 65 61 64 62 65 65 66   ........deadbeef
";
    let tshark_follow = "\
00000000  04 02 00 10 00 00 00 04  61 62 63 64 65 66 67 68  ........ abcdefgh
00000010  04 02 00 10 00 00 00 05  64 65 61 64 62 65 65 66  ........ deadbeef
";
    let all = [
        hexdump,
        xxd,
        narrow_xxd,
        od,
        od_decimal,
        od_with_characters,
        tcpdump,
        tcpdump_with_characters,
        tshark,
        tshark_follow,
    ];
    for text in all {
        assert!(is_first_line(text.as_bytes()), "{text}");
        assert_eq!(read(text), [BYTES], "{text}");
        assert_eq!(read(&text.replace('\n', "\r\n")), [BYTES], "{text}");
        assert_eq!(read(&format!("Some words\n\n{text}\nand others")), [BYTES], "{text}");
    }
}

#[test]
fn a_short_last_line_ends_before_its_characters() {
    for text in [
        "00000000  64 65 61 64 62 65 65 66                           |deadbeef|\n00000008\n",
        "00000000: 6465 6164 6265 6566                      deadbeef\n",
        "\t0x0000:  6465 6164 6265 6566                      deadbeef\n",
        "0000  64 65 61 64 62 65 65 66                           deadbeef\n",
        "00000000  64 65 61 64 62 65 65 66                           deadbeef\n",
    ] {
        assert_eq!(read(text), [b"deadbeef"], "{text}");
    }
    assert_eq!(read("0000  64 65   de\n"), [b"de"]);
    assert_eq!(read("\t0x0000:  6465 61                                  dea\n"), [b"dea"]);
}

#[test]
fn repeated_lines_are_read() {
    let zeros = "00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|";
    assert_eq!(read(&format!("00000000  {zeros}\n*\n00000040\n")), [[0; 64]]);
    let endless = format!("00000000  {zeros}\n*\nffffffffff\n");
    assert_eq!(all(endless.as_bytes()).unwrap_err().to_string(), "line 3: no repeated line ends at offset ffffffffff");
}

#[test]
fn each_offset_0_begins_a_dump_and_each_indentation_is_a_dump_of_its_own() {
    let text = "\
Frame (2 bytes):
0000  01 02   ..
Reassembled TCP (3 bytes):
0000  01 02 03   ...

Frame (1 bytes):
0000  04   .
";
    assert_eq!(read(text), [vec![1, 2], vec![4]], "what was put together from several packets is left out");
    let follow = "\
Node 1: 10.0.0.2:40000
00000000  01 02 03                                          ...
\t00000000  11 12                                             ..
00000003  04                                                .
\t00000002  13                                                .
";
    assert_eq!(read(follow), [vec![1, 2, 3, 4], vec![0x11, 0x12, 0x13]]);
}

#[test]
fn missing_lines_and_another_order_of_bytes_are_reported() {
    let error = |text: &str| all(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        error("0000  01 02\n0010  03\n"),
        "line 2: its offset is 0010, and 2 bytes come before it: a line is missing"
    );
    assert_eq!(
        error("x\n0010  01 02 03 04 05 06 07 08\n"),
        "line 2: a dump begins at offset 0010: its first lines are missing"
    );
    assert!(error("0000000 0204 1000\n").contains("use `hexdump -C`"), "hexdump without -C");
}

#[test]
fn other_text_is_no_dump() {
    for text in [
        "",
        "dead beef cafe\n",
        "22:13:24.000004 IP 10.0.0.1.6653 > 10.0.0.2.40000: Flags [P.]\n    fe80::1.6653 > x\n",
        "2026-11-27 00 00\n",
        "2026  11 days\n",
        "face: it\n",
    ] {
        assert!(!is_first_line(text.as_bytes()), "{text}");
        assert_eq!(read(text), [[0; 0]; 0], "{text}");
    }
}
