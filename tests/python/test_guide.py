"""The policies that docs/policy-guide.md shows do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import maple
import pytest
from maple import Policy, drop
from maple.testing import Bench, frame

GUIDE = Path(__file__).parents[2] / "docs/policy-guide.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
HOSTS = {n: f"00:00:00:00:00:0{n}" for n in (1, 2, 3, 4)}


def shown(name: str) -> Policy:
    """The policy of this name in the guide, with what `from maple import …` gives it."""
    (block,) = [block for block in BLOCKS if f"def {name}(" in block]
    names = {key: getattr(maple, key) for key in maple.__all__}
    exec(compile(block, str(GUIDE), "exec"), names)
    found = names[name]
    assert isinstance(found, Policy)
    return found


@pytest.fixture
def bench() -> Bench:
    """A line of four switches: port 1 has a host, 2 and 3 are the links."""
    bench = Bench()
    for n in HOSTS:
        bench.switch(n, [1])
    for n in (1, 2, 3):
        bench.link((n, 3), (n + 1, 2))
    for n, mac in HOSTS.items():
        bench.host(mac, switch=n, port=1, ip=f"10.0.0.{n}")
    return bench


def test_the_balancer_gives_clients_their_server_and_hides_it(bench: Bench) -> None:
    balance = shown("balance")
    request = frame(
        eth_src=HOSTS[2], eth_dst="02:00:00:00:00:64", ipv4_src="10.0.0.2", ipv4_dst="10.0.0.100", tcp_dst=80
    )
    decision = bench.decide(balance, request, switch=2, port=1)
    assert decision.error is None and decision.route is not None
    assert decision.route.hops == [(2, 3), (3, 1)], "10.0.0.2 is even: the first server"
    answer = frame(eth_src=HOSTS[3], eth_dst=HOSTS[2], ipv4_src="10.0.0.3", ipv4_dst="10.0.0.2", tcp_src=80)
    decision = bench.decide(balance, answer, switch=3, port=1)
    assert decision.error is None and decision.route is not None
    plain = bench.decide(balance, frame(eth_src=HOSTS[3], eth_dst=HOSTS[2], tcp_src=81), switch=3, port=1).route
    assert plain is not None and decision.route == plain.set(ipv4_src="10.0.0.100", eth_src="02:00:00:00:00:64")


def test_packets_go_to_the_spare_while_a_port_is_down(bench: Bench) -> None:
    spare = shown("to_the_spare_if_need_be")
    packet = frame(eth_src=HOSTS[1], eth_dst=HOSTS[2])

    def copies() -> list[tuple[tuple[int, int], bytes]]:
        decision = bench.decide(spare, packet, switch=1, port=1)
        assert decision.error is None, decision.error
        return [((at.switch, at.port), sent) for at, sent in decision.copies]

    assert copies() == [((2, 1), packet)]
    bench.port(2, 1, up=False)
    assert copies() == [((3, 1), frame(eth_src=HOSTS[1], eth_dst=HOSTS[3]))]


def test_vlans_keep_apart(bench: Bench) -> None:
    vlans = shown("vlans")
    everyone = frame(eth_src=HOSTS[1], eth_dst="ff:ff:ff:ff:ff:ff", arp_op=1)
    route = bench.decide(vlans, everyone, switch=1, port=1).route
    assert route is not None and route.hops == [(1, 3), (2, 3), (3, 1)]
    assert bench.decide(vlans, frame(eth_src=HOSTS[1], eth_dst=HOSTS[2]), switch=1, port=1).route == drop()


def test_three_knocks_open_the_door(bench: Bench) -> None:
    knocking = shown("knocking")

    def send(port: int) -> bool:
        packet = frame(eth_src=HOSTS[1], eth_dst=HOSTS[2], ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", tcp_dst=port)
        decision = bench.decide(knocking, packet, switch=1, port=1)
        assert decision.error is None
        return decision.route != drop()

    assert not send(22) and send(80)
    assert not any(map(send, (1001, 1003, 1002))) and not send(22), "the wrong order"
    assert not any(map(send, (1001, 1002, 1003))) and send(22)


def test_elephants_take_the_detour_while_they_are_large(bench: Bench) -> None:
    policy = shown("elephants_go_round")
    bench.link((1, 4), (2, 4))
    maple.costs("detour", {maple.Location(1, 4): 1})
    packet = frame(eth_src=HOSTS[1], eth_dst=HOSTS[2])
    ways = []
    for mbps in [10, 60, 30, 15, 30]:
        bench.traffic(HOSTS[1], HOSTS[2], mbps)
        decision = bench.decide(policy, packet)
        assert decision.route is not None, decision.error
        ways.append(decision.route.hops[0])
    assert ways == [(1, 3), (1, 4), (1, 4), (1, 3), (1, 3)]
