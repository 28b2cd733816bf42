"""Requests in OpenFlow 1.3, right ones and wrong ones, for comparing switches: all fields with all kinds of values,
masks and prerequisites, all actions, instructions, groups, meters and what else a controller can ask for.

A case is a name and the messages that a switch without rules, groups and meters gets.
"""

import struct

import openflow as of
from openflow import BY_NAME, FIELDS, Message, apply_actions, bucket, flow_mod13, group_mod, meter_mod, oxm, stated

OUTPUT = of.output13(1)
CONTROLLER, LOCAL, NORMAL, FLOOD, ALL, TABLE, IN_PORT = (
    0xFFFFFF00 + n for n in (0xFD, 0xFE, 0xFA, 0xFB, 0xFC, 0xF9, 0xF8)
)
PORTS = {
    "zero": 0,
    "one": 1,
    "absent": 99,
    "last_real": 0xFEFF,
    "beyond": 0xFF00,
    "far": 0x10000,
    "max": 0xFFFFFF00,
    "unset": 0xFFFFFFF7,
    "in_port": IN_PORT,
    "table": TABLE,
    "normal": NORMAL,
    "flood": FLOOD,
    "all": ALL,
    "controller": CONTROLLER,
    "local": LOCAL,
    "any": 0xFFFFFFFF,
}
FRAME = bytes.fromhex("020000000002 020000000001 88b5") + bytes(46)


def cases():
    """All of them: `(name, messages)`."""
    for part in (matches, set_fields, actions, instructions, flow_mods, packet_outs, groups, meters, questions, others):
        for name, *messages in part():
            yield f"{part.__name__}: {name}", messages


def ways(field):
    """Ways to state the field's prerequisites, with a name each."""
    for needs in field.needs or ((),):
        yield needs, "".join(f" {name}={value:#x}" for name, value in needs)


def masks(field):
    """Values and masks of every kind: `(name, value, mask)`."""
    full, high = field.full, field.full >> field.bits // 2 << field.bits // 2
    yield "exact", field.value, None
    yield "zero", 0, None
    yield "all ones", full, None
    yield "masked with all ones", field.value, full
    yield "masked with nothing", 0, 0
    yield "value, masked with nothing", field.value, 0
    yield "prefix", field.value & high, high
    yield "low bit", field.value & 1, 1
    yield "holes in the mask", field.value & 0x5555 & full, 0x5555 & full
    yield "host bits", field.value | 1, high & ~1
    if field.bits < 8 * field.size:
        wide = (1 << 8 * field.size) - 1
        yield "too large", 1 << field.bits, None
        yield "mask too large", field.value, wide
        yield "value and mask too large", 1 << field.bits | field.value, wide
    if field.name == "vlan_vid":
        yield "any tag", 0x1000, 0x1000
        yield "no tag by mask", 0, 0x1000
        yield "id without the present bit", 5, None
        yield "id whatever the tag", 5, 0xFFF
        yield "present bit only of the mask", 0x0, 0x1FFF
        yield "largest id", 0x1FFF, None


def matches():
    for field in FIELDS:
        for needs, stating in ways(field):
            before = stated(needs)
            for name, value, mask in masks(field):
                yield f"{field.name} {name}{stating}", flow_mod13(before + oxm(field, value, mask))
            entry = oxm(field, field.value)
            if needs:
                yield f"{field.name}, then{stating}", flow_mod13(entry + before)
                yield f"{field.name} with the last of{stating} only", flow_mod13(stated(needs[-1:]) + entry)
                yield f"{field.name} with all but the last of{stating}", flow_mod13(stated(needs[:-1]) + entry)
            yield f"{field.name} twice{stating}", flow_mod13(before + entry + entry)
            yield f"{field.name} with two values{stating}", flow_mod13(before + entry + oxm(field, field.value ^ 1))
            yield (
                f"{field.name} too short{stating}",
                flow_mod13(before + oxm(field, field.value, size=field.size - 1 or 3)),
            )
            yield f"{field.name} too long{stating}", flow_mod13(before + oxm(field, field.value, size=field.size + 1))
        if field.needs:
            yield f"{field.name} without prerequisites", flow_mod13(oxm(field, field.value))
            yield f"{field.name} with eth_type=0x88b5", flow_mod13(oxm("eth_type", 0x88B5) + oxm(field, field.value))
    yield from odd_matches()


