"""An access list decides real packets, by rules that are there before them."""

import random

import pytest
from harness import wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from topologies import Ring

LIST = """
version: 1
forward: {forward}
groups: {{h1: 10.0.0.1, h2: 10.0.0.2, rest: [10.0.0.3, 10.0.0.4]}}
rules:
  - {{action: deny, service: tcp/2000-3999}}
  - {{action: allow, from: h1, to: h2, service: tcp/8080-8099, replies: true}}
  - {{action: allow, service: icmp, name: ping}}
tests: [h1 -> h2 tcp/80 denied, rest -> h2 tcp denied]
"""


def installed(maple):
    """Waits until the controller has decided all of the list's packets at each switch."""
    seen = []

    def is_quiet():
        seen.append(maple.count("leaves_foreseen"))
        return len(seen) > 10 and seen[-1] > 0 and len(set(seen[-10:])) == 1

    wait_for("the rules of the list", is_quiet, every=0.1)


def arrived(maple):
    """How many packets of hosts came to the controller. The switches' own ports talk on the links."""
    every, of_links = maple.counts("packet_ins", "link_packet_ins")
    return every - of_links


@pytest.mark.parametrize("forward", ["flood", "shortest-path"])
def test_what_a_list_denies_never_comes_to_the_controller(controller, lab, tmp_path, forward):
    path = tmp_path / "list.yaml"
    path.write_text(LIST.format(forward=forward))
    maple = controller(path)
    net = lab(Ring(), maple)
    installed(maple)
    for host in net.hosts:
        # Packets of the hosts' own accord would be counted.
        host.cmd("sysctl -q -w net.ipv6.conf.all.disable_ipv6=1")
    net.net.staticArp()
    assert net.ping_all()[0] == 0
    with net.serving("h2", 8080, 80):
        assert net.tcp("h1", "h2", 8080)
        misses, came = maple.count("misses"), arrived(maple)
        chosen = random.Random(1)
        # In the denied range, at its ends, and outside.
        for port in [80, 22, 2000, 4000, *chosen.sample(range(1024, 8080), 3)]:
            assert not net.tcp("h1", "h2", port, timeout=1)
        assert not net.tcp("h3", "h2", 8080, timeout=1)
        assert maple.count("misses") == misses
        if forward == "flood":
            # Hosts are not tracked, so nothing else comes either.
            assert net.tcp("h1", "h2", 8080)
            assert arrived(maple) == came
    assert maple.errors() == []


def test_a_list_whose_tests_fail_is_not_run(controller, tmp_path):
    path = tmp_path / "list.yaml"
    path.write_text(LIST.format(forward="flood").replace("tcp/80 denied", "tcp/80 allowed"))
    with pytest.raises(AssertionError, match=r"list.yaml:9:9: a test fails: h1 -> h2 tcp/80 allowed: not so for"):
        controller(path)
