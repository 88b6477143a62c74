"""What is kept of the past: so much of each source that a noisy one takes no other's place."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from sys import getsizeof
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

_MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """How much of the past is kept of each source; the gateway itself counts as one.

    Attributes:
        events: the last ones.
        ends: of objects, the last ones.
        operations: that have ended, the last ones.
        octets: of memory that the events of a source take at most; and so many its ends, and its operations.
    """

    events: int = 2_000
    ends: int = 1_000
    operations: int = 1_000
    octets: int = 8 * _MEBIBYTE


class Latest(Generic[Key]):
    """Says what has to leave when something comes, so that each source keeps its own last ones.

    Args:
        most: of each source.
        octets: that those of one source take together. The last one stays, however large it is.
    """

    def __init__(self, most: int, octets: int) -> None:
        self._most = most
        self._octets = octets
        self._of_source: dict[int, dict[Key, int]] = {}
        self._taken: dict[int, int] = {}

    def put(self, source: int, key: Key, octets: int) -> list[Key]:
        """Something came, or what there is takes other octets now; the oldest that leave for it.

        What there is keeps its place.
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
        """It is kept no more."""
        kept = self._of_source.get(source, {})
        self._taken[source] = self._taken.get(source, 0) - kept.pop(key, 0)
        if not kept:
            self._of_source.pop(source, None)
            del self._taken[source]

    def forget(self, source: int) -> list[Key]:
        """Nothing of this source is kept any more; what it was."""
        self._taken.pop(source, None)
        return list(self._of_source.pop(source, ()))


def memory_of(value: object) -> int:
    """Octets of memory that a record takes with all that is in it, rather too many: some of it is shared."""
    octets = 0
    waiting: list[object] = [value]
    while waiting:
        each = waiting.pop()
        kind: type = type(each)
        octets += getsizeof(each)
        if kind in _SINGLE:
            continue
        if isinstance(each, dict | Mapping):
            waiting += each.values()
            waiting += each
        elif isinstance(each, tuple | list):
            waiting += each
        else:
            waiting += [getattr(each, name, None) for name in getattr(kind, "__slots__", ())]
    return octets


_SINGLE = frozenset({int, str, bytes, float, bool, type(None)})
