"""Small configurations with what their own tools say of them: `data/importers/*.cases`, which also show the form.

A file has text for all of its cases, then cases. A case is a configuration, other files of it, whether the source
accepts it, what Maple says if that is not simply the same, and packets with their fate:

    === name of the case
    its configuration
    >>> file more.yaml
    another file
    >>> accepted
    >>> maple: not covered a.field, another.field
    tcp 10.0.0.1 > 10.0.0.2 80 : allow | deny

After `:` is what the source's tool says, which `tests/importer-verdicts/record.py` writes. After `|` is what Maple's
list says with `lenient`, where that differs. It may only be stricter. `>>> refused: why` is for configurations that the
source refuses, `>>> maple: refused why` for those that only Maple refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import maple
from acl_form import ETHERTYPES, PROTOCOLS, Packet

CORPUS = Path(__file__).parent / "data/importers"


@dataclass
class Probe:
    """A packet and what becomes of it: what the source says, and what Maple says if that differs."""

    text: str
    source: str
    maple: str


@dataclass
class Case:
    """A configuration. `refused` is why the source refuses it, if it does; `maple` what Maple says of it."""

    name: str
    text: str
    files: dict[str, str] = field(default_factory=dict)
    refused: str | None = None
    maple: str = ""
    probes: list[Probe] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"=== {self.name}", self.text.rstrip("\n")]
        for name, text in self.files.items():
            lines += [f">>> file {name}", text.rstrip("\n")]
        lines.append(">>> accepted" if self.refused is None else f">>> refused: {self.refused}")
        lines += [f">>> maple: {self.maple}"] if self.maple else []
        for probe in self.probes:
            differs = f" | {probe.maple}" if probe.maple != probe.source else ""
            lines.append(f"{probe.text} : {probe.source}{differs}")
        return "\n".join(line for line in lines if line) + "\n"


@dataclass
class Cases:
    """The cases of one source, and the text that they share."""

    path: Path
    shared: str
    cases: list[Case]

    def write(self) -> None:
        """Writes all of it back."""
        self.path.write_text(self.shared + "\n" + "\n".join(map(str, self.cases)))


def read(source: str) -> Cases:
    """The cases of `faucet`, `aerleon` or `kubernetes`."""
    path = CORPUS / f"{source}.cases"
    shared, *parts = re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)
    found = Cases(path, shared.rstrip() + "\n", [_case(part) for part in parts])
    names = [case.name for case in found.cases]
    assert len(names) == len(set(names)), f"{path}: two cases have one name"
    return found


def _case(text: str) -> Case:
    first, *blocks = re.split(r"^>>> ", text.rstrip("\n") + "\n", flags=re.MULTILINE)
    name, _, config = first.partition("\n")
    case = Case(name, config)
    rest = ""
    for at, block in enumerate(blocks, 1):
        head, _, rest = block.partition("\n")
        assert head.startswith("file ") or at == len(blocks) or not rest.strip(), f"{name}: packets come last"
        word, _, value = head.partition(" ")
        if word == "file":
            case.files[value] = rest
        elif word == "maple:":
            case.maple = value
        elif word == "refused:":
            case.refused = value
        else:
            assert head == "accepted", f"{name}: {head!r}"
    assert blocks, f"{name}: neither accepted nor refused"
    case.probes = [_probe(line) for line in rest.splitlines() if line and not line.startswith("#")]
    return case


def _probe(line: str) -> Probe:
    text, _, said = line.partition(" : ")
    source, _, maple = said.partition(" | ")
    return Probe(text.strip(), source.strip(), (maple or source).strip())


def packet(text: str, names: dict[str, str] | None = None) -> Packet:
    """The packet of a line such as `udp 10.0.0.1 53 > 10.0.0.2 4000 vlan 100 at 3 src 02:00:00:00:00:09`.

    A protocol is a name, `ip/47`, or `eth/0x88cc` for what is not IP. Addresses may be `names`. A source port that is
    left out is 40000; the destination ports of ICMP are its type and code.
    """
    kind, *words = text.split()
    ends, options = _split(words)
    if kind == "arp" or kind.startswith("eth/"):
        number = ETHERTYPES["arp"] if kind == "arp" else int(kind[4:], 16)
        found = Packet(0, 0, 0, 0, ethertype=number)
    else:
        (src, *sports), (dst, *dports) = ends
        first, second = (ip_address((names or {}).get(end, end)) for end in (src, dst))
        proto = PROTOCOLS[kind] if kind in PROTOCOLS else int(kind.removeprefix("ip/"))
        ports = _ports(kind, sports, dports)
        found = Packet(first.version, int(first), int(second), proto, *ports)
    values = dict(zip(options[::2], options[1::2], strict=True))
    return found._replace(
        at=("1", int(values.get("at", "1"), 0)),
        vlan=int(values["vlan"]) if "vlan" in values else None,
        eth_src=values.get("src", found.eth_src),
        eth_dst=values.get("dst", found.eth_dst),
    )


def _split(words: list[str]) -> tuple[list[list[str]], list[str]]:
    """What stands on both sides of `>`, and the options after it."""
    at = next((at for at, word in enumerate(words) if word in ("at", "vlan", "src", "dst")), len(words))
    ends, options = words[:at], words[at:]
    if ">" not in ends:
        return [], options
    return [ends[: ends.index(">")], ends[ends.index(">") + 1 :]], options


def _ports(kind: str, sports: list[str], dports: list[str]) -> tuple[int, int]:
    if kind in ("icmp", "icmpv6"):
        numbers = [*map(int, dports), 0, 0]
        return numbers[0], numbers[1]
    if kind.startswith("ip/"):
        return 0, 0
    return int(sports[0]) if sports else 40000, int(dports[0])


def frame(packet: Packet) -> bytes:
    """The packet as it is on the wire."""
    return maple.frame(**dict(_fields(packet)), payload=None if packet.ethertype == ETHERTYPES["arp"] else bytes(46))


def _fields(packet: Packet) -> Iterator[tuple[str, int | str]]:
    """The fields of the packet, by their names in OpenFlow."""
    yield from (("eth_src", packet.eth_src), ("eth_dst", packet.eth_dst))
    if packet.vlan is not None:
        yield "vlan_vid", packet.vlan
    if packet.version == 0:
        if packet.ethertype == ETHERTYPES["arp"]:
            yield from (("arp_op", 1), ("arp_spa", "10.0.0.1"), ("arp_tpa", "10.0.0.2"))
        else:
            yield "eth_type", packet.ethertype
        return
    for side, value in (("src", packet.src), ("dst", packet.dst)):
        yield f"ipv{packet.version}_{side}", str(ip_address(value.to_bytes(4 if packet.version == 4 else 16, "big")))
    name = {number: name for name, number in PROTOCOLS.items()}.get(packet.proto)
    if name in ("tcp", "udp", "sctp"):
        yield from ((f"{name}_src", packet.sport), (f"{name}_dst", packet.dport))
    elif name in ("icmp", "icmpv6"):
        prefix = "icmpv4" if name == "icmp" else name
        yield from ((f"{prefix}_type", packet.sport), (f"{prefix}_code", packet.dport))
    else:
        yield "ip_proto", packet.proto