def odd_matches():
    tag = oxm("vlan_vid", 0x1000, 0x1000)
    yield "vlan_pcp, any tag", flow_mod13(tag + oxm("vlan_pcp", 3))
    yield "vlan_pcp, no tag", flow_mod13(oxm("vlan_vid", 0) + oxm("vlan_pcp", 0))
    yield "eth_type 0x8100", flow_mod13(oxm("eth_type", 0x8100))
    yield "eth_type 0x8100 and a tag", flow_mod13(oxm("eth_type", 0x8100) + tag)
    yield "eth_type below 0x600", flow_mod13(oxm("eth_type", 0x5FF))
    yield "ip_proto, eth_type masked", flow_mod13(oxm("eth_type", 0x800, 0xFFFF) + oxm("ip_proto", 6))
    yield "tcp_src, ip_proto masked", flow_mod13(oxm("eth_type", 0x800) + oxm("ip_proto", 6, 0xFF) + oxm("tcp_src", 1))
    yield "arp_op of eth_type 0x8035", flow_mod13(oxm("eth_type", 0x8035) + oxm("arp_op", 3))
    yield "arp_op 256", flow_mod13(oxm("eth_type", 0x806) + oxm("arp_op", 256))
    yield "unknown field", flow_mod13(struct.pack("!HBB", 0x8000, 60 << 1, 2) + bytes(2))
    yield "field 41", flow_mod13(struct.pack("!HBB", 0x8000, 41 << 1, 1) + bytes(1))
    yield "unknown class", flow_mod13(struct.pack("!HBB", 0x1234, 0, 2) + bytes(2))
    yield "class of Nicira's registers", flow_mod13(struct.pack("!HBB", 1, 0, 4) + bytes(4))
    yield "experimenter's field", flow_mod13(struct.pack("!HBBI", 0xFFFF, 0, 6, 0x12345678) + bytes(2))
    for name, kind, length in [("standard match", 0, 4), ("length 3", 1, 3), ("length 5", 1, 5), ("length 99", 1, 99)]:
        message = flow_mod13()
        yield name, message._replace(body=message.body[:40] + struct.pack("!HH4x", kind, length))
    for name, port in PORTS.items():
        yield f"in_port, port {name}", flow_mod13(oxm("in_port", port))
    pairs = [("eth_type", "vlan_vid"), ("ipv4_src", "arp_spa"), ("tcp_src", "udp_src"), ("icmpv4_type", "icmpv6_type")]
    for a, b in pairs:
        needs = stated((BY_NAME[a].needs or ((),))[0])
        yield f"{a} and {b}", flow_mod13(needs + oxm(a, BY_NAME[a].value) + oxm(b, BY_NAME[b].value))


def set_fields():
    for field in FIELDS:
        for needs, stating in ways(field):
            match = stated(needs)
            values = [("", field.value, None), (" to 0", 0, None), (" to all ones", field.full, None)]
            values.append((" masked", field.value & 1, 1))
            values.append((" masked with all ones", field.value, field.full))
            values.append((" masked with nothing", 0, 0))
            if field.bits < 8 * field.size:
                values.append((" to too much", 1 << field.bits, None))
            if field.name == "vlan_vid":
                match = stated([("vlan_vid", 0x1001)])
                values.append((" to an id without the present bit", 5, None))
            for name, value, mask in values:
                act = of.set_field(field, value, mask)
                yield f"{field.name}{name}{stating}", flow_mod13(match, apply_actions(act, OUTPUT))
            act = of.set_field(field, field.value)
            yield f"write {field.name}{stating}", flow_mod13(match, of.write_actions(act, OUTPUT))
            for wrong in (field.size - 1 or 3, field.size + 1):
                act = of.set_field(field, field.value, size=wrong)
                yield f"{field.name} of {wrong} bytes{stating}", flow_mod13(match, apply_actions(act, OUTPUT))
        act = of.set_field(field, field.value)
        yield f"{field.name} without prerequisites", flow_mod13(b"", apply_actions(act, OUTPUT))
        yield f"write {field.name} without prerequisites", flow_mod13(b"", of.write_actions(act, OUTPUT))
        yield f"{field.name} in a packet-out", of.packet_out13([act, OUTPUT], FRAME)
        yield f"{field.name} in a group", group_mod(1, bucket(act, OUTPUT))
        pushed = of.action(17, struct.pack("!Hxx", 0x8100))
        yield f"{field.name} after push_vlan", flow_mod13(b"", apply_actions(pushed, act, OUTPUT))
    odd = of.action(25, struct.pack("!HBB", 0x8000, 60 << 1, 2) + bytes(8))
    yield "unknown field", flow_mod13(b"", apply_actions(odd))
    padding = of.action(25, oxm("eth_src", 1) + b"\1\1")
    yield "padding that is not zero", flow_mod13(b"", apply_actions(padding))


