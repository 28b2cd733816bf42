"""Access lists as parts of policies: ``acl``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maple import _maple
from maple._policy import Composed, Decides, Policy, composition_of

Source = str | os.PathLike[str] | Mapping[str, Any]
"""A list: a file, or the document itself as a dictionary."""


def acl(*lists: Source, allow: Decides | None = None) -> Policy:
    """Access lists, asked in this order; each says allow, deny or pass.

    >>> from maple import acl, flood
    >>> office = {"version": 1, "default": "allow", "rules": [{"action": "deny", "service": "tcp/23"}]}
    >>> acl(office, allow=flood())
    <policy acl>

    What a list denies is dropped, by rules that are there before the first such packet. ``allow`` decides where packets
    go that a list allows. Without it they pass, as packets do that all lists pass: the next policy decides,
    as in ``acl("campus.yaml").then(routing)``.

    Files are YAML (the page *Access lists* has their form). A list's own tests must hold.

    :raises ValueError: with file, line and column, for what is not an access list, and for tests that fail.
    :raises OSError: if a file can't be read.
    """
    if not lists:
        raise TypeError("acl() needs at least one list")
    texts = [_text(source, number) for number, source in enumerate(lists, 1)]
    allowed: Decides = _maple.pass_() if allow is None else allow
    composition = _maple.Composition.lists(texts, composition_of(allowed, "acl(allow=…)"))
    return Composed("acl", composition, (allowed,))


def _text(source: Source, number: int) -> tuple[str, str]:
    if isinstance(source, Mapping):
        return json.dumps(source, ensure_ascii=False), f"<acl {number}>"
    if isinstance(source, (str, os.PathLike)):
        return Path(source).read_text(encoding="utf-8"), os.fspath(source)
    raise TypeError(f"acl() takes files and dictionaries, not {source!r}")
