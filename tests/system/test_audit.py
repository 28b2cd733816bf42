"""Somebody else changes the rules of a switch, on Open vSwitch: Maple puts its own right, and reports the others."""

import re
from contextlib import contextmanager

import pytest
from harness import ROOT, sh, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from topologies import Ring

POLICY = ROOT / "examples" / "secure_routing.py"


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_rules_that_somebody_changed_are_put_right(controller, lab, protocols, figure):
    maple = controller(POLICY, "--audit", "1s")
    net = lab(Ring(), maple, protocols)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    audits = maple.count("audits")
    wait_for("audits", lambda: maple.count("audits") > audits + 8, timeout=10)
    assert maple.count("rules_repaired") == 0
    before = net.flows("s1")

    def change(command, flow):
        sh("ovs-ofctl", "-O", protocols, *command, "s1", flow)

    @contextmanager
    def repaired():
        """The rules are as before soon after this. It may be so before anybody has looked."""
        count = maple.count("rules_repaired")
        yield
        wait_for("the repair", lambda: maple.count("rules_repaired") > count and net.flows("s1") == before, timeout=10)
        net.settle()

    h1, h2 = net["h1"].MAC(), net["h2"].MAC()
    decision = next(line for line in net.decisions("s1", src="h1", dst="h2") if "CONTROLLER" not in line)
    # With several tables there is one for the keys of a look-up.
    keys = [line for line in net.dump("s1") if f" priority=1,dl_dst={h2} " in line]
    assert len(keys) == (protocols == "OpenFlow13")
    for rule in [decision, *keys]:
        entry = "".join(re.findall(r"table=\d+,|priority=\S+", rule))
        # One is altered, which no switch reports.
        with repaired():
            change(["--strict", "mod-flows"], f"{entry},actions=drop")
        assert net.ping("h1", "h2") == 1
        # One is replaced by one whose end is not reported, and then deleted.
        with repaired():
            change(["add-flow"], f"cookie=0x99,{entry},actions=drop")
            change(["--strict", "del-flows"], entry)
        # One looks like ours.
        cookie = re.search(r"cookie=(0x\w+)", rule).group(1)
        with repaired():
            change(["add-flow"], f"cookie={cookie},{entry},tcp,tp_dst=7777,actions=drop")
    assert net.ping_all()[0] == 0
    # Others take packets, and are reported.
    change(["add-flow"], f"cookie=0x77,priority=65500,dl_src={h1},actions=drop")
    wait_for("the report", lambda: "that is not Maple's" in maple.text())
    change(["add-flow"], "cookie=0x77,priority=65500,dl_src=00:00:00:00:77:77,dl_type=0x7777,actions=drop")
    audits = maple.count("audits")
    wait_for("audits", lambda: maple.count("audits") > audits + 8, timeout=10)
    told = [line for line in maple.text().splitlines() if "that is not Maple's" in line]
    assert len(told) == maple.count("foreign_rules") <= 2, "each once"
    assert sum("cookie=0x77" in line for line in net.dump("s1")) == 2, "they stay"
    assert net.ping("h1", "h2") == 0, "it takes what it takes"
    change(["del-flows"], "cookie=0x77/-1")
    net.settle()
    assert net.ping_all()[0] == 0
    count = maple.count("rules_repaired")
    figure(f"{protocols}: {count} changed rules put right, {len(told)} foreign rules reported")
    assert 3 * (1 + len(keys)) <= count <= 3 * (1 + len(keys)) + 2
    told = [error["text"] for error in maple.show("errors")]
    assert all("put right" in text or "not Maple's" in text for text in told), told