def every_action():
    """All actions: `(name, bytes, fields that they are about)`."""
    half = "!Hxx"
    yield "copy_ttl_out", of.action(11)
    yield "copy_ttl_in", of.action(12)
    yield "set_mpls_ttl", of.action(15, b"\x40\0\0\0")
    yield "set_mpls_ttl 0", of.action(15)
    yield "dec_mpls_ttl", of.action(16)
    for eth_type in (0x8100, 0x88A8, 0x9100, 0x800, 0):
        yield f"push_vlan {eth_type:#x}", of.action(17, struct.pack(half, eth_type))
    yield "pop_vlan", of.action(18)
    for eth_type in (0x8847, 0x8848, 0x800):
        yield f"push_mpls {eth_type:#x}", of.action(19, struct.pack(half, eth_type))
        yield f"pop_mpls {eth_type:#x}", of.action(20, struct.pack(half, eth_type))
    yield "set_queue", of.action(21, struct.pack("!I", 1))
    yield "group 1, which is absent", of.action(22, struct.pack("!I", 1))
    yield "group of all ones", of.action(22, struct.pack("!I", 0xFFFFFFFF))
    yield "set_nw_ttl", of.action(23, b"\x40\0\0\0")
    yield "set_nw_ttl 0", of.action(23)
    yield "dec_nw_ttl", of.action(24)
    yield "push_pbb", of.action(26, struct.pack(half, 0x88E7))
    yield "pop_pbb", of.action(27)
    for kind in (1, 10, 13, 14, 28, 29, 99):
        yield f"type {kind}", of.action(kind)
    yield "experimenter", of.action(0xFFFF, struct.pack("!I", 0x12345678))
    yield "Nicira's resubmit", of.action(0xFFFF, struct.pack("!IHHBxxx", 0x2320, 1, 1, 0))
    yield "output, length 8", of.action(0)
    yield "output, length 24", of.action(0, struct.pack("!IH14x", 1, 0))
    yield "length 12", of.action(18, bytes(8))
    yield "length 4", struct.pack("!HH", 18, 4) + bytes(4)
    yield "length 0", struct.pack("!HH", 18, 0) + bytes(4)
    yield "length 64", struct.pack("!HH", 18, 64) + bytes(4)
    yield "padding that is not zero", of.action(18, b"\0\0\0\1")
    for name, port in PORTS.items():
        yield f"output {name}", of.output13(port)
    yield "output with max_len 0", of.output13(CONTROLLER, 0)
    yield "output with max_len 0xffe6", of.output13(CONTROLLER, 0xFFE6)


CONTEXTS = {
    "any": (),
    "IPv4": (("eth_type", 0x800),),
    "IPv6": (("eth_type", 0x86DD),),
    "ARP": (("eth_type", 0x806),),
    "MPLS": (("eth_type", 0x8847),),
    "MPLS multicast": (("eth_type", 0x8848),),
    "a tag": (("vlan_vid", 0x1005),),
    "no tag": (("vlan_vid", 0),),
}


def actions():
    for name, act in every_action():
        for context, conditions in CONTEXTS.items():
            yield f"{name} on {context}", flow_mod13(stated(conditions), apply_actions(act, OUTPUT))
        yield f"{name}, written", flow_mod13(b"", of.write_actions(act, OUTPUT))
        yield f"{name} in a packet-out", of.packet_out13([act, OUTPUT], FRAME)
        yield f"{name} in a group", group_mod(1, bucket(act, OUTPUT))
    yield from sequences()


