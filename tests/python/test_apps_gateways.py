"""The applications that change headers: load balancer and NAT."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import H1, H2, H3
from maple import Ip, Policy, Table, drop, frame, tiers
from maple._emulate import Journey
from maple.apps import load_balancer, nat, routing
from maple.testing import Bench, Decision, Network
from maple.testing import frame as sample

ALL = "ff:ff:ff:ff:ff:ff"
PLACES = {H1: (1, 1), H2: (1, 2), H3: (2, 1)}


def run(bench: Bench, policy: Policy, place: tuple[int, int], packet: bytes) -> Decision:
    decision = bench.decide(policy, packet, *place)
    assert decision.error is None, decision.error
    return decision


def out(decision: Decision) -> list[tuple[tuple[int, int], bytes]]:
    """Where copies leave, and their bytes."""
    return [((at.switch, at.port), sent) for at, sent in decision.copies]


# The load balancer. H2 and H3 are the servers.

VIP, VMAC = "10.0.0.100", "02:00:0a:00:00:64"
SERVERS = {"10.0.0.2": H2, "10.0.0.3": H3}


def web(**options: Any) -> Policy:
    return tiers(load_balancer(VIP, SERVERS, port=80, **options), routing())


def request(client: str, port: int = 80) -> bytes:
    return sample(eth_src=H1, eth_dst=VMAC, ipv4_src=client, ipv4_dst=VIP, tcp_src=4000, tcp_dst=port)


def test_clients_are_divided_among_the_servers(bench: Bench) -> None:
    for client, server, mac, place in [("10.0.0.8", "10.0.0.2", H2, (1, 2)), ("10.0.0.9", "10.0.0.3", H3, (2, 1))]:
        decision = run(bench, web(), PLACES[H1], request(client))
        wanted = sample(eth_src=H1, eth_dst=mac, ipv4_src=client, ipv4_dst=server, tcp_src=4000, tcp_dst=80)
        assert out(decision) == [(place, wanted)]


def test_the_rules_are_of_64_shares_of_clients(bench: Bench) -> None:
    trace = run(bench, web(), PLACES[H1], request("10.0.0.8")).trace
    asked = [item.split("ipv4_src=")[1].split(":")[0] for item in trace if "ipv4_src=" in item]
    assert asked == [f"0.0.0.{1 << bit}/0.0.0.{1 << bit}" for bit in range(6)]
    assert run(bench, web(), PLACES[H1], request("192.168.7.8")).trace == trace, "the upper bits are not looked at"


def test_clients_hear_from_the_address_that_they_asked(bench: Bench) -> None:
    reply = sample(eth_src=H3, eth_dst=H1, ipv4_src="10.0.0.3", ipv4_dst="10.0.0.9", tcp_src=80, tcp_dst=4000)
    wanted = sample(eth_src=VMAC, eth_dst=H1, ipv4_src=VIP, ipv4_dst="10.0.0.9", tcp_src=80, tcp_dst=4000)
    assert out(run(bench, web(), PLACES[H3], reply)) == [(PLACES[H1], wanted)]
    other = sample(eth_src=H3, eth_dst=H1, ipv4_src="10.0.0.3", ipv4_dst="10.0.0.9", tcp_src=22, tcp_dst=4000)
    assert out(run(bench, web(), PLACES[H3], other)) == [(PLACES[H1], other)]


def test_a_server_that_is_down_loses_its_clients_and_no_other_does(bench: Bench) -> None:
    servers = {f"10.0.1.{n}": f"00:00:00:00:01:{n:02}" for n in range(1, 5)}
    for n, mac in enumerate(servers.values(), 10):
        bench.switch(n, [1])
        bench.link((n, 2), (1, n))
        bench.host(mac, n, 1)
    down = Table("web.down", key=Ip, value=bool)
    balance = tiers(load_balancer(VIP, servers, port=80, down=down), routing())

    def shares() -> list[int]:
        chosen = [out(run(bench, balance, PLACES[H1], request(f"10.0.0.{n}"))) for n in range(64)]
        return [place[0] if copies else 0 for copies in chosen for (place, _) in (copies or [((0, 0), b"")])]

    before = shares()
    assert [before.count(n) for n in range(10, 14)] == [16] * 4
    down["10.0.1.2"] = True
    after = shares()
    assert [new for old, new in zip(before, after, strict=True) if old != 11] == [old for old in before if old != 11]
    moved = [new for old, new in zip(before, after, strict=True) if old == 11]
    assert 11 not in moved and {10, 12, 13} == {*moved}, "they are spread over all others"
    for ip in servers:
        down[ip] = True
    assert {*shares()} == {0}
    down.clear()
    assert shares() == before


def test_a_server_whose_port_is_down_loses_its_clients_and_no_other_does(bench: Bench) -> None:
    def servers() -> list[tuple[int, int] | None]:
        decisions = [bench.decide(balance, request(f"10.0.0.{n}"), *PLACES[H1]) for n in range(64)]
        assert [decision.error for decision in decisions] == [None] * 64
        return [next((place for place, _ in out(decision)), None) for decision in decisions]

    balance = web()
    before = servers()
    assert before == [PLACES[H2], PLACES[H3]] * 32
    bench.port(*PLACES[H3], up=False)
    assert {*servers()} == {PLACES[H2]}
    bench.port(*PLACES[H2], up=False)
    assert {*servers()} == {None}, "nobody is there"
    bench.port(*PLACES[H3], up=True)
    assert {*servers()} == {PLACES[H3]}
    bench.port(*PLACES[H2], up=True)
    assert servers() == before
    reads = bench.decide(balance, request("10.0.0.8"), *PLACES[H1]).reads
    assert [cell for cell in reads if cell.startswith("IsUp")] == ["IsUp(0000000000000001:2)"], "no other server's port"


def test_a_server_that_was_not_seen_has_its_clients(bench: Bench) -> None:
    servers = {"10.0.0.2": H2, "10.0.0.9": "00:00:00:00:00:09"}
    decision = run(bench, tiers(load_balancer(VIP, servers), routing()), PLACES[H1], request("10.0.0.9"))
    assert [place for place, _ in out(decision)] == [(1, 2), (2, 1)], "it is found by its answer"


def test_a_server_is_down_with_its_switch_and_not_if_it_is_only_silent() -> None:
    with Network("linear:3", web()) as net:

        def server(client: str) -> list[str]:
            journey: Journey = net.h1.send(request(client))
            return journey.hosts

        assert net.pingall()
        assert [server("10.0.0.8"), server("10.0.0.9")] == [["h2"], ["h3"]]
        net.advance(1000)
        assert server("10.0.0.9") == ["h2", "h3"], "it was forgotten, and is looked for"
        net.switch_down("s3")
        assert server("10.0.0.9") == ["h2"], "no path leads there"
        net.advance(400)
        assert server("10.0.0.9") == ["h2"], "its switch was forgotten, and where it was is known"
        net.switch_up("s3")
        assert "h3" in server("10.0.0.9")
        assert net.failures == []


def test_the_address_answers_arp_and_ping_and_nothing_else(bench: Bench) -> None:
    who_has = sample(eth_src=H1, eth_dst=ALL, arp_op=1, arp_spa="10.0.0.1", arp_tpa=VIP)
    ((place, sent),) = out(run(bench, web(), PLACES[H1], who_has))
    assert place == PLACES[H1] and sent[6:12] == bytes.fromhex(VMAC.replace(":", ""))
    ping = sample(eth_src=H1, eth_dst=VMAC, ipv4_src="10.0.0.1", ipv4_dst=VIP, icmpv4_type=8, payload=b"\0\1\0\2data")
    ((place, sent),) = out(run(bench, web(), PLACES[H1], ping))
    assert place == PLACES[H1] and sent.endswith(b"\0\1\0\2data") and sent[34] == 0
    assert run(bench, web(), PLACES[H1], request("10.0.0.1", port=81)).route == drop()
    assert len(out(run(bench, tiers(load_balancer(VIP, SERVERS), routing()), PLACES[H1], request("10.0.0.1", 81)))) == 1


# NAT. H1 and H2 are inside; the router H3 is the next hop.

OUTSIDE, NEXT, GATEWAY = "203.0.113.2", "203.0.113.1", "02:00:0a:00:00:fe"
WORLD = "198.51.100.7"


@pytest.fixture
def inside(bench: Bench) -> Bench:
    bench.host(H3, 2, 1, NEXT)
    return bench


def gateway(**options: Any) -> Policy:
    return tiers(nat("10.0.0.254/24", OUTSIDE, uplink=PLACES[H3], next_hop=NEXT, **options), routing())


def leaving(src: str = H1, port: int = 4000, protocol: str = "tcp", **changed: Any) -> bytes:
    ip = "10.0.0.1" if src == H1 else "10.0.0.2"
    fields: dict[str, Any] = {f"{protocol}_src": port, f"{protocol}_dst": 80}
    return sample(**{"eth_src": src, "eth_dst": GATEWAY, "ipv4_src": ip, "ipv4_dst": WORLD, **fields, **changed})


def arriving(port: int, protocol: str = "tcp", **changed: Any) -> bytes:
    fields: dict[str, Any] = {f"{protocol}_src": 80, f"{protocol}_dst": port}
    return sample(**{"eth_src": H3, "eth_dst": GATEWAY, "ipv4_src": WORLD, "ipv4_dst": OUTSIDE, **fields, **changed})


def outside_port(bench: Bench, policy: Policy, packet: bytes, place: tuple[int, int] = PLACES[H1]) -> int:
    ((there, sent),) = out(run(bench, policy, place, packet))
    assert there == PLACES[H3] and sent[26:30] == Ip(OUTSIDE).packed
    assert sent[:12] == bytes.fromhex((H3 + GATEWAY).replace(":", ""))
    return int.from_bytes(sent[34:36], "big")


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_a_connection_leaves_by_the_outside_address_and_its_answers_come_back(inside: Bench, protocol: str) -> None:
    policy = gateway()
    port = outside_port(inside, policy, leaving(protocol=protocol))
    assert port == 1024 + 252, "the ports of the subnet's address 1"
    assert inside.decide(policy, leaving(protocol=protocol), 1, 1).wrote is False, "what is known makes rules"
    wanted = arriving(4000, protocol, eth_src=GATEWAY, eth_dst=H1, ipv4_dst="10.0.0.1")
    assert out(run(inside, policy, PLACES[H3], arriving(port, protocol))) == [(PLACES[H1], wanted)]
    other = {"tcp": "udp", "udp": "tcp"}[protocol]
    assert run(inside, policy, PLACES[H3], arriving(port, other)).route == drop()


def test_two_hosts_may_use_one_port_and_two_connections_are_two(inside: Bench) -> None:
    policy = gateway()
    ports = [
        outside_port(inside, policy, leaving()),
        outside_port(inside, policy, leaving(port=4001)),
        outside_port(inside, policy, leaving(H2), PLACES[H2]),
        outside_port(inside, policy, leaving()),
    ]
    assert ports == [1276, 1277, 1528, 1276]


def test_a_host_has_its_own_ports_and_its_oldest_gives_way(inside: Bench) -> None:
    policy = gateway(ports=range(2048, 2048 + 256 * 4))
    other = outside_port(inside, policy, leaving(H2), PLACES[H2])
    given = [outside_port(inside, policy, leaving(port=port)) for port in range(5000, 5004)]
    assert given == [2052, 2053, 2054, 2055]
    assert outside_port(inside, policy, leaving(port=5004)) == 2052
    ((_, sent),) = out(run(inside, policy, PLACES[H3], arriving(2052)))
    assert int.from_bytes(sent[36:38], "big") == 5004
    assert outside_port(inside, policy, leaving(port=5000)) == 2053, "the replaced one gets another"
    assert outside_port(inside, policy, leaving(H2), PLACES[H2]) == other
    for port in range(6000, 6100):
        outside_port(inside, policy, leaving(port=port))
    assert (len(Table("nat.out")), len(Table("nat.in"))) == (5, 5), "four of H1, one of H2"


def test_translations_of_another_configuration_do_not_count(inside: Bench) -> None:
    Table[Any, int]("nat.out")[6, Ip("10.0.0.1"), 4000] = 9000
    Table[Any, int]("nat.in")[6, Ip(OUTSIDE), 9000] = 4000
    policy = gateway()
    assert run(inside, policy, PLACES[H3], arriving(9000)).route == drop()
    port = outside_port(inside, policy, leaving())
    assert port == 1276
    assert out(run(inside, policy, PLACES[H3], arriving(port)))[0][0] == PLACES[H1]


def test_several_outside_addresses_divide_the_hosts(inside: Bench) -> None:
    both = nat("10.0.0.254/24", ["203.0.113.2", "203.0.113.3"], uplink=PLACES[H3], next_hop=NEXT)
    inside.host(H2, 1, 2, "10.0.0.200")
    policy = tiers(both, routing())
    sent = out(run(inside, policy, PLACES[H2], leaving(H2, ipv4_src="10.0.0.200")))[0][1]
    assert sent[26:30] == Ip("203.0.113.3").packed
    port = int.from_bytes(sent[34:36], "big")
    assert port == 1024 + (200 - 128) * 504
    ((place, back),) = out(run(inside, policy, PLACES[H3], arriving(port, ipv4_dst="203.0.113.3")))
    assert place == PLACES[H2] and back[30:34] == Ip("10.0.0.200").packed
    assert run(inside, policy, PLACES[H3], arriving(port)).route == drop()


def test_nobody_uses_the_ports_of_others(inside: Bench) -> None:
    assert run(inside, gateway(), PLACES[H2], leaving(H2, ipv4_src="10.0.0.1")).route == drop()
    assert run(inside, gateway(), PLACES[H1], leaving(ipv4_src="10.0.0.99")).route == drop()
    assert len(Table("nat.out")) == 0


def test_the_outside_is_where_the_uplink_is(inside: Bench) -> None:
    policy = gateway()
    port = outside_port(inside, policy, leaving())
    assert run(inside, policy, PLACES[H2], arriving(port, eth_src=H2)).route == drop()
    assert run(inside, policy, PLACES[H3], arriving(port + 1)).route == drop()


def test_the_gateway_asks_for_its_next_hop(bench: Bench) -> None:
    decision = run(bench, gateway(), PLACES[H1], leaving())
    asked = frame(eth_dst=ALL, eth_src=GATEWAY, arp_op=1, arp_spa=OUTSIDE, arp_tpa=NEXT)
    assert out(decision) == [(PLACES[H3], asked)] and not decision.wrote
    bench.host(H2, 1, 2, NEXT)
    assert out(run(bench, gateway(), PLACES[H1], leaving())) == [(PLACES[H3], asked)], "another port is not an uplink"


def test_the_gateway_answers_arp_and_ping_on_both_sides(inside: Bench) -> None:
    for address, host in (("10.0.0.254", H1), (OUTSIDE, H3)):
        who_has = sample(eth_src=host, eth_dst=ALL, arp_op=1, arp_spa="10.0.0.1", arp_tpa=address)
        ((place, sent),) = out(run(inside, gateway(), PLACES[host], who_has))
        assert place == PLACES[host] and sent[22:28] == bytes.fromhex(GATEWAY.replace(":", ""))
        ping = sample(eth_src=host, eth_dst=GATEWAY, ipv4_src="10.0.0.1", ipv4_dst=address, icmpv4_type=8)
        ((place, sent),) = out(run(inside, gateway(), PLACES[host], ping))
        assert place == PLACES[host] and sent[34] == 0


def test_pings_pass_with_a_number_of_their_own(inside: Bench) -> None:
    policy = gateway()
    addresses = {"eth_src": H1, "eth_dst": GATEWAY, "ipv4_src": "10.0.0.1", "ipv4_dst": WORLD}
    ping = sample(icmpv4_type=8, payload=b"\x12\x34\0\x01data", **addresses)
    ((place, sent),) = out(run(inside, policy, PLACES[H1], ping))
    number = sent[38:40]
    assert place == PLACES[H3] and number == (1276).to_bytes(2, "big") and sent[40:] == b"\0\x01data"
    pong = sample(
        eth_src=H3,
        eth_dst=GATEWAY,
        ipv4_src=WORLD,
        ipv4_dst=OUTSIDE,
        icmpv4_type=0,
        payload=number + b"\0\x01data",
    )
    ((place, sent),) = out(run(inside, policy, PLACES[H3], pong))
    assert place == PLACES[H1] and sent[38:] == b"\x12\x34\0\x01data" and sent[30:34] == Ip("10.0.0.1").packed


def test_a_next_hop_with_a_known_hardware_address_cannot_be_replaced(inside: Bench) -> None:
    policy = gateway(next_hop_mac=H3)
    assert outside_port(inside, policy, leaving()) == 1276
    inside.host(H2, 1, 2, NEXT)
    ((_, asked),) = out(run(inside, gateway(), PLACES[H1], leaving()))
    assert asked[12:14] == b"\x08\x06", "without it the gateway believes H2, and asks"
    assert outside_port(inside, policy, leaving()) == 1276


def test_a_next_hop_with_a_known_hardware_address_must_be_at_the_uplink(inside: Bench) -> None:
    unseen = "00:00:00:00:00:77"
    asked = frame(eth_dst=ALL, eth_src=GATEWAY, arp_op=1, arp_spa=OUTSIDE, arp_tpa=NEXT)
    for mac in (unseen, H2):
        assert out(run(inside, gateway(next_hop_mac=mac), PLACES[H1], leaving())) == [(PLACES[H3], asked)]


@pytest.mark.parametrize("tag", [b"", b"\x81\x00\x00\x07", b"\x88\xa8\x00\x07"])
@pytest.mark.parametrize("word", [b"\x20\x00", b"\x20\xb9", b"\x00\xb9"])
def test_fragments_of_pings_are_no_answers(inside: Bench, word: bytes, tag: bytes) -> None:
    policy = gateway()
    inner = {"eth_src": H1, "eth_dst": GATEWAY, "ipv4_src": "10.0.0.1", "ipv4_dst": WORLD}
    run(inside, policy, PLACES[H1], sample(icmpv4_type=8, payload=b"\x12\x34\0\x01data", **inner))
    outer = {"eth_src": H3, "eth_dst": GATEWAY, "ipv4_src": WORLD, "ipv4_dst": OUTSIDE}
    pong = sample(icmpv4_type=0, payload=(1276).to_bytes(2, "big") + b"\0\x01data", **outer)
    whole = run(inside, policy, PLACES[H3], pong[:12] + tag + pong[12:])
    assert [place for place, _ in out(whole)] == [PLACES[H1]]
    # A fragment has no ICMP header, so its first bytes stand where the number is looked for.
    piece = run(inside, policy, PLACES[H3], pong[:12] + tag + pong[12:20] + word + pong[22:34] + pong[38:] + bytes(4))
    assert out(piece) == [] and piece.route == drop()
    assert piece.each and whole.each, "the controller looks at each of them, as no rule tells them apart"


def test_the_subnet_itself_needs_no_translation(inside: Bench) -> None:
    inner = sample(eth_src=H1, eth_dst=H2, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", tcp_dst=80)
    assert out(run(inside, gateway(), PLACES[H1], inner)) == [(PLACES[H2], inner)]
    assert run(inside, gateway(), PLACES[H1], leaving(ipv4_dst="10.0.0.2")).route == drop()
    assert run(inside, gateway(), PLACES[H1], leaving(port=0)).route == drop(), "a fragment"


def test_services_inside_can_be_called(inside: Bench) -> None:
    policy = gateway(ports=range(1024, 60000), forward={("tcp", 61080): ("10.0.0.1", 80)})
    ((place, sent),) = out(run(inside, policy, PLACES[H3], arriving(61080)))
    assert place == PLACES[H1] and sent[30:34] == Ip("10.0.0.1").packed
    assert int.from_bytes(sent[36:38], "big") == 80
    assert outside_port(inside, policy, leaving(port=80)) == 61080
    assert run(inside, policy, PLACES[H3], arriving(61080, "udp")).route == drop()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: load_balancer(VIP, {}), "1 to 64 backends"),
        (lambda: load_balancer(VIP, {VIP: H1}), "has the address of the service"),
        (lambda: load_balancer(VIP, SERVERS, protocol="sctp"), '"tcp" or "udp"'),
        (lambda: load_balancer(VIP, SERVERS, port=0), "1 to 65535"),
        (lambda: load_balancer("fe80::1", SERVERS), "not an IPv4 address"),
        (lambda: nat("10.0.0.254", OUTSIDE, uplink=(1, 1), next_hop=NEXT), "leaves no address for hosts"),
        (lambda: nat("10.0.0.0/24", OUTSIDE, uplink=(1, 1), next_hop=NEXT), "the subnet itself"),
        (lambda: nat("10.0.0.254/24", "10.0.0.1", uplink=(1, 1), next_hop=NEXT), "is to be outside"),
        (lambda: nat("10.0.0.254/24", [], uplink=(1, 1), next_hop=NEXT), "needs addresses"),
        (lambda: nat("10.0.0.254/8", OUTSIDE, uplink=(1, 1), next_hop=NEXT), "are too few"),
        (lambda: nat("10.0.0.254/24", OUTSIDE, uplink=7, next_hop=NEXT), "nat(uplink=…)"),
        (lambda: gateway(next_hop_mac=ALL), "nat(next_hop_mac=…): "),
        (lambda: gateway(ports=range(0, 100)), "range within 1 to 65535"),
        (lambda: gateway(forward={("tcp", 2000): ("10.0.0.1", 80)}), "among those that are given out"),
        (lambda: gateway(forward={("icmp", 80): ("10.0.0.1", 80)}), "a service is"),
        (lambda: gateway(forward={("tcp", 80): ("10.0.1.1", 80)}), "is not a service in 10.0.0.0/24"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(bench: Bench, make: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        make()
    assert words in str(raised.value)
