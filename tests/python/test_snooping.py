"""Groups and leases that Maple learns from what hosts say: what policies are told, and what changes with it."""

from __future__ import annotations

import json
import re
import struct
import textwrap
from pathlib import Path

import pytest
from maple import Net, Packet, Route, drop, emulate, flood, multicast, policy
from maple._policy import Policy, load
from maple.testing import Bench, frame
from test_command import Running, maple

LESSONS = Path(__file__).resolve().parents[2] / "examples" / "lessons"
GROUP, OTHER, IN_V6 = "239.1.1.1", "239.1.1.2", "ff05::9"


def lesson(name: str) -> Policy:
    loaded = load(str(LESSONS / name))
    assert isinstance(loaded, Policy)
    return loaded


def test_the_page_shows_the_lessons_as_they_are() -> None:
    page = (LESSONS.parents[1] / "docs" / "snooping.md").read_text()
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    files = [(LESSONS / name).read_text() for name in ("multicast.py", "source_guard.py")]
    assert shown == [file.split('"""\n\n', 1)[1] for file in files]
    for code in shown:
        assert sum(bool(line.strip()) for line in code.splitlines()) <= 40


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def igmp(mac: object, group: str, kind: int = 0x16) -> bytes:
    """A report of version 2 (0x16), or a leave (0x17)."""
    address = bytes(map(int, group.split(".")))
    message = struct.pack("!BBH4s", kind, 0, 0, address)
    message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
    header = struct.pack("!BBHHHBBH4s4s", 0x46, 0, 32, 0, 0, 1, 2, 0, bytes([10, 0, 0, 9]), address) + b"\x94\x04\0\0"
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    hardware = bytes.fromhex(str(mac).replace(":", ""))
    return b"\x01\0\x5e" + bytes([address[1] & 0x7F, *address[2:]]) + hardware + b"\x08\0" + header + message


def data(mac: object, group: str) -> bytes:
    parts = [int(part) for part in group.split(".")]
    dst = f"01:00:5e:{parts[1] & 0x7F:02x}:{parts[2]:02x}:{parts[3]:02x}"
    return frame(eth_src=str(mac), eth_dst=dst, ipv4_src="10.0.0.1", ipv4_dst=group, udp_src=5000, udp_dst=5000)


def test_multicast_reaches_members_only() -> None:
    net = emulate("ring:4", lesson("multicast.py"))
    assert net.pingall().failed == []
    stream = data(net.hosts["h1"].mac, GROUP)
    assert net.hosts["h1"].send(stream).hosts == []
    for name in ("h2", "h4"):
        net.hosts[name].send(igmp(net.hosts[name].mac, GROUP))
    assert sorted(net.hosts["h1"].send(stream).hosts) == ["h2", "h4"]
    assert net.hosts["h1"].send(data(net.hosts["h1"].mac, OTHER)).hosts == []
    net.hosts["h2"].send(igmp(net.hosts["h2"].mac, GROUP, 0x17))
    net.run(2.5)
    assert net.hosts["h1"].send(stream).hosts == ["h4"]
    # Emulated hosts answer no questions: after 260 seconds their membership is over.
    net.run(260)
    assert net.hosts["h1"].send(stream).hosts == []
    assert net.errors == []


def test_only_packets_of_the_group_that_changed_are_decided_again() -> None:
    asked: list[str] = []

    @policy(snoop="igmp")
    def f(pkt: Packet, net: Net) -> Route:
        if pkt.udp_dst != 5000:
            return flood()
        group = pkt.ipv4_dst
        asked.append(str(group))
        src = net.locate(pkt.eth_src)
        return multicast(net.shortest_path(src, at) for at in net.members(group) if at != src)

    net = emulate("linear:3", f)
    h1, h2 = net.hosts["h1"], net.hosts["h2"]
    for group in (GROUP, OTHER, GROUP, OTHER):
        assert h1.send(data(h1.mac, group)).hosts == []
    assert set(asked) == {GROUP, OTHER}
    for step, hosts in ((igmp(h2.mac, GROUP), ["h2"]), (igmp(h2.mac, GROUP, 0x17), [])):
        asked.clear()
        h2.send(step)
        net.run(3)
        assert set(asked) == {GROUP}, "f is asked afresh about that group"
        asked.clear()
        h2.send(igmp(h2.mac, "239.9.9.9"))
        assert h1.send(data(h1.mac, GROUP)).hosts == hosts and h1.send(data(h1.mac, OTHER)).hosts == []
        assert OTHER not in asked, "its rule is there"
        asked.clear()
        assert h1.send(data(h1.mac, GROUP)).hosts == hosts
        assert asked == [], "the rules are there"


