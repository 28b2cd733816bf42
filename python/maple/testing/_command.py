"""``maple test``: runs the tests beside policies."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path


def main(arguments: list[str | os.PathLike[str]]) -> int:
    """Runs pytest on the tests of these policies, files and folders; the exit status."""
    if importlib.util.find_spec("pytest") is None:
        print("maple: tests of policies need pytest: pip install 'maple-sdn[test]', or pytest", file=sys.stderr)
        return 2
    import pytest

    try:
        chosen = [part for argument in arguments for part in run_for(os.fspath(argument))]
    except FileNotFoundError as error:
        print(f"maple: {error}", file=sys.stderr)
        return 2
    is_loaded = importlib.util.find_spec("maple.pytest_plugin") is not None and _is_registered()
    plugin = [] if is_loaded else ["-p", "maple.pytest_plugin"]
    # This process has the package already, and nothing of it is to be rewritten.
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*plugin, *quiet, *chosen]))


def run_for(argument: str) -> list[str]:
    """The paths that pytest is to run for an argument: the tests beside a policy, or what was named.

    :raises FileNotFoundError: for a policy without tests, with where they would be.
    """
    path = Path(argument)
    is_test = path.name.startswith("test_") or path.stem.endswith("_test")
    if argument.startswith("-") or path.suffix != ".py" or is_test or not path.is_file():
        return [argument]
    beside = [path.with_name(f"test_{path.name}"), path.with_name(f"{path.stem}_test.py")]
    inside = [path.parent / "tests" / name.name for name in beside]
    found = [str(file) for file in [*beside, *inside] if file.is_file()]
    if found:
        return found
    raise FileNotFoundError(f"{argument} has no tests: there is no {beside[0]}, and no {inside[0]}")


def _is_registered() -> bool:
    """Whether pytest finds the plugin by itself."""
    from importlib.metadata import entry_points

    return any(point.value == "maple.pytest_plugin" for point in entry_points(group="pytest11"))
