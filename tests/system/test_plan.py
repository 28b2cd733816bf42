"""A plan is what Open vSwitch has after it is applied, rule by rule, and other flows lose no packet meanwhile."""

import json
import re
import subprocess

import pytest
from harness import MAPLE, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import Pinger
from test_reload import POLICY as LISTS
from topologies import Ring

POLICY = f"""
from maple import costs

costs("far", {{(1, 2): 10, (2, 1): 10}})
{LISTS}"""

FAR = ("net.shortest_path(src, dst)", 'net.path(src, dst, cost="far")')


def maple(controller, *arguments):
    return subprocess.run(
        [MAPLE, *arguments, "--control", str(controller.control)], capture_output=True, text=True, check=False
    )


def dumped(net):
    """The rules of each switch as Open vSwitch prints them, by datapath id."""
    return {switch.dpid: set(net.dump(switch.name)) for switch in net.switches}


def planned(before, plan):
    """The rules that a plan leads to."""
    after = {switch: set(flows) for switch, flows in before.items()}
    for switch in plan["rules"]:
        flows = after[switch["switch"]]
        before, after_change = ([rule[side] for rule in switch["change"]] for side in ("before", "after"))
        gone = {rule["flow"].strip() for rule in [*switch["delete"], *before]}
        assert gone <= flows, gone - flows
        flows -= gone
        flows |= {rule["flow"].strip() for rule in [*switch["add"], *after_change]}
    return after


def shape(flows):
    """The rules without the numbers that leaves, labels and routes happen to have."""
    numbers = r"cookie=[^,]*, |metadata[:=]0x[0-9a-f]+|dl_vlan=\d+|set_field:\d+->vlan_vid|mod_vlan_vid:\d+"
    return {switch: {re.sub(numbers, "", flow) for flow in all} for switch, all in flows.items()}


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_a_plan_equals_what_open_vswitch_has_after_apply(controller, lab, tmp_path, protocols, figure):
    file, plan_file = tmp_path / "lists.py", tmp_path / "plan.json"
    file.write_text(POLICY % "23")
    running = controller(file, "--workers", "2")
    net = lab(Ring(), running, protocols)
    assert net.ping_all()[0] == 0
    with net.serving("h3", 22, 80):
        for host in ("h1", "h2", "h4"):
            assert net.tcp(host, "h3", 80) and net.tcp(host, "h3", 22)
    net.wait_agreement(running)
    first = dumped(net)
    with Pinger(net, "h1", "h2") as ping:
        for what, changed in (
            ("an ACL line", POLICY % "23, 80"),
            ("another path for all", (POLICY % "23, 80").replace(*FAR)),
            ("back", POLICY % "23"),
        ):
            wait_for("rest", lambda: dumped(net) == dumped(net))
            before = dumped(net)
            file.write_text(changed)
            done = maple(running, "plan", "--out", str(plan_file))
            assert done.returncode == 2, done.stderr
            assert dumped(net) == before, "a plan changes nothing"
            plan = json.loads(plan_file.read_text())
            expected = planned(before, plan)
            done = maple(running, "apply", str(plan_file))
            assert done.returncode == 0, done.stderr
            # Labels that are no longer used go after their quarantine, one switch after the other.
            wait_for(f"the plan for {what}", lambda expected=expected: dumped(net) == expected, timeout=5)
            rules = [sum(len(switch[part]) for switch in plan["rules"]) for part in ("add", "change", "delete")]
            figure(f"{protocols}: a plan for {what} equals the switches: {rules} rules to add, change, delete")
        assert ping.end()[0] == 0
    assert maple(running, "plan").returncode == 0, "nothing is left to do"
    file.write_text(POLICY % "23, 22")
    assert maple(running, "reload").returncode == 0
    assert maple(running, "rollback").returncode == 0
    wait_for("the first rules", lambda: shape(dumped(net)) == shape(first), timeout=5)
    net.wait_agreement(running)
    assert running.errors() == []
