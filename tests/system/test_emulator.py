"""The emulator and Open vSwitch get the same messages: they accept, refuse, store and report the same.

`requests10` and `requests13` have the messages: all fields with all kinds of values, masks and prerequisites, all
actions in all places, and what else a controller can ask for. What differs on purpose is listed here and in
`docs/emulator.md`, under the same words.
"""

import re
import socket
import struct
import subprocess
from contextlib import contextmanager

import openflow as of
import pytest
import requests10
import requests13
from comparing import outcomes, oxms
from harness import MAPLE, ROOT, vsctl
from openflow import Message, Session, action, apply_actions, flow_mod10, flow_mod13, oxm, packet_out10, packet_out13

NAMES = {of.OF10: "1.0", of.OF13: "1.3"}
BRIDGE = "compared"
NARROW = "vlan_pcp|ip_dscp|ip_ecn|mpls_label|mpls_tc|mpls_bos"
WIDER = r"(tcp|udp|sctp)_(src|dst)|ipv6_nd_\w+"

# What differs on purpose: its words in the page, and the names of the cases.
DIFFERENT = {
    of.OF13: {
        "`in_phy_port` and `ipv6_exthdr`": "in_phy_port|ipv6_exthdr",
        "masks on transport ports and in neighbour discovery": rf"^matches: ({WIDER}) (prefix|low bit|holes)",
        "masks that are whole": rf"^matches: ({NARROW}) (masked with all ones|prefix|low bit|holes)",
        "a mask of zeros": r"^matches: (eth|vlan_vid)\w* masked with nothing|a zero mask (and none|is not a condition)",
        "RARP": "0x8035",
        "ARP operations above 255": "arp_op (all ones|256|to all ones)",
        "extensions of Nicira's": "Nicira's",
        "actions of 1.1": r"^actions: type \d+",
        "`copy_ttl_out` and `copy_ttl_in`": "copy_ttl",
        "ports above 0xfeff": "(output|in_port|port) (beyond|far|max)",
        "three VLAN tags": "push_vlan (twice on a tag|three times)",
        "padding of a set-field": "padding that is not zero",
        "four MPLS labels": "push_mpls four times in a packet-out",
        "`goto_table` to a table that is not there": r"goto 25[45]",
        "table 254": r"table(-mod)? 254",
        "the port `LOCAL`": "port local|port-mod 0xfffffffe",
    },
    of.OF10: {
        "RARP": "RARP",
        "the port `LOCAL`": "port local|port-mod local",
    },
}


@contextmanager
def open_vswitch(version):
    """A session with a bridge that has two ports."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kind = f"protocols=OpenFlow{NAMES[version].replace('.', '')}"
        vsctl("add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=netdev", "fail-mode=secure", kind)
        try:
            for number in (1, 2):
                name = f"compared{number}"
                settings = ["type=internal", f"ofport_request={number}"]
                vsctl("add-port", BRIDGE, name, "--", "set", "interface", name, *settings)
            vsctl("set-controller", BRIDGE, f"tcp:127.0.0.1:{listener.getsockname()[1]}")
            with session(listener, version) as one:
                yield one
        finally:
            vsctl("--if-exists", "del-br", BRIDGE)


@contextmanager
def emulated(version, *options):
    """A session with an emulated switch that has two ports."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        command = [MAPLE, "emulate", "single:2", "--controller", address, "--of", NAMES[version], *options]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            with session(listener, version) as one:
                yield one
        finally:
            process.kill()
            process.wait()


@contextmanager
def session(listener, version):
    one = Session(listener, version)
    try:
        yield one
    finally:
        one.close()


@pytest.mark.parametrize("version", [of.OF10, of.OF13], ids=NAMES.get)
def test_the_emulator_answers_as_open_vswitch_does(openvswitch, figure, version):
    cases = list((requests10 if version == of.OF10 else requests13).cases())
    names = [name for name, _ in cases]
    assert len(set(names)) == len(names), "each case has a name of its own"
    with open_vswitch(version) as switch:
        expected = outcomes(switch, cases)
    with emulated(version) as switch:
        found = outcomes(switch, cases)
    different = [name for name in names if found[name] != expected[name]]
    listed = DIFFERENT[version]
    unlisted = [
        f"{name}\n    Open vSwitch: {expected[name]}\n    emulator:     {found[name]}"
        for name in different
        if not any(re.search(pattern, name) for pattern in listed.values())
    ]
    assert not unlisted, "\n".join(unlisted)
    gone = [words for words, pattern in listed.items() if not any(re.search(pattern, name) for name in different)]
    assert not gone, "these do not differ any more"
    figure(f"OpenFlow {NAMES[version]}: {len(names)} requests, {len(different)} answered otherwise on purpose")


