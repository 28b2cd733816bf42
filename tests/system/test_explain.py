"""A real host is blocked, found among the drops, and unblocked, on Open vSwitch."""

import json
import re
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest
from harness import EXAMPLES, MAPLE, sh, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from topologies import Ring


def explain(maple, *arguments):
    """What `maple explain` prints."""
    return sh(MAPLE, "explain", *arguments, "--control", str(maple.control))


def dropped(maple, net):
    """The drops of the hosts' packets. The interfaces between switches send packets of their own."""
    hosts = {net[f"h{number}"].MAC() for number in (1, 2, 3, 4)}
    return [one for one in json.loads(explain(maple, "--dropped", "--json")) if one["host"] in hosts]


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_a_blocked_host_is_found_by_its_drops_and_unblocked(controller, lab, tmp_path, figure, protocols):
    empty = tmp_path / "blocklist.txt"
    empty.write_text("")
    policy = EXAMPLES / "blocklist.py"
    maple = controller(policy, environment={"MAPLE_BLOCKLIST": str(empty)})
    net = lab(Ring(), maple, protocols)
    assert net.ping_all()[0] == 0
    assert dropped(maple, net) == []
    mac = net["h1"].MAC()
    maple.state("set", "blocked", mac, "true", "--settled")
    sent = 40
    assert net.ping("h1", "h3", count=sent, timeout=1) == 0

    def told():
        return [one for one in dropped(maple, net) if one["host"] == mac]

    wait_for("the drops", lambda: sum(one["packets"] for one in told()) >= sent, timeout=10)
    all_drops, of_host = dropped(maple, net), told()
    without_line = [one for one in all_drops if one["line"] is None]
    assert without_line == [], "each drop has a line"
    source = policy.read_text().splitlines()
    for one in of_host:
        file, line = re.fullmatch(r"(.*):(\d+)", one["line"]).groups()
        assert file.endswith("blocklist.py") and "drop" in source[int(line) - 1], one
        assert one["text"] == source[int(line) - 1].strip()
        assert int(one["at"]["switch"], 16) == 1, one
    table = explain(maple, "--dropped")
    assert f"{mac} at 1:" in table and "blocklist.py:" in table and "icmp" in table, table
    who = maple.state("get", "blocked", mac, "--who")
    assert re.search(r"true  written \S+Z by `maple state set` \(pid \d+\)", who), who
    maple.state("delete", "blocked", mac, "--settled")
    assert net.ping("h1", "h3") == 1
    counted = sum(one["packets"] for one in told())
    figure(f"{protocols}: {counted} drops of {mac} told for {sent} pings and ARP, all by line")
    assert sent <= counted <= sent + 20


def temporary(net):
    """The temporary rules of all switches."""
    lines = [line for switch in ("s1", "s2", "s3", "s4") for line in net.dump(switch)]
    return [line for line in lines if "hard_timeout=5" in line and "cookie=0x4d" in line]


@contextmanager
def watching(maple, *arguments):
    """`maple explain --live` as a process of its own, and the news that it has printed."""
    command = [MAPLE, "explain", "--live", *arguments, "--json", "--control", str(maple.control)]
    news = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            news.append(json.loads(process.stdout.readline()))
            yield process, news
        finally:
            process.kill()
            news.extend(json.loads(line) for line in process.stdout)


def test_real_packets_are_shown_and_nothing_stays_behind(controller, lab, tmp_path, figure):
    empty = tmp_path / "blocklist.txt"
    empty.write_text("")
    maple = controller(EXAMPLES / "blocklist.py", environment={"MAPLE_BLOCKLIST": str(empty)})
    net = lab(Ring(), maple, "OpenFlow13")
    assert net.ping_all()[0] == 0
    mac = net["h1"].MAC()
    others, misses = net.flows("s1"), maple.count("misses")
    with watching(maple, "--from", net["h1"].IP(), "--to", net["h3"].IP(), "icmpv4_type=8") as (process, news):
        assert news[0]["news"] == "watching"
        wait_for("the temporary rule", lambda: len(temporary(net)) == 1)
        assert net.ping("h1", "h3", count=5) == 5, "their way does not change"
        assert net.ping("h1", "h2", count=5) == 5
        assert maple.count("misses") == misses, "copies are no new packets"
        time.sleep(12)
        assert len(temporary(net)) == 1, "it is sent again while somebody watches"
        maple.state("set", "blocked", mac, "true", "--settled")
        assert net.ping("h1", "h3", count=3, timeout=0.3) == 0
        time.sleep(0.5)
        process.send_signal(signal.SIGKILL)
    wait_for("the end of the temporary rule", lambda: not temporary(net), timeout=3)
    packets = [one for one in news if one["news"] == "packet"]
    assert all("icmp" in one["packet"] and net["h3"].IP() in one["packet"] for one in packets), packets
    verdicts = [one["verdict"] for one in packets]
    assert verdicts.count("forwarded") == 5, packets
    assert verdicts.count("dropped") >= 2, packets
    assert all("blocklist.py:" in one["line"] for one in packets if one["verdict"] == "dropped")
    maple.state("delete", "blocked", mac, "--settled")
    assert net.ping_all()[0] == 0
    assert maple.count("rules_repaired") == 0 and len(net.flows("s1")) >= len(others) // 2
    # The rate is bounded, the packets are not.
    with watching(maple, "--from", mac) as (process, news):
        wait_for("the temporary rule", lambda: len(temporary(net)) == 1)
        answered = net["h1"].cmd(f"ping -n -q -c 500 -i 0.002 {net['h3'].IP()}")
        assert " 500 received" in answered, answered
    packets = [one for one in news if one["news"] == "packet"]
    seconds = 1 + (packets[-1]["time"] - packets[0]["time"]) / 1000
    assert 20 <= len(packets) <= 20 * (seconds + 1), len(packets)
    assert any(one["news"] == "too many" for one in news)
    # The controller is killed, and the rule goes by itself.
    with watching(maple, "--from", mac):
        wait_for("the temporary rule", lambda: len(temporary(net)) == 1)
        maple.process.kill()
        maple.process.wait()
        killed = time.monotonic()
        wait_for("the end of the temporary rule", lambda: not temporary(net), timeout=15)
        gone = time.monotonic() - killed
    figure(f"the temporary rule was gone {gone:.1f} s after the controller was killed")
    assert gone < 9


def test_a_switch_with_one_table_cannot_be_watched(controller, lab):
    maple = controller(EXAMPLES / "shortest_path.py")
    net = lab(Ring(), maple, "OpenFlow10")
    assert net.ping_all()[0] == 0
    command = [MAPLE, "explain", "--live", "--from", net["h1"].MAC(), "--control", str(maple.control)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and "one table" in done.stderr, done
    assert not temporary(net)