def sequences():
    def act(kind, value=0):
        return of.action(kind, struct.pack("!Hxx", value))

    push, pop, push_mpls, pop_mpls = act(17, 0x8100), of.action(18), act(19, 0x8847), act(20, 0x800)
    vid, src = of.set_field("vlan_vid", 0x1005), of.set_field("ipv4_src", 1)
    lists = {
        "push_vlan, set vlan_vid": (push, vid),
        "push_vlan, set vlan_pcp": (push, of.set_field("vlan_pcp", 3)),
        "set vlan_vid, push_vlan": (vid, push),
        "push_vlan, pop_vlan, set vlan_vid": (push, pop, vid),
        "push_vlan twice": (push, push, vid),
        "push_vlan three times": (push, push, push, vid),
        "push_vlan, pop_vlan twice": (push, pop, pop),
        "push_mpls, set mpls_label": (push_mpls, of.set_field("mpls_label", 5)),
        "push_mpls, set ipv4_src": (push_mpls, src),
        "push_mpls, pop_mpls": (push_mpls, pop_mpls),
        "push_mpls, pop_mpls, set ipv4_src": (push_mpls, pop_mpls, src),
        "push_mpls four times": (push_mpls,) * 4,
        "pop_mpls, set ipv4_src": (pop_mpls, src),
        "set eth_type": (of.set_field("eth_type", 0x800), src),
        "set ip_proto, set tcp_src": (of.set_field("ip_proto", 6), of.set_field("tcp_src", 1)),
        "two outputs": (OUTPUT, OUTPUT),
        "nothing": (),
        "set ipv4_src, output, set ipv4_src": (src, OUTPUT, src),
    }
    for name, list_ in lists.items():
        for context, conditions in CONTEXTS.items():
            yield f"{name} on {context}", flow_mod13(stated(conditions), apply_actions(*list_, OUTPUT))
        yield f"{name}, written on IPv4", flow_mod13(stated(CONTEXTS["IPv4"]), of.write_actions(*list_, OUTPUT))
        yield f"{name} in a packet-out", of.packet_out13([*list_, OUTPUT], FRAME)
        yield f"{name} in a group", group_mod(1, bucket(*list_, OUTPUT))


def instructions():
    def goto(table):
        return of.instruction(1, struct.pack("!Bxxx", table))

    def metadata(value, mask):
        return of.instruction(2, struct.pack("!4xQQ", value, mask))

    clear, meter = of.instruction(5), of.instruction(6, struct.pack("!I", 1))
    apply, write = apply_actions(OUTPUT), of.write_actions(OUTPUT)
    there = meter_mod(1, of.band())
    for table in (0, 1, 253, 254, 255):
        yield f"goto {table}", flow_mod13(b"", goto(table))
        yield f"in table {table}", flow_mod13(b"", apply, table=table)
        yield f"goto {table} in table 1", flow_mod13(b"", goto(table), table=1)
    for name, value, mask in [
        ("all", 5, (1 << 64) - 1),
        ("masked", 5, 0xFF),
        ("nothing", 0, 0),
        ("host bits", 0x1FF, 0xFF),
    ]:
        yield f"metadata {name}", flow_mod13(b"", metadata(value, mask))
        yield f"metadata {name} in the last table", flow_mod13(b"", metadata(value, mask), table=253)
    yield "clear", flow_mod13(b"", clear)
    yield "meter that is absent", flow_mod13(b"", meter)
    yield "meter", there, flow_mod13(b"", meter, apply)
    yield "meter 0", flow_mod13(b"", of.instruction(6))
    yield "all, in order", there, flow_mod13(b"", meter, apply, clear, write, metadata(1, 1), goto(1))
    yield "all, the other way round", there, flow_mod13(b"", goto(1), metadata(1, 1), write, clear, apply, meter)
    for name, one in {
        "goto": goto(1),
        "metadata": metadata(1, 1),
        "write": write,
        "apply": apply,
        "clear": clear,
    }.items():
        yield f"{name} twice", flow_mod13(b"", one, one)
        yield f"{name}, too short", flow_mod13(b"", struct.pack("!HH", struct.unpack("!H", one[:2])[0], 4) + bytes(4))
        yield f"{name}, length 0", flow_mod13(b"", one[:2] + bytes(2) + one[4:])
        yield f"{name}, longer than the message", flow_mod13(b"", one[:2] + b"\1\0" + one[4:])
    yield "meter twice", there, flow_mod13(b"", meter, meter)
    yield "clear of 16 bytes", flow_mod13(b"", of.instruction(5, bytes(12)))
    yield "goto of 16 bytes", flow_mod13(b"", of.instruction(1, b"\1" + bytes(11)))
    yield "no actions applied", flow_mod13(b"", apply_actions())
    yield "no actions written", flow_mod13(b"", of.write_actions())
    for kind in (0, 7, 99):
        yield f"type {kind}", flow_mod13(b"", of.instruction(kind))
    yield "experimenter", flow_mod13(b"", of.instruction(0xFFFF, struct.pack("!I", 0x12345678)))


