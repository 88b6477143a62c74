"""What a core publishes to front ends that are asked about roles: two sources with the same objects.

Names of objects are those that patterns could be mistaken about: with wildcards, another case, a line end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.records import (
    AgentRecord,
    AlarmRecord,
    ClassRecord,
    DeleteRecord,
    EventClassRecord,
    EventRecord,
    Lifetime,
    ObjectRecord,
    Record,
    SourceRecord,
)
from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.observations import Severity, SourceState
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema
from gateway.model.times import SECOND
from gateway.model.values import ValueType

GATEWAY_ID: Final = "7b0c"
START: Final = 1_700_000_000 * SECOND
SOURCES: Final = {1: "shop", 2: "depot"}
OTHER: Final = Principal("jmx", "other")
"""The principal of the operations."""

_STRING, _NUMBER, _REFERENCE = ValueType.STRING, ValueType.U32, ValueType.REFERENCE


def _class(number: int, package: str, name: str, *elements: Element) -> ClassRecord:
    index = [element.name for element in elements if element.index]
    numbers = tuple(element for element in elements if element.type is _NUMBER)
    others = tuple(element for element in elements if element.type is not _NUMBER)
    return ClassRecord(number, ClassSchema(ClassKey(package, name), others, numbers), index[-1], "")


CLASSES: Final = (
    _class(
        1,
        "rabbitmq",
        "vhost",
        Element("name", _STRING, index=True),
        Element("description", _STRING),
        Element("messages", _NUMBER),
    ),
    _class(
        2,
        "rabbitmq",
        "queue",
        Element("vhost", _REFERENCE, index=True),
        Element("name", _STRING, index=True),
        Element("exclusiveOwner", _REFERENCE),
        Element("messages", _NUMBER),
        Element("consumers", _NUMBER),
    ),
    _class(
        3,
        "rabbitmq",
        "connection",
        Element("name", _STRING, index=True),
        Element("peerHost", _STRING),
        Element("vhost", _REFERENCE),
        Element("channels", _NUMBER),
    ),
    _class(
        4,
        "rabbitmq",
        "user",
        Element("name", _STRING, index=True),
        Element("tags", _STRING),
        Element("maxConnections", _NUMBER),
    ),
    _class(
        5,
        "com.example",
        "thing",
        Element("id", _STRING, index=True),
        Element("target", _REFERENCE),
        Element("level", _NUMBER),
    ),
)
EVENTS: Final = (
    EventClassRecord(
        11,
        EventSchema(
            ClassKey("rabbitmq", "queueDeleted"),
            (Argument("queue", _REFERENCE), Argument("name", _STRING), Argument("by", _STRING)),
            label="Queue deleted",
        ),
    ),
    EventClassRecord(
        12,
        EventSchema(
            ClassKey("rabbitmq", "connectionClosed"), (Argument("name", _STRING),), label="Connection closed"
        ),
    ),
    EventClassRecord(
        13,
        EventSchema(
            ClassKey("rabbitmq", "userCreated"),
            (Argument("user", _STRING), Argument("by", _STRING)),
            label="User created",
        ),
    ),
    EventClassRecord(
        14,
        EventSchema(ClassKey("com.example", "moved"), (Argument("target", _REFERENCE),), label="Moved"),
    ),
)
VHOSTS: Final = ("/", "sales", "Sales")
QUEUES: Final = ("orders", "orders.eu", "Orders", "*", "[o]rders", "or\nders", "größe")
CONNECTIONS: Final = ("10.1.2.3:4 -> 10.9.9.9:5672", "client")
USERS: Final = ("anna", "guest")
THINGS: Final = ("one", "*:*")


@dataclass(frozen=True, slots=True)
class Thing:
    """An object: its number of the source and class, row, names of its index elements, and other values."""

    source: int
    in_class: ClassRecord
    row: int
    parts: tuple[str, ...]
    values: dict[str, int | str | Thing] = field(hash=False)

    @property
    def class_name(self) -> str:
        return str(self.in_class.schema.key)

    @property
    def stable_name(self) -> str:
        return "|".join(self.parts)

    @property
    def native_id(self) -> str:
        return f"native {self.row}"

    @property
    def place(self) -> tuple[str, str, str]:
        """Source, class and name, as questions have them."""
        return SOURCES[self.source], self.class_name, self.stable_name

    @property
    def path(self) -> str:
        return "/".join(self.place)

    @property
    def named(self) -> list[str]:
        """The elements that the name is made of."""
        return [element.name for element in self.in_class.schema.elements if element.index]

    @property
    def link(self) -> ObjectLink:
        return ObjectLink(self.class_name, self.row, self.stable_name)

    @property
    def parent(self) -> Thing | None:
        owner = self.values.get("vhost")
        return owner if isinstance(owner, Thing) and self.class_name == "rabbitmq:queue" else None

    def record(self) -> ObjectRecord:
        positions = self.in_class.schema.positions
        values: dict[int, FeedValue] = {
            positions[name]: value.link if isinstance(value, Thing) else value
            for name, value in self.values.items()
        }
        parent = self.parent
        return ObjectRecord(
            self.source,
            self.in_class.number,
            self.row,
            self.stable_name,
            self.parts[-1],
            None if parent is None else parent.link,
            self.native_id,
            "",
            Lifetime.DURABLE,
            START,
            START,
            START,
            START,
            START,
            values,
        )

    def end(self, number: int) -> DeleteRecord:
        return DeleteRecord(
            self.source,
            self.in_class.number,
            self.row,
            self.stable_name,
            START,
            inferred=False,
            number=number,
            leaf_name=self.parts[-1],
            native_id=self.native_id,
        )


def things(stamp: int) -> list[Thing]:
    """Return the objects of both sources; every number in them is ``stamp``, each name is new to no one."""
    return [thing for source in SOURCES for thing in _things(source, stamp)]


def _things(source: int, stamp: int) -> Iterator[Thing]:
    vhost_class, queue_class, connection_class, user_class, thing_class = CLASSES
    first = stamp * 100
    vhosts = [
        Thing(
            source, vhost_class, first + row, (name,), {"name": name, "description": "d", "messages": stamp}
        )
        for row, name in enumerate(VHOSTS)
    ]
    connections = [
        Thing(
            source,
            connection_class,
            first + row,
            (name,),
            {"name": name, "peerHost": "10.1.2.3", "vhost": vhosts[row], "channels": stamp},
        )
        for row, name in enumerate(CONNECTIONS)
    ]
    queues = []
    for row, name in enumerate(QUEUES):
        vhost = vhosts[row % len(vhosts)]
        values: dict[str, int | str | Thing] = {"vhost": vhost, "name": name}
        values |= {"exclusiveOwner": connections[row % 2], "messages": stamp, "consumers": stamp}
        queues.append(Thing(source, queue_class, first + row, (vhost.parts[0], name), values))
    yield from (*vhosts, *connections, *queues)
    for row, name in enumerate(USERS):
        yield Thing(
            source,
            user_class,
            first + row,
            (name,),
            {"name": name, "tags": "administrator", "maxConnections": stamp},
        )
    for row, name in enumerate(THINGS):
        yield Thing(
            source, thing_class, first + row, (name,), {"id": name, "target": queues[row], "level": stamp}
        )


@dataclass(frozen=True, slots=True)
class Happening:
    """An event: its class, source, the object concerned, and its arguments."""

    event_id: str
    in_class: EventClassRecord
    source: int
    subject: Thing | None
    values: dict[str, str | Thing] = field(hash=False)

    @property
    def text(self) -> str:
        return f"what happened, with all values: {self.event_id}"

    def record(self, number: int) -> EventRecord:
        arguments = self.in_class.schema.arguments
        given = [self.values[argument.name] for argument in arguments]
        return EventRecord(
            event_id=self.event_id,
            source=self.source,
            class_number=self.in_class.number,
            agent="",
            time=START,
            severity=Severity.INFO,
            values={p: one.link if isinstance(one, Thing) else one for p, one in enumerate(given)},
            number=number,
            received=START,
            subject=None if self.subject is None else self.subject.link,
            text=self.text,
        )


def happenings(all_things: list[Thing], stamp: int) -> list[Happening]:
    """Return events of the objects, and some of none."""
    deleted, closed, created, moved = EVENTS
    found: list[tuple[EventClassRecord, int, Thing | None, dict[str, str | Thing]]] = []
    for thing in all_things:
        match thing.class_name:
            case "rabbitmq:queue":
                found.append(
                    (deleted, thing.source, thing, {"queue": thing, "name": thing.parts[-1], "by": "anna"})
                )
            case "rabbitmq:connection":
                found.append((closed, thing.source, thing, {"name": thing.stable_name}))
            case "com.example:thing":
                target = thing.values["target"]
                assert isinstance(target, Thing)
                found.append((moved, thing.source, thing, {"target": target}))
    found += [(created, source, None, {"user": "bert", "by": "anna"}) for source in SOURCES]
    return [
        Happening(f"{GATEWAY_ID}.1.{stamp * 1000 + number}", *what) for number, what in enumerate(found, 1)
    ]


def alarm_condition(thing: Thing) -> str:
    return f"full {thing.path}"


def alarm_text(thing: Thing) -> str:
    return f"alarm: messages are {thing.values['messages']}"


def alarms(all_things: list[Thing], stamp: int, *, cleared: int = 0) -> list[AlarmRecord]:
    """Return an alarm of each queue."""
    return [
        AlarmRecord(
            stamp * 100 + number,
            thing.source,
            "full",
            alarm_condition(thing),
            Severity.MAJOR,
            thing.link,
            alarm_text(thing),
            "",
            START,
            cleared,
        )
        for number, thing in enumerate(all_things)
        if thing.class_name == "rabbitmq:queue"
    ]


def operation_id(thing: Thing) -> str:
    return f"{GATEWAY_ID}.1.o{thing.source}-{thing.in_class.number}-{thing.row}"


def operation_text(thing: Thing) -> str:
    return f"{number_of(thing)} was 0"


def operations(all_things: list[Thing], stamp: int) -> list[OperationRecord]:
    """Return an operation of another principal on each object, which set one number."""
    found = []
    for number, thing in enumerate(all_things):
        element = number_of(thing)
        found.append(
            OperationRecord(
                number=stamp * 100 + number,
                operation_id=operation_id(thing),
                kind=OperationKind.SET,
                state=OperationState.ENDED,
                principal=OTHER,
                source=thing.source,
                class_name=thing.class_name,
                row=thing.row,
                stable_name=thing.stable_name,
                leaf_name=thing.parts[-1],
                values={element: stamp},
                previous={element: 0},
                outcome=Outcome.APPLIED,
                text=operation_text(thing),
            )
        )
    return found


def number_of(thing: Thing) -> str:
    """Return the first element whose value is a number."""
    return next(name for name, value in thing.values.items() if isinstance(value, int))


def marker(principal: Principal, number: int) -> OperationRecord:
    """Return an operation of ``principal`` on nothing known, which it always sees: all before it has come."""
    return OperationRecord(
        number, f"marker {number}", OperationKind.READ, OperationState.BEGUN, principal, 0, "", 0, "", ""
    )


def surroundings() -> list[Record]:
    """Return what every snapshot begins with."""
    found: list[Record] = [*CLASSES, *EVENTS]
    for number, name in SOURCES.items():
        counters = {"messages": 1, "objects_created": 99}
        found.append(
            SourceRecord(number, name, "rabbitmq", SourceState.SYNCHRONISED, "", START, START, counters)
        )
        found.append(AgentRecord(number, "", fresh=True, since=START, confirmed=START))
    return found
