"""Networks that Mininet does not have."""

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


class Rings(Topo):
    """Rings of four switches beside each other. The names of nodes begin with the ring's prefix; datapath ids and
    addresses are the same in all. `protocols`: by prefix what its switches speak, or None for the defaults."""

    def build(self, protocols):
        for prefix, spoken in protocols.items():
            options = {"protocols": spoken} if spoken else {}
            switches = [self.addSwitch(f"{prefix}s{i}", dpid=f"{i:016x}", **options) for i in range(1, 5)]
            for i, switch in enumerate(switches, 1):
                # A subnet for each, as tenants have it.
                host = self.addHost(f"{prefix}h{i}", mac=f"00:00:00:00:00:0{i}", ip=f"10.0.{i - 1}.1/16")
                self.addLink(host, switch)
            for a, b in zip(switches, switches[1:] + switches[:1], strict=True):
                self.addLink(a, b)


class TwoHomes(Topo):
    """s1 - s2 - s3, a host at each; h1 has a second interface, at s3."""

    def build(self):
        switches = [self.addSwitch(f"s{i}") for i in (1, 2, 3)]
        for i, switch in enumerate(switches, 1):
            self.addLink(self.addHost(f"h{i}"), switch)
        self.addLink("s1", "s2")
        self.addLink("s2", "s3")
        self.addLink("h1", "s3")
