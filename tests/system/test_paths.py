"""ssh takes the secure path and the rest the shortest one, as the switches' own counters tell."""

from harness import ROOT
from mininet.topo import Topo


class Ring(Topo):
    """s1 - s2 - s3 - s4 - s1, a host at each."""

    def build(self, n=4):
        switches = [self.addSwitch(f"s{i}") for i in range(1, n + 1)]
        for i, switch in enumerate(switches, 1):
            self.addLink(self.addHost(f"h{i}"), switch)
        for a, b in zip(switches, switches[1:] + switches[:1], strict=True):
            self.addLink(a, b)


def packets_to(net, switch, host):
    """Packets of rules on `switch` for the IPv4 traffic of `host`'s address pair, by what they match."""
    mac = net[host].MAC()
    ssh = net.flow_packets(switch, [f"dl_dst={mac}", "tp_dst=22"])
    return ssh, net.flow_packets(switch, [f"dl_dst={mac}"]) - ssh


def test_ssh_takes_the_secure_path_and_the_rest_the_shortest(controller, lab):
    # The link s1-s2 is dear by the measure "secure", so ssh from h1 to h2 goes round by s4 and s3.
    maple = controller(ROOT / "examples/secure_routing.py", "--weights", ROOT / "tests/system/ring-weights.json")
    net = lab(Ring(), maple, "OpenFlow13")
    assert net.ping("h1", "h2") == 3
    before = packets_to(net, "s4", "h2")
    assert net.tcp("h1", "h2", 80) == "hello"
    assert packets_to(net, "s4", "h2") == before
    assert net.tcp("h1", "h2", 22) == "hello"
    assert net.tcp("h1", "h2", 22) == "hello"
    ssh, rest = packets_to(net, "s4", "h2")
    assert ssh > before[0]
    assert rest == before[1]
    assert net.tcp("h1", "h2", 80) == "hello"
    assert packets_to(net, "s4", "h2") == (ssh, rest)
