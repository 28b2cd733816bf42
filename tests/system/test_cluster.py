"""Two controllers of one network, elected by three servers of etcd: what switches do when the master dies or sleeps."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections import defaultdict

import pytest
from harness import MAPLE, free_port, sh, vsctl, wait_for, wait_for_caches

pytest.importorskip("mininet", reason="system tests need Mininet")
from lab import Pinger
from topologies import Ring

POLICY = "builtin:shortest-path"
# One with a table.
BLOCKS = """
from maple import Mac, Net, Packet, Route, Table, drop, flood, policy

blocked = Table("blocked", key=Mac, value=bool)


@policy
def blocks(pkt: Packet, net: Net) -> Route:
    if pkt.eth_src in blocked or pkt.eth_dst in blocked:
        return drop()
    dst = net.locate(pkt.eth_dst)
    return flood() if dst is None else net.shortest_path(net.locate(pkt.eth_src), dst)
"""
# Where several tests share few processors, etcd may need as long to elect a leader of its own.
PATIENCE = 90


class Etcd:
    """Three servers of etcd on the loopback interface."""

    def __init__(self, folder):
        self.folder, self.processes = folder, {}
        self.ports = [(free_port(), free_port()) for _ in range(3)]
        for number in range(3):
            self.start(number)

    def start(self, number):
        client, peer = self.ports[number]
        cluster = ",".join(f"n{n}=http://127.0.0.1:{peer}" for n, (_, peer) in enumerate(self.ports))
        command = [
            "etcd",
            f"--name=n{number}",
            f"--data-dir={self.folder / f'etcd-{number}'}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster={cluster}",
        ]
        with (self.folder / f"etcd-{number}.log").open("a") as log:
            self.processes[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self):
        """All servers are gone."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def address(self, name):
        """What `--cluster` takes."""
        return f"etcd://{','.join(f'127.0.0.1:{client}' for client, _ in self.ports)}/{name}"


@pytest.fixture
def etcd(tmp_path):
    if shutil.which("etcd") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("etcd is not installed: etcd-server of Debian")
        pytest.skip("etcd is not installed")
    servers = Etcd(tmp_path)
    try:
        yield servers
    finally:
        servers.kill()


