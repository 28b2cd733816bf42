"""Verdicts of converted lists against those of Aerleon's ``aclcheck``, on random packets.

``python bench/acl/verdicts.py --lists 20 --packets 100000``. Lists and packets follow from seeds. Each packet is a
whole frame, decided by the policy that ``maple.acl`` makes of the converted list. The first difference ends the run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import maple
from maple.importers import from_aerleon
from maple.testing import Bench, frame

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/python"))
from acl_form import Packet
from acl_lists import AclCheck, packets, write_list

PORTS = {6: "tcp", 17: "udp", 132: "sctp"}


def bytes_of(packet: Packet) -> bytes:
    """The packet as a frame."""
    version = f"ipv{packet.version}"
    kind = IPv4Address if packet.version == 4 else IPv6Address
    source, destination = str(kind(packet.src)), str(kind(packet.dst))
    fields: dict[str, Any] = {f"{version}_src": source, f"{version}_dst": destination, "ip_proto": packet.proto}
    if name := PORTS.get(packet.proto):
        fields |= {f"{name}_src": packet.sport, f"{name}_dst": packet.dport}
        del fields["ip_proto"]
    return frame(eth_src=packet.eth_src, eth_dst=packet.eth_dst, **fields)


def compare(seed: int, number: int) -> dict[str, int]:
    """The number of times that each verdict was given by both. Fails at the first difference."""
    verdicts = {"allow": 0, "deny": 0}
    with tempfile.TemporaryDirectory() as folder:
        path = write_list(Path(folder), seed)
        (document,) = from_aerleon(path, path.parent / "def").documents
        policy, oracle = maple.acl(document, allow=maple.to(2)), AclCheck(path)
        bench = Bench(track_hosts=False)
        bench.switch(1, [1, 2])
        for packet in packets(path.parent, seed, number):
            decision = bench.decide(policy, bytes_of(packet))
            assert decision.error is None, decision.error
            verdict = "allow" if decision.copies else "deny"
            if verdict != oracle.decide(packet):
                sys.exit(f"list {seed}: Maple says {verdict} to {packet}, aclcheck says the opposite")
            verdicts[verdict] += 1
    return verdicts


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--lists", type=int, default=20)
    options.add_argument("--packets", type=int, default=100_000)
    options.add_argument("--first", type=int, default=1000, help="the first seed")
    chosen = options.parse_args()
    for seed in range(chosen.first, chosen.first + chosen.lists):
        begin = time.monotonic()
        print(f"list {seed}: {compare(seed, chosen.packets)} in {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
