"""Constraints around policies: what ``guard`` lets through, what it reports, and what `maple check` says of it."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import H1, H2, H3
from maple import (
    Constraint,
    Location,
    Net,
    Packet,
    Policy,
    Route,
    RouteView,
    Slice,
    Table,
    Var,
    avoid,
    constraint,
    drop,
    emulate,
    fallback,
    flood,
    guard,
    isolate,
    max_hops,
    never,
    no_overload,
    only_within,
    pass_,
    policy,
    retry,
    rewrite,
    tiers,
    to,
    waypoint,
)
from maple.testing import Bench, Decision, frame

WEB = frame(eth_src=H1, eth_dst=H3, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.3", tcp_dst=80)


def routing(pkt: Packet, net: Net) -> Route:
    return net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst))


def decided(bench: Bench, guarded: Policy, packet: bytes = WEB, switch: int = 1, port: int = 1) -> Decision:
    decision = bench.decide(guarded, packet, switch, port)
    assert decision.error is None, decision.error
    return decision


def refused(bench: Bench, rule: Constraint, packet: bytes = WEB, of: Any = routing) -> bool:
    decision = decided(bench, guard(of, rule), packet)
    assert (decision.copies == []) == bool(decision.violations)
    return bool(decision.violations)


RULES: dict[str, tuple[Callable[[], Constraint], bool]] = {
    "a waypoint on the way": (lambda: waypoint(H1, H3, via=2), False),
    "a waypoint elsewhere": (lambda: waypoint("10.0.0.0/31", "10.0.0.3", via=[7, 8]), True),
    "a waypoint for others": (lambda: waypoint(H2, H3, via=7), False),
    "groups that must not meet": (lambda: isolate([H1, H2], (2, 1)), True),
    "the same the other way round": (lambda: isolate(Location(2, 1), {"eth_src": H1}), True),
    "groups apart": (lambda: isolate(H1, H2), False),
    "an exit that is forbidden": (lambda: never((2, 1), "10.0.0.0/24"), True),
    "an end of a link that is forbidden": (lambda: never((1, 3), H1), True),
    "an exit that is forbidden to others": (lambda: never((2, 1), H2), False),
    "a way that is too long": (lambda: max_hops(1), True),
    "a way that is short enough": (lambda: max_hops(2), False),
    "a long way of others": (lambda: max_hops(1, for_={"tcp_dst": 22}), False),
    "a link to avoid": (lambda: avoid((2, 1)), True),
    "one end of a link to avoid": (lambda: avoid(Location(2, 3), for_="10.0.0.1"), True),
    "a link to avoid for others": (lambda: avoid((1, 2), for_=[{"udp_dst": 53}, H2]), False),
    "a switch outside": (lambda: only_within([1]), True),
    "all switches inside": (lambda: only_within([1, 2]), False),
    "a port of no slice": (lambda: only_within(Slice(drop(), ports=[(1, 1)])), True),
    "a link of no slice": (lambda: only_within(Slice(drop(), links=[(2, 3)])), True),
    "all in the slice": (lambda: only_within(Slice(drop(), ports=[(1, 1), (2, 1)], links=[(2, 1)])), False),
}


@pytest.mark.parametrize("name", RULES)
def test_a_constraint_refuses_what_it_names_and_nothing_else(bench: Bench, name: str) -> None:
    make, expected = RULES[name]
    assert refused(bench, make()) == expected


def test_a_refusal_names_the_line_of_the_policy_and_the_constraint(bench: Bench) -> None:
    decision = decided(bench, guard(routing, max_hops(1), avoid((1, 2))))
    (first, why), (second, _) = decision.violations
    assert first.startswith("max_hops(1) (") and "test_guard.py:" in first and second.startswith("avoid((1, 2))")
    assert why == "it passes 2 switches on its way to 0000000000000002:1"
    assert str(decision.route) == "<route: drop>"


def test_constraints_about_others_leave_routes_to_follow_their_plans(bench: Bench) -> None:
    free = decided(bench, guard(routing, max_hops(1, for_=H2)))
    assert free.follows and not any("Route" in cell for cell in free.reads)
    judged = decided(bench, guard(routing, max_hops(2, for_=H1)))
    assert not judged.follows and any("Route" in cell for cell in judged.reads)


def test_every_branch_counts_and_so_do_copies(bench: Bench) -> None:
    assert refused(bench, isolate(H1, H3), of=flood())
    assert not refused(bench, isolate(H1, "00:00:00:00:00:09"), of=flood())

    def mirrored(pkt: Packet, net: Net) -> Route:
        return to(2).copy_to((2, 1))

    to_2 = frame(eth_src=H1, eth_dst=H2, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2")
    assert refused(bench, isolate(H1, (2, 1)), to_2, of=mirrored)


def test_the_port_that_a_packet_came_in_by_is_asked_for_only_if_it_matters(bench: Bench) -> None:
    own = decided(bench, guard(flood(), never((1, 1), H1)))
    assert not own.violations and "test in_port=1: yes" in own.trace
    assert not any("in_port" in item for item in decided(bench, guard(flood(), never((7, 1), H1))).trace)


def test_a_packet_counts_as_addressed_before_and_after_a_rewrite(bench: Bench) -> None:
    nat = rewrite({"ipv4_dst": "10.0.0.3"}, ipv4_dst="10.0.9.9")
    inside = guard(nat.then(to(2)), isolate(H1, "10.0.9.0/24"))
    assert decided(bench, inside).violations
    assert decided(bench, guard(nat.then(to(2)), isolate(H1, "10.0.0.3"))).violations
    # A guard further in sees the packet as it gets there.
    assert not decided(bench, nat.then(guard(to(2), isolate(H1, "10.0.0.3")))).violations
    assert not decided(bench, guard(nat.then(to(2)), isolate(H1, "10.0.8.0/24"))).violations


def test_guards_nest_and_are_parts_of_other_policies(bench: Bench) -> None:
    both = guard(guard(routing, max_hops(1)), avoid((1, 2)))
    assert [name.split("(")[0] for name, _ in decided(bench, both).violations] == ["max_hops"]
    # A refusal is a decision: the next tier does not take over, and no fallback does.
    assert decided(bench, tiers(guard(routing, max_hops(1)), default=flood())).copies == []
    assert decided(bench, fallback(guard(routing, max_hops(1)), on_error=flood())).copies == []
    assert decided(bench, tiers(guard(pass_(), max_hops(1)), default=to(2))).copies


def test_a_constraint_of_ones_own_is_traced(bench: Bench) -> None:
    few = Var("portal_few", 1)

    @constraint
    def few_exits(pkt: Packet, route: RouteView, net: Net) -> bool | str:
        if pkt.tcp_dst != 80:
            return True
        assert route.switches == sorted({switch for switch, _ in route.hops})
        return len(route.exits) <= few.value or f"{len(route.exits)} exits"

    policy = guard(flood(), few_exits)
    decision = decided(bench, policy)
    assert decision.violations[0][1] == "2 exits" and "few_exits" in decision.violations[0][0]
    assert any("portal_few" in cell for cell in decision.reads)
    assert any("tcp_dst=80" in item for item in decision.trace)
    few.value = 2
    assert len(decided(bench, policy).copies) == 2
    assert len(decided(bench, policy, frame(eth_src=H1, eth_dst=H3, ipv4_src="10.0.0.1", tcp_dst=22)).copies) == 2


def test_a_route_view_has_the_way_to_each_exit(bench: Bench) -> None:
    seen: list[object] = []

    def look(pkt: Packet, route: RouteView, net: Net) -> bool:
        seen.append((route.path_to((2, 1)), route.links, repr(route)))
        with pytest.raises(ValueError, match="does not leave by"):
            route.path_to((1, 2))
        return True

    decided(bench, guard(routing, constraint(look)))
    link = (Location(1, 3), Location(2, 3))
    assert seen == [([(1, 3), (2, 1)], [link], "<route to 0000000000000002:1>")]


@pytest.mark.parametrize("answer", [None, 1, drop()])
def test_a_constraint_that_answers_something_else_drops_the_packet(bench: Bench, answer: Any) -> None:
    odd = constraint(lambda pkt, route, net: answer)
    decision = bench.decide(guard(routing, odd), WEB)
    assert decision.copies == [] and "returns True, False or why" in str(decision.error)


def test_a_constraint_that_fails_drops_the_packet_and_no_fallback_lets_it_through(bench: Bench) -> None:
    @constraint
    def broken(pkt: Packet, route: RouteView, net: Net) -> bool:
        raise ValueError("on purpose")

    decision = bench.decide(fallback(guard(routing, broken), on_error=flood()), WEB)
    assert decision.copies == [] and "broken" in str(decision.error) and "on purpose" in str(decision.error)

    @constraint
    def endless(pkt: Packet, route: RouteView, net: Net) -> bool:
        while True:
            pass

    decision = bench.decide(guard(routing, endless), WEB, time_limit=0.1)
    assert decision.copies == [] and "endless" in str(decision.error)


def test_a_constraint_may_wait(bench: Bench) -> None:
    @constraint
    def patient(pkt: Packet, route: RouteView, net: Net) -> bool:
        retry()

    @constraint
    def broken(pkt: Packet, route: RouteView, net: Net) -> bool:
        raise ValueError("broken on purpose")

    decision = bench.decide(guard(routing, patient), WEB)
    assert decision.copies == [] and "the packet waits until something" in str(decision.error)
    failed = bench.decide(guard(routing, broken), WEB)
    assert failed.copies == [] and "broken on purpose" in str(failed.error) and "waits" not in str(failed.error)


def test_no_overload_compares_reservations_with_capacities(bench: Bench) -> None:
    reserved: Table[Location, int] = Table("portal_reserved")
    assert not refused(bench, no_overload(reserved, bits_per_second=1e9))
    reserved[Location(1, 3)] = 1_000_000_000
    assert not refused(bench, no_overload(reserved, bits_per_second=1e9))
    reserved[Location(1, 3)] = 1_000_000_001
    assert refused(bench, no_overload(reserved, bits_per_second=1e9))
    assert not refused(bench, no_overload(reserved, bits_per_second=1e9, for_=H2))
    assert refused(bench, no_overload(reserved, link=(1, 2), bits_per_second=1e9))
    assert not refused(bench, no_overload(reserved, link=(2, 5), bits_per_second=1e9))
    reserved[Location(1, 3)] = 1
    assert refused(bench, no_overload(reserved)), "the capacity is not known"
    del reserved[Location(1, 3)]
    pairs: Table[tuple[int, int], float] = Table("portal_pairs")
    pairs[1, 3] = 2e9
    assert refused(bench, no_overload(pairs, bits_per_second=1e9))
    odd: Table[Location, str] = Table("portal_odd")
    odd[Location(1, 3)] = "much"
    assert "number of bits a second" in str(bench.decide(guard(routing, no_overload(odd)), WEB).error)


def test_what_makes_no_sense_is_refused_with_a_clear_error() -> None:
    table: Any = {}
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: guard(routing), "at least one constraint"),
        (lambda: guard(routing, "max_hops"), "guard.. takes constraints"),  # type: ignore[arg-type]
        (lambda: guard(7, max_hops(1)), "guard.. takes policies"),  # type: ignore[arg-type]
        (lambda: max_hops(0), "1 or more"),
        (lambda: max_hops(-1), "1 or more"),
        (lambda: max_hops("4"), "1 or more"),
        (lambda: waypoint("here", H3, via=1), "'here' is not an IP or MAC address"),
        (lambda: isolate([], H1), "at least one member"),
        (lambda: isolate(H1, 7), "a member of a group is"),  # type: ignore[arg-type]
        (lambda: isolate(H1, {"tcp_dst": "ssh"}), "tcp_dst"),
        (lambda: avoid((1, 2, 3)), "a link is a pair of switches"),  # type: ignore[arg-type]
        (lambda: never(3, H1), "a location is a pair"),  # type: ignore[arg-type]
        (lambda: waypoint(H1, H3, via=[]), "at least one switch"),
        (lambda: waypoint(H1, H3, via="s1"), "datapath ids"),  # type: ignore[arg-type]
        (lambda: no_overload(table), "takes a Table"),
        (lambda: no_overload(Table("portal_t"), bits_per_second=-1), "bits_per_second=…. is a number"),
        (lambda: no_overload(Table("portal_t"), bits_per_second=float("inf")), "bits_per_second=…. is a number"),
        (lambda: no_overload(Table("portal_t"), bits_per_second="much"), "bits_per_second=…. is a number"),
        (lambda: no_overload(Table("portal_t"), link=5), "a link is a pair of switches"),
        (lambda: constraint(routing), "takes three arguments: def routing"),  # type: ignore[arg-type]
    ]
    for make, text in wrong:
        with pytest.raises((TypeError, ValueError), match=text):
            make()


def test_a_change_of_the_network_withdraws_what_violates_and_gives_it_back() -> None:
    @policy
    def route(pkt: Packet, net: Net) -> Route:
        if pkt.eth_dst.is_multicast or net.locate(pkt.eth_dst) is None:
            return flood()
        return routing(pkt, net)

    # On the ring 1-2-3-4 the shortest path of hosts 1 and 3 leads over 2; without it, over 4.
    net = emulate(
        "ring:4", guard(route, waypoint("10.0.0.1", "10.0.0.3", via=2), waypoint("10.0.0.3", "10.0.0.1", via=2))
    )
    h1, h3 = net.hosts["h1"], net.hosts["h3"]
    h2 = net.hosts["h2"]
    ways = {(a, b): net.link(f"s{a}", f"s{b}") for a, b in [(1, 2), (2, 3), (3, 4)]}
    assert h2.ping(h3).received == 1
    net.run(1)
    before = h1.ping(h3, count=3).received
    ways[1, 2].down()
    net.run(1)
    assert h1.ping(h3, count=2).received == 0
    assert h2.ping(h3).received == 1, "others go on"
    errors = [text for text, _ in net.errors if "violates waypoint" in text]
    assert errors and "test_guard.py" in errors[0]
    ways[1, 2].up()
    net.run(2)
    assert h1.ping(h3, count=3).received == before == 3


def check(folder: Path, text: str, *options: str) -> tuple[int, str]:
    file = folder / "guarded.py"
    file.write_text("from maple import *\n\n" + textwrap.dedent(text))
    command = [sys.executable, "-m", "maple", "check", str(file), "--constraints", "--rounds", "1", "--pause", "0ms"]
    result = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)
    return result.returncode, result.stdout + result.stderr


def test_a_check_proves_constraints_where_it_has_seen_all(tmp_path: Path) -> None:
    text = """
        def f(pkt, net):
            return flood() if pkt.tcp_dst == 22 else drop()

        g = guard(f, max_hops(4), never((1, 9), {"tcp_dst": 22}))
    """
    status, told = check(tmp_path, text)
    assert status == 0, told
    assert "max_hops(4)" in told and told.count("proved for all packets") == 3, told


def test_a_check_shows_the_packets_that_violate_a_constraint(tmp_path: Path) -> None:
    text = """
        def f(pkt, net):
            return flood() if pkt.tcp_dst == 22 else drop()

        g = guard(f, max_hops(2), avoid((7, 8)))
    """
    status, told = check(tmp_path, text)
    assert status == 1, told
    assert "guarded.py:5: the route of" in told and "violates max_hops(2)" in told and "packet  tcp" in told, told
    assert told.count("proved for all packets") == 2, told


def test_a_check_claims_no_proof_where_values_are_open(tmp_path: Path) -> None:
    text = """
        def f(pkt, net):
            return net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst))

        g = guard(f, max_hops(4))
    """
    status, told = check(tmp_path, text)
    assert status == 0 and "proved for all" not in told, told
    assert "which is not a proof: the policy reads 48 bits of eth_" in told, told


def test_a_check_of_constraints_needs_some(tmp_path: Path) -> None:
    status, told = check(tmp_path, "g = tiers(flood())\n")
    assert status == 2 and "the policy has none" in told, told


def test_the_page_about_guarding_does_what_it_says(bench: Bench) -> None:
    page = Path(__file__).parents[2] / "docs/guarding.md"
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) == 2
    exec(compile(blocks[0], str(page), "exec"), names)
    to_office = frame(eth_src=H1, eth_dst=H2, ipv4_src="10.0.9.7", ipv4_dst="10.0.1.5")
    violation, _ = decided(bench, names["safe"], to_office).violations
    assert violation[0].startswith("isolate('10.0.9.0/24', ['10.0.1.0/24', (1, 4)]) (")
    assert decided(bench, names["safe"]).copies
    exec(compile(blocks[1], str(page), "exec"), names)
    assert decided(bench, names["safe"]).copies == []


def test_a_violation_is_an_event_and_an_error_that_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "watched.py"
    file.write_text(
        "from maple import flood, guard, max_hops, on\n\n"
        "def everywhere(pkt, net):\n    return flood()\n\n"
        "watched = guard(everywhere, max_hops(1))\n\n"
        "@on('violation')\n"
        "def tell(event, net):\n"
        "    print('EVENT', event.constraint, '|', event.why, '|', event.line, '|', event.at.switch, flush=True)\n"
    )
    command = [
        sys.executable,
        "-m",
        "maple",
        "run",
        str(file),
        "--emulate",
        "ring:4",
        "--traffic",
        "2s",
        "--allow-drops",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    told = done.stdout + done.stderr
    assert told.count("EVENT max_hops(1) (") == 1, told
    assert "| everywhere: " in told and "watched.py:4" in told, told
    assert "violates max_hops(1)" in told, told


def test_a_refused_flow_leaves_nothing_reserved(bench: Bench) -> None:
    reserved: Table[tuple[int, int], int] = Table("portal_reserved")

    def reserving(pkt: Packet, net: Net) -> Route:
        reserved[1, 3] = reserved.get((1, 3), 0) + 6
        return net.shortest_path((1, 1), (2, 1))

    policy = guard(reserving, no_overload(reserved, bits_per_second=10))
    first, second = bench.decide(policy, WEB), bench.decide(policy, WEB)
    assert not first.violations and len(second.violations) == 1
    assert reserved[1, 3] == 6
