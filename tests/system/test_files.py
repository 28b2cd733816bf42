"""Disks that are full or read-only, and files that somebody deletes, under a running controller."""

import itertools
import json
import os
import signal
import socket
import subprocess
import urllib.request
from contextlib import contextmanager

import pytest
from harness import MAPLE, ROOT, Controller, free_port, sh, wait_for

pytest.importorskip("mininet", reason="system tests need Mininet")
from mininet.topo import LinearTopo

POLICY = (
    "from maple import Table, flood, policy\n"
    'notes = Table("notes", key=str, value=str, persist=True)\n'
    "@policy\n"
    "def keeps(pkt, net):\n"
    "    return flood()\n"
)
FULL = "No space left on device"


@pytest.fixture
def disk(tmp_path):
    """A function that makes a small disk in memory; it goes with the test."""
    mounted = []

    def make(size="3m"):
        folder = tmp_path / f"disk-{len(mounted)}"
        folder.mkdir()
        sh("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        # A process that a failed test has left may use it still.
        sh("umount", "--lazy", str(folder))


@contextmanager
def filled(folder):
    """Until the end of the block there is no room on the disk."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert FULL in str(error)
    yield
    filler.unlink()


def put(maple, key, value):
    """Writes a note. Gives why that is not kept, or None."""
    try:
        maple.ask({"state": {"set": {"place": {"key": ["notes", key]}, "value": value}}})
    except RuntimeError as error:
        return str(error)
    return None


def notes(maple):
    return dict(maple.ask({"state": {"get": {"table": "notes"}}}))


def fails(maple, file):
    """Why a file can't be kept, or None."""
    (found,) = (one for one in maple.show("controller")["files"] if one["file"] == file)
    return found["fails"]


def errors(maple):
    return [error["text"] for error in maple.show("errors")]


def gauge(port, file):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as body:
        text = body.read().decode()
    (line,) = (line for line in text.splitlines() if line.startswith(f'maple_file_failed{{file="{file}"}}'))
    return float(line.split()[-1])


def found_by_doctor(maple):
    done = subprocess.run(
        [MAPLE, "doctor", "--json", "--control", str(maple.control)], capture_output=True, text=True, check=False
    )
    findings = json.loads(done.stdout)["findings"]
    # Of several of a kind, the worst.
    return {one["id"]: one for one in sorted(findings, key=lambda one: one["level"] == "error")}


def write_policy(folder):
    policy = folder / "keeps.py"
    policy.write_text(POLICY)
    return policy


def kill(maple):
    maple.process.send_signal(signal.SIGKILL)
    maple.process.wait()


def test_a_disk_that_was_full(controller, disk, tmp_path, figure):
    """Tables go on in memory, everybody is told, and everything is in the file once there is room."""
    folder, port = disk(), free_port()
    start = ("--state", folder / "state", "--metrics", f"127.0.0.1:{port}")
    maple = controller(write_policy(tmp_path), *start)
    assert put(maple, "before", "kept") is None
    assert gauge(port, "state") == 0
    # More than the disk holds: as much as that never fits, however the file is repaired, and so it fails for good.
    answers = [put(maple, str(count), "x" * 20_000) for count in range(200)]
    assert any("is not in the state file yet" in why for why in answers if why)
    fitted = answers.count(None)
    assert FULL in wait_for("the file to fail", lambda: fails(maple, "state"))
    # What the policy and others see does not depend on the disk.
    assert put(maple, "meanwhile", "in memory") is not None
    assert notes(maple)["meanwhile"] == "in memory"
    assert any(FULL in text and "waits in memory" in text for text in errors(maple))
    assert gauge(port, "state") == 1
    finding = found_by_doctor(maple)["file-not-kept"]
    assert finding["level"] == "error" and FULL in finding["what"]
    sh("mount", "-o", "remount,size=64m", str(folder))
    wait_for("the file to be in order", lambda: fails(maple, "state") is None, timeout=30)
    assert put(maple, "after", "kept") is None
    assert gauge(port, "state") == 0
    # The timeline is on the same disk, and each file is tried again at a pace of its own.
    wait_for("every file to be in order", lambda: not any(file["fails"] for file in maple.show("controller")["files"]))
    assert "file-not-kept" not in found_by_doctor(maple)
    assert any("the state file" in text and "in order again" in text for text in errors(maple))
    expected = notes(maple)
    figure(f"a disk of 3 MB: {fitted} rows of 20 kB fit; after it was made larger {len(expected)} rows are kept")
    kill(maple)
    again = controller(write_policy(tmp_path), *start)
    assert notes(again) == expected
    assert errors(again) == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_state_file_that_is_taken_away_is_made_anew(controller, tmp_path, replaced):
    folder = tmp_path / "state"
    folder.mkdir()
    file = folder / "state"
    maple = controller(write_policy(tmp_path), "--state", file)
    assert put(maple, "before", "kept") is None
    if replaced:
        other = folder / "other"
        other.write_text("somebody's own")
        os.replace(other, file)
    else:
        file.unlink()
    made = "the state file to be made anew"
    wait_for(made, lambda: any("it was made anew" in text for text in errors(maple)))
    assert put(maple, "after", "kept") is None
    if replaced:
        assert (folder / "state.aside").read_text() == "somebody's own"
    kill(maple)
    again = controller(write_policy(tmp_path), "--state", file)
    assert notes(again) == {"before": "kept", "after": "kept"}


def test_a_controller_starts_on_a_disk_that_is_read_only(controller, disk, tmp_path):
    folder = disk()
    maple = controller(write_policy(tmp_path), "--state", folder / "state")
    assert put(maple, "before", "kept") is None
    maple.stop()
    sh("mount", "-o", "remount,ro", str(folder))
    maple = controller(write_policy(tmp_path), "--state", folder / "state")
    assert notes(maple) == {"before": "kept"}
    assert "Read-only file system" in fails(maple, "state")
    assert put(maple, "meanwhile", "in memory") is not None
    sh("mount", "-o", "remount,rw", str(folder))
    wait_for("the file to be in order", lambda: fails(maple, "state") is None, timeout=30)
    kill(maple)
    again = controller(write_policy(tmp_path), "--state", folder / "state")
    assert notes(again) == {"before": "kept", "meanwhile": "in memory"}


def test_what_rules_were_made_of_is_in_the_file_that_is_made_anew(controller, lab, tmp_path):
    """After its state file was deleted, a controller that is killed and started again changes no rule."""
    policy, file = ROOT / "examples" / "secure_routing.py", tmp_path / "state"
    maple = controller(policy, "--state", file)
    net = lab(LinearTopo(k=2, n=2), maple)
    assert net.ping_all()[0] == 0
    net.wait_agreement(maple)
    before = {switch.name: net.flows(switch.name) for switch in net.switches}
    file.unlink()
    wait_for("the file to be made anew", lambda: any("it was made anew" in text for text in errors(maple)))

    def kept():
        """The number of leaves, once all are in the file. A leaf may go meanwhile."""
        leaves = maple.count("leaves")
        return leaves if remembered(file, tmp_path, policy) >= leaves else 0

    leaves = wait_for("all decisions in the file", kept, timeout=60, every=1)
    kill(maple)
    maple = controller(policy, "--state", file, port=maple.port)
    net.wait_known(maple)
    wait_for("the leaves", lambda: maple.count("leaves") >= leaves)
    assert net.ping_all()[0] == 0
    assert {switch.name: net.flows(switch.name) for switch in net.switches} == before
    assert maple.count("flow_mods") == 0


def remembered(file, folder, policy):
    """How many decisions a copy of a state file has; it may be torn, and then none."""
    copy = folder / "copy"
    copy.write_bytes(file.read_bytes())
    command = [MAPLE, "plan", str(policy), "--state", str(copy), "--from", str(policy), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["packets"] if done.returncode in (0, 2) and done.stdout else 0


def test_a_recording_goes_on_when_there_is_room(controller, lab, disk, tmp_path):
    folder = disk()
    maple = controller(ROOT / "examples" / "secure_routing.py", "--record", folder / "recordings")
    net = lab(LinearTopo(k=2, n=2), maple)
    with filled(folder):
        assert net.ping_all()[0] == 0
        assert FULL in wait_for("the recording to fail", lambda: fails(maple, "recording"))
    wait_for("the recording to go on", lambda: fails(maple, "recording") is None, timeout=30)
    assert net.ping("h1s1", "h2s2") == 1
    maple.stop()
    replayed = sh(MAPLE, "replay", str(folder / "recordings"))
    assert "identical: every message is the same" in replayed


def test_a_recording_whose_files_are_deleted_ends(controller, lab, tmp_path):
    maple = controller(ROOT / "examples" / "secure_routing.py", "--record", tmp_path / "recordings")
    lab(LinearTopo(k=2, n=1), maple)
    sh("rm", "-r", str(tmp_path / "recordings"))
    why = wait_for("the recording to end", lambda: fails(maple, "recording"))
    assert "deleted or replaced" in why
    assert any("the recording" in text and "has ended" in text for text in errors(maple))


def test_a_log_on_a_full_disk_goes_on_and_says_what_is_missing(openvswitch, disk, tmp_path):
    folder = disk()
    maple = Controller("builtin:flood", [], folder / "maple")
    numbers = itertools.count(2)

    def talk():
        """Programs other than switches, each with an address of its own: the log has a line for each."""
        for number in itertools.islice(numbers, 20):
            source = (f"127.0.{number // 250}.{number % 250 + 1}", 0)
            with socket.create_connection(("127.0.0.1", maple.port), timeout=10, source_address=source) as program:
                program.sendall(b"nonsense")
                while program.recv(4096):
                    pass
        return fails(maple, "log")

    try:
        with filled(folder):
            assert FULL in wait_for("the log to fail", talk)
        wait_for("the log to go on", lambda: talk() is None)
        assert any("the log" in text and "lines are missing in it" in text for text in errors(maple))
        maple.log.unlink()
        assert "it was deleted" in wait_for("that to be told", lambda: fails(maple, "log"))
    finally:
        maple.stop()


def test_a_control_socket_that_is_deleted_is_made_again(controller):
    maple = controller("builtin:flood")
    maple.control.unlink()
    wait_for("the socket", maple.control.exists)
    assert fails(maple, "control-socket") is None
    assert any("the control socket" in text and "in order again" in text for text in errors(maple))
    # At once: a socket that is missing is made again.
    other = maple.control.with_name("other")
    other.write_text("somebody's own")
    other.replace(maple.control)
    wait_for("it to be told", lambda: "the control socket" in maple.text() and "not a socket" in maple.text())
    maple.control.unlink()
    wait_for("the socket", maple.control.is_socket)
    assert maple.show("switches") == []
    maple.stop()
    assert not maple.control.exists()
