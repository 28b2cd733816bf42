"""Tables and variables, in runs and outside of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import H1
from maple import Location, Table, Var, drop, ip, mac
from maple.testing import Bench, Decision, frame

PACKET = frame(eth_src=H1, tcp_dst=80)


@pytest.fixture
def run(bench: Bench) -> Iterator[Any]:
    def run(body: Any) -> Decision:
        def policy(pkt: Any, net: Any) -> Any:
            body(pkt, net)
            return drop()

        decision = bench.decide(policy, PACKET)
        assert decision.error is None, decision.error
        return decision

    yield run


@pytest.mark.usefixtures("bench")
def test_a_table_is_a_dictionary() -> None:
    table = Table("t")
    table["a"] = 1
    table.update({"b": (1, [2, 3]), "c": {"x": None}})
    assert (len(table), "a" in table, "z" in table) == (3, True, False)
    assert table.items() == [("a", 1), ("b", (1, (2, 3))), ("c", {"x": None})]
    assert (table.get("z"), table.get("z", 7), table.pop("a"), table.pop("a", 5)) == (None, 7, 1, 5)
    with pytest.raises(KeyError, match="z"):
        table["z"]
    with pytest.raises(KeyError, match="z"):
        del table["z"]
    del table["b"]
    assert list(Table("t")) == ["c"]
    table.replace({"d": 1})
    assert table.keys() == ["d"]
    table.clear()
    assert len(table) == 0


@pytest.mark.usefixtures("bench")
def test_equal_keys_are_one_key() -> None:
    table = Table("t")
    table[mac(H1)] = "mac"
    table[ip("10.0.0.1")] = "ip"
    table[1] = "one"
    assert (table[H1], table["10.0.0.1"], table[True], table[1.0]) == ("mac", "ip", "one", "one")


@pytest.mark.usefixtures("bench")
def test_values_keep_their_types() -> None:
    var = Var("v", default=5)
    assert var.value == 5
    for value in [
        None,
        True,
        -3,
        2**100,
        1.5,
        "text",
        b"bytes",
        mac(H1),
        ip("::1"),
        Location(1, 2),
        (1, "2"),
        {1: (2,)},
    ]:
        var.value = value
        assert var.value == value
        assert type(var.value) is type(value)
    for wrong in [{1, 2}, object(), 2**127, print]:
        with pytest.raises((TypeError, OverflowError), match="tables"):
            var.value = wrong


def test_reads_are_dependencies_and_writes_are_noted(run: Any) -> None:
    table, var = Table("t"), Var("v")
    decision = run(lambda pkt, net: (table.get(pkt.eth_src), "x" in table, len(table), var.value))
    assert decision.reads == ['Table("t", "00:00:00:00:00:01")', 'Table("t", "x")', 'TableLen("t")', 'Var("v")']
    assert not decision.wrote
    decision = run(lambda pkt, net: table.update({pkt.eth_src: pkt.in_port}))
    assert decision.wrote
    assert table[H1] == 1


def test_a_run_sees_its_own_writes_and_a_failed_run_leaves_none(bench: Bench, run: Any) -> None:
    table = Table("t")
    seen: list[Any] = []
    run(lambda pkt, net: (table.update({1: 2}), seen.append(table[1])))
    assert seen == [2]

    def fails(pkt: Any, net: Any) -> Any:
        table[1] = 3
        raise ValueError

    assert bench.decide(fails, PACKET).error is not None
    assert table[1] == 2


def test_other_threads_see_committed_state_only(run: Any) -> None:
    var = Var("v", 0)
    seen: list[Any] = []

    def look() -> None:
        seen.append(var.value)

    def body(pkt: Any, net: Any) -> None:
        var.value = 1
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    run(body)
    assert (seen, var.value) == ([0], 1)


def test_invalidate_takes_a_host_a_port_or_fields(bench: Bench, run: Any) -> None:
    assert run(lambda pkt, net: net.invalidate(host=pkt.eth_src)).wrote
    assert run(lambda pkt, net: net.invalidate(switch=1, port=2)).wrote
    assert run(lambda pkt, net: net.invalidate(fields={"tcp_dst": 22})).wrote
    for wrong in [{}, {"switch": 1}, {"host": 1.5}]:
        assert bench.decide(lambda pkt, net, w=wrong: net.invalidate(**w), PACKET).error is not None  # type: ignore[misc]
