"""Frames of a policy's own, and functions that listen, on real switches."""

import textwrap

import pytest
from harness import wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from mininet.topo import LinearTopo

BOTH = pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])

GATEWAY = """
    from maple import Table, answer, drop, frame, on, policy, Prefix, flood

    IP, MAC = "10.0.0.254", "02:00:00:00:00:fe"
    asked = Table("asked")

    @policy
    def gateway(pkt, net):
        if pkt.arp_op == 1 and pkt.arp_tpa == IP:
            return answer(frame(eth_dst=pkt.eth_src, eth_src=MAC, arp_op=2, arp_spa=IP, arp_tpa=pkt.arp_spa))
        if pkt.icmpv4_type == 8 and pkt.ipv4_dst == IP:
            return answer(frame(eth_dst=pkt.eth_src, eth_src=MAC, ipv4_src=IP, ipv4_dst=pkt.ipv4_src,
                                icmpv4_type=0, icmpv4_code=0, payload=pkt.payload))
        return flood()

    @on(packet_in={"arp_op": 1})
    def hears(pkt, net):
        asked[str(pkt.arp_spa)] = pkt.at.switch
"""


@BOTH
def test_the_controller_answers_arp_and_ping_itself_and_others_go_by_rules(controller, lab, tmp_path, protocols):
    policy = tmp_path / "gateway.py"
    policy.write_text(textwrap.dedent(GATEWAY))
    maple = controller(policy)
    net = lab(LinearTopo(k=3), protocols=protocols, port=maple.port)
    wait_for("the links", lambda: len(maple.show("links")) == 2)
    for host in net.hosts:
        assert net.ping(host.name, "10.0.0.254", count=5) == 5
    assert net.ping("h1", "h3", count=2) == 2
    decided = maple.count("misses")
    assert net.ping("h1", "h3", count=10) == 10
    assert maple.count("misses") - decided <= 4, "what is not answered goes by rules, but for ARP"
    asked = maple.state("get", "asked")
    assert all(address in asked for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3")), asked
    assert maple.count("of_errors") == 0