def flow_mods():
    apply = apply_actions(OUTPUT)
    for command in range(6):
        for table in (0, 253, 254, 255) if command < 5 else (0, 253, 254):
            yield f"command {command} in table {table}", flow_mod13(b"", apply, command=command, table=table)
        yield f"command {command} with a buffer", flow_mod13(b"", apply, command=command, buffer=7)
    for bit in range(8):
        yield f"flag {bit}", flow_mod13(b"", apply, flags=1 << bit)
        yield f"flag {bit} in a deletion", flow_mod13(b"", command=3, flags=1 << bit)
    first = flow_mod13(oxm("in_port", 1), apply, cookie=0x10)
    yield "overlap, checked", first, flow_mod13(oxm("eth_src", 1), apply, flags=2)
    yield "same match, overlap checked", first, flow_mod13(oxm("in_port", 1), apply, flags=2)
    yield "overlap of another priority", first, flow_mod13(oxm("eth_src", 1), apply, flags=2, priority=5)
    yield "same again", first, flow_mod13(oxm("in_port", 1), cookie=0x20)
    for name, command in [("modify", 1), ("modify strictly", 2), ("delete", 3), ("delete strictly", 4)]:
        for what, options in {
            "": {},
            " of another priority": {"priority": 5},
            " by cookie": {"cookie": 0x10, "cookie_mask": 0xFF},
            " by another cookie": {"cookie": 0x30, "cookie_mask": 0xFF},
            " by out_port": {"out_port": 1},
            " by another out_port": {"out_port": 2},
            " by out_group": {"out_group": 2},
            " in all tables": {"table": 255},
        }.items():
            change = apply_actions(of.output13(2))
            body = () if command > 2 else (change,)
            yield f"{name}{what}", first, flow_mod13(oxm("in_port", 1), *body, command=command, **options)
        yield f"{name}, a wider match", first, flow_mod13(b"", *((apply,) if command < 3 else ()), command=command)
        yield f"{name} what is not there", flow_mod13(b"", *((apply,) if command < 3 else ()), command=command)
        yield (
            f"{name} with actions that are wrong",
            first,
            flow_mod13(b"", apply_actions(of.action(99)), command=command),
        )
    yield "add with a cookie mask", flow_mod13(b"", apply, cookie=1, cookie_mask=1)
    yield "priority 0", flow_mod13(b"", apply, priority=0)
    yield "timeouts", flow_mod13(b"", apply, idle=100, hard=200)
    yield "too short", Message(of.FLOW_MOD, bytes(20))
    yield "a zero mask and none", flow_mod13(oxm("eth_src", 0, 0)), flow_mod13()
    for field in FIELDS:
        needs = stated((field.needs or ((),))[0])
        yield (
            f"{field.name}: a zero mask is not a condition",
            flow_mod13(needs),
            flow_mod13(needs + oxm(field, 0, 0), flags=2),
        )


def packet_outs():
    yield from packet_outs_of(of.packet_out13, OUTPUT, PORTS, 8)


def packet_outs_of(packet_out, output, ports, length_at):
    """Packet-outs of either version, which has the length of their actions there."""
    for name, port in ports.items():
        yield f"in_port {name}", packet_out([output], FRAME, in_port=port)
    yield "a buffer", packet_out([output], buffer=7)
    yield "no data", packet_out([output])
    yield "no actions", packet_out((), FRAME)
    yield "a short frame", packet_out([output], FRAME[:10])
    message = packet_out([output], FRAME)
    longer = message.body[:length_at] + b"\1\0" + message.body[length_at + 2 :]
    yield "actions longer than the message", message._replace(body=longer)
    yield "too short", Message(of.PACKET_OUT, bytes(length_at))


