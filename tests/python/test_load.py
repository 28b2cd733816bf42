"""Loads: what a policy asks about ports, links and traffic; answers have steps and hysteresis, and are dependencies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import H1, H2, H3
from hypothesis import given
from hypothesis import strategies as st
from maple import Ip, Load, Net, Query, drop, flood, to
from maple.testing import Bench, frame

PACKET = frame(eth_src=H1, eth_dst=H3, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.3", tcp_dst=80)


def asked(bench: Bench, question: Callable[[Any, Net], Any]) -> Any:
    """What ``question`` answers in a run."""
    answers: list[Any] = []

    def policy(pkt: Any, net: Any) -> Any:
        answers.append(question(pkt, net))
        return flood()

    decision = bench.decide(policy, PACKET)
    assert decision.error is None, decision.error
    return answers[0]


def error(bench: Bench, question: Callable[[Any, Net], Any]) -> str:
    def policy(pkt: Any, net: Any) -> Any:
        question(pkt, net)
        return flood()

    return bench.decide(policy, PACKET).error or ""


def test_a_port_is_busy_from_one_threshold_to_the_other(bench: Bench) -> None:
    told = []
    for mbps in [0, 50, 51, 45, 40, 45]:
        bench.load(1, 3, sent=mbps)
        told.append(asked(bench, lambda _, net: net.port_load(1, 3).is_above(mbps=50, until=40)))
    assert told == [False, False, True, True, False, False]
    # Other questions about the same measurements: with other thresholds, and as a share.
    bench.load(1, 3, speed=100)
    assert asked(bench, lambda _, net: net.port_load(1, 3).is_above(0.42, until=0.3))
    assert not asked(bench, lambda _, net: net.port_load(1, 3).is_above(0.52, until=0.3))
    assert asked(bench, lambda _, net: net.port_load(1, 3).is_above(mbps=50, until=39))
    assert asked(bench, lambda _, net: net.port_load((1, 3), capacity=50).utilisation) == 0.9


def test_directions_and_what_is_not_there(bench: Bench) -> None:
    bench.load(1, 3, sent=10, received=90, speed=100)
    assert asked(bench, lambda _, net: net.port_load(1, 3).utilisation) == 0.1
    assert asked(bench, lambda _, net: net.port_load(1, 3).received.utilisation) == 0.9
    assert asked(bench, lambda _, net: net.link_load(1, 2).utilisation) == 0.1
    assert asked(bench, lambda _, net: net.link_load(1, 2).received.utilisation) == 0.9
    assert asked(bench, lambda _, net: net.link_load(*net.links()[0]).utilisation) == 0.1
    assert asked(bench, lambda _, net: net.link_load(1, 2).capacity) == 100.0
    # No link, no such port, no speed: nothing is busy.
    assert asked(bench, lambda _, net: net.link_load(1, 7).utilisation) == 0.0
    assert asked(bench, lambda _, net: net.link_load((1, 3), (2, 1)).is_above(mbps=0)) is False
    assert asked(bench, lambda _, net: net.port_load(9, 9).is_above(mbps=0)) is False
    assert asked(bench, lambda _, net: net.port_load(2, 3).utilisation) == 0.0
    assert asked(bench, lambda _, net: net.port_load(2, 3).capacity) is None


def test_the_busiest_of_parallel_links_counts(bench: Bench) -> None:
    bench.link((1, 4), (2, 4))
    for port, mbps in [(3, 20), (4, 60)]:
        bench.load(1, port, sent=mbps, speed=100)
    assert asked(bench, lambda _, net: net.link_load(1, 2).utilisation) == 0.6
    assert asked(bench, lambda _, net: net.link_load(1, 2).is_above(0.5))
    assert asked(bench, lambda _, net: net.link_load((1, 3), (2, 3)).utilisation) == 0.2


def test_traffic_is_asked_for_by_any_address_of_hosts(bench: Bench) -> None:
    bench.traffic(H1, H3, 30)
    for question in [
        lambda pkt, net: net.traffic(pkt.eth_src, pkt.eth_dst),
        lambda pkt, net: net.traffic(H1, H3),
        lambda pkt, net: net.traffic(pkt.ipv4_src, pkt.ipv4_dst),
        lambda pkt, net: net.traffic(Ip("10.0.0.1"), "10.0.0.3"),
    ]:
        assert asked(bench, lambda pkt, net, ask=question: ask(pkt, net).is_above(mbps=29)), question
    assert not asked(bench, lambda _, net: net.traffic(H3, H1).is_above(mbps=0))
    assert not asked(bench, lambda _, net: net.traffic("10.0.0.9", H1).is_above(mbps=0))
    assert asked(bench, lambda _, net: net.traffic(H1, H3, capacity=100).utilisation) == 0.3
    assert asked(bench, lambda _, net: net.traffic(H1, H3, capacity=100).is_above(0.2))


def test_a_run_depends_on_the_answer(bench: Bench) -> None:
    def policy(pkt: Any, net: Any) -> Any:
        return drop() if net.port_load(1, 3).is_above(mbps=50, until=40) else flood()

    decision = bench.decide(policy, PACKET)
    assert (decision.route, decision.error) == (flood(), None)
    assert len(decision.reads) == 1 and "Above" in decision.reads[0], decision.reads
    bench.load(1, 3, sent=60)
    assert bench.decide(policy, PACKET).route == drop()


def test_queries_ask_for_loads_and_are_asked_again_when_an_answer_changes(bench: Bench) -> None:
    runs = []

    @Query
    def busy(net: Net) -> int:
        runs.append(1)
        return sum(net.link_load(link.a, link.b).is_above(mbps=10, until=5) for link in net.links())

    assert asked(bench, lambda _, net: busy()) == 0
    bench.load(1, 3, sent=9)
    assert asked(bench, lambda _, net: busy()) == 0 and len(runs) == 1
    bench.load(1, 3, sent=11)
    assert asked(bench, lambda _, net: busy()) == 1 and len(runs) == 2


def test_wrong_questions_say_what_is_right(bench: Bench) -> None:
    for question, text in [
        (lambda _, net: net.port_load(1, 3).is_above(), "a share, such as is_above(0.8), or Mbit/s"),
        (lambda _, net: net.port_load(1, 3).is_above(0.5, mbps=3), "a share, such as is_above(0.8), or Mbit/s"),
        (lambda _, net: net.port_load(1, 3).is_above(50), "write is_above(mbps=50)"),
        (lambda _, net: net.port_load(1, 3).is_above(mbps=50, until=60), "until=60, which is between 0 and that"),
        (lambda _, net: net.port_load(1, 3).is_above(mbps=-1), "between 0 and that"),
        (lambda _, net: net.port_load(1, 3).is_above(float("nan")), "between 0 and that"),
        (lambda _, net: net.port_load(1, 3, capacity=0), "capacity is a number of Mbit/s, and more than 0"),
        (lambda _, net: net.port_load(1, 3, capacity=float("inf")), "capacity is a number of Mbit/s"),
        (lambda _, net: net.port_load("eth0"), "is not a port of a switch such as 1:3"),
        (lambda _, net: net.link_load(1, (2, 3)), "a location is a pair (switch, port)"),
        (lambda _, net: net.traffic(H1, H3).utilisation, "net.traffic(src, dst, capacity=100)"),
        (lambda _, net: net.traffic(H1, H3).is_above(0.5), "net.traffic(src, dst, capacity=100)"),
        (lambda _, net: net.traffic(H1, H3).received, "ask for net.traffic(dst, src)"),
        (lambda _, net: net.traffic("h1", H3), "hardware address"),
        (lambda _, net: bool(net.link_load(1, 2)), "ask .is_above(0.8) or .utilisation"),
        (lambda _, net: net.link_load(1, 2) > 0.5, "not supported between instances of 'maple.Load' and 'float'"),
    ]:
        assert text in error(bench, question), (text, error(bench, question))
    with pytest.raises(ValueError, match="switch 1 has no port 8"):
        bench.load(1, 8, sent=1)
    with pytest.raises(ValueError, match="sent is a number of Mbit/s"):
        bench.load(1, 3, sent=-1)


def test_a_load_is_for_one_run(bench: Bench) -> None:
    kept: list[Load] = []
    asked(bench, lambda _, net: kept.append(net.port_load(1, 3)))
    assert repr(kept[0]) == "<load: what 0000000000000001:3 sends>"
    with pytest.raises(RuntimeError):
        kept[0].is_above(0.5)


def test_without_host_tracking_traffic_is_an_error() -> None:
    bench = Bench(track_hosts=False)
    bench.switch(1, [1, 2])
    assert "needs host tracking" in error(bench, lambda _, net: net.traffic(H1, H2))


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(0, 30), st.integers(0, 30))
def test_an_answer_is_what_all_measurements_say(samples: list[int], a: int, b: int) -> None:
    bench = Bench()
    bench.switch(1, [1])
    busy = False
    for mbps in samples:
        bench.load(1, 1, sent=mbps)
        busy = mbps > max(a, b) or (busy and mbps > min(a, b))
    answers = []

    def policy(pkt: Any, net: Any) -> Any:
        answers.append(net.port_load(1, 1).is_above(mbps=max(a, b), until=min(a, b)))
        return to(1)

    bench.decide(policy, PACKET)
    assert answers == [busy]
