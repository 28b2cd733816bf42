"""Places that are not there: what each way to name one does, in policies, applications and converted configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import maple
import pytest
from conftest import H1
from maple import Location, Net, ParallelPaths, Route, ecmp, flood, hops, multicast, tiers, to
from maple.apps import mirror, routing, vlans
from maple.importers.__main__ import main
from maple.testing import Bench, Decision
from maple.testing import frame as sample
from test_importers_faucet import switch

ALL, UNSEEN = "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:99"
HERE, NEAR, FAR = Location(1, 1), Location(1, 2), Location(2, 1)
PORT, SWITCH, LINK = Location(1, 9), Location(7, 1), Location(2, 3)
ABSENT = (PORT, SWITCH, LINK)
PARALLEL = ParallelPaths(threads=1)

Answer = Callable[[Net], Route]


def decided(bench: Bench, answer: Answer) -> Decision:
    return bench.decide(lambda pkt, net: answer(net), sample(eth_src=H1, eth_dst=ALL))


def places(decision: Decision) -> list[Location]:
    assert decision.error is None, decision.error
    return sorted(at for at, _ in decision.copies)


def spread(over: Iterable[Location]) -> Answer:
    return lambda net: multicast([net.shortest_path(HERE, at) for at in over])


@pytest.mark.parametrize("absent", ABSENT, ids=["port", "switch", "link"])
def test_a_multicast_goes_to_the_places_that_are_there(bench: Bench, absent: Location) -> None:
    assert places(decided(bench, spread([NEAR, absent, FAR]))) == [NEAR, FAR]
    parallel: Answer = lambda net: multicast([PARALLEL.shortest_path(net, HERE, at) for at in (NEAR, absent, FAR)])  # noqa: E731
    assert places(decided(bench, parallel)) == [NEAR, FAR]
    assert places(decided(bench, spread([absent]))) == []
    assert not bench.decide(lambda pkt, net: spread([absent])(net) or to(2), sample(eth_src=H1)).error


@pytest.mark.parametrize(
    ("absent", "says"),
    [
        (PORT, "0000000000000001:9: there is no such port; switch 0000000000000001 has the ports 1, 2, 3"),
        (SWITCH, "there is no switch 0000000000000007"),
        (LINK, "0000000000000002:3 is a link to switch 0000000000000001"),
    ],
)
def test_a_path_to_one_is_false_and_fails_if_it_is_returned(bench: Bench, absent: Location, says: str) -> None:
    maple.costs("cost", {})
    for path in (
        lambda net: net.shortest_path(HERE, absent),
        lambda net: PARALLEL.shortest_path(net, HERE, absent),
        lambda net: net.path(HERE, absent, cost="cost"),
        lambda net: ecmp([net.shortest_path(HERE, absent)], by=["tcp_src"]),
    ):
        error = decided(bench, path).error
        assert error is not None and says in error and "test_absent.py" in error
        assert places(decided(bench, lambda net, path=path: path(net) or flood())) == [NEAR, FAR]
    both = lambda net: ecmp([net.shortest_path(HERE, at) for at in (absent, FAR)], by=["tcp_src"])  # noqa: E731
    assert places(decided(bench, both)) == [FAR]


def test_ports_and_hops_and_copies_leave_out_what_is_not_there(bench: Bench) -> None:
    assert places(decided(bench, lambda net: to(9, 2, 3))) == [NEAR], "port 3 is a link"
    for answer in (lambda net: to(9), lambda net: to(9, 10), lambda net: hops([(1, 3), (2, 9)])):
        error = decided(bench, answer).error
        assert error is not None and "there is no such port" in error
    assert "use net.shortest_path" in (decided(bench, lambda net: to(3)).error or "")
    assert places(decided(bench, lambda net: hops([(1, 2), (1, 3), (2, 9)]))) == [NEAR]
    assert places(decided(bench, lambda net: multicast([to(2), hops([(1, 9), (7, 1)])]))) == [NEAR]
    for absent in ABSENT:
        assert places(decided(bench, lambda net, absent=absent: to(2).copy_to(absent))) == [NEAR]
        watched = bench.decide(tiers(mirror(absent), routing()), sample(eth_src=H1, eth_dst=ALL))
        assert places(watched) == [NEAR, FAR]


def test_a_host_that_was_not_seen_is_no_place(bench: Bench) -> None:
    assert places(decided(bench, lambda net: net.shortest_path(HERE, net.locate(UNSEEN)))) == []
    assert places(decided(bench, lambda net: net.shortest_path(HERE, net.locate(UNSEEN)) or flood())) == [NEAR, FAR]


def test_a_decision_depends_on_whether_the_place_is_there(bench: Bench) -> None:
    looked = decided(bench, lambda net: net.shortest_path(HERE, PORT) or flood())
    assert any("0000000000000001:9" in read for read in looked.reads), looked.reads
    kept = decided(bench, spread([NEAR, PORT]))
    assert not any("IsPlace" in read for read in kept.reads), "the leaf follows the plan, which depends on the place"


def test_vlans_serve_the_ports_that_are_there(bench: Bench) -> None:
    access = dict.fromkeys((HERE, NEAR, FAR, *ABSENT), 10)
    packet = sample(eth_src=H1, eth_dst=ALL, udp_dst=9)
    assert places(bench.decide(vlans(access), packet)) == [NEAR, FAR]
    # Tags in part, so that the policy sends some copies itself.
    mixed = vlans({HERE: 10, NEAR: 10}, {at: [10] for at in (FAR, *ABSENT)})
    assert places(bench.decide(mixed, packet)) == [NEAR, FAR]
    alone = vlans({HERE: 10, PORT: 10})
    assert places(bench.decide(alone, packet)) == [], "nobody else is there"


def test_a_converted_configuration_serves_the_ports_that_are_there(tmp_path: Path) -> None:
    text = switch(
        "1: {native_vlan: 10}, 2: {native_vlan: 10}, 9: {native_vlan: 10}, 12: {tagged_vlans: [10]}", ""
    ).replace("dp_id: 7", "dp_id: 1")
    (tmp_path / "faucet.yaml").write_text(text)
    assert main(["faucet", str(tmp_path / "faucet.yaml"), "-o", str(tmp_path / "out")]) == 0
    net = maple.emulate("single:3", str(tmp_path / "out/faucet.py"))
    assert net.h1.ping(net.h2) and net.errors == []
