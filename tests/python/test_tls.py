"""TLS against OpenSSL, whose library Open vSwitch has: old versions, bad certificates, renegotiation."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_command import MAPLE, Running, maple, wait_for


def openssl(folder: Path, *arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and certificates of a controller and of switches: a good one, an expired one, one of version 1."""
    if shutil.which("openssl") is None:
        pytest.fail("these tests need the command openssl")
    folder = tmp_path_factory.mktemp("pki")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    (folder / "extensions").write_text("basicConstraints=CA:FALSE\n")
    (folder / "index").write_text("")
    (folder / "authority.cnf").write_text(
        "[ca]\ndefault_ca = own\n[own]\ndatabase = index\nserial = serial\nnew_certs_dir = .\ndefault_md = sha256\n"
        "policy = any\nx509_extensions = extensions\n[any]\ncommonName = supplied\n"
        "[extensions]\nbasicConstraints = CA:FALSE\n"
    )
    openssl(folder, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    for name in ("controller", "switch", "expired", "first"):
        openssl(folder, "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        by = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
        if name == "expired":
            when = ("-startdate", "20200101000000Z", "-enddate", "20210101000000Z")
            files = ("-cert", "ca.pem", "-keyfile", "ca.key", "-in", "expired.csr", "-out", "expired.pem", "-notext")
            openssl(folder, "ca", "-batch", "-config", "authority.cnf", "-rand_serial", *when, *files)
        else:
            extensions = () if name == "first" else ("-extfile", "extensions")
            openssl(folder, "x509", "-req", "-in", f"{name}.csr", *by, "-out", f"{name}.pem", *extensions)
    return folder


@pytest.fixture
def running(tmp_path: Path, pki: Path) -> Iterator[Running]:
    files = ["--tls-cert", pki / "controller.pem", "--tls-key", pki / "controller.key", "--tls-ca", pki / "ca.pem"]
    one = Running(tmp_path, "builtin:learning-switch", "--listen", "tls:127.0.0.1:0", *map(str, files))
    try:
        found: list[str] = []
        wait_for(
            "its ports",
            lambda: found.extend(re.findall(r"listening on \S+, (\S+)\n", one.log.read_text())) or len(found) > 0,
        )
        one.address = found[0]
        yield one
    finally:
        one.process.kill()
        one.process.wait()


def client(running: Running, pki: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A peer with this certificate. It lives as long as its input."""
    own = ("-cert", pki / f"{name}.pem", "-key", pki / f"{name}.key", "-CAfile", pki / "ca.pem")
    command = ["openssl", "s_client", "-connect", running.address, *own, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def said_to(running: Running, pki: Path, name: str, *arguments: str) -> bytes:
    """What a peer writes that ends its input after a moment."""
    peer = client(running, pki, name, *arguments)
    time.sleep(0.5)
    return peer.communicate(timeout=20)[0]


def failures(running: Running) -> int:
    shown = running.show("stats")
    assert isinstance(shown, dict)
    return int(shown["controller"].get("of_tls_failures", 0))


@pytest.mark.parametrize(("option", "version"), [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")])
def test_a_session_begins_in_both_versions(running: Running, pki: Path, option: str, version: str) -> None:
    text = said_to(running, pki, "switch", option)
    assert f"New, {version}".encode() in text and b"Verify return code: 0" in text, text.decode()
    assert failures(running) == 0


def test_an_older_version_is_refused(running: Running, pki: Path) -> None:
    text = said_to(running, pki, "switch", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
    assert b"alert" in text and b"New, (NONE)" in text, text.decode()
    wait_for("the count", lambda: failures(running) == 1)


def test_a_certificate_of_the_controller_without_extensions_is_named(tmp_path: Path, pki: Path) -> None:
    files = ["--tls-cert", pki / "first.pem", "--tls-key", pki / "first.key", "--tls-ca", pki / "ca.pem"]
    done = maple("run", "builtin:learning-switch", "--listen", "tls:127.0.0.1:0", *map(str, files))
    assert done.returncode != 0
    assert f"{pki / 'first.pem'}: its certificate is one of X.509 version 1, which can't say" in done.stderr, (
        done.stderr
    )


@pytest.mark.parametrize(("name", "why"), [("expired", "has expired"), ("first", "is one of X.509 version 1")])
def test_a_bad_certificate_is_refused_with_a_reason(running: Running, pki: Path, name: str, why: str) -> None:
    said_to(running, pki, name)
    wait_for("the reason", lambda: f"its certificate {why}" in running.log.read_text())
    assert failures(running) == 1 and running.show("switches") == []


@pytest.mark.parametrize("option", ["-tls1_2", "-tls1_3"])
def test_a_storm_of_renegotiations_or_new_keys_leaves_others_their_share(
    running: Running, pki: Path, option: str
) -> None:
    peers = [client(running, pki, "switch", option, "-msg") for _ in range(8)]
    files = ("--tls-ca", pki / "ca.pem", "--tls-cert", pki / "switch.pem", "--tls-key", pki / "switch.key")
    load = [*MAPLE, "load", "--connect", running.address, *files, "--switches", "4", "--macs", "10", "--window", "1"]
    load += ["--warmup", "200ms", "--duration", "2s", "--json"]
    process = subprocess.Popen(load, stdout=subprocess.PIPE)
    try:
        # R asks for a renegotiation in 1.2; in 1.3, K changes keys and asks for new ones.
        command = b"R\n" if option == "-tls1_2" else b"K\n"
        end = time.monotonic() + 3
        while time.monotonic() < end:
            for peer in peers:
                assert peer.stdin is not None
                try:
                    peer.stdin.write(command)
                    peer.stdin.flush()
                except BrokenPipeError:
                    # It was refused, and is gone.
                    continue
            time.sleep(0.005)
        report = json.loads(process.communicate(timeout=30)[0])
    finally:
        process.kill()
        process.wait()
        texts = []
        for peer in peers:
            peer.kill()
            texts.append(peer.communicate()[0])
    assert report["answers"] > 100 and report["silent_switches"] == 0, report
    asked = b"HelloRequest|RENEGOTIATING" if option == "-tls1_2" else b"KEYUPDATE|KeyUpdate"
    assert all(re.search(asked, text) for text in texts), texts[0].decode()
    assert running.process.poll() is None
    # And the next one is served.
    text = said_to(running, pki, "switch")
    assert b"Verify return code: 0" in text


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_session_is_resumed(running: Running, pki: Path, version: str) -> None:
    files = ("--tls-ca", pki / "ca.pem", "--tls-cert", pki / "switch.pem", "--tls-key", pki / "switch.key")
    times = ("--settle", "300ms", "--warmup", "100ms", "--duration", "200ms", "--reconnect", "2")
    load = ["load", "--connect", running.address, *map(str, files), "--tls-version", version, *times, "--json"]
    done = maple(*load, "--switches", "8", "--macs", "1", "--window", "1")
    report = json.loads(done.stdout)
    assert report["tls"] and report["resumed"] == 8 and len(report["connected"]) == 3, report
    assert report["answers"] > 0 and failures(running) == 0


def test_the_load_generator_names_what_is_wrong_with_its_files(running: Running, pki: Path, tmp_path: Path) -> None:
    (tmp_path / "nothing.pem").write_text("")
    base = ("load", "--connect", running.address, "--duration", "100ms")
    done = maple(*base, "--tls-ca", str(tmp_path / "nothing.pem"))
    assert done.returncode == 1 and "nothing.pem: it has no certificate" in done.stderr, done.stderr
    done = maple(*base, "--tls-ca", str(tmp_path / "absent.pem"))
    assert done.returncode == 1 and "absent.pem: " in done.stderr, done.stderr
    other = ("--tls-cert", str(pki / "switch.pem"), "--tls-key", str(pki / "controller.key"))
    done = maple(*base, "--tls-ca", str(pki / "ca.pem"), *other)
    assert done.returncode == 1 and "switch.pem: " in done.stderr, done.stderr
    done = maple(*base, "--tls-ca", str(pki / "ca.pem"))
    assert done.returncode == 1 and "closed the connection" in done.stderr, "it shows no certificate"
