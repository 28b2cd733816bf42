"""The page in Chromium, on Open vSwitch bridges: what it shows is what they have, while it happens."""

import json
import os
import re
import shutil
import subprocess

import pytest
from harness import ROOT, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from topologies import Ring

BROWSER = ROOT / "tests/browser"
POLICY = '''"""Hosts that are blocked send nothing."""

from maple import Mac, Table, Var, drop, flood, policy

blocked = Table("blocked", key=Mac, value=bool)
mode = Var("mode", "day", value=str)


@policy
def guarded(pkt, net):
    if pkt.eth_dst.is_multicast:
        return flood()
    if blocked.get(pkt.eth_src):
        return drop()
    dst = net.locate(pkt.eth_dst)
    if dst is None:
        return flood()
    return net.shortest_path(net.locate(pkt.eth_src), dst)
'''
# Another one, in which h4 sends nothing.
OTHER = POLICY.replace("blocked.get(pkt.eth_src)", "blocked.get(pkt.eth_src) or pkt.eth_src == '00:00:00:00:00:04'")
# What tests/browser/harness.js signs in with.
TOKENS = "admin admin-person the-token-of-admins\n"
NAMES = {1: "north", 2: "east", 3: "south", 4: "west"}
# How long all tests in the browser may take, in seconds: far longer than they do.
LONG = 600


def missing():
    """What keeps this test from running here, or None."""
    for program in ("node", "chromium"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if not (BROWSER / "node_modules/playwright-core").exists():
        return "`npm ci` has not run in tests/browser"
    return None


def run(command, environment):
    """What a command prints, and its status. What it has started ends with it."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | environment
    ) as process:
        try:
            output, _ = process.communicate(timeout=LONG)
        except subprocess.TimeoutExpired:
            # It ends its browser.
            process.terminate()
            output, _ = process.communicate()
            pytest.fail(f"it did not end in {LONG} s\n{output}")
        return output, process.returncode


def test_the_page_shows_what_the_bridges_have(controller, lab, tmp_path):
    reason = missing()
    if reason is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the page's test may not be skipped in CI: {reason}")
        pytest.skip(f"the page's test needs Node and Chromium: {reason}")
    policy, other, tokens, names = (tmp_path / name for name in ("policy.py", "other.py", "tokens", "maple.toml"))
    policy.write_text(POLICY)
    other.write_text(OTHER)
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    names.write_text(
        "".join(
            f'[switches.{name}]\ndpid = "{number}"\n[hosts.h{number}]\nmac = "00:00:00:00:00:0{number}"\n'
            for number, name in NAMES.items()
        )
    )
    maple = controller(policy, "--http", "127.0.0.1:0", "--http-tokens", tokens, "--config", names)
    net = lab(Ring(), maple, "OpenFlow13")
    (url,) = wait_for("the page's address", lambda: re.findall(r"(http://\S+)/v1", maple.text()))
    network = {"url": url, "policy": POLICY, "other": str(other), "hosts": {host.name: host.pid for host in net.hosts}}
    output, status = run(["node", str(BROWSER / "openvswitch.js")], {"MAPLE_NETWORK": json.dumps(network)})
    assert status == 0, output
    assert maple.errors() == [], output
