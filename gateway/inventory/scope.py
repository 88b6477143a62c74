"""Definitions shared by the parts of one source's inventory."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import msgspec

from gateway.feed.records import Record
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.instance_file import IndexNotWrittenError
from gateway.inventory.instances import GATEWAY, InstanceIndex

_ALARM_SERIES = "gateway:alarm"
_END_SERIES = "gateway:end"


class SourceIdentity(msgspec.Struct, frozen=True):
    """The identity of a source, by configuration and state folder.

    Attributes:
        number: the number of its name, for ever.
        name: its configured name.
        kind: its configured kind.
        sets_natively: its dialect has a request of its own to set properties, beside methods.
    """

    number: int
    name: str
    kind: str
    sets_natively: bool = False


class IdAllocator:
    """Allocates numbers of one ascending series each for events, alarms and ends.

    Events are counted from 1 in each epoch; with the gateway's uuid and the epoch their number makes an id
    that is never given twice. Alarms and ends are numbered for ever: a series that has passed 2^31-1 (after
    eleven years of half a million ends a day) begins at 1 again, and passes over alarms that stand then. A
    restart leaves out what was left of a reserved block: the next number is greater, not one greater. Drawing
    one writes to the disk once in a block, as short-lived objects do; it is published only after the index's
    commit, as every row number is. An object has ended, and a condition lasts, whatever the disk does:
    numbers are given also while it takes nothing (`InstanceIndex.own_number`).

    Args:
        gateway: its uuid, text.
        epoch: boot of this core.
        index: keeps the marks of the lasting series.
    """

    def __init__(self, gateway: str, epoch: int, index: InstanceIndex) -> None:
        self._prefix = f"{gateway}.{epoch}"
        self._index = index
        self._events = 0
        self._alarms: set[int] = set()
        for series in (_ALARM_SERIES, _END_SERIES):
            with suppress(IndexNotWrittenError):  # then its numbers are given beyond the last block
                index.prepare(GATEWAY, series)

    def event(self) -> tuple[int, str]:
        """Return the number within the epoch, and the id, of the next event."""
        self._events += 1
        return self._events, f"{self._prefix}.{self._events}"

    @property
    def events(self) -> int:
        """The number of events numbered so far."""
        return self._events

    def alarm(self) -> int:
        """Return the number of an alarm that is raised now; its own until `alarm_over`."""
        number = self._index.own_number(_ALARM_SERIES, self._alarms.__contains__)
        self._alarms.add(number)
        return number

    def alarm_stands(self, number: int) -> None:
        """Note the number of an alarm that was raised before this core began and is still active."""
        self._alarms.add(number)

    def alarm_over(self, number: int) -> None:
        """Release the number of an alarm that is over."""
        self._alarms.discard(number)

    def end(self) -> int:
        """Return the number of an object's end."""
        return self._index.own_number(_END_SERIES)


class SourceScope(msgspec.Struct, frozen=True):
    """The shared objects that each part is given when it is constructed.

    Attributes:
        identity: the source.
        classes: the classes of all sources, with their mappings.
        index: the row numbers; committed before the records are published.
        ids: allocates the numbers of events, alarms and ends, over all sources.
        counters: the counters of the source, by name.
        records: the records to publish, in order; each part appends, `SourceInventory` takes.
    """

    identity: SourceIdentity
    classes: ClassRegistry
    index: InstanceIndex
    ids: IdAllocator
    counters: Counter[str] = msgspec.field(default_factory=Counter)
    records: list[Record] = msgspec.field(default_factory=list)

    @property
    def number(self) -> int:
        """The source's number."""
        return self.identity.number
