"""The policies that docs/apps.md shows: emulated networks deliver what they say, and they read what is tracked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import maple.apps
import pytest
from maple._check import of_policy
from maple._policy import Policy, load

PAGE = (Path(__file__).parents[2] / "docs/apps.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))


def test_every_app_has_a_section_with_an_example_and_a_row() -> None:
    titles = {title.lower().replace(" ", "_") for title in SECTIONS}
    assert titles == set(maple.apps.__all__)
    assert all(body.count("```python") == 1 for body in SECTIONS.values())
    rows = re.findall(r"^\| \[`(\w+)`\]\(#([\w-]+)\)", PAGE, re.M)
    assert [name.replace("_", "-") for name, _ in rows] == [anchor for _, anchor in rows]
    assert {name for name, _ in rows} == titles


@pytest.mark.parametrize("title", SECTIONS)
def test_an_emulated_network_delivers_what_the_example_says(title: str, tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", SECTIONS[title], re.S)
    file = tmp_path / f"{title.lower().replace(' ', '_')}_example.py"
    file.write_text(block)
    policy = load(str(file))
    assert isinstance(policy, Policy) and of_policy(policy) == []
    command = [sys.executable, "-m", "maple", "run", str(file), "--emulate", "ring:4", "--traffic", "1s"]
    done = subprocess.run([*command, "--allow-drops"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "treated otherwise than f says           0" in done.stdout
    assert re.search(r"lost +0$", done.stdout, re.M), done.stdout
