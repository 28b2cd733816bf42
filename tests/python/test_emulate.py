"""Emulated networks in simulated time: maple.emulate."""

import dataclasses
import importlib
import pkgutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import maple
import maple.testing
import pytest
from maple import Mac, Table, drop, flood
from maple.testing import frame


def shortest(pkt, net):
    if pkt.eth_dst.is_multicast:
        return flood()
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    return net.shortest_path(src, dst) if src and dst else flood()


def svg(thing):
    """The texts of a drawing, which must be well-formed."""
    return [text.text for text in ET.fromstring(thing._repr_svg_()).iter("{http://www.w3.org/2000/svg}text")]


def test_hosts_ping_each_other_and_their_path_is_reported():
    net = maple.emulate("ring:4,delay=1ms", shortest)
    ping = net.h1.ping(net.h3)
    assert ping and ping.received == 1 and "answered in" in repr(ping)
    again = net.h1.ping("h3", 3)
    assert again.times == pytest.approx([0.004] * 3, rel=0.1)
    assert again.route.hosts == ["h3"] and repr(again.route).startswith("<route h1 s1 s")
    assert net.pingall() and net.pingall().sent == 12
    assert net.hosts[0] is net.h1 and net.switches["s2"] is net.s2
    assert net.h1.ip == maple.Ip("10.0.0.1") and net.h1.at == ("s1", 1)
    with pytest.raises(AttributeError, match="no h9; it has h1, h2, h3, h4"):
        _ = net.h9
    with pytest.raises(ValueError, match="there is no host h9"):
        net.h1.ping("h9")


def test_switches_have_as_many_tables_as_they_are_told():
    assert maple.emulate("linear:2", shortest, tables=4).pingall()
    with pytest.raises(ValueError, match="tables is 1 to 254, not 0"):
        maple.emulate("linear:2", shortest, tables=0)


def test_rules_follow_links_switches_and_hosts():
    net = maple.emulate("ring:4", shortest)
    net.pingall()
    net.link("s1", "s2").down()
    net.run(0.5)
    ping = net.h1.ping(net.h2)
    assert ping and [hop[0] for hop in ping.route.copies[0].hops] == ["s1", "s4", "s3", "s2"]
    assert not net.link("s1", "s2").is_up
    net.link(net.s1, net.s2).up()
    net.s3.restart()
    net.run(2)
    assert net.pingall()
    net.h1.move(net.s3)
    assert net.h1.at == ("s3", 4)
    net.run(2)
    assert net.pingall()
    net.s3.port(4, up=False)
    assert not net.h2.ping(net.h1)
    with pytest.raises(ValueError, match="s1 and s3 are not linked"):
        net.link("s1", "s3")


def test_streams_measure_what_a_path_carries():
    net = maple.emulate("linear:2", shortest)
    assert net.h1.iperf(net.h2, 1, 2_000_000).rate == 2_000_000
    net.link("s1", "s2").set(rate=1_000_000)
    narrow = net.h1.iperf(net.h2, 2, 4_000_000)
    assert 900_000 < narrow.rate <= 1_000_000 and narrow.lost > 0 and "the queue was full" in repr(narrow)
    net.link("s1", "s2").set(loss=0.5)
    assert net.links[0].loss == 0.5


def test_one_seed_loses_the_same_frames():
    def times(seed):
        net = maple.emulate("linear:2,loss=20%", shortest, seed=seed)
        return net.h1.ping(net.h2, 30).times

    assert times(3) == times(3)
    assert times(3) != times(4)


def test_a_write_to_a_table_takes_effect_at_once():
    blocked = Table("blocked of the laboratory")
    blocked[Mac("00:00:00:00:00:02")] = True

    def policy(pkt, net):
        if blocked.get(pkt.eth_src) or blocked.get(pkt.eth_dst):
            return drop()
        return shortest(pkt, net)

    net = maple.emulate("linear:3", policy)
    assert not net.h1.ping(net.h2), "what the table held before holds in the network"
    assert net.h1.ping(net.h3)
    blocked[net.h3.mac] = True
    assert not net.h1.ping(net.h3)
    del blocked[net.h3.mac]
    del blocked[net.h2.mac]
    assert net.pingall()


def test_declared_types_hold_in_the_network_too():
    blocked = Table("blocked with types", key=Mac, value=bool)
    net = maple.emulate("linear:2", lambda pkt, net: drop() if pkt.eth_src in blocked else flood())
    assert net.h1.ping(net.h2)
    Table("blocked with types")[str(net.h1.mac).upper()] = True
    assert list(blocked) == [net.h1.mac]
    assert not net.h1.ping(net.h2)


