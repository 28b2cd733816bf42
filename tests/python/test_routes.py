"""Routes: what policies return, and what they can do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import H1, H2, H3
from maple import (
    IN_PORT,
    LOCAL,
    Limit,
    Location,
    Mac,
    Net,
    Packet,
    Route,
    costs,
    drop,
    ecmp,
    flood,
    hops,
    multicast,
    to,
)
from maple.testing import Bench, frame

PATH = frame(eth_src=H1, eth_dst=H3, tcp_dst=80)


def test_paths_lead_from_host_to_host(bench: Bench) -> None:
    decision = bench.decide(lambda pkt, net: net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst)), PATH)
    assert decision.route is not None
    assert decision.route.hops == [(1, 3), (2, 1)]
    assert [path.startswith("Path") for path in decision.follows] == [True]
    assert not any("Path" in cell for cell in decision.reads)


def test_a_policy_that_looks_at_a_path_reads_it(bench: Bench) -> None:
    def between(pkt: Packet, net: Net) -> Route:
        return net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst))

    def reads(policy: Callable[[Packet, Net], Route]) -> list[str]:
        return [cell.split(" ")[0] for cell in bench.decide(policy, PATH).reads if "Path" in cell]

    assert reads(between) == []
    assert reads(lambda pkt, net: between(pkt, net) or flood()) == ["HasPath"]
    assert reads(lambda pkt, net: hops(between(pkt, net).hops)) == ["Path"]


def test_costs_choose_between_paths(bench: Bench) -> None:
    bench.switch(3, [])
    bench.link((1, 4), (3, 1))
    bench.link((3, 2), (2, 4))
    costs("secure", {(1, 2): 10})
    decision = bench.decide(lambda pkt, net: net.path((1, 1), (2, 1), cost="secure"), PATH)
    assert decision.route is not None
    assert decision.route.hops == [(1, 4), (2, 1), (3, 2)]
    back = bench.decide(lambda pkt, net: net.path((2, 1), (1, 1), cost="secure"), PATH, switch=2)
    assert back.route == hops([(2, 4), (3, 1), (1, 1)])


def test_an_unknown_weight_is_an_error_that_lists_the_known_ones(bench: Bench) -> None:
    def by(cost: str) -> Any:
        return lambda pkt, net: net.path((1, 1), (2, 1), cost=cost)

    unknown = bench.decide(by("secrue"), PATH)
    assert unknown.route is None and unknown.error is not None
    assert 'LookupError: links have no costs named "secrue"; there are none of any name (costs()' in unknown.error
    costs("secure", {(1, 2): 10})
    costs("cheap", {})
    misspelt = bench.decide(by("secrue"), PATH)
    assert misspelt.error is not None and 'known: "cheap", "secure" (' in misspelt.error
    assert 'test_routes.py", line' in misspelt.error
    shortest = bench.decide(lambda pkt, net: net.shortest_path((1, 1), (2, 1)), PATH)
    assert bench.decide(by("cheap"), PATH).route == shortest.route

    def careful(pkt: Any, net: Any) -> Any:
        try:
            return net.path((1, 1), (2, 1), cost="fast")
        except LookupError:
            return drop()

    decision = bench.decide(careful, PATH)
    assert decision.error is None and decision.route == drop()
    assert "CostNames" in decision.reads


def test_there_may_be_no_way(bench: Bench) -> None:
    bench.switch(9, [1])
    for places in [((1, 1), (9, 1)), (None, (1, 1)), ((1, 1), None)]:
        decision = bench.decide(lambda pkt, net, p=places: net.shortest_path(*p) or flood(), PATH)  # type: ignore[misc]
        assert decision.route == flood()


def test_whose_an_address_is_is_asked_of_fields_and_of_values(bench: Bench) -> None:
    found: list[bool] = []

    def policy(pkt: Any, net: Any) -> Any:
        found.extend([net.is_bound(pkt.eth_dst, pkt.ipv4_dst), net.is_bound(pkt.eth_src, pkt.ipv4_dst)])
        found.extend(
            [net.is_bound(H2, "10.0.0.2"), net.is_bound(H3, "10.0.0.2"), net.is_bound(pkt.eth_src, pkt.arp_spa)]
        )
        return drop()

    to_h2 = frame(eth_src=H1, eth_dst=H2, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", udp_dst=7)
    assert bench.decide(policy, to_h2).error is None
    assert found == [True, False, True, False, False]


def test_hosts_are_found_by_hardware_and_ip_address(bench: Bench) -> None:
    found: list[Any] = []

    def policy(pkt: Any, net: Any) -> Any:
        found.extend(
            [net.locate(pkt.eth_dst), net.locate(H2), net.locate("00:00:00:00:00:99"), net.locate(pkt.arp_sha)]
        )
        found.extend([net.locate_ip("10.0.0.2"), net.addresses(H3), net.switches(), net.edge_ports(1), net.links()])
        return drop()

    assert bench.decide(policy, PATH).error is None
    assert found == [
        Location(2, 1),
        Location(1, 2),
        None,
        None,
        (H2, Location(1, 2)),
        ["10.0.0.3"],
        [1, 2],
        [1, 2],
        [(Location(1, 3), Location(2, 3))],
    ]


def test_whether_a_port_is_up_is_a_read_of_that_port(bench: Bench) -> None:
    found: list[bool] = []

    def policy(pkt: Packet, net: Net) -> Route:
        at = net.locate(pkt.eth_dst)
        assert at is not None
        found[:] = [at.is_up, net.is_up(at), net.is_up((2, 1)), net.is_up(None), net.is_up((9, 1)), net.is_up((2, 3))]
        return net.shortest_path(net.locate(pkt.eth_src), at) if at.is_up else drop()

    decision = bench.decide(policy, PATH)
    assert decision.error is None and decision.route == hops([(1, 3), (2, 1)])
    assert found == [True, True, True, False, False, True]
    reads = [cell for cell in decision.reads if cell.startswith("IsUp")]
    assert reads == [f"IsUp({switch:016x}:{port})" for switch, port in [(2, 1), (2, 3), (9, 1)]]
    bench.port(2, 1, up=False)
    assert bench.decide(policy, PATH).route == drop(), "the host stays located there"
    assert found == [False, False, False, False, False, True]
    bench.port(2, 1, up=True)
    assert bench.decide(policy, PATH).route == decision.route
    with pytest.raises(ValueError, match="port 3 of switch 2 is an end of a link"):
        bench.port(2, 3, up=False)
    with pytest.raises(ValueError, match="switch 2 has no port 7"):
        bench.port(2, 7, up=False)


def test_a_place_is_asked_in_runs_alone(bench: Bench) -> None:
    with pytest.raises(RuntimeError, match=r"Location\(switch=1, port=2\).is_up asks the network: it is for policies"):
        _ = Location(1, 2).is_up
    kept: list[Location] = []

    def policy(pkt: Packet, net: Net) -> Route:
        kept.extend(host.location for host in net.hosts())
        with pytest.raises(TypeError, match="a location is a pair"):
            net.is_up(12)  # type: ignore[arg-type]
        return drop()

    assert bench.decide(policy, PATH).error is None
    decision = bench.decide(lambda pkt, net: drop() if kept[0].is_up else flood(), PATH)
    assert decision.route == drop() and decision.reads[-1].startswith("IsUp"), "it is asked in this run"


def test_routes_are_values() -> None:
    assert to(1, 2) == to(2, 1) != to(1)
    assert drop() != flood()
    assert multicast([to(1), to(2)]).set(eth_dst=H1, vlan_vid=5).queue(2) == multicast(
        [to(1).queue(2).set(vlan_vid=5, eth_dst=H1), to(2).set(vlan_vid=5, eth_dst=H1).queue(2)]
    )
    assert bool(drop()) and bool(flood())
    switch, port = Location(7, 8)
    assert (switch, port) == (7, 8)
    assert {Location(7, 8): "x"}[Location(7, 8)] == "x"


def copies(bench: Bench, answer: Any, packet: bytes = PATH, port: int = 1) -> list[tuple[int, int, bytes]]:
    decision = bench.decide(lambda pkt, net: answer(pkt) if callable(answer) else answer, packet, port=port)
    assert decision.error is None, decision.error
    return [(at.switch, at.port, data) for at, data in decision.copies]


def test_a_vlan_id_comes_in_a_tag_and_goes_with_it(bench: Bench) -> None:
    plain = frame(eth_dst=H2, tcp_dst=80)
    tagged = frame(eth_dst=H2, tcp_dst=80, vlan_vid=10)
    assert copies(bench, to(2).set(vlan_vid=10), plain) == [(1, 2, tagged)]
    assert copies(bench, to(2).set(vlan_vid=0), tagged) == [(1, 2, plain)]
    assert copies(bench, to(2).set(vlan_vid=0), plain) == [(1, 2, plain)]
    assert copies(bench, to(2).set(vlan_vid=20), tagged) == [(1, 2, frame(eth_dst=H2, tcp_dst=80, vlan_vid=20))]


def test_a_packet_goes_back_only_where_the_route_says_so_by_name(bench: Bench) -> None:
    assert copies(bench, lambda pkt: to(int(pkt.in_port))) == []
    assert copies(bench, lambda pkt: to(int(pkt.in_port), 2)) == [(1, 2, PATH)]
    assert copies(bench, to(IN_PORT)) == copies(bench, lambda pkt: to(pkt.in_port)) == [(1, 1, PATH)]
    assert copies(bench, to(IN_PORT, 1), port=2) == [(1, 1, PATH), (1, 2, PATH)]
    nothing = bench.decide(lambda pkt, net: to(pkt.in_port), PATH)
    assert nothing.trace == [], "which port that is does not matter"


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (
            lambda pkt, net: to(99),
            "hop 0000000000000001:99: there is no such port; switch 0000000000000001 has the ports 1, 2, 3",
        ),
        (lambda pkt, net: hops([(2, 1)]), "the route does not start at the ingress switch 0000000000000001"),
        (lambda pkt, net: hops([(7, 1)]), "there is no such port; there is no switch 0000000000000007"),
        (lambda pkt, net: hops([(1, 3), (7, 1)]), "the route has no hop there"),
        (lambda pkt, net: to(2).set(udp_dst=53), "can't set udp_dst: the packet has no such field"),
    ],
)
def test_the_bench_refuses_the_routes_that_the_network_refuses(bench: Bench, policy: Any, says: str) -> None:
    decision = bench.decide(policy, frame(tcp_dst=80))
    assert decision.route is None and decision.copies == []
    assert decision.error is not None and says in decision.error and "test_routes.py" in decision.error


def test_packets_enter_and_hosts_are_where_the_bench_has_edge_ports(bench: Bench) -> None:
    for switch, port, says in [
        (7, 1, r"there is no switch 7 .*there are: 1, 2"),
        (1, 9, "switch 1 has no port 9; it has the ports 1, 2, 3"),
        (1, 3, "port 3 of switch 1 is an end of a link"),
    ]:
        with pytest.raises(ValueError, match=says):
            bench.decide(drop, PATH, switch=switch, port=port)
        with pytest.raises(ValueError, match=says):
            bench.host(H1, switch, port)
    with pytest.raises(ValueError, match="there is no switch 8"):
        bench.link((1, 1), (8, 1))


def test_routes_and_decisions_say_what_they_are(bench: Bench) -> None:
    far = bench.decide(lambda pkt, net: net.shortest_path((1, 1), (2, 1)).set(vlan_vid=5), PATH)
    for route, text in [
        (drop(), "drop"),
        (flood().meter(3), "flood meter 3"),
        (to(1, 2).set(eth_dst=H2).queue(7), "to 1, 2 set eth_dst=00:00:00:00:00:02 queue 7"),
        (multicast([to(IN_PORT), hops([(1, 3), (2, 1)])]), "to IN_PORT and by 1:3, 2:1"),
        (far.route, "by 1:3, 2:1 set vlan_vid=5"),
    ]:
        assert repr(route) == f"<route: {text}>"
    assert repr(far).startswith("<decision route: by 1:3, 2:1 set vlan_vid=5; looked at read vlan_vid")
    failed = bench.decide(lambda pkt, net: 1 / 0, PATH)  # type: ignore[arg-type,return-value]
    assert repr(failed) == "<decision error: ZeroDivisionError: division by zero; looked at nothing>"


def test_places_of_hosts_and_ends_of_links_have_names(bench: Bench) -> None:
    found: list[Any] = []

    def policy(pkt: Packet, net: Net) -> Route:
        found.extend([net.locate_ip("10.0.0.2"), net.hosts()[0], net.links()[0]])
        return drop()

    assert bench.decide(policy, PATH).error is None
    assert (found[0].mac, found[0].location) == found[0] == (H2, Location(1, 2))
    assert found[1].location == Location(1, 1) and (found[2].a, found[2].b) == (Location(1, 3), Location(2, 3))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ip_src", "ipv4_src"),
        ("dl_vlan", "vlan_vid"),
        ("eth_dest", "eth_dst"),
        ("tp_dst", "tcp_dst, pkt.udp_dst or pkt.sctp_dst"),
    ],
)
def test_a_name_that_is_no_field_is_told_with_the_one_that_may_be_meant(bench: Bench, name: str, meant: str) -> None:
    decision = bench.decide(lambda pkt, net: to(getattr(pkt, name)), PATH)
    assert decision.error is not None and f"did you mean pkt.{meant}?" in decision.error
    assert not bench.decide(lambda pkt, net: to(2) if hasattr(pkt, name) else drop(), PATH).copies


def test_the_switch_s_own_port_is_a_port_and_a_place() -> None:
    bench = Bench(track_hosts=False)
    bench.switch(1, [1, LOCAL])
    for policy in (lambda pkt, net: to(LOCAL), lambda pkt, net: hops([(1, LOCAL)])):
        decision = bench.decide(policy, PATH)
        assert decision.error is None
        assert [at for at, _ in decision.copies] == [Location(1, LOCAL)]


def test_host_tracking_may_be_off() -> None:
    bench = Bench(track_hosts=False)
    bench.switch(1, [1])
    decision = bench.decide(lambda pkt, net: net.shortest_path((1, 1), net.locate(pkt.eth_dst)), PATH)
    assert decision.error is not None
    assert "needs host tracking" in decision.error


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: to(), "needs at least one port"),
        (lambda: to("1"), "a port is a number, not '1'"),
        (lambda: to(0), "there is no port 0"),
        (lambda: hops([1]), r"a location is a pair \(switch, port\) or text such as .1:LOCAL., not 1"),
        (lambda: multicast([1]), "takes routes, not 1"),
        (lambda: to(1).set(tcp_port=1), "unknown field 'tcp_port'|unknown field \"tcp_port\""),
        (lambda: to(1).set(tcp_dst=70000), "tcp_dst is 0 to 65535"),
        (lambda: to(1).queue(-1), "a queue is a number from 0 to 4294967294, not -1"),
        (lambda: to(1).queue("a"), "a queue is a number, not 'a'"),
        (lambda: to(1).meter(0), "a meter is a number from 1 to 4294901760, not 0"),
        (lambda: costs("w", {(1, 2): 0}), "must be a positive number"),
        (lambda: costs("w", {1: 1}), "a link is a pair of switches or a Location"),
    ],
)
def test_wrong_routes_are_refused(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_a_copy_goes_to_a_further_place_as_the_route_sends_the_packet(bench: Bench) -> None:
    mirror = Location(2, 1)
    assert copies(bench, to(2).copy_to(mirror)) == [(1, 2, PATH), (2, 1, PATH)]
    assert copies(bench, drop().copy_to((1, 2))) == [(1, 2, PATH)]
    assert copies(bench, to(2).copy_to(None)) == copies(bench, to(2).copy_to((1, 2))) == [(1, 2, PATH)]
    rewritten = copies(bench, to(2).set(tcp_dst=99).copy_to(mirror))
    assert rewritten[0][2] == rewritten[1][2] != PATH
    assert repr(to(2).copy_to(mirror)) == "<route: to 2 and copy to 2:1>"


def test_one_of_several_routes_is_the_same_for_packets_of_one_flow(bench: Bench) -> None:
    def f(pkt: Packet, net: Net) -> Route:
        return ecmp([to(1), to(2)], by=("ipv4_src", "tcp_src"))

    chosen = {port: bench.decide(f, frame(ipv4_src="10.0.0.1", tcp_src=port)).route for port in range(1000, 1064)}
    assert sum(route == to(1) for route in chosen.values()) in range(16, 49)
    decision = bench.decide(f, frame(ipv4_src="10.0.0.1", tcp_src=1000))
    assert decision.trace[1::2] == ["read ipv4_src=0.0.0.1/0.0.0.15", "read tcp_src=8/0xf"], decision.trace
    # Whatever the process, and the seed of its hashes.
    assert [port - 1000 for port, route in chosen.items() if route == to(1)][:8] == FIRST


FIRST = [1, 3, 4, 6, 7, 8, 9, 11]


def test_what_cannot_be_chosen_from_is_refused(bench: Bench) -> None:
    def error(answer: Callable[[Packet, Net], Route]) -> str:
        return bench.decide(answer, PATH).error or ""

    assert "at least one field" in error(lambda pkt, net: ecmp([to(1)], by=()))
    assert "ecmp() got an unknown field" in error(lambda pkt, net: ecmp([to(1)], by=("ip_src",)))
    assert "takes names of fields" in error(lambda pkt, net: ecmp([to(1)], by="ipv4_src"))
    assert "ecmp() takes routes, not 1 (int)" in error(lambda pkt, net: ecmp([1], by=("ipv4_src",)))  # type: ignore[list-item]
    with pytest.raises(RuntimeError, match="it is for policies"):
        ecmp([to(1), to(2)], by=("ipv4_src",))
    nothing = bench.decide(lambda pkt, net: ecmp([], by=("ipv4_src",)) or flood(), PATH)
    assert nothing.route == flood()


def test_limits_are_values_and_say_what_they_limit() -> None:
    bulk = Limit("bulk", kbps=1000, burst=200)
    assert bulk == Limit("bulk", kbps=1000, burst=200) != Limit("bulk", kbps=1000)
    assert len({bulk, Limit("bulk", kbps=1000, burst=200), Limit("other", pps=3)}) == 2
    assert repr(bulk) == '<limit "bulk" (1000 kbit/s, burst 200)>'
    assert repr(flood().limit(Limit("floods", pps=5))) == '<route: flood meter "floods" (5 packets/s)>'
    assert to(1).limit(bulk) != to(1).meter(7)
    with pytest.raises(TypeError, match="either kbps=… or pps=…"):
        Limit("x")
    with pytest.raises(TypeError, match="either kbps=… or pps=…"):
        Limit("x", kbps=1, pps=1)
    with pytest.raises(ValueError, match="1 or more"):
        Limit("x", pps=0)


RESERVED = ["01:80:c2:00:00:00", "01:80:c2:00:00:0f", "01:00:0c:cc:cc:cc", "01:00:0c:cc:cc:cd"]
OTHERS = ["01:80:c2:00:00:10", "01:00:0c:cc:cc:cb", "01:00:0c:cc:cc:ce", "ff:ff:ff:ff:ff:ff", H3]


@pytest.mark.parametrize("dst", [*RESERVED, *OTHERS])
def test_a_flood_leaves_out_what_bridges_never_forward(bench: Bench, dst: str) -> None:
    packet = frame(eth_src=H1, eth_dst=dst, eth_type=0x88B5)
    decision = bench.decide(lambda pkt, net: flood(), packet)
    assert decision.error is None
    assert (decision.route == flood(), bool(decision.copies)) == (dst in OTHERS, dst in OTHERS)
    assert [step.split("=")[0] for step in decision.trace] == ["test eth_dst"] * len(decision.trace)
    cable = bench.decide(lambda pkt, net: flood(reserved=True), packet)
    assert cable.copies and not cable.trace
    both = bench.decide(lambda pkt, net: multicast([flood(), to(2)]), packet)
    assert (1, 2) in [(at.switch, at.port) for at, _ in both.copies], "the rest of the route stays"
    asked = bench.decide(lambda pkt, net: drop() if pkt.eth_dst.is_reserved else flood(), packet)
    assert asked.copies == decision.copies and asked.trace == decision.trace
    assert Mac(dst).is_reserved == (dst in RESERVED)


def test_the_trace_of_a_flood_names_its_line(bench: Bench) -> None:
    def hub(pkt: Packet, net: Net) -> Route:
        return flood()

    decision = bench.decide(hub, frame(eth_src=H1, eth_dst=H3, eth_type=0x88B5))
    assert decision.lines == [hub.__code__.co_firstlineno + 1] * 2
