"""What system tests are made of: Open vSwitch's daemons, a controller process, and waiting for what must come true."""

import fcntl
import functools
import json
import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
MAPLE = os.environ.get("MAPLE", str(ROOT / ".venv/bin/maple"))

# Mininet names bridges s1, s2, ... so only one run of these tests can have an Open vSwitch. In namespaces of its own
# (tests/in-namespaces) a run has its own /run.
LOCK = Path("/run/maple-system-tests.lock")


def sh(*command, check=True):
    """Output of a command on this machine."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def vsctl(*arguments):
    """Output of `ovs-vsctl`, which waits until the switch is done."""
    return sh("ovs-vsctl", "--timeout=20", *arguments)


def wait_for_caches():
    """Waits until Open vSwitch's switches forward by the rules that they have, and by none that they had.

    They confirm a change before their caches follow (findings/ovs-barrier-before-its-cache.sh).
    """
    # A round may have begun before the change.
    for _ in range(2):
        sh("ovs-appctl", "revalidator/wait")


@functools.cache
def rust_example(name):
    """The program of an example in Rust, as `cargo test` has built it."""
    about = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version=1"], capture_output=True, check=True, cwd=ROOT
    )
    program = Path(json.loads(about.stdout)["target_directory"], "debug/examples", name)
    assert program.exists(), f"{program} is not there: `cargo test -p maple-cli --no-run` builds it"
    return program


def start_openvswitch():
    """Starts the daemons if there are none; gives the pids of those it started."""
    if subprocess.run(["ovs-vsctl", "--timeout=5", "show"], capture_output=True, check=False).returncode == 0:
        return []
    sh("/usr/share/openvswitch/scripts/ovs-ctl", "--no-mlockall", "--system-id=random", "start")
    run = Path("/var/run/openvswitch")
    return [int((run / f"{name}.pid").read_text()) for name in ("ovs-vswitchd", "ovsdb-server")]


@contextmanager
def the_machine():
    """Holds the machine against other runs of these tests."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def wait_for(what, condition, timeout=20.0, every=0.05):
    """Waits until `condition()` is true and gives its value; fails naming `what` and what was last seen."""
    end = time.monotonic() + timeout
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > end:
            raise AssertionError(f"after {timeout} s still waiting for {what}; last seen: {seen!r}")
        time.sleep(every)


def free_port():
    """A free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Controller:
    """A running `maple run POLICY ARGUMENTS...`."""

    def __init__(self, policy, arguments, folder, port=None, environment=None, program=None):
        folder.mkdir()
        self.port = port or free_port()
        self.control = folder / "control.sock"
        self.log = folder / "log"
        command = program or [MAPLE, "run", str(policy)]
        command = [*command, "--listen", f"127.0.0.1:{self.port}", "--control", str(self.control)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, *map(str, arguments)],
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=os.environ | (environment or {}),
            )
        try:
            wait_for("the control socket", self.answers)
        except BaseException:
            self.stop()
            raise

    def take_over(self, policy, *arguments):
        """Another process goes on with the connections of this one, which ends."""
        old = self.process
        command = [MAPLE, "run", str(policy), "--control", str(self.control), "--takeover", *map(str, arguments)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        assert old.wait(20) == 0, self.text()
        wait_for("the control socket", self.answers)

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"maple run ended with {self.process.returncode}:\n{self.text()}")
        return self.control.exists()

    def text(self):
        """What it printed so far."""
        return self.log.read_text()

    def ask(self, request):
        """The answer to one request on the control socket, which is what `maple show --json` prints."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(str(self.control))
            client.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(client.makefile().readline())
        if "error" in answer:
            raise RuntimeError(f"{request}: {answer['error']}")
        return answer["ok"]

    def state(self, *arguments):
        """What `maple state` prints; with `--settled`, no switch forwards by an old rule any more."""
        printed = sh(MAPLE, "state", *arguments, "--control", str(self.control))
        if "--settled" in arguments:
            wait_for_caches()
        return printed

    def show(self, what):
        """`maple show WHAT --json`, decoded."""
        return self.ask({"show": what})

    def errors(self):
        """The errors that `maple show errors` tells, except that probes took more than two seconds: with several tests
        on few processors, all of them are slow at times."""
        return [error for error in self.show("errors") if "or this controller was slow" not in error["text"]]

    def is_explored(self):
        """Whether the policy has been tried on all packets that known hosts could send, as far as it ever will."""
        explored = [switch["exploration"] for switch in self.show({"tree": None})]
        return all(of is None or of["current"] for of in explored)

    def connected(self):
        """The switches with a control connection, as `maple show switches --json` tells them."""
        return [switch for switch in self.show("switches") if switch["unreachable"] is None]

    def count(self, name):
        """One of the engine's or the controller's counts."""
        return self.counts(name)[0]

    def counts(self, *names):
        """Some of these counts, as of one moment."""
        stats = self.show("stats")
        return [(stats["engine"] | stats["controller"])[name] for name in names]

    def rules(self, number):
        """The rules that it believes are on switch `number`, as `ovs-ofctl` prints them, sorted."""
        (switch,) = self.ask({"show": {"rules": f"{number:x}"}})
        return sorted(rule["flow"].strip() for rule in switch["rules"])

    def hosts(self):
        """Hardware address: (switch's number, port)."""
        return {host["mac"]: (int(host["at"]["switch"], 16), host["at"]["port"]) for host in self.show("hosts")}

    def stop(self):
        """Ends it as a user would; fails if it does not end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("maple run did not end 10 s after an interrupt") from None
