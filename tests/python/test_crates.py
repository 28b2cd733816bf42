"""The crates that the API, the page and `maple top` add to the wheel are those that docs/api.md lists."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/api.md"
WHEEL = "maple-python"


@functools.cache
def metadata() -> Any:
    """What cargo says of the crates that the wheel is built from."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return json.loads(done.stdout)


def in_wheel(without: set[str]) -> set[str]:
    """The crates of others in the wheel, if ours did not ask for these."""
    about = metadata()
    names = {package["id"]: package["name"] for package in about["packages"]}
    own = set(about["workspace_members"])
    needs = {
        node["id"]: [of["pkg"] for of in node["deps"] if any(kind["kind"] is None for kind in of["dep_kinds"])]
        for node in about["resolve"]["nodes"]
    }
    (wheel,) = (one for one in own if names[one] == WHEEL)
    found, rest = {wheel}, [wheel]
    while rest:
        one = rest.pop()
        asked = [of for of in needs[one] if one not in own or names[of] not in without]
        rest += [of for of in asked if of not in found]
        found |= set(asked)
    return {names[one] for one in found - own}


def test_the_table_has_each_crate_that_is_there_for_http_the_page_and_top() -> None:
    text = PAGE.read_text()
    section = text.split("### In the wheel\n")[1].split("\n## ")[0]
    rows = [row.split(" | ") for row in section.splitlines() if re.match(r"\| .*\d+: `", row)]
    assert len(rows) == 4
    everything, listed = in_wheel(set()), set()
    for _, asked, all_of_them in rows:
        roots = set(re.findall(r"`([a-z_-]+)`(?=[:,])", asked))
        count, names = all_of_them.split(": ", 1)
        there_for_it = everything - in_wheel(roots)
        assert re.findall(r"`([a-z0-9_-]+)`", names) == sorted(there_for_it), asked
        assert int(count) == len(there_for_it)
        listed |= there_for_it
    found = re.match(r"\n(\d+) of the (\d+) crates", section)
    assert found is not None
    assert (int(found[1]), int(found[2])) == (len(listed), len(everything))
