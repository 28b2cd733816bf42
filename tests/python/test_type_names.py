"""A type name has one meaning: in a crate, and among the public types of all crates that programs see, unless there is
a reason. A module name has one meaning in a crate.

The switch model and the emulator are left out. They model the network without knowing Maple, so that they can't share
its mistakes, and they use the field's words for what they model.
"""

import re
from collections import defaultdict
from pathlib import Path

import pytest
from test_layers import read

CRATES = Path(__file__).resolve().parents[2] / "crates"
SEEN = [
    "maple-wire",
    "maple-core",
    "maple-acl",
    "maple-controller",
    "maple-handlers",
    "maple",
    "maple-lab",
    "maple-etcd",
    "maple-cluster",
]
TYPE = re.compile(r"^\s*pub (?:struct|enum|trait|type) (\w+)", re.M)

OUTER_TYPE = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type) (\w+)", re.M)

ALL = sorted(path.name for path in CRATES.iterdir() if (path / "src").is_dir())
# Programs and oracles that know nothing of each other.
COLLECTIONS = {"maple-bench", "maple-sim"}
# Private types of one file each, in crates whose parts do not meet.
TWICE = {
    "maple-controller": {
        "Block",
        "Client",
        "Known",
        "Rows",
        "Source",
        "Work",
    },
}
# The crate `maple` wraps a type of the engine, and has the same meaning with a typed form.
WRAPPED = {"Composed", "HostGroup", "Net", "Packet", "Policy", "Query", "RouteConstraint", "Slice"}
# One word of the field in two layers: what a person wrote or measures, and what the engine makes or keeps of it. Or in
# two crates that know nothing of each other: etcd and the cluster have their own events, members and changes.
LAYERS = {
    "Comparison": "of two lists (acl), of two policies (core)",
    "Endpoint": "where the controller listens (controller), one of the servers (etcd)",
    "Difference": "of two lists (acl), of two policies (core)",
    "Decision": "f's account (core), that of a bench of policies (maple)",
    "Effect": "of an engine's event (core), of an action on a packet (wire)",
    "Entry": "of a list (acl), of MPLS (wire)",
    "Error": "the error type of a crate",
    "Finding": "in a list (acl), in a policy (core), of the doctor (controller)",
    "Gauge": "of traffic (core), of Prometheus (controller)",
    "Groups": "of addresses (acl), of multicast (controller)",
    "Clock": "of the process (controller), what a check gives a policy (core)",
    "Replayed": "a recording (controller), a run along a tree (core)",
    "Rule": "of a list (acl), of a switch (core)",
    "Stats": "of an engine (core), of a controller (controller)",
    "Stopped": "a controller (controller), a transaction (core)",
    "SwitchInfo": "of a handshake (controller), in the state (core)",
    "Action": "of a rule (wire), what a member of a cluster wants (cluster)",
    "Address": "of a host (maple), of etcd's servers (etcd)",
    "Change": "of a table (core), of a key (etcd), of what is known of a cluster (cluster)",
    "Event": "of an engine (core), of a member of a cluster (cluster)",
    "Header": "of a message (wire), of an answer of etcd (etcd)",
    "Member": "of a group of hosts (core), of a cluster (cluster)",
    "Range": "of a field's values (core), of keys (etcd)",
    "Time": "of an engine (core), of a member of a cluster (cluster)",
    "TlsFiles": "for switches (controller), for etcd (etcd)",
    "View": "of the tracked state (core), of a cluster (cluster)",
    "Written": "the last write to a cell (core), the answer to a write (etcd)",
}


def public_types(crate: str) -> set[str]:
    """Returns the names of a crate's public types, without those of its tests."""
    names: set[str] = set()
    for file in (CRATES / crate / "src").rglob("*.rs"):
        if "tests" in file.parts or file.name == "tests.rs":
            continue
        names |= set(TYPE.findall(file.read_text().split("#[cfg(test)]\nmod tests {")[0]))
    return names


def names_twice(crate: str) -> dict[str, list[str]]:
    """Returns the names that several types of a crate have, public or not, with their files."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted((CRATES / crate / "src").rglob("*.rs")):
        if "tests" not in file.parts and file.name != "tests.rs":
            text = file.read_text().split("#[cfg(test)]\nmod tests {")[0]
            for name in OUTER_TYPE.findall(text):
                found[name].append(str(file.relative_to(CRATES / crate / "src")))
    return {name: files for name, files in sorted(found.items()) if len(files) > 1}


def duplicates() -> dict[str, list[str]]:
    """Returns the names that public types of several crates have, with these crates."""
    crates = defaultdict(list)
    for crate in SEEN:
        for name in public_types(crate):
            crates[name].append(crate)
    return {name: of for name, of in sorted(crates.items()) if len(of) > 1}


def test_a_type_name_has_one_meaning() -> None:
    new = {name: of for name, of in duplicates().items() if name not in WRAPPED and name not in LAYERS}
    assert not new, f"one name, several meanings: {new}"


def test_each_exception_is_still_one() -> None:
    assert not (WRAPPED | set(LAYERS)) - set(duplicates()), "these names have one meaning by now"


@pytest.mark.parametrize("crate", [crate for crate in ALL if crate not in COLLECTIONS])
def test_a_type_name_has_one_meaning_in_a_crate(crate: str) -> None:
    twice = names_twice(crate)
    new = {name: files for name, files in twice.items() if name not in TWICE.get(crate, ())}
    assert not new, f"one name, several types: {new}"
    assert TWICE.get(crate, set()) <= set(twice), "these names have one meaning by now"


# Folders with a file for each file of another one: the printed form of each message, the options of each command.
MIRRORS = {"maple-wire": ("print/", "msg/stats/"), "maple-cli": ("options/",)}
# A word of the field that two layers of a crate need.
MODULES_TWICE = {
    "maple": {"state": "of the network, and the part of an app that keeps it"},
    "maple-core": {"unreachable": "one state of a switch, in the network and in its tables"},
    "maple-controller": {"unreachable": "one state of a switch, for discovery and for its shard"},
    "maple-wire": {
        "bytes": "how packets are read, and how messages are",
        "error": "of this crate, and OpenFlow's message",
        "text": "of packets, and of messages",
    },
}


def modules_twice(crate: str) -> dict[str, list[str]]:
    """Returns the names that several modules of a crate have, without tests and mirrors, with their paths."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in read(CRATES / crate):
        path = "/".join(file.module)
        if path and not path.startswith(MIRRORS.get(crate, ())):
            found[file.module[-1]].append(path)
    return {name: paths for name, paths in sorted(found.items()) if len(paths) > 1}


@pytest.mark.parametrize("crate", [crate for crate in ALL if crate not in COLLECTIONS])
def test_a_module_name_has_one_meaning_in_a_crate(crate: str) -> None:
    twice = modules_twice(crate)
    exceptions = MODULES_TWICE.get(crate, {})
    new = {name: paths for name, paths in twice.items() if name not in exceptions}
    assert not new, f"one name, several modules: {new}"
    assert set(exceptions) <= set(twice), "these names have one meaning by now"
