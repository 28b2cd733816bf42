"""`maple check` finds what policies read and Maple can't track, names the line, and leaves honest policies alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GUIDE = EXAMPLES.parent / "docs/policy-guide.md"
MAPLE = [sys.executable, "-m", "maple"]
HEADER = "import os, random, time, itertools, datetime\nfrom pathlib import Path\nfrom maple import *\n\n"

# What a policy does, and what is said of the line that ends with `# here`.
SUSPICIOUS = {
    "a clock": (
        "def f(pkt, net):\n    return drop() if time.time() % 2 > 1 else flood()  # here",
        "`time.time()`: the",
    ),
    "a clock imported inside": (
        "def f(pkt, net):\n    from datetime import datetime as dt\n    hour = dt.now().hour  # here\n"
        "    return drop() if hour > 7 else flood()",
        "the answer depends on the time",
    ),
    "chance": ("def f(pkt, net):\n    return random.choice([drop(), flood()])  # here", "`random.choice()`: every run"),
    "chance of an own generator": (
        "rng = random.Random(7)\ndef f(pkt, net):\n    return drop() if rng.random() > 0.5 else flood()  # here",
        "`rng.random()`: every run answers otherwise",
    ),
    "a file": (
        "def f(pkt, net):\n    with open('/etc/hostname') as file:  # here\n        return to(len(file.read()))",
        "`open()`: a change of the file is not seen",
    ),
    "the hash of a text": (
        "def f(pkt, net):\n    return to(1 + hash(str(pkt.ipv4_src)) % 2)  # here",
        "another number in each process",
    ),
    "a path": (
        "FILE = Path('/etc/hostname')\ndef f(pkt, net):\n    return to(len(FILE.read_text()))  # here",
        "of the file",
    ),
    "an unnamed path": (
        "def f(pkt, net):\n    return flood() if Path('x').exists() else drop()  # here",
        "of the file",
    ),
    "the environment": (
        "def f(pkt, net):\n    return to(int(os.environ['PORT']))  # here",
        "`os.environ`: read it once",
    ),
    "the environment by get": ("def f(pkt, net):\n    return to(os.environ.get('PORT', 1))  # here", "read it once"),
    "a counter": (
        "count = 0\ndef f(pkt, net):\n    global count\n    count += 1  # here\n    return to(1 + count % 2)",
        "keep it in a Var or a Table",
    ),
    "a dictionary": (
        "seen = {}\ndef f(pkt, net):\n    seen[int(pkt.eth_src)] = 1  # here\n    return flood()",
        "`seen` is changed here",
    ),
    "a list, by a method": (
        "seen = []\ndef f(pkt, net):\n    seen.append(1)  # here\n    return flood()",
        "`seen` is changed here",
    ),
    "an attribute of an object": (
        "class State:\n    n = 0\nstate = State()\ndef f(pkt, net):\n    state.n += 1  # here\n    return flood()",
        "`state` is changed here",
    ),
    "an attribute of a module": (
        "import string\ndef f(pkt, net):\n    string.mine = 1  # here\n    return flood()",
        "`string` is changed here",
    ),
    "a closure": (
        "def make():\n    n = 0\n    def f(pkt, net):\n        nonlocal n\n        n += 1  # here\n"
        "        return to(n)\n    return f\nf = make()",
        "`n` is changed here",
    ),
    "a default value": (
        "def note(pkt, seen=[]):\n    seen.append(int(pkt.eth_src))  # here\n    return len(seen)\n"
        "def f(pkt, net):\n    return to(note(pkt))",
        "one object for all calls",
    ),
    "an iterator": (
        "turn = itertools.cycle([1, 2])\ndef f(pkt, net):\n    return to(next(turn))  # here",
        "gives another value each time",
    ),
    "a global that a thread changes": (
        "mode = 'day'\ndef night():\n    global mode\n    mode = 'night'\n"
        "def f(pkt, net):\n    return drop() if mode == 'night' else flood()  # here",
        "`mode` is a global that line 8 changes",
    ),
    "a set that a thread changes": (
        "bad = set()\ndef watch():\n    bad.add(1)\n"
        "def f(pkt, net):\n    return drop() if int(pkt.eth_src) in bad else flood()  # here",
        "`bad` is a global that line 7 changes",
    ),
    "the order of a set": (
        "ports = {'a', 'b'}\ndef f(pkt, net):\n    for one in ports:  # here\n        return to(len(one))",
        "the order of the set `ports`",
    ),
    "the first of a set": (
        "def f(pkt, net):\n    hosts = {str(at) for at in net.hosts()}\n    return to(len(next(iter(hosts))))  # here",
        "the order of the set `hosts`",
    ),
    "a method of an own class": (
        "class Line:\n    def fits(self, pkt):\n        return time.monotonic() > 5  # here\nLINES = [Line()]\n"
        "def f(pkt, net):\n    return drop() if any(line.fits(pkt) for line in LINES) else flood()",
        "`time.monotonic()`",
    ),
}

HONEST = """
    import os, random, time
    from dataclasses import dataclass
    from maple import *

    RULES = {}
    SERVERS = ["00:00:00:00:00:03", "00:00:00:00:00:04"]
    TRUSTED = {"00:00:00:00:00:01", "00:00:00:00:00:02"}
    SALT = random.randrange(100)
    LIMIT = int(os.environ.get("LIMIT", "80"))
    blocked, mode = Table("blocked"), Var("mode", default="day")
    LAST = 0

    def rule(port, answer):
        RULES[port] = answer

    rule(22, drop())
    rule(23, drop())

    @dataclass
    class Memo:
        ways: list

        def add(self, way):
            self.ways.append(way)

    def watch():
        while True:
            blocked["x"] = time.time()
            mode.value = "night"
            time.sleep(3600)

    @policy
    def f(pkt, net):
        seen, memo = {}, Memo([])
        seen["a"] = 1
        memo.add(flood())
        if pkt.eth_src in blocked or mode.value == "night":
            return drop()
        blocked.get("y")
        for mac in TRUSTED:
            if pkt.eth_dst == mac:
                return drop()
        ways = [net.shortest_path(net.locate(pkt.eth_src), at) for at in map(net.locate, sorted(TRUSTED)) if at]
        if pkt.tcp_dst == LIMIT:
            return multicast(ways) if ways else drop()
        server = SERVERS[(int(pkt.ipv4_src) + SALT) % 2] if pkt.ipv4_src != None else SERVERS[0]
        return RULES.get(pkt.tcp_dst, flood()).set(eth_dst=server)
    """


def check(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*MAPLE, "check", str(path), "--rounds", "1", "--pause", "0", "--packets", "200", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def suspicions(text: str, path: Path) -> list[tuple[int, str]]:
    """What the static pass says of a file, in this process."""
    from maple import _check, _policy

    path.write_text(text)
    _policy.load(str(path))
    return [(line, told) for _, line, told, is_untracked in _check.inspect_policy(str(path), None) if is_untracked]


@pytest.mark.parametrize("what", SUSPICIOUS)
def test_a_line_that_reads_what_is_not_tracked_is_named(what: str, tmp_path: Path) -> None:
    body, says = SUSPICIOUS[what]
    text = HEADER + body + "\n\npolicy_of_file = policy(f)\n"
    (line,) = [number for number, one in enumerate(text.splitlines(), 1) if one.endswith("# here")]
    found = suspicions(text, tmp_path / "mine.py")
    assert [number for number, _ in found] == [line], found
    assert says in found[0][1]
    meant = text.replace("# here", "# untracked: ok")
    assert suspicions(meant, tmp_path / "meant.py") == []


def test_honest_policies_are_left_alone(tmp_path: Path) -> None:
    assert suspicions(textwrap.dedent(HONEST), tmp_path / "honest.py") == []
    done = check(tmp_path / "honest.py")
    assert done.returncode == 0, done.stdout + done.stderr


POLICIES = sorted(path.stem for path in EXAMPLES.glob("*.py") if "@policy" in path.read_text())


@pytest.mark.parametrize("example", POLICIES)
def test_the_examples_pass(example: str) -> None:
    done = check(EXAMPLES / f"{example}.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no untracked state was seen" in done.stdout


def test_the_policies_of_the_guide_pass(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    whole = [block for block in blocks if "@policy\n" in block]
    assert len(whole) >= 4
    for number, block in enumerate(whole):
        assert suspicions("from maple import *\n" + block, tmp_path / f"guide{number}.py") == []


HIDDEN = """
    from maple import policy, drop, flood

    memory = {}
    remember = memory.__setitem__

    @policy
    def mine(pkt, net):
        if pkt.tcp_dst == 4000:
            remember("seen", True)
        if "seen" in memory and pkt.ip_proto == 17:
            return drop()
        return flood()
    """


def test_running_twice_finds_what_reading_the_source_does_not(tmp_path: Path) -> None:
    path = tmp_path / "hidden.py"
    assert suspicions(textwrap.dedent(HIDDEN), path) == []
    done = check(path)
    assert done.returncode == 1
    assert re.search(rf"^{path}:\d+: two runs on the same packet and state differ here", done.stdout, re.MULTILINE)
    assert re.search(r"^    first   (test|route|drop)", done.stdout, re.MULTILINE)
    assert done.stdout.endswith("the policy depends on untracked state\n")
    told = json.loads(check(path, "--json").stdout)
    assert told["source"] == [] and told["runs"][0]["at"]["file"] == str(path)
    assert told["runs"][0]["packet"]["frame"]
    assert told["coverage"]["packets"] <= 200
    # The two questions of a flood lie behind the line that differs.
    assert told["coverage"]["unexplored"] <= 2


@pytest.mark.parametrize(
    ("body", "says", "fails_on"),
    [
        ("    return 1 / 0", ["ZeroDivisionError: division by zero", "line 7, in f"], "fails on 28 of 28 packets"),
        ("    if pkt.tcp_dst == 22:\n        return drop()", ["the policy returned None"], " of 40 packets"),
        ("    return to(1).set(udp_dst=53)", ["can't set udp_dst: the packet has no such field"], " of 74 packets"),
        ("    while True:\n        pass", ["ran longer than", "no more packets were tried"], "fails on 3 of 3 packets"),
    ],
)
def test_a_policy_that_fails_does_not_pass(body: str, says: list[str], fails_on: str, tmp_path: Path) -> None:
    policy = tmp_path / "policy.py"
    policy.write_text(f"{HEADER}@policy\ndef f(pkt, net):\n{body}\n")
    done = check(policy, "--policy-time-limit", "200ms")
    assert done.returncode == 1, done.stdout + done.stderr
    assert all(text in done.stdout for text in says), done.stdout
    assert fails_on in done.stdout.splitlines()[-1], done.stdout
    told = json.loads(check(policy, "--policy-time-limit", "200ms", "--json").stdout)
    assert sum(failure["count"] for failure in told["failures"]) == told["coverage"]["failed"] > 0


def test_a_route_that_leads_nowhere_but_back_is_reported(tmp_path: Path) -> None:
    policy = tmp_path / "policy.py"
    policy.write_text(f"{HEADER}@policy\ndef f(pkt, net):\n    return to(int(pkt.in_port))\n")
    done = check(policy)
    assert f"{policy}:7: the route of" in done.stdout and "to(IN_PORT) does" in done.stdout, done.stdout
    assert done.returncode == 0, "it may be meant"
    assert json.loads(check(policy, "--json").stdout)["routes_back"][0]["at"] == f"{policy}:7"


def test_a_policy_that_writes_for_each_packet_is_told_from_one_that_writes_once(tmp_path: Path) -> None:
    policy = tmp_path / "policy.py"
    counts = (
        f'{HEADER}from maple import Table\nseen = Table("seen")\n\n@policy\ndef f(pkt, net):\n'
        "    seen[pkt.eth_src] = seen.get(pkt.eth_src, 0) + 1\n    return flood()\n"
    )
    policy.write_text(counts)
    line = counts[: counts.index("    seen[")].count("\n") + 1
    done = check(policy)
    assert f"{policy}:{line}: warning: the policy writes here" in done.stdout, done.stdout
    assert done.returncode == 0, "it is sound"
    assert json.loads(check(policy, "--json").stdout)["writes_each"][0]["at"] == f"{policy}:{line}"
    once = "    if pkt.eth_src not in seen:\n        seen[pkt.eth_src] = True\n"
    policy.write_text(counts.replace("    seen[pkt.eth_src] = seen.get(pkt.eth_src, 0) + 1\n", once))
    assert "writes here" not in check(policy).stdout


def test_a_policy_that_sleeps_is_named_and_the_check_comes_to_an_end(tmp_path: Path) -> None:
    """Such a check took 71 s."""
    policy = tmp_path / "policy.py"
    policy.write_text(f"{HEADER}@policy\ndef f(pkt, net):\n    time.sleep(0.5)\n    return flood()\n")
    done = check(policy)
    assert done.returncode == 1
    assert f"{policy}:7: `time.sleep()`: nothing else is decided meanwhile" in done.stdout, done.stdout
    assert re.search(r"warning: the policy takes \d{3,} ms .*; no more packets were tried", done.stdout), done.stdout
    assert done.stdout.splitlines()[-1] == "no untracked state was seen, but the policy waits"
    told = json.loads(check(policy, "--json").stdout)
    assert [one["is_untracked"] for one in told["source"]] == [False]
    assert told["gave_up"] and told["slow_ms"] >= 500 and told["coverage"]["runs"] < 20, "it sleeps for 5 s in all"


def test_what_a_policy_prints_is_not_in_the_report(tmp_path: Path) -> None:
    policy = tmp_path / "policy.py"
    policy.write_text(
        f"{HEADER}print('loading')\n\n@policy\ndef f(pkt, net):\n    print('deciding')\n    return flood()\n"
    )
    done = check(policy, "--json")
    assert json.loads(done.stdout)["coverage"]["failed"] == 0
    assert "loading" in done.stderr and "deciding" in done.stderr


@pytest.mark.parametrize(
    ("first", "rules", "warns"),
    [
        ("pkt.eth_dst.is_multicast", 999_000, []),
        ("net.locate(pkt.eth_dst) is None", 999_000, []),
        (
            "net.locate(pkt.eth_src) is None or pkt.eth_dst.is_multicast",
            999_000,
            ["a flood rule for each source, 1000"],
        ),
        ("pkt.tcp_src.value == 7 or pkt.eth_dst.is_multicast", 999_000, ["a rule for each connection", "a flood rule"]),
        ("pkt.tcp_dst in {23} or pkt.eth_dst.is_multicast", 999_000, ["a rule for each connection", "a flood rule"]),
        ("pkt.eth_dst.is_multicast or pkt.tcp_dst < 1024 and pkt.tcp_dst in {23}", 999_000, []),
    ],
)
def test_what_multiplies_rules_is_reported_with_its_lines(
    first: str, rules: int, warns: list[str], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.py"
    policy.write_text(
        f"{HEADER}@policy\ndef f(pkt, net):\n    if {first}:\n        return flood()\n"
        "    dst = net.locate(pkt.eth_dst)\n"
        "    return net.shortest_path(net.locate(pkt.eth_src), dst) if dst else flood()\n"
    )
    done = check(policy, "--look-ups", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("warning: ")]
    assert all(any(text in line for line in told) for text in warns) and bool(told) == bool(warns), done.stdout
    assert re.search(rf"rules for 1000 hosts +{rules} .*pair that talks; eth_dst \({policy}:", done.stdout), done.stdout
    kinds = json.loads(check(policy, "--hosts", "20", "--look-ups", "0", "--json").stdout)["rules"]
    assert {"per": "pair that talks", "hosts": 20, "rules": 380}.items() <= next(
        kind for kind in kinds if kind["per"].startswith("pair")
    ).items()


def test_a_policy_that_looks_addresses_up_has_no_rule_for_each_pair(tmp_path: Path) -> None:
    policy = tmp_path / "policy.py"
    policy.write_text(
        f"{HEADER}@policy\ndef f(pkt, net):\n    dst = net.locate(pkt.eth_dst)\n"
        "    return net.shortest_path(net.locate(pkt.eth_src), dst) if dst else flood()\n"
    )
    done = check(policy)
    assert done.returncode == 0 and "rules for 1000 hosts" not in done.stdout, done.stdout + done.stderr
    assert re.search(rf"^look-ups +2 .*hosts\[eth_dst\] \({policy}:\d", done.stdout, re.MULTILINE), done.stdout
    assert "warning" not in done.stdout
    told = json.loads(check(policy, "--json").stdout)
    looked_up = sorted(one["look_up"] for one in told["look_ups"])
    assert told["rules"] == [] and looked_up == ["hosts[eth_dst]", "hosts[eth_src] is in_port"]


def test_a_check_needs_a_policy_and_a_capture_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "no.pcap"
    path.write_bytes(b"not a capture")
    done = check(EXAMPLES / "shortest_path.py", "--pcap", str(path))
    assert done.returncode == 1 and f"{path}: it is not a capture" in done.stderr
    assert check(tmp_path / "nothing.py").returncode == 2
    handler = check(EXAMPLES / "learning_switch_handler.py")
    assert handler.returncode == 2 and "is a handler" in handler.stderr
    assert check(EXAMPLES / "shortest_path.py", "--network", "star:4").returncode == 2
