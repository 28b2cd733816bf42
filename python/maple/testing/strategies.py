"""Strategies of hypothesis for tests of policies: packets, hosts, topologies, faults.

>>> from hypothesis import given
>>> from maple.testing import Network, strategies
>>>
>>> with Network("ring:4", "shortest_path.py") as net:  # doctest: +SKIP
...     @given(strategies.packets(net))
...     def nobody_gets_two_copies(packet):
...         hosts = net.send(**packet).hosts
...         assert len(hosts) == len(set(hosts))
...     nobody_gets_two_copies()

A test with ``@given`` makes its networks itself, as above: hypothesis runs it many times in one use of a fixture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

try:
    from hypothesis import strategies as st
except ImportError as error:  # pragma: no cover
    raise ImportError("maple.testing.strategies needs hypothesis: pip install hypothesis") from error

from maple.testing._network import Network

SWITCHES, HOSTS = 8, 8
"""The maximum numbers of switches, and of hosts of a switch, in a topology."""

# Addresses that no host of a topology has.
STRANGERS = ("02:00:00:00:00:99", "06:12:34:56:78:9a")
GROUPS = ("ff:ff:ff:ff:ff:ff", "01:00:5e:01:01:01", "33:33:00:00:00:01")
# Ports that policies like to ask for, besides any.
PORTS = (0, 22, 23, 53, 80, 443, 1023, 1024, 8080, 65535)


def macs() -> st.SearchStrategy[str]:
    """Hardware addresses: any of a single host, of groups, and broadcast."""
    octets = st.lists(st.integers(0, 255), min_size=6, max_size=6)
    some = octets.map(lambda six: ":".join(f"{octet:02x}" for octet in six))
    return st.one_of(st.sampled_from([*STRANGERS, *GROUPS]), some)


def ipv4s() -> st.SearchStrategy[str]:
    """IPv4 addresses, those of hosts of topologies often."""
    near = st.integers(1, 20).map(lambda number: f"10.0.0.{number}")
    return st.one_of(near, st.ip_addresses(v=4).map(str))


def ports() -> st.SearchStrategy[int]:
    """Ports of TCP and UDP, those that policies like to ask for often."""
    return st.one_of(st.sampled_from(PORTS), st.integers(0, 65535))


def hosts(network: Network) -> st.SearchStrategy[str]:
    """Names of a network's hosts."""
    return st.sampled_from([host.name for host in network.hosts])


def packets(network: Network, **fixed: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Packets from a host to another, as the arguments of :meth:`Network.send`. ``fixed`` are fields that all have."""
    names = [host.name for host in network.hosts]
    if not names:
        raise ValueError("the network has no hosts, so nobody sends packets")
    ends = st.fixed_dictionaries({"src": st.sampled_from(names), "dst": st.sampled_from(names)})
    forged = st.fixed_dictionaries({}, optional={"eth_dst": macs(), "vlan_vid": st.integers(1, 4094)})
    return st.builds(lambda ends, forged, rest: ends | forged | rest | fixed, ends, forged, _contents())


def _contents() -> st.SearchStrategy[dict[str, Any]]:
    """The payload of an Ethernet frame."""
    addresses = {"ipv4_src": ipv4s(), "ipv4_dst": ipv4s(), "ip_dscp": st.integers(0, 63)}
    v4 = st.fixed_dictionaries({}, optional=addresses)
    transport: st.SearchStrategy[dict[str, Any]] = st.one_of(
        st.fixed_dictionaries({"tcp_dst": ports()}, optional={"tcp_src": ports()}),
        st.fixed_dictionaries({"udp_dst": ports()}, optional={"udp_src": ports()}),
        st.fixed_dictionaries({"icmpv4_type": st.sampled_from([0, 3, 8, 11])}),
        st.just({}),
    )
    ipv4 = st.builds(lambda ip, rest: ip | rest, v4, transport)
    arp = st.fixed_dictionaries({"arp_op": st.sampled_from([1, 2])}, optional={"arp_spa": ipv4s(), "arp_tpa": ipv4s()})
    ipv6 = st.fixed_dictionaries({"ipv6_dst": st.ip_addresses(v=6).map(str)}, optional={"udp_dst": ports()})
    other = st.fixed_dictionaries({"eth_type": st.sampled_from([0x88B5, 0x88B6])})
    return st.one_of(ipv4, arp, ipv6, other)


@st.composite
def topologies(draw: st.DrawFn, *, switches: int = 5, hosts: int = 2) -> dict[str, Any]:
    """Connected networks of some switches with some hosts at each, and more links than a tree needs.

    :param switches: how many at most.
    :param hosts: how many at most at a switch; there is one in all at least.
    """
    if not 1 <= switches <= SWITCHES or not 1 <= hosts <= HOSTS:
        raise ValueError(f"topologies have 1 to {SWITCHES} switches, and 1 to {HOSTS} hosts at each")
    count = draw(st.integers(1, switches))
    links = [(draw(st.integers(1, number - 1)), number) for number in range(2, count + 1)]
    pairs = [(a, b) for b in range(1, count + 1) for a in range(1, b) if (a, b) not in links]
    links += draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    places = [draw(st.integers(1, count)) for _ in range(draw(st.integers(1, hosts * count)))]
    return {
        "switches": [{"name": f"s{number}"} for number in range(1, count + 1)],
        "hosts": [{"name": f"h{number}", "switch": f"s{at}"} for number, at in enumerate(places, 1)],
        "links": [{"a": f"s{a}", "b": f"s{b}"} for a, b in links],
    }


@dataclass(frozen=True)
class Fault:
    """Something that happens to a network."""

    word: str
    arguments: tuple[Any, ...]

    def happen(self, network: Network) -> None:
        """Lets it happen, and the network follow."""
        getattr(network, self.word)(*self.arguments)

    def __str__(self) -> str:
        return f"{self.word}({', '.join(map(repr, self.arguments))})"


def faults(network: Network) -> st.SearchStrategy[Fault]:
    """Links and switches that go down or come up, and hosts that move."""
    switches = [switch.name for switch in network.switches]
    pairs = sorted({(link.a[0], link.b[0]) for link in network.links})
    kinds = [
        st.builds(Fault, st.sampled_from(["switch_down", "switch_up"]), st.tuples(st.sampled_from(switches))),
        st.builds(Fault, st.just("move"), st.tuples(hosts(network), st.sampled_from(switches))),
    ]
    if pairs:
        kinds.append(st.builds(Fault, st.sampled_from(["link_down", "link_up"]), st.sampled_from(pairs)))
    return st.one_of(kinds)
