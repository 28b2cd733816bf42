"""Access lists from Python and from the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from conftest import H1, H2
from maple import Policy, acl, drop, emulate, flood, tiers, to
from maple.testing import Bench, frame
from test_command import Running, maple

ROOT = Path(__file__).parents[2]
NO_TELNET = {"version": 1, "default": "allow", "rules": [{"action": "deny", "service": "tcp/23"}]}


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def run_maple(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "maple", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def route(bench: Bench, policy: Policy, **ports: int) -> str:
    packet = frame(eth_src=H1, eth_dst=H2, ipv4_src="10.0.0.1", ipv4_dst="10.0.0.2", **ports)
    decision = bench.decide(policy, packet)
    assert decision.error is None, decision.error
    return str(decision.route)


def test_what_a_list_allows_is_decided_by_allow_and_what_it_denies_is_dropped(bench: Bench) -> None:
    policy = acl(NO_TELNET, allow=to(2))
    assert route(bench, policy, tcp_dst=23) == "<route: drop>"
    assert route(bench, policy, tcp_dst=22) == "<route: to 2>"
    assert route(bench, acl(NO_TELNET).then(to(2)), udp_dst=23) == "<route: to 2>"


def test_lists_are_asked_in_turn_and_what_all_pass_passes(bench: Bench) -> None:
    admin = {"version": 1, "default": "pass", "rules": [{"action": "deny", "service": "tcp/23"}]}
    tenant = {
        "version": 1,
        "default": "pass",
        "rules": [
            {"action": "allow", "service": "tcp/20-30", "queue": 1, "mirror": "2:1"},
            {"action": "pass", "service": "udp"},
        ],
    }
    policy = tiers(acl(admin, tenant, allow=to(2)), default=drop())
    assert route(bench, policy, tcp_dst=23) == "<route: drop>"
    assert route(bench, policy, udp_dst=22) == "<route: drop>"
    assert route(bench, acl(admin, tenant, allow=to(2)).then(to(2)), udp_dst=22) == "<route: to 2>"
    assert "queue 1" in route(bench, policy, tcp_dst=22)


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ({"version": 1, "rules": [{"action": "alow"}]}, "<acl 1>:1:37: `action` is allow or deny or pass"),
        ({"version": 1, "default": "deny", "tests": ["any -> any allowed"]}, "a test fails: any -> any allowed"),
    ],
)
def test_errors_name_the_place(document: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match="acl 1") as raised:
        acl(document)
    assert error in str(raised.value)


def test_other_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="at least one list"):
        acl()
    with pytest.raises(TypeError, match="files and dictionaries, not 5"):
        acl(5)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        acl("no-such-file.yaml")


def test_the_list_of_the_page_holds_what_it_expects(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/access-lists.md").read_text()
    path = write(tmp_path, "campus.yaml", page.split("```yaml\n")[1].split("```")[0])
    done = run_maple("acl", "test", path)
    assert done.returncode == 0 and "2 tests, 0 failed" in done.stdout, done.stdout
    assert run_maple("acl", "lint", path).returncode == 0


OLD = """version: 1
rules:
  - {action: deny, name: a, from: 10.0.0.0/8}
  - {action: allow, name: b, from: 10.1.0.0/16}
  - {action: allow, name: c, from: 192.168.0.0/16, service: tcp/80}
tests: ["192.168.1.1 -> 10.0.0.1 tcp/80 allowed", "192.168.1.1 -> 10.0.0.1 tcp allowed"]
"""


def test_lint_names_rules_that_never_match(tmp_path: Path) -> None:
    done = run_maple("acl", "lint", write(tmp_path, "old.yaml", OLD))
    assert done.returncode == 1
    assert "old.yaml:4: shadowed: rule b" in done.stdout and "3 rules" in done.stdout
    fine = OLD.replace("10.1.0.0/16", "172.16.0.0/12")
    assert run_maple("acl", "lint", write(tmp_path, "fine.yaml", fine)).returncode == 0
    found = run_maple("acl", "lint", "--json", tmp_path / "old.yaml").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in found] == ["shadowed"]


def test_tests_in_the_file_print_a_packet_if_they_fail(tmp_path: Path) -> None:
    done = run_maple("acl", "test", write(tmp_path, "old.yaml", OLD))
    assert done.returncode == 1
    assert "192.168.1.1 -> 10.0.0.1 tcp allowed: not so for" in done.stdout
    assert "`default: deny`" in done.stdout and "2 tests, 1 failed" in done.stdout


OPEN = """version: 1
rules:
  - {action: allow, name: out, from: 10.0.0.1, to: 203.0.113.0/24, service: tcp, replies: true}