def test_a_member_whose_port_goes_down_leaves_its_groups() -> None:
    net = emulate("linear:3", lesson("multicast.py"))
    assert net.pingall().failed == []
    for name in ("h2", "h3"):
        net.hosts[name].send(igmp(net.hosts[name].mac, GROUP))
    stream = data(net.hosts["h1"].mac, GROUP)
    assert net.hosts["h1"].send(stream).hosts == ["h2", "h3"]
    other = emulate("linear:3", lesson("multicast.py"))
    assert other.pingall().failed == [] and other.hosts["h1"].send(stream).hosts == [], "a network of its own"
    switch, port = net.hosts["h3"].at
    net.switches[switch].port(port, up=False)
    net.run(1)
    assert net.hosts["h1"].send(stream).hosts == ["h2"]


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.switch(1, [1, 2, 3])
    bench.host("00:00:00:00:00:01", 1, 1)
    return bench


@policy(snoop=("igmp", "mld"))
def members(pkt: Packet, net: Net) -> Route:
    here = net.locate(pkt.eth_src)
    return multicast(net.shortest_path(here, at) for at in net.members(pkt.ipv4_dst))


def test_a_run_depends_on_the_group_that_it_asked_for(bench: Bench) -> None:
    stream = data("00:00:00:00:00:01", GROUP)
    assert bench.decide(members, stream).copies == []
    bench.members(GROUP, [(1, 3), (1, 2)])
    bench.members(IN_V6, [(1, 2)])
    decision = bench.decide(members, stream)
    assert [(at.switch, at.port) for at, _ in decision.copies] == [(1, 2), (1, 3)]
    assert [cell for cell in decision.reads if "members" in cell] == [f'Table("net.members", {GROUP})']

    @policy(snoop="igmp")
    def spellings(pkt: Packet, net: Net) -> Route:
        both = [(1, 2), (1, 3)]
        assert (
            [tuple(at) for at in net.members(GROUP)] == [tuple(at) for at in net.members("01:00:5e:01:01:01")] == both
        )
        assert [tuple(at) for at in net.members(pkt.eth_dst)] == both
        assert [tuple(at) for at in net.members(IN_V6)] == [tuple(at) for at in net.members("33:33:00:00:00:09")]
        # An absent field is not a group.
        assert net.members(OTHER) == net.members(pkt.ipv6_dst) == []
        return drop()

    decision = bench.decide(spellings, stream)
    assert decision.error is None
    with pytest.raises(ValueError, match=r"is an end of a link|has no port"):
        bench.members(GROUP, [(1, 9)])


def test_a_lease_is_found_by_both_addresses(bench: Bench) -> None:
    @policy(snoop="dhcp", dhcp_servers=[(1, 1)])
    def leases(pkt: Packet, net: Net) -> Route:
        lease = net.lease(pkt.ipv4_src)
        if lease is None:
            assert net.lease("10.0.0.77") is None and net.leases() == [] and net.lease("fe80::1") is None
            return drop()
        assert lease == net.lease("00:00:00:00:00:01") and net.leases() == [lease]
        mac, ip, location, ends = lease
        assert (mac, ip, tuple(location), ends) == ("00:00:00:00:00:01", "10.0.0.1", (1, 1), 99)
        return drop().copy_to(lease.location)

    stream = data("00:00:00:00:00:01", GROUP)
    assert bench.decide(leases, stream).error is None
    bench.lease("00:00:00:00:00:01", "10.0.0.1", 1, 1, ends=99)
    decision = bench.decide(leases, stream)
    assert decision.error is None
    assert 'Table("net.leases", 10.0.0.1)' in decision.reads


def test_the_source_guard_lets_hosts_use_what_they_were_given(bench: Bench) -> None:
    guard = lesson("source_guard.py")
    bench = Bench()
    bench.switch(1, [1, 2, 3])
    host = "00:00:00:00:00:02"
    bench.host(host, 1, 2)
    broadcast = "ff:ff:ff:ff:ff:ff"
    asks = frame(
        eth_src=host, eth_dst=broadcast, ipv4_src="0.0.0.0", ipv4_dst="255.255.255.255", udp_src=68, udp_dst=67
    )
    arp = frame(eth_src=host, eth_dst=broadcast, arp_op=1, arp_spa="10.0.0.2", arp_tpa="10.0.0.1")
    forged = frame(eth_src=host, eth_dst=broadcast, arp_op=1, arp_spa="10.0.0.3", arp_tpa="10.0.0.1")
    serves = frame(eth_src=host, eth_dst=broadcast, ipv4_src="10.0.0.2", ipv4_dst=GROUP, udp_src=67, udp_dst=68)

    def passes(frame: bytes, port: int = 2) -> bool:
        decision = bench.decide(guard, frame, port=port)
        assert decision.error is None
        return decision.copies != []

    assert (passes(asks), passes(arp), passes(serves)) == (True, False, False)
    bench.lease(host, "10.0.0.2", 1, 2)
    assert (passes(arp), passes(forged), passes(serves)) == (True, False, False)
    bench.host(host, 1, 3)
    assert not passes(arp, port=3), "it asked elsewhere"
    bench.host(host, 1, 1)
    assert passes(serves, port=1), "where the server is"


