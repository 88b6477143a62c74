"""A small package, its registry, and a core with its records, for the playbooks of the projection."""

from __future__ import annotations

import datetime as dt
import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from gateway.feed.latest import HistoryLimits
from gateway.feed.records import (
    AlarmRecord,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventRecord,
    FeedMessage,
    Lifetime,
    ObjectRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import Severity
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema, Kind, NamedValue
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.notifications.notification import Notification
from gateway.snmp.oid_registry import OidRegistry
from gateway.snmp.projection import Projection, ProjectionSettings
from gateway.snmp.registry_growth import extend, extend_events, new_registry
from gateway.snmp.registry_lookup import SeenSchemas
from gateway.snmp.store import Store
from tests.components.shop import (
    HALL_CLASS,
    SERVE_STALE_FOR,
    START,
    TILL_CLASS,
    Feeding,
    hall_link,
    next_end,
    till_record,
)

ROOT: Oid = (1, 3, 6, 1, 4, 1, 99999)
DAY = dt.date(2026, 5, 1)

HALL = ClassSchema(
    ClassKey("shop", "hall", b"h"),
    properties=(Element("name", ValueType.STRING, index=True, max_length=255),),
)
TILL = ClassSchema(
    ClassKey("shop", "till", b"t"),
    properties=(
        Element("hall", ValueType.REFERENCE, index=True, references="hall"),
        Element("name", ValueType.STRING, index=True, max_length=255),
        Element(
            "state", ValueType.STRING, values=(NamedValue("open", "open"), NamedValue("closed", "closed"))
        ),
        Element("note", ValueType.STRING, optional=True),
    ),
    statistics=(
        Element("sales", ValueType.U64, unit="sales", kind=Kind.COUNTER),
        Element("waiting", ValueType.U32, unit="customers"),
    ),
)
TILL_CLOSED = EventSchema(
    ClassKey("shop", "tillClosed"),
    (
        Argument("till", ValueType.REFERENCE, references="till", optional=True),
        Argument("clerk", ValueType.STRING, optional=True),
        Argument("sales", ValueType.U64, unit="sales"),
        Argument("waiting", ValueType.U16, optional=True),
    ),
)
REGISTRY: OidRegistry = extend_events(
    extend(new_registry("shop", 7, "SHOP-MIB", "shp", DAY), [HALL, TILL], DAY), [TILL_CLOSED], DAY
)
"""hall 1: name 100. till 2: hall 100, hallName 101, name 102, state 103, note 104, noteLength 105,
sales 106, waiting 107. tillClosed 1: till 1 and its name 2, clerk 3, sales 4, waiting 5."""

PROVISIONAL: OidRegistry = new_registry("", 0, "AMQP-GATEWAY-SITE-MIB", "site", DAY)

HALL_ENTRY: Oid = (*ROOT, 2, 7, 1, 1, 1)
TILL_ENTRY: Oid = (*ROOT, 2, 7, 1, 2, 1)
SITE_ENTRY: Oid = (*ROOT, 3, 1, 1, 1)
TILL_CLOSED_OID: Oid = (*ROOT, 2, 7, 0, 1)
ARGUMENTS: Oid = (*ROOT, 2, 7, 1, 1000)


@dataclass
class Gateway(Feeding):
    """A projection and its store."""

    store: Store = field(default_factory=Store)
    provisional: OidRegistry = PROVISIONAL
    saved: list[OidRegistry] = field(default_factory=list)
    disk_full: bool = False
    notified: list[Notification] = field(default_factory=list)
    again: list[Callable[[str], Notification | None] | None] = field(default_factory=list)
    made: list[tuple[int, int]] = field(default_factory=list)
    with_receivers: bool = True
    root: Oid = ROOT
    history: HistoryLimits = field(default_factory=HistoryLimits)
    receivers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.projection = Projection(
            self.store,
            ProjectionSettings(
                self.root, (REGISTRY,), SERVE_STALE_FOR, "1.2.3", self.history, self.receivers
            ),
            provisional=self.provisional,
            save=self.save,
            clock=lambda: self.now,
            log=self.log,
        )
        if self.with_receivers:
            self.projection.notify_of_events(self)

    def notify(self, notification: Notification) -> None:
        # What is decided again later is no value.
        self.notified.append(msgspec.structs.replace(notification, again=None))
        self.again.append(notification.again)

    def events_made(self, epoch: int, number: int, *, more: bool = False) -> None:  # noqa: ARG002  as the protocol has it
        self.made.append((epoch, number))

    def policy_changing(self) -> None:
        pass

    def policy_changed(self) -> None:
        pass

    def save(self, registry: OidRegistry, _schemas: SeenSchemas) -> None:
        if self.disk_full:
            raise OSError(errno.ENOSPC, "no space left")
        self.saved.append(registry)

    def received(self, message: FeedMessage) -> None:
        self.projection.received(message)

    def disconnect(self) -> None:
        self.projection.disconnected("connection reset")

    def settle(self) -> None:
        while self.projection.tick():
            pass

    def cell(self, entry: Oid, column: int, *index: int) -> bytes | None:
        tlv = self.store.get((*entry, column, *index))
        return None if tlv in (ber.NO_SUCH_INSTANCE, ber.NO_SUCH_OBJECT) else tlv

    def till(self, column: int, row: int = 1, source: int = 1) -> bytes | None:
        return self.cell(TILL_ENTRY, column, source, row)

    def walk(self, under: Oid) -> dict[Oid, bytes]:
        """Return every instance below ``under``, by the rest of its name."""
        found: dict[Oid, bytes] = {}
        here = under
        while (step := self.store.next(here)) is not None and step[0][: len(under)] == under:
            here = step[0]
            found[here[len(under) :]] = step[1]
        return found


def classes() -> tuple[ClassRecord, ClassRecord]:
    return ClassRecord(HALL_CLASS, HALL, "name", ""), ClassRecord(TILL_CLASS, TILL, "name", "hall")


def till(
    row: int = 1,
    values: Mapping[int, FeedValue] | None = None,
    number: int = 1,
    agent_name: str = "1.0",
    class_number: int = TILL_CLASS,
) -> ObjectRecord:
    if values is None:
        values = {0: hall_link(), 1: f"till{row}", 2: "open", 3: "by the door", 4: 10 * row, 5: row}
    return till_record(row, f"hall1/till{row}", values, number, agent_name, class_number)


def delete(row: int, class_number: int = TILL_CLASS) -> DeleteRecord:
    return DeleteRecord(1, class_number, row, f"hall1/till{row}", START, inferred=False, number=next_end())


def end(number: int, row: int = 1, *, deleted: int = START + SECOND, created: int = START) -> DeleteRecord:
    """Return the record of the end of a till, with its number and all fields."""
    return DeleteRecord(
        1,
        20,
        row,
        f"hall1/till{row}",
        deleted,
        inferred=not deleted,
        number=number,
        leaf_name=f"till{row}",
        native_id=f"0-1-1-0-{row}",
        agent="1.0",
        lifetime=Lifetime.TRANSIENT,
        created=created,
        received=START + 2 * SECOND,
    )


def link(row: int = 1) -> ObjectLink:
    return ObjectLink("shop:till", row, f"hall1/till{row}")


def alarm(
    number: int,
    condition: str = "robbery till1",
    *,
    severity: Severity = Severity.CRITICAL,
    subject: ObjectLink | None = None,
    cleared: int = 0,
    name: str = "robbery",
    number_of_source: int = 1,
) -> AlarmRecord:
    return AlarmRecord(
        number,
        number_of_source,
        name,
        condition,
        severity,
        subject,
        f"{condition}!",
        f"7b0c.1.{number}",
        START,
        cleared,
    )


def event_class(schema: EventSchema = TILL_CLOSED, number: int = 50) -> EventClassRecord:
    return EventClassRecord(number, schema)


def event(
    number: int = 1, values: Mapping[int, FeedValue] | None = None, class_number: int = 50
) -> EventRecord:
    return EventRecord(
        f"7b0c.1.{number}",
        1,
        class_number,
        "1.0",
        START,
        Severity.WARNING,
        {0: link(), 1: "Ann", 2: 2**63, 3: 4} if values is None else values,
        number=number,
        received=START,
        subject=link(),
        text="till1 was closed",
    )
