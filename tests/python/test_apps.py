"""The applications that look at a packet and pass it, send it on or drop it."""

from __future__ import annotations

import itertools
from typing import Any

import maple
import pytest
from conftest import H1, H2, H3
from maple import Ip, Limit, Location, Mac, Policy, Table, drop, flood, hops, pass_, policy, tiers
from maple._check import of_policy
from maple.apps import (
    arp_responder,
    authentication,
    dhcp_guard,
    ecmp,
    load_balancer,
    mirror,
    nat,
    rate_limit,
    routing,
    vlans,
)
from maple.testing import Bench, Decision, frame

ALL = "ff:ff:ff:ff:ff:ff"
PLACES = {H1: (1, 1), H2: (1, 2), H3: (2, 1)}
IP = {H1: "10.0.0.1", H2: "10.0.0.2", H3: "10.0.0.3"}


def decide(bench: Bench, policy: Policy, src: str, dst: str, **fields: Any) -> Decision:
    """What a frame from the place of `src` gets."""
    switch, port = PLACES[src]
    decision = bench.decide(policy, frame(eth_src=src, eth_dst=dst, **fields), switch, port)
    assert decision.error is None, decision.error
    return decision


def arp(bench: Bench, policy: Policy, src: str, target: str, dst: str = ALL, op: int = 1, **fields: Any) -> Decision:
    return decide(bench, policy, src, dst, **{"arp_op": op, "arp_spa": IP[src], "arp_tpa": target, **fields})


def receivers(decision: Decision) -> list[tuple[int, int]]:
    return [(at.switch, at.port) for at, _ in decision.copies]


# Routing.


def test_routing_takes_the_shortest_path_and_floods_the_rest(bench: Bench) -> None:
    decision = decide(bench, routing(), H1, H3)
    assert decision.route == hops([(1, 3), (2, 1)])
    assert [item.split("=")[0] for item in decision.trace] == ["test eth_dst", "read eth_dst"]
    assert decide(bench, routing(), H1, ALL).route == flood()
    assert decide(bench, routing(), H1, "00:00:00:00:00:77").route == flood()
    assert decide(bench, routing(flood_unknown=False), H1, "00:00:00:00:00:77").route == drop()


def test_routing_takes_paths_by_costs(bench: Bench) -> None:
    bench.switch(3, [1])
    bench.link((1, 7), (3, 7))
    bench.link((3, 8), (2, 8))
    maple.costs("round", {(1, 2): 10})
    assert decide(bench, routing(cost="round"), H1, H3).route == hops([(1, 7), (3, 8), (2, 1)])
    with pytest.raises(TypeError, match="is a name"):
        routing(cost=3)  # type: ignore[arg-type]


# Authentication.


def test_who_is_not_in_the_table_reaches_only_the_portal(bench: Bench) -> None:
    users = Table("authenticated", key=Mac, value=bool)
    campus = tiers(authentication(users, portal=H3), routing())
    to_portal = hops([(1, 3), (2, 1)])
    assert decide(bench, campus, H1, H3, tcp_dst=80).route == to_portal
    assert decide(bench, campus, H1, H2, tcp_dst=80).route == drop()
    assert arp(bench, campus, H1, IP[H2]).route == to_portal, "nobody else hears its broadcasts"
    assert decide(bench, campus, H3, H1, tcp_src=80).route == hops([(2, 3), (1, 1)]), "the portal answers"
    users[H1] = True
    assert decide(bench, campus, H1, H2, tcp_dst=80).route == hops([(1, 2)])
    assert arp(bench, campus, H1, IP[H2]).route == flood()
    users[H1] = False
    assert decide(bench, campus, H1, H2).route == drop()


