"""ssh takes the secure path and the rest the shortest one, as the switches' own counters tell."""

import pytest
from harness import EXAMPLES, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from topologies import Ring

SSH, HTTP = 22, 80


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_ssh_takes_the_secure_path_and_the_rest_the_shortest(controller, lab, protocols):
    # The policy says that the link s1-s2 is dear by the measure "secure", so ssh from h1 to h2 goes round by s4 and s3.
    maple = controller(EXAMPLES / "secure_routing.py")
    net = lab(Ring(), maple, protocols)
    assert net.ping_all()[0] == 0
    to_h2 = [f"dl_src={net['h1'].MAC()}", f"dl_dst={net['h2'].MAC()}"]

    def counted(switch):
        """Packets from h1 to h2 by a switch's rules for ssh, and by its others."""
        net.wait_agreement(maple)
        ssh = "tp_dst=22"
        return net.flow_packets(switch, *to_h2, ssh), net.flow_packets(switch, *to_h2, without=ssh)

    def arrived_at_s3():
        """Packets to h2 that s3 has counted. One rule may stand for all that come by a link."""
        return net.flow_packets("s3", to_h2[1])

    with net.serving("h2", SSH, HTTP):
        direct, detour, ssh_at_s3 = counted("s1"), counted("s4"), arrived_at_s3()
        for _ in range(3):
            assert net.tcp("h1", "h2", HTTP)
        # Open vSwitch gathers its counters twice a second.
        wait_for("s1 to have counted http", lambda: counted("s1")[1] > direct[1] + 3)
        assert counted("s4") == detour
        for _ in range(3):
            assert net.tcp("h1", "h2", SSH)
        wait_for("s4 to have counted ssh", lambda: counted("s4")[0] > 3)
        wait_for("s3 to have counted ssh", lambda: arrived_at_s3() > ssh_at_s3 + 3)
        assert counted("s4")[1] == detour[1]
        http_at_s1 = counted("s1")[1]
        ssh_at_s3, direct_port = arrived_at_s3(), net.port_packets("s1", net.port_towards("s1", "s2"))
        for _ in range(3):
            assert net.tcp("h1", "h2", SSH)
        wait_for("s3 to have counted more", lambda: arrived_at_s3() > ssh_at_s3 + 3)
        assert counted("s1")[1] == http_at_s1
        # Discovery sends a probe now and then.
        assert net.port_packets("s1", net.port_towards("s1", "s2")) - direct_port <= 3
    assert maple.show("errors") == []
