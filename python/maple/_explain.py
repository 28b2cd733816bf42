"""Explanations: why a packet goes where it goes."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any, Literal

from maple import _repr


class Explanation:
    """Why a packet goes where it goes. As text it is what ``maple explain`` prints."""

    def __init__(self, answer: str, text: str) -> None:
        #: All of it, as ``maple explain --json`` prints it.
        self.json: dict[str, Any] = json.loads(answer)
        self._text = text

    @property
    def verdict(self) -> Literal["forwarded", "dropped", "waits", "failed", "refused"]:
        """The fate of the packet.

        ``waits``: until something changes that the policy read. ``failed``: the policy failed, so it is dropped.
        ``refused``: the policy never sees it, because of where it enters.
        """
        return self.json["verdict"]  # type: ignore[no-any-return]

    @property
    def line(self) -> str | None:
        """The line of the policy that decided, such as ``"acl.py:12"``, if it is known."""
        line = self.json["line"]
        return f"{PurePath(line['file']).name}:{line['line']}" if line else None

    @property
    def exits(self) -> list[tuple[str, int]]:
        """The switches and ports where copies leave by the policy's decision."""
        return [(exit["at"]["switch"], exit["at"]["port"]) for exit in self.json.get("exits", [])]

    @property
    def agrees(self) -> bool | None:
        """Whether the switches do what the policy decides. ``None`` if they leave it to the controller."""
        return self.json["agrees"]  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    @_repr.always
    def __repr__(self) -> str:
        return f"<explanation: {self._text.splitlines()[0]}>"
