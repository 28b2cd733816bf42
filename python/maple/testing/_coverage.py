"""Which questions of policies had only one answer in a test session, and which lines no packet reached."""

from __future__ import annotations

from maple import _maple
from maple.testing._load import Loaded


def is_wanted() -> bool:
    """Whether decisions are counted."""
    return False


def begin(loaded: Loaded) -> None:
    """A network begins with this policy."""


def end(counts: None, laboratory: _maple.Laboratory) -> None:
    """It ends."""
