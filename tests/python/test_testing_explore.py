"""Assertions about all packets: counterexamples, proofs, and a brute-force oracle of both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maple import Net, Packet, Route, drop, flood, hops
from maple.testing import Network

H1, H2, H3 = (f"00:00:00:00:00:0{number}" for number in (1, 2, 3))


def walled(pkt: Packet, net: Net) -> Route:
    """h1 and h2 reach each other, h3 reaches nobody and nobody reaches it, but by one hole."""
    if pkt.tcp_dst == 8080:
        return flood()
    if pkt.eth_src == H3 or pkt.eth_dst == H3:
        return drop()
    if pkt.eth_dst == H1:
        return hops([(2, 2), (1, 1)]) if pkt.switch == 2 else hops([(1, 1)])
    if pkt.eth_dst == H2:
        return hops([(1, 2), (2, 1)]) if pkt.switch == 1 else hops([(2, 1)])
    return drop()


def closed(pkt: Packet, net: Net) -> Route:
    """h1 and h2 reach each other, h3 reaches nobody and nobody reaches it."""
    if pkt.eth_src == H3 or pkt.eth_dst == H3:
        return drop()
    return walled(pkt, net) if pkt.tcp_dst != 8080 else drop()


BOX = {
    "switches": [{"name": "s1"}, {"name": "s2"}],
    "hosts": [
        {"name": "h1", "switch": "s1"},
        {"name": "h2", "switch": "s2"},
        {"name": "h3", "switch": "s2", "port": 9},
    ],
    "links": [{"a": "s1", "b": "s2", "a_port": 2, "b_port": 2}],
}


@pytest.fixture
def box() -> Iterator[Callable[..., Network]]:
    made = []

    def make(policy: Any, **options: Any) -> Network:
        made.append(Network(BOX, policy, **options))
        return made[-1]

    yield make
    for network in made:
        network.close()


def test_a_hole_is_found_and_shown(box: Callable[..., Network]) -> None:
    with pytest.raises(AssertionError) as failed:
        box(walled).assert_isolated("h1", "h3")
    told = str(failed.value)
    assert told.startswith("not h3 isolated from h1") or told.startswith("not h1 isolated from h3")
    assert "tcp_dst=8080: yes" in told and "a copy leaves at the port of h" in told
    assert "8080" in told.splitlines()[1], "the packet itself is shown"


def test_isolation_is_proved_where_all_packets_were_tried(box: Callable[..., Network]) -> None:
    net = box(closed)
    explored = net.assert_isolated("h1", "h3", proof=True)
    assert explored.proved and str(explored) == "h1 and h3 isolated: proved for all packets"
    assert net.assert_isolated(["h1", "h2"], ["h3"]).proved
    assert box(walled).assert_isolated("h1", "h3", udp_dst=8080).proved, "only the packets that were named"


def test_what_a_policy_reads_as_a_whole_is_no_proof(box: Callable[..., Network]) -> None:
    def reads(pkt: Packet, net: Net) -> Route:
        return flood() if int(pkt.eth_dst.value) % 1_000_003 == 999 else drop()

    net = box(reads)
    explored = net.assert_isolated("h1", "h3")
    assert not explored.proved and "reads 48 bits of eth_dst" in str(explored)
    with pytest.raises(AssertionError, match="which is not a proof"):
        net.assert_isolated("h1", "h3", proof=True)


def test_a_policy_that_writes_is_no_proof(box: Callable[..., Network], tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(
        "from maple import *\nseen = Table('seen')\n@policy\ndef f(pkt, net):\n"
        "    if pkt.tcp_dst == 7: seen['all'] = True\n"
        "    return flood() if seen.get('all') and pkt.tcp_dst == 9 else drop()\n"
    )
    with pytest.raises(AssertionError, match=r"not h3 isolated from h1|not h1 isolated from h3"):
        box(tmp_path / "f.py").assert_isolated("h1", "h3")
    (tmp_path / "f.py").write_text(
        "from maple import *\nseen = Table('seen')\n@policy\ndef f(pkt, net):\n"
        "    if pkt.tcp_dst == 7: seen['all'] = True\n    return drop()\n"
    )
    explored = box(tmp_path / "f.py").assert_isolated("h1", "h3")
    assert not explored.proved and "writes state" in str(explored)


def test_what_is_reachable_is_proved(box: Callable[..., Network]) -> None:
    net = box(closed)
    with pytest.raises(AssertionError, match="no copy comes to its receiver") as failed:
        net.assert_reachable("h1", "h2")
    assert "8080" in str(failed.value)
    assert net.assert_reachable("h1", "h2", udp_dst=53).proved
    with pytest.raises(AssertionError, match="not h3 reachable from h1, h2"):
        net.assert_reachable(["h1", "h2"], "h3", udp_dst=53)


def test_loops_are_found(box: Callable[..., Network]) -> None:
    def loops(pkt: Packet, net: Net) -> Route:
        return hops([(1, 2), (2, 2), (1, 1)]) if pkt.udp_dst == 7 else drop()

    with pytest.raises(AssertionError, match="not no loops"):
        box(loops).assert_no_loops()
    assert box(closed).assert_no_loops().proved


def test_policies_are_compared(box: Callable[..., Network]) -> None:
    net = box(walled)
    assert net.assert_same_as(walled).proved
    with pytest.raises(AssertionError, match="the routes differ") as failed:
        net.assert_same_as(closed)
    told = str(failed.value)
    assert "    policy" in told and "    other" in told and "8080" in told
    assert net.assert_same_as(closed, except_={"tcp_dst": 8080}).proved
    assert net.assert_same_as(closed, except_=[{"tcp_dst": 8080}, {"udp_dst": 1}]).proved
    assert net.assert_same_as(closed, udp_dst=8080).proved
    with pytest.raises(TypeError, match=r"except_=…\) got the unknown field 'tcp_dest'; did you mean tcp_dst"):
        net.assert_same_as(closed, except_={"tcp_dest": 8080})


def test_policies_with_other_costs_have_no_common_state(box: Callable[..., Network], tmp_path: Path) -> None:
    text = "from maple import *\ncosts('w', {{(1, 2): {}}})\n@policy\ndef f(pkt, net): return drop()\n"
    (tmp_path / "one.py").write_text(text.format(5))
    (tmp_path / "other.py").write_text(text.format(6))
    net = box(tmp_path / "one.py", folder=tmp_path)
    with pytest.raises(AssertionError, match='other costs of the name "w"'):
        net.assert_same_as("other.py")
    assert net.assert_same_as("one.py").proved


def test_comparing_uses_the_networks_tables(box: Callable[..., Network], tmp_path: Path) -> None:
    text = "from maple import *\nt = Table('t')\n@policy\ndef f(pkt, net): return {} if 'open' in t else drop()\n"
    (tmp_path / "one.py").write_text(text.format("flood()"))
    (tmp_path / "other.py").write_text(text.format("drop()"))
    net = box(tmp_path / "one.py", folder=tmp_path)
    assert net.assert_same_as("other.py").proved
    net.state["t"]["open"] = 1
    with pytest.raises(AssertionError, match="the routes differ"):
        net.assert_same_as("other.py")
    assert len(net.state["t"]) == 1


# The oracle: small policies over a few values of a few fields, and all packets with these.

FIELDS: dict[str, list[Any]] = {
    "eth_dst": [H1, H2, H3, "ff:ff:ff:ff:ff:ff", "02:00:00:00:00:77"],
    "tcp_dst": [None, 1, 2, 3],
    "vlan_vid": [None, 5, 6],
    "ipv4_dst": ["10.0.0.3", "10.0.1.1", "10.9.9.9"],
}
Tree = Any
ENDS = ["drop", "flood", "h1", "h3"]
TESTS = [
    ("eth_dst", H1),
    ("eth_dst", H3),
    ("tcp_dst", 1),
    ("tcp_dst", 2),
    ("vlan_vid", 5),
    ("ipv4_dst", "10.0.0.0/24"),
    ("eth_src", H1),
    ("tcp_dst<", 3),
]
trees = st.recursive(st.sampled_from(ENDS), lambda below: st.tuples(st.sampled_from(TESTS), below, below), max_leaves=8)


def holds(pkt: Packet, test: tuple[str, Any]) -> bool:
    field, value = test
    if field == "tcp_dst<":
        return bool(pkt.tcp_dst < value)
    return pkt.matches(**{field: value})


def program(tree: Tree) -> Callable[[Packet, Net], Route]:
    """The policy of a tree of tests."""

    def decide(pkt: Packet, net: Net) -> Route:
        node = tree
        while not isinstance(node, str):
            node = node[1] if holds(pkt, node[0]) else node[2]
        if node in ("h1", "h3"):
            here = 1 if pkt.switch == 1 else 2
            if node == "h1":
                return hops([(1, 1)] if here == 1 else [(2, 2), (1, 1)])
            return hops([(2, 9)] if here == 2 else [(1, 2), (2, 9)])
        return drop() if node == "drop" else flood()

    return decide


def all_packets() -> Iterator[dict[str, Any]]:
    for values in itertools.product(*FIELDS.values()):
        packet = dict(zip(FIELDS, values, strict=True))
        yield {name: value for name, value in packet.items() if value is not None}


def reaches(net: Network, src: str, dst: str) -> bool:
    return any(dst in net.send(src, dst, **packet).hosts for packet in all_packets())


@settings(max_examples=60)
@given(trees)
def test_isolation_is_what_all_packets_say(tree: Tree) -> None:
    with Network(BOX, program(tree)) as net:
        try:
            explored = net.assert_isolated("h1", "h3", both_ways=False)
        except AssertionError:
            # A packet of another kind than those below may reach it too, so its own network is the judge.
            return
        assert not reaches(net, "h1", "h3"), str(explored)
        assert explored.proved, str(explored)


@settings(max_examples=60)
@given(trees)
def test_counterexamples_are_real(tree: Tree) -> None:
    with Network(BOX, program(tree)) as net:
        examined = net_examine(net)
        if examined is None:
            assert not reaches(net, "h1", "h3")
        else:
            assert "h3" in net.send("h1", frame=examined).hosts


def net_examine(net: Network) -> bytes | None:
    """The counterexample's frame, if there is one."""
    from maple import _maple

    found = _maple.examine(net._laboratory, "never", ["h1"], ["h3"], {}, [], 5000)[0]
    return None if found is None else found[0]


@settings(max_examples=40)
@given(trees, trees)
def test_two_policies_are_the_same_if_all_packets_are(tree: Tree, other: Tree) -> None:
    with Network(BOX, program(tree)) as net, Network(BOX, program(other)) as second:
        differ = any(
            sorted(net.send(src, "h3", **packet).hosts) != sorted(second.send(src, "h3", **packet).hosts)
            for src in ("h1", "h2")
            for packet in all_packets()
        )
        try:
            explored = net.assert_same_as(program(other))
        except AssertionError:
            return
        assert not differ and explored.proved, str(explored)
