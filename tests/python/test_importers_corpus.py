"""Each configuration of the corpus is converted as its source's own tools read it, or the report says what is stricter.

`importer_corpus.py` says what a case is. `MAPLE_BLESS=1` writes what Maple says into the files: review it like code.
"""

from __future__ import annotations

import copy
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import importer_corpus as corpus
import importer_sources as sources
import maple
import pytest
from acl_form import Packet, evaluator, loaded
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from importer_corpus import Case
from maple.importers import (
    FaucetImport,
    Finding,
    Imported,
    InputError,
    NotCovered,
    from_aerleon,
    from_faucet,
    from_kubernetes,
)
from maple.importers.__main__ import outputs
from maple.testing import Bench

CASES = {source: corpus.read(source) for source in ("faucet", "aerleon", "kubernetes")}
NAMES = [(source, case.name) for source, cases in CASES.items() for case in cases.cases]
Fate = Callable[[Packet], str]


def load(source: str, case: Case, folder: Path, lenient: bool) -> Imported:
    """The case, converted."""
    shared = CASES[source].shared
    if source == "faucet":
        return from_faucet(sources.write_faucet(case, shared, folder), lenient=lenient)
    if source == "kubernetes":
        return from_kubernetes(sources.write_kubernetes(case, shared, folder), lenient=lenient)
    return from_aerleon(sources.write_aerleon(case, shared, folder), folder / "def", lenient=lenient)


def converted(source: str, case: Case, folder: Path) -> tuple[str, Imported | None]:
    """What Maple says of a case, and the result with `lenient`, if there is one."""
    try:
        return "", load(source, case, folder, False)
    except InputError as error:
        return f"refused {str(error).replace(f'{folder}/', '')}", None
    except NotCovered as refused:
        if source == "kubernetes" and all(map(is_about_replies, refused.report.not_covered)):
            return "", load(source, case, folder, True)
        fields = ", ".join(dict.fromkeys(found.place.field for found in refused.report.not_covered))
        try:
            return f"not covered {fields}", load(source, case, folder, True)
        except NotCovered:
            return f"not covered {fields}, also with lenient", None


def is_about_replies(finding: Finding) -> bool:
    """Whether what is not covered is replies alone. Packets of cases open connections."""
    return finding.text.startswith("connections have replies")


def fate(imported: Imported, folder: Path) -> Fate:
    """What becomes of packets under the result: ports of the policy for Faucet, otherwise what the list says."""
    bench = Bench()
    if not isinstance(imported, FaucetImport):
        bench.switch(1, [1, 2])
        (document,) = imported.documents
        network, decide = maple.acl(document, allow=maple.to(2)), evaluator(document)

        def verdict(packet: Packet) -> str:
            passes = bool(bench.decide(network, corpus.frame(packet)).copies)
            assert passes == (decide(packet) == "allow"), packet
            return "allow" if passes else "deny"

        return verdict
    (dpid,) = imported.network["switches"]
    bench.switch(int(dpid), [int(port) for port in imported.network["switches"][dpid]["ports"]])
    network = policy(imported, folder)

    def ports(packet: Packet) -> str:
        decision = bench.decide(network, corpus.frame(packet), int(dpid), packet.at[1])
        assert decision.error is None, decision.error
        left = {(at.port, tag(frame)) for at, frame in decision.copies}
        return (
            " ".join(f"{port}.{vid}" if vid is not None else str(port) for port, vid in sorted(left, key=str)) or "none"
        )

    return ports


def tag(frame: bytes) -> int | None:
    return int.from_bytes(frame[14:16], "big") & 0xFFF if frame[12:14] == b"\x81\x00" else None


def policy(imported: FaucetImport, folder: Path) -> Any:
    """The policy that the command writes, with its lists."""
    for name, text in outputs(imported):
        (folder / f"{name}").write_text(text)
    module = ModuleType("converted")
    path = folder / f"{imported.name}.py"
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module.__dict__["network"]


def is_stricter(maple: str, source: str) -> bool:
    """Whether Maple lets nothing pass that the source does not let pass."""
    return maple in ("deny", "none") or set(maple.split()) <= set(source.split())


def found(source: str, case: Case, folder: Path) -> Case:
    """The case with what Maple says now."""
    now = copy.deepcopy(case)
    now.maple, imported = converted(source, case, folder)
    if case.refused is not None:
        # That both refuse needs no words.
        now.maple = "" if now.maple.startswith("refused ") else now.maple or "converted"
        return now
    decide = fate(imported, folder) if imported else None
    for probe in now.probes:
        probe.maple = decide(corpus.packet(probe.text, NAMED.get(source))) if decide else probe.source
    return now