"""


def test_replies_that_may_open_connections_are_named_wherever_the_list_is_read(bench: Bench, tmp_path: Path) -> None:
    """203.0.113.9:40000 -> 10.0.0.1:22 is a new connection, and passed without a word."""
    path = write(tmp_path, "open.yaml", OPEN)
    named = r"open\.yaml:3: rule out \(.*open\.yaml:3\) lets in more than replies: .*tcp_src"
    done = run_maple("acl", "lint", path)
    assert done.returncode == 1 and "lets in more than replies" in done.stdout + done.stderr, done
    done = run_maple("run", path, "--emulate", "single:2", "--traffic", "100ms")
    assert re.search(f"warning: .*{named}", done.stderr), done
    with pytest.warns(UserWarning, match=named):
        policy = acl(path, allow=to(2))
    packet = frame(eth_src=H1, eth_dst=H2, ipv4_src="203.0.113.9", ipv4_dst="10.0.0.1", tcp_src=40_000, tcp_dst=22)
    assert str(bench.decide(policy, packet).route) == "<route: to 2>"
    closed = write(tmp_path, "closed.yaml", OPEN.replace("service: tcp", "service: tcp, source_ports: 32768-60999"))
    assert run_maple("acl", "lint", closed).returncode == 0
    assert str(bench.decide(acl(closed, allow=to(2)), packet).route) == "<route: drop>"


def test_test_and_lint_name_what_does_not_hold_for_fragments(tmp_path: Path) -> None:
    text = (
        "version: 1\nrules:\n  - {action: deny, service: udp/53}\n  - {action: allow, service: udp}\n"
        "tests: ['any -> 10.0.0.9 udp/53 denied']\n"
    )
    listed = write(tmp_path, "list.yaml", text)
    done = run_maple("acl", "test", listed)
    assert done.returncode == 0 and "1 test, 0 failed" in done.stdout
    assert "list.yaml:5: any -> 10.0.0.9 udp/53 denied: not for fragments" in done.stdout
    assert "list.yaml:4) says allow" in done.stdout
    done = run_maple("acl", "lint", listed)
    assert done.returncode == 1 and "list.yaml:3: fragments: rule" in done.stdout
    denied = write(tmp_path, "denied.yaml", text + "fragments: deny\n")
    assert run_maple("acl", "lint", denied).returncode == 0
    assert "fragments" not in run_maple("acl", "test", denied).stdout


def test_fragments_are_denied_or_allowed_before_the_rules(bench: Bench) -> None:
    rules = [{"action": "deny", "service": "udp/53"}, {"action": "allow", "service": "udp"}]
    for key, wanted in (("match", "to 2"), ("allow", "to 2"), ("deny", "drop")):
        policy = acl({"version": 1, "fragments": key, "rules": rules}, allow=to(2))
        # As switches show any fragment of UDP.
        assert route(bench, policy, udp_src=0, udp_dst=0) == f"<route: {wanted}>"
        assert route(bench, policy, udp_src=4000, udp_dst=54) == "<route: to 2>"
        assert route(bench, policy, udp_src=4000, udp_dst=53) == "<route: drop>"


def test_diff_prints_packets_and_the_rules_of_both(tmp_path: Path) -> None:
    old, new = write(tmp_path, "old.yaml", OLD), write(tmp_path, "new.yaml", OLD.replace("tcp/80", "tcp/80-81"))
    done = run_maple("acl", "diff", old, new)
    assert done.returncode == 2
    assert "deny → allow: " in done.stdout and "tcp_dst=81" in done.stdout and "now rule c" in done.stdout
    assert run_maple("acl", "diff", old, old).returncode == 0
    assert run_maple("acl", "diff", old, tmp_path / "none.yaml").returncode == 1


def test_explain_says_which_rules_decide_about_packets_between_two_places(tmp_path: Path) -> None:
    text = (
        "version: 1\ngroups: {office: 10.0.2.0/24, web: 10.0.9.1}\nrules:\n"
        "  - {name: ssh, action: deny, from: office, service: tcp/22}\n  - {action: allow, to: web}\n"
    )
    listed = write(tmp_path, "list.yaml", text)
    one = run_maple("acl", "explain", listed, "10.0.2.7", "web", "tcp/22")
    assert (one.returncode, one.stdout) == (0, f"deny by rule ssh ({listed}:4)\n")
    some = run_maple("acl", "explain", listed, "office", "web")
    assert [line.split(": ")[0] for line in some.stdout.splitlines()] == [
        f"deny by rule ssh ({listed}:4)",
        f"allow by rule ({listed}:5)",
    ]
    told = [
        json.loads(line) for line in run_maple("acl", "explain", "--json", listed, "any", "any").stdout.splitlines()
    ]
    assert [one["action"] for one in told] == ["deny", "allow", "allow", "deny"], "the third is neighbour discovery"
    wrong = run_maple("acl", "explain", listed, "ofice", "web")
    assert wrong.returncode == 2 and "did you mean `office`?" in wrong.stderr
    listed.write_text(text.replace("deny", "denie").replace("to: web", "two: web"))
    wrong = run_maple("acl", "explain", listed, "office", "web")
    assert wrong.returncode == 2 and wrong.stderr.count("list.yaml:") == 2, "both lines are told"


def test_a_file_that_is_no_list_is_a_usage_error(tmp_path: Path) -> None:
    bad = write(tmp_path, "bad.yaml", "version: 1\nrulez: []\n")
    for command in (["acl", "lint", bad], ["run", bad, "--emulate", "single:2", "--traffic", "1s"]):
        done = run_maple(*command)
        assert done.returncode == 2
        assert "bad.yaml:2:1: an access list has no key `rulez`; did you mean `rules`?" in done.stderr


SAME = [
    {"version": 1, "rules": [{"action": "allow", "at": "1:2", "mirror": "a:3", "queue": 0, "vlan": ["none", 7]}]},
    {"version": 1, "rules": [{"action": "allow", "mirror": "00:00:00:00:00:00:00:01:3", "log": True}]},
    {"version": 1, "tests": ["10.0.0.1 -> any denied", {"expect": "10.0.0.1 → any tcp/22 denied"}]},
    {"version": 2},
    {"rules": []},
    {"version": 1, "rulez": []},
    {"version": 1, "rules": [{"action": "alow"}]},
    {"version": 1, "rules": [{"from": "any"}]},
    {"version": 1, "rules": [{"action": "pass", "mirror": "1"}]},
    {"version": 1, "rules": [{"action": "pass", "queue": -1}]},
    {"version": 1, "tests": [{"expekt": "10.0.0.1 -> any denied"}]},
    {"version": 1, "tests": ["10.0.0.1 -> any maybe"]},
]


@pytest.mark.parametrize("document", SAME)
def test_the_schema_takes_what_the_reader_takes(document: dict[str, object]) -> None:
    schema = json.loads(run_maple("acl", "schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    is_valid = jsonschema.Draft202012Validator(schema).is_valid(document)
    try:
        acl(document)
    except ValueError:
        assert not is_valid
    else:
        assert is_valid


def test_a_list_is_a_whole_policy_whose_packets_cause_no_miss(tmp_path: Path) -> None:
    rule = "{action: allow, service: [icmp, tcp/80], name: web, comment: for now}"
    denied = "{action: deny, service: udp/33434, at: '1:1'}"
    text = f"version: 1\nname: campus\nforward: flood\nrules:\n  - {denied}\n  - {rule}\n"
    path = write(tmp_path, "whole.yaml", text)
    done = run_maple("run", path, "--emulate", "ring:4", "--traffic", "3s", "--rate", "50", "--allow-drops")
    assert done.returncode == 0, done.stderr
    assert f"# campus/web (for now): {path}:6" in done.stdout
    assert "treated otherwise than f says           0" in done.stdout
    assert "misses (decided by f)                   0" in done.stdout


def test_ranges_that_a_switch_cannot_match_take_no_rules_beforehand() -> None:
    ranges = {"version": 1, "default": "allow", "rules": [{"action": "deny", "service": "tcp/1024-65535"}]}
    one = {"version": 1, "default": "allow", "rules": [{"action": "deny", "service": "tcp/1024"}]}
    counts = []
    for document in (ranges, one):
        # OpenFlow 1.3 has no masks for ports, and the emulated switch takes none.
        net = emulate("linear:1", acl(document, allow=flood()))
        net.run(5)
        counts.append(len(net.switches["s1"].rules))
    assert counts[0] <= counts[1] + 2, counts


def test_a_list_can_be_checked_and_its_constraints_proved(tmp_path: Path) -> None:
    text = "version: 1\narp: deny\nforward: flood\nrules: [{action: allow, service: [icmp, tcp/80]}]\n"
    done = run_maple("check", write(tmp_path, "whole.yaml", text))
    assert done.returncode == 0 and "no untracked state was seen" in done.stdout, done.stdout + done.stderr
    code = "guarded = guard(acl('whole.yaml', allow=flood()), max_hops(9))"
    policy = write(tmp_path, "guarded.py", f"from maple import acl, flood, guard, max_hops\n{code}\n")
    command = [sys.executable, "-m", "maple", "check", policy.name, "--constraints"]
    proved = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert proved.returncode == 0 and "proved" in proved.stdout, proved.stdout + proved.stderr


def test_packets_of_a_rule_that_logs_are_reported(tmp_path: Path) -> None:
    text = (
        "version: 1\nname: campus\nforward: flood\ndefault: allow\nrules: [{action: deny, service: tcp, log: true}]\n"
    )
    path = write(tmp_path, "log.yaml", text)
    done = run_maple("run", path, "--emulate", "single:2", "--traffic", "2s", "--rate", "20", "--allow-drops")
    assert done.returncode == 0, done.stderr
    assert f"deny by campus: {path}:5: " in done.stdout + done.stderr


HITS = """
version: 1
default: deny
rules:
  - {name: quiet, action: deny, from: 10.0.0.2, to: 10.0.0.3, service: icmp}
  - {name: logged, action: deny, from: 10.0.0.3, to: 10.0.0.1, service: icmp, log: true}
  - {name: pings, action: allow, service: icmp}
