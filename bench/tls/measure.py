"""The cost of TLS on the OpenFlow channel for the controller.

* Packet-ins a core: `maple load` keeps packet-ins unanswered, by turns without TLS, with TLS 1.3 and with TLS 1.2. Each
  figure is for a second in which the controller's core computes, so others that use the machine change it little.
* Reconnects: all switches connect at once, and again, when their sessions are resumed. Meanwhile another switch, on a
  port without TLS, sends one packet-in after the other: how long it waits for an answer says whether it starves.
* Memory: how much more of it the controller has for switches with TLS that are silent.

Certificates are made by `openssl`, of elliptic curves and of RSA.

    .venv/bin/python bench/tls/measure.py [--rounds 5] [--switches 5000]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MAPLE = os.environ.get("MAPLE", str(Path(sys.executable).with_name("maple")))
KEYS = {
    "ECDSA P-256": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "RSA 2048": ["-newkey", "rsa:2048"],
}

# The switch that must not starve: two hosts send to each other.
OTHER = {
    "switches": [{"name": "other", "dpid": "ffff"}],
    "hosts": [{"name": "h1", "switch": "other"}, {"name": "h2", "switch": "other"}],
}


def certificates(folder: Path, key: list[str]) -> None:
    """An authority, and what it has signed: a certificate of the controller and one of the switches."""

    def openssl(*arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    folder.mkdir()
    (folder / "extensions").write_text("basicConstraints=CA:FALSE\n")
    openssl("req", "-x509", *key, "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    for name in ("controller", "switch"):
        openssl("req", *key, "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
                f"{name}.pem", "-extfile", "extensions")  # fmt: skip


class Controller:
    """A controller on one core, with a port without TLS and one with it."""

    def __init__(self, folder: Path, files: Path) -> None:
        self.files, self.log = files, folder / "log"
        listen = ["--listen", "tcp:127.0.0.1:0", "--listen", "tls:127.0.0.1:0"]
        tls = ["--tls-cert", files / "controller.pem", "--tls-key", files / "controller.key"]
        command = [MAPLE, "run", "builtin:learning-switch", "--cores", "0", *listen, *tls]
        with self.log.open("w") as log:
            command += ["--tls-ca", files / "ca.pem", "--control", folder / "control"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        while not (found := re.search(r"listening on (\S+), (\S+)\n", self.log.read_text())):
            if self.process.poll() is not None:
                sys.exit(self.log.read_text())
            time.sleep(0.05)
        self.plain, self.secure = found.groups()

    def load(self, tls: str | None, *arguments: str) -> subprocess.Popen[str]:
        """`maple load` on the other core, with this version of TLS."""
        command = ["taskset", "-c", "1", MAPLE, "load", "--json", "--pid", str(self.process.pid), *arguments]
        if tls is None:
            command += ["--connect", self.plain]
        else:
            command += ["--connect", self.secure, "--tls-version", tls, "--tls-ca", str(self.files / "ca.pem")]
            command += ["--tls-cert", str(self.files / "switch.pem"), "--tls-key", str(self.files / "switch.key")]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def report(load: subprocess.Popen[str]) -> dict[str, Any]:
    """The output of it. Its status is 1 if others use its core."""
    text = load.communicate()[0]
    if load.returncode > 1 or not text:
        sys.exit(f"maple load ended with status {load.returncode}")
    found: dict[str, Any] = json.loads(text)
    return found


@contextmanager
def controller(files: Path) -> Iterator[Controller]:
    with tempfile.TemporaryDirectory() as folder:
        one = Controller(Path(folder), files)
        try:
            yield one
        finally:
            one.process.terminate()
            one.process.wait()


def throughput(files: Path, rounds: int) -> None:
    versions: dict[str, str | None] = {"no TLS": None, "TLS 1.3": "1.3", "TLS 1.2": "1.2"}
    figures: dict[str, list[float]] = {name: [] for name in versions}
    for number in range(rounds):
        for name, tls in versions.items():
            with controller(files) as one:
                told = report(one.load(tls, "--switches", "16", "--macs", "1000", "--duration", "3s"))
            figures[name].append(told["answers"] / (told["controller_cpu"] / 100))
            print(f"round {number + 1}, {name}: {figures[name][-1] / 1e6:.2f} million", file=sys.stderr)
    print("packet-ins a second that one core answers (16 switches, window 512)")
    for name, all_ in figures.items():
        ratio = statistics.median(a / b for a, b in zip(all_, figures["no TLS"], strict=True))
        print(f"  {name:8} {statistics.median(all_) / 1e6:6.2f} million  {100 * ratio:4.0f} %")


def reconnects(files: Path, key: str, switches: int, rounds: int) -> None:
    print(f"{switches} switches connect at once, {key}, one core")
    versions: dict[str, str | None] = {"no TLS": None, "TLS 1.3": "1.3", "TLS 1.2": "1.2"}
    for name, tls in versions.items():
        first, again, waited, memory = [], [], [], []
        for _ in range(rounds):
            with controller(files) as one:
                beside = ["--topology", str(files.parent / "other.json"), "--window", "1", "--settle", "500ms"]
                other = one.load(None, *beside, "--warmup", "500ms", "--duration", "15s")
                time.sleep(2)
                many = ["--switches", str(switches), "--macs", "1", "--window", "1", "--reconnect", "2"]
                told = report(one.load(tls, *many, "--settle", "2s", "--warmup", "100ms", "--duration", "100ms"))
                assert told["resumed"] == (switches if tls else 0), told["resumed"]
                waited.append(report(other)["latency"])
                first.append(told["connected"][0])
                again.append(told["connected"][-1])
                memory.append(told["controller_mib"])
        most = max(latency["max"] for latency in waited) / 1000
        typical = statistics.median(latency["p99"] for latency in waited) / 1000
        print(
            f"  {name:8} {statistics.median(first):6.2f} s, resumed {statistics.median(again):6.2f} s; another switch"
            f" waits {most:.0f} ms at most, p99 {typical:.1f} ms; {statistics.median(memory):.1f} MiB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of throughput")
    parser.add_argument("--switches", type=int, default=5000, help="that reconnect")
    parser.add_argument("--reconnects", type=int, default=3, help="rounds of reconnects")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "other.json").write_text(json.dumps(OTHER))
        files = {key: Path(folder, f"files{number}") for number, key in enumerate(KEYS)}
        for key, options in KEYS.items():
            certificates(files[key], options)
        if arguments.rounds:
            throughput(next(iter(files.values())), arguments.rounds)
        if arguments.reconnects:
            for key in KEYS:
                reconnects(files[key], key, arguments.switches, arguments.reconnects)


if __name__ == "__main__":
    main()
