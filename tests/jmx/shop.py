"""A small package, a core that publishes it, and a projection whose commands a model carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.feed.access import PolicyRecord
from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.records import (
    AlarmRecord,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventRecord,
    FeedMessage,
    Lifetime,
    ObjectRecord,
    Record,
    UpdateRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.jmx.commands import JmxValue
from gateway.jmx.notifications import EventCursor, OperationCursor
from gateway.jmx.own_beans import GATEWAY_NAME, source_name
from gateway.jmx.projection import Projection, ProjectionSettings
from gateway.model.observations import EventState, Severity
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    EventSchema,
    Kind,
    Method,
    NamedValue,
)
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import EVERYTHING, Role, RoleSet, Rule
from tests.components import shop
from tests.components.policy import UNRESTRICTED
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
from tests.jmx.model_machine import ModelMachine

HALL = ClassSchema(
    ClassKey("shop", "hall", b"h"),
    properties=(Element("name", ValueType.STRING, access=Access.READ_CREATE, index=True),),
    statistics=(Element("visitors", ValueType.U64, kind=Kind.COUNTER),),
)
TILL = ClassSchema(
    ClassKey("shop", "till", b"t"),
    properties=(
        Element("hall", ValueType.REFERENCE, index=True, references="hall"),
        Element("name", ValueType.STRING, index=True, max_length=255),
        Element(
            "state", ValueType.STRING, values=(NamedValue("open", "open"), NamedValue("closed", "closed"))
        ),
        Element("next", ValueType.REFERENCE, optional=True, references="till"),
        Element("number", ValueType.U64, minimum=1, maximum=2**64 - 1),
        Element("tags", ValueType.MAP, optional=True),
    ),
    statistics=(
        Element("sales", ValueType.U64, unit="sales", kind=Kind.COUNTER, description="Sales made."),
        Element("waiting", ValueType.U32, unit="customers", label="Waiting"),
        Element("idle", ValueType.DURATION, optional=True),
    ),
)
NAME, STATE, NEXT, NUMBER, TAGS, SALES, WAITING, IDLE = range(1, 9)

SAFE = ClassSchema(
    ClassKey("shop", "safe", b"s"),
    properties=(
        Element("name", ValueType.STRING, access=Access.READ_CREATE, index=True),
        Element("limit", ValueType.U64, access=Access.READ_WRITE, optional=True, minimum=0),
        Element("till", ValueType.REFERENCE, access=Access.READ_WRITE, optional=True, references="till"),
        Element("labels", ValueType.MAP, access=Access.READ_WRITE, optional=True),
        Element("code", ValueType.STRING, access=Access.READ_WRITE, readable=False),
    ),
    statistics=(Element("notes", ValueType.U32),),
    methods=(
        Method("empty"),
        Method(
            "move",
            (
                Argument("to", ValueType.REFERENCE, references="till"),
                Argument("notes", ValueType.U32, default=10),
                Argument("moved", ValueType.U32, Direction.OUT),
                Argument("where", ValueType.REFERENCE, Direction.OUT),
            ),
        ),
    ),
)
LIMIT, NOTES = 1, 5

BURNING = EventSchema(
    ClassKey("shop", "tillBurns"),
    (
        Argument("till", ValueType.REFERENCE, references="till"),
        Argument("state", ValueType.STRING, description="Of the till before."),
        Argument("loss", ValueType.U64),
    ),
    description="A till burns.",
)

SAFE_CLASS = 30
SAFE_NAME = "amqp.gateway:source=shop1,package=shop,type=safe,name=safe1"

POLICY = PolicyPublisher(
    RoleSet(
        {
            "operating": Role(
                "operating",
                (Rule("", write=("*",), invoke=("empty", "move"), refresh=True),),
                includes=(EVERYTHING,),
            )
        },
        {"*": ("operating",)},
    ),
    Marks({}),
)
"""A policy by which every user sees, sets and calls everything."""

GATEWAY = GATEWAY_NAME
SOURCE = source_name("shop1")


@dataclass
class Gateway(Feeding):
    """A projection, and the MBeans that clients see."""

    cursor: EventCursor = field(default_factory=EventCursor)
    operations: OperationCursor = field(default_factory=OperationCursor)
    buckets: Mapping[str, int] = field(default_factory=dict)
    machine: ModelMachine = field(default_factory=ModelMachine)
    users: tuple[str, ...] = ("monitor",)
    policy: PolicyRecord = UNRESTRICTED

    def __post_init__(self) -> None:
        self.projection = Projection(
            ProjectionSettings(SERVE_STALE_FOR, "1.2.3", self.buckets, users=self.users),
            cursor=self.cursor,
            operations=self.operations,
            clock=lambda: self.now,
            log=self.log,
            column_oid=lambda class_name, element: f"1.3.{len(class_name)}.{len(element)}",
        )
        self.push()

    def begin_snapshot(self, *records: Record) -> None:
        super().begin_snapshot(self.policy, *records)

    def push(self) -> None:
        while self.projection.waiting:
            self.machine.carry_out(self.projection.take(7))

    def received(self, message: FeedMessage) -> None:
        self.projection.received(message)
        self.push()

    def disconnect(self) -> None:
        self.projection.disconnected("connection reset")
        self.push()

    def settle(self) -> None:
        busy = True
        while busy:
            busy = self.projection.tick()
            self.push()

    def till(self, row: int = 1) -> dict[str, JmxValue]:
        return self.machine.read(till_name(row))

    def names(self, type_: str = "till") -> list[str]:
        """The objects of a class, by the last part of their names."""
        return [name.rpartition("name=")[2] for name in self.machine.names if f",type={type_}," in name]


def till_name(row: int = 1, source: int = 1) -> str:
    return f"amqp.gateway:source=shop{source},package=shop,type=till,parent=hall1,name=till{row},id={row}"


def hall_name(row: int = 1) -> str:
    return f"amqp.gateway:source=shop1,package=shop,type=hall,name=hall{row}"


def classes() -> tuple[ClassRecord, ClassRecord, EventClassRecord]:
    return (
        ClassRecord(HALL_CLASS, HALL, "name", ""),
        ClassRecord(TILL_CLASS, TILL, "name", "hall"),
        EventClassRecord(5, BURNING),
    )


def link(row: int = 1, class_name: str = "shop:hall") -> ObjectLink:
    return hall_link(row) if class_name == "shop:hall" else ObjectLink(class_name, row, f"hall1|till{row}#1")


def hall(row: int = 1, number: int = 1) -> ObjectRecord:
    return shop.hall(row, number, {1: 5})


def till(
    row: int = 1,
    values: Mapping[int, FeedValue] | None = None,
    number: int = 1,
    agent_name: str = "1.0",
    class_number: int = TILL_CLASS,
) -> ObjectRecord:
    if values is None:
        values = {0: link(), NAME: f"till{row}", STATE: "open", NUMBER: 2**64 - 1}
        values |= {SALES: 10 * row, WAITING: row}
    return till_record(row, f"hall1|till{row}#1", values, number, agent_name, class_number)


def safe(values: Mapping[int, FeedValue] | None = None) -> tuple[ClassRecord, ObjectRecord]:
    """A class whose objects can be operated, and one object of it."""
    known: dict[int, FeedValue] = {0: "safe1", LIMIT: 5, NOTES: 3, **(values or {})}
    record = till_record(1, "safe1", known, class_number=SAFE_CLASS)
    record = msgspec.structs.replace(record, leaf_name="safe1", parent=None, lifetime=Lifetime.DURABLE)
    return ClassRecord(SAFE_CLASS, SAFE, "name", ""), record


def safe_update(values: Mapping[int, FeedValue]) -> UpdateRecord:
    """Return an update of the safe with these values."""
    return msgspec.structs.replace(shop.update(1, values), class_number=SAFE_CLASS)


def operation(number: int = 1, **changes: Any) -> OperationRecord:  # noqa: ANN401  fields of the record
    """A set of the safe's limit that was applied."""
    record = OperationRecord(
        number,
        f"7b0c.1.o{number}",
        OperationKind.SET,
        OperationState.ENDED,
        Principal("jmx", "monitor", "127.0.0.1"),
        1,
        "shop:safe",
        1,
        "safe1",
        "safe1",
        values={"limit": 7},
        previous={"limit": 5},
        found={"limit": 7},
        outcome=Outcome.APPLIED,
        code=0,
        began=START,
        ended=START + SECOND,
    )
    return msgspec.structs.replace(record, **changes)


def delete(row: int, number: int | None = None, class_number: int = 20) -> DeleteRecord:
    return DeleteRecord(
        1,
        class_number,
        row,
        f"hall1|till{row}#1",
        START + SECOND,
        inferred=False,
        number=next_end() if number is None else number,
        leaf_name=f"till{row}",
        created=START,
        received=START + 2 * SECOND,
    )


def event(number: int, subject: ObjectLink | None = None, epoch: int = 1) -> EventRecord:
    values: dict[int, FeedValue] = {1: "open", 2: 2**64 - 1}
    if subject is not None:
        values[0] = subject
    return EventRecord(
        f"7b0c.{epoch}.{number}",
        1,
        5,
        "1.0",
        START,
        Severity.MAJOR,
        values,
        number,
        START + SECOND,
        subject,
        "a till burns",
        EventState.RAISED,
        "burning till1",
    )


def alarm(number: int, condition: str = "burning till1", cleared: int = 0) -> AlarmRecord:
    return AlarmRecord(
        number, 1, "burning", condition, Severity.MAJOR, None, "it burns", "7b0c.1.1", START, cleared
    )
