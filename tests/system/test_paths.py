"""ssh takes the secure path and the rest the shortest one, as the switches' own counters tell."""

import time

import pytest
from harness import EXAMPLES, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from topologies import Ring

SSH, HTTP = 22, 80


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_ssh_takes_the_secure_path_and_the_rest_the_shortest(controller, lab, protocols):
    # The policy says that the link s1-s2 is expensive by "secure", so ssh from h1 to h2 goes round by s4 and s3.
    maple = controller(EXAMPLES / "secure_routing.py")
    net = lab(Ring(), maple, protocols)
    assert net.ping_all()[0] == 0
    pair = {"src": "h1", "dst": "h2"}

    def counted(switch):
        """Packets from h1 to h2 by a switch's rules for ssh, and by its others."""
        net.wait_agreement(maple)
        ssh = "tp_dst=22"
        return net.flow_packets(switch, ssh, **pair), net.flow_packets(switch, without=ssh, **pair)

    with net.serving("h2", SSH, HTTP):
        # Open vSwitch gathers its counters twice a second.
        time.sleep(1.5)
        direct, at_s4, at_s3 = counted("s1"), net.passing("s4"), net.passing("s3")
        for _ in range(3):
            assert net.tcp("h1", "h2", HTTP)
        wait_for("s1 to have counted http", lambda: counted("s1")[1] > direct[1] + 3)
        assert (net.passing("s4"), net.passing("s3")) == (at_s4, at_s3)
        for _ in range(3):
            assert net.tcp("h1", "h2", SSH)
        wait_for("s1 to have counted ssh", lambda: counted("s1")[0] > 3)
        wait_for("s4 to have passed ssh on", lambda: net.passing("s4") > at_s4 + 3)
        wait_for("s3 to have passed ssh on", lambda: net.passing("s3") > at_s3 + 3)
        http_at_s1 = counted("s1")[1]
        at_s3, direct_port = net.passing("s3"), net.port_packets("s1", net.port_towards("s1", "s2"))
        for _ in range(3):
            assert net.tcp("h1", "h2", SSH)
        wait_for("s3 to have passed more on", lambda: net.passing("s3") > at_s3 + 3)
        assert counted("s1")[1] == http_at_s1
        # Discovery sends a probe now and then.
        assert net.port_packets("s1", net.port_towards("s1", "s2")) - direct_port <= 3
    assert maple.errors() == []
