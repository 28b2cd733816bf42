"""Ports as they are printed (`1:2`, `a1:LOCAL`), wherever a place is an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conftest import H1, H3
from maple import (
    Location,
    Net,
    Packet,
    Route,
    Slice,
    avoid,
    costs,
    drop,
    flood,
    guard,
    hops,
    never,
    pass_,
    policy,
    slices,
    tiers,
    to,
)
from maple.apps import dhcp_guard, mirror, vlans
from maple.testing import Bench, Network, frame

LOCAL = 0xFFFF_FFFE
OWN = frame(eth_src=H1, eth_dst=H3, eth_type=0x88B5)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("1:2", (1, 2)),
        ("a1:LOCAL", (0xA1, LOCAL)),
        ("10:10", (16, 10)),
        ("0x1f:0x10", (0x1F, 16)),
        ("000000000000002a:local", (42, LOCAL)),
        ("00:00:00:00:00:00:00:2a:3", (42, 3)),
    ],
)
def test_text_is_a_place_as_it_is_printed(text: str, place: tuple[int, int]) -> None:
    assert Location(text) == Location(*place) == Location(place) == Location(Location(text))


@pytest.mark.parametrize(
    "text", ["", "1", "s1:2", "1:", ":1", "1:0", "1:FLOOD", "1:4294967295", "00:00:00:00:00:01", "1:é"]
)
def test_other_text_is_refused_with_the_form(text: str, bench: Bench) -> None:
    with pytest.raises(ValueError, match="is not a port of a switch such as 1:3 or 1:LOCAL"):
        Location(text)
    error = bench.decide(lambda _, net: flood() if net.is_up(text) else drop(), OWN).error
    assert error is not None and "is not a port of a switch such as 1:3 or 1:LOCAL" in error


def test_what_is_no_place_is_refused_too() -> None:
    for wrong in [1, None, b"1:2", [1, 2], (1, 2, 3)]:
        with pytest.raises(TypeError, match=r"a location is a pair \(switch, port\) or text such as '1:LOCAL', not"):
            Location(wrong)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        Location("1:2", "3")  # type: ignore[call-overload]


Policy = Callable[[Packet, Net], Route]


def sent(at: Any) -> Policy:
    def f(pkt: Packet, net: Net) -> Route:
        net.send(OWN, at)
        return drop()

    return f


@pytest.mark.parametrize(
    "made",
    [
        sent,
        lambda at: lambda _, net: to(2) if net.is_up(at) else drop(),
        lambda at: lambda _, net: net.shortest_path((1, 1), at),
        lambda at: lambda _, net: net.shortest_path(at, (1, 1)),
        lambda at: lambda _, net: to(2) if net.port_load(at).is_above(mbps=3) else drop(),
        lambda at: lambda *_: hops([(1, 3), at]),
        lambda at: lambda *_: to(2).copy_to(at),
        lambda at: policy(lambda _, net: net.shortest_path((1, 1), (2, 1)), dhcp_servers=[at], snoop="dhcp"),
        lambda at: guard(lambda _, net: net.shortest_path((1, 1), (2, 1)), never(at, src=H1)),
        lambda at: guard(lambda _, net: net.shortest_path((1, 1), (2, 1)), never((2, 1), src=at)),
        lambda at: tiers(dhcp_guard([at]), flood()),
        lambda at: tiers(mirror(at), to(2)),
        lambda at: vlans(access={(1, 1): 10, (1, 2): 20, at: 10}),
    ],
)
def test_text_does_what_the_pair_does(made: Callable[[Any], Any], bench: Bench) -> None:
    bench.load(2, 1, sent=5)
    by_pair, by_text = (bench.decide(made(at), OWN) for at in [(2, 1), "0000000000000002:1"])
    for one in (by_pair, by_text):
        assert "location" not in (one.error or "") and "Error" not in (one.error or "")
    assert by_text.copies == by_pair.copies and by_text.reads == by_pair.reads and by_text.trace == by_pair.trace
    assert (by_text.error is None) == (by_pair.error is None)


def test_links_are_named_by_an_end_as_text(bench: Bench) -> None:
    def f(pkt: Packet, net: Net) -> Route:
        return net.shortest_path((1, 1), (2, 1))

    for link in ("1:3", "2:3", Location(1, 3), (1, 2)):
        guarded = bench.decide(guard(f, avoid(link, for_=H1)), OWN)
        assert guarded.violations, link
    costs("costs", {"1:3": 5})
    assert not bench.decide(lambda _, net: net.path((1, 1), (2, 1), cost="costs"), OWN).error
    bench.load("1:3", sent=7)
    assert bench.decide(lambda _, net: to(2) if net.link_load("1:3", "2:3").is_above(mbps=6) else drop(), OWN).copies
    red = Slice(f, ports=["1:1", "2:1"], links=["1:3"])
    assert [at.switch for at, _ in bench.decide(slices({"red": red}), OWN).copies] == [2]


def test_the_bench_takes_a_place_for_a_switch_and_its_port() -> None:
    bench = Bench()
    bench.switch(0xA1, [1, LOCAL])
    bench.host(H1, "a1:LOCAL", ip="10.0.0.1")
    bench.host(H3, (0xA1, 1))
    locate = bench.decide(lambda _, net: hops([net.locate(H1)]), OWN, "a1:1")
    assert [at for at, _ in locate.copies] == [Location("a1:LOCAL")]
    bench.port("a1:LOCAL", up=False)
    assert not bench.decide(lambda _, net: pass_() if net.is_up("a1:LOCAL") else drop(), OWN, Location("a1:1")).copies
    with pytest.raises(ValueError, match="there is no switch 1"):
        bench.decide(drop(), OWN)
    with pytest.raises(TypeError, match=r"a location is a pair \(switch, port\)"):
        bench.port(1, up=True)
    with pytest.raises(ValueError, match="switch 161 has no port 7"):
        bench.load("a1:7", sent=1)


def test_words_about_networks_take_printed_ids_and_places() -> None:
    with Network("linear:2", lambda *_: flood()) as net:
        for switch in ("s2", 2, "2", "0000000000000002", "00:00:00:00:00:00:00:02"):
            net.port_down(switch, 1)
            net.assert_not_delivered("h1", "h2")
            net.port_up(f"{switch}:1")
            net.assert_delivered("h1", "h2")
        with pytest.raises(ValueError, match="there is no switch s3; "):
            net.port_down("s3:1")
        with pytest.raises(ValueError, match="a port is a switch and its number, or text such as 's1:2', not 's1'"):
            net.port_down("s1")
        assert "s2:1" in str(net.explain("h1", "h2", at="2:1"))


def test_applications_say_what_a_port_is() -> None:
    for made in (lambda: dhcp_guard(["x"]), lambda: vlans(access={"x": 3})):
        with pytest.raises(TypeError, match=r"a port is \(switch, port\) or text, such as \(1, 4\) or '1:4', not 'x'"):
            made()
    with pytest.raises(TypeError, match="is a list of ports"):
        dhcp_guard("1:2")
    with pytest.raises(ValueError, match="x"):
        mirror("x")