def groups():
    port = bucket(OUTPUT)
    watching = bucket(OUTPUT, port=1)
    for kind in range(6):
        for name, buckets in {
            "no buckets": (),
            "a bucket": (port,),
            "two buckets": (port, port),
            "a weight": (bucket(OUTPUT, weight=1),),
            "two weights": (bucket(OUTPUT, weight=1), bucket(OUTPUT, weight=2)),
            "a watched port": (watching,),
            "two watched ports": (watching, bucket(OUTPUT, port=2)),
            "a watched port that is absent": (bucket(OUTPUT, port=99),),
            "a watched group that is absent": (bucket(OUTPUT, group=9),),
            "a watched group": (bucket(OUTPUT, group=1),),
            "one watched, one not": (watching, port),
            "no actions": (bucket(),),
            "a port to watch that is reserved": (bucket(OUTPUT, port=CONTROLLER),),
            "local watched": (bucket(OUTPUT, port=LOCAL),),
        }.items():
            yield f"type {kind}, {name}", group_mod(2, *buckets, kind=kind)
        yield f"modify to type {kind}", group_mod(2, port), group_mod(2, watching, kind=kind, command=1)
    for number in (0, 1, 0xFFFFFEFF, 0xFFFFFF00, 0xFFFFFF01, 0xFFFFFFFB, 0xFFFFFFFC, 0xFFFFFFFF):
        for command in range(4):
            buckets = () if command == 2 else (port,)
            yield f"command {command} of {number:#x}", group_mod(number, *buckets, command=command)
    use = of.action(22, struct.pack("!I", 1))
    rule = flow_mod13(b"", apply_actions(use), flags=1)
    yield "twice", group_mod(1, port), group_mod(1, port)
    yield "used", group_mod(1, port), rule
    yield "used, then deleted", group_mod(1, port), rule, group_mod(1, command=2)
    yield "deleted with buckets", group_mod(1, port), group_mod(1, port, command=2)
    yield "used in another", group_mod(1, port), group_mod(2, bucket(use))
    yield "used in itself", group_mod(1, port), group_mod(1, bucket(use), command=1)
    yield "uses an absent one", group_mod(2, bucket(use))
    yield "used in another, and deleted", group_mod(1, port), group_mod(2, bucket(use)), group_mod(1, command=2)
    for name, size in [("0", 0), ("8", 8), ("24", 24), ("104", 104)]:
        yield f"a bucket of length {name}", group_mod(1, struct.pack("!H", size) + port[2:])
    yield "too short", Message(of.GROUP_MOD, bytes(4))


def meters():
    for flags in range(32):
        yield f"flags {flags}", meter_mod(1, of.band(burst=10), flags=flags)
    for kind in (0, 1, 2, 3, 0xFFFF):
        yield f"band {kind}", meter_mod(1, of.band(kind=kind))
    yield "remarking by 0", meter_mod(1, of.band(kind=2, last=bytes(4)))
    yield "remarking by 2", meter_mod(1, of.band(kind=2, last=b"\2\0\0\0"))
    for number in (
        0,
        1,
        1000,
        65535,
        65536,
        65537,
        100_000,
        0xFFFEFFFF,
        0xFFFF0000,
        0xFFFFFFFD,
        0xFFFFFFFE,
        0xFFFFFFFF,
    ):
        for command in range(4):
            yield f"command {command} of {number:#x}", meter_mod(number, of.band(), command=command)
    yield "twice", meter_mod(1, of.band()), meter_mod(1, of.band())
    for count in (0, 2, 8, 9, 20):
        yield f"{count} bands", meter_mod(1, *(of.band(rate=1000 + n) for n in range(count)))
    yield "rate 0", meter_mod(1, of.band(rate=0))
    yield "burst 0", meter_mod(1, of.band(), flags=5)
    yield "burst without its flag", meter_mod(1, of.band(burst=5), flags=1)
    yield "largest rate", meter_mod(1, of.band(rate=0xFFFFFFFF))
    yield "no bands, deleted with bands", meter_mod(1, of.band()), meter_mod(1, of.band(), command=2)
    rule = flow_mod13(b"", of.instruction(6, struct.pack("!I", 1)), apply_actions(OUTPUT), flags=1)
    yield "used, then deleted", meter_mod(1, of.band()), rule, meter_mod(1, command=2)
    yield "used, then all deleted", meter_mod(1, of.band()), rule, meter_mod(0xFFFFFFFF, command=2)
    yield "used, then modified", meter_mod(1, of.band()), rule, meter_mod(1, of.band(rate=5), command=1)
    yield "a band of length 12", meter_mod(1, struct.pack("!HHII", 1, 12, 1000, 0))
    yield "a band of length 0", meter_mod(1, struct.pack("!HHII", 1, 0, 1000, 0) + bytes(4))
    yield "too short", Message(of.METER_MOD, bytes(4))


