"""applTable of NETWORK-SERVICES-MIB (RFC 2788): each source as a network service.

What the gateway cannot say truthfully has no instance: how many associations a broker has that its source
does not list completely, what it rejects, and what it opens itself.
"""

from __future__ import annotations

import datetime as dt
import enum
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from gateway.feed.records import SourceRecord
from gateway.model.observations import SourceState
from gateway.model.times import SECOND
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.cells import gauge32, text
from gateway.snmp.fixed_mib import CLASS_ENTRY, ClassColumn
from gateway.snmp.oid_registry import OidRegistry
from gateway.snmp.store import Store

APPLICATION_ENTRY: Final[Oid] = (1, 3, 6, 1, 2, 1, 27, 1, 1)
"""applEntry, indexed by applIndex, which is the number of the source (agSourceIndex)."""


class ApplicationColumn(enum.IntEnum):
    """Columns of applTable that the agent serves; 1 is applIndex."""

    NAME = 2
    DIRECTORY_NAME = 3
    VERSION = 4
    UPTIME = 5
    OPER_STATUS = 6
    LAST_CHANGE = 7
    INBOUND_ASSOCIATIONS = 8
    ACCUMULATED_INBOUND_ASSOCIATIONS = 10
    DESCRIPTION = 16
    URL = 17


class OperStatus(enum.IntEnum):
    """The values of applOperStatus that the agent shows."""

    UP = 1
    DOWN = 2
    RESTARTING = 5


_STATUSES: Final = {
    # A source that is read in part is one whose broker serves its clients.
    SourceState.SYNCHRONISED: OperStatus.UP,
    SourceState.DEGRADED: OperStatus.UP,
    # The broker answers already.
    SourceState.SYNCHRONISING: OperStatus.UP,
    SourceState.CONNECTING: OperStatus.RESTARTING,
    SourceState.DOWN: OperStatus.DOWN,
}
_DESCRIPTIONS: Final = {
    "rabbitmq": "RabbitMQ broker",
    "qmf": "Broker or applications that QMF agents manage",
    "am01": "Broker or application that a QMF agent of AM01 or AM1 manages",
    "cml": "OpenAMQ broker",
    "ami": "Applications that report by AMI",
}
_TICK: Final = 10_000_000
_REFRESH: Final = 100
"""Hundredths of a second between two refreshes, which look into the tables of objects."""

_MOST_NODES: Final = 100
_WRAP: Final = 1 << 32


class ApplicationSettings(msgspec.Struct, frozen=True):
    """What the configuration says about a source as an application.

    Attributes:
        url: where the application describes itself, without user or password; empty for none.
        lists_all_connections: the source also lists the connections of the gateway itself.
    """

    url: str = ""
    lists_all_connections: bool = False


class _Origin(msgspec.Struct, frozen=True):
    """Where a package has what is said of a broker as a whole: elements of a class of brokers or nodes."""

    package: str
    class_name: str
    version: str
    started: str = ""
    connections: str = ""
    opened: str = ""


_ORIGINS: Final = (
    _Origin("rabbitmq", "node", "version", "startTime", "connection", "connectionsCreated"),
    _Origin("org.apache.qpid.broker", "broker", "version"),
)


class _Columns(msgspec.Struct, frozen=True):
    """The OIDs of the columns of an `_Origin`; empty for those that it lacks."""

    version: Oid
    started: Oid
    opened: Oid
    connections: int
    """agClassIndex of the class of connections; 0 for none."""