def test_the_page_lists_what_differs():
    page = (ROOT / "docs/emulator.md").read_text()
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("|")]
    missing = [words for listed in DIFFERENT.values() for words in listed if words not in rows]
    assert not missing


# What a switch says unasked.

CONTROLLER13, TABLE13 = requests13.CONTROLLER, requests13.TABLE
FRAME = requests13.FRAME
MARK = FRAME[:-1] + b"\xff"
IP = bytes.fromhex("020000000002 020000000001 0800 45000024000000000111 0000 0a000001 0a000002 00010035 00100000")
TO_CONTROLLER = apply_actions(of.output13(CONTROLLER13))


def injected(actions=None, in_port=1, data=FRAME):
    return packet_out13(actions or [of.output13(TABLE13)], data, in_port=in_port)


def packets13():
    """Rules, and packet-outs whose packets come to the controller, or do not."""
    goto = of.instruction(1, b"\1\0\0\0")
    group = action(22, struct.pack("!I", 1))
    bucket = of.group_mod(1, of.bucket(of.output13(CONTROLLER13)))
    written = of.write_actions(of.output13(CONTROLLER13))
    metadata = of.instruction(2, struct.pack("!4xQQ", 5, 15))
    ttl = [action(24), of.output13(2)]
    yield "no rule", [], [injected()]
    for port in (1, 99, CONTROLLER13, 0xFFFFFFFE, 0xFFFFFFFF):
        yield f"at once, in_port {port:#x}", [], [injected([of.output13(CONTROLLER13)], port)]
    yield "at once, of 20 bytes", [], [injected([of.output13(CONTROLLER13, 20)])]
    yield "a rule of 20 bytes", [flow_mod13(b"", apply_actions(of.output13(CONTROLLER13, 20)))], [injected()]
    yield "a table-miss rule", [flow_mod13(b"", TO_CONTROLLER, priority=0, cookie=7)], [injected()]
    yield "a rule of priority 0", [flow_mod13(oxm("in_port", 1), TO_CONTROLLER, priority=0, cookie=7)], [injected()]
    for port in (1, CONTROLLER13, 0xFFFFFFFF):
        yield f"a rule, in_port {port:#x}", [flow_mod13(b"", TO_CONTROLLER, cookie=7)], [injected(in_port=port)]
    first = flow_mod13(b"", goto, cookie=7)
    yield "a rule of a later table", [first, flow_mod13(b"", TO_CONTROLLER, table=1, cookie=8)], [injected()]
    miss = flow_mod13(b"", TO_CONTROLLER, table=1, cookie=8, priority=0)
    yield "the table-miss rule of a later table", [first, miss], [injected()]
    yield "an action set", [flow_mod13(b"", written, cookie=7)], [injected()]
    later = flow_mod13(b"", table=1, cookie=8)
    yield "an action set of two tables", [flow_mod13(b"", written, goto, cookie=7), later], [injected()]
    yield "a group", [bucket, flow_mod13(b"", apply_actions(group), cookie=7)], [injected(), injected([group])]
    yield "a group in an action set", [bucket, flow_mod13(b"", of.write_actions(group), cookie=7)], [injected()]
    tunnel = flow_mod13(b"", metadata, apply_actions(of.set_field("tunnel_id", 9)), goto, cookie=7)
    yield "metadata and tunnel", [tunnel, flow_mod13(b"", TO_CONTROLLER, table=1, cookie=8)], [injected()]
    metadata = apply_actions(of.set_field("metadata", 9), of.output13(CONTROLLER13))
    yield "metadata that is set", [flow_mod13(b"", metadata)], [injected()]
    expired = [flow_mod13(oxm("eth_type", 0x800), apply_actions(*ttl), cookie=9)]
    yield "a time to live that is over", expired, [injected(data=IP)]
    asked = Message(28, struct.pack("!6I", 7, 7, 7, 7, 15, 15))
    yield "the same, asked for", [asked, *expired], [injected(data=IP), injected(ttl, data=IP)]


def packets10():
    controller = of.output10(0xFFFD)
    table = [of.output10(0xFFF9)]
    for port in (1, 99, 0xFFFD, 0xFFFE, 0xFFFF):
        yield f"at once, in_port {port:#x}", [], [packet_out10([controller], FRAME, in_port=port)]
        yield f"no rule, in_port {port:#x}", [], [packet_out10(table, FRAME, in_port=port)]
    for priority in (0, 9):
        rule = flow_mod10(None, controller, priority=priority, cookie=7)
        yield f"a rule of priority {priority}", [rule], [packet_out10(table, FRAME, in_port=1)]
    limited = flow_mod10(None, of.output10(0xFFFD, 20))
    yield "a rule of 20 bytes", [limited], [packet_out10(table, FRAME, in_port=1)]
    short = Message(of.SET_CONFIG, struct.pack("!HH", 0, 20))
    yield "no rule, miss_send_len 20", [short], [packet_out10(table, FRAME, in_port=1)]


