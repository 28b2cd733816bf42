"""OpenFlow messages as bytes, and a controller that sends them and notes what the switch answers.

It knows nothing of Maple: what it sends may be wrong in any way.
"""

import struct
from typing import NamedTuple

OF10, OF13 = 1, 4
NO_BUFFER = 0xFFFFFFFF
ANY = 0xFFFFFFFF

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST = 0, 1, 2, 3, 5
GET_CONFIG, SET_CONFIG, PACKET_IN, FLOW_REMOVED, PORT_STATUS = 7, 9, 10, 11, 12
PACKET_OUT, FLOW_MOD, GROUP_MOD, METER_MOD, MULTIPART, MULTIPART_REPLY = 13, 14, 15, 29, 18, 19
BARRIER = {OF10: 18, OF13: 20}
BARRIER_REPLY = {OF10: 19, OF13: 21}


class Field(NamedTuple):
    """A field of OXM's basic class."""

    number: int
    name: str
    bits: int
    value: int
    """One that a packet can have."""
    needs: tuple = ()
    """Ways to state its prerequisites, each a tuple of `(name, value)`."""

    @property
    def size(self):
        return {20: 4}.get(self.bits, (self.bits + 7) // 8)

    @property
    def full(self):
        return (1 << self.bits) - 1


def _fields():
    v4, v6, arp = (("eth_type", 0x800),), (("eth_type", 0x86DD),), (("eth_type", 0x806),)
    mpls = (("eth_type", 0x8847),), (("eth_type", 0x8848),)
    tagged = (("vlan_vid", 0x1005),)

    def over(*protocols, bases=(v4, v6)):
        return tuple((*base, ("ip_proto", p)) for base in bases for p in protocols)

    def nd(*types):
        return tuple((*v6, ("ip_proto", 58), ("icmpv6_type", t)) for t in types)

    rows = [
        ("in_port", 32, 1, ()),
        ("in_phy_port", 32, 1, ((("in_port", 1),),)),
        ("metadata", 64, 0x1122334455667788, ()),
        ("eth_dst", 48, 0x020000000002, ()),
        ("eth_src", 48, 0x020000000001, ()),
        ("eth_type", 16, 0x88B5, ()),
        ("vlan_vid", 13, 0x1005, ()),
        ("vlan_pcp", 3, 5, (tagged,)),
        ("ip_dscp", 6, 46, (v4, v6)),
        ("ip_ecn", 2, 2, (v4, v6)),
        ("ip_proto", 8, 6, (v4, v6)),
        ("ipv4_src", 32, 0x0A000001, (v4,)),
        ("ipv4_dst", 32, 0x0A000002, (v4,)),
        ("tcp_src", 16, 1234, over(6)),
        ("tcp_dst", 16, 80, over(6)),
        ("udp_src", 16, 1234, over(17)),
        ("udp_dst", 16, 53, over(17)),
        ("sctp_src", 16, 1234, over(132)),
        ("sctp_dst", 16, 36412, over(132)),
        ("icmpv4_type", 8, 8, over(1, bases=(v4,))),
        ("icmpv4_code", 8, 3, over(1, bases=(v4,))),
        ("arp_op", 16, 1, (arp,)),
        ("arp_spa", 32, 0x0A000001, (arp,)),
        ("arp_tpa", 32, 0x0A000002, (arp,)),
        ("arp_sha", 48, 0x020000000001, (arp,)),
        ("arp_tha", 48, 0x020000000002, (arp,)),
        ("ipv6_src", 128, (0xFD << 120) + 1, (v6,)),
        ("ipv6_dst", 128, (0xFD << 120) + 2, (v6,)),
        ("ipv6_flabel", 20, 0x12345, (v6,)),
        ("icmpv6_type", 8, 128, over(58, bases=(v6,))),
        ("icmpv6_code", 8, 1, over(58, bases=(v6,))),
        ("ipv6_nd_target", 128, (0xFD << 120) + 3, nd(135, 136)),
        ("ipv6_nd_sll", 48, 0x020000000001, nd(135)),
        ("ipv6_nd_tll", 48, 0x020000000002, nd(136)),
        ("mpls_label", 20, 0x12345, mpls),
        ("mpls_tc", 3, 5, mpls),
        ("mpls_bos", 1, 1, mpls),
        ("pbb_isid", 24, 0x123456, ((("eth_type", 0x88E7),),)),
        ("tunnel_id", 64, 0x1234, ()),
        ("ipv6_exthdr", 9, 4, (v6,)),
    ]
    return tuple(Field(number, *row) for number, row in enumerate(rows))


FIELDS = _fields()
BY_NAME = {field.name: field for field in FIELDS}


def oxm(field, value, mask=None, size=None):
    """One condition, or the value of a set-field."""
    field = BY_NAME.get(field, field)
    size = size or field.size
    body = (value % (1 << 8 * size)).to_bytes(size, "big")
    body += b"" if mask is None else mask.to_bytes(size, "big")
    return struct.pack("!HBB", 0x8000, field.number << 1 | (mask is not None), len(body)) + body


def stated(conditions):
    """OXM bytes of `(name, value)` pairs."""
    return b"".join(oxm(name, value) for name, value in conditions)


def padded(data):
    return data + bytes(-len(data) % 8)


def match13(fields=b""):
    return padded(struct.pack("!HH", 1, 4 + len(fields)) + fields)


def action(kind, body=bytes(4)):
    return struct.pack("!HH", kind, 4 + len(body)) + body


def output13(port, max_len=0xFFFF):
    return action(0, struct.pack("!IH6x", port, max_len))


def set_field(field, value, mask=None, size=None):
    entry = oxm(field, value, mask, size)
    return action(25, padded(bytes(4) + entry)[4:])


def instruction(kind, body=bytes(4)):
    return struct.pack("!HH", kind, 4 + len(body)) + body


def apply_actions(*actions):
    return instruction(4, bytes(4) + b"".join(actions))


def write_actions(*actions):
    return instruction(3, bytes(4) + b"".join(actions))


class Message(NamedTuple):
    """A message without version and transaction id."""

    kind: int
    body: bytes = b""


def flow_mod13(
    match=b"",
    *instructions,
    cookie=0,
    cookie_mask=0,
    table=0,
    command=0,
    idle=0,
    hard=0,
    priority=100,
    buffer=NO_BUFFER,
    out_port=ANY,
    out_group=ANY,
    flags=0,
):
    head = struct.pack(
        "!QQBBHHHIIIHxx",
        *(cookie, cookie_mask, table, command, idle, hard, priority, buffer, out_port, out_group, flags),
    )
    return Message(FLOW_MOD, head + match13(match) + b"".join(instructions))


def packet_out13(actions=(), data=b"", buffer=NO_BUFFER, in_port=0xFFFFFFFD):
    actions = b"".join(actions)
    return Message(PACKET_OUT, struct.pack("!IIH6x", buffer, in_port, len(actions)) + actions + data)


def bucket(*actions, weight=0, port=ANY, group=ANY):
    actions = b"".join(actions)
    return struct.pack("!HHII4x", 16 + len(actions), weight, port, group) + actions


def group_mod(number, *buckets, command=0, kind=0):
    return Message(GROUP_MOD, struct.pack("!HBxI", command, kind, number) + b"".join(buckets))


def band(rate=1000, burst=0, kind=1, last=bytes(4)):
    return struct.pack("!HHII", kind, 16, rate, burst) + last


def meter_mod(number, *bands, command=0, flags=1):
    return Message(METER_MOD, struct.pack("!HHI", command, flags, number) + b"".join(bands))


def multipart(kind, body=b"", flags=0):
    return Message(MULTIPART, struct.pack("!HHI", kind, flags, 0) + body)


def flow_stats_request13(match=b"", table=0xFF, out_port=ANY, out_group=ANY, cookie=0, mask=0):
    return multipart(1, struct.pack("!B3xII4xQQ", table, out_port, out_group, cookie, mask) + match13(match))


# OpenFlow 1.0.

WILD = {
    "in_port": 1,
    "vlan": 2,
    "src": 4,
    "dst": 8,
    "eth_type": 0x10,
    "proto": 0x20,
    "tp_src": 0x40,
    "tp_dst": 0x80,
    "pcp": 0x100000,
    "tos": 0x200000,
}
ALL_WILD = 0x3FFFFF


def match10(wildcards=None, nw_src_bits=32, nw_dst_bits=32, **values):
    """A match on the fields that are given; addresses lose this number of low bits."""
    if wildcards is None:
        wildcards = sum(bit for name, bit in WILD.items() if name not in values)
        wildcards |= (0 if "nw_src" in values else nw_src_bits) << 8 | (0 if "nw_dst" in values else nw_dst_bits) << 14
    names = ("in_port", "src", "dst", "vlan", "pcp", "eth_type", "tos", "proto", "nw_src", "nw_dst", "tp_src", "tp_dst")
    v = {name: values.get(name, 0) for name in names}
    v |= {name: v[name].to_bytes(6, "big") for name in ("src", "dst")}
    return struct.pack("!IH6s6sHBxHBB2xIIHH", wildcards, *(v[name] for name in names))


def flow_mod10(
    match=None,
    *actions,
    cookie=0,
    command=0,
    idle=0,
    hard=0,
    priority=100,
    buffer=NO_BUFFER,
    out_port=0xFFFF,
    flags=0,
):
    head = struct.pack("!QHHHHIHH", cookie, command, idle, hard, priority, buffer, out_port, flags)
    return Message(FLOW_MOD, (match or match10()) + head + b"".join(actions))


def output10(port, max_len=0xFFFF):
    return action(0, struct.pack("!HH", port, max_len))


def packet_out10(actions=(), data=b"", buffer=NO_BUFFER, in_port=0xFFFF):
    actions = b"".join(actions)
    return Message(PACKET_OUT, struct.pack("!IHH", buffer, in_port, len(actions)) + actions + data)


def stats10(kind, body=b"", flags=0):
    return Message(16, struct.pack("!HH", kind, flags) + body)


class Answer(NamedTuple):
    """A message of the switch."""

    kind: int
    xid: int
    body: bytes

    @property
    def error(self):
        """Type and code, if it is an error."""
        return struct.unpack_from("!HH", self.body) if self.kind == ERROR else None


class Session:
    """The connection of a switch, which connects to `listener`."""

    def __init__(self, listener, version, timeout=20):
        self.version = version
        listener.settimeout(timeout)
        self.socket, _ = listener.accept()
        self.socket.settimeout(timeout)
        self.buffer = b""
        self.xid = 0
        self.send(Message(HELLO))
        self.barrier()

    def close(self):
        self.socket.close()

    def send(self, *messages):
        """Sends messages in one piece; gives their transaction ids."""
        data, xids = b"", []
        for kind, body in messages:
            self.xid += 1
            xids.append(self.xid)
            data += struct.pack("!BBHI", self.version, kind, 8 + len(body), self.xid) + body
        self.socket.sendall(data)
        return xids

    def receive(self):
        """The next message; echo requests are answered."""
        while True:
            header = self._take(8)
            _, kind, length, xid = struct.unpack("!BBHI", header)
            body = self._take(length - 8)
            if kind != ECHO_REQUEST:
                return Answer(kind, xid, body)
            self.socket.sendall(struct.pack("!BBHI", self.version, ECHO_REPLY, length, xid) + body)

    def _take(self, count):
        while len(self.buffer) < count:
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionError("the switch closed its connection")
            self.buffer += more
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def barrier(self):
        """All answers until the switch has done what it was told."""
        (xid,) = self.send(Message(BARRIER[self.version]))
        answers = []
        while True:
            answer = self.receive()
            if answer.kind == BARRIER_REPLY[self.version] and answer.xid == xid:
                return answers
            answers.append(answer)

    def ask(self, *messages):
        """The answers to these messages, in order."""
        self.send(*messages)
        return self.barrier()
