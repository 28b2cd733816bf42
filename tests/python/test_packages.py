"""The wheel that `make build` has made, in a clean environment; whether the sdist is whole; what the image takes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

POLICY = """
from maple import flood, policy

@policy
def shortest_way(pkt, net):
    there = net.locate(pkt.eth_dst)
    return flood() if there is None else net.shortest_path(net.locate(pkt.eth_src), there)
"""


@pytest.fixture(scope="module")
def wheel() -> Path:
    wheels = sorted((ROOT / "target" / "wheels").glob("*.whl"), key=os.path.getmtime)
    assert wheels, "there is no wheel: `make build` makes one"
    return wheels[-1]


def test_the_wheel_runs_a_policy_in_a_clean_environment_without_compiler_or_network(
    wheel: Path, tmp_path: Path
) -> None:
    assert "-cp310-abi3-" in wheel.name
    clean = tmp_path / "clean"
    venv.create(clean, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(clean / "bin" / "python"), "--quiet"]
    # Only what is in the environment: no cargo, rustc or cc.
    environment = {"PATH": str(clean / "bin"), "HOME": str(tmp_path), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([*pip, "install", "--no-index", str(wheel)], env=environment, check=True, timeout=120)
    (tmp_path / "policy.py").write_text(POLICY)
    command = ["maple", "run", "policy.py", "--emulate", "ring:4", "--traffic", "1s"]
    done = subprocess.run(
        [clean / "bin" / command[0], *command[1:]],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = dict(re.findall(r"^ +(.+?) +(\d+)$", done.stdout, re.MULTILINE))
    assert int(counts["treated as f says"]) > 0 and counts["lost"] == "0", done.stdout
    subprocess.run([*pip, "uninstall", "--yes", "maple-sdn"], env=environment, check=True, timeout=60)
    assert [path for path in clean.rglob("*") if "maple" in path.name] == []


def test_the_sdist_has_every_file_that_the_wheel_is_built_from(tmp_path: Path) -> None:
    maturin = Path(sys.executable).with_name("maturin")
    subprocess.run([maturin, "sdist", "--out", tmp_path], cwd=ROOT, capture_output=True, check=True, timeout=120)
    (made,) = tmp_path.glob("maple_sdn-*.tar.gz")
    with tarfile.open(made) as archive:
        has = {name.split("/", 1)[1] for name in archive.getnames()}
        archive.extractall(tmp_path)
    listed = ["git", "ls-files", "python", "crates/*/src/*", "crates/*/Cargo.toml", "Cargo.*", "README.md", "LICENSE"]
    tracked = set(subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())
    assert "crates/maple-controller/src/control/schema.json" in tracked
    # The words of tests in Rust are not in the wheel.
    assert {name for name in tracked - has if not name.startswith("crates/maple-testing/")} == set()
    # Cargo finds every crate, and the lock file is that of these manifests.
    folder = tmp_path / made.name.removesuffix(".tar.gz")
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--no-deps"]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True, timeout=120)


def files_of_a_release() -> set[str]:
    page = (ROOT / "docs" / "install.md").read_text()
    return set(re.findall(r"^\| `([^` ]+)` \|", page, re.MULTILINE))


def test_the_image_takes_what_a_release_consists_of() -> None:
    released = files_of_a_release()
    copied = re.findall(r"^COPY (\S+) ", (ROOT / "contrib" / "Containerfile").read_text(), re.MULTILINE)
    assert copied
    for pattern in copied:
        assert any(fnmatch(name, pattern) for name in released), f"{pattern}: {released}"


def test_a_release_consists_of_what_the_page_says() -> None:
    """Its recipe is run by people only, because it compiles everything twice; when it has been, this compares."""
    released = files_of_a_release()
    made = {path.name for path in (ROOT / "dist").glob("*")}
    assert not made or made == released
