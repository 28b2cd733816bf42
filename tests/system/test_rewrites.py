"""What policies do to VLAN tags, and packets that go back where they came from, on Open vSwitch."""

import pytest

pytest.importorskip("mininet", reason="system tests need Mininet")
from mininet.topo import LinearTopo
from test_labels import VLAN, carry, frame

POLICY = """
from maple import *

@policy
def f(pkt, net):
    if pkt.eth_type == 0x88b5 and pkt.eth_dst == pkt.eth_src.value:
        return to(IN_PORT)
    if pkt.eth_dst.is_multicast or not (dst := net.locate(pkt.eth_dst)):
        return flood()
    route = net.shortest_path(net.locate(pkt.eth_src), dst)
    if pkt.vlan_vid == 30:
        return route.set(vlan_vid=0)
    if pkt.vlan_vid == 20:
        return route.set(vlan_vid=30)
    return route.set(vlan_vid=10) if pkt.eth_type == 0x88b5 and not pkt.vlan_vid.is_present else route
"""


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_tags_come_change_and_go_and_packets_go_back(controller, lab, tmp_path, protocols):
    policy = tmp_path / "tags.py"
    policy.write_text(POLICY)
    maple = controller(policy)
    net = lab(LinearTopo(k=3), maple, protocols)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    ways = [((), ((VLAN, 10),)), (((VLAN, 20),), ((VLAN, 30),)), (((VLAN, 30),), ())]
    sent = [frame(net, "h1", "h3", tags) for tags, _ in ways]
    wanted = [frame(net, "h1", "h3", tags, 64 + 4 * (len(tags) - len(before))) for before, tags in ways]
    back = frame(net, "h1", "h1")
    # The first of each goes through the controller, the second by rules.
    for _ in range(2):
        assert carry(net, "h1", "h3", sent) == wanted
        assert carry(net, "h1", "h1", [back]) == [back]
    rules = "\n".join(net.flows("s1"))
    assert "IN_PORT" in rules, rules
    assert maple.errors() == []
