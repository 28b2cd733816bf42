"""Three tiers of access lists against one merged list: ``python bench/acl/tiers.py ../shared/classbench/*.rules``.

For each filter set: the rules that one switch gets before any packet, and the time of a run for a packet that the lists
allow, with what the run records. Rounds alternate, and the fastest round of each counts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import maple
from maple.testing import Bench, frame

HERE = Path(__file__).parent


def lists(filters: Path, folder: Path) -> tuple[maple.Policy, maple.Policy]:
    """The policy of three lists, and that of the merged one."""
    stem = folder / filters.stem
    command = [sys.executable, str(HERE / "from_classbench.py"), str(filters), "--tiers", "3", "--out", str(stem)]
    subprocess.run(command, check=True)
    three = maple.acl(*(f"{stem}-{number}.yaml" for number in (1, 2, 3)), allow=maple.flood())
    return three, maple.acl(f"{stem}-merged.yaml", allow=maple.flood())


def rules(policy: maple.Policy) -> int:
    net = maple.emulate("linear:1", policy)
    net.run(5)
    return len(net["s1"].rules)  # type: ignore[union-attr]


def packets(trace: Path, number: int) -> list[bytes]:
    frames = []
    for line in trace.read_text().splitlines()[:number]:
        source, destination, src_port, dst_port, protocol = (int(part) for part in line.split()[:5])
        fields = {"ipv4_src": dotted(source), "ipv4_dst": dotted(destination)}
        if protocol in (6, 17):
            name = "tcp" if protocol == 6 else "udp"
            fields |= {f"{name}_src": src_port, f"{name}_dst": dst_port}  # type: ignore[dict-item]
        else:
            fields |= {"ip_proto": protocol}  # type: ignore[dict-item]
        frames.append(frame(eth_src="00:00:00:00:00:01", eth_dst="00:00:00:00:00:02", **fields))
    return frames


def dotted(address: int) -> str:
    return ".".join(str(address >> shift & 255) for shift in (24, 16, 8, 0))


def microseconds(policy: maple.Policy, frames: list[bytes]) -> float:
    bench = Bench(track_hosts=False)
    bench.switch(1, [1, 2])
    begin = time.perf_counter()
    for one in frames:
        bench.decide(policy, one)
    return (time.perf_counter() - begin) / len(frames) * 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("filters", type=Path, nargs="+")
    options.add_argument("--packets", type=int, default=1000)
    options.add_argument("--rounds", type=int, default=5)
    chosen = options.parse_args()
    print("| set | rules: three | merged | ratio | µs a run: three | merged | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for filters in chosen.filters:
        with tempfile.TemporaryDirectory() as folder:
            three, merged = lists(filters, Path(folder))
            frames = packets(filters.with_suffix(".trace"), chosen.packets)
            times = [[microseconds(policy, frames) for policy in (three, merged)] for _ in range(chosen.rounds)]
            fast = [min(column) for column in zip(*times, strict=True)]
            counts = rules(three), rules(merged)
        print(
            f"| {filters.stem} | {counts[0]} | {counts[1]} | {counts[0] / counts[1]:.2f} "
            f"| {fast[0]:.1f} | {fast[1]:.1f} | {fast[0] / fast[1]:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
