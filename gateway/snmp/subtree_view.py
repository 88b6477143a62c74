"""MIB views of subtrees of object identifiers, as those of RFC 3415 section 5 without masks.

A view is a sorted list of disjoint intervals of names. What one name is compared with is the beginning or end
of a subtree, so the octets of a name that are as many as the longest of them has decide: their verdicts are
remembered, and a walk within a view costs two look-ups more than one of everything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.store import MibView

EVERYTHING: Final[tuple[Oid, ...]] = ((0,), (1,), (2,))
"""The subtrees that together have all names."""

MAX_REMEMBERED: Final = 4_096
"""The number of beginnings of names whose place is remembered; all are forgotten when there are more."""

_MISSING: Final = (ber.NO_SUCH_OBJECT, ber.NO_SUCH_INSTANCE)
_LARGEST: Final = ber.MAX_SUB_IDENTIFIER
_SECONDS: Final = 40  # the number of second sub-identifiers below 0 and 1 (X.690 section 8.19.4)


class Subtrees:
    """A set of names. Of several subtrees that have a name, the one with the longest root decides.

    Args:
        include: the roots of subtrees that belong to the set.
        exclude: the roots of those that do not.

    Raises:
        ValueError: a root is in both, or is no beginning of an object identifier.
    """

    def __init__(self, include: Iterable[Oid] = EVERYTHING, exclude: Iterable[Oid] = ()) -> None:
        verdicts = dict.fromkeys(include, True)
        for root in exclude:
            if verdicts.get(root):
                raise ValueError(f"{ber.dotted(root)} is both included and excluded")
            verdicts[root] = False
        intervals = _intervals(verdicts)
        self._starts = [start for start, _, _ in intervals]
        # The place of a name is the number of bounds at or before it: odd within an interval.
        self._bounds = [bound for _, low, high in intervals for bound in (low, high)]
        self._significant = max((_octets(root) for root in (*verdicts, *map(_after, verdicts))), default=1)
        self._places: dict[bytes, int] = {}

    def __contains__(self, name: bytes) -> bool:
        """Return whether the set has a name (content octets, canonical)."""
        return self.place(name) % 2 == 1

    def place(self, name: bytes) -> int:
        """Return the place of a name: ``2 * n + 1`` within interval ``n``, ``2 * n`` before it."""
        beginning = name[: self._significant]
        place = self._places.get(beginning)
        if place is None:
            place = bisect_right(self._bounds, ber.sort_key(ber.decode_name(name)))
            if len(self._places) >= MAX_REMEMBERED:
                self._places.clear()
            self._places[beginning] = place
        return place

    def start(self, number: int) -> bytes | None:
        """Return the first name of an interval, which may have no instance; ``None`` after the last one."""
        return self._starts[number] if number < len(self._starts) else None


class SubtreeView:
    """The instances of another view whose names are in a set; see `MibView`.

    Args:
        view: the other view.
        subtrees: the set of names.
    """

    def __init__(self, view: MibView, subtrees: Subtrees) -> None:
        self._view = view
        self._subtrees = subtrees

    def read(self, name: bytes) -> bytes:
        """See `MibView.read`: outside of the set there are no objects."""
        return self._view.read(name) if name in self._subtrees else ber.NO_SUCH_OBJECT

    def walk(self, name: bytes, limit: int, *, counter64: bool = True) -> tuple[list[bytes], bytes]:
        """See `MibView.walk`. What lies between two intervals is passed over in one step."""
        view, place_of = self._view, self._subtrees.place
        found: list[bytes] = []
        last = name
        place = place_of(name)
        while True:
            if place % 2:
                varbinds, end = view.walk(name, limit - len(found), counter64=counter64)
                if not varbinds:
                    return found, last
                if place_of(end) == place:
                    return found + varbinds if found else varbinds, end
                places = _Places(self._subtrees, varbinds)
                inside = bisect_right(places, place)
                if inside:
                    found += varbinds[:inside]
                    last = ber.name_of_varbind(found[-1])
                place = places[inside]
            start = self._subtrees.start(place // 2)
            if start is None:
                return found, last
            # A walk begins after a name, and the root of a subtree may itself be an instance.
            value = view.read(start)
            if value not in _MISSING and (counter64 or value[0] != ber.COUNTER64):
                found.append(ber.encode_varbind(start, value))
                last = start
                if len(found) == limit:
                    return found, last
            name, place = start, place | 1

    def next_varbind(self, name: bytes) -> bytes | None:
        """See `MibView.next_varbind`."""
        varbind = self._view.next_varbind(name)
        if varbind is None:
            return None
        # Where two names are in one interval, so are all between them.
        place = self._subtrees.place(name)
        return varbind if place % 2 and self._subtrees.place(ber.name_of_varbind(varbind)) == place else None

    def walk_rows(self, names: Sequence[bytes], limit: int) -> list[bytes] | None:
        """See `MibView.walk_rows`."""
        # Where a column's first and last name are in one interval, so are all between them.
        place_of = self._subtrees.place
        places = [place_of(name) for name in names]
        if not all(place % 2 for place in places):
            return None
        varbinds = self._view.walk_rows(names, limit)
        if varbinds is None:
            return None
        last = (place_of(ber.name_of_varbind(varbind)) for varbind in varbinds[-len(names) :])
        return varbinds if list(last) == places else None


class _Places:
    """The places of the names of varbinds, each computed when it is asked for."""

    def __init__(self, subtrees: Subtrees, varbinds: list[bytes]) -> None:
        self._subtrees = subtrees
        self._varbinds = varbinds

    def __len__(self) -> int:
        return len(self._varbinds)

    def __getitem__(self, index: int) -> int:
        return self._subtrees.place(ber.name_of_varbind(self._varbinds[index]))


def _intervals(verdicts: dict[Oid, bool]) -> list[tuple[bytes, bytes, bytes]]:
    """Return the intervals of a set in their order: the first name, and as sort keys the bounds."""
    bounds = sorted({*verdicts, *map(_after, verdicts)})
    merged: list[tuple[Oid, Oid]] = []
    for low, high in pairwise(bounds):
        if not _verdict(verdicts, low):
            continue
        if merged and merged[-1][1] == low:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return [
        (ber.encode_name(first), ber.sort_key(low), ber.sort_key(high))
        for low, high in merged
        if (first := _first_name(low)) < high
    ]


def _verdict(verdicts: dict[Oid, bool], name: Oid) -> bool:
    for length in range(len(name), 0, -1):
        verdict = verdicts.get(name[:length])
        if verdict is not None:
            return verdict
    return False


def _after(root: Oid) -> Oid:
    """Return the first sequence of sub-identifiers after all that begin with ``root``."""
    while root[-1] == _LARGEST:
        root = root[:-1]
    return (*root[:-1], root[-1] + 1)


def _first_name(low: Oid) -> Oid:
    """Return the first object identifier at or after ``low``: it has two sub-identifiers or more."""
    if len(low) == 1:
        return (*low, 0)
    return (low[0] + 1, 0) if low[0] < 2 and low[1] >= _SECONDS else low  # noqa: PLR2004  as of `ber.encode_name`


def _octets(bound: Oid) -> int:
    """Return the number of octets of a bound as a name."""
    first = _first_name(bound)
    return len(ber.encode_name(first)) if first[0] < len(EVERYTHING) else 1
