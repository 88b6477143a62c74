"""The last notifications that the agent made, as NOTIFICATION-LOG-MIB (RFC 3014) numbers them.

A notification is kept in the octets of its datagrams. One that no receiver gets is encoded when it is read.
"""

from __future__ import annotations

import contextlib
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from gateway.snmp import ber
from gateway.snmp.notifications.encoding import MAX_DATAGRAM_OCTETS, EncodedNotification
from gateway.snmp.notifications.notification import Notification

LAST_INDEX: Final = 0xFFFF_FFFF
"""The highest nlmLogIndex; 1 follows."""

Variable: TypeAlias = tuple[bytes, bytes]
"""The content octets of a variable's name, and its value TLV."""

_REMEMBERED: Final = 16
_COMMON_TYPES: Final = 1 << ber.INTEGER | 1 << ber.OCTET_STRING | 1 << ber.OBJECT_IDENTIFIER
_TIME_AND_NAME: Final = 2  # sysUpTime.0 and snmpTrapOID.0, which have columns of nlmLogTable


class LogEntry(NamedTuple):
    """A notification in the log.

    Attributes:
        number: the number of notifications before it.
        notification: the notification.
        time: when it was made, nanoseconds since 1970-01-01 UTC.
        types: a bit for the type of each variable; there may be bits of variables that are cut or absent.
    """

    number: int
    notification: EncodedNotification
    time: int
    types: int


class NotificationLog:
    """A ring of the last notifications.

    Args:
        limit: the maximum number of them, 1 or more.
        first: the index of the first one.
    """

    def __init__(self, limit: int, first: int = 1) -> None:
        self.limit = limit
        self._before = first - 1
        self._ring: list[LogEntry] = []
        self._logged = 0
        self._holders: Counter[int] = Counter()
        self._variables: OrderedDict[int, tuple[Variable, ...]] = OrderedDict()

    @property
    def logged(self) -> int:
        """The number of notifications that were added."""
        return self._logged

    @property
    def bumped(self) -> int:
        """The number of those that had to make room for others."""
        return self._logged - len(self._ring)

    def record(self, notification: Notification, encoded: EncodedNotification, now: int) -> None:
        """Add a notification that is made now; beyond the limit it replaces the oldest one.

        Args:
            notification: the notification.
            encoded: the same, for receivers.
            now: nanoseconds since 1970-01-01 UTC.
        """
        if not encoded.is_encoded and _is_long(notification):
            # What waits to be encoded is not cut yet.
            with contextlib.suppress(ValueError):
                encoded.objects()
        types = _COMMON_TYPES | notification.types
        entry = LogEntry(self._logged, encoded, now, types)
        if len(self._ring) < self.limit:
            self._ring.append(entry)
            self._holders[types] += 1
        else:
            place = self._logged % self.limit
            oldest = self._ring[place].types
            self._ring[place] = entry
            if oldest != types:
                self._holders[types] += 1
                self._holders[oldest] -= 1
                if not self._holders[oldest]:
                    del self._holders[oldest]
        self._logged += 1

    def has_type(self, tag: int) -> bool:
        """Return whether a variable of this type may be in the log."""
        return any(types >> tag & 1 for types in self._holders)

    def entry(self, index: int) -> LogEntry | None:
        """Return the notification of an index; ``None`` if it is not in the log."""
        found = next(self.entries(index), None)
        return found[1] if found is not None and found[0] == index else None

    def entries(self, index: int) -> Iterator[tuple[int, LogEntry]]:
        """Yield indexes and notifications in ascending order from ``index`` on.

        Where the index has wrapped, those behind the wrap are younger than those before it, and come first.
        """
        end = self._before + self._logged
        begin = end - len(self._ring)
        wrap = (end - 1) // LAST_INDEX * LAST_INDEX
        runs = [(begin, end)] if begin >= wrap else [(wrap, end), (begin, wrap)]
        for start, stop in runs:
            base = start // LAST_INDEX * LAST_INDEX
            for number in range(max(start, base + index - 1), stop):
                yield number - base + 1, self._ring[(number - self._before) % self.limit]

    def variables(self, index: int) -> tuple[Variable, ...]:
        """Return the variables of a notification behind sysUpTime.0 and snmpTrapOID.0.

        There are none where the index is not in the log, or BER cannot express a value.
        """
        entry = self.entry(index)
        if entry is None:
            return ()
        found = self._variables.get(entry.number)
        if found is None:
            found = self._variables[entry.number] = _decoded(entry)
            if len(self._variables) > _REMEMBERED:
                self._variables.popitem(last=False)
        return found


def _decoded(entry: LogEntry) -> tuple[Variable, ...]:
    try:
        octets = entry.notification.version_2c()
    except ValueError:
        return ()
    _, start, stop = ber.read_header(octets, 0, len(octets))
    variables = []
    while start < stop:
        _, varbind, end = ber.read_header(octets, start, stop)
        name, value = ber.read_name(octets, varbind, end)
        variables.append((name, octets[value:end]))
        start = end
    return tuple(variables[_TIME_AND_NAME:])


def _is_long(notification: Notification) -> bool:
    """Return whether a notification takes more than a datagram, perhaps much more."""
    texts = (
        len(notification.source)
        + len(notification.class_name)
        + len(notification.object_name)
        + len(notification.text)
        + len(notification.condition)
    )
    return texts + sum(map(len, notification.arguments)) > MAX_DATAGRAM_OCTETS
