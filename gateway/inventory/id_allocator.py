"""Numbers that tell events, alarms and ends of objects apart, over all sources of a gateway."""

from __future__ import annotations

from gateway.inventory.instances import InstanceIndex

_GATEWAY = 0
"""In place of a source's number, which begin at 1: these series belong to the gateway."""

_ALARM_SERIES = "gateway:alarm"
_END_SERIES = "gateway:end"


class IdAllocator:
    """One ascending series each for events, alarms and ends.

    Events are counted from 1 in each epoch; with the gateway's uuid and the epoch their number makes an id
    that is never given twice. Alarms and ends are numbered for ever: a series that has passed 2^31-1 (after
    eleven years of half a million ends a day) begins at 1 again, and passes over alarms that stand then. A
    restart leaves out what was left of a reserved block: the next number is greater, not one greater. Drawing
    one writes to the disk once in a block, as short-lived objects do (`InstanceIndex.transient_row`); it is
    published only after the index's commit, as every row number is.

    Args:
        gateway: its uuid, text.
        epoch: boot of this core.
        index: where the marks of the lasting series are kept.
    """

    def __init__(self, gateway: str, epoch: int, index: InstanceIndex) -> None:
        self._prefix = f"{gateway}.{epoch}"
        self._index = index
        self._events = 0
        self._alarms: set[int] = set()

    def event(self) -> tuple[int, str]:
        """Number within the epoch, and id, of the next event."""
        self._events += 1
        return self._events, f"{self._prefix}.{self._events}"

    @property
    def events(self) -> int:
        """How many events were numbered so far."""
        return self._events

    def alarm(self) -> int:
        """The number of an alarm that is raised now; its own until `alarm_over`."""
        number = self._index.transient_row(_GATEWAY, _ALARM_SERIES, self._alarms.__contains__)
        self._alarms.add(number)
        return number

    def alarm_stands(self, number: int) -> None:
        """An alarm that was raised before this core began still stands."""
        self._alarms.add(number)

    def alarm_over(self, number: int) -> None:
        """An alarm is over."""
        self._alarms.discard(number)

    def end(self) -> int:
        """The number of an object's end."""
        return self._index.transient_row(_GATEWAY, _END_SERIES)
