"""The duration of a write in a cluster until it is acknowledged, beside a put of etcd's own.

Three servers of etcd and three controllers on this machine, without switches. Writes of `maple state` at the master,
over its control socket, take turns with puts over etcd's JSON gateway, each on a connection that stays open. So both
have the same load beside them.

    python3 bench/cluster/writes.py [--maple PROGRAM] [--writes N]
"""

import argparse
import base64
import http.client
import json
import socket
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

NAMES = ("a", "b", "c")


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(ends, log, *command):
    """Starts a process, which ends with the run."""
    process = subprocess.Popen(command, stdout=log.open("w"), stderr=subprocess.STDOUT)
    ends.callback(process.wait)
    ends.callback(process.kill)


def start_etcd(ends, folder):
    """Starts three servers, and returns the ports for their clients."""
    ports = {name: (free_port(), free_port()) for name in NAMES}
    peers = ",".join(f"{name}=http://127.0.0.1:{peer}" for name, (_, peer) in ports.items())
    for name, (client, peer) in ports.items():
        start(
            ends,
            folder / f"etcd-{name}.log",
            "etcd",
            f"--name={name}",
            f"--data-dir={folder / f'etcd-{name}'}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster={peers}",
        )
    return [client for client, _ in ports.values()]


class Control:
    """A connection to a controller's control socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self.answers = self.socket.makefile()

    def ask(self, request):
        """The answer to a request."""
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(self.answers.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["ok"]


def find_master(sockets):
    """A connection to the controller that is master, once it can be written."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for path in sockets:
            try:
                control = Control(path)
                if control.ask({"show": "cluster"})["closed"] is None:
                    return control
            except OSError:
                continue
        time.sleep(0.1)
    raise RuntimeError("no controller is master within a minute")


def timed(work):
    """The duration of something, in milliseconds."""
    before = time.perf_counter()
    work()
    return (time.perf_counter() - before) * 1000


def run(maple, writes):
    """Measures, and prints."""
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        clients = start_etcd(ends, folder)
        address = f"etcd://{','.join(f'127.0.0.1:{client}' for client in clients)}/bench"
        for name in NAMES:
            arguments = ("--cluster", address, "--name", name, "--control", folder / name, "--listen", "127.0.0.1:0")
            start(ends, folder / f"{name}.log", maple, "run", "builtin:shortest-path", *arguments)
        master = find_master([folder / name for name in NAMES])
        gateway = http.client.HTTPConnection("127.0.0.1", clients[0])

        def put(number):
            key, value = (base64.b64encode(text.encode()).decode() for text in ("bench-put", str(number)))
            gateway.request("POST", "/v3/kv/put", json.dumps({"key": key, "value": value}))
            answer = gateway.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"etcd says {answer.status}")

        def write(number):
            place = {"key": ["bench", number % 100]}
            master.ask({"state": {"set": {"place": place, "value": number, "create": True}}})

        times = {"put of etcd": [], "write acknowledged": []}
        for number in range(writes):
            times["put of etcd"].append(timed(lambda number=number: put(number)))
            times["write acknowledged"].append(timed(lambda number=number: write(number)))
        for what, all_times in times.items():
            cuts = statistics.quantiles(all_times, n=100)
            print(f"{what:<20} p50 {cuts[49]:.2f} ms  p99 {cuts[98]:.2f} ms")
        ratio = statistics.median(times["write acknowledged"]) / statistics.median(times["put of etcd"])
        print(f"p50 of a write is {ratio:.2f} x that of a put")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--maple", default="maple", help="the program")
    parser.add_argument("--writes", type=int, default=2000, help="how many of each")
    options = parser.parse_args()
    run(options.maple, options.writes)
