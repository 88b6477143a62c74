"""Which deliveries of durable subscriptions may come again: told again at the head of each segment.

A delivery that is not acknowledged comes again, however often the core dies meanwhile, and its record may lie
in a segment that nobody reads at the start any more. A broker keeps no more deliveries unacknowledged than a
consumer may have, and these are the last ones. A RabbitMQ that is killed forgets acknowledgements as well: it
writes them when its queue comes to rest, and as often as it is killed it delivers again what was acknowledged
before. So the deliveries of some minutes are told, and the last ones of each source in any case.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

FIELD: Final = "deliveries"
"""Of the values of a ``start`` record: identities by source, without the source's name, in order."""

MIN_OF_SOURCE: Final = 1_000
"""As many as a consumer may have that are not acknowledged."""

MAX_OF_SOURCE: Final = 20_000
"""However short the time is in which they came."""

KEPT_FOR: Final = 600 * 10**9
"""Nanoseconds."""

_MAX_TOLD: Final = 20_000
"""In one record, of all sources: 400 kB."""


class LateDeliveries:
    """The last deliveries of each source.

    Args:
        known: of before, ``SOURCE:IDENTITY``, in order.
        now: the time, in nanoseconds.
    """

    def __init__(self, known: Iterable[str] = (), now: int = 0) -> None:
        self._of_source: dict[str, OrderedDict[str, int]] = {}
        for delivery in known:
            self.add(delivery, now)

    def add(self, delivery: str, now: int) -> None:
        """One was recorded, or came again; not before all of its records are appended."""
        source, _, identity = delivery.rpartition(":")
        known = self._of_source.setdefault(source, OrderedDict())
        known.pop(identity, None)
        known[identity] = now
        while len(known) > MIN_OF_SOURCE and self._is_over(known, now):
            known.popitem(last=False)

    def _is_over(self, known: OrderedDict[str, int], now: int) -> bool:
        return len(known) > MAX_OF_SOURCE or now - next(iter(known.values())) > KEPT_FOR

    def values(self) -> dict[str, object]:
        """For the first record of a segment; nothing where there are none."""
        if not self._of_source:
            return {}
        share = max(1, _MAX_TOLD // len(self._of_source))
        return {FIELD: {source: list(known)[-share:] for source, known in self._of_source.items()}}


def told_in(values: Mapping[str, object]) -> Iterator[str]:
    """The deliveries that a ``start`` record's values tell; what is no such thing is passed over."""
    by_source = values.get(FIELD)
    if isinstance(by_source, Mapping):
        for source, identities in by_source.items():
            if isinstance(identities, list):
                yield from (f"{source}:{identity}" for identity in identities if isinstance(identity, str))
