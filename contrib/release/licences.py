#!/usr/bin/env python3
"""Prints the licences of the crates whose code is in the program, as binaries have to carry them."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("licen", "copying", "notice", "unlicense")


def metadata() -> dict:
    host = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    triple = next(line.split()[1] for line in host.splitlines() if line.startswith("host:"))
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", triple]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


def linked(about: dict, roots: set[str]) -> set[str]:
    """The packages that these are made of, without what only builds or tests them."""
    needs = {
        node["id"]: [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        for node in about["resolve"]["nodes"]
    }
    found, waiting = set(), [package["id"] for package in about["packages"] if package["name"] in roots]
    while waiting:
        if (package := waiting.pop()) not in found:
            found.add(package)
            waiting += needs[package]
    return found


def texts(package: dict) -> list[str]:
    folder = Path(package["manifest_path"]).parent
    files = (file for file in folder.iterdir() if file.is_file() and file.name.lower().startswith(NAMES))
    return [file.read_text(errors="replace").strip() for file in sorted(files)]


def main() -> None:
    about = metadata()
    own = set(about["workspace_members"])
    inside = linked(about, {"maple-python", "maple-cli"}) - own
    packages = sorted((p for p in about["packages"] if p["id"] in inside), key=lambda p: (p["name"], p["version"]))
    print("Maple has code of these crates. Their texts follow, each once, after the crates that have it.\n")
    used_by: dict[str, list[str]] = {}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        print(f"{name}: {package['license'] or 'see its text'}")
        for text in texts(package):
            used_by.setdefault(text, []).append(name)
    for text, names in used_by.items():
        print(f"\n{'=' * 80}\n{', '.join(names)}\n\n{text}")


if __name__ == "__main__":
    main()
