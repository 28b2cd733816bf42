"""Python policies on Maple's engine; use it through the package ``maple``."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Final, TypeAlias, final

__all__ = [
    "FIELDS",
    "Bench",
    "Decision",
    "Field",
    "Ip",
    "Location",
    "Mac",
    "Net",
    "Packet",
    "PolicyTimeout",
    "Prefix",
    "Route",
    "Table",
    "Var",
    "drop",
    "flood",
    "frame",
    "hops",
    "main",
    "multicast",
    "to",
    "weights",
]

FIELDS: Final[frozenset[str]]
"""The names of all packet fields: their OXM names (OpenFlow 1.3, section 7.2.3.7)."""

_MacLike: TypeAlias = "Mac | str | int | Field"
_IpLike: TypeAlias = "Ip | str | IPv4Address | IPv6Address | Field"
_Condition: TypeAlias = "int | str | Mac | Ip | Prefix | range | IPv4Address | IPv6Address | IPv4Network | IPv6Network"
_Place: TypeAlias = "Location | tuple[int, int]"
_Value: TypeAlias = "Any"

class PolicyTimeout(BaseException):
    """Raised in a policy whose run takes longer than ``--policy-time-limit``."""

@final
class Mac:
    """An Ethernet address.

    Equal to its text in any spelling (``"00-11-22-33-44-55"``), and hashed as its canonical text
    (``"00:11:22:33:44:55"``), so that dictionaries may hold either.
    """

    def __new__(cls, address: _MacLike) -> Mac: ...
    @property
    def is_multicast(self) -> bool:
        """Whether the group bit is set: multicast and broadcast addresses."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __int__(self) -> int: ...
    def __format__(self, format_spec: str) -> str: ...
    def __reduce__(self) -> tuple[type[Mac], tuple[str]]: ...

