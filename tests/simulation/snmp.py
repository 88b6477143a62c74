"""The SNMP process: the real projection and store, fed by the core, until it is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from gateway.feed.records import FeedMessage
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.lock import Lock
from gateway.snmp.projection import Projection, ProjectionSettings
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.schema_locks import SeenSchemas
from gateway.snmp.store import Store
from gateway.snmp.syntax import Syntax
from tests.simulation.core import Core, Feed
from tests.simulation.scheduler import MILLISECOND, SECOND, Clock, Scheduler, Timer
from tests.simulation.truth import Plain

ROOT: Oid = (1, 3, 6, 1, 4, 1, 99999)
SERVE_STALE_FOR = 60 * SECOND
RETRY = 250 * MILLISECOND
BUSY_TICK = 2 * MILLISECOND


class SnmpProcess:
    """One run of the SNMP process.

    Args:
        scheduler: time and chance.
        clock: the gateway's.
        core: the core that runs now, or ``None``.
        locks: the shipped locks.
        provisional: the site's own, as it was kept.
        save: keeps it.
        projection: what it is made of.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        core: Callable[[], Core | None],
        locks: tuple[Lock, ...],
        provisional: Lock,
        save: Callable[[Lock, SeenSchemas], None],
        projection: type[Projection] = Projection,
    ) -> None:
        self.store = Store()
        self._scheduler = scheduler
        self._core = core
        self.projection = projection(
            self.store,
            ProjectionSettings(ROOT, locks, SERVE_STALE_FOR, "1.2.3"),
            provisional=provisional,
            save=save,
            clock=clock.now,
            log=lambda event, detail: scheduler.tell("snmp", f"{event}: {detail}"),
        )
        self.feed: Feed | None = None
        self._timers: list[Timer] = []
        self._connect()
        self._tick()

    def received(self, message: FeedMessage) -> None:
        """A message of the feed."""
        self._scheduler.tell("snmp", f"<- {type(message).__name__} {len(getattr(message, 'records', ()))}")
        self.projection.received(message)

    def ended(self) -> None:
        """The core is gone."""
        self.feed = None
        self._scheduler.tell("snmp", "feed down")
        self.projection.disconnected("the core closed the feed")
        self._later(RETRY, self._connect)

    def kill(self) -> None:
        """Everything that it showed is gone."""
        if self.feed is not None:
            self.feed.hang_up()
            core = self._core()
            if core is not None and self.feed in core.feeds:
                core.feeds.remove(self.feed)
        for timer in self._timers:
            timer.cancel()

    def _connect(self) -> None:
        core = self._core()
        if core is None:
            self.projection.disconnected("no core")
            self._later(RETRY, self._connect)
        else:
            self.feed = core.subscribe(self)

    def _tick(self) -> None:
        busy = self.projection.tick()
        self._later(BUSY_TICK if busy else SECOND, self._tick)

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._timers = [timer for timer in self._timers if timer.time >= self._scheduler.now]
        self._timers.append(self._scheduler.after(delay, action))


@dataclass(frozen=True, slots=True)
class ShownRow:
    """One row as a management station reads it; ``values`` by element, holes left out."""

    class_name: str
    source: int
    row: int
    fixed: Mapping[RowColumn, Plain]
    values: Mapping[str, Plain]
    pointers: Mapping[str, Oid] = field(default_factory=dict)


class TableReader:
    """Reads tables of classes out of a store by walking columns.

    Args:
        locks: which columns the elements of each class have.
    """

    def __init__(self, locks: tuple[Lock, ...], elements: Mapping[str, frozenset[str]]) -> None:
        self._classes: dict[str, tuple[Oid, dict[str, int], dict[str, int], dict[str, dict[int, str]]]] = {}
        for lock in locks:
            for class_lock in lock.classes:
                name = f"{lock.package}:{class_lock.name}"
                if name not in elements:
                    continue
                columns: dict[str, int] = {}
                pointers: dict[str, int] = {}
                labels: dict[str, dict[int, str]] = {}
                for element in class_lock.elements:
                    if element.name not in elements[name] or not element.current:
                        continue
                    is_pointer = element.syntax is Syntax.ROW_POINTER and element.twin is not None
                    if is_pointer and element.twin is not None:
                        pointers[element.name] = element.column
                        columns[element.name] = element.twin.column
                    else:
                        columns[element.name] = element.column
                    labels[element.name] = {number: label for label, number in element.numbers.items()}
                entry = lock.entry_oid(ROOT, class_lock)
                self._classes[name] = (entry, columns, pointers, labels)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that it reads."""
        return tuple(self._classes)

    def entry(self, class_name: str) -> Oid:
        """The conceptual row of a class."""
        return self._classes[class_name][0]

    def column(self, class_name: str, element: str) -> int:
        """The column that holds the values of an element."""
        return self._classes[class_name][1][element]

    def is_pointer(self, class_name: str, element: str) -> bool:
        """Whether an element is a reference."""
        return element in self._classes[class_name][2]

    def rows(self, store: Store, class_name: str) -> list[ShownRow]:
        """All rows of a class, in order."""
        entry, columns, pointers, labels = self._classes[class_name]
        fixed = {
            column: dict(walk(store, (*entry, column)))
            for column in RowColumn
            if column is not RowColumn.INDEX
        }
        cells = {element: dict(walk(store, (*entry, column))) for element, column in columns.items()}
        targets = {element: dict(walk(store, (*entry, column))) for element, column in pointers.items()}
        indexes = sorted({index for column in (*fixed.values(), *cells.values()) for index in column})
        rows: list[ShownRow] = []
        for index in indexes:
            source, row = index
            values: dict[str, Plain] = {}
            for element, column_cells in cells.items():
                tlv = column_cells.get(index)
                if tlv is None:
                    continue
                value = decoded(tlv)
                if labels[element] and isinstance(value, int):
                    value = labels[element].get(value, "unknown").encode()
                values[element] = value
            rows.append(
                ShownRow(
                    class_name,
                    source,
                    row,
                    {column: decoded(of[index]) for column, of in fixed.items() if index in of},
                    values,
                    {
                        element: ber.decode_name(of[index][2:])
                        for element, of in targets.items()
                        if index in of
                    },
                )
            )
        return rows


def walk(store: Store, under: Oid, at_once: int = 64) -> Iterator[tuple[Oid, bytes]]:
    """Every instance below ``under``: the rest of its name, and its value TLV; as GETBULK reads them."""
    prefix = ber.encode_name(under)
    here = prefix
    while True:
        varbinds, here = store.walk(here, at_once)
        for varbind in varbinds:
            _, start, stop = ber.read_header(varbind, 0, len(varbind))
            _, name_start, name_stop = ber.read_header(varbind, start, stop)
            name = varbind[name_start:name_stop]
            if not name.startswith(prefix):
                return
            yield ber.decode_sub_identifiers(name[len(prefix) :]), varbind[name_stop:]
        if len(varbinds) < at_once:
            return


def decoded(tlv: bytes) -> Plain:
    """The value in a TLV: octets or an integer."""
    tag, start, stop = ber.read_header(tlv, 0, len(tlv))
    if tag == ber.INTEGER:
        return int.from_bytes(tlv[start:stop], "big", signed=True)
    if tag in (ber.OCTET_STRING, ber.OBJECT_IDENTIFIER):
        return tlv[start:stop]
    return int.from_bytes(tlv[start:stop], "big")
