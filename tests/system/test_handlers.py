"""Handlers on real switches, in both versions: the built-in ones, and one in Python."""

import functools

import pytest
from harness import EXAMPLES, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from mininet.topo import LinearTopo

BOTH = pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
LEARNING = pytest.mark.parametrize(
    "program", ["builtin:learning-switch", EXAMPLES / "learning_switch_handler.py"], ids=["builtin", "python"]
)


def join(controller, lab, program, protocols):
    """A controller that runs a handler, and three switches in a line that it serves."""
    maple = controller(program)
    net = lab(LinearTopo(k=3), protocols=protocols, port=maple.port)
    wait_for("the switches", lambda: maple.count("of_dp_connections") == 3)
    return maple, net


def exact(net, switch):
    """The rules of a switch that match addresses."""
    return [line for line in net.flows(switch) if "dl_src=" in line]


@BOTH
@LEARNING
def test_a_learning_switch_installs_rules_that_packets_follow_without_the_controller(
    controller, lab, program, protocols
):
    maple, net = join(controller, lab, program, protocols)
    assert net.ping_all()[0] == 0
    assert net.ping("h1", "h3", count=2) == 2
    h1, h3 = net["h1"].MAC(), net["h3"].MAC()
    onwards = net.port_towards("s1", "s2")
    (rule, *_) = [line for line in exact(net, "s1") if f"dl_src={h1},dl_dst={h3}" in line]
    assert rule.endswith(f"actions=output:{onwards}")
    assert "idle_timeout=5" in rule
    assert net.ping("h1", "h3", count=10) == 10
    for switch in net.switches:
        # Open vSwitch counts late.
        carried = functools.partial(net.flow_packets, switch.name, f"dl_src={h1},dl_dst={h3}")
        wait_for("the rule's count", lambda carried=carried: carried() >= 10, timeout=4)
    assert maple.count("of_errors") == 0
    wait_for("rules that are not used to go", lambda: not exact(net, "s1"), timeout=20)
    assert net.ping("h1", "h3") == 1, "and they come again"


@BOTH
def test_a_hub_sends_every_packet_on_and_installs_nothing_for_it(controller, lab, protocols):
    maple, net = join(controller, lab, "builtin:hub", protocols)
    assert net.ping_all()[0] == 0
    before = maple.count("of_packet_ins")
    assert net.ping("h1", "h3", count=10) == 10
    # Two directions, three switches.
    assert maple.count("of_packet_ins") >= before + 60
    flows = net.flows("s1")
    assert not exact(net, "s1")
    assert len(flows) == (0 if protocols == "OpenFlow10" else 1), flows
    assert maple.count("of_errors") == 0