def test_the_portal_can_be_found_and_have_a_port(bench: Bench) -> None:
    users, unseen = Table("authenticated", key=Mac, value=bool), "00:00:00:00:00:77"
    login = authentication(users, portal=unseen)
    assert arp(bench, login, H1, IP[H2]).route == pass_()
    assert decide(bench, login, H1, ALL, udp_dst=9).copies == []
    assert decide(bench, login, H1, unseen, tcp_dst=80).copies == []
    named = authentication(users, portal=unseen, at=(2, 1))
    for dst in (ALL, unseen):
        assert decide(bench, named, H1, dst, udp_dst=9).route == hops([(1, 3), (2, 1)])


def test_a_decision_about_a_host_depends_on_its_entry_alone(bench: Bench) -> None:
    users = Table("authenticated", key=Mac, value=bool)
    decision = decide(bench, authentication(users, portal=H3), H1, H2)
    assert decision.reads == [f'Table("authenticated", {H1})']
    assert not decide(bench, authentication(users, portal=H3), H3, H2).reads


def test_a_location_in_the_table_holds_for_that_port_alone(bench: Bench) -> None:
    users = Table("authenticated", key=Mac, value=Location)
    users[H1] = Location(1, 1)
    login = authentication(users, portal=H3)
    assert decide(bench, login, H1, H2).route == pass_()
    users[H1] = Location(2, 1)
    assert decide(bench, login, H1, H2).route == drop()


def test_the_portals_address_is_trusted_at_its_port_alone(bench: Bench) -> None:
    users = Table("authenticated", key=Mac, value=bool)
    login = authentication(users, portal=H3, at=PLACES[H3])
    assert decide(bench, login, H3, H1, tcp_src=80).route == pass_()
    for port in (1, 2):
        for dst in (H2, ALL):
            forged = bench.decide(login, frame(eth_src=H3, eth_dst=dst, tcp_src=80), 1, port)
            assert (forged.error, forged.route) == (None, drop())
    users[H3] = True
    assert bench.decide(login, frame(eth_src=H3, eth_dst=H2), 1, 1).route == drop(), "the table does not change that"


def test_what_everybody_may_send_passes(bench: Bench) -> None:
    users = Table("authenticated", key=Mac, value=bool)
    login = authentication(users, portal=H3, allow=[{"udp_dst": 67}, {"ipv4_dst": "10.0.0.2", "udp_dst": 53}])
    assert decide(bench, login, H1, ALL, udp_src=68, udp_dst=67).route == pass_()
    assert decide(bench, login, H1, H2, ipv4_dst=IP[H2], udp_dst=53).route == pass_()
    assert decide(bench, login, H1, H2, ipv4_dst="10.0.0.9", udp_dst=53).route == drop()
    single = authentication(users, portal=H3, allow={"udp_dst": 67})
    assert decide(bench, single, H1, ALL, udp_src=68, udp_dst=67).route == pass_()


# ARP.


def test_a_known_address_is_answered_by_its_owners_address(bench: Bench) -> None:
    decision = arp(bench, tiers(arp_responder(), routing()), H1, IP[H3])
    ((at, sent),) = decision.copies
    assert (at.switch, at.port) == PLACES[H1], "nothing is flooded"
    assert sent == maple.frame(eth_src=H3, eth_dst=H1, arp_op=2, arp_sha=H3, arp_spa=IP[H3], arp_tha=H1, arp_tpa=IP[H1])


def test_answers_carry_the_tag_of_the_request(bench: Bench) -> None:
    ((_, sent),) = arp(bench, arp_responder(), H1, IP[H3], vlan_vid=7).copies
    assert sent[12:16] == b"\x81\x00\x00\x07"


def test_what_nobody_has_passes_or_is_dropped(bench: Bench) -> None:
    assert arp(bench, arp_responder(), H1, "10.0.0.9").route == pass_()
    assert arp(bench, arp_responder(drop_unknown=True), H1, "10.0.0.9").route == drop()
    assert arp(bench, arp_responder(hosts=False), H1, IP[H3]).route == pass_()