def packet_in(version, body):
    """What a packet-in says, and its packet."""
    if version == of.OF10:
        buffer, total, port, reason = struct.unpack_from("!IHHB", body)
        return f"buffer={buffer:#x} total={total} in_port={port:#x} reason={reason}", body[10:]
    buffer, total, reason, table, cookie = struct.unpack_from("!IHBBQ", body)
    (length,) = struct.unpack_from("!H", body, 18)
    fields = ",".join(sorted(oxms(body[20 : 16 + length])))
    text = f"buffer={buffer:#x} total={total} reason={reason} table={table} cookie={cookie:#x} {fields}"
    return text, body[16 + -(-length // 8) * 8 + 2 :]


def packet_ins(switch, messages):
    """What comes to the controller of packet-outs, in words."""
    of10 = switch.version == of.OF10
    mark = packet_out10([of.output10(0xFFFD)], MARK) if of10 else injected([of.output13(CONTROLLER13)], data=MARK)
    switch.send(*messages, mark)
    found = []
    while True:
        answer = switch.receive()
        assert not answer.error, answer
        if answer.kind == of.PACKET_IN:
            text, data = packet_in(switch.version, answer.body)
            if data == MARK:
                return found
            found.append(f"{text} {data.hex()}")


@pytest.mark.parametrize("version", [of.OF10, of.OF13], ids=NAMES.get)
def test_packet_ins_say_what_those_of_open_vswitch_say(openvswitch, version):
    cases = list(packets10() if version == of.OF10 else packets13())
    wiped = [flow_mod10(command=3)] if version == of.OF10 else [flow_mod13(command=3, table=0xFF)]
    wiped += [of.group_mod(0xFFFFFFFC, command=2)] if version == of.OF13 else []
    said = []
    for start in (open_vswitch, emulated):
        with start(version) as switch:
            texts = {}
            for name, before, sent in cases:
                switch.ask(*wiped, *before)
                texts[name] = packet_ins(switch, sent)
            said.append(texts)
    expected, found = said
    assert found == expected
    miss = expected["no rule, in_port 0x1" if version == of.OF10 else "no rule"]
    assert len(miss) == (version == of.OF10), "only 1.0 sends what no rule takes to the controller"


def removals():
    """Rules that end, and what ends them."""

    def rule(*instructions, **options):
        return flow_mod13(b"", *instructions, flags=1, cookie=9, **options)

    through = apply_actions(action(22, struct.pack("!I", 1)))
    metered = of.instruction(6, struct.pack("!I", 1))
    yield "deleted", [rule()], flow_mod13(command=3)
    yield "deleted strictly", [rule()], flow_mod13(command=4)
    yield "with its group", [of.group_mod(1, of.bucket()), rule(through)], of.group_mod(1, command=2)
    yield "with its meter", [of.meter_mod(1, of.band()), rule(metered)], of.meter_mod(1, command=2)
    yield "replaced", [rule()], rule(TO_CONTROLLER)


def removed(switch, make, end):
    """Reason and table of what is reported when a rule ends. Another rule's end comes last."""
    last = [flow_mod13(table=5, flags=1, cookie=1), flow_mod13(table=5, command=3)]
    switch.ask(*make)
    switch.send(end, *last)
    found = []
    while True:
        answer = switch.receive()
        assert not answer.error, answer
        if answer.kind == of.FLOW_REMOVED:
            cookie, reason, table = struct.unpack_from("!QxxBB", answer.body)
            if cookie == 1:
                return found
            found.append((reason, table))


def test_rules_end_as_those_of_open_vswitch_do(openvswitch):
    said = []
    for start in (open_vswitch, emulated):
        with start(of.OF13) as switch:
            wiped = [flow_mod13(command=3, table=0xFF), of.group_mod(0xFFFFFFFC, command=2)]
            texts = {}
            for name, make, end in removals():
                texts[name] = removed(switch, make, end)
                # Rules that are left end before the next case begins.
                removed(switch, [], wiped[0])
                switch.ask(*wiped)
            said.append(texts)
    expected, found = said
    assert found == expected
    assert expected["with its group"] == [(3, 0)] and expected["with its meter"] == []


def test_an_emulated_switch_has_as_many_tables_as_it_is_told(openvswitch):
    def tables(switch):
        (answer,) = switch.ask(Message(of.FEATURES_REQUEST))
        return answer.body[12]

    with open_vswitch(of.OF13) as switch:
        assert tables(switch) == 254
    with emulated(of.OF13) as switch:
        assert tables(switch) == 254
    with emulated(of.OF13, "--flow-tables", "10") as switch:
        assert tables(switch) == 10
        assert switch.ask(flow_mod13(table=9)) == []
        (refused,) = switch.ask(flow_mod13(table=10))
        assert refused.error == (5, 2)