class Members:
    """The controllers of a cluster, by name."""

    def __init__(self, controller, etcd, policy=POLICY):
        self.controller, self.etcd, self.policy, self.all = controller, etcd, policy, {}
        # The port for switches, and that for other controllers.
        self.ports = defaultdict(lambda: (free_port(), free_port()))

    def start(self, *names):
        for name in names:
            port, of_peers = self.ports[name]
            arguments = ("--cluster", self.etcd.address("campus"), "--name", name)
            peers = ("--cluster-listen", f"127.0.0.1:{of_peers}")
            self.all[name] = self.controller(self.policy, *arguments, *peers, port=port)

    def kill(self, name):
        """A controller is gone at once."""
        process = self.all.pop(name).process
        process.kill()
        process.wait()

    def known(self, name):
        """What a controller knows of the cluster; nothing until it has joined."""
        with contextlib.suppress(RuntimeError):
            return self.all[name].show("cluster")
        return None

    def agree(self, *names):
        """The name of the master, once these controllers, and no others, are there and agree on it."""

        def master():
            known = [self.known(name) for name in names]
            if not all(one and one["members"] == sorted(names) for one in known):
                return None
            masters = {one["name"] for one in known if one["role"] == "master"}
            said = {one["master"] for one in known}
            return masters.pop() if len(said) == 1 and masters == said else None

        return wait_for("one master, whom all know", master, timeout=PATIENCE)

    def state(self, name, *arguments):
        """What `maple state` says at a controller: its output, and why it fails if it does."""
        command = [MAPLE, "state", *arguments, "--control", str(self.all[name].control)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "--settled" in arguments:
            wait_for_caches()
        return done.stdout.strip(), done.stderr.strip()

    def other(self, name):
        (other,) = set(self.all) - {name}
        return other

    def have_copies(self, master):
        """Waits until each standby is connected with all switches, and has all that the master has decided by now."""
        began = time.monotonic()

        def same():
            copy = self.known(master)["copy"]
            others = [self.known(name) for name in self.all if name != master]
            if copy["age"] > time.monotonic() - began or not all(others):
                return None
            of_all = [
                (one["copy"]["of"], one["copy"]["behind"], one["copy"]["rows"], one["connections"]) for one in others
            ]
            return set(of_all) == {(master, 0, copy["rows"], 4)}

        wait_for("copies of what the master has decided", same, timeout=PATIENCE)

    def tell(self, net, *more):
        """Gives every switch the addresses of all controllers, and of those that are still to come."""
        targets = [f"tcp:127.0.0.1:{self.ports[name][0]}" for name in [*self.all, *more]]
        for switch in net.switches:
            vsctl("set-controller", switch.name, *targets)

    def serves(self, name, net):
        """Waits until a controller is master of all switches and knows the network."""
        # It is elected a moment before it leads: first it goes on with what the former master knew.
        leads = lambda: (self.known(name) or {}).get("role") == "master"  # noqa: E731
        wait_for(f"{name} to lead", leads, timeout=PATIENCE)
        known = lambda: len(self.all[name].connected()) == len(net.switches)  # noqa: E731
        wait_for(f"{name} to be master everywhere", known, timeout=PATIENCE)
        wait_for("all links", lambda: len(self.all[name].show("links")) == len(net.switches), timeout=PATIENCE)


def test_a_standby_takes_over_from_a_master_that_is_killed(controller, lab, etcd, figure):
    members = Members(controller, etcd)
    members.start("n1", "n2")
    net = lab(Ring())
    members.tell(net)
    first = members.agree("n1", "n2")
    second = members.other(first)
    members.serves(first, net)
    waits = lambda: members.known(second)["connections"] == 4  # noqa: E731
    wait_for("the standby's connections", waits, timeout=PATIENCE)
    # The standby says who is master, and has told the switches nothing.
    refused = subprocess.run(
        [MAPLE, "show", "rules", "--control", str(members.all[second].control)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert f"{second} is a standby of the cluster campus: {first} is master" in refused.stderr
    assert members.all[second].count("of_flow_mods") == 0
    net.wait_answers()
    net.wait_agreement(members.all[first])
    with Pinger(net, "h1", "h3") as ping:
        members.all[first].process.kill()
        members.all[first].process.wait()
        wait_for(
            "the standby to be master",
            lambda: (members.known(second) or {}).get("role") == "master",
            timeout=PATIENCE,
        )
        members.serves(second, net)
        lost, sent = ping.end()
    figure(f"the master is killed: {lost} of {sent} pings between hosts that had rules lost")
    net.wait_answers()
    net.wait_agreement(members.all[second])
    # The dead one comes back, and is a standby.
    members.start(first)
    assert members.agree("n1", "n2") == second
    net.wait_agreement(members.all[second])
    # The master gives its place away, as before an upgrade.
    said = sh(MAPLE, "cluster", "step-down", "--control", str(members.all[second].control))
    assert said == f"{first} is master\n"
    members.serves(first, net)
    net.wait_answers()
    assert members.agree("n1", "n2") == first


def test_standbys_take_over_without_a_ping_lost_or_a_rule_changed(controller, lab, etcd, figure):
    members = Members(controller, etcd)
    members.start("n1", "n2")
    net = lab(Ring())
    members.tell(net, "n3")
    master = members.agree("n1", "n2")
    members.serves(master, net)
    net.wait_answers()
    net.wait_agreement(members.all[master])
    # One comes when everything is decided. None of those that take over has been master before.
    members.start("n3")
    while len(members.all) > 1:
        members.agree(*members.all)
        # All that is asked below has been decided.
        assert net.ping_all()[0] == 0
        net.wait_agreement(members.all[master])
        members.have_copies(master)
        hosts = members.all[master].hosts()
        rules = {switch.name: net.dump(switch.name) for switch in net.switches}
        with Pinger(net, "h1", "h3") as ping:
            members.kill(master)
            master = members.agree(*members.all)
            members.serves(master, net)
            net.wait_agreement(members.all[master])
            lost, sent = ping.end()
        figure(f"the master is killed, and standbys have what it decided: {lost} of {sent} pings lost")
        assert lost == 0
        assert members.all[master].hosts() == hosts
        # What the former one had decided needs no new rule.
        assert {switch.name: net.dump(switch.name) for switch in net.switches} == rules
        assert members.all[master].count("of_flow_mods") == 0
        assert net.ping_all()[0] == 0


def test_a_master_that_slept_changes_nothing_when_it_wakes(controller, lab, etcd):
    members = Members(controller, etcd)
    members.start("n1", "n2")
    net = lab(Ring())
    members.tell(net)
    first = members.agree("n1", "n2")
    second = members.other(first)
    members.serves(first, net)
    net.wait_answers()
    asleep = members.all[first].process
    asleep.send_signal(signal.SIGSTOP)
    try:
        # Packets for the sleeping master, which waits in its connections until it wakes.
        net["h1"].cmd("ip neigh flush all")
        net["h1"].cmd(f"ping -n -c 1 -W 1 {net['h4'].IP()}")
        wait_for(
            "the standby to be master",
            lambda: (members.known(second) or {}).get("role") == "master",
            timeout=PATIENCE,
        )
        members.serves(second, net)
        net.wait_answers()
        net.wait_agreement(members.all[second])
        before = {switch.name: net.flows(switch.name) for switch in net.switches}
    finally:
        asleep.send_signal(signal.SIGCONT)
    assert members.agree("n1", "n2") == second
    assert members.known(first)["role"] == "standby"
    wait_for("its switches", lambda: members.known(first)["connections"] == 4, timeout=PATIENCE)
    assert {switch.name: net.flows(switch.name) for switch in net.switches} == before
    assert net.ping_all()[0] == 0
    net.wait_agreement(members.all[second])


def test_etcd_away_changes_nothing(controller, lab, etcd, figure):
    members = Members(controller, etcd)
    members.start("n1", "n2")
    net = lab(Ring())
    members.tell(net)
    first = members.agree("n1", "n2")
    members.serves(first, net)
    net.wait_answers()
    net.wait_agreement(members.all[first])
    before = {switch.name: net.flows(switch.name) for switch in net.switches}
    changes = members.all[first].count("flow_mods")
    with Pinger(net, "h1", "h3") as ping:
        etcd.kill()
        for name in members.all:
            wait_for("no lease", lambda name=name: not members.known(name)["lease"], timeout=PATIENCE)
        assert members.known(first)["role"] == "master"
        found = subprocess.run(
            [MAPLE, "doctor", "--json", "--control", str(members.all[first].control)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert '"etcd-away"' in found.stdout, found.stdout + found.stderr
        assert net.ping_all()[0] == 0
        for number in range(3):
            etcd.start(number)
        for name in members.all:
            wait_for("a lease", lambda name=name: members.known(name)["lease"], timeout=PATIENCE)
        master = members.agree("n1", "n2")
        members.serves(master, net)
        lost, sent = ping.end()
    figure(f"etcd away for longer than a lease: {lost} of {sent} pings lost")
    if master == first:
        # The same one, or the same one again: then it has read all rules, and found what it had written.
        assert lost == 0
        net.wait_agreement(members.all[first])
        assert members.all[first].count("flow_mods") == changes
        assert {switch.name: net.flows(switch.name) for switch in net.switches} == before


def test_a_standby_answers_by_a_row_that_was_written_at_the_master_that_died(controller, lab, etcd, tmp_path):
    policy = tmp_path / "blocks.py"
    policy.write_text(BLOCKS)
    members = Members(controller, etcd, policy)
    members.start("n1", "n2")
    net = lab(Ring())
    members.tell(net)
    first = members.agree("n1", "n2")
    second = members.other(first)
    members.serves(first, net)
    net.wait_answers()
    address = net["h3"].MAC()
    wait_for("the master to write", lambda: members.state(first, "list")[1] == "", timeout=PATIENCE)
    assert members.state(first, "set", "blocked", address, "true", "--settled")[1] == ""
    members.all[first].process.kill()
    members.all[first].process.wait()
    assert net.ping("h1", "h3") == 0
    # It is there before another controller is master, and refuses to change it.
    has_row = lambda: members.state(second, "get", "blocked", address)[0] == "true"  # noqa: E731
    wait_for("the row at the standby", has_row, timeout=PATIENCE)
    leads = lambda: (members.known(second) or {}).get("role") == "master"  # noqa: E731
    wait_for("the standby to be master", leads, timeout=PATIENCE)
    members.serves(second, net)
    wait_for("an answer", lambda: net.ping("h1", "h2") or None, timeout=PATIENCE)
    assert net.ping("h1", "h3") == 0
    # The one that died is a standby, has the row and all that is written now, and writes nothing.
    members.start(first)
    assert members.agree("n1", "n2") == second
    _, refused = members.state(first, "set", "blocked", address, "false")
    assert f"{first} is a standby of the cluster campus: {second} is master" in refused
    assert members.state(second, "delete", "blocked", address, "--settled")[1] == ""
    wait_for("the row to go", lambda: members.state(first, "get", "blocked", address)[0] != "true", timeout=PATIENCE)
    wait_for("an answer", lambda: net.ping("h1", "h3") or None, timeout=PATIENCE)
    # Without etcd nothing is written, and packets go on.
    etcd.kill()

    def refusal():
        _, refused = members.state(second, "set", "blocked", address, "true")
        assert refused
        return "etcd takes no writes now, so no other controller would know of it" in refused

    wait_for("a refusal", refusal, timeout=PATIENCE)
    assert net.ping("h1", "h2") == 1