@pytest.mark.parametrize("hosts", [True, False])
def test_announcements_pass_where_unknown_requests_are_dropped(bench: Bench, hosts: bool) -> None:
    responder = arp_responder(hosts=hosts, drop_unknown=True)
    assert arp(bench, responder, H1, IP[H1]).route == pass_()
    assert arp(bench, responder, H1, "10.0.0.9", arp_spa="10.0.0.9").route == pass_()
    assert arp(bench, responder, H1, "10.0.0.9").route == drop()


def test_requests_to_one_host_and_announcements_reach_hosts(bench: Bench) -> None:
    responder = arp_responder(drop_unknown=False)
    assert arp(bench, responder, H1, IP[H3], dst=H3).route == pass_(), "H1 looks whether H3 is still there"
    assert arp(bench, responder, H1, IP[H1]).route == pass_(), "an announcement"
    assert arp(bench, responder, H3, IP[H1], dst=H1, op=2).route == pass_()
    assert decide(bench, responder, H1, ALL, udp_dst=9).route == pass_()


def test_addresses_of_a_gateway_are_answered_and_cannot_be_claimed(bench: Bench) -> None:
    gateway = "02:00:00:00:00:fe"
    responder = arp_responder({"10.0.0.254": gateway})
    for dst in (ALL, gateway):
        ((_, sent),) = arp(bench, responder, H1, "10.0.0.254", dst=dst).copies
        assert sent[6:12] == bytes.fromhex(gateway.replace(":", ""))
    assert arp(bench, responder, H1, IP[H2], op=2, arp_spa="10.0.0.254").route == drop()
    assert arp(bench, responder, H1, "10.0.0.254", arp_spa="10.0.0.254").route == drop()


def test_addresses_can_come_from_a_table(bench: Bench) -> None:
    known = Table("arp", key=Ip, value=Mac)
    responder = arp_responder(known, hosts=False)
    assert arp(bench, responder, H1, "10.0.0.50").route == pass_()
    known["10.0.0.50"] = Mac(H2)
    assert receivers(arp(bench, responder, H1, "10.0.0.50")) == [PLACES[H1]]


# DHCP.


@pytest.mark.parametrize(
    "fields",
    [
        {"ipv4_src": "10.0.0.1", "udp_src": 67, "udp_dst": 68},
        {"ipv4_src": "10.0.0.1", "udp_src": 4000, "udp_dst": 68},
        {"ipv4_src": "10.0.0.1", "udp_src": 67, "udp_dst": 67},
        {"ipv6_src": "fe80::1", "udp_src": 547, "udp_dst": 546},
        {"ipv6_src": "fe80::1", "udp_src": 4000, "udp_dst": 546},
    ],
)
def test_servers_are_heard_from_their_ports_only(bench: Bench, fields: dict[str, Any]) -> None:
    guard = dhcp_guard([PLACES[H3]])
    assert decide(bench, guard, H1, H2, **fields).route == drop()
    assert decide(bench, guard, H3, H2, **fields).route == pass_()


def test_clients_and_others_pass_the_guard(bench: Bench) -> None:
    guard = dhcp_guard([PLACES[H3]])
    for fields in ({"udp_src": 68, "udp_dst": 67}, {"udp_src": 546, "udp_dst": 547, "ipv6_src": "fe80::1"}):
        assert decide(bench, guard, H1, ALL, **fields).route == pass_()
    assert decide(bench, guard, H1, H2, tcp_src=67, tcp_dst=68).route == pass_()
    fragment = {"ipv4_src": "10.0.0.1", "udp_src": 0, "udp_dst": 0}
    assert decide(bench, guard, H1, H2, **fragment).route == pass_()
    strict = dhcp_guard([PLACES[H3]], drop_fragments=True)
    assert decide(bench, strict, H1, H2, **fragment).route == drop()
    assert decide(bench, strict, H3, H2, **fragment).route == pass_()


# Mirrors and limits.


