"""Requests in OpenFlow 1.0, right ones and wrong ones, for comparing switches. See `requests13`."""

import struct

import openflow as of
from openflow import WILD, Message, flow_mod10, match10
from requests13 import FRAME, configurations, packet_outs_of

OUTPUT = of.output10(1)
PORTS = {
    "zero": 0,
    "one": 1,
    "absent": 99,
    "last_real": 0xFEFF,
    "max": 0xFF00,
    "reserved": 0xFF01,
    "unset": 0xFFF7,
    "in_port": 0xFFF8,
    "table": 0xFFF9,
    "normal": 0xFFFA,
    "flood": 0xFFFB,
    "all": 0xFFFC,
    "controller": 0xFFFD,
    "local": 0xFFFE,
    "none": 0xFFFF,
}
VALUES = {
    "in_port": 1,
    "src": 0x020000000001,
    "dst": 0x020000000002,
    "vlan": 5,
    "pcp": 3,
    "eth_type": 0x800,
    "tos": 0x20,
    "proto": 6,
    "nw_src": 0x0A000001,
    "nw_dst": 0x0A000002,
    "tp_src": 1,
    "tp_dst": 2,
}
CONTEXTS = {
    "any": {},
    "IPv4": {"eth_type": 0x800},
    "TCP": {"eth_type": 0x800, "proto": 6},
    "UDP": {"eth_type": 0x800, "proto": 17},
    "SCTP": {"eth_type": 0x800, "proto": 132},
    "ICMP": {"eth_type": 0x800, "proto": 1},
    "another protocol": {"eth_type": 0x800, "proto": 89},
    "ARP": {"eth_type": 0x806},
    "RARP": {"eth_type": 0x8035},
    "IPv6": {"eth_type": 0x86DD},
    "TCP over IPv6": {"eth_type": 0x86DD, "proto": 6},
    "MPLS": {"eth_type": 0x8847},
    "LLC": {"eth_type": 0x5FF},
    "a type that is not IP": {"eth_type": 0x88B5},
    "a tag": {"vlan": 5},
    "no tag": {"vlan": 0xFFFF},
}


def cases():
    """All of them: `(name, messages)`."""
    for part in (matches, actions, flow_mods, packet_outs, questions, others):
        for name, *messages in part():
            yield f"{part.__name__}: {name}", messages


def matches():
    for field, value in VALUES.items():
        for context, conditions in CONTEXTS.items():
            yield f"{field} with {context}", flow_mod10(match10(**{**conditions, field: value}))
    for context, conditions in CONTEXTS.items():
        yield f"everything with {context}", flow_mod10(match10(**{**VALUES, **conditions}))
        for bits in (0, 1, 8, 31, 32, 33, 63):
            names = {"nw_src": 0x0A000001}
            wildcards = sum(bit for name, bit in WILD.items() if name not in conditions) | bits << 8 | 32 << 14
            yield f"nw_src less {bits} bits with {context}", flow_mod10(match10(wildcards, **conditions, **names))
    for vlan in (0, 1, 0xFFF, 0x1000, 0x1005, 0x8000, 0xFFFE, 0xFFFF):
        yield f"vlan {vlan:#x}", flow_mod10(match10(vlan=vlan))
        for pcp in (0, 7, 8, 255):
            yield f"vlan {vlan:#x}, pcp {pcp}", flow_mod10(match10(vlan=vlan, pcp=pcp))
    for tos in (0, 1, 3, 4, 0xFC, 0xFF):
        yield f"tos {tos:#x}", flow_mod10(match10(eth_type=0x800, tos=tos))
    for name, port in PORTS.items():
        yield f"in_port {name}", flow_mod10(match10(in_port=port))
    yield "all bits of the wildcards", flow_mod10(match10(0xFFFFFFFF))
    yield "values under wildcards", flow_mod10(match10(of.ALL_WILD, **VALUES))
    yield "arp_op 256", flow_mod10(match10(eth_type=0x806, proto=255))
    yield "icmp type 256", flow_mod10(match10(eth_type=0x800, proto=1, tp_src=256))
    yield "icmp code 256", flow_mod10(match10(eth_type=0x800, proto=1, tp_dst=256))


def every_action():
    for name, port in PORTS.items():
        yield f"output {name}", of.output10(port)
        yield f"enqueue {name}", of.action(11, struct.pack("!H6xI", port, 1))
    yield "output with max_len 0", of.output10(0xFFFD, 0)
    for vid in (0, 1, 0xFFF, 0x1000, 0xFFFF):
        yield f"set_vlan_vid {vid:#x}", of.action(1, struct.pack("!Hxx", vid))
    for pcp in (0, 7, 8, 255):
        yield f"set_vlan_pcp {pcp}", of.action(2, struct.pack("!Bxxx", pcp))
    yield "strip_vlan", of.action(3)
    yield "set_dl_src", of.action(4, bytes.fromhex("020000000009") + bytes(6))
    yield "set_dl_dst", of.action(5, bytes.fromhex("020000000009") + bytes(6))
    yield "set_nw_src", of.action(6, struct.pack("!I", 1))
    yield "set_nw_dst", of.action(7, struct.pack("!I", 1))
    for tos in (0, 1, 3, 4, 0xFC, 0xFF):
        yield f"set_nw_tos {tos:#x}", of.action(8, struct.pack("!Bxxx", tos))
    yield "set_tp_src", of.action(9, struct.pack("!Hxx", 1))
    yield "set_tp_dst", of.action(10, struct.pack("!Hxx", 1))
    for kind in (12, 17, 18, 22, 25, 99):
        yield f"type {kind}", of.action(kind)
    yield "vendor", of.action(0xFFFF, struct.pack("!I", 0x12345678))
    yield "length 4", struct.pack("!HH", 3, 4) + bytes(4)
    yield "length 0", struct.pack("!HH", 3, 0) + bytes(4)
    yield "length 64", struct.pack("!HH", 3, 64) + bytes(4)
    yield "strip_vlan, length 16", of.action(3, bytes(12))
    yield "set_dl_src, length 8", of.action(4)
    yield "enqueue, length 8", of.action(11)
    yield "padding that is not zero", of.action(3, b"\0\0\0\1")


