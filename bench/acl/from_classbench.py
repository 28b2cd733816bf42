"""A filter set in ClassBench's format as an access list: ``python from_classbench.py SET.rules > LIST.yaml``.

Every other filter allows, so that neighbours in the list cannot be merged. With ``--tiers N`` the filters go in turn to
N lists, ``LIST-1.yaml`` to ``LIST-N.yaml``: asked one after the other they decide like one list of all that is sorted
tier by tier, which is written as ``LIST-merged.yaml``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path


def rule(line: str, number: int) -> str:
    """One filter as a rule, on one line."""
    source, destination, rest = line.lstrip("@").split(None, 2)
    low, _, high, to_low, _, to_high, protocol = rest.split()[:7]
    parts = [f"action: {'allow' if number % 2 else 'deny'}"]
    parts += [f"from: {source}"] if not source.endswith("/0") else []
    parts += [f"to: {destination}"] if not destination.endswith("/0") else []
    name = {"0x06/0xFF": "tcp", "0x11/0xFF": "udp", "0x01/0xFF": "icmp"}.get(protocol)
    value, mask = (int(part, 16) for part in protocol.split("/"))
    if name in ("tcp", "udp"):
        parts.append(f"service: {name}/{to_low}-{to_high}")
        parts.append(f"source_ports: {low}-{high}")
    elif name is not None:
        parts.append(f"service: {name}")
    elif mask:
        parts.append(f"service: ip/{value}")
    else:
        parts.append("ethertype: ipv4")
    return f"  - {{{', '.join(parts)}}}"


def document(rules: Iterable[str], default: str) -> str:
    return "\n".join(["version: 1", "forward: flood", f"default: {default}", "rules:", *rules, ""])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("filters", type=Path)
    options.add_argument("--tiers", type=int, metavar="N")
    options.add_argument("--out", default="list", metavar="STEM")
    chosen = options.parse_args()
    rules = [rule(line, number) for number, line in enumerate(chosen.filters.read_text().splitlines())]
    if chosen.tiers is None:
        sys.stdout.write(document(rules, "deny"))
        return
    tiers = [rules[start :: chosen.tiers] for start in range(chosen.tiers)]
    for number, tier in enumerate(tiers, 1):
        default = "deny" if number == chosen.tiers else "pass"
        Path(f"{chosen.out}-{number}.yaml").write_text(document(tier, default))
    Path(f"{chosen.out}-merged.yaml").write_text(document([rule for tier in tiers for rule in tier], "deny"))


if __name__ == "__main__":
    main()
