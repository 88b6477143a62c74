"""Which deliveries of durable subscriptions may come again: told anew at the head of each segment.

A delivery that is not acknowledged comes again, however often the core dies meanwhile, and its record may lie
in a segment that nobody reads at the start any more. A broker keeps no more deliveries unacknowledged than a
consumer may have, and these are the last ones, so the last ones of each source are enough.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

FIELD: Final = "deliveries"
"""Of the values of a ``start`` record: identities by source, without the source's name, in order."""

MAX_OF_SOURCE: Final = 1_000
"""As many as a consumer may have that are not acknowledged."""

_MAX_TOLD: Final = 20_000
"""In one record, of all sources: 400 kB."""


class LateDeliveries:
    """The last deliveries of each source.

    Args:
        known: of before, ``SOURCE:IDENTITY``, in order.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._of_source: dict[str, deque[str]] = {}
        for delivery in known:
            self.add(delivery)

    def add(self, delivery: str) -> None:
        """One was recorded; not before all of its records are appended."""
        source, _, identity = delivery.rpartition(":")
        self._of_source.setdefault(source, deque(maxlen=MAX_OF_SOURCE)).append(identity)

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
