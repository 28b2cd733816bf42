"""`maple doctor` beside real Open vSwitch bridges: what is broken is found, and the printed command mends it."""

import json
import subprocess

import pytest
from harness import EXAMPLES, MAPLE, free_port, sh, vsctl, wait_for

BRIDGES = ("dr1", "dr2")
# Findings that are as they must be here: there is no datapath in the kernel.
HERE = {"ovs-datapath-type"}


def doctor(controller, *bridges):
    """The findings about Open vSwitch, by id."""
    named = [f"--bridge={name}" for name in bridges]
    control = str(controller.control)
    done = subprocess.run(
        [MAPLE, "doctor", "--json", "--control", control, *named],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode in (0, 2), done.stderr
    found = {}
    for one in json.loads(done.stdout)["findings"]:
        if one["id"].startswith(("ovs-", "duplicate-")) and one["id"] not in HERE:
            found.setdefault(one["id"], []).append(one)
    return found


def mend(finding):
    """Runs the command that a finding prints."""
    assert finding["mend"].startswith(("ovs-vsctl ", "ip link ")), finding
    sh("sh", "-c", finding["mend"].replace("ovs-vsctl ", "ovs-vsctl --timeout=20 ", 1))


@pytest.fixture
def bridges(openvswitch):
    """Two bridges as `ovs-vsctl` makes them, in user space, and a link between them with an edge port at the first."""
    pairs = [("drl1", "drl2"), ("dre1", "dre2")]
    try:
        for a, b in pairs:
            sh("ip", "link", "add", a, "type", "veth", "peer", "name", b)
            sh("ip", "link", "set", a, "up")
            sh("ip", "link", "set", b, "up")
        for name in BRIDGES:
            vsctl("add-br", name, "--", "set", "bridge", name, "datapath_type=netdev")
        vsctl("add-port", "dr1", "drl1", "--", "add-port", "dr2", "drl2", "--", "add-port", "dr1", "dre1")
        yield BRIDGES
    finally:
        for name in BRIDGES:
            vsctl("--if-exists", "del-br", name)
        for a, _ in pairs:
            sh("ip", "link", "del", a, check=False)
        vsctl("remove", "Open_vSwitch", ".", "other_config", "vlan-limit")


@pytest.fixture
def served(controller, bridges, tmp_path):
    """A controller that serves both bridges, which are in order: made so by what the doctor prints, round by round."""
    one = controller(EXAMPLES / "shortest_path.py", "--state", tmp_path / "state")
    seen = set()
    for _ in range(4):
        found = doctor(one, *bridges)
        seen |= set(found)
        # A bridge that was just told of its controller is on its way to it.
        for finding in [one for name in found if name != "ovs-not-connected" for one in found[name]]:
            mend(finding)
    assert seen >= {"ovs-no-controller", "ovs-fail-mode", "ovs-datapath-id"}
    wait_for("both bridges in order", lambda: doctor(one, *bridges) == {})
    wait_for("both switches", lambda: len(one.show("switches")) == 2)
    wait_for("the link", lambda: len(one.show("links")) == 1)
    return one


def breaks(port):
    """What is broken by which command, and found as what."""
    here, other = f"tcp:127.0.0.1:{port}", f"tcp:127.0.0.1:{port + 1}"
    return {
        "ovs-fail-mode": "set-fail-mode dr1 standalone",
        "ovs-protocols": "set bridge dr1 protocols=OpenFlow14",
        "ovs-target": f"set-controller dr1 {other}",
        "ovs-no-controller": "del-controller dr1",
        "ovs-tls": f"set-controller dr1 ssl:127.0.0.1:{port}",
        "ovs-several-controllers": f"set-controller dr1 {here} {other}",
        "ovs-max-backoff": "set controller dr1 max_backoff=60000",
        "ovs-inactivity-probe": "set controller dr1 inactivity_probe=0",
        "ovs-spanning-tree": "set bridge dr1 rstp_enable=true",
        "ovs-datapath-id": "remove bridge dr1 other-config datapath-id",
        "ovs-vlan-limit": "set Open_vSwitch . other_config:vlan-limit=2",
        "ovs-flow-tables": "set bridge dr1 flow_tables:1=@t -- --id=@t create Flow_Table flow_limit=9 "
        "overflow_policy=evict",
    }


@pytest.mark.parametrize("name", breaks(0))
def test_what_is_broken_is_found_and_the_printed_command_mends_it(served, bridges, name):
    vsctl(*breaks(served.port)[name].split())
    found = wait_for(name, lambda: doctor(served, *bridges).get(name))
    assert all(one["page"] == f"docs/doctor.md#{name}" for one in found)
    for finding in found:
        mend(finding)
    wait_for(f"no {name}", lambda: name not in doctor(served, *bridges))
    # Nothing else is left either, once the bridge is connected again.
    wait_for("both bridges in order", lambda: doctor(served, *bridges) == {}, timeout=40)


def test_a_port_that_is_gone_is_found_and_not_deleted(served, bridges):
    # `ovs-vsctl add-port` of a port that is not there warns, and succeeds.
    vsctl("--no-wait", "add-port", "dr1", "drnone")
    (finding,) = wait_for("the port", lambda: doctor(served, *bridges).get("ovs-port-error"))
    assert finding["where"] == "port drnone of bridge dr1"
    mend(finding)
    assert "drnone" in vsctl("list-ports", "dr1"), "the command shows why, and deletes nothing"
    vsctl("del-port", "dr1", "drnone")
    wait_for("no such port", lambda: "ovs-port-error" not in doctor(served, *bridges))


def test_a_bridge_that_nobody_named_and_that_is_not_served_gets_no_command(served, bridges):
    vsctl("del-controller", "dr1", "--", "set-fail-mode", "dr1", "standalone")
    found = wait_for("the bridge", lambda: doctor(served).get("ovs-no-controller"))
    (finding,) = [one for one in found if one["where"] == "bridge dr1"]
    assert finding["level"] == "note"
    assert "maple doctor --bridge dr1" in finding["mend"] and "ovs-vsctl" not in finding["mend"]
    assert "ovs-fail-mode" not in doctor(served)


def test_two_bridges_with_one_datapath_id_are_told_apart(served, bridges):
    first = vsctl("get", "bridge", "dr1", "datapath_id").strip().strip('"')
    vsctl("set", "bridge", "dr2", f"other-config:datapath-id={first}")
    (finding,) = wait_for("the duplicate", lambda: doctor(served, *bridges).get("duplicate-dpid"))[:1]
    assert finding["level"] == "error" and finding["where"] == "bridge dr2" and "of bridge dr1" in finding["what"]
    mend(finding)
    wait_for("two switches", lambda: len(served.show("switches")) == 2, timeout=40)
    # The controller goes on to tell that it had to refuse one.
    left = {one["where"] for one in doctor(served, *bridges).get("duplicate-dpid", [])}
    assert left <= {"the controller"}


def test_links_that_take_shorter_frames_than_hosts_are_found(served, bridges):
    sh("ip", "link", "set", "drl2", "mtu", "1400")
    (finding,) = wait_for("the short link", lambda: doctor(served, *bridges).get("ovs-mtu"))
    assert finding["where"] == "port drl2 of bridge dr2" and "1400" in finding["what"]
    mend(finding)
    wait_for("no short link", lambda: "ovs-mtu" not in doctor(served, *bridges))


def test_a_controller_that_is_gone_is_told_with_how_to_start_it(served, bridges):
    address = f"127.0.0.1:{served.port}"
    served.stop()
    found = wait_for("the lost connections", lambda: doctor(served, *bridges).get("ovs-not-connected"))
    assert {one["where"] for one in found} <= {"bridge dr1", "bridge dr2"}
    assert all(address in one["what"] for one in found)


def test_certificates_that_expire_soon_are_found_in_each_place(controller, bridges, tmp_path):
    cert, key, config = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "maple.toml"
    # RSA, as ovs-pki has it: Open vSwitch would keep one of elliptic curves beside those of other tests, and prefer it.
    request = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes")
    sh(*request, "-days", "5", "-subj", "/CN=maple", "-keyout", key, "-out", cert)
    port = free_port()
    tls = ("--listen", f"tls:127.0.0.1:{port}", "--tls-cert", cert, "--tls-key", key, "--tls-no-client-cert")
    one = controller(EXAMPLES / "shortest_path.py", "--state", tmp_path / "state", *tls)
    config.write_text(f'policy = "p.py"\ntls-cert = "{cert}"\ntls-key = "{key}"\ntls-no-client-cert = true\n')
    done = sh(MAPLE, "doctor", "--json", "--control", one.control, "--config", config, check=False)
    expiring = [finding for finding in json.loads(done)["findings"] if finding["id"] == "certificate-expires"]
    assert [finding["where"] for finding in expiring] == [f"certificate {cert}", "the controller's certificate"]
    assert all(finding["what"] == "it expires in 4 days" for finding in expiring)
    # Open vSwitch has no certificate of its own yet.
    vsctl("set-controller", "dr1", f"ssl:127.0.0.1:{port}")
    found = doctor(one, *bridges)
    assert [finding["where"] for finding in found["ovs-tls"]] == ["Open vSwitch"]
    try:
        vsctl("set-ssl", str(key), str(cert), str(cert))
        wait_for("the connection", lambda: len(one.show("switches")) == 1)
        assert "ovs-tls" not in doctor(one, *bridges)
    finally:
        vsctl("del-ssl")


def test_bridges_without_a_name_are_all_looked_at(served, bridges):
    done = subprocess.run(
        [MAPLE, "doctor", "--control", str(served.control)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode in (0, 2)
    assert "Open vSwitch 3" in done.stdout and "bridges" in done.stdout
    assert "Open vSwitch of switches" not in done.stdout, "all are on this host"
