"""TLS between Maple and Open vSwitch, with certificates that ovs-pki makes."""

import shutil
import subprocess
from contextlib import contextmanager

import pytest
from harness import sh, vsctl, wait_for
from lab import Lab
from mininet.topo import Topo

POLICY = """
from maple import flood, policy

@policy
def everywhere(pkt, net):
    return flood()
"""


class One(Topo):
    """s1 with two hosts."""

    def build(self):
        switch = self.addSwitch("s1")
        for name in ("h1", "h2"):
            self.addLink(self.addHost(name), switch)


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """Authorities of switches and controllers, a certificate of each, and one of a switch of other authorities."""
    folder = tmp_path_factory.mktemp("pki")
    for name in ("ours", "theirs"):
        (folder / name).mkdir()
        for arguments in (("init",), ("req+sign", "sc", "switch"), ("req+sign", "ctl", "controller")):
            subprocess.run(
                ["ovs-pki", f"--dir={folder / name / 'pki'}", *arguments],
                cwd=folder / name,
                capture_output=True,
                check=True,
            )
    yield folder
    shutil.rmtree(folder)


@contextmanager
def certificate_of_switches(pki, name):
    """Open vSwitch shows this certificate, and knows our authority."""
    own, ours = pki / name, pki / "ours/pki/controllerca/cacert.pem"
    vsctl("set-ssl", str(own / "sc-privkey.pem"), str(own / "sc-cert.pem"), str(ours))
    try:
        yield
    finally:
        vsctl("del-ssl")


@contextmanager
def bridge(target, protocols):
    """A bridge with the datapath id aa, whose controller is there."""
    vsctl("add-br", "tls0", "--", "set", "bridge", "tls0", "datapath_type=netdev", "fail_mode=secure",
          f"protocols={protocols}", "other-config:datapath-id=00000000000000aa", "--", "set-controller", "tls0", target,
          "--", "set", "controller", "tls0", "max_backoff=1000")  # fmt: skip
    try:
        yield
    finally:
        vsctl("del-br", "tls0")


def arguments(pki, port, *more):
    ours = pki / "ours"
    return ("--listen", f"tls:127.0.0.1:{port}", "--tls-cert", ours / "ctl-cert.pem", "--tls-key",
            ours / "ctl-privkey.pem", "--tls-ca", ours / "pki/switchca/cacert.pem", *more)  # fmt: skip


@pytest.fixture
def secured(controller, pki, tmp_path):
    """A function that starts a controller with TLS, and says where."""
    from harness import free_port

    (tmp_path / "p.py").write_text(POLICY)

    def start(*more):
        port = free_port()
        return controller(tmp_path / "p.py", *arguments(pki, port, *more)), f"ssl:127.0.0.1:{port}"

    return start


@pytest.mark.parametrize("protocols", ["OpenFlow10", "OpenFlow13"])
def test_packets_pass_under_a_controller_with_tls(secured, pki, openvswitch, protocols):
    maple, target = secured()
    with certificate_of_switches(pki, "ours"):
        net = Lab(One(), None, protocols)
        try:
            net.start()
            vsctl("set-fail-mode", "s1", "secure", "--", "set-controller", "s1", target)
            net.wait_known(maple)
            assert net.ping_all()[0] == 0
            net.wait_agreement(maple)
            assert maple.count("of_tls_failures") == 0
            assert maple.errors() == []
        finally:
            net.stop()


def test_a_switch_of_another_authority_is_refused_and_one_without_tls_too(secured, pki, openvswitch):
    maple, target = secured()
    with certificate_of_switches(pki, "theirs"), bridge(target, "OpenFlow13"):
        wait_for("the refusal", lambda: "no known authority has signed its certificate" in maple.text())
        vsctl("del-controller", "tls0")
        # Told once a minute for each address: from here on it is only counted.
        failures = maple.count("of_tls_failures")
        vsctl("set-controller", "tls0", target.replace("ssl:", "tcp:"))
        wait_for("the other", lambda: maple.count("of_tls_failures") > failures)
    assert maple.show("switches") == []


def test_a_switch_may_only_be_the_one_that_its_certificate_is_bound_to(secured, pki, openvswitch, tmp_path):
    bound = tmp_path / "switches"
    subject = sh("openssl", "x509", "-noout", "-subject", "-in", str(pki / "ours/sc-cert.pem")).strip()
    bound.write_text(f"bb {subject.replace('subject=', 'subject:')}\n")
    maple, target = secured("--tls-switches", bound)
    with certificate_of_switches(pki, "ours"), bridge(target, "OpenFlow13"):
        wait_for("the refusal", lambda: maple.count("of_wrong_certificates") > 0)
        assert maple.show("switches") == []
        # The file is read again when it changes.
        bound.write_text(f"aa-bb {subject.replace('subject=', 'subject:')}\n")
        wait_for("the switch", lambda: len(maple.show("switches")) == 1)


def test_the_first_certificate_of_a_switch_is_trusted(secured, pki, openvswitch, tmp_path):
    bound = tmp_path / "switches"
    maple, target = secured("--tls-switches", bound, "--tls-trust-on-first-use")
    with certificate_of_switches(pki, "ours"), bridge(target, "OpenFlow13"):
        wait_for("the switch", lambda: len(maple.show("switches")) == 1)
    fingerprint = sh("openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in", str(pki / "ours/sc-cert.pem"))
    hexes = fingerprint.split("=")[1].strip().replace(":", "").lower()
    assert bound.read_text() == f"00000000000000aa sha256:{hexes}\n"
