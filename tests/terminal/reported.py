"""A core that publishes a shop with two halls and their tills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from gateway.feed.cleared import ClearedFeed
from gateway.feed.messages import VERSION
from gateway.feed.records import (
    Batch,
    ClassRecord,
    EventClassRecord,
    EventRecord,
    Hello,
    ObjectRecord,
    Record,
    SnapshotBegan,
    SnapshotEnded,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import Severity
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    EventSchema,
    Method,
    NamedValue,
)
from gateway.model.values import ValueType
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import Role, RoleSet, Rule
from gateway.terminal.view import FeedChange, TerminalView
from tests.components.shop import (
    GATEWAY_ID,
    HALL_CLASS,
    START,
    TILL_CLASS,
    agent,
    hall,
    hall_link,
    source,
    till_record,
)

HALL = ClassRecord(
    HALL_CLASS,
    ClassSchema(ClassKey("shop", "hall"), (Element("name", ValueType.STRING, index=True),)),
    "name",
    "",
)
MOODS = (NamedValue("calm", 0), NamedValue("busy", 1))
TILL = ClassRecord(
    TILL_CLASS,
    ClassSchema(
        ClassKey("shop", "till"),
        (
            Element("hall", ValueType.REFERENCE, index=True, references="hall"),
            Element("limit", ValueType.U32, access=Access.READ_WRITE, unit="coins"),
            Element("mood", ValueType.U8, values=MOODS),
        ),
        (Element("sales", ValueType.U64), Element("opened", ValueType.TIME)),
        (
            Method(
                "empty",
                (
                    Argument("keep", ValueType.U32),
                    Argument("taken", ValueType.U32, direction=Direction.OUT),
                ),
            ),
        ),
        description="Where one pays.",
    ),
    "",
    "hall",
)
RANG = EventClassRecord(
    30, EventSchema(ClassKey("shop", "rang"), (Argument("till", ValueType.REFERENCE, references="till"),))
)


def till(row: int, values: Mapping[int, FeedValue] | None = None, name: str = "") -> ObjectRecord:
    """A till of the first hall."""
    reported: Mapping[int, FeedValue] = {0: hall_link(), 1: 10, 2: 1, 3: 7}
    return till_record(row, name or f"hall1|till{row}", reported if values is None else values)


def rang(number: int, row: int = 1, text: str = "it rang") -> EventRecord:
    """An event of a till."""
    return EventRecord(
        event_id=f"{GATEWAY_ID}.1.{number}",
        source=1,
        class_number=RANG.number,
        agent="1.0",
        time=START,
        severity=Severity.INFO,
        values={0: till_link(row)},
        number=number,
        received=START,
        subject=till_link(row),
        text=text,
    )


def till_link(row: int) -> ObjectLink:
    """Return a reference to a till."""
    return msgspec.structs.replace(
        hall_link(), class_name="shop:till", row=row, stable_name=f"hall1|till{row}"
    )


KNOWN: tuple[Record, ...] = (source(), agent(fresh=True), HALL, TILL, RANG, hall())
"""The records that every snapshot begins with."""


def publish(view: TerminalView, *records: Record, epoch: int = 1) -> list[FeedChange]:
    """Send records in one batch; return the changes."""
    return view.received(Batch(epoch, 1, records))


def snapshot(view: TerminalView, *records: Record, epoch: int = 1) -> list[FeedChange]:
    """Send a whole snapshot; return all its changes."""
    happened = view.received(Hello(VERSION, epoch, GATEWAY_ID, START))
    happened += view.received(SnapshotBegan(epoch, 1))
    happened += publish(view, *records, epoch=epoch)
    return happened + view.received(SnapshotEnded(epoch, 1))


ANNA = "cli:anna"


def published(rules: Iterable[Rule], *records: Record) -> list[Record]:
    """Return the records of a snapshot, with the tables of a policy whose rules Anna has."""
    roles = RoleSet({"watching": Role("watching", tuple(rules))}, {ANNA: ("watching",)})
    return PolicyPublisher(roles, Marks({})).snapshot([*KNOWN, *records])


def shop_of_anna(*rules: Rule, records: Iterable[Record]) -> TerminalView:
    """Return a view of what Anna reads of the shop with its first hall, and these records."""
    view = TerminalView(lambda: START, ClearedFeed(ANNA))
    snapshot(view, *published(rules, *records))
    return view


def known_shop(*records: Record) -> TerminalView:
    """Return a view of the shop with its first hall, and these records."""
    view = TerminalView(lambda: START)
    snapshot(view, *KNOWN, *records)
    return view