def questions():
    for kind in (0, 3, 7, 8, 9, 10, 11, 12, 13, 14, 15, 99, 0xFFFF):
        for size in (0, 4, 8, 16) if kind != 12 else (0, 4):
            yield f"multipart {kind} with {size} bytes", of.multipart(kind, bytes(size))
    for name, port in PORTS.items():
        yield f"port {name}", of.multipart(4, struct.pack("!I4x", port))
        yield f"queue of port {name}", of.multipart(5, struct.pack("!II", port, of.ANY))
        yield f"queue 7 of port {name}", of.multipart(5, struct.pack("!II", port, 7))
        yield f"queue configuration of port {name}", Message(22, struct.pack("!I4x", port))
    for number in (0, 1, 0xFFFFFFFC, 0xFFFFFFFF):
        yield f"group {number:#x}", of.multipart(6, struct.pack("!I4x", number))
        yield f"meter {number:#x}", of.multipart(9, struct.pack("!I4x", number))
        yield f"meter configuration {number:#x}", of.multipart(10, struct.pack("!I4x", number))
    for kind in (1, 2):
        for table in (0, 1, 253, 254, 255):
            body = struct.pack("!B3xII4xQQ", table, of.ANY, of.ANY, 0, 0)
            yield f"kind {kind} of table {table}", of.multipart(kind, body + of.match13())
        wrong = of.match13(oxm("ipv4_src", 1))
        yield (
            f"kind {kind}, without prerequisites",
            of.multipart(kind, struct.pack("!B3xII4xQQ", 0, of.ANY, of.ANY, 0, 0) + wrong),
        )
        yield f"kind {kind}, too short", of.multipart(kind, bytes(12))


def configurations(*all_flags):
    """Configurations of either version; the last one is as it was before."""

    def config(flags, length):
        return Message(of.SET_CONFIG, struct.pack("!HH", flags, length)), Message(of.GET_CONFIG)

    for flags in all_flags:
        yield f"configuration, flags {flags:#x}", *config(flags, 128)
    for length in (0, 128, 0xFFE5, 0xFFFF):
        yield f"miss_send_len {length}", *config(0, length)
    yield "configuration back", *config(0, 128)


def others():
    yield from configurations(0, 3, *(1 << bit for bit in range(16)))
    for kind in range(30, 36):
        yield f"type {kind}", Message(kind, bytes(8))
    for kind in (6, 8, 11, 12, 19, 21, 25, 27):
        yield f"a switch's message, type {kind}", Message(kind, bytes(16))
    yield "echo", Message(2, b"hello")
    yield "barrier with a body", Message(20, bytes(8))
    yield "features request with a body", Message(5, bytes(8))
    yield "experimenter", Message(4, struct.pack("!II", 0x12345678, 1))
    yield "experimenter, too short", Message(4, bytes(4))
    for table in (0, 1, 253, 254, 255):
        for config in (0, 1, 3, 4, 0xFF):
            yield f"table-mod {table} {config}", Message(17, struct.pack("!B3xI", table, config))
    for role in range(5):
        yield f"role {role}", Message(24, struct.pack("!I4xQ", role, 1))
    yield "role back", Message(24, struct.pack("!I4xQ", 1, 0))
    yield "asynchronous configuration", Message(26)
    for port in (1, 99, LOCAL, 0xFFFFFFFF):
        yield f"port-mod {port:#x}", Message(16, struct.pack("!I4x6s2xIII4x", port, bytes(6), 0, 0, 0))
    yield "port-mod, too short", Message(16, bytes(16))
