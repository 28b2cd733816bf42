"""Random lists in Aerleon's language, and random packets for them; both follow from a seed.

A test writes a list with :func:`write_list`, converts it, and asks the result and :class:`AclCheck` about
:func:`packets`. Half of the addresses and ports of packets are at the edges of what the list names.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from acl_form import Packet
from aerleon.lib import aclcheck, nacaddr, naming, policy

NUMBERS = {"tcp": 6, "udp": 17, "sctp": 132, "icmp": 1, "icmpv6": 58, "gre": 47, "esp": 50}
NAMES = {number: name for name, number in NUMBERS.items()}


def write_list(folder: Path, seed: int, terms: int = 20) -> Path:
    """A policy with one filter; its definitions are in the folder `def` beside it."""
    chance = random.Random(seed)
    definitions = folder / "def"
    definitions.mkdir(parents=True, exist_ok=True)
    networks = {f"NET{at}": [network(chance) for _ in range(chance.randint(1, 4))] for at in range(8)}
    lines = [f"{name} = {' '.join(items)}" for name, items in networks.items()]
    lines += [f"ALL{at} = {' '.join(chance.sample(sorted(networks), 2))} {network(chance)}" for at in range(3)]
    (definitions / "networks.net").write_text("\n".join(lines) + "\n")
    services = {f"SVC{at}": sorted({ports(chance) for _ in range(chance.randint(1, 3))}) for at in range(8)}
    (definitions / "services.svc").write_text("".join(f"{n} = {' '.join(items)}\n" for n, items in services.items()))
    groups = [*networks, "ALL0", "ALL1", "ALL2"]
    text = [f"header {{\n  target:: cisco list{seed} mixed\n}}"]
    text += [term(chance, f"term-{at}", groups, services) for at in range(terms)]
    path = folder / f"list{seed}.pol"
    path.write_text("\n".join(text) + "\n")
    return path


def network(chance: random.Random) -> str:
    if chance.random() < 0.3:
        value = f"fd00:{chance.randrange(4):x}:{chance.randrange(4):x}::{chance.randrange(4):x}"
        return str(ip_network(f"{value}/{chance.choice((32, 48, 64, 126, 128))}", strict=False))
    value = f"10.{chance.randrange(4)}.{chance.randrange(4)}.{chance.randrange(256)}"
    return str(ip_network(f"{value}/{chance.choice((12, 16, 22, 24, 24, 28, 32, 32))}", strict=False))


def ports(chance: random.Random) -> str:
    low = chance.choice((22, 53, 80, 443, 1024, chance.randint(1, 65535)))
    high = min(65535, low + chance.choice((0, 0, 1, 10, 5000)))
    return f"{low}{f'-{high}' if high > low else ''}/{chance.choice(('tcp', 'tcp', 'udp', 'sctp'))}"


def term(chance: random.Random, name: str, groups: list[str], services: dict[str, list[str]]) -> str:
    lines: list[str] = []
    for side in ("source", "destination"):
        if chance.random() < 0.5 or (side == "destination" and not lines):
            lines.append(f"{side}-address:: {' '.join(chance.sample(groups, chance.randint(1, 2)))}")
            if chance.random() < 0.25:
                lines.append(f"{side}-exclude:: {chance.choice(groups)}")
    kind = chance.random()
    if kind < 0.6:
        chosen = chance.sample(sorted(services), chance.randint(1, 2))
        protocols = sorted({item.split("/")[1] for name in chosen for item in services[name]})
        lines.append(f"protocol:: {' '.join(protocols)}")
        side = chance.choice(("source", "destination", "destination", "destination"))
        lines.append(f"{side}-port:: {' '.join(chosen)}")
    elif kind < 0.8:
        lines.append(f"protocol:: {' '.join(chance.sample(sorted(NUMBERS), chance.randint(1, 2)))}")
    elif kind < 0.85:
        lines.append(f"protocol-except:: {chance.choice(sorted(NUMBERS))}")
    lines.append(f"action:: {chance.choice(('accept', 'accept', 'accept', 'deny', 'deny', 'reject', 'next'))}")
    return f"term {name} {{\n  " + "\n  ".join(lines) + "\n}"


def packets(folder: Path, seed: int, number: int) -> Iterator[Packet]:
    """Packets for the list in the folder. ICMP and ICMPv6 occur in their own versions of IP only, as on networks."""
    chance = random.Random(seed)
    words = (folder / "def/networks.net").read_text().split()
    edges: dict[int, list[int]] = {4: [0x0A000001], 6: [0xFD << 120]}
    for net in (ip_network(word) for word in words if "/" in word):
        first, last = int(net.network_address), int(net.broadcast_address)
        edges[net.version] += [first, last, (first + last) // 2, first - 1, last + 1]
    edge_ports = [80]
    for word in (folder / "def/services.svc").read_text().split():
        if "/" in word:
            low, _, high = word.split("/")[0].partition("-")
            edge_ports += [int(low), int(high or low), int(low) - 1, int(high or low) + 1]
    edge_ports = [port for port in edge_ports if 0 < port < 65536]
    protocols = {4: (6, 6, 6, 17, 17, 132, 1, 47, 50), 6: (6, 6, 6, 17, 17, 132, 58, 47, 50)}
    pick, bits = chance.choice, chance.getrandbits
    for _ in range(number):
        version = 4 if bits(2) else 6
        near = edges[version]
        src = pick(near) if bits(2) else (0x0A000000 | bits(18) if version == 4 else 0xFD << 120 | bits(2) << 96)
        dst = pick(near) if bits(2) else (0x0A000000 | bits(18) if version == 4 else 0xFD << 120 | bits(2) << 96)
        proto = pick(protocols[version])
        if proto in (6, 17, 132):
            sport = pick(edge_ports) if bits(1) else 1 + bits(15)
            dport = pick(edge_ports) if bits(2) else 1 + bits(15)
            yield Packet(version, src, dst, proto, sport, dport)
        else:
            yield Packet(version, src, dst, proto)


class AclCheck:
    """What Aerleon's own `aclcheck` says to a packet. It knows no excluded addresses, so these are taken out first."""

    def __init__(self, path: Path) -> None:
        names = naming.Naming(str(path.parent / "def"))
        # Optimizing fails on some lists with excluded addresses of both versions of IP.
        self.policy: Any = policy.ParseFile(str(path), names, optimize=False, base_dir=str(path.parent))
        for _, terms in self.policy.filters:
            for found in terms:
                for side in ("source_address", "destination_address"):
                    without = getattr(found, f"{side}_exclude")
                    if not without:
                        continue
                    within = getattr(found, side) or [nacaddr.IP("0.0.0.0/0"), nacaddr.IP("::/0")]
                    left = nacaddr.AddressListExclude(within, without)
                    setattr(found, side, left)
                    if not left:
                        found.action = ["next"]  # to aclcheck no address means any, but this term matches nothing

    def decide(self, packet: Packet) -> str:
        """Allow or deny."""
        src, dst = (written(packet.version, value) for value in (packet.src, packet.dst))
        check = aclcheck.AclCheck(self.policy, src, dst, packet.sport, packet.dport, NAMES[packet.proto])
        matches = check.ExactMatches()
        return "allow" if matches and "accept" in matches[0].action else "deny"


def written(version: int, value: int) -> str:
    network = ip_network((value, 32 if version == 4 else 128))
    return str(network.network_address)