def test_whether_an_address_was_given_is_asked_of_fields_and_of_values(bench: Bench) -> None:
    host, found = "00:00:00:00:00:01", []

    @policy(snoop="dhcp", dhcp_servers=[(1, 1)])
    def asks(pkt: Packet, net: Net) -> Route:
        found.append(net.is_leased(pkt.eth_src, pkt.ipv4_src))
        found.append(net.is_leased(pkt.eth_src.value, str(pkt.ipv4_src)))
        found.append(net.is_leased(pkt.eth_src, pkt.arp_spa) or net.is_leased(host, "fe80::1"))
        return drop()

    def answers() -> list[bool]:
        found.clear()
        decision = bench.decide(asks, data(host, GROUP))
        assert decision.error is None
        return list(found)

    assert answers() == [False, False, False]
    bench.lease(host, "10.0.0.1", 1, 1)
    assert answers() == [True, True, False]
    bench.lease(host, "10.0.0.2", 1, 1)
    assert answers() == [False, False, False], "the host has another address by now"


def test_asking_without_snooping_is_an_error() -> None:
    bench = Bench()
    bench.switch(1, [1])

    def unsnooped(pkt: Packet, net: Net) -> Route:
        return multicast(net.shortest_path((1, 1), at) for at in net.members(pkt.ipv4_dst))

    error = bench.decide(unsnooped, data("00:00:00:00:00:01", GROUP)).error
    assert error is not None
    assert "net.members needs snooping on IGMP or MLD, which is off (docs/snooping.md says how to turn it on)" in error


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"snoop": "arp"}, 'cannot snoop on "arp"'),
        ({"snoop": "dhcp"}, "snooping on DHCP needs the ports of the servers: dhcp_servers"),
        ({"dhcp_servers": [(1, 1)]}, 'ports of DHCP servers need snooping on "dhcp", which is off'),
        ({"snoop": ["dhcp"], "dhcp_servers": [(1, 1)], "querier": True}, 'a querier needs snooping on "igmp" or "mld"'),
    ],
)
def test_what_does_not_fit_together_is_refused_where_it_is_declared(options: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error.replace("(", r"\(")):
        Policy(lambda pkt, net: drop(), **options)  # type: ignore[arg-type]


def test_text_that_is_no_address_gives_a_clear_error(bench: Bench) -> None:
    @policy(snoop="igmp")
    def wrong(pkt: Packet, net: Net) -> Route:
        with pytest.raises(ValueError, match="'banana' is not an IP or MAC address"):
            net.members("banana")
        with pytest.raises(TypeError, match="an IP or MAC address is a str, not"):
            net.members([])  # type: ignore[arg-type]
        return drop()

    assert bench.decide(wrong, data("00:00:00:00:00:01", GROUP)).error is None


FLOOD = """
    from maple import flood, policy

    @policy
    def f(pkt, net):
        return flood() if not net.members("239.1.1.1") and net.lease("10.0.0.1") is None else flood()
    """


def test_the_command_line_snoops_and_shows_what_was_learned(tmp_path: Path) -> None:
    file = tmp_path / "f.py"
    file.write_text(textwrap.dedent(FLOOD))
    refused = maple("run", str(file), "--snoop", "dhcp", "--emulate", "ring:4")
    assert refused.returncode == 2 and "--dhcp-server SWITCH:PORT" in refused.stderr
    refused = maple("run", str(file), "--snoop", "arp", "--emulate", "ring:4")
    assert refused.returncode == 2 and "igmp, mld, dhcp" in refused.stderr
    running = Running(tmp_path, str(file), "--snoop", "igmp,dhcp", "--dhcp-server", "1:1")
    try:
        for what in ("groups", "leases"):
            shown = maple("show", what, "--json", "--control", running.control)
            assert json.loads(shown.stdout) == [], shown
        assert maple("show", "groups", "--control", running.control).stdout == ""
    finally:
        running.stop()