"""


def hits(shown: str) -> list[dict[str, int]]:
    """The packets that each rule has decided, by its name or setting, each time that the list was shown."""
    row = re.compile(r" +(\d+) +\d+  (?:allow|deny) +(?:- \{name: (\w+)|`(\w+): )")
    rows = [row.match(line) for line in shown.splitlines()]
    counted = [(one[2] or one[3], int(one[1])) for one in rows if one]
    return [dict(counted[at : at + 6]) for at in range(0, len(counted), 6)]


def test_each_packet_counts_once_for_the_rule_that_decides_it(tmp_path: Path) -> None:
    path = write(tmp_path, "hits.yaml", HITS.strip() + "\n")
    show = "show access-list\n"
    lines = f"h1 ping h2 4\nnot h2 ping h3 3\nnot h3 ping h1 2\n{show}"
    lines += f"link s1 s2 down\nlink s1 s2 up\nwait 2s\nh1 ping h2 2\nwait 2s\n{show}"
    command = [sys.executable, "-m", "maple", "run", str(path), "--emulate", "linear:3", "--console"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    before, after = hits(done.stdout)
    # Requests and replies; in between f decides again what the link carried. Counters may be a second old.
    assert (before["pings"], after["pings"]) == (8, 12), done.stdout
    for shown in (before, after):
        assert (shown["quiet"], shown["logged"], shown["default"]) == (3, 2, 0), done.stdout


def validated(answer: list[dict[str, Any]], request: str) -> list[dict[str, Any]]:
    """The answer to a request, which has the form that the schema of the control socket says."""
    schema = json.loads((ROOT / "crates/maple-controller/src/control/answers.json").read_text())
    jsonschema.validate(answer, {"$defs": schema["$defs"], "$ref": f"#/$defs/answer to {request}"})
    return answer


def test_a_plan_of_a_list_says_what_it_treats_differently_and_counting_begins_anew(tmp_path: Path) -> None:
    path = write(tmp_path, "rules.yaml", HITS.strip() + "\n")
    folder = tmp_path / "controller"
    folder.mkdir()
    running = Running(folder, str(path))
    try:
        rules = path.read_text().replace(
            "  - {name: pings", "  - {name: erp, action: allow, service: tcp/8443}\n  - {name: pings"
        )
        path.write_text(rules)
        done = maple("plan", "--control", running.control)
        assert done.returncode == 2, done.stderr
        assert done.stdout.startswith(
            f"access list {path} treats differently:\n"
            "  deny → allow: eth_type=0x800, ip_proto=6, tcp_dst=8443 (and 1 more like it)\n"
            f"      was `default: deny` of {path}\n"
            f"      now rule erp ({path}:6)\n"
        ), done.stdout
        done = maple("reload", "--control", running.control)
        assert done.returncode == 0, done.stderr
        plan = json.loads(maple("plan", "--json", "--control", running.control).stdout)
        validated(plan, "reload.plan")
        assert plan["lists"] == [{"file": str(path), "differences": [], "complete": True}]
        shown = json.loads(maple("show", "access-list", "rules.yaml", "--json", "--control", running.control).stdout)
        (shown,) = validated(shown, "show.access_lists")
        assert [rule["rule"].split(" (")[0] for rule in shown["rules"]][:4] == [
            "rule quiet",
            "rule logged",
            "rule erp",
            "rule pings",
        ]
        assert {rule["packets"] for rule in shown["rules"]} == {0}
        refused = maple("show", "access-list", "other.yaml", "--control", running.control)
        assert refused.returncode == 1 and f"its lists: {path}" in refused.stderr, refused
    finally:
        running.stop()
