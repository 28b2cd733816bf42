"""A policy takes the place of another, and the controller is killed: which one runs after a start, and what is said."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_command import MAPLE, Running, maple, wait_for

OLD = """version: 1
default: allow
rules:
  - {action: deny, from: 10.0.0.1, to: 10.0.0.4, service: tcp/22}
  - {action: deny, from: 10.0.0.0/30, to: any, service: udp/53}
  - {action: allow, from: any, to: any, service: tcp/80}
  - {action: deny, from: 10.0.0.0/29, to: any, service: tcp/8080}
"""
NEW = OLD.replace("10.0.0.4, service: tcp/22", "10.0.0.3, service: tcp/22")


class Place:
    """A folder with two policies, in which controllers start one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.old, self.new = folder, folder / "old.yaml", folder / "new.yaml"
        self.old.write_text(OLD)
        self.new.write_text(NEW)
        self.running: Running | None = None

    def start(self, *arguments: str, address: str = "") -> Running:
        (self.folder / "control").unlink(missing_ok=True)
        state = str(self.folder / "state")
        self.running = Running(self.folder, str(self.old), "--state", state, *arguments, address=address)
        return self.running

    def kill(self) -> None:
        assert self.running is not None
        self.running.kill()

    def says(self, text: str) -> str:
        """Waits until the log has a line that fits. Gives the log."""
        assert self.running is not None
        log = self.running.log
        wait_for(text, lambda: re.search(text, log.read_text()))
        return log.read_text()

    def policy(self) -> Any:
        """The policy that runs, once the program has named it."""
        found: list[Any] = []

        def is_named() -> Any:
            assert self.running is not None
            shown = self.running.show("controller")
            assert isinstance(shown, dict)
            found.append(shown["policy"])
            return found[-1]

        wait_for("the policy to be named", is_named)
        return found[-1]

    def remembers(self, policy: Path) -> None:
        """Waits until the state file tells of a policy: it is written twice a second."""
        wait_for("the state file", lambda: f'"{policy}"'.encode() in (self.folder / "state").read_bytes())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    one = Place(tmp_path)
    yield one
    if one.running is not None:
        one.kill()


