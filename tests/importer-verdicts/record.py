#!/usr/bin/env python3
"""Asks the sources' own tools about the cases in tests/python/data/importers, and writes what they say there.

usage: .venv/bin/python tests/importer-verdicts/record.py [--tools FOLDER] [--check] [aerleon] [faucet] [kubernetes]

Prints what differs from before; with --check it writes nothing, and ends with status 1 if something differs. The tools
are installed in a temporary folder, or in FOLDER if they are not there yet: Faucet by pip, and by go a program of
cyclonus and the validation of Kubernetes. So the first time needs the network. The rules of Faucet are asked in Open
vSwitch (as root: `tests/with-openvswitch ... record.py faucet`), on a bridge of its own. Aerleon is this Python's.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

import faucet_switch  # noqa: E402
import importer_corpus as corpus  # noqa: E402
import importer_sources  # noqa: E402
from importer_corpus import Case, Cases  # noqa: E402

FAUCET = "1.10.12"
KUBERNETES = "1.33.1"
CYCLONUS = "0.5.6"
BRIDGE = "verdicts"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help="aerleon, faucet, kubernetes; all if left out")
    parser.add_argument("--tools", type=Path, help="where the tools are, or are to be installed")
    parser.add_argument("--check", action="store_true", help="write nothing, end with status 1 if something differs")
    options = parser.parse_args()
    judges = {"aerleon": judge_aerleon, "faucet": judge_faucet, "kubernetes": judge_kubernetes}
    if unknown := set(options.sources) - set(judges):
        parser.error(f"no source {', '.join(sorted(unknown))}")
    changed = 0
    with tempfile.TemporaryDirectory() as folder:
        tools = (options.tools or Path(folder)).absolute()
        tools.mkdir(parents=True, exist_ok=True)
        for source in options.sources or judges:
            cases = corpus.read(source)
            before = copy.deepcopy(cases.cases)
            judges[source](cases, tools)
            changed += sum(show(source, old, new) for old, new in zip(before, cases.cases, strict=True))
            if not options.check:
                cases.write()
    return 1 if options.check and changed else 0


def show(source: str, old: Case, new: Case) -> bool:
    """Prints what differs in a case."""
    lines = [
        *([f"was {old.refused or 'accepted'}, is {new.refused or 'accepted'}"] if old.refused != new.refused else []),
        *(
            f"{a.text}: was {a.source or 'unknown'}, is {b.source}"
            for a, b in zip(old.probes, new.probes, strict=False)
            if a.source != b.source
        ),
    ]
    for line in lines:
        print(f"{source}: {new.name}: {line}")
    return bool(lines)


def decided(case: Case, refused: str | None, verdicts: list[str]) -> None:
    """Enters what a tool said. What Maple says stays if it was said to differ."""
    case.refused = refused
    case.probes = case.probes if refused is None else []
    for probe, verdict in zip(case.probes, verdicts, strict=True):
        same = probe.maple == probe.source
        probe.source, probe.maple = verdict, verdict if same else probe.maple


def judge_aerleon(cases: Cases, _: Path) -> None:
    for case in cases.cases:
        with tempfile.TemporaryDirectory() as folder:
            decided(case, *importer_sources.aerleon(case, cases.shared, Path(folder)))


def judge_kubernetes(cases: Cases, tools: Path) -> None:
    program = tools / "networkpolicy"
    if not program.exists():
        build_go(program, tools)
    asked = [importer_sources.questions(case, cases.shared) for case in cases.cases]
    done = subprocess.run([program], input=json.dumps(asked), capture_output=True, text=True, check=True)
    for case, answer in zip(cases.cases, json.loads(done.stdout), strict=True):
        verdicts = ["allow" if allowed else "deny" for allowed in answer["Allowed"] or []]
        decided(case, one_line(answer["Refused"]) or None, verdicts)


def build_go(program: Path, tools: Path) -> None:
    """Builds the program. Kubernetes knows its own modules by folders beside it, so each gets its version."""
    folder = tools / "go-source"
    folder.mkdir(exist_ok=True)
    (folder / "main.go").write_text((HERE / "networkpolicy.go").read_text())
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}

    def go(*words: str) -> str:
        done = subprocess.run(
            ["go", *words], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout

    (folder / "go.mod").write_text("module verdicts\n")
    module = json.loads(go("mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}"))
    parts = [line.split()[0] for line in Path(module["GoMod"]).read_text().splitlines() if " => ./staging/" in line]
    go("mod", "edit", "-require", f"k8s.io/kubernetes@v{KUBERNETES}")
    go("mod", "edit", "-require", f"github.com/mattfenwick/cyclonus@v{CYCLONUS}")
    for part in parts:
        go("mod", "edit", "-replace", f"{part}={part}@v0.{KUBERNETES.removeprefix('1.')}")
    go("mod", "tidy")
    go("build", "-o", str(program), ".")


def judge_faucet(cases: Cases, tools: Path) -> None:
    python = tools / "faucet/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", tools / "faucet"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"faucet=={FAUCET}"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, case in enumerate(cases.cases):
            (Path(folder) / str(number)).mkdir()
            paths.append(str(importer_sources.write_faucet(case, cases.shared, Path(folder) / str(number))))
        command = [python, "-W", "ignore", HERE / "faucet_rules.py"]
        done = subprocess.run(command, input=json.dumps(paths), stdout=subprocess.PIPE, text=True, check=True)
        answers = json.loads(done.stdout)
    wanted = [corpus.packet(probe.text).at[1] for case in cases.cases for probe in case.probes]
    ports = {port for answer in answers for switch in answer.get("switches", []) for port in switch["ports"]}
    with faucet_switch.bridge(BRIDGE, sorted({*ports, *wanted})) as switch:
        for case, answer, path in zip(cases.cases, answers, paths, strict=True):
            refused = one_line(answer.get("refused", "").replace(str(Path(path).parent) + "/", ""))
            verdicts: list[str] = []
            if not refused:
                switch.take([bytes.fromhex(text) for text in answer["switches"][0]["messages"]])
                verdicts = [switch.fate(corpus.packet(probe.text)) for probe in case.probes]
            decided(case, refused or None, verdicts)


def one_line(text: str) -> str:
    """The text as it stands in a case: one line of at most 160 characters."""
    text = " ".join(text.split())
    return text if len(text) <= 160 else text[:157] + "..."


if __name__ == "__main__":
    sys.exit(main())