class ApplicationTable:
    """applTable, which `show` brings up to date.

    Args:
        store: the store with the tables of objects, in which this table is made.
        root: the configured root.
        registries: the shipped OID registries.
        settings: what the configuration says, by the name of the source.
        up_time: returns sysUpTime.
        clock: returns the time in nanoseconds since 1970-01-01 UTC.
    """

    def __init__(
        self,
        store: Store,
        root: Oid,
        registries: Iterable[OidRegistry],
        settings: Mapping[str, ApplicationSettings],
        up_time: Callable[[], int],
        clock: Callable[[], int],
    ) -> None:
        self._store = store
        self._class_entry = (*root, *CLASS_ENTRY)
        self._table = store.table(APPLICATION_ENTRY, tuple(ApplicationColumn), by_source=True)
        self._origins = tuple(_origins(registries, root))
        self._settings = settings
        self._up_time = up_time
        self._clock = clock
        self._statuses: dict[int, tuple[OperStatus, int]] = {}
        self._refreshed = -_REFRESH

    def show(self, records: Iterable[SourceRecord], *, connected: bool) -> None:
        """Show the present sources, at most once a second; without the core their states are not known."""
        up_time = self._up_time()
        if abs(up_time - self._refreshed) < _REFRESH:
            return
        self._refreshed = up_time
        shown = set()
        for record in records:
            shown.add(record.number)
            self._table.put((record.number,), self._cells(record, connected=connected))
        for (number,) in [index for index in self._table.indexes() if index[0] not in shown]:
            self._table.remove((number,))
            self._statuses.pop(number, None)

    def _cells(self, record: SourceRecord, *, connected: bool) -> dict[int, bytes | None]:
        settings = self._settings.get(record.name, ApplicationSettings())
        status, changed = self._status(record, connected=connected)
        cells: dict[int, bytes | None] = {
            ApplicationColumn.NAME: text(record.name),
            ApplicationColumn.DIRECTORY_NAME: text(""),
            ApplicationColumn.OPER_STATUS: None if status is None else ber.encode_integer(status),
            ApplicationColumn.LAST_CHANGE: None if status is None else ber.encode_time_ticks(changed),
            ApplicationColumn.DESCRIPTION: text(_DESCRIPTIONS.get(record.kind, record.kind)),
            ApplicationColumn.URL: text(settings.url),
            **dict.fromkeys(
                (
                    ApplicationColumn.VERSION,
                    ApplicationColumn.UPTIME,
                    ApplicationColumn.INBOUND_ASSOCIATIONS,
                    ApplicationColumn.ACCUMULATED_INBOUND_ASSOCIATIONS,
                )
            ),
        }
        for columns in self._origins:
            cells |= self._reported(columns, record.number)
            if settings.lists_all_connections and columns.connections and status is OperStatus.UP:
                cells |= self._associations(columns.connections, record)
        return cells

    def _status(self, record: SourceRecord, *, connected: bool) -> tuple[OperStatus | None, int]:
        """Return status and applLastChange: states of a source that are one status are no change."""
        status = _STATUSES.get(record.state) if connected else None
        former = self._statuses.get(record.number)
        if status is None:
            self._statuses.pop(record.number, None)
            return None, 0
        if former is None or former[0] is not status:
            former = (status, self._time_stamp(record.since))
            self._statuses[record.number] = former
        return former

    def _reported(self, columns: _Columns, source: int) -> dict[int, bytes | None]:
        """Return what the brokers or nodes of a source report of themselves."""
        versions = sorted(
            {_content(cell).decode("utf-8", "replace") for cell in self._of(columns.version, source)}
        )
        if not versions:
            return {}
        cells: dict[int, bytes | None] = {ApplicationColumn.VERSION: text(", ".join(versions))}
        started = [when for cell in self._of(columns.started, source) if (when := _nanoseconds(cell))]
        if started:
            # A cluster has been up for as long as the node of it that runs longest.
            cells[ApplicationColumn.UPTIME] = ber.encode_time_ticks(self._time_stamp(min(started)))
        opened = self._of(columns.opened, source)
        # The sum over several nodes would fall when one of them restarts.
        if len(opened) == 1:
            count = int.from_bytes(_content(opened[0]), "big") % _WRAP
            cells[ApplicationColumn.ACCUMULATED_INBOUND_ASSOCIATIONS] = ber.encode_counter32(count)
        return cells

    def _associations(self, class_index: int, record: SourceRecord) -> dict[int, bytes | None]:
        index = (record.number, class_index)
        rows, stale = (
            self._store.get((*self._class_entry, column, *index))
            for column in (ClassColumn.ROWS, ClassColumn.STALE_ROWS)
        )
        if record.state is not SourceState.SYNCHRONISED or stale != gauge32(0):
            return {}
        return {ApplicationColumn.INBOUND_ASSOCIATIONS: rows}

    def _of(self, column: Oid, source: int) -> list[bytes]:
        """Return the cells of a column of one source, of a bounded number of rows."""
        cells: list[bytes] = []
        here = prefix = (*column, source)
        while column and len(cells) < _MOST_NODES and (step := self._store.next(here)) is not None:
            here, cell = step
            if here[: len(prefix)] != prefix:
                break
            cells.append(cell)
        return cells

    def _time_stamp(self, when: int) -> int:
        """Return sysUpTime at a time; 0 for before the agent started (TimeStamp of RFC 2579)."""
        return max(self._up_time() - max(self._clock() - when, 0) // _TICK, 0)


def _origins(registries: Iterable[OidRegistry], root: Oid) -> Iterator[_Columns]:
    by_package = {registry.package: registry for registry in registries}
    for origin in _ORIGINS:
        registry = by_package.get(origin.package)
        if registry is None:
            continue
        classes = {entry.name: entry for entry in registry.classes}
        entry = classes[origin.class_name]
        columns = {element.name: element.column for element in entry.elements if element.current}
        row = registry.entry_oid(root, entry)
        connections = classes.get(origin.connections)
        yield _Columns(
            version=(*row, columns[origin.version]),
            started=(*row, columns[origin.started]) if origin.started else (),
            opened=(*row, columns[origin.opened]) if origin.opened else (),
            connections=0 if connections is None else registry.class_index(connections),
        )


def _content(cell: bytes) -> bytes:
    _, start, stop = ber.read_header(cell, 0, len(cell))
    return cell[start:stop]


def _nanoseconds(cell: bytes) -> int:
    """Return the time of a DateAndTime in UTC, as `gateway.snmp.cells` writes it; 0 for any other."""
    octets = _content(cell)
    try:
        year, month, day, hour, minute, second, _ = struct.unpack_from(">HBBBBBB", octets)
        moment = dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC)
    except (struct.error, ValueError):
        return 0
    return int(moment.timestamp()) * SECOND
