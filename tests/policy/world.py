"""What a core publishes to front ends that are asked about roles: two sources with the same objects.

Names of objects are those that patterns could be mistaken about: with wildcards, another case, a line end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gateway.feed.access import Quoted
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
from gateway.inventory.own_events import ALARM_CLEARED, ALARM_RAISED
from gateway.model.observations import EventState, Severity, SourceState
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
    parent = "vhost" if "vhost" in index else ""
    return ClassRecord(number, ClassSchema(ClassKey(package, name), others, numbers), index[-1], parent)


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
    EventClassRecord(15, ALARM_RAISED),
    EventClassRecord(16, ALARM_CLEARED),
)
ALARM: Final = "full"
"""The alarm of each queue, which two events of the gateway begin and end."""

STUCK: Final = "stuck"
"""The alarm that the events ``moved`` end, which an agent sends."""
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
    """An event: its class, source, the object concerned, its arguments, and the alarm that it begins or ends.

    ``quotes`` are the elements of the object that the text quotes; ``None`` for any.
    """

    event_id: str
    in_class: EventClassRecord
    source: int
    subject: Thing | None
    values: dict[str, str | Thing] = field(hash=False)
    alarm: str = ""
    quotes: tuple[str, ...] | None = ()
    state: EventState = EventState.ONE_SHOT

    @property
    def text(self) -> str:
        return f"what happened, with all values: {self.event_id}"

    @property
    def condition(self) -> str:
        if not self.alarm:
            return ""
        assert self.subject is not None
        return condition_of(self.alarm, self.subject)

    def record(self, number: int) -> EventRecord:
        arguments = self.in_class.schema.arguments
        given = [self.values[argument.name] for argument in arguments]
        is_of_values = self.in_class.schema.key.package == "gateway" and self.subject is not None
        return EventRecord(
            event_id=self.event_id,
            source=self.source,
            class_number=self.in_class.number,
            agent="",
            time=START,
            severity=Severity.CLEARED if self.state is EventState.CLEARED else Severity.INFO,
            values={p: one.link if isinstance(one, Thing) else one for p, one in enumerate(given)},
            number=number,
            received=START,
            subject=None if self.subject is None else self.subject.link,
            text=self.text,
            state=self.state,
            condition=self.condition,
            quoted=_quoted(self.subject, self.quotes) if is_of_values and self.subject is not None else None,
        )


def happenings(all_things: list[Thing], stamp: int) -> list[Happening]:
    """Return events of the objects, and some of none."""
    deleted, closed, created, moved, raised, _ = EVENTS
    found: list[tuple[EventClassRecord, int, Thing | None, dict[str, str | Thing]]] = []
    alarming: list[tuple[EventClassRecord, Thing, dict[str, str | Thing], str, EventState]] = []
    for thing in all_things:
        match thing.class_name:
            case "rabbitmq:queue":
                found.append(
                    (deleted, thing.source, thing, {"queue": thing, "name": thing.parts[-1], "by": "anna"})
                )
                alarming.append((raised, thing, {"alarm": ALARM}, ALARM, EventState.RAISED))
            case "rabbitmq:connection":
                found.append((closed, thing.source, thing, {"name": thing.stable_name}))
            case "com.example:thing":
                target = thing.values["target"]
                assert isinstance(target, Thing)
                alarming.append((moved, thing, {"target": target}, STUCK, EventState.CLEARED))
    found += [(created, source, None, {"user": "bert", "by": "anna"}) for source in SOURCES]
    plain = [Happening(_event_id(stamp, number), *what) for number, what in enumerate(found, 1)]
    return plain + [
        Happening(
            _event_id(stamp, number), in_class, thing.source, thing, values, alarm, quotes_of(thing), state
        )
        for number, (in_class, thing, values, alarm, state) in enumerate(alarming, len(plain) + 1)
    ]


def endings(all_things: list[Thing], stamp: int) -> list[Happening]:
    """Return the events that end the alarms of the queues."""
    return [
        Happening(
            _event_id(stamp, FIRST_ENDING + number),
            EVENTS[-1],
            thing.source,
            thing,
            {"alarm": ALARM},
            ALARM,
            quotes_of(thing),
            EventState.CLEARED,
        )
        for number, thing in enumerate(_queues(all_things))
    ]


FIRST_ENDING: Final = 500
"""The number of the first event that ends an alarm, within the events of a stamp."""


def _event_id(stamp: int, number: int) -> str:
    return f"{GATEWAY_ID}.1.{stamp * 1000 + number}"


def _queues(all_things: list[Thing]) -> list[Thing]:
    return [thing for thing in all_things if thing.class_name == "rabbitmq:queue"]


def quotes_of(thing: Thing) -> tuple[str, ...] | None:
    """Return the elements of a queue that texts of its alarm quote; ``None`` where that is not known."""
    choices: tuple[tuple[str, ...] | None, ...] = (("messages",), ("messages", "exclusiveOwner"), (), None)
    return choices[thing.row % len(choices)]


def _quoted(thing: Thing, elements: tuple[str, ...] | None) -> Quoted | None:
    if elements is None:
        return None
    values = [thing.values[element] for element in elements]
    return Quoted(elements, tuple(value.link for value in values if isinstance(value, Thing)))


def condition_of(alarm: str, thing: Thing) -> str:
    return f"{alarm} {thing.path}"


def alarm_condition(thing: Thing) -> str:
    return condition_of(ALARM, thing)


def alarm_text(thing: Thing) -> str:
    return f"alarm of {thing.row} of {thing.source}, messages are {thing.values['messages']}"


def alarms(all_things: list[Thing], stamp: int, *, cleared: int = 0) -> list[AlarmRecord]:
    """Return an alarm of each queue."""
    raising = {what.subject: what.event_id for what in happenings(all_things, stamp) if what.alarm == ALARM}
    return [
        AlarmRecord(
            stamp * 100 + number,
            thing.source,
            ALARM,
            alarm_condition(thing),
            Severity.MAJOR,
            thing.link,
            alarm_text(thing),
            raising[thing],
            START,
            cleared,
            _quoted(thing, quotes_of(thing)),
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
