"""What a policy would change, and exactly that: `maple plan`, `maple apply`, `maple rollback`."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_command import MAPLE, Running, maple, wait_for

POLICY = """
    from helper import DENIED
    from maple import Table, costs, drop, flood, on, policy

    costs("far", {(1, 2): 3})
    blocked = Table("blocked")

    @policy
    def lists(pkt, net):
        for port in range(1, 20):
            if pkt.matches(tcp_dst=port):
                return drop() if port in DENIED else flood()
        return drop() if pkt.eth_src in blocked else flood()
    """

NONE = """
    from maple import Table, costs, drop, policy

    costs("far", {(1, 2): 7})
    costs("new", {(1, 2): 7})
    Table("fresh")["row"] = 1

    @policy
    def none(pkt, net):
        return drop() if pkt.eth_type == 0x806 else drop()
    """


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "helper.py").write_text("DENIED = {1}\n")
    (tmp_path / "lists.py").write_text(textwrap.dedent(POLICY))
    with Running(tmp_path, str(tmp_path / "lists.py"), "--workers", "2", "--explore=0") as one:
        yield one


@contextmanager
def talked(running: Running) -> Iterator[subprocess.Popen[bytes]]:
    """An emulated network of the controller, whose hosts have talked: nothing is decided any more."""
    command = [*MAPLE, "emulate", "linear:2", "--controller", running.address, "--console"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        assert process.stdin is not None
        process.stdin.write(b"pingall\n")
        process.stdin.flush()
        wait_for("decisions", lambda: leaves(running) >= 2)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def emulated(running: Running) -> Iterator[subprocess.Popen[bytes]]:
    with talked(running) as process:
        yield process


def leaves(running: Running) -> int:
    shown = running.show("stats")
    assert isinstance(shown, dict)
    return int(shown["engine"]["leaves"])


def at_rest(running: Running) -> None:
    """Waits until nothing is decided any more."""

    def is_at_rest() -> bool:
        before = running.show("rules")
        return plain(before) == plain(running.show("rules"))

    wait_for("a network at rest", is_at_rest)


def plain(shown: Any) -> dict[str, set[str]]:
    """The rules of each switch, as text."""
    return {switch["switch"]: {rule["flow"] for rule in switch["rules"]} for switch in shown}


def shape(rules: dict[str, set[str]]) -> dict[str, set[str]]:
    """The rules without the numbers that leaves, labels and routes happen to have."""
    numbers = r"cookie=[^,]*, |metadata[:=]0x[0-9a-f]+|dl_vlan=\d+|set_field:\d+->vlan_vid"
    return {switch: {re.sub(numbers, "", flow) for flow in flows} for switch, flows in rules.items()}


def ask(running: Running, *arguments: str) -> subprocess.CompletedProcess[str]:
    return maple(*arguments, "--control", running.control)


def planned(before: dict[str, set[str]], plan: Any) -> dict[str, set[str]]:
    """The rules that a plan leads to."""
    after = {switch: set(flows) for switch, flows in before.items()}
    for switch in plan["rules"]:
        flows = after[switch["switch"]]
        gone = {rule["flow"] for rule in switch["delete"]} | {rule["before"]["flow"] for rule in switch["change"]}
        assert gone <= flows, "only what is there is deleted"
        flows -= gone
        flows |= {rule["flow"] for rule in switch["add"]} | {rule["after"]["flow"] for rule in switch["change"]}
    return after


def test_a_plan_is_what_apply_does_and_rollback_undoes(
    running: Running, emulated: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    at_rest(running)
    before = plain(running.show("rules"))
    done = ask(running, "plan")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"no change: 0 of \d+ packets that .* go otherwise, and no rule changes\n", done.stdout), done
    (tmp_path / "none").mkdir()
    none, file = tmp_path / "none" / "none.py", tmp_path / "plan.json"
    none.write_text(textwrap.dedent(NONE))
    done = ask(running, "plan", str(none), "--out", str(file))
    assert done.returncode == 2, done.stderr
    assert re.search(r"^\d+ lose: these packets leave by fewer edge ports", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"lists\.py:13 -> .*none\.py:10$", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^rules: \d+ to add, \d+ to change, \d+ to delete, at 2 switches$", done.stdout, re.MULTILINE)
    assert plain(running.show("rules")) == before, "a plan changes nothing"
    listed = maple("state", "list", "--control", running.control).stdout
    assert "fresh" not in listed, "what the file writes goes nowhere"
    plan = json.loads(file.read_text())
    assert plan == json.loads(ask(running, "plan", str(none), "--json").stdout), "the same again"
    assert plan["counts"]["loses"] == len(plan["differences"]) > 0
    done = ask(running, "apply", str(file))
    assert done.returncode == 0, done.stderr
    assert re.match(r"applied: of \d+ packets .* and 0 fail; ", done.stdout), done.stdout
    # Labels that are no longer used rest for a moment.
    expected = planned(before, plan)
    wait_for("the plan to the letter", lambda: plain(running.show("rules")) == expected)
    assert "fresh" in maple("state", "list", "--control", running.control).stdout
    done = ask(running, "rollback")
    assert done.returncode == 0 and done.stdout.startswith("rolled back: "), done
    assert shape(plain(running.show("rules"))) == shape(before), "all rules are there again"
    done = ask(running, "rollback")
    assert done.returncode == 1 and "there is nothing to roll back" in done.stderr
    assert ask(running, "plan").returncode == 0, "the policy of the start runs"
    log = running.log.read_text()
    assert "lists.py runs again: " in log and running.show("errors") == []


def test_a_plan_of_another_time_is_refused(running: Running, emulated: subprocess.Popen[bytes], tmp_path: Path) -> None:
    at_rest(running)
    file, helper, none = tmp_path / "plan.json", tmp_path / "helper.py", tmp_path / "none.py"
    none.write_text(textwrap.dedent(NONE))
    assert ask(running, "plan", str(none), "--out", str(file)).returncode == 2
    helper.write_text("DENIED = {1, 2}\n")
    done = ask(running, "apply", str(file))
    assert done.returncode == 1 and "or a file beside it, has changed since the plan was made" in done.stderr, done
    helper.write_text("DENIED = {1}\n")
    assert ask(running, "reload", "builtin:flood").returncode == 0
    done = ask(running, "apply", str(file))
    assert done.returncode == 1 and "the network has changed since the plan was made" in done.stderr, done
    for text, message in (("plan", "is not a plan of `maple plan --out`"), ('{"format": 0}', "make it again")):
        file.write_text(text)
        done = ask(running, "apply", str(file))
        assert done.returncode == 1 and message in done.stderr, done


def test_a_plan_says_what_fails_and_an_error_is_no_change(
    running: Running, emulated: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    at_rest(running)
    before = plain(running.show("rules"))
    fails = tmp_path / "fails.py"
    fails.write_text(textwrap.dedent(NONE).replace("return drop()", "return dorp()"))
    done = ask(running, "plan", str(fails))
    assert done.returncode == 2, done.stderr
    assert re.search(r"^\d+ fail: the policy has an error on these packets", done.stdout, re.MULTILINE), done.stdout
    assert "NameError: name 'dorp' is not defined" in done.stdout
    fails.write_text("def (")
    done = ask(running, "plan", str(fails))
    assert done.returncode == 1 and "SyntaxError" in done.stderr
    assert ask(running, "plan", "--nonsense").returncode == 1
    assert maple("plan", "--control", str(tmp_path / "nowhere")).returncode == 1
    assert plain(running.show("rules")) == before
    assert ask(running, "plan", "builtin:flood", "--json").returncode in (0, 2)


def test_a_canary_decides_at_one_switch_and_then_everywhere(
    running: Running, emulated: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    at_rest(running)
    before = plain(running.show("rules"))
    first, second = sorted(before)
    file, none = tmp_path / "plan.json", tmp_path / "none.py"
    none.write_text(textwrap.dedent(NONE))
    assert ask(running, "plan", str(none), "--out", str(file)).returncode == 2
    done = ask(running, "apply", str(file), "--canary", "9")
    assert done.returncode == 1 and "switch 0000000000000009 is not connected" in done.stderr, done
    done = ask(running, "apply", "--promote")
    assert done.returncode == 1 and "there is nothing to promote" in done.stderr, done

    def decided_by_new() -> list[str]:
        shown = running.show("rules")
        assert isinstance(shown, list)
        return [switch["switch"] for switch in shown if "none.py" in json.dumps(switch["rules"])]

    done = ask(running, "apply", str(file), "--canary", "1")
    assert done.returncode == 0, done.stderr
    assert decided_by_new() == [first]
    shown = [plain(running.show("rules"))[second], before[second]]
    ingress = [{flow for flow in rules if " table=5," in flow} for rules in shown]
    assert ingress[0] == ingress[1] != set(), "the old policy decides what enters there"
    for refused in (["apply", str(file)], ["reload"]):
        done = ask(running, *refused)
        assert done.returncode == 1 and "another policy decides at some switches" in done.stderr, done
    assert ask(running, "plan", str(none)).returncode == 2, "the rest"
    assert ask(running, "apply", "--promote").returncode == 0
    assert decided_by_new() == [first, second]
    assert ask(running, "plan", str(none)).returncode == 0
    assert ask(running, "rollback").returncode == 0
    assert shape(plain(running.show("rules"))) == shape(before)
    at_rest(running)
    assert ask(running, "plan", str(none), "--out", str(file)).returncode == 2
    assert ask(running, "apply", str(file), "--percent", "50").returncode == 0
    assert decided_by_new() == [first]
    assert ask(running, "rollback").returncode == 0
    assert shape(plain(running.show("rules"))) == shape(before)


def test_functions_that_listen_stay_during_a_plan_and_come_back_with_a_rollback(
    tmp_path: Path, emulate: Callable[[Running], None]
) -> None:
    told = """
    from maple import flood, on, policy

    @policy
    def everywhere(pkt, net):
        return flood()

    @on("switch_up", "switch_reachable")
    def tell(switch, net):
        print("VERSION of switch", switch, flush=True)
    """
    file = tmp_path / "told.py"
    file.write_text(textwrap.dedent(told).replace("VERSION", "first"))
    running = Running(tmp_path, str(file))
    try:
        file.write_text(textwrap.dedent(told).replace("VERSION", "second"))
        assert ask(running, "plan").returncode == 0
        emulate(running)
        wait_for("the first function", lambda: "first of switch 1" in running.log.read_text())
        assert ask(running, "reload").returncode == 0
        emulate(running)
        wait_for("the second function", lambda: "second of switch 1" in running.log.read_text())
        count = running.log.read_text().count("first of switch 1")
        assert ask(running, "rollback").returncode == 0
        emulate(running)
        wait_for("the first again", lambda: running.log.read_text().count("first of switch 1") > count)
    finally:
        running.stop()


KINDS = """
    from maple import drop, flood, policy

    @policy
    def kinds(pkt, net):
        pkt.eth_src
        if pkt.matches(ip_proto=1):
            return flood()
        if pkt.matches(ip_proto=17):
            return flood()
        return flood()
    """


@contextmanager
def console(running: Running, topology: str) -> Iterator[Callable[[str], None]]:
    """Runs commands on an emulated network of the controller."""
    command = [*MAPLE, "emulate", topology, "--controller", running.address, "--console"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)

    def run(line: str) -> None:
        assert process.stdin is not None
        process.stdin.write(f"{line}\n")
        process.stdin.flush()

    try:
        yield run
    finally:
        process.kill()
        process.wait()


def test_a_plan_holds_while_the_network_goes_on_and_else_names_the_packet(tmp_path: Path) -> None:
    (tmp_path / "kinds.py").write_text(textwrap.dedent(KINDS))
    (tmp_path / "new").mkdir()
    new, file = tmp_path / "new" / "kinds.py", tmp_path / "plan.json"
    new.write_text(textwrap.dedent(KINDS).replace("flood()", "drop()", 2))
    running = Running(tmp_path, str(tmp_path / "kinds.py"), "--explore=0")
    try:
        with console(running, "linear:2,2") as run:

            def apply_after(line: str) -> subprocess.CompletedProcess[str]:
                assert ask(running, "plan", str(new), "--out", str(file)).returncode == 2
                before = leaves(running)
                run(line)
                wait_for("decisions", lambda: leaves(running) > before)
                at_rest(running)
                return ask(running, "apply", str(file))

            run("h1 ping h2 1")
            wait_for("a change", lambda: ask(running, "plan", str(new)).returncode == 2)
            at_rest(running)
            done = apply_after("h3 ping h4 1")
            assert done.returncode == 0, done.stderr
            assert ask(running, "rollback").returncode == 0
            at_rest(running)
            done = apply_after("h1 iperf h2 1s")
            assert done.returncode == 0, done.stderr
            named = r"came since: udp 10\.0\.0\.\d.*, which is not in the plan: it loses, .*kinds\.py:9.* -> drop"
            assert re.search(named, done.stderr), done
            assert ask(running, "rollback").returncode == 0
            at_rest(running)
            udp = "if pkt.matches(ip_proto=17):"
            fails = f'{udp}\n        1 / int(str(pkt.eth_src) != "00:00:00:00:00:03")'
            new.write_text(textwrap.dedent(KINDS).replace("flood()", "drop()", 1).replace(udp, fails))
            done = apply_after("h3 iperf h4 1s")
            assert done.returncode == 1, done
            named = "the policy fails on udp 10.0.0.3.*, which is not in the plan: it fails, .*ZeroDivisionError"
            assert re.search(named, done.stderr, re.DOTALL), done
    finally:
        running.stop()
