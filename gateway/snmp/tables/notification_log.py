"""NOTIFICATION-LOG-MIB (RFC 3014), read-only: one log, whose name is empty, of the agent's notifications.

The configuration is the truth, so that limits are shown and cannot be set. Entries do not age. All are of
this agent's engine, so nlmLogEngineID is empty, as the RFC wants it for a log of one engine; an address has
to be there in any case, and is the first one at which the agent listens.

A log without a filter, or with one that snmpNotifyFilterTable does not have, would log nothing (noFilter of
nlmConfigLogOperStatus). So snmpNotifyFilterTable has one filter, which contains all notifications.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, TypeAlias

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import known_time
from gateway.snmp.notifications.log import LogEntry, NotificationLog, Variable
from gateway.snmp.notifications.receiver import Address
from gateway.snmp.store import Store
from gateway.snmp.tables.receivers import transport_address

_OBJECTS: Final[Oid] = (1, 3, 6, 1, 2, 1, 92, 1)
CONFIGURATION: Final[Oid] = (*_OBJECTS, 1)
"""nlmConfig: nlmConfigGlobalEntryLimit (1) and nlmConfigGlobalAgeOut (2)."""

CONFIGURATION_ENTRY: Final[Oid] = (*CONFIGURATION, 3, 1)
"""nlmConfigLogEntry, indexed by nlmLogName."""

STATISTICS: Final[Oid] = (*_OBJECTS, 2)
"""nlmStats: nlmStatsGlobalNotificationsLogged (1) and nlmStatsGlobalNotificationsBumped (2)."""

STATISTICS_ENTRY: Final[Oid] = (*STATISTICS, 3, 1)
"""nlmStatsLogEntry: the same of each log, as columns 1 and 2."""

LOG_ENTRY: Final[Oid] = (*_OBJECTS, 3, 1, 1)
"""nlmLogEntry, indexed by nlmLogName and nlmLogIndex."""

VARIABLE_ENTRY: Final[Oid] = (*_OBJECTS, 3, 2, 1)
"""nlmLogVariableEntry, indexed by nlmLogName, nlmLogIndex and nlmLogVariableIndex."""

FILTER_ENTRY: Final[Oid] = (1, 3, 6, 1, 6, 3, 13, 1, 3, 1)
"""snmpNotifyFilterEntry (RFC 3413), indexed by the name of the filter, and a subtree (IMPLIED)."""

FILTER_NAME: Final = b"all"
"""The snmpNotifyFilterProfileName of the filter, and the nlmConfigLogFilterName."""


class LogColumn(enum.IntEnum):
    """Columns of nlmLogTable; 1 is nlmLogIndex."""

    TIME = 2
    DATE_AND_TIME = 3
    ENGINE_ID = 4
    ENGINE_ADDRESS = 5
    ENGINE_DOMAIN = 6
    CONTEXT_ENGINE_ID = 7
    CONTEXT_NAME = 8
    NOTIFICATION_ID = 9


class VariableColumn(enum.IntEnum):
    """Columns of nlmLogVariableTable; 1 is nlmLogVariableIndex."""

    ID = 2
    VALUE_TYPE = 3
    COUNTER32 = 4
    UNSIGNED32 = 5
    TIME_TICKS = 6
    INTEGER32 = 7
    OCTET_STRING = 8
    IP_ADDRESS = 9
    OID = 10
    COUNTER64 = 11
    OPAQUE = 12


class FilterColumn(enum.IntEnum):
    """Columns of snmpNotifyFilterTable; 1 is snmpNotifyFilterSubtree."""

    MASK = 2
    TYPE = 3
    STORAGE_TYPE = 4
    ROW_STATUS = 5


TYPES: Final = {
    ber.COUNTER32: (VariableColumn.COUNTER32, 1),
    ber.GAUGE32: (VariableColumn.UNSIGNED32, 2),
    ber.TIME_TICKS: (VariableColumn.TIME_TICKS, 3),
    ber.INTEGER: (VariableColumn.INTEGER32, 4),
    ber.IP_ADDRESS: (VariableColumn.IP_ADDRESS, 5),
    ber.OCTET_STRING: (VariableColumn.OCTET_STRING, 6),
    ber.OBJECT_IDENTIFIER: (VariableColumn.OID, 7),
    ber.COUNTER64: (VariableColumn.COUNTER64, 8),
    ber.OPAQUE: (VariableColumn.OPAQUE, 9),
}
"""By type of a variable: its column, and its nlmLogVariableValueType."""

_NAME: Final[Oid] = (0,)  # an empty nlmLogName: its length
_EMPTY: Final = ber.encode_octets(b"")
_ENABLED, _OPERATIONAL, _ACTIVE, _READ_ONLY, _INCLUDED = map(ber.encode_integer, (1, 2, 1, 5, 1))
_FILTER_INDEX: Final[Oid] = (len(FILTER_NAME), *FILTER_NAME, 1, 3)
_ANY_NUMBERS: Final = ber.encode_octets(b"\0")  # with it the subtree 1.3 has all that has two numbers
_NO_AGE: Final = ber.encode_gauge32(0)
_COUNTER32_VALUES: Final = 1 << 32

_EntryValue: TypeAlias = Callable[[LogEntry], bytes | None]
_VariableValue: TypeAlias = Callable[[Variable], bytes | None]


def serve_notification_log(store: Store, log: NotificationLog, address: Address) -> None:
    """Serve a log, and the filter that it names.

    Args:
        store: the store that serves it.
        log: the log.
        address: the address of the agent.
    """
    limit = ber.encode_gauge32(log.limit)
    store.scalar((*CONFIGURATION, 1, 0), limit)
    store.scalar((*CONFIGURATION, 2, 0), _NO_AGE)
    # Filter, limit, nlmConfigLogAdminStatus, nlmConfigLogOperStatus, storage, status.
    filter_name = ber.encode_octets(FILTER_NAME)
    row = dict(enumerate((filter_name, limit, _ENABLED, _OPERATIONAL, _READ_ONLY, _ACTIVE), start=2))
    store.table(CONFIGURATION_ENTRY, tuple(row)).put(_NAME, row)
    store.table(FILTER_ENTRY, tuple(FilterColumn)).put(
        _FILTER_INDEX,
        {
            FilterColumn.MASK: _ANY_NUMBERS,
            FilterColumn.TYPE: _INCLUDED,
            FilterColumn.STORAGE_TYPE: _READ_ONLY,
            FilterColumn.ROW_STATUS: _ACTIVE,
        },
    )
    counts: dict[int, Callable[[], int]] = {1: lambda: log.logged, 2: lambda: log.bumped}
    for number, count in counts.items():
        store.scalar((*STATISTICS, number, 0), partial(_counter_of, count))
    store.computed_table(
        STATISTICS_ENTRY,
        [_CountColumn((*STATISTICS_ENTRY, number), count) for number, count in counts.items()],
    )
    store.computed_table(LOG_ENTRY, [_LogColumn(log, *each) for each in _log_columns(address)])
    store.computed_table(VARIABLE_ENTRY, [_VariableColumn(log, *each) for each in _variable_columns()])


def _log_columns(address: Address) -> Iterator[tuple[LogColumn, _EntryValue]]:
    domain, octets = transport_address(address)
    yield LogColumn.TIME, lambda entry: ber.encode_time_ticks(entry.notification.up_time)
    yield LogColumn.DATE_AND_TIME, lambda entry: known_time(entry.time)
    yield LogColumn.ENGINE_ID, lambda _: _EMPTY
    yield LogColumn.ENGINE_ADDRESS, lambda _: ber.encode_octets(octets)
    yield LogColumn.ENGINE_DOMAIN, lambda _: ber.encode_oid(domain)
    yield LogColumn.CONTEXT_ENGINE_ID, lambda _: _EMPTY
    yield LogColumn.CONTEXT_NAME, lambda _: _EMPTY
    yield LogColumn.NOTIFICATION_ID, lambda entry: ber.encode_oid(entry.notification.oid)


def _variable_columns() -> Iterator[tuple[VariableColumn, int, _VariableValue]]:
    """Yield all columns, each with the type of the variables that it has; 0 for any."""
    yield VariableColumn.ID, 0, lambda variable: ber.encode_tlv(ber.OBJECT_IDENTIFIER, variable[0])
    yield VariableColumn.VALUE_TYPE, 0, lambda variable: ber.encode_integer(TYPES[variable[1][0]][1])
    for tag, (column, _) in TYPES.items():
        yield column, tag, partial(_value_of_type, tag)


def _value_of_type(tag: int, variable: Variable) -> bytes | None:
    return variable[1] if variable[1][0] == tag else None


def _counter_of(count: Callable[[], int]) -> bytes:
    return ber.encode_counter32(count() % _COUNTER32_VALUES)


class _ComputedColumn:
    """A column whose instances are made when they are read."""

    def __init__(self, oid: Oid) -> None:
        self.prefix = ber.encode_name(oid)
        self.key = ber.sort_key(oid)

    def instances(self, after: Oid) -> Iterator[tuple[Oid, bytes]]:
        """Yield indexes and values in lexicographic order, behind the index ``after`` (perhaps empty)."""
        raise NotImplementedError

    def passes(self, tag: int) -> bool:
        """Return whether the column is of the type ``tag``."""
        del tag
        return False

    def walk(self, suffix: bytes, limit: int, varbinds: list[bytes], passed_over: int) -> bytes | None:
        """See `gateway.snmp.regions.Region.walk`."""
        if self.passes(passed_over):
            return None
        name = None
        for index, value in self.instances(ber.decode_sub_identifiers(suffix)):
            if limit < 1:
                break
            name = self.prefix + ber.encode_sub_identifiers(index)
            varbinds.append(ber.encode_varbind(name, value))
            limit -= 1
        return name


class _CountColumn(_ComputedColumn):
    """A column of nlmStatsLogTable."""

    def __init__(self, oid: Oid, count: Callable[[], int]) -> None:
        super().__init__(oid)
        self._count = count

    def read(self, suffix: bytes) -> bytes | None:
        """See `gateway.snmp.regions.Region.read`."""
        return _counter_of(self._count) if ber.decode_sub_identifiers(suffix) == _NAME else None

    def instances(self, after: Oid) -> Iterator[tuple[Oid, bytes]]:
        """See `_ComputedColumn.instances`."""
        if after < _NAME:
            yield _NAME, _counter_of(self._count)


class _LogColumn(_ComputedColumn):
    """A column of nlmLogTable."""

    def __init__(self, log: NotificationLog, column: LogColumn, value: _EntryValue) -> None:
        super().__init__((*LOG_ENTRY, column))
        self._log = log
        self._value = value

    def read(self, suffix: bytes) -> bytes | None:
        """See `gateway.snmp.regions.Region.read`."""
        match ber.decode_sub_identifiers(suffix):
            case (0, index):
                entry = self._log.entry(index)
                return None if entry is None else self._value(entry)
        return None

    def instances(self, after: Oid) -> Iterator[tuple[Oid, bytes]]:
        """See `_ComputedColumn.instances`."""
        if after >= (1,):
            return
        start = after[1] + 1 if after[1:] else 1
        for index, entry in self._log.entries(start):
            value = self._value(entry)
            if value is not None:
                yield (*_NAME, index), value


class _VariableColumn(_ComputedColumn):
    """A column of nlmLogVariableTable; ``tag`` is the type of its variables, 0 for any."""

    def __init__(self, log: NotificationLog, column: VariableColumn, tag: int, value: _VariableValue) -> None:
        super().__init__((*VARIABLE_ENTRY, column))
        self._log = log
        self._tag = tag
        self._value = value

    def passes(self, tag: int) -> bool:
        """See `_ComputedColumn.passes`."""
        return tag == self._tag != 0

    def read(self, suffix: bytes) -> bytes | None:
        """See `gateway.snmp.regions.Region.read`."""
        match ber.decode_sub_identifiers(suffix):
            case (0, index, place):
                variables = self._log.variables(index)
                return self._value(variables[place - 1]) if 0 < place <= len(variables) else None
        return None

    def instances(self, after: Oid) -> Iterator[tuple[Oid, bytes]]:
        """See `_ComputedColumn.instances`."""
        # Most types are in no notification: their columns cost nothing.
        if after >= (1,) or (self._tag and not self._log.has_type(self._tag)):
            return
        first, passed = (after[1] if after[1:] else 0), (after[2] if after[2:] else 0)
        for index, entry in self._log.entries(max(first, 1)):
            if self._tag and not entry.types >> self._tag & 1:
                continue
            begin = passed if index == first else 0
            for place, variable in enumerate(self._log.variables(index)[begin:], start=begin + 1):
                value = self._value(variable)
                if value is not None:
                    yield (*_NAME, index, place), value