NAMED = {"kubernetes": sources.names(CASES["kubernetes"].shared)} if "kubernetes" in CASES else {}


@pytest.mark.parametrize("source, name", NAMES, ids=[f"{source}: {name}" for source, name in NAMES])
def test_a_case_is_read_as_its_source_reads_it(source: str, name: str, tmp_path: Path) -> None:
    cases = CASES[source]
    at = next(at for at, case in enumerate(cases.cases) if case.name == name)
    case, now = cases.cases[at], found(source, cases.cases[at], tmp_path)
    for probe in now.probes:
        assert is_stricter(probe.maple, probe.source), f"looser: {probe}"
    if os.environ.get("MAPLE_BLESS"):
        cases.cases[at] = now
        cases.write()
        return
    assert str(now) == str(case)


def test_the_corpus_is_large_and_its_parts_differ() -> None:
    numbers = {source: len(cases.cases) for source, cases in CASES.items()}
    assert all(numbers[source] >= least for source, least in (("faucet", 45), ("aerleon", 30), ("kubernetes", 30)))
    for cases in CASES.values():
        assert {case.refused is None for case in cases.cases} == {True, False}
        fates = {probe.source in ("deny", "none") for case in cases.cases for probe in case.probes}
        assert fates == {True, False}


def test_what_passes_for_replies_goes_to_the_ports_of_clients(tmp_path: Path) -> None:
    first, last = 32768, 60999
    for number, case in enumerate(CASES["kubernetes"].cases):
        if case.refused is not None or case.maple:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        path = sources.write_kubernetes(case, CASES["kubernetes"].shared, folder)
        decide = evaluator(from_kubernetes(path, client_ports=(first, last)).documents[0])
        for probe in case.probes:
            packet = corpus.packet(probe.text, NAMED["kubernetes"])
            assert decide(packet) == probe.maple, (case.name, probe)
            back = packet.reverse()._replace(dport=22)
            assert decide(back) == decide_strictly(path, back), (case.name, back)


def decide_strictly(path: Path, packet: Packet) -> str:
    """What the list without ports of clients says."""
    return evaluator(from_kubernetes(path, lenient=True).documents[0])(packet)


HEADERLESS = [case for case in CASES["aerleon"].cases if case.refused is None and case.text.startswith("term ")]
TERMS = [term for case in HEADERLESS for term in re.findall(r"^term \S+ (\{.*?^\})", case.text, re.M | re.S)]
V4 = ["10.1.8.255", "10.1.9.0", "10.1.9.255", "10.1.10.0", "10.2.0.1", "10.9.0.1", "10.9.0.53", "11.0.0.1"]
V6 = ["fd00:1::1", "fd00:1:0:1::", "fd00:9::53", "fd00:77::1"]
WORDS = ["tcp", "udp", "ip/47", "ip/50", "icmp", "icmpv6"]
PORTS = [21, 22, 53, 80, 443, 1023, 1024, 8080, 8082, 65535]
PAIRS = st.sampled_from([(a, b) for of in (V4, V6) for a in of for b in of])
PACKETS = st.lists(
    st.tuples(st.sampled_from(WORDS), PAIRS, st.sampled_from(PORTS), st.sampled_from(PORTS)), min_size=30, max_size=60
)


@settings(max_examples=80)
@given(st.lists(st.sampled_from(TERMS), min_size=1, max_size=6), PACKETS)
def test_lists_of_any_of_the_terms_are_read_as_aerleon_reads_them(terms: list[str], packets: list[Any]) -> None:
    text = "\n".join(f"term t{at} {term}" for at, term in enumerate(terms)) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        case, shared = Case("random", text), CASES["aerleon"].shared
        judge = sources.Aerleon(sources.write_aerleon(case, shared, Path(folder)))
        assume(not judge.refused)
        said, imported = converted("aerleon", case, Path(folder))
    assume(imported is not None)
    assert imported is not None
    decide = evaluator(loaded(imported).documents[0])
    stricter = bool(said) or any("counts in the result" in finding.text for finding in imported.report.findings)
    for kind, (src, dst), sport, dport in packets:
        numbers = f"{sport % 256} 0" if kind.startswith("icmp") else "" if kind.startswith("ip/") else str(dport)
        from_port = sport if kind in ("tcp", "udp") else ""
        if kind.startswith("icmp") and (kind == "icmpv6") != (":" in src):
            continue
        packet = corpus.packet(f"{kind} {src} {from_port} > {dst} {numbers}")
        own, theirs = decide(packet), judge.decide(packet)
        assert own == theirs or (stricter and own == "deny"), packet
