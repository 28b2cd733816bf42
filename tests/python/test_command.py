"""The `maple` command with Python policies: what it says, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MAPLE = [sys.executable, "-m", "maple"]
TOKEN = "the-token-of-admins"


def maple(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MAPLE, *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=cwd)


def wait_for(what: str, condition: object, timeout: float = 20.0) -> None:
    assert callable(condition)
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"still waiting for {what}"
        time.sleep(0.05)


class Running:
    """`maple run` on real sockets."""

    def __init__(self, folder: Path, policy: str, *arguments: str, address: str = "") -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = address or f"127.0.0.1:{probe.getsockname()[1]}"
        self.control = str(folder / "control")
        self.log = folder / "log"
        command = [*MAPLE, "run", policy, "--listen", self.address, "--control", self.control, *arguments]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for("the control socket", lambda: Path(self.control).exists() or self.process.poll() is not None)
        except BaseException:
            self.process.kill()
            raise

    def show(self, what: str) -> object:
        done = maple("show", what, "--json", "--control", self.control)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        # It is shown if the test fails.
        print(self.log.read_text())
        self.process.send_signal(how)
        return self.process.wait(10)

    def kill(self) -> None:
        """Ends it, if it still runs."""
        self.process.kill()
        self.process.wait(10)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path, str(EXAMPLES / "shortest_path.py")) as one:
        yield one


def test_emulate_and_run_connect_over_tcp_and_show_reports(running: Running) -> None:
    done = maple("emulate", "linear:2", "--controller", running.address, "--traffic", "1s")
    assert done.returncode == 0, done.stdout
    assert running.show("errors") == []
    hosts = running.show("hosts")
    assert isinstance(hosts, list)
    assert {host["mac"] for host in hosts} <= {"00:00:00:00:00:01", "00:00:00:00:00:02"}
    text = maple("show", "stats", "--control", running.control).stdout
    assert "misses" in text
    assert "host 00:00:00:00:00:01 found at 0000000000000001:1" in running.log.read_text()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_in_order(running: Running, how: signal.Signals) -> None:
    assert running.stop(how) == 0
    assert not Path(running.control).exists()
    assert "Traceback" not in running.log.read_text()


def test_an_interrupt_ends_a_demonstration_with_its_summary(tmp_path: Path) -> None:
    policy = str(EXAMPLES / "shortest_path.py")
    told = tmp_path / "told"
    with told.open("w") as out:
        process = subprocess.Popen([*MAPLE, "run", policy, "--emulate", "linear:2", "--traffic", "60s"], stdout=out)
    try:
        wait_for("a host to be found", lambda: " found at " in told.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
    assert "summary" in told.read_text()


def test_a_network_that_lost_flows_stays_for_its_page_and_the_status_says_so(tmp_path: Path) -> None:
    policy = tmp_path / "mine.py"
    policy.write_text("from maple import *\n@policy\ndef mine(pkt, net):\n    return drop()\n")
    told = tmp_path / "told"
    command = [*MAPLE, "run", str(policy), "--emulate", "linear:2", "--traffic", "1s", "--http", "127.0.0.1:0"]
    with told.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_for("the summary", lambda: "the network stays until Ctrl-C; " in told.read_text(), 90.0)
        text = told.read_text()
        address = re.search(r"until Ctrl-C; (?:page|HTTP API) at (http://[^/\s]+)/", text)
        assert address is not None, text
        with urllib.request.urlopen(f"{address[1]}/v1/drops") as answer:
            assert json.load(answer)["total"] >= 1
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 1
    finally:
        process.kill()
    failed, stays = text.find("\nfailed: "), text.find("\nthe network stays")
    assert text.find("\nsummary") < failed < stays, text
    assert told.read_text().splitlines()[-1].startswith("maple: ")


def test_a_policy_that_is_slow_is_warned_of_while_it_runs(tmp_path: Path) -> None:
    policy = tmp_path / "slow.py"
    policy.write_text(
        "import time\nfrom maple import flood, policy\n\n@policy\ndef f(pkt, net):\n"
        "    time.sleep(0.02)  # untracked: ok\n    str(pkt)\n    return flood()\n"
    )
    done = maple("run", str(policy), "--emulate", "linear:2", "--traffic", "2s", "--rate", "20")
    assert re.search(r"warning: the policy takes \d+ ms for a packet \(\d+ so far\)", done.stdout), done.stdout


@pytest.mark.parametrize("last_line", ["", "net = tiers(f, default=flood())\n"], ids=["alone", "as a part"])
def test_a_warning_of_untracked_state_names_the_read(tmp_path: Path, last_line: str) -> None:
    policy = tmp_path / "moody.py"
    policy.write_text(
        "import random\nfrom maple import drop, flood, policy, tiers\n\n@policy\ndef f(pkt, net):\n"
        "    if random.random() < 0.5:\n        return drop()\n    return flood()\n\n" + last_line
    )
    told = tmp_path / "told"
    with told.open("w") as out:
        command = [*MAPLE, "run", policy, "--emulate", "linear:2", "--traffic", "60s", "--check-rate", "100"]
        process = subprocess.Popen(command, stdout=out)
    try:
        says = f"warning: the policy depends on untracked state: {policy}:6: `random.random()`: "
        wait_for("the warning", lambda: says in told.read_text())
        process.send_signal(signal.SIGINT)
        process.wait(20)
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nosuchmodule\n", "ModuleNotFoundError: No module named 'nosuchmodule'"),
        ("def f(:\n", "SyntaxError: invalid syntax"),
        ("x = 1\n", "has no policy; decorate a function with @policy"),
        ("raise SystemExit(7)\n", "SystemExit: 7"),
    ],
)
def test_a_file_that_is_no_policy_is_refused_at_the_start(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    done = maple("run", str(path), "--emulate", "ring:4")
    assert done.returncode == 1
    assert message in done.stderr
    assert "importlib" not in done.stderr


def test_a_policy_of_one_argument_gets_an_error_that_quotes_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("from maple import *\n\n@policy\ndef f(pkt):\n    return flood()\n")
    done = maple("check", str(path))
    assert done.returncode == 1 and "_policy.py" not in done.stderr
    assert (
        "a policy takes two arguments, the packet and the network: def f(pkt, net); this one is def f(pkt)"
        in done.stderr
    )


def test_a_terminal_that_closes_stops_nothing(tmp_path: Path) -> None:
    running = Running(tmp_path, "builtin:flood")
    try:
        running.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert maple("show", "switches", "--control", running.control).returncode == 0
    finally:
        assert running.stop() == 0


def test_a_location_of_an_earlier_packet_is_refused_unless_it_was_read(tmp_path: Path) -> None:
    def told(kept: str) -> str:
        path = tmp_path / "keeps.py"
        path.write_text(
            "from maple import flood, policy\n\nKEPT = []\n\n@policy\ndef f(pkt, net):\n"
            "    dst = net.locate(pkt.eth_dst)\n    if pkt.eth_dst.is_multicast or dst is None:\n"
            "        return flood()\n"
            f"    KEPT.append({kept})\n    return net.shortest_path(net.locate(pkt.eth_src), KEPT[0])\n"
        )
        done = maple("run", str(path), "--emulate", "linear:3", "--traffic", "2s", "--open-routes", "--explore", "0")
        return done.stdout + done.stderr

    refused = "RuntimeError: a location belongs to a run of the policy that is over"
    assert refused in told("dst")
    assert refused not in told("(dst.switch, dst.port)")


def test_a_policy_prints_about_packets_that_came_and_about_no_others(tmp_path: Path) -> None:
    """Exploration runs the policy on packets that nobody has sent."""
    file, names = tmp_path / "talks.py", tmp_path / "names"
    file.write_text(
        "import logging\nimport sys\nfrom maple import flood, policy\n\n"
        f"logging.getLogger('names').addHandler(logging.FileHandler({str(names)!r}))\n\n@policy\ndef f(pkt, net):\n"
        "    there = net.locate(pkt.eth_dst)\n    if there is None:\n        return flood()\n"
        "    if pkt.ip_proto == 17:\n        print('a name')\n        logging.warning('a name, too')\n"
        "        logging.getLogger('names').warning('a name in a file')\n"
        "    if pkt.ip_proto == 132:\n        sys.stderr.writelines(['a talk\\n'])\n"
        "    return net.shortest_path(net.locate(pkt.eth_src), there)\n"
    )
    control, told = tmp_path / "control", tmp_path / "told"
    command = [*MAPLE, "run", str(file), "--emulate", "linear:2", "--control", str(control), "--console"]
    with told.open("w") as out:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True)
    try:
        assert process.stdin is not None
        print("pingall", file=process.stdin, flush=True)

        def open_questions() -> set[str]:
            done = maple("show", "tree", "--json", "--control", str(control))
            switches = [] if done.returncode else json.loads(done.stdout)
            explored = [switch["exploration"] for switch in switches if switch["exploration"]]
            is_over = len(explored) == 2 and all(of["current"] and of["stopped"] is None for of in explored)
            return {question["what"] for of in explored for question in of["open"]} if is_over else set()

        prints = "a packet that was tried has no rule: the policy prints for it"
        wait_for("the exploration", lambda: prints in open_questions())
        assert "a name" not in told.read_text() and "a talk" not in told.read_text()
        assert names.read_text() == ""
        print("h1 iperf h2 1s", file=process.stdin, flush=True)
        wait_for("what the policy prints", lambda: "WARNING:root:a name, too\n" in told.read_text())
        assert "\na name\n" in told.read_text() and "a talk" not in told.read_text()
        assert "a name in a file\n" in names.read_text()
        assert process.communicate(timeout=20) is not None and process.returncode == 0, told.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_a_policy_prints_comes_out_a_line_at_a_time(tmp_path: Path, unbuffered: str) -> None:
    file = tmp_path / "talks.py"
    printed = 'print("one", 1)\nprint("two", 2, file=sys.stderr)\n'
    file.write_text(f"import sys\nfrom maple import drop, policy\n{printed}@policy\ndef f(pkt, net): return drop()\n")
    # Each write is a message of its own.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(20)
    with ours, theirs:
        env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        command = [*MAPLE, "run", str(file), "--listen", "127.0.0.1:0", "--control", "none"]
        process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=env)
        try:
            assert [ours.recv(100), ours.recv(100)] == [b"one 1\n", b"two 2\n"]
        finally:
            process.kill()
            process.wait()


def test_policies_are_named_and_options_checked() -> None:
    for arguments, message in [
        (["run", "nothing.py"], "can't read nothing.py"),
        (["run", "builtin:nothing"], "there is no built-in policy"),
        (["run", "builtin:flood", "--ryu-rest"], "--ryu-rest needs --http ADDR"),
        (["run", "builtin:flood", "--emulate", "star:3"], "expected single:N, linear:N"),
        (["show", "hosts", "--control", "/nonexistent"], "no controller at /nonexistent"),
    ]:
        done = maple(*arguments)
        assert done.returncode == (1 if arguments[0] == "show" else 2)
        assert message in done.stderr
    for wrong in [
        ["run", "builtin:flood", "--traffic", "soon"],
        ["fly"],
        ["run", "builtin:flood", "--of", "1.4"],
        ["run", "builtin:flood", "--of", "1.0"],
        ["run", "builtin:flood", "--emulate", "ring:4", "--labels", "7-5"],
    ]:
        assert maple(*wrong).returncode == 2
    assert maple("--version").stdout.startswith("maple ")


ROUTES = (
    "routes are drop(), flood(), to(port), hops([…]), multicast([…]), "
    "pass_(), net.shortest_path(src, dst) and net.path(src, dst, cost=…)"
)

FAULTY = """
    from maple import policy, flood

    @policy
    def faulty(pkt, net):
        if pkt.tcp_dst == 22:
            raise ValueError(f"no ssh from port {pkt.tcp_src}")
        if pkt.tcp_dst == 80:
            while True:
                pass
        if pkt.tcp_dst == 443:
            return 5
        dst = net.locate(pkt.eth_dst)
        return flood() if dst is None else net.shortest_path(net.locate(pkt.eth_src), dst)
    """


def test_a_failing_policy_is_reported_once_and_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "faulty.py"
    path.write_text(textwrap.dedent(FAULTY))
    done = maple("run", str(path), "--emulate", "linear:3", "--traffic", "3s", "--policy-time-limit", "50ms")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"\d+ of \d+ flows did not end: the policy failed on \d+ packets", done.stderr), done.stderr
    told, _, summary = done.stdout.partition("\nsummary\n")
    assert told.count("ValueError: no ssh from port") == 1
    assert told.count("maple.PolicyTimeout: the policy ran longer than 50 ms") == 1
    wrong = f'File "{path}", line 4, in faulty: the policy returned 5 (int) after line 11, which is not a route'
    assert told.count(wrong) == 1
    assert f'File "{path}", line 7, in faulty' in told
    counted = re.findall(r"^ +(\d+) x (.*)", summary, re.MULTILINE)
    assert sorted(re.sub(r"from port \d+|line (9|10)", "", what) for _, what in counted) == [
        f'File "{path}", , in faulty: maple.PolicyTimeout: the policy ran longer than 50 ms',
        f"{wrong}; {ROUTES}",
        f'File "{path}", line 7, in faulty: ValueError: no ssh ',
    ]
    (total,) = re.findall(r"dropped because f failed +(\d+)", summary)
    assert sum(int(count) for count, _ in counted) == int(total)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('net.path((1, 1), (2, 1), cost="secrue")', 'links have no costs named "secrue"; '),
        ("to(77)", ":5: hop s1:77: there is no such port; switch s1 has the ports "),
    ],
)
def test_a_policy_that_fails_on_every_packet_is_a_failure(tmp_path: Path, answer: str, message: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"from maple import *\n@policy\ndef mine(pkt, net):\n    pkt.switch\n    return {answer}\n")
    done = maple("run", str(path), "--emulate", "linear:2", "--traffic", "1s")
    assert done.returncode == 1, done.stdout
    assert done.stderr.splitlines()[-1] == "maple: the policy failed on every packet"
    assert message in done.stdout
    assert f"{path}" in done.stdout
    assert "treated as f says" in done.stdout


def test_places_that_are_left_out_are_said_once_with_the_line_and_nothing_fails(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from maple import *\n"
        "@policy\n"
        "def mine(pkt, net):\n"
        "    here = (pkt.switch, int(pkt.in_port))\n"
        "    others = [(1, 1), (2, 1), (1, 77), (9, 3), (9, 4)]\n"
        "    return multicast([net.shortest_path(here, place) for place in others if place != here])\n"
    )
    done = maple("run", str(path), "--emulate", "linear:2", "--traffic", "1s")
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if "leaves out" in line]
    assert len(told) == 2, told
    text = "\n".join(sorted(told))
    assert re.search(r"mine\.py:6: the route leaves out \S+:77, where no packet can leave the network", text)
    assert re.search(r"mine\.py:6: the route leaves out the ports of switch 0+9, which is not there", text)
    assert "the policy failed" not in done.stdout


WATCHED = """
    import threading, time
    from maple import policy, drop, flood, Var

    closed = Var("closed", False)

    @policy
    def door(pkt, net):
        return drop() if closed.value else flood()

    def close():
        time.sleep({delay})
        closed.value = True

    threading.Thread(target=close, daemon=True).start()
    """


def test_state_written_by_a_thread_changes_the_network(tmp_path: Path) -> None:
    path = tmp_path / "door.py"
    path.write_text(textwrap.dedent(WATCHED.format(delay=4)))
    done = maple("run", str(path), "--emulate", "linear:2", "--traffic", "5s", "--allow-drops")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = [line.rsplit(maxsplit=1) for line in done.stdout.partition("summary\n")[2].splitlines()]
    numbers = {line[0].strip(): int(line[1]) for line in summary if len(line) == 2}
    assert 0 < numbers["ended well"] < numbers["flows opened"]


def test_output_that_does_not_fit_on_the_disk_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "maple.toml"
    file.write_text("workers = 1\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*MAPLE, "config", "check", str(file)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "maple: can't write to standard output: No space left on device (os error 28)\n"
