"""The tables and variables of a network under test."""

from __future__ import annotations

from typing import Any

from maple import _maple, _repr
from maple.testing._load import entered


class State:
    """The tables and variables of one network, whatever networks there are besides."""

    def __init__(self, place: _maple.Place) -> None:
        self._place = place

    def __getitem__(self, table: str) -> TableOf:
        """The table of this name: ``net.state["blocked"]["00:00:00:00:00:01"] = True``."""
        return TableOf(self._place, table)

    def get(self, variable: str) -> Any:
        """The value of a variable; ``None`` if it has none."""
        with entered(self._place):
            return _maple.Var(variable).value

    def set(self, variable: str, value: Any) -> None:
        """Sets a variable; when it returns, no packet is answered from the old value any more."""
        with entered(self._place):
            _maple.Var(variable).value = value


class TableOf:
    """A table of one network, like a :class:`maple.Table`."""

    def __init__(self, place: _maple.Place, name: str) -> None:
        self._place = place
        #: Its name.
        self.name = name

    def __getitem__(self, key: Any) -> Any:
        with entered(self._place):
            return self._table()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Writes; when it returns, no packet is answered from the old value any more."""
        with entered(self._place):
            self._table()[key] = value

    def __delitem__(self, key: Any) -> None:
        with entered(self._place):
            del self._table()[key]

    def __contains__(self, key: Any) -> bool:
        with entered(self._place):
            return key in self._table()

    def __len__(self) -> int:
        with entered(self._place):
            return len(self._table())

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or else the default."""
        with entered(self._place):
            return self._table().get(key, default)

    def items(self) -> list[tuple[Any, Any]]:
        """All keys and values, in order of keys."""
        with entered(self._place):
            return list(self._table().items())

    def keys(self) -> list[Any]:
        """All keys, in order."""
        return [key for key, _ in self.items()]

    def _table(self) -> _maple.Table[Any, Any]:
        return _maple.Table(self.name)

    @_repr.always
    def __repr__(self) -> str:
        return f"<table {self.name}: {dict(self.items())}>"


class Watch:
    """The changes of a table."""

    def __init__(self, state: State, table: str) -> None:
        self._table = state[table]
        self._before = dict(self._table.items())

    def changes(self) -> dict[Any, tuple[Any, Any]]:
        """The changes since the last call, or since the watch began: key, value before, value now.

        ``None`` stands for no value.
        """
        before, now = self._before, dict(self._table.items())
        self._before = now
        keys = [*before, *(key for key in now if key not in before)]
        changed = {key: (before.get(key), now.get(key)) for key in keys}
        return {key: (old, new) for key, (old, new) in changed.items() if old != new}