def ask(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert place.running is not None
    return maple(*arguments, "--control", place.running.control)


def test_the_log_and_show_controller_name_the_policy_that_runs(place: Place) -> None:
    place.start()
    first = place.policy()
    assert (first["name"], first["by"], first["configured"]["name"]) == (str(place.old), "start", str(place.old))
    place.says(rf"policy {place.old} \({first['hash'][:12]}\) runs")
    plan = json.loads(ask(place, "plan", "--json").stdout)
    assert plan["sources"] == first["hash"], "a plan has the same fingerprint"
    assert ask(place, "reload", str(place.new)).returncode == 0
    second = place.policy()
    assert (second["name"], second["by"], second["configured"]["name"]) == (str(place.new), "reload", str(place.old))
    assert second["hash"] != first["hash"] and second["since"] >= first["since"]
    assert ask(place, "rollback").returncode == 0
    third = place.policy()
    assert (third["name"], third["by"], third["hash"]) == (str(place.old), "rollback", first["hash"])
    shown = ask(place, "show", "controller").stdout
    assert re.search(rf"^policy +{place.old}$", shown, re.MULTILINE), shown
    assert re.search(rf"^  hash +{first['hash']}$", shown, re.MULTILINE), shown


def test_a_start_that_undoes_an_apply_says_so_or_goes_on_with_it(place: Place) -> None:
    place.start()
    plan = place.folder / "plan.json"
    assert ask(place, "plan", str(place.new), "--out", str(plan)).returncode in (0, 2)
    assert ask(place, "apply", str(plan)).returncode == 0
    assert place.policy()["by"] == "apply"
    place.remembers(place.new)
    place.kill()
    place.start("--resume-applied")
    resumed = place.policy()
    assert (resumed["name"], resumed["by"], resumed["on_trial"]) == (str(place.new), "resumption", True)
    assert "warning" not in place.says(rf"policy {place.new} \(\w+\) runs, as before: since ")
    wait_for("the state file", lambda: b'"on_trial":true' in (place.folder / "state").read_bytes())
    place.kill()
    place.start("--resume-applied")
    place.says("this start undoes a change: .*ended within a minute")
    assert place.policy()["name"] == str(place.old)
    assert ask(place, "reload", str(place.new)).returncode == 0
    wait_for("the state file", lambda: b'"by":"reload"' in (place.folder / "state").read_bytes())
    place.kill()
    place.start()
    place.says(rf"warning: this start undoes a change: policy {place.new} \(\w+\) ran since \S+ by a reload")
    assert place.policy()["name"] == str(place.old)


def test_what_the_start_names_counts_if_that_has_changed_since(place: Place) -> None:
    place.start()
    assert ask(place, "reload", str(place.new)).returncode == 0
    place.remembers(place.new)
    place.kill()
    place.old.write_text(OLD.replace("8080", "8081"))
    place.start("--resume-applied")
    place.says("names has changed since")
    assert place.policy()["name"] == str(place.old)


def test_an_orderly_stop_takes_nothing_back(place: Place) -> None:
    place.start()
    assert ask(place, "reload", str(place.new)).returncode == 0
    for _ in range(2):
        assert place.running is not None and place.running.stop() == 0
        place.start("--resume-applied")
        assert place.policy()["name"] == str(place.new)


@pytest.fixture
def emulated(place: Place) -> Iterator[Callable[[Running], None]]:
    """A function that gives a controller four switches and 17 hosts, who talk for some seconds and are silent then."""
    switches = [{"name": f"s{n}"} for n in range(1, 5)]
    hosts = [{"name": f"h{n}", "switch": f"s{n % 4 + 1}"} for n in range(1, 18)]
    links = [{"a": f"s{n}", "b": f"s{n % 4 + 1}"} for n in range(1, 5)]
    file = place.folder / "net.json"
    file.write_text(json.dumps({"switches": switches, "hosts": hosts, "links": links}))
    started: list[subprocess.Popen[bytes]] = []

    def new(running: Running) -> None:
        command = [*MAPLE, "emulate", str(file), "--controller", running.address, "--console"]
        command += ["--traffic", "8s", "--rate", "60"]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))

    yield new
    for one in started:
        one.kill()
        one.wait()


def flow_mods(running: Running) -> int:
    shown = running.show("stats")
    assert isinstance(shown, dict)
    return int(shown["controller"]["of_flow_mods"])


def rules(running: Running) -> list[str]:
    shown = running.show("rules")
    assert isinstance(shown, list)
    return sorted(f"{one['switch']} {rule['flow']}" for one in shown for rule in one["rules"])


def at_rest(running: Running) -> None:
    seen: list[int] = []

    def is_at_rest() -> bool:
        seen.append(flow_mods(running))
        return len(seen) > 60 and len(set(seen[-60:])) == 1

    wait_for("a network at rest", is_at_rest, 60)


def test_a_restart_after_a_reload_sends_only_what_differs(place: Place, emulated: Callable[[Running], None]) -> None:
    running = place.start()
    emulated(running)
    wait_for("decisions", lambda: len(rules(running)) > 150, 60)
    at_rest(running)
    before = flow_mods(running)
    assert ask(place, "reload", str(place.new)).returncode == 0
    at_rest(running)
    changed = flow_mods(running) - before
    place.remembers(place.new)
    place.kill()
    # The switches find it at the same port.
    again = place.start("--resume-applied", address=running.address)
    wait_for("the switches", lambda: switches(again) == 4, 60)
    at_rest(again)
    assert flow_mods(again) <= changed, f"{changed} for the reload"


def switches(running: Running) -> int:
    shown = running.show("switches")
    assert isinstance(shown, list)
    return len(shown)
