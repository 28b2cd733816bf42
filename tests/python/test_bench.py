"""`maple-bench` with policies in Python. It needs a wheel with the feature `bench`, as `make test` builds it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from maple import _maple

ROOT = Path(__file__).resolve().parents[2]
# `maple-bench` itself, as the extension module has it.
IN_RUST = ["-c", "import sys; from maple import _maple; sys.exit(_maple._bench(['maple-bench', *sys.argv[1:]], None))"]

pytestmark = pytest.mark.skipif(
    not hasattr(_maple, "_bench") and os.environ.get("CI") != "true", reason="needs make build FEATURES=bench"
)

FILTERS = """\
@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t1024 : 2047\t0x06/0xFF\t0x0000/0x0000\t
@0.0.0.0/0\t10.0.0.0/8\t0 : 65535\t53 : 53\t0x00/0x00\t0x0000/0x0000\t
@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\t
"""
HEADERS = [(0x0A000001, 7, 5, 1500, 6), (1, 0x0A000002, 5, 53, 17), (0x0A000001, 7, 5, 3000, 6), (1, 2, 5, 6, 1)]


@pytest.mark.parametrize("ranges", ["auto", "exact"])
def test_filter_sets_in_python_make_the_rules_that_they_make_in_rust(tmp_path: Path, ranges: str) -> None:
    (tmp_path / "few.rules").write_text(FILTERS)
    (tmp_path / "few.trace").write_text("".join("\t".join(map(str, [*header, 0, 1])) + "\n" for header in HEADERS))
    files = ["--filters", str(tmp_path / "few.rules"), "--trace", str(tmp_path / "few.trace"), "--ranges", ranges]
    found = {}
    for language, program in (("rust", IN_RUST), ("python", [str(ROOT / "bench/rules/python.py")])):
        command = [sys.executable, *program, "rules", *files, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found[language] = json.loads(done.stdout)
    for figure in ("filters", "matched", "rules", "barriers", "levels", "flow_mods", "wrong"):
        assert found["rust"][figure] == found["python"][figure], figure
    assert found["python"]["wrong"] == 0
    assert found["python"]["matched"] == 3


def test_flows_under_a_policy_in_python_end() -> None:
    policy = str(ROOT / "examples/shortest_path.py")
    what = ["--maple", str(Path(sys.executable).with_name("maple")), "--policy", policy, "--lines", "3", "--json"]
    small = ["--ports", "4", "--hosts", "12", "--leaves", "10", "--flows", "10", "--window", "2", "--rounds", "1"]
    command = [sys.executable, *IN_RUST, "flows", *what, *small]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    row = json.loads(done.stdout)["rows"][0]
    assert row["controller"] == policy
    assert row["flows"] > 0 and row["edge_rules"] > 0 and row["core_rules"] > 0, row
