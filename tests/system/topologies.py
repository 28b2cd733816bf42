"""Networks that Mininet has not got itself."""

from mininet.topo import Topo


class Ring(Topo):
    """s1 - s2 - ... - s1, a host at each; `addresses` are those of the hosts, in order."""

    def build(self, n=4, addresses=()):
        switches = [self.addSwitch(f"s{i}") for i in range(1, n + 1)]
        for i, switch in enumerate(switches, 1):
            options = {"ip": addresses[i - 1]} if addresses else {}
            self.addLink(self.addHost(f"h{i}", **options), switch)
        for a, b in zip(switches, switches[1:] + switches[:1], strict=True):
            self.addLink(a, b)
