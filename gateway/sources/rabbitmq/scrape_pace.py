"""How often Prometheus' metrics are read, and how often the dear ones among them. Without I/O.

To count the consumers of its queues RabbitMQ copies all that it knows of each: with 20,000 queues that costs
three times as much processor time as all other metrics of queues together. Where a whole reading at each
interval is too dear, most readings leave these metrics out, and take three quarters of the time there is.
"""

from __future__ import annotations

from collections import deque
from typing import Final

_SECOND: Final = 1_000_000_000
_COSTS: Final = 8
"""Readings of a kind by whose costs its pace is known."""
_FIRST_INTERVAL: Final = 12 * _SECOND
"""The longest pause before it is."""
_FIRST_WHOLE_INTERVAL: Final = 60 * _SECOND
"""The longest time between whole readings before it is."""
_LEAN_PART: Final = 3 / 4
"""Part of the time for what every reading has; the rest is for what only whole ones have."""


class ScrapePace:
    """The pace of readings by what they cost. Times and durations are nanoseconds.

    Args:
        interval: between two readings, where their cost allows.
        share: share of time that they may take.
        dear: whether there are metrics that a reading may leave out.

    Attributes:
        interval: from the beginning of one reading to that of the next as things stand.
        whole_interval: the same of readings that leave nothing out.
    """

    def __init__(self, interval: int, share: float, *, dear: bool) -> None:
        self._least = interval
        self._share = share
        self._dear = dear
        self._whole: deque[int] = deque(maxlen=_COSTS)
        self._lean: deque[int] = deque(maxlen=_COSTS)
        self._whole_due = 0
        self.interval = self.whole_interval = interval

    @property
    def share(self) -> float:
        """Share of time that readings take at most, as things stand."""
        whole = min(self._whole, default=0)
        lean = min(self._lean, default=whole) if self.whole_interval > self.interval else whole
        return min(self._share, lean / self.interval + max(0, whole - lean) / self.whole_interval)

    def is_whole(self, now: int) -> bool:
        """Whether a reading that begins at ``now`` leaves nothing out."""
        return not self._dear or now >= self._whole_due

    def restart(self) -> None:
        """The values of before do not count any more: the next reading leaves nothing out."""
        self._whole_due = 0

    def read(self, began: int, cost: int, *, whole: bool) -> None:
        """A reading that began at ``began`` kept the broker busy for ``cost``."""
        (self._whole if whole else self._lean).append(cost)
        # Others who keep the machine busy make a reading longer, never shorter.
        dearest = min(self._whole, default=cost)
        if not self._dear or dearest <= self._share * self._least:
            self.interval = self._bearable(self._whole, self._share)
            self.whole_interval = self.interval
        elif not self._lean:
            self.interval = min(int(dearest / self._share), _FIRST_INTERVAL)
            self.whole_interval = _FIRST_WHOLE_INTERVAL
        else:
            self.interval = self._bearable(self._lean, self._share * _LEAN_PART)
            more = max(0, dearest - min(self._lean)) / (self._share * (1 - _LEAN_PART))
            most = more if len(self._whole) == _COSTS else min(more, _FIRST_WHOLE_INTERVAL)
            self.whole_interval = max(self.interval, int(most))
        if whole:
            self._whole_due = began + self.whole_interval
        elif self.whole_interval == self.interval:
            self._whole_due = 0

    def _bearable(self, costs: deque[int], share: float) -> int:
        bearable = min(costs) / share
        known = bearable if len(costs) == _COSTS else min(bearable, _FIRST_INTERVAL)
        return max(self._least, int(known))