def test_an_hour_passes_in_a_moment():
    net = maple.emulate("linear:2", shortest)
    began = time.monotonic()
    net.run(3600)
    assert net.now > 3600 and time.monotonic() - began < 60
    assert net.h1.ping(net.h2)
    with pytest.raises(ValueError, match="-1"):
        net.run(-1)


@pytest.mark.parametrize("topology", ["linear:3", "ring:4", "fattree:4"])
def test_a_quiet_run_ends_well_whoever_the_controller_asks(topology: str) -> None:
    """Hosts that are silent are asked whether they are there. What they answer is for the controller, not for f."""
    command = [sys.executable, "-m", "maple", "run", "builtin:shortest-path", "--emulate", topology, "--seed", "1"]
    command += ["--traffic", "9s", "--rate", "2", "--host-timeout", "4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_frames_are_traced_and_errors_are_reported():
    def policy(pkt, net):
        if pkt.tcp_dst == 22:
            raise KeyError("ssh")
        return shortest(pkt, net)

    net = maple.emulate("linear:3", policy)
    net.pingall()
    journey = net.h1.send(frame(eth_src=str(net.h1.mac), eth_dst=str(net.h3.mac), tcp_dst=80))
    assert journey.hosts == ["h3"] and [hop[0] for hop in journey.copies[0].hops][-1] == "s3"
    assert net.errors == []
    assert net.h1.send(frame(eth_src=str(net.h1.mac), eth_dst=str(net.h3.mac), tcp_dst=22)).hosts == []
    [(error, count)] = net.errors
    assert "KeyError: 'ssh'" in error and count == 1


def test_drawings_show_the_network_a_route_and_a_tree():
    net = maple.emulate("ring:4,delay=2ms", shortest)
    ping = net.h1.ping(net.h3)
    assert {"s1", "s4", "h1", "h4", "2ms"} <= set(svg(net))
    assert "marker-end" in ping.route._repr_svg_() and {"s1", "h3"} <= set(svg(ping.route))
    assert "marker-end" not in net._repr_svg_()
    tree = net.s1.tree
    assert svg(tree) == [line.strip() for line in tree.text.splitlines()]
    assert any(line.startswith("V eth_dst") or "eth_dst" in line for line in svg(tree))


def test_commands_of_the_console_and_policies_in_files(tmp_path: Path):
    file = tmp_path / "hub.py"
    file.write_text("from maple import flood, policy\n\n@policy\ndef hub(pkt, net):\n    return flood()\n")
    net = maple.emulate("tree:2,2", str(file), version="1.0")
    assert "answered in" in net.command("h1 ping h4")
    assert "s1" in net.command("show links")
    with pytest.raises(ValueError, match="did you mean h1 ping"):
        net.command("h1 png h4")
    with pytest.raises(RuntimeError, match="should not have worked"):
        net.command("not h1 ping h4")
    with pytest.raises(ValueError, match="star:3"):
        maple.emulate("star:3", str(file))
    with pytest.raises(ValueError, match="version"):
        maple.emulate("ring:4", str(file), version="1.5")


def classes() -> Iterator[type]:
    """The classes of the package that are written in Python, besides those whose making can't fail."""
    names = ["maple._policy", "maple._slices", "maple._explain", "maple._emulate", "maple._on", "maple._counts"]
    names += [f"maple.testing.{module.name}" for module in pkgutil.iter_modules(maple.testing.__path__)]
    for name in names:
        for made in vars(importlib.import_module(name)).values():
            if isinstance(made, type) and made.__module__ == name and not dataclasses.is_dataclass(made):
                yield made


def test_objects_whose_making_failed_are_shown_nevertheless() -> None:
    shown = {}
    for made in classes():
        if made.__new__ is object.__new__ or made.__basicsize__ == object.__basicsize__:
            shown[made.__qualname__] = repr(made.__new__(made))
    assert len(shown) > 20
    assert shown["Network"] == "<Network, not complete>"
    with pytest.raises(ValueError, match="no shape of that name") as raised:
        maple.testing.Network("nowhere:1", shortest)
    local = [repr(value) for entry in raised.traceback for value in entry.frame.f_locals.values()]
    assert "<Network, not complete>" in local, "as a traceback with local variables shows it"