def test_a_mirror_copies_and_passes(bench: Bench) -> None:
    watched = tiers(mirror(PLACES[H3], {"tcp_dst": 80}), routing())
    assert receivers(decide(bench, watched, H1, H2, tcp_dst=80)) == [(1, 2), (2, 1)]
    assert receivers(decide(bench, watched, H1, H2, tcp_dst=81)) == [(1, 2)]
    assert receivers(decide(bench, watched, H3, H2, tcp_dst=80)) == [(1, 2)], "what the watcher sends is not copied"
    assert receivers(decide(bench, mirror(PLACES[H3]).then(drop()), H1, H2)) == [(2, 1)], "also what is dropped"


def test_a_mirror_follows_its_host(bench: Bench) -> None:
    watched = tiers(mirror(H3), routing())
    assert receivers(decide(bench, watched, H1, H2)) == [(1, 2), (2, 1)]
    bench.switch(3, [1])
    bench.link((2, 7), (3, 7))
    bench.host(H3, 3, 1)
    assert receivers(decide(bench, watched, H1, H2)) == [(1, 2), (3, 1)]
    assert receivers(decide(bench, tiers(mirror("00:00:00:00:00:99"), routing()), H1, H2)) == [(1, 2)]


def test_limits_are_of_ports_hosts_or_switches(bench: Bench) -> None:
    def route(limit: Policy, **fields: Any) -> object:
        return decide(bench, limit, H1, H2, **fields).route

    assert route(rate_limit(pps=100)) == pass_().limit(Limit("rate_limit 0000000000000001:1", pps=100))
    assert route(rate_limit(kbps=9, per="host", burst=3)) == pass_().limit(Limit(f"rate_limit {H1}", kbps=9, burst=3))
    assert route(rate_limit(pps=5, per="switch", name="all")) == pass_().limit(Limit("all", pps=5))
    udp = rate_limit(pps=5, per="switch", where={"ip_proto": 17})
    assert route(udp, tcp_dst=80) == pass_()
    assert route(udp, udp_dst=80) == pass_().limit(Limit("rate_limit", pps=5))


# ECMP.


@pytest.fixture
def square() -> Bench:
    """Switches 1 and 4, with a host at port 9 each, joined by way of 2, of 3, and of 5 and 6."""
    bench = Bench()
    for n in range(1, 7):
        bench.switch(n, [9])
    for a, b in [((1, 1), (2, 1)), ((2, 2), (4, 1)), ((1, 2), (3, 1)), ((3, 2), (4, 2))]:
        bench.link(a, b)
    for a, b in [((1, 3), (5, 1)), ((5, 2), (6, 1)), ((6, 2), (4, 3))]:
        bench.link(a, b)
    bench.host(H1, 1, 9)
    bench.host(H2, 4, 9)
    bench.host(H3, 2, 9)
    return bench


