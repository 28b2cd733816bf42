"""A guarded policy on Open vSwitch: what a change of the network makes a violation is withdrawn, and comes back."""

import re
import textwrap
import time

import pytest
from harness import wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from topologies import Ring

POLICY = """
    from maple import flood, guard, policy, waypoint

    @policy
    def routing(pkt, net):
        src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
        if pkt.eth_dst.is_multicast or src is None or dst is None:
            return flood()
        return net.shortest_path(src, dst)

    watched = guard(
        routing,
        waypoint({"ipv4_src": "10.0.0.1"}, "10.0.0.2", via=2),
        waypoint({"ipv4_src": "10.0.0.1"}, {"ipv4_dst": "10.0.0.3"}, via=2),
        waypoint({"ipv4_src": "10.0.0.3"}, {"ipv4_dst": "10.0.0.1"}, via=2),
    )
"""


def test_a_flow_whose_only_other_path_misses_the_waypoint_is_withdrawn_until_the_link_is_back(
    controller, lab, tmp_path
):
    file = tmp_path / "watched.py"
    file.write_text(textwrap.dedent(POLICY))
    maple = controller(file)
    net = lab(Ring(), maple, "OpenFlow13")
    wait_for("h1 and h3 by switch 2", lambda: net.ping("h1", "h3") == 1, timeout=15)
    assert net.ping("h2", "h3") == 1

    def between(switch):
        """The rules of the switch where packets from h1 to h3 enter that send those of their own addresses on: what h1
        sends with others is free."""
        lines = net.decisions(switch, "nw_src=10.0.0.1,nw_dst=10.0.0.3", src="h1", dst="h3")
        return [line for line in lines if re.search("output:[0-9]|goto_table|resubmit", line)]

    assert between("s1"), net.flows("s1")
    with net.link_down("s1", "s2"):
        wait_for("the flow is withdrawn", lambda: not between("s1"), timeout=10)
        assert net.ping("h1", "h3", count=3) == 0
        # Others take the other way.
        wait_for("h2 by the other way", lambda: net.ping("h2", "h1") == 1, timeout=10)
        wait_for("the report", lambda: "violates waypoint(" in maple.text(), timeout=5)
        errors = [error for error in maple.show("errors") if "violates waypoint(" in error["text"]]
        assert errors and "watched.py:9" in errors[0]["text"] and errors[0]["packets"] >= 1, errors
    wait_for("the flow is back", lambda: net.ping("h1", "h3") == 1, timeout=20)
    time.sleep(0.5)
    assert net.ping("h1", "h3", count=3) == 3
