"""Checks of what stands in a file: kinds of values, and keys that nobody knows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from maple.importers._document import InputError, Place
from maple.importers._yaml import Items, Keys

T = TypeVar("T")

_KINDS: dict[type, str] = {Keys: "a mapping", Items: "a list", str: "a text", int: "a number", bool: "true or false"}


def expect(value: Any, kind: type[T], place: Place) -> T:
    """The value, if it is of this kind.

    :raises InputError: it is of another kind.
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InputError(place, f"{_shown(value)} stands where {_KINDS[kind]} is expected")
    return value


_WORDS: dict[str, type] = {**{word: kind for kind, word in _KINDS.items()}, "a fraction": float}


def of_kinds(value: Any, kinds: Iterable[str], place: Place) -> None:
    """Refuses a value of another kind. Nothing is of each, and to Python `true` is a number.

    :raises InputError: it is of another kind.
    """
    if value is not None and not isinstance(value, tuple(_WORDS[kind] for kind in kinds)):
        raise InputError(place, f"{_shown(value)} stands where {' or '.join(kinds)} is expected")


def get(keys: Keys, key: str, kind: type[T], field: str) -> T | None:
    """The value of a key; none if it is missing or null."""
    value = keys.get(key)
    return None if value is None else expect(value, kind, keys.place(f"{field}.{key}" if field else key, key))


def mapping(keys: Keys, key: str, field: str) -> Keys:
    """The mapping at a key; an empty one if it is missing."""
    found = get(keys, key, Keys, field)
    return Keys(keys.file, keys.line) if found is None else found


def items(keys: Keys, key: str, field: str) -> Items:
    """The list at a key; an empty one if it is missing."""
    found = get(keys, key, Items, field)
    return Items([]) if found is None else found


def number(value: Any, low: int, high: int, what: str, place: Place) -> int:
    """The value, if it is a number from `low` to `high`.

    :raises InputError: it is not such a number.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InputError(place, f"{what} is a number from {low} to {high}, not {value!r}")
    return value


def mac(value: Any, place: Place) -> str:
    """A hardware address in small letters, with two digits each. Read in the notations that Faucet's library takes.

    :raises InputError: it is not a hardware address.
    """
    text = str(value).lower()
    if re.fullmatch(r"[0-9a-f]{1,2}(([:-])[0-9a-f]{1,2})(\2[0-9a-f]{1,2}){4}", text):
        digits = "".join(part.zfill(2) for part in re.split("[:-]", text))
    elif re.fullmatch(r"[0-9a-f]{4}(\.[0-9a-f]{4}){2}|[0-9a-f]{12}", text):
        digits = text.replace(".", "")
    else:
        raise InputError(place, f"{value!r} is not a MAC address, such as '0e:00:00:00:00:01'")
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def suggestion(key: object, known: Iterable[str]) -> str:
    """`; did you mean …?`, if a known key resembles this one."""
    near = difflib.get_close_matches(str(key), sorted(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def refuse_unknown(keys: Keys, known: Iterable[str], field: str) -> None:
    """Names the first key that is not known, with the one that may be meant.

    :raises InputError: there is such a key.
    """
    names = set(known)
    for key in keys:
        if key not in names:
            place = keys.place(f"{field}.{key}" if field else str(key), key)
            raise InputError(place, f"unknown key{suggestion(key, names)}")


def _shown(value: Any) -> str:
    return _KINDS[type(value)] if isinstance(value, (Keys, Items)) else repr(value)
