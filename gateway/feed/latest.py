"""Limits of the history that is kept of each source: a busy source displaces only its own records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from operator import attrgetter
from sys import getsizeof
from typing import Any, Final, Generic, TypeVar

import msgspec

Key = TypeVar("Key", bound=Hashable)

_MEBIBYTE = 2**20


class HistoryLimits(msgspec.Struct, frozen=True):
    """The limits of the history of each source; the gateway itself counts as one.

    Attributes:
        events: the number of events.
        ends: the number of ends of objects.
        operations: the number of operations that have ended.
        octets: bytes of memory for a source's events, for its ends, and for its operations, each.
    """

    events: int = 2_000
    ends: int = 1_000
    operations: int = 1_000
    octets: int = 8 * _MEBIBYTE


class Latest(Generic[Key]):
    """Decides which of a source's oldest entries are removed when a new one arrives.

    Args:
        most: the number of entries of each source.
        octets: bytes for the entries of one source. The last one stays, however large it is.
    """

    def __init__(self, most: int, octets: int) -> None:
        self._most = most
        self._octets = octets
        self._of_source: dict[int, dict[Key, int]] = {}
        self._taken: dict[int, int] = {}

    def put(self, source: int, key: Key, octets: int) -> list[Key]:
        """Add an entry, or change its size; return the keys of the oldest entries that are removed for it.

        An entry that exists keeps its position.
        """
        kept = self._of_source.setdefault(source, {})
        taken = self._taken.get(source, 0) + octets - kept.get(key, 0)
        kept[key] = octets
        left = []
        while len(kept) > self._most or (taken > self._octets and len(kept) > 1):
            oldest = next(iter(kept))
            taken -= kept.pop(oldest)
            left.append(oldest)
        self._taken[source] = taken
        return left

    def remove(self, source: int, key: Key) -> None:
        """Remove an entry; unknown keys are ignored."""
        kept = self._of_source.get(source, {})
        self._taken[source] = self._taken.get(source, 0) - kept.pop(key, 0)
        if not kept:
            self._of_source.pop(source, None)
            del self._taken[source]

    def forget(self, source: int) -> list[Key]:
        """Remove all entries of a source; return their keys."""
        self._taken.pop(source, None)
        return list(self._of_source.pop(source, ()))


def memory_of(value: object) -> int:
    """Return the bytes of memory that a record takes with all its contents; shared parts count each time.

    It is called for each event and each end, so most of the work is done in C.
    """
    octets = getsizeof(value)
    waiting = [] if type(value) in _SINGLE else [value]
    while waiting:
        parts = _parts(waiting.pop())
        octets += sum(map(getsizeof, parts))
        waiting += [part for part in parts if type(part) not in _SINGLE]
    return octets


def _parts(value: Any) -> Collection[object]:  # noqa: ANN401  a collection, or anything that has fields
    kind = type(value)
    fields = _FIELDS.get(kind)
    if fields is not None:
        try:
            found: tuple[object, ...] = fields(value)
        except AttributeError:  # a field was never set
            found = tuple(getattr(value, name, None) for name in _names(kind))
        return found
    if kind in {tuple, list}:
        collection: Collection[object] = value
        return collection
    if isinstance(value, Mapping):
        return [*value, *value.values()]
    if isinstance(value, tuple | list):
        return tuple(value)
    names = _names(kind)
    # `attrgetter` of a single name returns no tuple.
    _FIELDS[kind] = attrgetter(*names) if len(names) > 1 else _few_fields(names)
    return _parts(value)


def _names(kind: type) -> tuple[str, ...]:
    """Return the fields of a class; of a struct with those that it inherits."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    names: tuple[str, ...] = getattr(kind, "__slots__", ())
    return names


def _few_fields(names: Iterable[str]) -> Callable[[Any], tuple[object, ...]]:
    return lambda value: tuple(getattr(value, name, None) for name in names)


_FIELDS: Final[dict[type, Callable[[Any], tuple[object, ...]]]] = {}
"""The getter of all fields of a class, by class; there are few classes of records."""

_SINGLE = frozenset({int, str, bytes, float, bool, type(None)})
"""Types of values that contain no others."""
