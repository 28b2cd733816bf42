"""With `--thin-after` switches have fewer rules for packets from other switches, and every ping is answered."""

import pytest
from harness import EXAMPLES, rust_example, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from topologies import Ring

# The priority of rules that stand for several.
MERGED = "priority=65005,"


def test_switches_are_spared_rules_and_no_packet_is_lost_for_it(controller, lab, figure):
    maple = controller(EXAMPLES / "shortest_path.py", "--thin-after", 1, program=[rust_example("shortest_path")])
    net = lab(Ring(n=4), maple, "OpenFlow13")
    assert net.ping_all()[0] == 0
    spared = wait_for("rules to be left out", lambda: maple.count("rules_spared"), timeout=10)
    net.wait_agreement(maple)
    merged = [line for switch in net.switches for line in net.flows(switch.name) if MERGED in line]
    assert merged
    figure(f"a ring of four switches, {len(merged)} rules stand for several: {spared} rules spared")
    assert net.ping_all()[0] == 0
    with net.link_down("s1", "s2"):
        wait_for("the link to be down", lambda: len(maple.show("links")) == 3)
        wait_for("the way round", lambda: net.ping("h1", "h2") == 1)
        assert net.ping_all()[0] == 0
        net.wait_agreement(maple)
    wait_for("the link to be up", lambda: len(maple.show("links")) == 4)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
