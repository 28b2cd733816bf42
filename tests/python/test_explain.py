"""`maple explain` and `net.explain()`: what they say is true, and reads well."""

import json
import re
import subprocess
import sys
import textwrap
import time

import maple
import pytest
from maple import Mac, Table, drop, flood

POLICY = '''
from maple import Table, drop, flood, policy

blocked = Table("blocked of the explained")


@policy
def acl(pkt, net):
    """Blocks hosts, and telnet."""
    if pkt.eth_dst == "ff:ff:ff:ff:ff:ff":
        return flood()
    if pkt.ipv4_src == "10.0.0.1" and blocked.get(pkt.eth_src):
        return drop()
    if pkt.tcp_dst == 23:
        return drop()
    return net.shortest_path(net.locate(pkt.eth_src), net.locate(pkt.eth_dst))
'''

WRONG = """
    from maple import policy

    @policy
    def wrong(pkt, net):
        pkt.tcp_dst == 1
        return 1 / 0
    """


@pytest.fixture
def acl(tmp_path):
    """The file of a policy."""
    file = tmp_path / "acl.py"
    file.write_text(POLICY)
    return file


@pytest.fixture
def net(acl):
    """A ring under it, whose hosts have met."""
    # Tables keep what they hold from one network to the next.
    blocked = Table("blocked of the explained")
    for key in list(blocked):
        del blocked[key]
    net = maple.emulate("ring:4", str(acl))
    assert not net.pingall().failed
    return net


def line(acl, text):
    """The number of the line that has this text."""
    return next(number for number, one in enumerate(acl.read_text().splitlines(), 1) if text in one)


def test_a_drop_names_its_line_the_answers_and_what_would_pass(net, acl):
    told = net.explain("h1", "h3", tcp_dst=23)
    number = line(acl, "pkt.tcp_dst == 23") + 1
    assert (told.verdict, told.line, told.exits) == ("dropped", f"acl.py:{number}", [])
    lines = str(told).splitlines()
    assert lines[0] == f"h1 (s1:1) → h3 (s3:1)  tcp 10.0.0.1:40000 > 10.0.0.3:23  dropped by acl.py:{number}"
    assert f"acl.py:{number - 1}" in str(told) and "tcp_dst=23: yes (23)" in str(told)
    assert re.search("would pass if: tcp_dst=2[24], for example", str(told))
    assert told.agrees is None and "no rule for it yet" in str(told), "it was not sent"
    assert repr(told).startswith("<explanation: h1 (s1:1)")


def test_state_is_part_of_the_explanation(net, acl):
    Table("blocked of the explained")[Mac("00:00:00:00:00:01")] = True
    told = net.explain("h1", "h3", tcp_dst=80)
    assert told.verdict == "dropped"
    step = told.json["steps"][-1]
    assert step["answer"] == "true" and step["line"]["line"] == line(acl, "blocked.get")
    conditions = [other["if"] for other in told.json["instead"]]
    assert any("were absent" in condition for condition in conditions), conditions
    assert "ipv4_src=10.0.0.0, for example" in conditions


def test_a_port_that_is_down_is_part_of_the_explanation():
    def policy(pkt, net):
        there = net.locate(pkt.eth_dst)
        if there is None:
            return flood()
        return net.shortest_path(net.locate(pkt.eth_src), there) if there.is_up else drop()

    net = maple.emulate("linear:2", policy)
    assert net.pingall()
    assert "whether port s2:1 is up: yes" in str(net.explain("h1", "h2"))
    net.s2.port(1, up=False)
    net.run(0.1)
    told = net.explain("h1", "h2")
    assert told.verdict == "dropped" and "whether port s2:1 is up: no" in str(told)
    assert "would pass if: port s2:1 were up" in str(told)


def test_a_forwarded_packet_has_hops_rules_and_agreement(net):
    net.h1.ping(net.h3)
    told = net.explain(net.h1, net.h3)
    assert (told.verdict, told.agrees, told.exits) == ("forwarded", True, [("0000000000000003", 1)])
    assert [hop["at"]["switch"][-1] for hop in told.json["hops"]] == ["1", "2", "3"]
    assert all(hop["rules"] for hop in told.json["hops"])
    assert "leaves by s3:1 to h3" in str(told)
    assert all(step["line"] for step in told.json["steps"]), "each question has a line"


