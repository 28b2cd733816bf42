"""The CI run skips nothing silently."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("fails", [None, "test", "lint-rust", "lint-python", "lint-web"])
def test_the_ci_run_tells_every_part_that_it_runs_in_ci_and_fails_with_each(tmp_path: Path, fails: str | None) -> None:
    make, told = tmp_path / "make", tmp_path / "told"
    make.write_text(f'#!/bin/sh\necho "$1 with CI=$CI" | tee -a {told}\n[ "$1" != "$FAILS" ]\n')
    make.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FAILS": fails or ""}
    run = subprocess.run([ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode == 0) == (fails is None), run
    if fails:
        assert f"{fails} with CI=true" in run.stdout.splitlines(), "what fails is shown"
    else:
        parts = ["lint-python", "lint-rust", "lint-web", "test"]
        assert sorted(told.read_text().splitlines()) == [f"{part} with CI=true" for part in parts]


def test_system_tests_that_lack_what_they_need_fail_in_ci(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "CI": "true"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/system"]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout
    assert "system tests may not be skipped in CI" in run.stdout + run.stderr
