"""A configuration that is read again by a running controller: SIGHUP, `maple reload`, `maple run --watch`."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_configuration import CONFIG, MAPLE, POLICY, Running, maple, wait_for

ALICE = "00:00:00:00:00:01"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    (tmp_path / "policy.py").write_text(POLICY)
    (tmp_path / "maple.toml").write_text(CONFIG)
    started: list[Running] = []

    def running(*arguments: str) -> Running:
        started.append(Running(tmp_path, *arguments))
        return started[-1]

    yield running
    for one in started:
        one.process.kill()
        one.process.wait(10)


@pytest.fixture
def emulate() -> Iterator[Callable[[Running], None]]:
    """A function that gives a controller a network of two switches whose hosts talk."""
    started: list[subprocess.Popen[bytes]] = []

    def emulated(running: Running) -> None:
        command = [
            *MAPLE,
            "emulate",
            "linear:2",
            "--controller",
            running.address(),
            "--traffic",
            "120s",
            "--rate",
            "40",
        ]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_for("hosts", lambda: len(hosts(running)) == 2)

    yield emulated
    for one in started:
        one.kill()
        one.wait(10)


def hosts(running: Running) -> dict[str, list[object]]:
    """Where each host is, by its hardware address."""
    return {
        host["mac"]: [host["at"]["switch"], host["at"]["port"]] for host in json.loads(running.show("hosts", "--json"))
    }


def stats(running: Running) -> dict[str, int]:
    engine = json.loads(running.show("stats", "--json"))["engine"]
    assert isinstance(engine, dict)
    return engine


def hang_up(running: Running, folder: Path, text: str) -> None:
    """Gives a controller another configuration by SIGHUP."""
    (folder / "maple.toml").write_text(text)
    before = running.text().count("maple.toml read again")
    running.process.send_signal(signal.SIGHUP)
    wait_for("the configuration", lambda: running.text().count("maple.toml read again") > before)


def reload(running: Running, *arguments: str) -> subprocess.CompletedProcess[str]:
    return maple("reload", *arguments, "--control", str(running.control))


def test_ports_and_hosts_are_as_the_file_says_after_a_hangup(
    start: Callable[..., Running], emulate: Callable[[Running], None], tmp_path: Path
) -> None:
    running = start()
    emulate(running)
    switch, port = hosts(running)[ALICE]
    assert switch == "0000000000000001"
    link = next(end for end in json.loads(running.show("links", "--json"))[0] if end["switch"] == switch)["port"]
    # What is declared as it is changes nothing.
    flow_mods = json.loads(running.show("stats", "--json"))["controller"]["of_flow_mods"]
    right = CONFIG.replace('dpid = "0000000000000001"', f'dpid = "0000000000000001"\nedge = {port}\nlink = {link}')
    right = right.replace(f'mac = "{ALICE}"', f'mac = "{ALICE}"\nat = "core1:{port}"\naddresses = ["10.9.9.9"]')
    hang_up(running, tmp_path, right)
    wait_for("her address", lambda: "10.9.9.9" in running.show("hosts"))
    assert hosts(running)[ALICE] == [switch, port]
    assert len(json.loads(running.show("links", "--json"))) == 1
    assert json.loads(running.show("stats", "--json"))["controller"]["of_flow_mods"] == flow_mods
    # Her place is elsewhere.
    hang_up(running, tmp_path, right.replace(f'at = "core1:{port}"', 'at = "2:9"'))
    assert ALICE not in hosts(running)
    wait_for("drops", lambda: stats(running)["spoofed_drops"] > 0)
    assert ALICE not in hosts(running) and "the host is at 0000000000000002:9" in running.show("errors")
    # Her port is closed.
    hang_up(running, tmp_path, CONFIG.replace("[hosts.alice]", f"ports = {link}\n\n[hosts.alice]"))
    assert ALICE not in hosts(running)
    hang_up(running, tmp_path, CONFIG)
    wait_for("her return", lambda: hosts(running).get(ALICE) == [switch, port])
    assert "10.9.9.9" not in running.show("hosts")


def test_names_the_log_and_the_policy_follow_and_what_needs_a_restart_is_told(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    running = start()
    other = CONFIG.replace("core1", "edge1").replace('policy = "policy.py"', 'policy = "builtin:flood"\nworkers = 1')
    other = other.replace('listen = ["127.0.0.1:0"]', 'listen = ["127.0.0.1:1"]').replace('"day"', '"night"')
    (tmp_path / "maple.toml").write_text(other)
    done = reload(running, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    told = f"listen, workers: changed in {tmp_path}/maple.toml; a restart (or `maple run --takeover`) applies them"
    assert answer["restart"] == ["listen", "workers"] and told in answer["warnings"], answer
    assert running.show("names").startswith("edge1 is 0000000000000001\n")
    wait_for("the policy", lambda: "policy builtin:flood reloaded" in running.text())
    assert running.text().count(told) == 1
    # Rows are a beginning.
    assert json.loads(maple("state", "get", "mode", "--var", "--control", str(running.control)).stdout) == "day"
    # That holds until the restart; and another policy runs until the file names another one.
    assert reload(running, str(tmp_path / "policy.py")).returncode == 0
    done = reload(running)
    assert done.returncode == 0 and f"warning: {told}" in done.stderr, done.stderr
    assert "policy.py reloaded" in running.text().splitlines()[-1], running.text()
    (tmp_path / "maple.toml").write_text(CONFIG + '[hosts.bob]\nmac = "00:00:00:00:00:02"\n')
    (tmp_path / "maple.toml").write_text('log = ["error"]\n' + (tmp_path / "maple.toml").read_text())
    done = reload(running, "--json")
    assert json.loads(done.stdout)["restart"] == [] and "bob" in running.show("names")
    lines = running.text()
    assert reload(running).returncode == 0 and running.text() == lines, "the log is quiet"


def test_a_file_that_is_wrong_changes_nothing_and_says_why(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start()
    policy = (tmp_path / "policy.py").read_text()
    (tmp_path / "policy.py").write_text(policy.replace('"night"', '"dusk"'))
    file = tmp_path / "maple.toml"
    renamed = CONFIG.replace("core1", "edge1")
    for text, why in (
        (
            renamed + '[switches.core2]\ndpid = "2"\nedg = 1\n',
            f'{file}:19: switches.core2.edg: unknown key; did you mean "edge"?',
        ),
        (renamed + "edge = = 1\n", f"{file}:17: "),
        (renamed.replace("policy =", "polcy ="), f'{file}:2: polcy: unknown key; did you mean "policy"?'),
        (renamed.replace('policy = "policy.py"\n', ""), f"{file}: a policy is missing"),
        (
            renamed.replace("control =", 'middlebox = ["core1:3"]\ncontrol ='),
            f'{file}:4: middlebox: "core1" is not a switch',
        ),
        ('tls-key = "x.pem"\n' + renamed, f"{file}: the following required arguments were not provided: --tls-cert"),
    ):
        file.write_text(text)
        done = reload(running)
        assert done.returncode == 1 and f"something is wrong in the configuration: {why}" in done.stderr, done.stderr
        running.process.send_signal(signal.SIGHUP)
        wait_for(why, lambda why=why: running.text().count(f"the configuration: {why}") == 2)
    file.unlink()
    done = reload(running)
    assert done.returncode == 1 and f"can't read {file}" in done.stderr
    assert running.show("names").startswith("core1 is") and "reloaded" not in running.text()
    file.write_text(renamed)
    done = reload(running)
    assert done.returncode == 0, done.stderr
    assert running.show("names").startswith("edge1 is") and "policy.py reloaded" in running.text()


def test_a_fixed_place_needs_host_tracking_also_later(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start("--track-hosts", "off")
    text = CONFIG.replace(f'mac = "{ALICE}"', f'mac = "{ALICE}"\nat = "core1:1"')
    (tmp_path / "maple.toml").write_text(text)
    done = reload(running)
    assert done.returncode == 1 and "maple.toml:9: hosts.alice.at: hosts with a fixed place" in done.stderr, done.stderr


def test_costs_follow_and_one_that_is_gone_is_one(start: Callable[..., Running], tmp_path: Path) -> None:
    costs = '\n[[costs.secure]]\na = "core1"\nb = "2"\ncost = {}\n'
    (tmp_path / "maple.toml").write_text(CONFIG + costs.format(5))
    running = start()
    (tmp_path / "maple.toml").write_text(CONFIG + costs.format(7))
    assert reload(running).returncode == 0
    (tmp_path / "maple.toml").write_text(CONFIG)
    assert reload(running).returncode == 0
    assert "warning" not in running.text(), running.text()


def test_a_watched_configuration_is_read_again_when_it_changes(start: Callable[..., Running], tmp_path: Path) -> None:
    running = start("--watch")
    wait_for("a start", lambda: "listening on " in running.text())
    (tmp_path / "maple.toml").write_text(CONFIG.replace("core1", "edge1"))
    wait_for("the names", lambda: running.show("names").startswith("edge1 is"))
    (tmp_path / "maple.toml").write_text("nonsense\n")
    wait_for("the error", lambda: "maple.toml:1: " in running.text())
    assert running.show("names").startswith("edge1 is")


def test_a_run_whose_configuration_changed_is_replayed(
    start: Callable[..., Running], emulate: Callable[[Running], None], tmp_path: Path
) -> None:
    running = start("--record", str(tmp_path / "recordings"), "--workers", "2")
    emulate(running)
    port = hosts(running)[ALICE][1]
    for place in ('"2:9"', f'"core1:{port}"'):
        hang_up(running, tmp_path, CONFIG.replace(f'mac = "{ALICE}"', f'mac = "{ALICE}"\nat = {place}'))
    wait_for("her return", lambda: ALICE in hosts(running))
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(20) == 0
    done = maple("replay", str(tmp_path / "recordings"), "--json")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_flag_of_the_file_is_taken_back_by_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "maple.toml").write_text(CONFIG.replace("policy =", "watch = true\npolicy ="))
    for arguments, wanted in (((), "watch = true"), (("--watch=false",), "watch = false")):
        done = maple("config", "show", "--config", "maple.toml", *arguments, cwd=tmp_path)
        assert wanted in done.stdout and done.returncode == 0, done.stdout + done.stderr
    wrong = maple("config", "show", "--config", "maple.toml", "--watch=no", cwd=tmp_path)
    assert wrong.returncode == 2 and "--watch" in wrong.stderr
