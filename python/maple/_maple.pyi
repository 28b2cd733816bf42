"""Python policies on Maple's engine; use it through the package ``maple``."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from types import GenericAlias, UnionType
from typing import Any, Final, Generic, NoReturn, TypeAlias, TypeVar, final, overload

from typing_extensions import Self, TypeVarTuple, Unpack, disjoint_base

from maple._shapes import Host, Lease, Link

__all__ = [
    "FIELDS",
    "Action",
    "AggregateStats",
    "Band",
    "Barrier",
    "Bench",
    "Bucket",
    "Composition",
    "Constraint",
    "Counter",
    "Decision",
    "Field",
    "FlowMod",
    "FlowRemoved",
    "FlowStats",
    "GroupDesc",
    "GroupMod",
    "GroupStats",
    "Handler",
    "HandlerBench",
    "Ip",
    "Laboratory",
    "Limit",
    "Listener",
    "Load",
    "Location",
    "Mac",
    "Match",
    "MeterConfig",
    "MeterMod",
    "MeterStats",
    "Net",
    "Packet",
    "PacketEvent",
    "PacketIn",
    "PacketOut",
    "ParallelPaths",
    "Place",
    "PolicyTimeout",
    "Port",
    "PortStats",
    "Prefix",
    "Query",
    "QueueStats",
    "Retry",
    "Route",
    "RouteView",
    "Stats",
    "StatsRequest",
    "Switch",
    "SwitchError",
    "Table",
    "TableStats",
    "Var",
    "answer",
    "atomically",
    "costs",
    "decisions",
    "deliver",
    "drop",
    "ecmp",
    "examine",
    "fields_of",
    "flood",
    "frame",
    "hops",
    "introduce_hosts",
    "is_the_controllers",
    "keeps_output_back",
    "known_network",
    "listener_failed",
    "main",
    "multicast",
    "observe",
    "open_flow",
    "or_else",
    "pass_",
    "port_counts",
    "received",
    "retry",
    "send_frame",
    "settled",
    "snoop",
    "summary",
    "switch_power",
    "test_frame",
    "to",
    "traffic_counts",
]

FIELDS: Final[frozenset[str]]
"""The names of all packet fields: their OXM names (OpenFlow 1.3, section 7.2.3.7)."""

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")
_Arguments = TypeVarTuple("_Arguments")
_MacLike: TypeAlias = "Mac | str | int | Field"
_IpLike: TypeAlias = "Ip | str | IPv4Address | IPv6Address | Field"
_Condition: TypeAlias = "int | str | Mac | Ip | Prefix | range | IPv4Address | IPv6Address | IPv4Network | IPv6Network"
_Place: TypeAlias = "Location | tuple[int, int] | str"
# A type that tables and variables are declared with: a class, a tuple of types, or what `tuple[…]` and `|` make.
_Type: TypeAlias = type[Any] | tuple[Any, ...] | GenericAlias | UnionType
# What finds a key besides the key itself: a field of the packet, another spelling of an address, parts that are these.
_Key: TypeAlias = "Field | str | IPv4Address | IPv6Address | tuple[Any, ...] | None"
_Actions: TypeAlias = "int | Action | Iterable[int | Action]"
_Says: TypeAlias = "_Message | Iterable[_Message] | None"
_Message: TypeAlias = "PacketOut | FlowMod | GroupMod | MeterMod | StatsRequest | Barrier"
_FieldValue: TypeAlias = "int | str | Mac | Ip | Prefix | IPv4Address | IPv6Address | tuple[Any, Any] | None"

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

    @property
    def is_reserved(self) -> bool:
        """Whether bridges never forward packets for this address: ``01:80:c2:00:00:00`` to ``0f`` (spanning trees,
        pause, LACP, 802.1X, LLDP), ``01:00:0c:cc:cc:cc`` and ``01:00:0c:cc:cc:cd`` (Cisco's)."""

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
    """The leading bits of IPv4, IPv6 or MAC addresses, such as ``Prefix("10.0.0.0/8")``.

    ``pkt.ipv4_src in Prefix("10.0.0.0/8")`` is one test. Equal to its text; hashed as its canonical text. Raises
    ``ValueError`` if bits after the prefix are set.
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
    ``in Prefix(…)``, ``bool()`` and :attr:`is_present` are *tests*: they learn the answer and nothing else. Hashing
    (sets, keys of dictionaries), ``int()``, ``str()``, formatting, arithmetic and :attr:`value` are *reads*: they learn
    the value. Everything answers as on the plain value (``int``, :class:`Mac`, :class:`Ip`, or ``None`` where the
    packet has no such field), but that ``<`` and its like are false for an absent field.
    """

    @property
    def name(self) -> str:
        """The OXM name. Learns nothing."""

    @property
    def value(self) -> Any:
        """The plain value: ``int``, ``Mac`` or ``Ip``; ``None`` if the packet has no such field. A read."""

    @property
    def is_present(self) -> bool:
        """Whether the packet has the field, as ``!= None`` says. A test."""

    @property
    def is_multicast(self) -> bool:
        """Whether the address is a group address; for MAC addresses, whether the group bit is set. A test."""

    @property
    def is_reserved(self) -> bool:
        """Whether it is a MAC address that bridges never forward (:attr:`Mac.is_reserved`). Two tests."""

    @property
    def version(self) -> int:
        """Raises: networks of :mod:`ipaddress` ask for it, and can't be traced."""

    @property
    def _version(self) -> int: ...
    def prefix(self, length: int) -> Prefix | None:
        """The first ``length`` bits of the address, or ``None`` if the packet has no such field. A read of them."""

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
    """The packet that a policy decides: one :class:`Field` for each OXM name."""

    def __str__(self) -> str:
        """The packet in one line, such as ``vlan 20 tcp 10.0.0.1:1234 > 10.0.0.2:80``, for ``print(pkt)``.

        A read of every field that it shows, as any value that the policy could act upon. So there is one line, and one
        rule, for each such set of values. Delete it when the policy is understood.
        """

    @property
    def switch(self) -> int:
        """Datapath id of the switch where the packet entered the network."""

    @property
    def frame(self) -> bytes:
        """The whole frame, from the Ethernet header on, without its check sequence.

        No rule can match all of it, so each packet of the kind comes to the controller. ``RuntimeError`` if the switch
        sent only the beginning.
        """

    @property
    def payload(self) -> bytes:
        """The part after the innermost header (of ICMP: after its checksum); as with ``frame``."""

    def matches(self, **fields: _Condition) -> bool:
        """Whether the packet has all of these fields, each with such a value: several conditions as *one* test.

        >>> pkt.matches(ipv4_src="10.0.0.0/8", ip_proto=6, tcp_dst=range(1024, 2048))  # doctest: +SKIP

        A condition is a value, a prefix of an address, or a ``range`` of numbers. The trace records only the outcome,
        not which of the conditions failed. If IPv4 and IPv6 packets can both fit, it is a test for each. Raises
        ``TypeError`` or ``ValueError`` for something that can be no value of the field.
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
        """Ethernet type, after VLAN tags."""

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
    """A port of a switch: where a host is, or one end of a link. Unpacks as ``switch, port = location``.

    Text is read as it is printed, with the datapath id in hex: ``Location("1:3")``, ``Location("a1:LOCAL")``. Wherever
    a place is an argument, the text may stand for it.
    """

    @overload
    def __new__(cls, switch: int, port: int) -> Location: ...
    @overload
    def __new__(cls, switch: _Place, port: None = None) -> Location: ...
    @property
    def switch(self) -> int:
        """Datapath id."""

    @property
    def port(self) -> int:
        """Port number."""

    @property
    def is_up(self) -> bool:
        """Whether packets can pass the port now, as :meth:`Net.is_up` says. It is a dependency of the run.

        :raises RuntimeError: outside of runs of the policy.
        """

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
class Composition:
    """A policy made of functions and routes: what ``maple.tiers`` and its like build."""

    @staticmethod
    def function(function: Callable[[Packet, Net], Route]) -> Composition:
        """A function."""

    @staticmethod
    def route(route: Route) -> Composition:
        """A route for all packets."""

    @staticmethod
    def tiers(tiers: Sequence[Composition]) -> Composition:
        """The first that does not pass."""

    @staticmethod
    def choose(
        by: Var[Any] | tuple[Table[Any, Any], Any], cases: Sequence[tuple[Any, Composition]], otherwise: Composition
    ) -> Composition:
        """Chooses by the value of a variable, or of a table's key."""

    @staticmethod
    def lists(lists: Sequence[tuple[str, str]], allowed: Composition) -> Composition:
        """Access lists, each as its text and its file's name, over what decides about allowed packets."""

    @staticmethod
    def slices(
        slices: Sequence[
            tuple[
                tuple[str, Sequence[dict[str, Any]], Iterable[Any] | None, Iterable[Any] | None, Iterable[Any] | None],
                Composition,
            ]
        ],
        otherwise: Composition,
        file: str,
        line: int,
    ) -> Composition:
        """Decides a packet by the composition of the slice that it belongs to, or by ``otherwise``, as a line says.

        A slice has a name, conditions, ports, hosts and links.
        """

    def named(self, name: str) -> Composition:
        """The composition under a name, which errors and the comments of rules carry."""

    def observed_by(self, beside: Composition) -> Composition:
        """Adds copies to where another composition sends."""

    def only(self, conditions: Sequence[dict[str, Any]], file: str, line: int) -> Composition:
        """Restricts the composition to packets that fit one of the conditions, as a line says."""

    def or_on_error(self, on_error: Composition) -> Composition:
        """Adds the composition that decides where this one fails."""

    def guarded(self, constraints: Sequence[Constraint]) -> Composition:
        """The composition under constraints."""

    def functions(self) -> list[Callable[[Packet, Net], Route]]:
        """The functions of the composition, in order."""

@final
class Constraint:
    """A condition on every route of a policy, for :func:`maple.guard`: :func:`maple.waypoint` and its like make it."""

    @staticmethod
    def _waypoint(place: tuple[str, str, int], src: Any, dst: Any, via: Any) -> Constraint:
        """Demands that what ``src`` sends to ``dst`` passes a switch."""

    @staticmethod
    def _isolate(place: tuple[str, str, int], a: Any, b: Any) -> Constraint:
        """Forbids packets between two groups."""

    @staticmethod
    def _never(place: tuple[str, str, int], port: _Place, src: Any) -> Constraint:
        """Forbids packets of ``src`` out of a port."""

    @staticmethod
    def _max_hops(place: tuple[str, str, int], most: int, of: Any) -> Constraint:
        """Forbids routes of more than ``most`` switches."""

    @staticmethod
    def _avoid(place: tuple[str, str, int], taken: _Place, of: Any) -> Constraint:
        """Forbids packets over a link."""

    @staticmethod
    def _only_within(place: tuple[str, str, int], within: Any, of: Any) -> Constraint:
        """Forbids other switches."""

    @staticmethod
    def _only_within_slice(
        place: tuple[str, str, int],
        slice: tuple[str, list[dict[str, Any]], Any, Any, Any],
        of: Any,
    ) -> Constraint:
        """Forbids ports and links outside a slice."""

    @staticmethod
    def _no_overload(
        place: tuple[str, str, int], reserved: Table[Any, Any], taken: Any, capacity: int | None, of: Any
    ) -> Constraint:
        """Forbids links of which too much is reserved."""

    @staticmethod
    def _own(place: tuple[str, str, int], function: Callable[[Packet, RouteView, Net], bool | str]) -> Constraint:
        """Judges routes by a function of packet, route and network."""

@final
class RouteView:
    """Where a route leads now, for a :func:`maple.constraint`. The decision is made again when that changes."""

    @property
    def switches(self) -> list[int]:
        """The switches that the packet passes, in order of their ids."""

    @property
    def hops(self) -> list[tuple[int, int]]:
        """Every hop: switch and port, in order."""

    @property
    def links(self) -> list[tuple[Location, Location]]:
        """The links that the packet takes: where it leaves, and where it arrives."""

    @property
    def exits(self) -> list[Location]:
        """The edge ports that the packet leaves by, in order."""

    def path_to(self, exit: _Place) -> list[tuple[int, int]]:
        """The hops to one of these ports, from where the packet entered. ``ValueError`` if it is not an exit."""

@final
class Route:
    """The answer of a policy. False only if a path query found no path, or its end is absent."""

    def set(self, **fields: int | _MacLike | _IpLike) -> Route:
        """This route, with header fields rewritten where the packet leaves the network."""

    def queue(self, queue: int | Field) -> Route:
        """This route, through this queue of the egress ports.

        :param queue: 0 to 4294967294.
        :raises ValueError: for another number.
        """

    def copy_to(self, place: _Place | None) -> Route:
        """This route, and a copy of the packet, with the route's rewrites, out of another edge port: a mirror.

        The copy leaves the route at the switch nearest to the place. There is none if the place is ``None`` or absent,
        if no path leads there, or if the packet came in there.
        """

    def limit(self, limit: Limit) -> Route:
        """This route, under a limit at the switch where packets enter (OpenFlow 1.3)."""

    def meter(self, meter: int | Field) -> Route:
        """This route, through a meter that is at the ingress switch already (OpenFlow 1.3). :meth:`limit` has Maple
        make one.

        :param meter: its number, 1 to 4294901760.
        :raises ValueError: for another number.
        """

    @property
    def hops(self) -> list[tuple[int, int]]:
        """The hops given one by one, or found by a path query, as pairs of switch and port."""

    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: Any

@final
class Limit:
    """A limit for all packets of the routes under it together, at each switch where they enter.

    ``kbps`` (1,000 bits a second) or ``pps`` (packets a second), 1 to 4,294,967,295; packets above the limit are
    dropped. ``burst`` is how many kilobits or packets may come together (0: the switch's own default). Limits of one
    name and rate are one; a name with an address in it gives each host its own. Maple makes a meter with its first rule
    and removes it when no rule needs it, at most 4,096 at a switch; their numbers are 32,768 to 65,535. OpenFlow 1.0
    has no meters: nothing is limited there, and Maple reports it.

    >>> from maple import Limit, flood, policy
    >>> guests = Limit("guests", kbps=10_000)
    >>> @policy
    ... def f(pkt, net):
    ...     return flood().limit(guests)
    """

    def __new__(cls, name: str, *, kbps: int | None = None, pps: int | None = None, burst: int = 0) -> Limit: ...
    @property
    def name(self) -> str:
        """The name of the limit."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Net:
    """The network, as one run of the policy sees it. Each answer is a dependency: when it changes, the policy decides
    again for the packets that it concerns."""

    def send(self, frame: bytes, at: _Place) -> None:
        """Sends a frame of the policy's own out of an edge port, in addition to the packet's route.

        The frame is sent when the run commits. Each packet of this kind then comes to the controller. The policy fails
        if the port is absent.
        """

    def reply(self, frame: bytes) -> None:
        """Sends a frame to where the packet came from. :func:`answer` is the route that does nothing else."""

    def locate(self, mac: _MacLike) -> Location | None:
        """Where the host with this hardware address is; ``None`` if it was not seen yet."""

    def locate_ip(self, ip: _IpLike) -> Host | None:
        """The host that uses this IP address, and where it is; ``None`` if it was not seen yet.

        A pair with names: ``mac, at = net.locate_ip(ip)``, or ``.mac`` and ``.location``.
        """

    def is_bound(self, host: _MacLike, ip: _IpLike) -> bool:
        """Whether an IP address is that of the host with this hardware address, which announced it last.

        Who announces an address last has it, so this keeps forgers out only where announcements are trusted. Of two
        fields of the packet the policy learns no more than that: a look-up, with one rule for each address.

        >>> from maple import drop, flood, policy
        >>> @policy
        ... def f(pkt, net):
        ...     return flood() if net.is_bound(pkt.eth_src, pkt.ipv4_src) else drop()
        """

    def hosts(self) -> list[Host]:
        """All hosts and where they are, by address."""

    def members(self, group: _IpLike | _MacLike) -> list[Location]:
        """The edge ports with members of a multicast group, in order; empty if there are none.

        Of a group that a field names and that has no members, the policy learns that alone: a look-up.

        :param group: its IP address, or the MAC address that its frames go to, for all groups of that address.
        :raises TypeError: if neither IGMP nor MLD is snooped on, ``@policy(snoop=("igmp", "mld"))``.

        >>> from maple import multicast, policy
        >>> @policy(snoop="igmp")
        ... def f(pkt, net):
        ...     src = net.locate(pkt.eth_src)
        ...     return multicast(net.shortest_path(src, at) for at in net.members(pkt.ipv4_dst) if at != src)
        """

    def lease(self, host: _IpLike | _MacLike) -> Lease | None:
        """The DHCP lease of an IPv4 address, or the newest of a host by its MAC address; ``None`` if there is none.

        ``.mac``, ``.ip``, ``.location`` (where the host asked for it) and ``.ends`` (seconds since 1970, ``None`` if
        never).

        :raises TypeError: if DHCP is not snooped on, ``@policy(snoop="dhcp", dhcp_servers=[(switch, port)])``.
        """

    def is_leased(self, host: _MacLike, ip: _IpLike) -> bool:
        """Whether DHCP gave this IPv4 address to the host with this hardware address last, at the port where it is.

        Of two fields of the packet the policy learns no more than that: a look-up, with one rule for each lease.

        :raises TypeError: if DHCP is not snooped on, as :meth:`lease`.

        >>> from maple import drop, flood, policy
        >>> @policy(snoop="dhcp", dhcp_servers=[(1, 1)])
        ... def f(pkt, net):
        ...     return flood() if net.is_leased(pkt.eth_src, pkt.ipv4_src) else drop()
        """

    def leases(self) -> list[Lease]:
        """All DHCP leases, by IP address; as :meth:`lease`. A dependency on each of them."""

    def addresses(self, mac: _MacLike) -> list[Ip] | None:
        """The IP addresses of a host: those of which it made the last announcement; ``None`` for an unknown host."""

    def switches(self) -> list[int]:
        """The datapath ids of all switches."""

    def links(self) -> list[Link]:
        """All links, each once, with their ends ``.a`` and ``.b``, the lower one first."""

    def edge_ports(self, switch: int) -> list[int]:
        """The edge ports of a switch that are up."""

    def is_up(self, place: _Place | None) -> bool:
        """Whether packets can pass a port: its switch says that link and port are up, and Maple knows what is behind
        it, as it does 0.3 s after the port came up. ``net.locate(mac).is_up`` is the same.

        A host stays located at a port that goes down, and paths still lead there. A place that is ``None`` or does not
        exist is not up, and neither is a port of a segment that Maple has shut. Ports of an unreachable switch are as
        they were.

        >>> from maple import policy, to
        >>> @policy
        ... def f(pkt, net):
        ...     return to(2) if net.is_up((1, 2)) else to(3)
        """

    def shortest_path(self, src: _Place | None, dst: _Place | None) -> Route:
        """The path with the fewest hops. False if there is none, if a place is ``None``, or if ``dst`` is absent: its
        switch is not there or has no such port, or the port leads to another switch.

        A route to an absent place makes the policy fail, unless it is part of a :func:`multicast`.
        """

    def path(self, src: _Place | None, dst: _Place | None, cost: str) -> Route:
        """The path of least cost by the costs of this name (see :func:`costs`). False if there is none. By
        ``"utilisation"`` a link costs 1, and 1 more for each tenth of it that is used.

        :raises LookupError: if links have no costs by that name.
        """

    @overload
    def port_load(self, switch: int, port: int, *, capacity: float | None = None) -> Load:
        """The load that a port sends; ``.received`` is what it receives.

        The port can be given as a place: ``net.port_load(net.locate(src))``.

        :param capacity: what the port can send, in Mbit/s, where the switch does not say so or is wrong.
        """

    @overload
    def port_load(self, switch: _Place, port: None = None, *, capacity: float | None = None) -> Load: ...
    @overload
    def link_load(self, a: int, b: int, *, capacity: float | None = None) -> Load:
        """The load from the switch ``a`` to the next switch ``b``, over the busiest link between them; 0 without a
        link. With two places, as in ``net.link_load(*link)`` for one of :meth:`links`: over this link, from ``a`` to
        ``b``.

        :param capacity: what a link can carry, in Mbit/s, where the switch does not say so or is wrong.
        """

    @overload
    def link_load(self, a: _Place, b: _Place, *, capacity: float | None = None) -> Load: ...
    def traffic(self, src: _MacLike | _IpLike, dst: _MacLike | _IpLike, *, capacity: float | None = None) -> Load:
        """The load from one host to another, as counted by rules that match both, by MAC or IP addresses, at the switch
        of ``src``; 0 for a host that was not seen.

        A policy that reads both addresses of its packets has such rules. Packets that go through the controller are not
        counted.

        :param capacity: the whole, in Mbit/s, for ``utilisation`` and shares.
        """

    def atomically(self, function: Callable[[], _T]) -> _T:
        """Calls ``function`` as a part of the run that takes effect whole, or not at all if it raises."""

    def or_else(self, first: Callable[[], _T], second: Callable[[], _T]) -> _T:
        """Calls ``first``. If that calls ``retry()``, takes back its writes and calls ``second``."""

    def retry(self) -> NoReturn:
        """Makes the packet wait until something that the run has read changes. The run has no effect."""

    def invalidate(
        self,
        *,
        host: _MacLike | None = None,
        switch: int | None = None,
        port: int | None = None,
        fields: dict[str, int | str | Mac | Ip] | None = None,
    ) -> None:
        """Decides again for packets from or to a host, through a port, or with these field values.

        Tracked state does not need this, because Maple watches what the policy read. It is for policies that read
        something else. It takes effect when the run commits.
        """

@final
class Load:
    """The measured load of a port, of a link, or from one host to another: :meth:`Net.port_load`,
    :meth:`Net.link_load`, :meth:`Net.traffic`. For one run of the policy, like :class:`Net`.

    Each answer is a dependency with hysteresis: the policy decides again when the *answer* changes, not after each
    measurement. A load is measured each ``--poll``, from the first question of a policy on. Until there are two
    measurements it is 0.

    >>> @policy
    ... def off_the_busy_link(pkt, net):
    ...     src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    ...     if net.traffic(pkt.eth_src, pkt.eth_dst).is_above(mbps=50, until=20):
    ...         return net.path(src, dst, cost="long_way")
    ...     return net.shortest_path(src, dst)
    """

    def is_above(self, share: float | None = None, *, mbps: float | None = None, until: float | None = None) -> bool:
        """Whether the load became more than this, and was not at most ``until`` since.

        :param share: a share of the capacity, 0 to 1. False if the capacity is unknown.
        :param mbps: instead, a number of Mbit/s.
        :param until: the load, in the same unit, at which busy ends; by default four fifths of where it begins.
        :raises ValueError: if ``until`` is not between 0 and where busy begins, or for a share of traffic without
            ``capacity``.
        """

    @property
    def utilisation(self) -> float:
        """The used share of the capacity: 0.0, 0.1 … 1.0. It rises when the next tenth is reached, and falls when the
        load is half a tenth below the last one (0.3 from 30 % on, until 25 %). 0.0 if the capacity is unknown.

        :raises ValueError: for traffic without ``capacity``.
        """

    @property
    def received(self) -> Load:
        """The other direction: what a port receives, or what is sent over a link in the other direction."""

    @property
    def capacity(self) -> float | None:
        """The capacity in Mbit/s: as the policy gives it, else as the switch reports it; ``None`` if
        neither does."""

@final
class Table(Generic[_K, _V]):
    """A table of tracked state, by name: all tables of one name are one.

    In a policy each read is a dependency of the run, and writes belong to the run. Elsewhere (in a background thread,
    or while the file is imported) each use is a transaction of its own. Keys and values are ``None``, numbers, text,
    bytes, addresses, locations, tuples (lists become tuples) and dictionaries of these. Addresses that are keys come
    back as text.

    With ``key`` or ``value`` the table is declared to have keys and values of these types: ``Mac``, ``Ip``,
    ``Location``, ``int``, ``str``, ``bool``, ``float``, ``bytes``, ``dict``, a tuple of types such as
    ``(Mac, int)``, ``tuple[int, ...]``, or one of these ``| None``. An address may be given in any spelling and comes
    back as ``Mac`` or ``Ip``; anything else raises ``TypeError``, here, in other tables of this name and in
    ``maple state``. A look-up of ``None`` (a field that the packet does not have) finds nothing. The declaration is
    refused if the table already holds something else, or was declared otherwise.

    To type checkers it is a ``Table[Mac, bool]``, by ``key`` and ``value`` or by an annotation.

    >>> blocked = Table("blocked", key=Mac, value=bool)
    >>> blocked["00-00-0A-00-00-01"] = True
    >>> blocked.keys()
    [Mac('00:00:0a:00:00:01')]

    With ``persist`` it is kept over a restart, in the file of ``maple run --state FILE``: a write outside of a policy
    returns when it is on the disk. After a restart the contents of the file count, not what the policy writes while it
    is loaded.

    When its rows get another shape, give it the next ``version``, from 1, and a function that makes them: ``migrate``
    gets the version of the rows that there are, and a dict of these, and returns a dict of all new rows. It is called
    when the policy takes the place of one with an earlier version, by a reload or after a restart. It must depend on
    nothing else; if it fails, the policy that runs stays as it is. Version 2 of ``blocked`` is called ``blocked#2``.

    >>> def with_reason(version, rows):
    ...     return {host: "unknown" for host in rows}
    >>> Table("reasons", key=Mac, value=str, version=2, migrate=with_reason).name
    'reasons#2'

    Raises ``ValueError`` if another version of the table is declared in the same policy.
    """

    @overload
    def __new__(
        cls,
        name: str,
        *,
        key: type[_K],
        value: type[_V],
        persist: bool = False,
        version: int = 1,
        migrate: Callable[[int, dict[Any, Any]], dict[Any, Any]] | None = None,
    ) -> Table[_K, _V]: ...
    @overload
    def __new__(
        cls,
        name: str,
        *,
        key: _Type | None = None,
        value: _Type | None = None,
        persist: bool = False,
        version: int = 1,
        migrate: Callable[[int, dict[Any, Any]], dict[Any, Any]] | None = None,
    ) -> Table[Any, Any]: ...
    @property
    def name(self) -> str:
        """The name."""

    @overload
    def get(self, key: _K | _Key, default: None = None) -> _V | None:
        """The value at ``key``, or ``default``."""

    @overload
    def get(self, key: _K | _Key, default: _T) -> _V | _T: ...
    @overload
    def pop(self, key: _K | _Key, default: None = None) -> _V | None:
        """Removes ``key`` and returns its value, or ``default``."""

    @overload
    def pop(self, key: _K | _Key, default: _T) -> _V | _T: ...
    def update(self, other: dict[Any, Any]) -> None:
        """Sets the keys and values of ``other``, in one transaction."""

    def replace(self, other: dict[Any, Any]) -> None:
        """Makes the contents those of ``other``, in one transaction. Equal values are not written."""

    def clear(self) -> None:
        """Removes all keys, in one transaction."""

    def keys(self) -> list[_K]:
        """All keys. In a policy: a dependency on the whole table."""

    def values(self) -> list[_V]:
        """All values, in the order of their keys."""

    def items(self) -> list[tuple[_K, _V]]:
        """All pairs of key and value."""

    def __getitem__(self, key: _K | _Key, /) -> _V: ...
    def __setitem__(self, key: _K | _Key, value: _V | Field | tuple[Any, ...], /) -> None: ...
    def __delitem__(self, key: _K | _Key, /) -> None: ...
    def __contains__(self, key: _K | _Key, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_K]: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class Var(Generic[_V]):
    """A variable of tracked state, by name; ``default`` is its value until it is set.

    ``value`` is its type, which the default must have, and ``persist`` whether it is kept over a restart, as in tables.
    """

    @overload
    def __new__(cls, name: str, default: _V, *, value: type[_V] | None = None, persist: bool = False) -> Var[_V]: ...
    @overload
    def __new__(
        cls, name: str, default: Any = None, *, value: _Type | None = None, persist: bool = False
    ) -> Var[Any]: ...
    @property
    def name(self) -> str:
        """The name."""

    @property
    def value(self) -> _V:
        """The value."""

    @value.setter
    def value(self, value: _V) -> None: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class Counter:
    """A variable for sums. An addition does not read the sum, so additions never conflict.

    ``persist`` is as in tables.
    """

    def __new__(cls, name: str, *, persist: bool = False) -> Counter: ...
    @property
    def name(self) -> str:
        """The name."""

    def add(self, amount: int = 1) -> None:
        """Adds to it, without reading it."""

    @property
    def value(self) -> int:
        """The sum. In a policy: a dependency, which each addition changes."""

@final
class Query(Generic[_T, Unpack[_Arguments]]):
    """A function of the state whose answers are remembered until something that it read changes.

    The function takes a ``Net`` and values as tables hold them, and returns such a value. It may read tables,
    variables, the network and other queries. It must write nothing, and depend on nothing else. A caller of the query
    depends on its *answer*: if that stays equal, no rule is withdrawn and no policy runs again. When something that it
    read changes, it is called while other writes wait, so it should be quick.
    """

    def __new__(cls, function: Callable[[Net, Unpack[_Arguments]], _T]) -> Query[_T, Unpack[_Arguments]]: ...
    def __call__(self, *arguments: Unpack[_Arguments]) -> _T:
        """The answer: in a policy, a function that ``atomically`` calls, another query, or a thread."""

    @classmethod
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

class Retry(BaseException):
    """Raised by ``retry()``. Not to be caught."""

def atomically(function: Callable[[], _T], *, timeout: float | None = None) -> _T:
    """Calls ``function`` as one transaction and returns what it returns.

    The function reads one consistent state. Its writes take effect together, or not at all if it raises. It may be
    called several times, so it should do nothing else. If it calls ``retry()``, the thread sleeps until something that
    it read has changed, at most ``timeout`` seconds (then a ``TimeoutError``). Returns when no packet is answered from
    the old state any more.
    """

def retry() -> NoReturn:
    """Ends this run of a transaction: it is run again when something that it read has changed.

    In the policy itself the packet waits.
    """

def or_else(first: Callable[[], _T], second: Callable[[], _T]) -> _T:
    """Calls ``first``. If that calls ``retry()``, takes back its writes and calls ``second``.

    For policies, and for functions that ``atomically`` calls.
    """

def settled(timeout: float = 20.0) -> None:
    """Waits until no switch has a rule that an earlier change has made wrong, at most ``timeout`` seconds.

    :raises TimeoutError: if not all switches have confirmed that in time; it says which has not, and what.
    """

def drop() -> Route:
    """Sends the packet nowhere."""

def flood(*, reserved: bool = False) -> Route:
    """Sends the packet out of every edge port of the network but the one it came in by.

    A packet for an address that bridges never forward (:attr:`Mac.is_reserved`) goes nowhere: it is for the device at
    the other end of the cable. If the policy has not asked for ``eth_dst`` so far, two tests of it are recorded.

    :param reserved: floods these too, so that the network is a cable for LACP, 802.1X or spanning trees.
    """

def pass_() -> Route:
    """Leaves the decision to the next policy of a composition (``tiers``, ``then``).

    What is set on it, ``pass_().set(ipv4_dst="10.0.0.5")``, holds for the packet that the next policy sees.
    ``copy_to``, ``queue``, ``limit`` and ``meter`` hold for whatever route the packet is given. Without a next policy
    it goes nowhere.
    """

def to(*ports: int | Field) -> Route:
    """Sends the packet out of these edge ports of the switch where it came in. Absent ones are left out; if all are
    absent, the policy fails.

    A packet does not go back out of the port that it came in by, unless the route says so by name: ``to(IN_PORT)``, or
    ``to(pkt.in_port)`` (OpenFlow 1.3 §7.2.5).
    """

def answer(*frames: bytes) -> Route:
    """Sends the packet nowhere, and these frames of the policy's own out of the port that it came in by.

    :func:`frame` makes frames. Each packet of the kind comes to the controller: only the policy knows the answer. At
    most 64 frames of 14 to 9,216 bytes for one packet. ``net.send`` and ``net.reply`` send in addition to any route.

    >>> from maple import answer, drop, frame, policy
    >>> @policy
    ... def f(pkt, net):
    ...     if pkt.arp_op == 1 and pkt.arp_tpa == "10.0.0.254":
    ...         me = "02:00:00:00:00:fe"
    ...         mac, ip = pkt.eth_src, pkt.arp_spa
    ...         return answer(frame(eth_dst=mac, eth_src=me, arp_op=2, arp_spa=pkt.arp_tpa, arp_tpa=ip))
    ...     return drop()
    """

def frame(*, payload: bytes | None = None, **fields: int | str | Mac | Ip | Field) -> bytes:
    """The bytes of a frame that has these fields, by their names in :class:`Packet`: lengths and checksums are
    filled in.

    ``eth_src`` and ``eth_dst`` have to be there, both addresses of IP, both ports of TCP, UDP and SCTP, and of ARP
    ``arp_op``, ``arp_spa`` and ``arp_tpa`` (its hardware addresses are by default the frame's). The
    payload follows the innermost header; of ICMP it follows type, code and checksum. ``TypeError`` names what is
    missing, ``ValueError`` what is contradictory.

    >>> from maple import frame
    >>> broadcast, me = "ff:ff:ff:ff:ff:ff", "02:00:00:00:00:01"
    >>> len(frame(eth_dst=broadcast, eth_src=me, arp_op=1, arp_spa="10.0.0.1", arp_tpa="10.0.0.2"))
    42
    """

def hops(hops: Iterable[_Place]) -> Route:
    """Sends the packet along these hops, pairs of a switch and the port to leave it by.

    A hop whose port is not there is left out, with those that only lead to it or come after it; if none is left, the
    policy fails.
    """

def multicast(routes: Iterable[Route]) -> Route:
    """Sends the packet along all of these routes, over each hop once.

    Absent places are left out. If all are absent, the packet goes nowhere.
    """

def ecmp(routes: Iterable[Route], *, by: Iterable[str]) -> Route:
    """One of several routes, the same for packets that agree in these fields: spreads flows over several paths.

    Unreachable routes do not count. Give a route twice for twice its share. At most eight of the fields' low bits
    choose, so a few rules serve all flows. The choice is the same in every process, and when a path fails only its
    packets change. If all routes are unreachable, the answer is false. ``TypeError`` for anything that is not a route,
    or a field that does not exist.

    >>> from maple import ecmp, flood, policy
    >>> @policy
    ... def f(pkt, net):
    ...     src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    ...     ways = [net.path(src, dst, cost=cost) for cost in ("upper", "lower")]
    ...     return ecmp(ways, by=("ipv4_src", "tcp_src")) or flood()
    """

def snoop(protocols: list[str], dhcp_servers: list[_Place], querier: bool) -> None:
    """Checks the arguments of ``@policy(snoop=…)``, and lets policies ask for what they name from now on.

    :raises ValueError: if the parts don't fit together, or a table of the policy's has a name of snooping's.
    """

def costs(name: str, costs: dict[Any, int]) -> None:
    """Gives links costs by ``name``; other links cost 1.

    Keys are pairs of switches (all links between them, both directions unless the other one is given too), or a
    :class:`Location` (the link that leaves by this port, in that direction).
    """

@final
class Switch:
    """A switch."""

    @property
    def dpid(self) -> int:
        """The datapath id of the switch."""

    @property
    def version(self) -> str:
        """The OpenFlow version spoken: ``"1.0"`` or ``"1.3"``."""

    @property
    def description(self) -> str:
        """The switch's description of itself."""

    @property
    def ports(self) -> list[Port]:
        """The ports of the switch now, by number."""

@final
class Port:
    """A port of a switch, as it was when the object was made."""

    @property
    def number(self) -> int:
        """The number of the port."""

    @property
    def name(self) -> str:
        """The name of the port."""

    @property
    def mac(self) -> Mac:
        """The hardware address of the port."""

    @property
    def is_up(self) -> bool:
        """Whether packets can pass."""

@disjoint_base
class Handler:
    """A program for each switch: derive a class from it, and ``maple run FILE.py`` makes one object of it a switch.

    Methods return nothing, a message, or several (a list, or whatever a generator yields): what
    :meth:`PacketIn.out` and :meth:`PacketIn.flood` make, :class:`PacketOut`, :class:`FlowMod`, :class:`Barrier`.
    Only one method of an object runs at a time, so its attributes need no lock.
    """

    table_miss: bool
    """Whether switches are asked, before ``switch_up``, to send packets that no rule matches, which those of OpenFlow
    1.3 do not by themselves. True unless a class says otherwise."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    @property
    def switch(self) -> Switch:
        """The switch; known in ``__init__`` already."""

    def wake_after(self, seconds: float) -> None:
        """Asks for one call of :meth:`timer` after this time in seconds. A later request replaces an earlier one."""

    def switch_up(self) -> _Says:
        """The switch finished its handshake. The first call."""

    def packet_in(self, pkt: PacketIn, /) -> _Says:
        """The switch sent a packet."""

    def port_status(self, port: Port, reason: str, /) -> _Says:
        """A port came (``"add"``), went (``"delete"``) or changed (``"modify"``)."""

    def flow_removed(self, removed: FlowRemoved, /) -> _Says:
        """A rule is gone that was added with ``flow_removed=True``."""

    def error(self, error: SwitchError, /) -> _Says:
        """The switch refused a message. If a class has no such method, Maple reports it."""

    def barrier(self) -> _Says:
        """The switch has done everything before a :class:`Barrier`, the oldest that it had not answered yet."""

    def stats(self, stats: Stats, /) -> _Says:
        """The switch answered a :class:`StatsRequest`, or said a part of the answer."""

    def timer(self) -> _Says:
        """The time that :meth:`wake_after` asked for has come."""

    def switch_down(self) -> None:
        """The connection is gone. This is the last call, and its messages go nowhere."""

@final
class PacketIn:
    """A packet that a switch sent. A field that it does not have is ``None``."""

    @property
    def in_port(self) -> int:
        """Port by which the packet came in."""

    @property
    def in_phy_port(self) -> int | None:
        """Physical port under a logical one."""

    @property
    def metadata(self) -> int | None:
        """Passed between tables; 0 for packets that enter."""

    @property
    def eth_dst(self) -> Mac:
        """Ethernet destination."""

    @property
    def eth_src(self) -> Mac:
        """Ethernet source."""

    @property
    def eth_type(self) -> int | None:
        """Ethernet type, after VLAN tags."""

    @property
    def vlan_vid(self) -> int | None:
        """VLAN id, 12 bits; absent without a tag."""

    @property
    def vlan_pcp(self) -> int | None:
        """VLAN priority."""

    @property
    def ip_dscp(self) -> int | None:
        """Differentiated services code point."""

    @property
    def ip_ecn(self) -> int | None:
        """Congestion notification."""

    @property
    def ip_proto(self) -> int | None:
        """IP protocol."""

    @property
    def ipv4_src(self) -> Ip | None:
        """IPv4 source."""

    @property
    def ipv4_dst(self) -> Ip | None:
        """IPv4 destination."""

    @property
    def tcp_src(self) -> int | None:
        """TCP source port."""

    @property
    def tcp_dst(self) -> int | None:
        """TCP destination port."""

    @property
    def udp_src(self) -> int | None:
        """UDP source port."""

    @property
    def udp_dst(self) -> int | None:
        """UDP destination port."""

    @property
    def sctp_src(self) -> int | None:
        """SCTP source port."""

    @property
    def sctp_dst(self) -> int | None:
        """SCTP destination port."""

    @property
    def icmpv4_type(self) -> int | None:
        """ICMP type."""

    @property
    def icmpv4_code(self) -> int | None:
        """ICMP code."""

    @property
    def arp_op(self) -> int | None:
        """ARP operation: 1 request, 2 reply."""

    @property
    def arp_spa(self) -> Ip | None:
        """ARP sender IPv4 address."""

    @property
    def arp_tpa(self) -> Ip | None:
        """ARP target IPv4 address."""

    @property
    def arp_sha(self) -> Mac | None:
        """ARP sender hardware address."""

    @property
    def arp_tha(self) -> Mac | None:
        """ARP target hardware address."""

    @property
    def ipv6_src(self) -> Ip | None:
        """IPv6 source."""

    @property
    def ipv6_dst(self) -> Ip | None:
        """IPv6 destination."""

    @property
    def ipv6_flabel(self) -> int | None:
        """IPv6 flow label."""

    @property
    def icmpv6_type(self) -> int | None:
        """ICMPv6 type."""

    @property
    def icmpv6_code(self) -> int | None:
        """ICMPv6 code."""

    @property
    def ipv6_nd_target(self) -> Ip | None:
        """Neighbour discovery target."""

    @property
    def ipv6_nd_sll(self) -> Mac | None:
        """Neighbour discovery source link-layer address."""

    @property
    def ipv6_nd_tll(self) -> Mac | None:
        """Neighbour discovery target link-layer address."""

    @property
    def mpls_label(self) -> int | None:
        """Label of the outermost MPLS entry."""

    @property
    def mpls_tc(self) -> int | None:
        """Traffic class of the outermost MPLS entry."""

    @property
    def mpls_bos(self) -> int | None:
        """Bottom-of-stack bit of the outermost MPLS entry."""

    @property
    def pbb_isid(self) -> int | None:
        """Provider backbone service id."""

    @property
    def tunnel_id(self) -> int | None:
        """Metadata of a logical port."""

    @property
    def ipv6_exthdr(self) -> int | None:
        """Bits for the IPv6 extension headers that are there."""

    @property
    def data(self) -> bytes:
        """The frame, or its first bytes."""

    @property
    def total_len(self) -> int:
        """Length of the whole frame in bytes."""

    @property
    def buffer_id(self) -> int | None:
        """The switch's buffer that has it; ``None`` if there is none."""

    @property
    def reason(self) -> str:
        """Why the switch sent it: ``"no match"``, ``"action"``, ``"invalid ttl"``, ``"other"``."""

    @property
    def table(self) -> int:
        """The table whose rule sent it; 0 in OpenFlow 1.0."""

    @property
    def cookie(self) -> int:
        """The cookie of the rule that sent it; all ones in OpenFlow 1.0."""

    def out(self, actions: _Actions) -> PacketOut:
        """Lets the switch do this with it: from its buffer if it has it, else with the received bytes."""

    def flood(self) -> PacketOut:
        """Has the switch send it out of all ports but the one it came in by."""

    def match(self, *fields: str) -> Match:
        """The match of all packets with these fields as it has them, and of what must hold so that packets have them.

        Without names: with everything that a switch of its OpenFlow version sees.
        """

@final
class Match:
    """Which packets a rule takes: all whose fields have these values.

    Fields have their OXM names. A value is what it is elsewhere (``Match(eth_dst="00:00:00:00:00:01")``), an address
    may be a prefix (``ipv4_src="10.0.0.0/8"``), a pair is value and mask (``metadata=(1, 0xff)``), and
    ``vlan_vid=None`` is for packets without a tag. What a field needs beside it is added where there is only one way:
    ``ipv4_src`` adds ``eth_type=0x800``, and ``tcp_dst=80`` beside it ``ip_proto=6``.
    """

    def __new__(cls, **fields: _FieldValue) -> Match: ...
    def get(self, name: str, default: Any = None) -> Any:
        """The value of a field, or a pair of value and mask; ``default`` if it is not named."""

    @property
    def fields(self) -> dict[str, Any]:
        """All fields that it names."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Action:
    """An action of a switch on a packet. In lists of actions a plain number is a port to send it out of."""

    @staticmethod
    def output(port: int, max_len: int = 0xFFFF) -> Action:
        """Sends it out of a port; to the controller ``max_len`` bytes of it, all with 0xffff."""

    @staticmethod
    def set_field(**field: int | str | Mac | Ip) -> Action:
        """Sets one field."""

    @staticmethod
    def push_vlan(eth_type: int = 0x8100) -> Action:
        """Pushes a VLAN tag (1.3)."""

    @staticmethod
    def pop_vlan() -> Action:
        """Takes the outermost VLAN tag away."""

    @staticmethod
    def push_mpls(eth_type: int = 0x8847) -> Action:
        """Pushes an MPLS entry (1.3)."""

    @staticmethod
    def pop_mpls(eth_type: int) -> Action:
        """Removes the outermost MPLS entry; the rest has this Ethernet type (1.3)."""

    @staticmethod
    def group(group: int) -> Action:
        """Lets a group process it (1.3)."""

    @staticmethod
    def set_queue(queue: int) -> Action:
        """Chooses the queue for later outputs (1.3)."""

    @staticmethod
    def enqueue(port: int, queue: int) -> Action:
        """Sends it out of a port through a queue (1.0)."""

    @staticmethod
    def dec_ttl() -> Action:
        """Decrements the IP time to live (1.3)."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class PacketOut:
    """Has the switch send a packet: ``data``, or the one in its buffer. See also :meth:`PacketIn.out`."""

    def __new__(
        cls, actions: _Actions, data: bytes = ..., *, in_port: int = 0xFFFFFFFD, buffer_id: int | None = None
    ) -> PacketOut: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class FlowMod:
    """Adds, changes or deletes rules."""

    @staticmethod
    def add(
        match: Match,
        actions: _Actions,
        *,
        priority: int = 0x8000,
        idle_timeout: int = 0,
        hard_timeout: int = 0,
        cookie: int = 0,
        table: int = 0,
        goto: int | None = None,
        meter: int | None = None,
        flow_removed: bool = False,
        check_overlap: bool = False,
        packet: PacketIn | None = None,
    ) -> FlowMod:
        """Adds a rule; one with the same match and priority is replaced. No actions drop.

        Timeouts are in seconds, 0 is never. ``packet`` takes the new rule's actions: from the switch's buffer, or by a
        packet-out after the rule if the switch does not keep it.
        """

    @staticmethod
    def modify(
        match: Match,
        actions: _Actions,
        *,
        strict: bool = False,
        priority: int = 0x8000,
        cookie: int = 0,
        cookie_mask: int = 0,
        table: int = 0,
        goto: int | None = None,
        meter: int | None = None,
    ) -> FlowMod:
        """Changes what rules do: of all that the match covers, or, if ``strict``, of the one with this match and
        priority."""

    @staticmethod
    def delete(
        match: Match | None = None,
        *,
        strict: bool = False,
        priority: int = 0x8000,
        out_port: int | None = None,
        cookie: int = 0,
        cookie_mask: int = 0,
        table: int | None = None,
    ) -> FlowMod:
        """Deletes rules: all that the match covers (``None``: all) in all tables, or only those that send to
        ``out_port``, or, if ``strict``, the one with this match and priority."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Barrier:
    """Has the switch finish everything before it first, and then call :meth:`Handler.barrier`."""

    def __new__(cls) -> Barrier: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Bucket:
    """One of the action lists of a group."""

    def __new__(
        cls, actions: _Actions, *, weight: int = 0, watch_port: int | None = None, watch_group: int | None = None
    ) -> Bucket: ...
    @property
    def actions(self) -> list[Action]:
        """The actions of the bucket."""

    @property
    def weight(self) -> int:
        """The bucket's share of the packets in a ``"select"`` group."""

    @property
    def watch_port(self) -> int | None:
        """The port that must be up for it to be used."""

    @property
    def watch_group(self) -> int | None:
        """The group that must be live for it to be used."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class GroupMod:
    """Adds, changes or deletes a group (1.3). Its ``type`` is ``"all"``, ``"select"``, ``"indirect"`` or ``"ff"`` (fast
    failover); where buckets are only actions, they need not be a :class:`Bucket`."""

    @staticmethod
    def add(group: int, buckets: Iterable[Bucket | _Actions], *, type: str = "all") -> GroupMod:
        """Adds a group."""

    @staticmethod
    def modify(group: int, buckets: Iterable[Bucket | _Actions], *, type: str = "all") -> GroupMod:
        """Changes a group."""

    @staticmethod
    def delete(group: int | None = None) -> GroupMod:
        """Deletes a group, or all, and the rules that use them."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Band:
    """The action of a meter above a rate.

    The rate is in kilobits per second and the burst in kilobits; or in packets per second and in packets, if the
    meter counts packets (:meth:`MeterMod.add`).
    """

    @staticmethod
    def drop(rate: int, burst: int = 0) -> Band:
        """Drops what is above the rate."""

    @staticmethod
    def remark(rate: int, levels: int = 1, burst: int = 0) -> Band:
        """Raises the drop precedence of what is above the rate by ``levels``."""

    @property
    def rate(self) -> int:
        """The rate."""

    @property
    def burst(self) -> int:
        """The burst that may pass, in kilobits or packets."""

    @property
    def levels(self) -> int | None:
        """The number of levels by which the drop precedence rises; ``None`` if packets are dropped."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class MeterMod:
    """Adds, changes or deletes a meter (1.3)."""

    @staticmethod
    def add(meter: int, bands: list[Band], *, packets: bool = False) -> MeterMod:
        """Adds a meter; its rates are in packets per second if ``packets``."""

    @staticmethod
    def modify(meter: int, bands: list[Band], *, packets: bool = False) -> MeterMod:
        """Changes a meter."""

    @staticmethod
    def delete(meter: int | None = None) -> MeterMod:
        """Deletes a meter, or all, and the rules that use them."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class StatsRequest:
    """Asks the switch for statistics; :meth:`Handler.stats` hears the answer."""

    @staticmethod
    def flows(
        match: Match | None = None,
        *,
        table: int | None = None,
        out_port: int | None = None,
        out_group: int | None = None,
        cookie: int = 0,
        cookie_mask: int = 0,
    ) -> StatsRequest:
        """Asks for rules that the match covers (:class:`FlowStats`): in all tables, to all ports, if none is named."""

    @staticmethod
    def aggregate(
        match: Match | None = None,
        *,
        table: int | None = None,
        out_port: int | None = None,
        out_group: int | None = None,
        cookie: int = 0,
        cookie_mask: int = 0,
    ) -> StatsRequest:
        """Asks for the sums over these rules (:class:`AggregateStats`)."""

    @staticmethod
    def tables() -> StatsRequest:
        """Asks how full the tables are (:class:`TableStats`)."""

    @staticmethod
    def ports(port: int | None = None) -> StatsRequest:
        """Asks what went through a port, or all (:class:`PortStats`)."""

    @staticmethod
    def queues(port: int | None = None, queue: int | None = None) -> StatsRequest:
        """Asks what went through a queue, or all (:class:`QueueStats`)."""

    @staticmethod
    def groups(group: int | None = None) -> StatsRequest:
        """Asks what went through a group, or all (:class:`GroupStats`; 1.3)."""

    @staticmethod
    def group_descriptions() -> StatsRequest:
        """Asks what groups are set up to do (:class:`GroupDesc`; 1.3)."""

    @staticmethod
    def meters(meter: int | None = None) -> StatsRequest:
        """Asks what went through a meter, or all (:class:`MeterStats`; 1.3)."""

    @staticmethod
    def meter_configs(meter: int | None = None) -> StatsRequest:
        """Asks what a meter is set up to do, or all (:class:`MeterConfig`; 1.3)."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Stats:
    """The answer to a :class:`StatsRequest`, or a part of it."""

    @property
    def kind(self) -> str:
        """The kind of statistics, by the method's name: ``"flows"``, ``"aggregate"``, ``"tables"`` and so on."""

    @property
    def entries(self) -> list[Any]:
        """One object for each rule, port and so on: :class:`FlowStats` for rules."""

    @property
    def more(self) -> bool:
        """Whether the next part follows."""

@final
class FlowStats:
    """A rule and its counters."""

    @property
    def match(self) -> Match:
        """Which packets it takes."""

    @property
    def priority(self) -> int:
        """The priority of the rule."""

    @property
    def table(self) -> int:
        """The table of the rule."""

    @property
    def cookie(self) -> int:
        """The cookie of the rule."""

    @property
    def idle_timeout(self) -> int:
        """The idle timeout in seconds; 0 is never."""

    @property
    def hard_timeout(self) -> int:
        """The hard timeout in seconds; 0 is never."""

    @property
    def actions(self) -> list[Action]:
        """The actions on packets; none is to drop, if they go on to no other table."""

    @property
    def goto(self) -> int | None:
        """The table where packets go on."""

    @property
    def meter(self) -> int | None:
        """The meter that they pass."""

    @property
    def duration(self) -> float:
        """Seconds since it was added."""

    @property
    def packets(self) -> int:
        """Packets it took."""

    @property
    def bytes(self) -> int:
        """The bytes of these packets."""

@final
class AggregateStats:
    """The counters of several rules together."""

    @property
    def flows(self) -> int:
        """The number of rules."""

    @property
    def packets(self) -> int:
        """Packets."""

    @property
    def bytes(self) -> int:
        """Bytes."""

@final
class TableStats:
    """Counters of a table: how full and how busy it is."""

    @property
    def table(self) -> int:
        """The table."""

    @property
    def active(self) -> int:
        """The number of rules in the table."""

    @property
    def lookups(self) -> int:
        """Packets looked up."""

    @property
    def matched(self) -> int:
        """Packets that a rule took."""

    @property
    def max_entries(self) -> int | None:
        """The maximum number of rules; ``None`` in OpenFlow 1.3."""

@final
class PortStats:
    """Counters of a port. A counter that the switch does not have is all ones."""

    @property
    def port(self) -> int:
        """The port."""

    @property
    def rx_packets(self) -> int:
        """Packets received."""

    @property
    def tx_packets(self) -> int:
        """Packets sent."""

    @property
    def rx_bytes(self) -> int:
        """Bytes received."""

    @property
    def tx_bytes(self) -> int:
        """Bytes sent."""

    @property
    def rx_dropped(self) -> int:
        """Received packets dropped."""

    @property
    def tx_dropped(self) -> int:
        """Packets dropped that were to be sent."""

    @property
    def rx_errors(self) -> int:
        """Receive errors."""

    @property
    def tx_errors(self) -> int:
        """Send errors."""

@final
class QueueStats:
    """Counters of a queue."""

    @property
    def port(self) -> int:
        """The port of the queue."""

    @property
    def queue(self) -> int:
        """The number of the queue at its port."""

    @property
    def tx_packets(self) -> int:
        """Packets sent."""

    @property
    def tx_bytes(self) -> int:
        """Bytes sent."""

    @property
    def tx_errors(self) -> int:
        """Packets dropped for want of room."""

@final
class GroupStats:
    """Counters of a group."""

    @property
    def group(self) -> int:
        """The group."""

    @property
    def users(self) -> int:
        """The number of rules and groups that use the group."""

    @property
    def packets(self) -> int:
        """Packets."""

    @property
    def bytes(self) -> int:
        """Bytes."""

    @property
    def duration(self) -> float:
        """Seconds it has been there."""

    @property
    def buckets(self) -> list[tuple[int, int]]:
        """Packets and bytes of each bucket."""

@final
class GroupDesc:
    """The set-up of a group."""

    @property
    def group(self) -> int:
        """The group."""

    @property
    def type(self) -> str:
        """The type of the group, as in :class:`GroupMod`."""

    @property
    def buckets(self) -> list[Bucket]:
        """The buckets of the group."""

@final
class MeterStats:
    """Counters of a meter."""

    @property
    def meter(self) -> int:
        """The meter."""

    @property
    def users(self) -> int:
        """The number of rules that use the meter."""

    @property
    def packets(self) -> int:
        """Packets that came in."""

    @property
    def bytes(self) -> int:
        """Bytes that came in."""

    @property
    def duration(self) -> float:
        """Seconds it has been there."""

    @property
    def bands(self) -> list[tuple[int, int]]:
        """Packets and bytes that each band applied to."""

@final
class MeterConfig:
    """The set-up of a meter."""

    @property
    def meter(self) -> int:
        """The meter."""

    @property
    def packets(self) -> bool:
        """Whether the meter's rates are in packets per second."""

    @property
    def bands(self) -> list[Band]:
        """The bands of the meter."""

@final
class FlowRemoved:
    """A rule that is gone."""

    @property
    def match(self) -> Match:
        """Which packets it took."""

    @property
    def priority(self) -> int:
        """The priority of the rule."""

    @property
    def cookie(self) -> int:
        """The cookie of the rule."""

    @property
    def reason(self) -> str:
        """Why the rule is gone: ``"idle"`` and ``"hard"`` timeouts, ``"delete"``, ``"group"``, ``"other"``."""

    @property
    def table(self) -> int:
        """The table of the rule; 0 in OpenFlow 1.0."""

    @property
    def duration(self) -> float:
        """The time for which the rule was there, in seconds."""

    @property
    def packets(self) -> int:
        """The number of packets that the rule took."""

    @property
    def bytes(self) -> int:
        """The number of bytes of these packets."""

@final
class SwitchError:
    """A message that a switch refused. Its text names the error and, if the switch sent enough of it, the message."""

    @property
    def type(self) -> int:
        """The type of the error, ``OFPET_*``."""

    @property
    def code(self) -> int:
        """The code of the error, by type."""

    @property
    def name(self) -> str:
        """Type and code in words."""

    @property
    def data(self) -> bytes:
        """The start of the refused message."""

@final
class HandlerBench:
    """A switch that exists only in words, and its handler, a class derived from :class:`Handler`.

    Each call gives the messages that the switch gets, one a line, as ``maple decode`` prints them.
    """

    def __new__(
        cls, handler: Any, dpid: int = 1, ports: list[int] = ..., of: str = "1.3", time_limit: float = 1.0
    ) -> HandlerBench: ...
    @property
    def started(self) -> list[str]:
        """The messages that the switch got when it came up."""

    @property
    def handler(self) -> Any:
        """The handler."""

    def errors(self) -> list[str]:
        """The errors since the last call."""

    def packet_in(self, frame: bytes, port: int = 1, buffer_id: int | None = None) -> list[str]:
        """The switch sends a frame that came in by a port; with a ``buffer_id`` it keeps it."""

    def port_status(self, number: int, reason: str = "modify", up: bool = True) -> list[str]:
        """A port came (``"add"``), went (``"delete"``) or changed (``"modify"``)."""

    def flow_removed(self, match: Match, priority: int = 0x8000, cookie: int = 0) -> list[str]:
        """A rule is gone because no packet came for long enough."""

    def error(self, type: int, code: int, data: bytes = ...) -> list[str]:
        """The switch refuses a message."""

    def barrier(self) -> list[str]:
        """The switch answers a barrier."""

    def stats(self, message: bytes) -> list[str]:
        """The switch answers a statistics request with this encoded message."""

    def timer(self) -> list[str]:
        """The time that the handler asked for has come."""

    def switch_down(self) -> None:
        """The connection is gone."""

@final
class ParallelPaths:
    """Shortest paths, computed for all pairs of switches by several threads when a link comes or goes.

    ``threads`` is how many, 0 one for each core. Make it while the file is loaded: what a policy starts stays on the
    core of its worker.
    """

    def __new__(cls, threads: int = 0) -> ParallelPaths: ...
    def shortest_path(self, net: Net, src: _Place | None, dst: _Place | None) -> Route:
        """The path that ``net.shortest_path(src, dst)`` returns; depends on all links."""

def known_network() -> tuple[list[int], list[tuple[Location, Location]], dict[Mac, Location]]:
    """Switches, links (both ends) and hosts that are known now. For the package itself; others have
    :func:`maple.network`."""

@final
class PacketEvent:
    """A packet that entered the network, for a function under ``@on(packet_in={…})``: one attribute a field, with
    its value.

    ``None`` where the packet has no such field.
    """

    @property
    def at(self) -> Location:
        """Where it came in."""

    @property
    def frame(self) -> bytes:
        """The frame, or its first bytes."""

    @property
    def total_len(self) -> int:
        """Length of the whole frame in bytes."""

    @property
    def payload(self) -> bytes:
        """The part after the innermost header (of ICMP: after its checksum)."""

    def reply(self, frame: bytes) -> None:
        """Sends a frame to where it came from.

        ``RuntimeError`` if the port or its switch has gone.
        """

    @property
    def in_port(self) -> int:
        """Port by which the packet came in."""

    @property
    def eth_dst(self) -> Mac | None:
        """Ethernet destination."""

    @property
    def eth_src(self) -> Mac | None:
        """Ethernet source."""

    @property
    def in_phy_port(self) -> int | None:
        """Physical port under a logical one."""

    @property
    def metadata(self) -> int | None:
        """Passed between tables; 0 for packets that enter."""

    @property
    def eth_type(self) -> int | None:
        """Ethernet type, after VLAN tags."""

    @property
    def vlan_vid(self) -> int | None:
        """VLAN id, 12 bits; absent without a tag."""

    @property
    def vlan_pcp(self) -> int | None:
        """VLAN priority."""

    @property
    def ip_dscp(self) -> int | None:
        """Differentiated services code point."""

    @property
    def ip_ecn(self) -> int | None:
        """Congestion notification."""

    @property
    def ip_proto(self) -> int | None:
        """IP protocol."""

    @property
    def ipv4_src(self) -> Ip | None:
        """IPv4 source."""

    @property
    def ipv4_dst(self) -> Ip | None:
        """IPv4 destination."""

    @property
    def tcp_src(self) -> int | None:
        """TCP source port."""

    @property
    def tcp_dst(self) -> int | None:
        """TCP destination port."""

    @property
    def udp_src(self) -> int | None:
        """UDP source port."""

    @property
    def udp_dst(self) -> int | None:
        """UDP destination port."""

    @property
    def sctp_src(self) -> int | None:
        """SCTP source port."""

    @property
    def sctp_dst(self) -> int | None:
        """SCTP destination port."""

    @property
    def icmpv4_type(self) -> int | None:
        """ICMP type."""

    @property
    def icmpv4_code(self) -> int | None:
        """ICMP code."""

    @property
    def arp_op(self) -> int | None:
        """ARP operation: 1 request, 2 reply."""

    @property
    def arp_spa(self) -> Ip | None:
        """ARP sender IPv4 address."""

    @property
    def arp_tpa(self) -> Ip | None:
        """ARP target IPv4 address."""

    @property
    def arp_sha(self) -> Mac | None:
        """ARP sender hardware address."""

    @property
    def arp_tha(self) -> Mac | None:
        """ARP target hardware address."""

    @property
    def ipv6_src(self) -> Ip | None:
        """IPv6 source."""

    @property
    def ipv6_dst(self) -> Ip | None:
        """IPv6 destination."""

    @property
    def ipv6_flabel(self) -> int | None:
        """IPv6 flow label."""

    @property
    def icmpv6_type(self) -> int | None:
        """ICMPv6 type."""

    @property
    def icmpv6_code(self) -> int | None:
        """ICMPv6 code."""

    @property
    def ipv6_nd_target(self) -> Ip | None:
        """Neighbour discovery target."""

    @property
    def ipv6_nd_sll(self) -> Mac | None:
        """Neighbour discovery source link-layer address."""

    @property
    def ipv6_nd_tll(self) -> Mac | None:
        """Neighbour discovery target link-layer address."""

    @property
    def mpls_label(self) -> int | None:
        """Label of the outermost MPLS entry."""

    @property
    def mpls_tc(self) -> int | None:
        """Traffic class of the outermost MPLS entry."""

    @property
    def mpls_bos(self) -> int | None:
        """Bottom-of-stack bit of the outermost MPLS entry."""

    @property
    def pbb_isid(self) -> int | None:
        """Provider backbone service id."""

    @property
    def tunnel_id(self) -> int | None:
        """Metadata of a logical port."""

    @property
    def ipv6_exthdr(self) -> int | None:
        """Bits for the IPv6 extension headers that are there."""

@final
class Listener:
    """The source of events for ``@on`` functions. For the package itself."""

    def next(self, timeout: float) -> tuple[Any, ...]: ...

def send_frame(frame: bytes, at: _Place) -> None:
    """The function behind :meth:`maple.LiveNetwork.send`."""

def port_counts() -> list[tuple[Location, float, list[int | None]]]:
    """The counts of ports, and when their switches said so. For the package itself; others have
    :attr:`maple.Counts.ports`."""

def traffic_counts() -> list[tuple[tuple[int, Mac | None, Mac | None], float, int, int]]:
    """When switches said so, and the packets and bytes from host to host. For the package itself; others have
    :attr:`maple.Counts.traffic`."""

def listener_failed(error: str) -> None:
    """Reports that a function failed. For the package itself."""

@final
class Bench:
    """A made-up network to try policies on, one packet at a time. A new one empties all tables and variables."""

    def __new__(cls, track_hosts: bool = True) -> Bench: ...
    def switch(self, dpid: int, ports: list[int]) -> None:
        """Adds a switch with these edge ports."""

    def link(self, a: _Place, b: _Place) -> None:
        """Adds a link between two ports."""

    def host(self, mac: Mac | str, switch: int | _Place, port: int | None = None, ip: Ip | str | None = None) -> None:
        """Adds or moves a host. Here and below, a place such as ``"1:2"`` may stand for a switch and its port."""

    def port(self, switch: int | _Place, port: int | None = None, *, up: bool) -> None:
        """Takes an edge port down, or up again. Its hosts stay known."""

    def members(self, group: Ip | str, ports: list[_Place]) -> None:
        """Makes these edge ports the members of a multicast group, in place of those that were."""

    def lease(
        self,
        mac: Mac | str,
        ip: Ip | str,
        switch: int | _Place,
        port: int | None = None,
        ends: int | None = None,
    ) -> None:
        """Gives a host at an edge port a DHCP lease; ``ends`` is in seconds since 1970, ``None`` is never."""

    def load(
        self,
        switch: int | _Place,
        port: int | None = None,
        *,
        sent: float | None = None,
        received: float | None = None,
        speed: float | None = None,
    ) -> None:
        """Measures once more what a port sends and receives, and says how much it can send, all in Mbit/s.

        :raises ValueError: for a port that the bench does not have, or a number below 0.
        """

    def traffic(self, src: Mac | str, dst: Mac | str, mbps: float) -> None:
        """Measures once more what a host sends to another, in Mbit/s."""

    def decide(
        self,
        policy: Any,
        frame: bytes,
        switch: int | _Place | None = None,
        port: int | None = None,
        time_limit: float = 1.0,
    ) -> Decision:
        """Runs ``policy`` on a frame that enters by an edge port, and commits what it wrote.

        The switch is 1 and the port is 1 where none is given.

        A route that a network would refuse is an error of the decision, in the words of ``maple run``.

        :raises ValueError: for a switch or an edge port that the bench does not have.
        """

@final
class Decision:
    """The record of one run."""

    @property
    def route(self) -> Route | None:
        """The route; ``None`` if the run failed."""

    @property
    def error(self) -> str | None:
        """Why it failed, with traceback."""

    @property
    def copies(self) -> list[tuple[Location, bytes]]:
        """Where copies of the packet leave the network, and their bytes, in order."""

    @property
    def trace(self) -> list[str]:
        """The observations of its packet, in order."""

    @property
    def lines(self) -> list[int | None]:
        """The line of the policy that each item of the trace comes from."""

    @property
    def reads(self) -> list[str]:
        """The cells of state that it read."""

    @property
    def follows(self) -> list[str]:
        """The paths that its route takes, wherever they lead. When one changes, rules follow and nothing runs."""

    @property
    def wrote(self) -> bool:
        """Whether it wrote state or invalidated rules."""

    @property
    def each(self) -> bool:
        """Whether each packet of the kind comes to the controller.

        It does where the policy sends frames of its own, or looked at the whole frame.
        """

    @property
    def read_switch(self) -> bool:
        """Whether it asked for the switch."""

    @property
    def violations(self) -> list[tuple[str, str]]:
        """The constraints of :func:`maple.guard` that refused its route, and why."""

def test_frame(*, payload: bytes | None = None, **fields: int | str | Mac | Ip | Field) -> bytes:
    """The bytes of a packet that has these fields, and others as they come: ``maple.testing.frame``."""

_Copy = tuple[list[tuple[str, int, int | None]], str | None, str | None, bytes]
_Journey = tuple[bytes, list[_Copy]]

@final
class Laboratory:
    """A network under a policy, in simulated time. :func:`maple.emulate` makes objects of what comes out here."""

    def __new__(
        cls,
        topology: str,
        policy: Any,
        version: str,
        seed: int,
        track_hosts: bool,
        time_limit: float,
        place: Place | None = None,
        tables: int = 254,
    ) -> Laboratory: ...
    def command(self, line: str) -> str:
        """Does a command of the console."""

    def now(self) -> float:
        """The time, in seconds."""

    def run(self, span: float) -> None:
        """Lets this number of seconds pass."""

    def ping(self, src: str, dst: str, count: int) -> tuple[list[float | None], str, _Journey | None]:
        """The time that each answer took, in seconds; all in words; the last request's journey."""

    def ping_all(self) -> tuple[int, list[tuple[str, str]]]:
        """The number of pings that were sent, and the pairs without an answer."""

    def iperf(self, src: str, dst: str, span: float, rate: int) -> tuple[int, int, int, str]:
        """Sends for ``span`` seconds at ``rate`` bits a second.

        Returns what arrived, in bits a second; frames sent; frames lost; all in words.
        """

    def send(self, host: str, frame: bytes) -> _Journey:
        """Sends a frame from a host."""

    def explain(self, question: str) -> tuple[str, str]:
        """Why a packet goes where it goes: the answer to a question of the control socket, as JSON and as text."""

    def switches(self) -> list[tuple[str, int]]:
        """Names of switches and their datapath ids."""

    def hosts(self) -> list[tuple[str, str, str, str, str, int]]:
        """The hosts and where they are now: name, MAC, IPv4, IPv6, switch, port."""

    def links(self) -> list[tuple[tuple[str, int], tuple[str, int], bool, float, float, int | None]]:
        """The links as they are now: both ends, whether up, delay in seconds, loss, rate in bits a second."""

    def tree(self, switch: str) -> str:
        """The trace tree of a switch as text."""

    def errors(self) -> list[tuple[str, int]]:
        """The failures of the policy, and the number of packets of each."""

@final
class Place:
    """Where the tables, variables and costs of one network live. A new one is empty."""

    def __new__(cls) -> Place: ...
    @staticmethod
    def current() -> Place:
        """Where the tables of all threads live that have entered no place."""

    def declarations(self) -> Place:
        """A place with the declared types and the costs of links of this one, and without what tables hold."""

    def use(self) -> None:
        """Lets the tables of all threads that have entered no place live here."""

    def enter(self) -> None:
        """Lets the tables of this thread live here, until it leaves."""

    def leave(self) -> None:
        """Ends what the last ``enter`` of this thread began."""

_Counterexample = tuple[bytes, str, int, str, list[str], list[str]]

def introduce_hosts(laboratory: Laboratory) -> None:
    """Has all hosts announce themselves."""

def deliver(laboratory: Laboratory, host: str, frame: bytes) -> _Journey:
    """Sends a frame from a host; returns when all copies have come out."""

def fields_of(frame: bytes) -> dict[str, int | Mac | Ip]:
    """The fields of a frame, by name."""

def summary(frame: bytes) -> str:
    """A frame in one line, for people."""

def is_the_controllers(frame: bytes) -> bool:
    """Whether a frame that a host got is the controller's own: discovery's, or a question to the host."""

def received(laboratory: Laboratory, host: str, since: int) -> tuple[list[tuple[bytes, list[str]]], int]:
    """The frames that a host got since a time, in nanoseconds, with the switches of their paths; and the time now."""

def switch_power(laboratory: Laboratory, switch: str, on: bool) -> None:
    """Takes a switch down, with its ports and its connection, or up again."""

def observe(
    laboratory: Laboratory, switch: int, port: int, frame: bytes
) -> tuple[list[str], tuple[str, int] | None, bool, str | None]:
    """The decision of the policy about a frame that enters there now.

    What it asks and answers, line by line; file and line of its answer; whether it drops the packet; why it fails.
    """

def decisions(
    laboratory: Laboratory,
) -> tuple[list[tuple[str, int, str, int, int]], list[tuple[str, int, int]], int]:
    """The questions and answers of the policy so far.

    File, line, test, how often it failed and held; file, line, how often it was reached; the number of runs.
    """

def open_flow(laboratory: Laboratory, src: str, dst: str, kind: str, port: int, ipv6: bool) -> str | None:
    """Opens a TCP connection, or sends a UDP datagram, from one host to another. ``None`` if that worked."""

def examine(
    laboratory: Laboratory,
    claim: str,
    senders: list[str],
    receivers: list[str],
    only: dict[str, Any],
    except_: list[dict[str, Any]],
    packets: int,
    other: tuple[Any, Place] | None = None,
    time_limit: float = 1.0,
) -> tuple[_Counterexample | None, int, int, str | None]:
    """Looks for a packet that contradicts a claim: ``never``, ``arrives``, ``no_loops`` or ``same_as``.

    Returns the packet, the number of packets tried, that of distinct traces, and the reason why the runs prove nothing.
    """

def keeps_output_back() -> bool:
    """Notes that the current run of a policy writes output, if this thread is in one.

    Whether the output has to be kept back, because nobody has sent the run's packet.
    """

def main(arguments: list[str]) -> int:
    """Runs the ``maple`` command; the exit status."""