def way(bench: Bench, policy: Policy, port: int, dst: str = H2) -> list[tuple[int, int]]:
    packet = frame(eth_src=H1, eth_dst=dst, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", tcp_src=port, tcp_dst=80)
    decision = bench.decide(policy, packet, 1, 9)
    assert decision.error is None and decision.route is not None, decision.error
    return decision.route.hops


def test_flows_spread_over_all_shortest_paths_and_no_other(square: Bench) -> None:
    spread = tiers(ecmp(), routing())
    ways = [tuple(way(square, spread, port)) for port in range(1000, 1064)]
    upper, lower = ((1, 1), (2, 2), (4, 9)), ((1, 2), (3, 2), (4, 9))
    assert {*ways} == {upper, lower}
    assert min(ways.count(upper), ways.count(lower)) >= 16
    assert way(square, spread, 1000) == list(ways[0]), "a flow keeps its path"


def test_ecmp_passes_what_has_one_path(square: Bench) -> None:
    assert way(square, ecmp(), 1000, H3) == []
    square.link((1, 4), (2, 4))
    parallel = {tuple(way(square, ecmp(), port, H3)) for port in range(64)}
    assert parallel == {((1, 1), (2, 9)), ((1, 4), (2, 9))}, "links side by side are paths too"
    decision = square.decide(ecmp(), frame(eth_src=H1, eth_dst=ALL), 1, 9)
    assert decision.route == pass_() and decision.reads == []


def test_many_paths_are_taken_in_turn_from_each_next_switch() -> None:
    bench = Bench()
    rows = [[1], [2, 3], [4, 5, 6, 7], [8]]
    for switch in (n for row in rows for n in row):
        bench.switch(switch, [99])
    for row, following in itertools.pairwise(rows):
        for a in row:
            for b in following:
                bench.link((a, b), (b, 20 + a))
    bench.host(H1, 1, 99)
    bench.host(H2, 8, 99)
    spread = ecmp(ways=4)
    ways = set()
    for port in range(64):
        packet = frame(eth_src=H1, eth_dst=H2, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", tcp_src=port, tcp_dst=80)
        decision = bench.decide(spread, packet, 1, 99)
        assert decision.error is None and decision.route is not None, decision.error
        ways.add(tuple(decision.route.hops))
    assert sorted(way[:2] for way in ways) == [((1, 2), (2, 4)), ((1, 2), (2, 5)), ((1, 3), (3, 4)), ((1, 3), (3, 5))]


# All of them.


def made() -> list[Policy]:
    return [
        arp_responder(),
        authentication(Table("authenticated", key=Mac, value=bool), portal=H3),
        dhcp_guard([(1, 1)]),
        ecmp(),
        load_balancer("10.0.0.100", {"10.0.0.3": H3}, port=80),
        mirror((1, 1)),
        nat("10.0.0.254/24", "203.0.113.2", uplink=(2, 1), next_hop="203.0.113.1"),
        rate_limit(pps=1),
        routing(),
        vlans({(1, 1): 10}),
    ]


def test_every_app_is_made_here(bench: Bench) -> None:
    assert sorted(one.__name__ for one in made()) == maple.apps.__all__


def test_no_app_reads_what_is_not_tracked(bench: Bench) -> None:
    assert [found for one in made() for found in of_policy(one)] == []


def test_an_app_is_a_policy_of_the_file_that_asks_for_it(bench: Bench) -> None:
    for one in made():
        assert (one.__module__, repr(one)) == (__name__, f"<policy {one.__name__}>")


def test_an_app_names_its_tier(bench: Bench) -> None:
    def fails(pkt: Any, net: Any) -> Any:
        raise ValueError("on purpose")

    error = bench.decide(tiers(routing=policy(fails), guard=dhcp_guard([(1, 1)])), frame()).error
    assert error is not None and error.startswith("routing")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: authentication({}, portal=H1), "needs a table"),
        (lambda: authentication(Table("t"), portal="banana"), "authentication(portal=…): "),
        (lambda: authentication(Table("t"), portal=ALL), "is a group address"),
        (lambda: arp_responder({"10.0.0.256": H1}), "arp_responder: "),
        (lambda: arp_responder({"fe80::1": H1}), "is not an IPv4 address"),
        (lambda: arp_responder({"10.0.0.1": "x"}), "arp_responder: 10.0.0.1: "),
        (lambda: dhcp_guard((1, 4)), "is a list of ports: [(1, 4)]"),
        (lambda: dhcp_guard([(1,)]), "a port is (switch, port) or text"),
        (lambda: ecmp(by=["tcp_sorce"]), "tcp_sorce"),
        (lambda: ecmp(by=[]), "needs names of fields"),
        (lambda: ecmp(ways=1), "2 to 16"),
        (lambda: mirror((1, 2, 3)), "a port is (switch, port) or text"),
        (lambda: mirror((1, 2), {"tcp_port": 1}), "tcp_port"),
        (lambda: rate_limit(), "kbps"),
        (lambda: rate_limit(pps=0), "rate is 1 or more"),
        (lambda: rate_limit(pps=1, per="flow"), '"switch", "port" or "host"'),
    ],
)
def test_a_wrong_argument_is_refused_by_name(bench: Bench, make: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        make()
    assert words in str(raised.value)
