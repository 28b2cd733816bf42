"""Frames that hosts got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from maple import _maple, _repr
from maple.testing._packets import fields_in


class Received:
    """A frame that a host got."""

    def __init__(self, frame: bytes, via: list[str]) -> None:
        #: Its bytes.
        self.frame = frame
        #: The switches that it went through, each once in a row.
        self.via = [name for at, name in enumerate(via) if at == 0 or via[at - 1] != name]
        #: Its fields, by name.
        self.fields: dict[str, Any] = fields_in(frame)

    def __getitem__(self, field: str) -> Any:
        """The value of a field; ``None`` if the frame has no such field."""
        return self.fields.get(field)

    @_repr.always
    def __repr__(self) -> str:
        return f"<received {_maple.summary(self.frame)}>"


def of_policy(frames: Iterable[tuple[bytes, list[str]]]) -> list[Received]:
    """The frames that a policy let through or made: none by which the controller asks hosts or finds links."""
    return [Received(frame, via) for frame, via in frames if not _maple.is_the_controllers(frame)]


def differences(frame: bytes, wanted: Mapping[str, Any]) -> list[str]:
    """The differences of a frame from these field values, a line each. ``None`` stands for an absent field."""
    fields = fields_in(frame)
    told = []
    for name, value in wanted.items():
        have = fields.get(name)
        is_same = have is None if value is None else have is not None and have == value
        if not is_same:
            told.append(f"{name} is {'absent' if have is None else have}, and should be {_shown(value)}")
    return told


def _shown(value: object) -> str:
    return "absent" if value is None else str(value)