def test_nothing_changes_by_asking(net):
    before = (net.command("show rules"), net.now, net.errors)
    for port in range(20, 30):
        net.explain("h1", "h2", tcp_dst=port)
    assert (net.command("show rules"), net.now, net.errors) == before


def test_what_means_no_packet_is_an_error_that_says_so(net):
    for wrong, error in (
        ({"tcp_dest": 1}, "did you mean tcp_dst"),
        ({"tcp_dst": "x"}, "tcp_dst"),
        ({"tcp_dst": 1, "udp_dst": 2}, "udp_dst"),
    ):
        with pytest.raises(ValueError, match=error):
            net.explain("h1", "h2", **wrong)
    with pytest.raises(ValueError, match="h9"):
        net.explain("h9", "h2")


def test_a_failing_policy_is_explained_with_its_traceback(tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text(textwrap.dedent(WRONG))
    net = maple.emulate("linear:2", str(file))
    told = net.explain("h1", "h2", at=("s1", 1), tcp_dst=1)
    assert told.verdict == "failed" and "ZeroDivisionError" in told.json["why"]
    assert "failed after wrong.py:6" in str(told)


@pytest.fixture
def running(acl, tmp_path):
    """A controller with an emulated network, and a function that runs `maple explain` there."""
    control = tmp_path / "control.sock"
    command = [sys.executable, "-m", "maple", "run", str(acl), "--emulate", "ring:4", "--control", str(control)]
    with subprocess.Popen(
        [*command, "--traffic", "60s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            end = time.monotonic() + 30
            while not control.exists() and time.monotonic() < end:
                time.sleep(0.05)
            yield lambda *arguments: subprocess.run(
                [sys.executable, "-m", "maple", *arguments, "--control", str(control)],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            process.kill()


def known(run):
    """Waits until the controller knows two hosts."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        hosts = run("show", "hosts", "--json")
        if hosts.returncode == 0 and len(json.loads(hosts.stdout)) >= 4:
            return
        time.sleep(0.1)
    raise AssertionError("hosts are not known")


def test_the_command_asks_a_running_controller(running, acl, tmp_path):
    known(running)
    told = running("explain", "--from", "10.0.0.1", "--to", "10.0.0.3", "tcp_dst=23")
    assert told.returncode == 0 and f"dropped by acl.py:{line(acl, 'pkt.tcp_dst == 23') + 1}" in told.stdout, told
    answer = json.loads(running("explain", "--from", "10.0.0.1", "--to", "10.0.0.3", "--json").stdout)
    assert answer["verdict"] == "forwarded"
    frame = answer["packet"]["frame"]
    assert "10.0.0.1 > 10.0.0.3" in running("explain", "--packet", frame).stdout
    capture = tmp_path / "one.pcap"
    data = bytes.fromhex(frame)
    header = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
    size = len(data).to_bytes(4, "little")
    capture.write_bytes(header + bytes(8) + size + size + data)
    assert "10.0.0.1 > 10.0.0.3" in running("explain", "--pcap", str(capture)).stdout
    rules = json.loads(running("show", "rules", "1", "--json").stdout)[0]["rules"]
    cookie = next(rule["cookie"] for rule in rules if rule["leaf"])
    back = running("explain", "--rule", cookie, "--switch", "1")
    assert back.stdout.startswith("rule of switch") and " → " in back.stdout, back


def test_faults_of_the_command_name_what_is_wrong(running):
    known(running)
    for arguments, error in (
        (["--from", "nobody", "--to", "10.0.0.3"], "neither a host"),
        (["--from", "10.0.0.1", "--to", "10.0.0.3", "tcp_dst"], "such as tcp_dst=80"),
        (["--from", "10.0.0.1", "--to", "10.0.0.3", "tcp_dts=1"], "did you mean tcp_dst"),
        (["--rule", "0x12"], "no switch has a rule"),
        ([], "say which packet"),
        (["--pcap", "/nowhere"], "/nowhere"),
        (["--pcap", __file__], "not a capture"),
    ):
        done = running("explain", *arguments)
        assert done.returncode == 1 and error in done.stderr, (arguments, done)
