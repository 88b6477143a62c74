"""The conversion of updates whose values are shown as they are, as counters and gauges are: most updates.

What is to be done with an update depends on its class and on the set of its elements only, and is found out
once for each set. Then types and ranges of all values are checked by one call, in C, which takes about as
long as the conversion of one value.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec

from gateway.feed.records import ObjectRecord, UpdateRecord
from gateway.jmx.commands import Change
from gateway.jmx.types import MAX_LONG, MIN_LONG

MAX_SETS: Final = 1000
"""The maximum number of sets of elements that are remembered of a class; beyond that all are forgotten."""

_Long: TypeAlias = Annotated[int, msgspec.Meta(ge=MIN_LONG, le=MAX_LONG)]
_Time: TypeAlias = Annotated[int, msgspec.Meta(gt=0, le=MAX_LONG)]


class _Plan(NamedTuple):
    """What is to be done with an update: the positions of its values, and the type of all of them."""

    positions: tuple[int, ...]
    values: type[Any]


class PlainUpdates:
    """The updates of one version of a class.

    Args:
        times: the positions of the attributes for `times_of`.
        longs: the positions of the attributes of type `AttributeType.LONG` whose values need no conversion,
            by the number of the element.
    """

    def __init__(self, times: tuple[int, int, int], longs: Mapping[int, int]) -> None:
        self._times = times
        self._longs = longs
        self._plans: dict[tuple[int, ...], _Plan | None] = {}

    def change(self, number: int, record: UpdateRecord) -> Change | None:
        """Return the change of the object of this number.

        ``None`` where a value is absent, needs a conversion or does not fit.
        """
        elements = tuple(record.values)
        try:
            plan = self._plans[elements]
        except KeyError:
            plan = self._remember(elements)
        if plan is None or record.absent:
            return None
        sampled, changed, reset = times_of(record)
        values: list[Any] = [sampled or None, changed or None, reset or None, *record.values.values()]
        try:
            msgspec.convert(values, plan.values)
        except msgspec.ValidationError:
            return None
        return Change(number, plan.positions, values)

    def _remember(self, elements: tuple[int, ...]) -> _Plan | None:
        plan = None
        if self._longs.keys() >= set(elements):
            positions = (*self._times, *(self._longs[element] for element in elements))
            plan = _Plan(positions, _times_and_longs(len(elements)))
        if len(self._plans) >= MAX_SETS:
            self._plans.clear()
        self._plans[elements] = plan
        return plan


def times_of(record: ObjectRecord | UpdateRecord) -> tuple[int, int, int]:
    """Return sample time, time of the last change, and discontinuity time; 0 for unknown."""
    return record.statistics_sampled or record.properties_sampled, record.changed, record.reset


@lru_cache(maxsize=256)
def _times_and_longs(count: int) -> type[Any]:
    """Return the type of an array of the times and so many numbers; it takes 0.1 ms to make."""
    times = [(f"time{place}", _Time | None) for place in range(3)]
    longs = [(f"long{place}", _Long) for place in range(count)]
    return msgspec.defstruct("TimesAndLongs", [*times, *longs], array_like=True)