def actions():
    for name, act in every_action():
        for context in ("any", "IPv4", "TCP", "UDP", "SCTP", "ICMP", "ARP", "IPv6", "a tag", "no tag"):
            yield f"{name} on {context}", flow_mod10(match10(**CONTEXTS[context]), act, OUTPUT)
        yield f"{name} in a packet-out", of.packet_out10([act, OUTPUT], FRAME)
    vid, pcp, strip = of.action(1, b"\0\5\0\0"), of.action(2, b"\3\0\0\0"), of.action(3)
    for context in ("any", "a tag", "no tag"):
        match = match10(**CONTEXTS[context])
        yield f"vid, pcp on {context}", flow_mod10(match, vid, pcp, OUTPUT)
        yield f"vid, strip, pcp on {context}", flow_mod10(match, vid, strip, pcp, OUTPUT)
        yield f"strip twice on {context}", flow_mod10(match, strip, strip, OUTPUT)
    yield "two outputs", flow_mod10(None, OUTPUT, OUTPUT)


def flow_mods():
    for command in range(7):
        yield f"command {command}", flow_mod10(None, OUTPUT, command=command)
        yield f"command {command} with a buffer", flow_mod10(None, OUTPUT, command=command, buffer=7)
    for bit in range(8):
        yield f"flag {bit}", flow_mod10(None, OUTPUT, flags=1 << bit)
        yield f"flag {bit} in a deletion", flow_mod10(command=3, flags=1 << bit)
    first = flow_mod10(match10(in_port=1), OUTPUT, cookie=0x10)
    other = flow_mod10(match10(src=1), OUTPUT, flags=2)
    yield "overlap, checked", first, other
    yield "same match, overlap checked", first, flow_mod10(match10(in_port=1), OUTPUT, flags=2)
    yield "overlap of another priority", first, flow_mod10(match10(src=1), OUTPUT, flags=2, priority=5)
    yield "same again", first, flow_mod10(match10(in_port=1), cookie=0x20)
    for name, command in [("modify", 1), ("modify strictly", 2), ("delete", 3), ("delete strictly", 4)]:
        change = () if command > 2 else (of.output10(2),)
        for what, options in {
            "": {},
            " with another cookie": {"cookie": 0x30},
            " of another priority": {"priority": 5},
            " by out_port": {"out_port": 1},
            " by another out_port": {"out_port": 2},
        }.items():
            yield f"{name}{what}", first, flow_mod10(match10(in_port=1), *change, command=command, **options)
        yield f"{name}, a wider match", first, flow_mod10(None, *change, command=command)
        yield f"{name} what is not there", flow_mod10(None, *change, command=command)
        yield f"{name} with actions that are wrong", first, flow_mod10(None, of.action(99), command=command)
    yield "priority 0", flow_mod10(None, OUTPUT, priority=0)
    yield "exact match of priority 5", flow_mod10(match10(**VALUES), OUTPUT, priority=5)
    yield "exact match and another", flow_mod10(match10(**VALUES), OUTPUT, priority=5), flow_mod10(None, OUTPUT)
    yield "timeouts", flow_mod10(None, OUTPUT, idle=100, hard=200)
    yield "too short", Message(of.FLOW_MOD, bytes(20))
    yield "no room for an action", flow_mod10()._replace(body=flow_mod10().body + bytes(4))


def packet_outs():
    yield from packet_outs_of(of.packet_out10, OUTPUT, PORTS, 6)


def questions():
    for kind in (0, 3, 6, 7, 99, 0xFFFF):
        for size in (0, 4, 8):
            yield f"statistics {kind} with {size} bytes", of.stats10(kind, bytes(size))
    for name, port in PORTS.items():
        yield f"port {name}", of.stats10(4, struct.pack("!H6x", port))
        yield f"queue of port {name}", of.stats10(5, struct.pack("!HxxI", port, of.ANY))
        yield f"queue 7 of port {name}", of.stats10(5, struct.pack("!HxxI", port, 7))
        yield f"queue configuration of port {name}", Message(20, struct.pack("!Hxx", port))
    for kind in (1, 2):
        for table in (0, 1, 253, 254, 255):
            yield f"kind {kind} of table {table}", of.stats10(kind, match10() + struct.pack("!BxH", table, 0xFFFF))
        yield f"kind {kind}, too short", of.stats10(kind, bytes(12))


def others():
    yield from configurations(0, 1, 2, 3, 4, 8, 0x8000)
    for kind in (6, 8, 10, 11, 12, 17, 19, 22, 23, 24, 25, 29, 30, 99):
        yield f"type {kind}", Message(kind, bytes(16))
    yield "echo", Message(2, b"hello")
    yield "barrier with a body", Message(18, bytes(8))
    yield "features request with a body", Message(5, bytes(8))
    yield "vendor", Message(4, struct.pack("!II", 0x12345678, 1))
    yield "vendor, too short", Message(4, b"")
    for name, port in PORTS.items():
        yield f"port-mod {name}", Message(15, struct.pack("!H6sIII4x", port, bytes(6), 0, 0, 0))
    yield "port-mod, too short", Message(15, bytes(16))
