"""Whether explanations are true: random packets, explained by Maple and traced by Open vSwitch, rule by rule.

For each example a ring of four bridges, eight hosts, and random packets: each is sent, and then explained (`maple
explain`) and traced (`ofproto/trace`, which follows it from bridge to bridge). Both must name the same rules on the
same switches, and the switches must do what the policy decides. Root; see docs/results/explain.md.
"""

import argparse
import random
import statistics
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from network import Controller, Ring, sh

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = [
    "acl",
    "bandwidth",
    "blocklist",
    "campus_login",
    "learning",
    "mt_route",
    "multicast_group",
    "parallel_paths",
    "secure_routing",
    "shortest_path",
    "topology",
]
#: Packets that are sent before they are explained.
BATCH = 100
PORTS = [20, 22, 23, 25, 53, 80, 443, 8080, 1024, 32768, 40000, 65535]
MANY = '''
from maple import drop, policy


@policy
def many(pkt, net):
    """A decision for each flow."""
    src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
    if pkt.tcp_src.value is None or int(pkt.tcp_src) % 10 == 3:
        return drop()
    pkt.tcp_dst.value
    return net.shortest_path(src, dst)
'''


def frame(rng, source, hosts):
    """A random frame from a host."""
    target = rng.choice(hosts)
    dst = (
        target.mac
        if rng.random() < 0.9
        else rng.choice([b"\xff" * 6, b"\x01\x00\x5e\x01\x01\x01", bytes([2, 0, 0, 0, 0, 9])])
    )
    tag = struct.pack("!HH", 0x8100, rng.choice([5, 10, 100])) if rng.random() < 0.1 else b""
    head = dst + source.mac + tag
    kind = rng.random()
    if kind < 0.1:
        owner = source.ip if rng.random() < 0.9 else target.ip
        arp = struct.pack("!HHBBH", 1, 0x0800, 6, 4, rng.choice([1, 2])) + source.mac + owner + target.mac + target.ip
        return head + b"\x08\x06" + arp + bytes(18)
    if kind < 0.15:
        return head + struct.pack("!H", rng.choice([0x88B5, 0x86DD, 0x9000])) + rng.randbytes(60)
    src = source.ip if rng.random() < 0.85 else bytes([10, 0, rng.randrange(3), rng.randrange(1, 255)])
    ip = target.ip if rng.random() < 0.85 else bytes([10, 0, rng.randrange(3), rng.randrange(1, 255)])
    proto = rng.choice([6, 6, 6, 17, 17, 1, 47])
    ports = struct.pack("!HH", *(rng.choice(PORTS) if rng.random() < 0.8 else rng.randrange(1 << 16) for _ in "sd"))
    body = ports + bytes(16) if proto in (6, 17) else rng.randbytes(20)
    if proto == 17:
        body = ports + struct.pack("!HH", len(body), 0) + body[8:]
    if proto == 6:
        body = ports + bytes(8) + b"\x50\x02\x10\x00" + bytes(4)
    return head + b"\x08\x00" + struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, proto, 0) + src + ip + body


def explained(answer):
    """The rules of an explanation, as of a trace."""
    rules = []
    for hop in answer["hops"]:
        switch = int(hop["at"]["switch"], 16)
        rules += [(switch, rule["table"], rule["priority"], int(rule["cookie"], 16)) for rule in hop["rules"]]
    return sorted(rules)


class Difference(NamedTuple):
    """What a trace says otherwise, and whether its rules are equal but for their cookies: same tables and priorities,
    same actions. Of two rules that overlap so, a switch may take either."""

    trace: str
    is_equal: bool


def compare(controller, ring, host, packet):
    """The explanation of a packet, and what a trace says otherwise."""
    at = f"{ring.names.index(host.bridge) + 1:x}:{host.port}"
    answer = controller.ask({"explain": {"packet": {"frame": packet.hex(), "at": at, "counters": False}}})
    traced, text = ring.trace(host.bridge, host.port, packet)
    told = explained(answer)
    if told == traced:
        return answer, None
    return answer, Difference(text, is_equal=ring.actions(told) == ring.actions(traced))


def prepared(name, folder):
    """Variables for an example's files."""
    if name != "acl":
        return {}
    (folder / "acl.txt").write_text(
        "permit arp\npermit icmp any any\ndeny tcp 10.0.0.1 10.0.0.4 23\npermit tcp 10.0.0.0/23 any 20-80\n"
        "permit tcp any any 32768-65535\ndeny ip any any\n"
    )
    return {"MAPLE_ACL": str(folder / "acl.txt")}