@final
class Ip:
    """An IPv4 or IPv6 address.

    Equal to its text and to objects of :mod:`ipaddress`; hashed as its canonical text.
    """

    def __new__(cls, address: _IpLike) -> Ip: ...
    @property
    def version(self) -> int:
        """4 or 6."""

    @property
    def is_multicast(self) -> bool:
        """Whether it is a group address."""

    @property
    def packed(self) -> bytes:
        """The address in network order."""

    def prefix(self, length: int) -> Prefix:
        """The first ``length`` bits."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __lt__(self, other: _IpLike, /) -> bool: ...
    def __le__(self, other: _IpLike, /) -> bool: ...
    def __gt__(self, other: _IpLike, /) -> bool: ...
    def __ge__(self, other: _IpLike, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __int__(self) -> int: ...
    def __format__(self, format_spec: str) -> str: ...
    def __reduce__(self) -> tuple[type[Ip], tuple[str]]: ...

@final
class Prefix:
    """The leading bits of IPv4, IPv6 or MAC addresses, such as ``prefix("10.0.0.0/8")``.

    ``pkt.ipv4_src in prefix("10.0.0.0/8")`` is one test. Equal to its text; hashed as its canonical text. Raises
    ``ValueError`` where bits are set behind the prefix.
    """

    def __new__(cls, prefix: Prefix | str | IPv4Network | IPv6Network) -> Prefix: ...
    @property
    def length(self) -> int:
        """The number of leading bits."""

    def __contains__(self, address: Field | Mac | _IpLike, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __format__(self, format_spec: str) -> str: ...
    def __reduce__(self) -> tuple[type[Prefix], tuple[str]]: ...

@final
class Field:
    """A field of the packet that is being decided.

    To look at the attribute learns nothing. ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in (22, 80)``,
    ``in prefix(…)``, ``bool()`` and :attr:`present` are *tests*: they learn the answer and nothing else. Hashing (sets,
    keys of dictionaries), ``int()``, ``str()``, formatting, arithmetic and :attr:`value` are *reads*: they learn the
    value. Everything answers as on the plain value (``int``, :class:`Mac`, :class:`Ip`, or ``None`` where the packet
    has no such field), but that ``<`` and its like are false for an absent field.
    """

    @property
    def name(self) -> str:
        """The OXM name. Learns nothing."""

    @property
    def value(self) -> Any:
        """The plain value: ``int``, ``Mac`` or ``Ip``; ``None`` where the packet has no such field. A read."""

    @property
    def present(self) -> bool:
        """Whether the packet has the field; the same as ``!= None``. A test."""

    @property
    def is_multicast(self) -> bool:
        """Whether the address is a group address; for MAC addresses, whether the group bit is set. A test."""

    @property
    def version(self) -> int:
        """Raises: networks of :mod:`ipaddress` ask for it, and can't be traced."""

    @property
    def _version(self) -> int: ...
    def prefix(self, length: int) -> Prefix | None:
        """The first ``length`` bits of the address, or ``None`` where the packet has no such field. A read of them."""

    def matches(self, value: _MacLike | _IpLike, mask: _MacLike | _IpLike) -> bool:
        """Whether the field has ``value`` in the bits of ``mask``. A test."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __lt__(self, other: int | _IpLike, /) -> bool: ...
    def __le__(self, other: int | _IpLike, /) -> bool: ...
    def __gt__(self, other: int | _IpLike, /) -> bool: ...
    def __ge__(self, other: int | _IpLike, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...
    def __format__(self, format_spec: str) -> str: ...
    def __add__(self, other: int | Field, /) -> int: ...
    def __radd__(self, other: int | Field, /) -> int: ...
    def __sub__(self, other: int | Field, /) -> int: ...
    def __rsub__(self, other: int | Field, /) -> int: ...
    def __mul__(self, other: int | Field, /) -> int: ...
    def __rmul__(self, other: int | Field, /) -> int: ...
    def __floordiv__(self, other: int | Field, /) -> int: ...
    def __rfloordiv__(self, other: int | Field, /) -> int: ...
    def __mod__(self, other: int | Field, /) -> int: ...
    def __rmod__(self, other: int | Field, /) -> int: ...
    def __and__(self, other: int | Field, /) -> int: ...
    def __rand__(self, other: int | Field, /) -> int: ...
    def __or__(self, other: int | Field, /) -> int: ...
    def __ror__(self, other: int | Field, /) -> int: ...
    def __xor__(self, other: int | Field, /) -> int: ...
    def __rxor__(self, other: int | Field, /) -> int: ...
    def __lshift__(self, other: int | Field, /) -> int: ...
    def __rlshift__(self, other: int | Field, /) -> int: ...
    def __rshift__(self, other: int | Field, /) -> int: ...
    def __rrshift__(self, other: int | Field, /) -> int: ...

@final
class Packet:
    """The packet that a policy is asked about: one :class:`Field` for each OXM name."""

    @property
    def switch(self) -> int:
        """Datapath id of the switch where the packet entered the network."""

    def matches(self, **fields: _Condition) -> bool:
        """Whether the packet has all of these fields, each as it is said: several conditions asked as *one* test.

        >>> pkt.matches(ipv4_src="10.0.0.0/8", ip_proto=6, tcp_dst=range(1024, 2048))  # doctest: +SKIP

        A condition is a value, a prefix of an address, or a ``range`` of numbers. Learns the answer and nothing else:
        not which of the conditions failed. Where IPv4 and IPv6 packets can both fit, it is a test for each. Raises
        ``TypeError`` or ``ValueError`` for what can be no value of the field.
        """

    @property
    def in_port(self) -> Field:
        """Port by which the packet came in."""

    @property
    def in_phy_port(self) -> Field:
        """Physical port under a logical one."""

    @property
    def metadata(self) -> Field:
        """Passed between tables; 0 for packets that enter."""

    @property
    def eth_dst(self) -> Field:
        """Ethernet destination."""

    @property
    def eth_src(self) -> Field:
        """Ethernet source."""

    @property
    def eth_type(self) -> Field:
        """Ethernet type, behind VLAN tags."""

    @property
    def vlan_vid(self) -> Field:
        """VLAN id, 12 bits; absent without a tag."""

    @property
    def vlan_pcp(self) -> Field:
        """VLAN priority."""

    @property
    def ip_dscp(self) -> Field:
        """Differentiated services code point."""

    @property
    def ip_ecn(self) -> Field:
        """Congestion notification."""

    @property
    def ip_proto(self) -> Field:
        """IP protocol."""

    @property
    def ipv4_src(self) -> Field:
        """IPv4 source."""

    @property
    def ipv4_dst(self) -> Field:
        """IPv4 destination."""

    @property
    def tcp_src(self) -> Field:
        """TCP source port."""

    @property
    def tcp_dst(self) -> Field:
        """TCP destination port."""

    @property
    def udp_src(self) -> Field:
        """UDP source port."""

    @property
    def udp_dst(self) -> Field:
        """UDP destination port."""

    @property
    def sctp_src(self) -> Field:
        """SCTP source port."""

    @property
    def sctp_dst(self) -> Field:
        """SCTP destination port."""

    @property
    def icmpv4_type(self) -> Field:
        """ICMP type."""

    @property
    def icmpv4_code(self) -> Field:
        """ICMP code."""

    @property
    def arp_op(self) -> Field:
        """ARP operation: 1 request, 2 reply."""

    @property
    def arp_spa(self) -> Field:
        """ARP sender IPv4 address."""

    @property
    def arp_tpa(self) -> Field:
        """ARP target IPv4 address."""

    @property
    def arp_sha(self) -> Field:
        """ARP sender hardware address."""

    @property
    def arp_tha(self) -> Field:
        """ARP target hardware address."""

    @property
    def ipv6_src(self) -> Field:
        """IPv6 source."""

    @property
    def ipv6_dst(self) -> Field:
        """IPv6 destination."""

    @property
    def ipv6_flabel(self) -> Field:
        """IPv6 flow label."""

    @property
    def icmpv6_type(self) -> Field:
        """ICMPv6 type."""

    @property
    def icmpv6_code(self) -> Field:
        """ICMPv6 code."""

    @property
    def ipv6_nd_target(self) -> Field:
        """Neighbour discovery target."""

    @property
    def ipv6_nd_sll(self) -> Field:
        """Neighbour discovery source link-layer address."""

    @property
    def ipv6_nd_tll(self) -> Field:
        """Neighbour discovery target link-layer address."""

    @property
    def mpls_label(self) -> Field:
        """Label of the outermost MPLS entry."""

    @property
    def mpls_tc(self) -> Field:
        """Traffic class of the outermost MPLS entry."""

    @property
    def mpls_bos(self) -> Field:
        """Bottom-of-stack bit of the outermost MPLS entry."""

    @property
    def pbb_isid(self) -> Field:
        """Provider backbone service id."""

    @property
    def tunnel_id(self) -> Field:
        """Metadata of a logical port."""

    @property
    def ipv6_exthdr(self) -> Field:
        """Bits for the IPv6 extension headers that are there."""

@final
class Location:
    """A port of a switch: where a host is, or one end of a link. Unpacks as ``switch, port = location``."""

    def __new__(cls, switch: int, port: int) -> Location: ...
    @property
    def switch(self) -> int:
        """Datapath id."""

    @property
    def port(self) -> int:
        """Port number."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __lt__(self, other: Location, /) -> bool: ...
    def __le__(self, other: Location, /) -> bool: ...
    def __gt__(self, other: Location, /) -> bool: ...
    def __ge__(self, other: Location, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def __reduce__(self) -> tuple[type[Location], tuple[int, int]]: ...

@final
class Route:
    """What a policy answers. False only where a path query found no way; as an answer that is a drop."""

    def set(self, **fields: int | _MacLike | _IpLike) -> Route:
        """The same route, with header fields rewritten where the packet leaves the network."""

    def queue(self, queue: int) -> Route:
        """The same route, through this queue of the egress ports."""

    def meter(self, meter: int) -> Route:
        """The same route, through this meter of the ingress switch (OpenFlow 1.3)."""

    @property
    def hops(self) -> list[tuple[int, int]]:
        """The hops given one by one, or found by a path query, as pairs of switch and port."""

    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: Any

@final
class Net:
    """The network, as one run of the policy sees it. Each answer is a dependency: when it changes, the policy decides
    again for the packets that it concerns."""

    def locate(self, mac: _MacLike) -> Location | None:
        """Where the host with this hardware address is; ``None`` if it was not seen yet."""

    def locate_ip(self, ip: _IpLike) -> tuple[Mac, Location] | None:
        """The host that uses this IP address, and where it is; ``None`` if it was not seen yet."""

    def hosts(self) -> list[tuple[Mac, Location]]:
        """All hosts and where they are."""

    def addresses(self, mac: _MacLike) -> list[Ip] | None:
        """The IP addresses that a host was seen to use; ``None`` for an unknown host."""

    def switches(self) -> list[int]:
        """The datapath ids of all switches."""

    def links(self) -> list[tuple[Location, Location]]:
        """All links, each once."""

    def edge_ports(self, switch: int) -> list[int]:
        """The ports of a switch that hosts are behind."""

    def shortest_path(self, src: _Place | None, dst: _Place | None) -> Route:
        """The way with the fewest hops. False where there is none, also where a place is ``None``."""

    def path(self, src: _Place | None, dst: _Place | None, weight: str) -> Route:
        """The way of least cost by these weights (see :func:`weights`). False where there is none.

        A ``LookupError`` where links have no costs by that name.
        """

    def invalidate(
        self,
        *,
        host: _MacLike | None = None,
        switch: int | None = None,
        port: int | None = None,
        fields: dict[str, int | str | Mac | Ip] | None = None,
    ) -> None:
        """Decides again for packets from or to a host, through a port, or with these field values.

        Tracked state needs none of this: what the policy read is watched. It is for policies that look at something
        else, and commits with the run.
        """

@final
class Table:
    """A table of tracked state, by name: all tables of one name are one.

    In a policy each read is a dependency of the run, and writes belong to the run. Elsewhere (in a background thread,
    or while the file is imported) each use is a transaction of its own. Keys and values are ``None``, numbers, text,
    bytes, addresses, locations, tuples (lists become tuples) and dictionaries of these. Addresses that are keys come
    back as text.
    """

    def __new__(cls, name: str) -> Table: ...
    @property
    def name(self) -> str:
        """The name."""

    def get(self, key: _Value, default: Any = None) -> Any:
        """The value at ``key``, or ``default``."""

    def pop(self, key: _Value, default: Any = None) -> Any:
        """Takes ``key`` away and returns its value, or ``default``."""

    def update(self, other: dict[Any, Any]) -> None:
        """Sets the keys and values of ``other``, in one transaction."""

    def replace(self, other: dict[Any, Any]) -> None:
        """Makes the contents those of ``other``, in one transaction. What stays equal is not touched."""

    def clear(self) -> None:
        """Takes all keys away, in one transaction."""

    def keys(self) -> list[Any]:
        """All keys. In a policy: a dependency on the whole table."""

    def values(self) -> list[Any]:
        """All values, in the order of their keys."""

    def items(self) -> list[tuple[Any, Any]]:
        """All pairs of key and value."""

    def __getitem__(self, key: _Value, /) -> Any: ...
    def __setitem__(self, key: _Value, value: _Value, /) -> None: ...
    def __delitem__(self, key: _Value, /) -> None: ...
    def __contains__(self, key: _Value, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...

@final
class Var:
    """A variable of tracked state, by name; ``default`` is its value until it is set."""

    def __new__(cls, name: str, default: Any = None) -> Var: ...
    @property
    def name(self) -> str:
        """The name."""

    @property
    def value(self) -> Any:
        """The value."""

    @value.setter
    def value(self, value: Any) -> None: ...

def drop() -> Route:
    """Sends the packet nowhere."""

def flood() -> Route:
    """Sends the packet out of every edge port of the network but the one it came in by."""

def to(*ports: int | Field) -> Route:
    """Sends the packet out of these edge ports of the switch where it came in."""

def hops(hops: Iterable[_Place]) -> Route:
    """Sends the packet along these hops, pairs of a switch and the port to leave it by."""

def multicast(routes: Iterable[Route]) -> Route:
    """Sends the packet along all of these routes, over each hop once."""

def weights(name: str, costs: dict[Any, int]) -> None:
    """Says what links cost by ``name``: other links cost 1.

    Keys are pairs of switches (all links between them, both directions unless the other one is given too), or a
    :class:`Location` (the link that leaves by this port, in that direction).
    """

@final
class Bench:
    """A made-up network to try policies on, one packet at a time. A new one empties all tables and variables."""

    def __new__(cls, track_hosts: bool = True) -> Bench: ...
    def switch(self, dpid: int, ports: list[int]) -> None:
        """Adds a switch with these edge ports."""

    def link(self, a: _Place, b: _Place) -> None:
        """Adds a link between two ports."""

    def host(self, mac: Mac | str, switch: int, port: int, ip: Ip | str | None = None) -> None:
        """Adds or moves a host."""

    def decide(self, policy: Any, frame: bytes, switch: int = 1, port: int = 1, time_limit: float = 1.0) -> Decision:
        """Runs ``policy`` on a frame that enters by a port, and commits what it wrote."""

@final
class Decision:
    """What one run did."""

    @property
    def route(self) -> Route | None:
        """The route; ``None`` where the run failed."""

    @property
    def error(self) -> str | None:
        """Why it failed, with traceback."""

    @property
    def trace(self) -> list[str]:
        """What it observed of its packet, in order."""

    @property
    def lines(self) -> list[int | None]:
        """The line of the policy that each item of the trace comes from."""

    @property
    def reads(self) -> list[str]:
        """The cells of state that it read."""

    @property
    def wrote(self) -> bool:
        """Whether it wrote state or invalidated rules."""

    @property
    def read_switch(self) -> bool:
        """Whether it asked for the switch."""

def frame(**fields: int | str | Mac | Ip) -> bytes:
    """The bytes of a packet that has these fields."""

def main(arguments: list[str]) -> int:
    """Runs the ``maple`` command; the exit status."""
