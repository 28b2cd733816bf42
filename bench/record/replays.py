"""The oracle of a refactoring: runs that one build recorded, replayed by another. Every message to a switch must be the
same, byte for byte.

    python3 bench/record/replays.py record FOLDER        # with the build before: 58 runs, some minutes
    python3 bench/record/replays.py check FOLDER         # after each step; status 1 if a run differs

Record before a change that must not change what Maple does, and check after each step of it. The runs are all examples
in Python, some in Rust, the applications, compositions, slices and access lists, on a line, a ring, a fat tree and a
tree, in OpenFlow 1.0 and 1.3, on one shard and on two. In each of them a link fails, a switch restarts, and hosts talk;
in some the policy is reloaded, the controller restarts, a host moves, or switches are full. MAPLE is the program
[default: .venv/bin/maple]; MAPLE_EXAMPLES is the folder of the built Rust examples [default: target/debug/examples].
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAPLE = os.environ.get("MAPLE", str(ROOT / ".venv/bin/maple"))
EXAMPLES = Path(os.environ.get("MAPLE_EXAMPLES", ROOT / "target/debug/examples"))
# These start threads when they are loaded, so nothing else can take their place.
THREADED = ("bandwidth", "blocklist", "topology")
# Handlers can't be recorded.
PYTHON = ("acl", "bandwidth", "blocklist", "campus_login", "learning", "mt_route", "multicast_group", "parallel_paths")
PYTHON += ("secure_routing", "shortest_path", "topology")
RUST = ("acl", "bandwidth", "mt_route", "multicast_group", "secure_routing", "shortest_path")
NETWORKS = ("linear:4", "ring:4", "fattree:4", "tree:2,3")
# What policies are told by it; files beside them are in no recording.
ENVIRONMENT = os.environ | {
    "MAPLE_PORTAL": "00:00:00:00:00:01",
    "MAPLE_ACL": str(ROOT / "examples/acl.txt"),
    "MAPLE_BLOCKLIST": str(ROOT / "examples/blocklist.txt"),
}
# A command that no console knows; its error says that all commands before it are done.
MARK = "mark-{}"

APPLICATIONS = {
    "balanced": """
        from maple import Table, tiers
        from maple.apps import load_balancer, routing
        servers = Table("servers")
        servers["10.0.0.2"] = True
        servers["10.0.0.3"] = True
        balanced = tiers(load_balancer("10.0.0.100", servers, mac="02:00:00:00:00:64"), routing())
        """,
    "guarded": """
        from maple import tiers
        from maple.apps import arp_responder, dhcp_guard, mirror, rate_limit, routing
        guarded = tiers(
            dhcp_guard(servers=[(1, 1)]), rate_limit(kbps=5_000), mirror((1, 1), {"tcp_dst": 80}), arp_responder(),
            routing(),
        )
        """,
    "spread": """
        from maple import tiers
        from maple.apps import ecmp, routing
        spread = tiers(ecmp(), routing())
        """,
    "sliced": """
        from maple import drop, flood, slices
        def east(pkt, net):
            src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
            return net.shortest_path(src, dst) if src and dst else flood()
        def west(pkt, net):
            return drop() if pkt.matches(tcp_dst=22) else east(pkt, net)
        tenants = {"east": ({"ipv4_src": "10.0.0.1"}, east), "west": ({"ipv4_src": "10.0.0.2"}, west)}
        sliced = slices(tenants, otherwise=east)
        """,
    "counted": """
        from maple import Table, flood, policy
        seen = Table("seen")
        @policy
        def counted(pkt, net):
            if pkt.eth_src not in seen:
                seen[pkt.eth_src] = pkt.in_port
            src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
            if src is None or dst is None:
                return flood()
            if pkt.matches(tcp_dst=80):
                return net.shortest_path(src, dst).with_headers(ip_dscp=10)
            return net.shortest_path(src, dst)
        """,
}
LISTS = {
    "short": """
        version: 1
        groups: {low: [10.0.0.1, 10.0.0.2], web: [10.0.0.3]}
        services: {http: [tcp/80, tcp/443]}
        rules:
          - {action: allow, from: low, to: web, service: http, replies: true}
          - {action: deny, to: web, service: tcp/22}
          - {action: allow}
        """,
}
# What a reload puts in place of a policy, whatever that was.
STRICTER = """
    from maple import drop, flood, policy

    @policy
    def stricter(pkt, net):
        if pkt.matches(tcp_dst=22):
            return drop()
        src, dst = net.locate(pkt.eth_src), net.locate(pkt.eth_dst)
        return net.shortest_path(src, dst) if src and dst else flood()
    """


@dataclass(frozen=True)
class Run:
    """A run that is recorded."""

    name: str
    # The program, and its policy.
    command: tuple[str, ...]
    network: str
    version: str
    workers: int
    options: tuple[str, ...] = ()
    # What happens besides link failures, a restart of a switch and traffic.
    event: str = ""


def runs(folder: Path) -> list[Run]:
    """The runs, and the files of their policies in a folder."""
    policies: list[tuple[str, tuple[str, ...]]] = [
        (f"py-{name}", (MAPLE, "run", str(ROOT / "examples" / f"{name}.py"))) for name in PYTHON
    ]
    policies += [(f"rs-{name}", (str(EXAMPLES / name),)) for name in RUST if (EXAMPLES / name).exists()]
    policies += [(f"builtin-{name}", (MAPLE, "run", f"builtin:{name}")) for name in ("flood", "shortest-path")]
    for name, text in APPLICATIONS.items():
        (file := folder / f"{name}.py").write_text(textwrap.dedent(text))
        policies.append((f"app-{name}", (MAPLE, "run", f"{file}:{name}")))
    for name, text in LISTS.items():
        (file := folder / f"{name}.yaml").write_text(textwrap.dedent(text))
        policies.append((f"list-{name}", (MAPLE, "run", str(file))))
    (folder / "stricter.py").write_text(textwrap.dedent(STRICTER))
    turns = itertools.cycle(itertools.product(NETWORKS, ("1.3", "1.0"), (1, 2)))
    events = itertools.cycle(("reload", "", "restart", "full", "", "move"))
    found = []
    # Twice each, in other networks, with another event.
    for _ in range(2):
        for name, command in policies:
            network, version, workers = next(turns)
            is_fixed = name.startswith("rs-") or name.endswith(THREADED)
            event = next(event for event in events if not (event == "reload" and is_fixed))
            found.append(Run(f"{len(found):02}-{name}", command, network, version, workers, event=event))
        # Otherwise each policy would meet the same again.
        next(turns), next(events)
    for network, (version, workers) in itertools.product(NETWORKS, (("1.3", 2), ("1.0", 1))):
        options = ("--max-rules", "48") if version == "1.0" else ("--labels", "100-130")
        command = (MAPLE, "run", str(ROOT / "examples" / "shortest_path.py"))
        found.append(Run(f"{len(found):02}-options", command, network, version, workers, options, "restart"))
    return found


class Console:
    """An emulated network that gets commands."""

    def __init__(self, network: str, version: str, address: str, log: Path) -> None:
        command = [MAPLE, "emulate", network, "--of", version, "--controller", address, "--console"]
        self.log = log
        with log.open("w") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)
        self.marks = 0

    def do(self, *commands: str) -> None:
        """Does these commands, and waits until all of them are done."""
        self.marks += 1
        mark = MARK.format(self.marks)
        assert self.process.stdin
        self.process.stdin.write("".join(f"{line}\n" for line in (*commands, mark)).encode())
        self.process.stdin.flush()
        wait_for(lambda: f"no command {mark}" in self.log.read_text(), self.process, self.log)

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)


def wait_for(what, process: subprocess.Popen[bytes], log: Path) -> None:  # type: ignore[no-untyped-def]
    until = time.monotonic() + 180
    while not what():
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{log}: {log.read_text()[-3000:]}")
        time.sleep(0.05)


class Controller:
    """A controller that records."""

    def __init__(self, run: Run, folder: Path, port: int) -> None:
        self.log, self.socket = folder / "controller", folder / "socket"
        command = [*run.command, "--listen", f"127.0.0.1:{port}", "--workers", str(run.workers)]
        command += [
            "--control",
            str(self.socket),
            "--record",
            str(folder / "recordings"),
            "--state",
            str(folder / "state"),
        ]
        command += [*run.options, "--poll", "1s"]
        with self.log.open("w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=ENVIRONMENT)
        wait_for(lambda: "listening on" in self.log.read_text(), self.process, self.log)
        found = re.search(r"listening on 127\.0\.0\.1:(\d+)", self.log.read_text())
        assert found
        self.port = int(found[1])

    def ask(self, *words: str) -> None:
        done = subprocess.run(
            [MAPLE, *words, "--control", str(self.socket)], capture_output=True, text=True, check=False, timeout=120
        )
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def pings(number: int) -> list[str]:
    """Some traffic between the first four hosts."""
    pairs = [("h1", "h2"), ("h3", "h1"), ("h2", "h4"), ("h4", "h3")]
    return [f"{a} ping {b} 1" for a, b in pairs[number % 2 :]]


def record(run: Run, folder: Path) -> str:
    """Records a run. Returns what went wrong; nothing is good."""
    work = folder / run.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    full = ("--max-rules", "40") if run.event == "full" else ()
    run = Run(run.name, run.command, run.network, run.version, run.workers, run.options + full, run.event)
    controller, console = None, None
    try:
        controller = Controller(run, work, 0)
        console = Console(run.network, run.version, f"127.0.0.1:{controller.port}", work / "console")
        console.do("wait 1s", *pings(0), "h1 iperf h2 1s 2mbit", "link s1 s2 down", "wait 1s", *pings(1))
        if run.event == "reload":
            controller.ask("reload", str(folder / "stricter.py"), "--tolerate", "100%")
        if run.event == "move":
            console.do("h2 move s1", *pings(0))
        if run.event == "restart":
            controller.end()
            controller = Controller(run, work, controller.port)
        console.do("wait 1s", *pings(0), "link s1 s2 up", "switch s2 restart", "wait 1s", "pingall", *pings(1))
    except (OSError, RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
        return f"{run.name}: {error}"
    finally:
        for part in (console, controller):
            if part is not None and part.process.poll() is None:
                part.end()
    return ""


def recordings(folder: Path) -> list[Path]:
    return sorted(header.parent for header in folder.glob("*/recordings/*/header.json"))


def check(recording: Path) -> dict[str, object]:
    """The output of a replay. A program that is no `maple` replays its own recordings."""
    name = recording.parents[1].name.split("-", 1)[1]
    program = str(EXAMPLES / name.removeprefix("rs-")) if name.startswith("rs-") else MAPLE
    command = [program, "replay", str(recording), "--json", "--policy-time-limit", "60s"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    try:
        told: dict[str, object] = json.loads(done.stdout)
    except json.JSONDecodeError:
        told = {"identical": False, "difference": done.stderr.strip()}
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=("record", "check"))
    parser.add_argument("folder", type=Path, help="where the recordings are, a folder for each run")
    parser.add_argument("--jobs", type=int, default=4, help="runs at once [default: 4]")
    parser.add_argument("--only", default="", help="only runs whose name contains this")
    args = parser.parse_args(arguments)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        if args.what == "record":
            args.folder.mkdir(parents=True, exist_ok=True)
            wanted = [run for run in runs(args.folder.resolve()) if args.only in run.name]
            for number, fault in enumerate(pool.map(lambda run: record(run, args.folder.resolve()), wanted), 1):
                print(fault or f"{number} of {len(wanted)} recorded", flush=True)
                bad += bool(fault)
        else:
            found = [recording for recording in recordings(args.folder) if args.only in recording.parents[1].name]
            flow_mods = 0
            for recording, told in zip(found, pool.map(check, found), strict=True):
                flow_mods += int(str(told.get("flow_mods", 0)))
                if not told["identical"]:
                    bad += 1
                    print(f"{recording}: {told['difference']}", flush=True)
            print(f"{len(found)} recordings, {flow_mods} flow-mods: {bad or 'none'} differ")
            bad += not found
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