def check_example(name, args, folder):
    """Explains and traces packets of one example. Returns the counts of the table."""
    rng = random.Random(args.seed)
    controller = Controller(
        args.maple, ROOT / f"examples/{name}.py", args.port, folder, environment=prepared(name, folder)
    )
    counts = dict.fromkeys(
        (
            "packets",
            "same rules",
            "or equal ones",
            "forwarded",
            "dropped",
            "other",
            "with line",
            "as f says",
            "by controller",
        ),
        0,
    )
    try:
        with Ring(4, 2, args.port) as ring:
            until_known(controller, ring)
            while counts["packets"] < args.packets:
                batch = [(host, frame(rng, host, ring.hosts)) for host in rng.choices(ring.hosts, k=BATCH)]
                for host, packet in batch:
                    host.socket.send(packet)
                controller.at_rest()
                for host, packet in batch:
                    answer, differs = compare(controller, ring, host, packet)
                    if differs:
                        # Something may have changed between the two.
                        controller.at_rest()
                        answer, differs = compare(controller, ring, host, packet)
                    note(counts, answer, differs, packet)
                print(f"\r{name}: {counts['packets']} packets", end="", file=sys.stderr, flush=True)
    finally:
        controller.stop()
        print(file=sys.stderr)
    return counts


def note(counts, answer, differs, packet):
    """Counts a packet."""
    verdict = answer["verdict"]
    counts["packets"] += 1
    counts["same rules"] += differs is None
    counts["or equal ones"] += differs is not None and differs.is_equal
    counts[verdict if verdict in counts else "other"] += 1
    counts["with line"] += verdict == "dropped" and answer["line"] is not None
    counts["as f says"] += answer["agrees"] is True
    counts["by controller"] += answer["agrees"] is None
    if differs and not differs.is_equal:
        print(f"\n{packet.hex()}\nexplained: {explained(answer)}\ntraced: {differs.trace}", file=sys.stderr)
    if answer["agrees"] is False:
        print(f"\nthe switches do not what f says: {packet.hex()}\n{answer}", file=sys.stderr)


def until_known(controller, ring):
    """Waits until the controller knows links and hosts."""
    end = time.monotonic() + 30
    while len(controller.ask({"show": "links"})) < len(ring.names):
        if time.monotonic() > end:
            raise RuntimeError("the links are not found")
        time.sleep(0.2)
    time.sleep(1.5)
    for _ in range(2):
        for host in ring.hosts:
            host.announce()
        time.sleep(0.3)


def latency(args, folder):
    """The duration of explanations where there are many leaves, and that they change nothing."""
    (folder / "many.py").write_text(MANY)
    controller = Controller(args.maple, folder / "many.py", args.port, folder)
    rng = random.Random(args.seed)
    try:
        with Ring(4, 2, args.port) as ring:
            until_known(controller, ring)
            flows = []
            # All leaves are at one switch.
            while len(flows) < args.leaves:
                for _ in range(200):
                    src, dst = ring.hosts[0], rng.choice(ring.hosts[1:])
                    number = len(flows)
                    head = (
                        dst.mac
                        + src.mac
                        + b"\x08\x00"
                        + struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0)
                        + src.ip
                        + dst.ip
                    )
                    packet = (
                        head
                        + struct.pack("!HH", number % 60_000 + 1000, 80 + number // 60_000)
                        + bytes(8)
                        + b"\x50\x02\x10\x00"
                        + bytes(4)
                    )
                    flows.append((src, packet))
                    src.socket.send(packet)
                controller.at_rest()
            controller.at_rest()
            before = controller.counts()
            results = {}
            for label, question in (("without counters", {"counters": False}), ("with counters", {})):
                times = []
                for src, packet in rng.choices(flows, k=args.explanations):
                    began = time.perf_counter()
                    answer = controller.ask(
                        {"explain": {"packet": question | {"frame": packet.hex(), "at": f"1:{src.port}"}}}
                    )
                    times.append((time.perf_counter() - began) * 1000)
                    assert answer["agrees"] is True, answer
                times.sort()
                results[label] = (statistics.median(times), times[int(len(times) * 0.99)], times[-1])
            after = controller.counts()
            # What comes and goes by itself: echo, discovery, and the answers about counters.
            changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
            return before["leaves"], results, changed
    finally:
        controller.stop()


def main():
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("examples", nargs="*", default=EXAMPLES)
    parser.add_argument("--packets", type=int, default=10_000, help="for each example")
    parser.add_argument("--leaves", type=int, default=10_000)
    parser.add_argument("--explanations", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=6699)
    parser.add_argument("--maple", default=str(ROOT / ".venv/bin/maple"))
    args = parser.parse_args()
    sh("ovs-vsctl", "--timeout=5", "show")
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows = []
        for name in args.examples:
            counts = check_example(name, args, folder)
            rows.append((name, counts))
            failed |= (
                counts["same rules"] + counts["or equal ones"] != counts["packets"]
                or counts["with line"] != counts["dropped"]
            )
        if rows:
            titles = list(rows[0][1])
            print("| example | " + " | ".join(titles) + " |")
            print("| --- |" + " --- |" * len(titles))
            for name, counts in rows:
                print(f"| {name} | " + " | ".join(f"{counts[title]:,}" for title in titles) + " |")
        if args.leaves:
            leaves, results, changed = latency(args, folder)
            print(f"\n{leaves:,} leaves, {args.explanations:,} explanations:")
            for label, (median, p99, most) in results.items():
                print(f"{label}: median {median:.2f} ms, p99 {p99:.2f} ms, most {most:.2f} ms")
            print(f"counts that changed meanwhile: {changed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
