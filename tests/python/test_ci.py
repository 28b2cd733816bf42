"""The CI run skips nothing silently."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_ci_run_tells_every_test_that_it_runs_in_ci(tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "$1 with CI=$CI"\n')
    make.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = subprocess.run([ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["test with CI=true", "lint with CI=true"]


def test_system_tests_that_lack_what_they_need_fail_in_ci(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "CI": "true"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/system"]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout
    assert "system tests may not be skipped in CI" in run.stdout + run.stderr
