"""Handlers: what they receive, what they may send, and what happens when they fail."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import maple
import pytest
from maple import Handler
from maple._policy import load
from maple.openflow import (
    Action,
    Band,
    Barrier,
    Bucket,
    FlowMod,
    GroupMod,
    Match,
    Messages,
    MeterMod,
    PacketIn,
    PacketOut,
    Port,
    PortStats,
    StatsRequest,
    SwitchError,
)
from maple.testing import HandlerBench, frame
from test_command import Running
from test_command import maple as run_maple

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
A, B, C = "00:00:00:00:00:0a", "00:00:00:00:00:0b", "00:00:00:00:00:0c"
BOTH = pytest.mark.parametrize("of", ["1.0", "1.3"])


def learning_switch() -> object:
    return load(str(EXAMPLES / "learning_switch_handler.py"))


def packet(src: str, dst: str) -> bytes:
    return frame(eth_src=src, eth_dst=dst, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", udp_dst=7)


@BOTH
def test_the_learning_switch_floods_then_installs(of: str) -> None:
    bench = HandlerBench(learning_switch(), of=of)
    assert len(bench.started) == (1 if of == "1.3" else 0), "1.3 has to be asked for packets"
    (flood,) = bench.packet_in(packet(A, B), port=1, buffer_id=7)
    assert flood == f"OFPT_PACKET_OUT{' (OF1.3)' if of == '1.3' else ''} in_port=1 actions=FLOOD buffer=0x00000007"
    (rule,) = bench.packet_in(packet(B, A), port=2, buffer_id=8)
    assert f"in_port=2,dl_src={B},dl_dst={A}" in rule
    assert "idle:5 buf:0x8" in rule
    assert rule.endswith("actions=output:1")
    rule, sent = bench.packet_in(packet(A, B), port=1)
    assert "ADD" in rule and "buf" not in rule
    assert sent.startswith("OFPT_PACKET_OUT") and "actions=output:2" in sent, "what is not kept is sent along"
    assert bench.packet_in(packet(C, A), port=1) == [], "it is there already"
    (delete,) = bench.port_status(2, "modify", up=False)
    assert "DEL" in delete and "out_port:2" in delete
    (flood,) = bench.packet_in(packet(A, B), port=1)
    assert "FLOOD" in flood
    assert bench.errors() == []


class Everything(Handler):
    """Prints what it receives."""

    def __init__(self) -> None:
        self.heard: list[str] = [f"init {self.switch.dpid} {self.switch.version} {len(self.switch.ports)}"]

    def switch_up(self) -> Messages:
        self.wake_after(0.05)
        self.heard.append("up")
        return [Barrier()]

    def packet_in(self, pkt: PacketIn) -> Iterator[PacketOut | FlowMod]:
        self.heard.append(f"packet {pkt.in_port} {pkt.eth_src} {pkt.udp_dst} {pkt.tcp_dst} {pkt.vlan_vid}")
        yield pkt.out([Action.set_field(eth_dst=A), 3])
        yield FlowMod.delete(Match(eth_dst=B))

    def port_status(self, port: Port, reason: str) -> Messages:
        self.heard.append(f"port {port.number} {port.name} {reason} {port.is_up} {len(self.switch.ports)}")
        return None

    def flow_removed(self, removed: maple.openflow.FlowRemoved) -> Messages:
        self.heard.append(f"removed {removed.match.fields} {removed.reason} {removed.duration} {removed.packets}")
        return None

    def error(self, error: SwitchError) -> Messages:
        self.heard.append(f"error {error.type} {error.code} {error.name}")
        return None

    def barrier(self) -> Messages:
        self.heard.append("barrier")
        return None

    def timer(self) -> Messages:
        self.heard.append("timer")
        return PacketOut(maple.openflow.FLOOD, b"x" * 14)

    def switch_down(self) -> None:
        self.heard.append("down")


@BOTH
def test_a_handler_receives_every_message_of_its_switch(of: str) -> None:
    bench = HandlerBench(Everything, dpid=5, ports=[1, 2, 3], of=of)
    assert bench.started[-1].startswith("OFPT_BARRIER_REQUEST")
    out, delete = bench.packet_in(packet(B, A), port=3)
    assert f"{A}" in out and "output:3" in out and "in_port=3" in out
    assert "DEL" in delete and f"dl_dst={B}" in delete
    assert bench.port_status(4, "add") == []
    assert bench.port_status(4, "delete") == []
    bench.flow_removed(Match(eth_dst=B))
    bench.error(1, 6)
    bench.barrier()
    assert "FLOOD" in bench.timer()[0]
    bench.switch_down()
    assert bench.errors() == []
    assert bench.handler.heard == [
        f"init 5 {of} 3",
        "up",
        f"packet 3 {B} 7 None None",
        "port 4 port4 add True 4",
        "port 4 port4 delete True 3",
        "removed {'eth_dst': Mac('" + B + "')} idle 1.5 2",
        "error 1 6 OFPBRC_BAD_LEN",
        "barrier",
        "timer",
        "down",
    ]


def test_each_switch_has_an_object_of_its_own() -> None:
    one, two = HandlerBench(learning_switch(), dpid=1), HandlerBench(learning_switch(), dpid=2)
    one.packet_in(packet(A, B))
    assert (len(one.handler.ports), len(two.handler.ports)) == (1, 0)
    assert (one.handler.switch.dpid, two.handler.switch.dpid) == (1, 2)


def test_matches_are_by_oxm_names_and_complete_themselves() -> None:
    assert Match(ipv4_src="10.0.0.0/8").fields.keys() == {"eth_type", "ipv4_src"}
    assert repr(Match(ipv4_src="10.0.0.0/8")) == "<Match ip,nw_src=10.0.0.0/8>"
    assert Match(eth_type=0x800, tcp_dst=80).get("ip_proto") == 6
    assert Match(ipv4_dst="10.0.0.1", tcp_dst=80) == Match(eth_type=0x800, ip_proto=6, ipv4_dst="10.0.0.1", tcp_dst=80)
    assert Match(vlan_vid=None).get("vlan_vid", "absent") is None
    assert Match(vlan_vid=10).get("vlan_vid") == 10
    assert Match(metadata=(1, 0xFF)).get("metadata") == (1, 0xFF)
    assert Match().fields == {} and Match().get("eth_src") is None
    for fields, message in [
        ({"tcp_dst": 80}, "tcp_dst needs eth_type beside it, as several kinds of packets have it"),
        ({"eth_type": 0x806, "tcp_dst": 80}, "no packet has tcp_dst and the other fields"),
        ({"tcp_dst": 70000}, "tcp_dst is 0 to 65535"),
        ({"nosuch": 1}, 'unknown field "nosuch"'),
        ({"tcp_dst": (1, 1)}, "can't be matched under a mask"),
        ({"eth_dst": "10.0.0.0/8"}, "another kind of address"),
        ({"in_port": "x"}, "in_port is a number"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            Match(**fields)  # type: ignore[arg-type]


def test_a_mask_of_zeros_asks_for_nothing_and_is_left_out() -> None:
    zero = "00:00:00:00:00:00"
    assert Match(eth_src=(A, zero), metadata=(1, 0)) == Match()
    assert Match(ipv4_src="0.0.0.0/0", ipv4_dst="10.0.0.1") == Match(ipv4_dst="10.0.0.1")
    assert Match(ipv4_src="0.0.0.0/0") == Match(eth_type=0x800), "what it needs beside it stays"


class Matcher(Handler):
    def packet_in(self, pkt: PacketIn) -> Messages:
        self.all, self.some = pkt.match(), pkt.match("udp_dst")
        self.pkt = pkt
        with pytest.raises(ValueError, match="the packet has no tcp_dst"):
            pkt.match("tcp_dst")
        return None


@BOTH
def test_packets_give_their_fields_and_the_match_of_their_like(of: str) -> None:
    bench = HandlerBench(Matcher, of=of)
    data = packet(A, B)
    bench.packet_in(data, port=2)
    assert bench.errors() == []
    found = bench.handler
    assert set(found.some.fields) == {"eth_type", "ip_proto", "udp_dst"}
    assert found.all.fields["in_port"] == 2 and found.all.fields["eth_src"] == A
    assert {"ipv4_src", "ipv4_dst", "udp_src", "udp_dst", "vlan_vid"} <= set(found.all.fields)
    assert (found.pkt.data, found.pkt.total_len, found.pkt.buffer_id) == (data, len(data), None)
    assert (found.pkt.ipv4_src, found.pkt.arp_op, found.pkt.reason) == ("10.0.0.1", None, "no match")
    assert "PacketIn in_port=2" in repr(found.pkt)


def failing(body: str, tmp_path: Path) -> HandlerBench:
    """A handler whose `packet_in` has this body, from line 5 of its file on."""
    lines = [
        "import time",
        "from maple import *; from maple.openflow import *",
        "class Failing(Handler):",
        "    def packet_in(self, pkt):",
    ]
    path = tmp_path / "failing.py"
    path.write_text("\n".join([*lines, *("        " + line for line in body.splitlines())]) + "\n")
    return HandlerBench(load(str(path)), of="1.0", time_limit=1.0)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return self.nothing", ["failing.py", "line 5, in packet_in", "AttributeError"]),
        ("yield pkt.flood()\n1 / 0", ["line 6, in packet_in", "ZeroDivisionError"]),
        (
            "return 'out'",
            ["failing.py", "line 4, in packet_in", "packet_in returned 'out' (str), which is not a message"],
        ),
        ("return [pkt.flood(), 7]", ["returned 7 (int), which is not a message"]),
        ("return FlowMod.add(Match(), 1, table=3)", ["which OpenFlow 1.0 can't say", "table 3", "line 4"]),
        ("return pkt.out('x')", ["line 5, in packet_in", "an action is a port number or an Action, not 'x' (str)"]),
        ("while True: pass", ["PolicyTimeout", "ran longer than 1000 ms"]),
    ],
)
def test_an_error_is_reported_with_its_place_and_costs_one_call(tmp_path: Path, body: str, says: list[str]) -> None:
    bench = failing(body, tmp_path)
    for _ in range(3):
        messages = bench.packet_in(packet(A, B))
        assert len(messages) == ("flood" in body), "what was said before goes out"
    (error,) = bench.errors()
    for text in ["the handler of switch 0000000000000001 failed", *says]:
        assert text in error


@pytest.mark.parametrize("as_list", [False, True])
def test_what_a_version_cannot_say_is_left_out_and_what_comes_after_it_is_sent(as_list: bool) -> None:
    class Mixed(Handler):
        def packet_in(self, pkt: PacketIn) -> Messages:
            messages = [
                FlowMod.add(Match(), 1, table=3),
                pkt.flood(),
                GroupMod.add(7, [1]),
                FlowMod.add(Match(), 2, table=3, packet=pkt),
                Barrier(),
            ]
            return messages if as_list else (message for message in messages)

    bench = HandlerBench(Mixed, of="1.0")
    said = bench.packet_in(packet(A, B))
    assert [text.split()[0] for text in said] == ["OFPT_PACKET_OUT", "OFPT_PACKET_OUT", "OFPT_BARRIER_REQUEST"], said
    assert "FLOOD" in said[0] and "output:2" in said[1]
    errors = bench.errors()
    # Once a connection, and not for each message.
    assert len(errors) == 1 and "which OpenFlow 1.0 can't say" in errors[0], errors


def test_a_handler_that_cannot_be_made_is_reported_and_its_switch_stays() -> None:
    class Broken(Handler):
        def __init__(self) -> None:
            raise RuntimeError("not today")

    bench = HandlerBench(Broken)
    assert "not today" in bench.errors()[0]
    assert bench.packet_in(packet(A, B)) == []


def test_a_refused_message_is_reported_unless_the_handler_receives_the_error() -> None:
    bench = HandlerBench(learning_switch())
    bench.error(5, 1)
    assert "OFPFMFC_TABLE_FULL" in bench.errors()[0]


def test_outside_of_maple_run_a_handler_has_no_switch() -> None:
    with pytest.raises(RuntimeError, match="HandlerBench"):
        _ = Handler().switch


def test_files_with_several_programs_need_a_name(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text("from maple import Handler\nclass Base(Handler): pass\n")
    path = tmp_path / "two.py"
    path.write_text(
        "from maple import *\nfrom base import Base\nclass One(Base): pass\n@policy\ndef f(pkt, net): ...\n"
    )
    with pytest.raises(LookupError, match="has the policies f and the handlers Base, One; say which one"):
        load(str(path))
    assert getattr(load(str(path), "One"), "__name__", "") == "One"
    path.write_text("from maple import *\nfrom base import Base\nclass One(Base): pass\n")
    assert getattr(load(str(path)), "__name__", "") == "One"


def test_the_guide_says_what_is_so() -> None:
    guide = Path(__file__).parents[2] / "docs/handlers.md"
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL):
        exec(compile(block, str(guide), "exec"), names)
    names["test_unknown_addresses_are_flooded"]()
    bench = HandlerBench(names["Learning"])
    bench.packet_in(packet(A, B), port=1)
    rule, _ = bench.packet_in(packet(B, A), port=2)
    assert f"dl_dst={A}" in rule and rule.endswith("actions=output:1")


@BOTH
def test_a_handler_serves_an_emulated_network(tmp_path: Path, of: str) -> None:
    running = Running(tmp_path, str(EXAMPLES / "learning_switch_handler.py"))
    try:
        done = run_maple("emulate", "linear:3", "--controller", running.address, "--traffic", "1s", "--of", of)
        assert done.returncode == 0, done.stdout + done.stderr
        assert running.show("errors") == []
    finally:
        assert running.stop() == 0
    log = running.log.read_text()
    assert "Traceback" not in log and " flow-mods" in log
    counts = [int(word) for word in log.strip().splitlines()[-1].replace(",", "").split() if word.isdigit()]
    assert all(count > 0 for count in counts), log


def test_a_failing_handler_is_reported_once_and_the_network_keeps_running(tmp_path: Path) -> None:
    path = tmp_path / "failing.py"
    path.write_text(
        "from maple import *\nclass Failing(Handler):\n    def packet_in(self, pkt):\n"
        "        if pkt.eth_dst != 'ff:ff:ff:ff:ff:ff': raise ValueError('odd')\n        return pkt.flood()\n"
    )
    running = Running(tmp_path, str(path))
    try:
        run_maple("emulate", "linear:2", "--controller", running.address, "--traffic", "1s")
        (error, *_) = running.show("errors")  # type: ignore[misc]
        assert "failing.py" in error["text"] and "line 4, in packet_in" in error["text"] and "odd" in error["text"]
    finally:
        assert running.stop() == 0
    assert "handlers failed" in running.log.read_text()


class Asking(Handler):
    """Asks for statistics of all kinds that its switch can say, and keeps the answers."""

    def __init__(self) -> None:
        self.got: list[maple.openflow.Stats] = []

    def switch_up(self) -> Messages:
        self.wake_after(1)
        yield StatsRequest.flows(Match(in_port=1), out_port=2)
        yield StatsRequest.aggregate()
        yield StatsRequest.tables()
        yield StatsRequest.ports()
        yield StatsRequest.ports(3)
        yield StatsRequest.queues()

    def packet_in(self, pkt: PacketIn) -> Messages:
        return None

    def stats(self, stats: maple.openflow.Stats) -> Messages:
        self.got.append(stats)
        return None if stats.more else Barrier()

    def timer(self) -> Messages:
        yield StatsRequest.groups(7)
        yield StatsRequest.group_descriptions()
        yield StatsRequest.meters()
        yield StatsRequest.meter_configs(9)


def of10(kind: int, body: bytes, flags: int = 0) -> bytes:
    """An encoded statistics reply of OpenFlow 1.0 (§5.3.5)."""
    return struct.pack("!BBHIHH", 1, 17, 12 + len(body), 0, kind, flags) + body


def of13(kind: int, body: bytes, flags: int = 0) -> bytes:
    """An encoded multipart reply of OpenFlow 1.3 (§7.3.5)."""
    return struct.pack("!BBHIHHI", 4, 19, 16 + len(body), 0, kind, flags, 0) + body


@BOTH
def test_a_handler_asks_for_statistics(of: str) -> None:
    bench = HandlerBench(Asking, of=of)
    asked = bench.started[-6:]
    kinds = ["FLOW", "AGGREGATE", "TABLE", "PORT", "PORT", "QUEUE"]
    assert [kind in text for kind, text in zip(kinds, asked, strict=True)] == [True] * 6, asked
    assert "in_port=1" in asked[0] and "out_port=2" in asked[0]
    later = bench.timer()
    if of == "1.3":
        assert len(later) == 4 and bench.errors() == []
    else:
        assert later == [] and "which OpenFlow 1.0 can't say" in bench.errors()[0]


def test_a_handler_receives_statistics_of_1_0() -> None:
    bench = HandlerBench(Asking, of="1.0")
    port = struct.pack("!H6x12Q", 3, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0)
    assert bench.stats(of10(4, port, flags=1)) == []
    (barrier,) = bench.stats(of10(4, port))
    assert "BARRIER" in barrier
    bench.stats(of10(2, struct.pack("!QQI4x", 10, 20, 3)))
    bench.stats(of10(3, struct.pack("!B3x32sIIIQQ", 1, b"classifier", 0, 1000, 5, 60, 50)))
    bench.stats(of10(5, struct.pack("!H2xIQQQ", 3, 8, 100, 10, 1)))
    first, second, aggregate, tables, queues = bench.handler.got
    assert (first.kind, first.more, second.more) == ("ports", True, False)
    (stats,) = second.entries
    assert isinstance(stats, PortStats)
    assert (stats.port, stats.rx_packets, stats.tx_packets, stats.rx_bytes, stats.tx_bytes) == (3, 1, 2, 3, 4)
    assert (stats.rx_dropped, stats.tx_dropped, stats.rx_errors, stats.tx_errors) == (5, 6, 7, 8)
    (total,) = aggregate.entries
    assert (total.packets, total.bytes, total.flows) == (10, 20, 3)
    (table,) = tables.entries
    assert (table.table, table.active, table.lookups, table.matched, table.max_entries) == (1, 5, 60, 50, 1000)
    (queue,) = queues.entries
    assert (queue.port, queue.queue, queue.tx_bytes, queue.tx_packets, queue.tx_errors) == (3, 8, 100, 10, 1)
    assert bench.errors() == []


def test_a_handler_receives_statistics_of_1_3() -> None:
    bench = HandlerBench(Asking)
    match = struct.pack("!HHI", 1, 12, 0x80000004) + struct.pack("!I4x", 1)
    output = struct.pack("!HHIH6x", 0, 16, 2, 0)
    instructions = struct.pack("!HH4x", 4, 24) + output + struct.pack("!HHB3x", 1, 8, 4) + struct.pack("!HHI", 6, 8, 9)
    fixed = struct.pack("!BxIIHHHH4xQQQ", 1, 2, 500_000_000, 70, 5, 6, 0, 0xC0, 11, 22)
    flow = struct.pack("!H", 2 + len(fixed) + len(match + instructions)) + fixed + match + instructions
    bench.stats(of13(1, flow))
    bench.stats(of13(6, struct.pack("!H2xII4xQQII", 56, 7, 2, 30, 40, 1, 0) + struct.pack("!QQ", 5, 6)))
    bucket = struct.pack("!HHII4x", 32, 50, 3, 0xFFFFFFFF) + output
    bench.stats(of13(7, struct.pack("!HBxI", 8 + len(bucket), 1, 7) + bucket))
    bench.stats(of13(9, struct.pack("!IH6xIQQII", 9, 56, 1, 30, 40, 1, 0) + struct.pack("!QQ", 5, 6)))
    bench.stats(of13(10, struct.pack("!HHI", 24, 2 | 4, 9) + struct.pack("!HHII4x", 1, 16, 1000, 50)))
    assert bench.errors() == []
    flows, groups, descriptions, meters, configs = bench.handler.got
    (rule,) = flows.entries
    assert rule.match == Match(in_port=1) and rule.actions == [Action.output(2)]
    assert (rule.table, rule.duration, rule.priority, rule.idle_timeout, rule.hard_timeout) == (1, 2.5, 70, 5, 6)
    assert (rule.cookie, rule.packets, rule.bytes, rule.goto, rule.meter) == (0xC0, 11, 22, 4, 9)
    (group,) = groups.entries
    assert (group.group, group.users, group.packets, group.bytes, group.buckets) == (7, 2, 30, 40, [(5, 6)])
    (description,) = descriptions.entries
    assert (description.group, description.type) == (7, "select")
    assert description.buckets == [Bucket(2, weight=50, watch_port=3)]
    (meter,) = meters.entries
    assert (meter.meter, meter.users, meter.packets, meter.bytes, meter.bands) == (9, 1, 30, 40, [(5, 6)])
    (config,) = configs.entries
    assert (config.meter, config.packets, config.bands) == (9, True, [Band.drop(1000, burst=50)])


def test_a_handler_changes_groups_and_meters() -> None:
    class Changing(Handler):
        def packet_in(self, pkt: PacketIn) -> Messages:
            buckets = [Bucket(1, weight=2), Bucket([Action.set_field(eth_dst=A), 2], weight=1)]
            yield GroupMod.add(7, buckets, type="select")
            yield GroupMod.modify(7, [1, [2, 3]])
            yield GroupMod.delete(7)
            yield GroupMod.delete()
            yield MeterMod.add(9, [Band.drop(1000, burst=100), Band.remark(500, levels=2)])
            yield MeterMod.modify(9, [Band.drop(10)], packets=True)
            yield MeterMod.delete(9)
            yield FlowMod.add(Match(), Action.group(7), meter=9)

        def timer(self) -> Messages:
            return GroupMod.add(1, [1], type="chosen")

        def barrier(self) -> Messages:
            return GroupMod.add(1, 5)  # type: ignore[arg-type]

    bench = HandlerBench(Changing)
    said = bench.packet_in(packet(A, B))
    assert bench.errors() == []
    assert len(said) == 8
    assert all("GROUP_MOD" in text for text in said[:4]) and all("METER_MOD" in text for text in said[4:7]), said
    assert "group:7" in said[7] and "meter:9" in said[7]
    bench.timer()
    assert 'one of all, select, indirect, ff, not "chosen"' in bench.errors()[0]
    bench.barrier()
    assert "buckets are a list of Bucket" in bench.errors()[0]
    old = HandlerBench(Changing, of="1.0")
    old.packet_in(packet(A, B))
    assert "which OpenFlow 1.0 can't say" in old.errors()[0]
