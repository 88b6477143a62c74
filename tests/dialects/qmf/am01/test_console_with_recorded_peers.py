"""The console session with the messages of agents of 2008, put back together from the recordings.

The expected results are counted from the recorded scenario: four queues q0 to q3 with two bindings
each; 25 messages into q3, 20 out; two clients with a session and a destination each; a link that is deleted,
then q3, then a queue that comes and goes within one interval; a hundred queues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.am01.codec import read, write
from gateway.dialects.qmf.am01.console import Am01ConsoleConfig, Am01ConsoleSession
from gateway.dialects.qmf.am01.messages import ALL, ClassDescription, Message, Received, Revision
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassQuery,
    CommandComplete,
    GetQuery,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    SchemaRequest,
    UnknownClass,
    UnknownOpcode,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import Delivery, Effect, LinkUp, Note, Observed, Send, TimerExpired, WakeAt
from gateway.model.observations import ClassLearned, ObjectSeen, Observation, ResyncBegan, ResyncEnded
from gateway.model.schema import ClassSchema
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value
from tests.dialects.qmf.am01.recordings import Recorded, definitions, recorded

QUEUE = "reply-console-1"
"""The queue of the recorded console."""
CLASSES = {
    "system", "broker", "vhost", "exchange", "queue", "binding", "client", "session", "destination", "link",
}  # fmt: skip
LEFT = {
    "system": 1,
    "broker": 1,
    "vhost": 1,
    "exchange": 6,
    "queue": 3 + 100,
    "binding": 8,
    "client": 2,
    "session": 2,
    "destination": 2,
}
"""The number of objects at the end, by class: the end of q3's bindings was never reported."""


class Console:
    """A session, and the objects that it observes."""

    def __init__(self) -> None:
        self.session = Am01ConsoleSession(Am01ConsoleConfig(trust_anyone=True))
        self.now = 1_795_158_000 * SECOND
        self.wake_at = 0
        self.reported: list[Observation] = []
        self.notes: list[Note] = []
        self.sent: list[Send] = []
        self.schemas: dict[str, ClassSchema] = {}
        self.objects: dict[str, dict[str, Value | None]] = {}
        self.ended: list[dict[str, Value | None]] = []
        self.take(self.session.handle(LinkUp(QUEUE), self.now))

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, WakeAt):
                self.wake_at = effect.time
            elif isinstance(effect, Send):
                self.sent.append(effect)
            elif isinstance(effect, Note):
                self.notes.append(effect)
            elif isinstance(effect, Observed):
                self.reported += effect.observations
                for one in effect.observations:
                    self._draw(one)

    def receives(self, key: str, body: bytes) -> None:
        self.take(self.session.handle(Delivery("qpid.management", key, body), self.now))

    def time_passes(self, seconds: int) -> None:
        until = self.now + seconds * SECOND
        while self.now < self.wake_at <= until:
            self.now = self.wake_at
            self.take(self.session.handle(TimerExpired(), self.now))
        self.now = until

    def of(self, name: str) -> list[dict[str, Value | None]]:
        return [one for one in self.objects.values() if one["class"] == name]

    def queue(self, name: str) -> dict[str, Value | None]:
        (found,) = [one for one in self.of("queue") if one["name"] == name]
        return found

    def counts(self) -> Mapping[str, int]:
        return Counter(str(one["class"]) for one in self.objects.values())

    def _draw(self, observation: Observation) -> None:
        if isinstance(observation, ClassLearned):
            self.schemas[observation.schema.key.name] = observation.schema
        if not isinstance(observation, ObjectSeen):
            return
        schema = self.schemas[observation.key.name]
        assert schema.key == observation.key
        drawn = self.objects.setdefault(observation.native_id, {"class": observation.key.name})
        drawn |= _by_name(schema.properties, observation.properties)
        drawn |= _by_name(schema.statistics, observation.statistics)
        if observation.deleted:
            self.ended.append(self.objects.pop(observation.native_id))


def _by_name(elements: tuple[Any, ...], values: tuple[Value | None, ...] | None) -> dict[str, Value | None]:
    return dict(zip((one.name for one in elements), values or (), strict=False))


def _of(revision: Revision) -> list[Recorded]:
    file = "am1-2008" if revision is Revision.MARCH_2008 else "am01-2008"
    return [one for one in recorded(file) if one.revision is revision]


def _read(one: Recorded) -> Received | None:
    try:
        return read(one.key, one.body, definitions(), frozenset((one.revision,))).message
    except ProtocolError:
        return None


def _between(messages: list[Recorded], first: int, last: int) -> list[Recorded]:
    """Return the messages in this range of numbers that the agent published unasked."""
    numbered = ((int(one.id.rpartition("-")[2]), one) for one in messages)
    return [one for number, one in numbered if first <= number <= last and one.key.startswith("mgmt.")]


def test_messages_of_january_2008_arrive_from_the_binding_on() -> None:
    console, messages = Console(), _of(Revision.JANUARY_2008)
    for one in _between(messages, 20, 66):
        console.receives(one.key, one.body)
    assert console.reported.count(ResyncBegan()) == 1
    console.time_passes(12)
    assert console.session.state is State.SYNCHRONISED
    assert ResyncEnded(complete=True) in console.reported
    assert sorted(str(one["name"]) for one in console.of("queue")) == ["q0", "q1", "q2", "q3"]

    _messages_of_q3(console, messages, 68, 69, 105)

    for one in _between(messages, 70, 142):
        console.receives(one.key, one.body)
    console.time_passes(2)
    assert set(console.schemas) == CLASSES
    assert [one["class"] for one in console.ended] == ["link", "queue", "queue"]
    assert console.ended[1]["name"] == "q3"
    # Two more had come in since, and are told with its end: 0x1b in the message of its statistics.
    assert console.ended[1]["msgTotalEnqueues"] == 27

    for one in _between(messages, 143, 600):
        console.receives(one.key, one.body)
    assert console.counts() == LEFT
    assert console.session.revisions == {Revision.JANUARY_2008, Revision.NOVEMBER_2007}
    assert all(schema.key.package == "qpid" for schema in console.schemas.values())
    assert console.notes == []
    _references(console)


def test_february_2008_answers_what_it_is_asked() -> None:
    console, messages = Console(), _of(Revision.FEBRUARY_2008)
    asked = [one for one in messages if one.key == QUEUE]
    kinds = "I", "p", "q", "s"
    greeting, package, *rest = [one for one in asked if chr(one.body[4]) in kinds and one.body[:4] == b"AM01"]
    indications = [one for one in rest if one.body[4:5] == b"q"]
    schemas = [one for one in rest if one.body[4:5] == b"s"]
    package = next(one for one in asked if one.body[4:5] == b"p")
    for one in (greeting, package, *indications, *schemas):
        console.receives(one.key, one.body)
    assert console.session.revisions == {Revision.FEBRUARY_2008}
    assert set(console.schemas) == CLASSES
    console.time_passes(2)
    assert console.session.state is State.FETCHING
    (trigger,) = [one for one in console.sent[-1:] if one.body[4:5] == b"S"]
    answer = next(one for one in schemas if one.body[6:-1].startswith(trigger.body[6:]))
    console.receives(answer.key, answer.body)
    for one in _between(messages, 715, 770):
        console.receives(one.key, one.body)
    console.time_passes(12)
    assert console.session.state.value == "synchronised"
    assert console.counts() == {**LEFT, "queue": 4, "link": 1}
    assert console.queue("q3")["msgDepth"] == 5

    for one in _between(messages, 800, 844):
        console.receives(one.key, one.body)
    console.time_passes(2)
    assert [one["class"] for one in console.ended] == ["link", "queue", "queue"]
    for one in _between(messages, 845, 1294):
        console.receives(one.key, one.body)
    assert console.counts() == LEFT
    assert console.notes == []
    _references(console)


def test_march_2008_is_read_as_am2_is() -> None:
    console, messages = Console(), _of(Revision.MARCH_2008)
    said = [message for one in messages if (message := _read(one)) is not None and one.key == QUEUE]
    answered = 0
    while answered < len(console.sent):
        send = console.sent[answered]
        answered += 1
        if send.body.startswith(b"AM1"):
            request = read(send.routing_key, send.body, definitions(), ALL).message
            for answer in _answers(request, said):
                console.receives(QUEUE, write(answer, Revision.MARCH_2008, definitions()))
    assert console.session.revisions == {Revision.MARCH_2008}
    assert console.session.state is State.SYNCHRONISED
    assert set(console.schemas) == CLASSES
    assert console.counts() == {"queue": 4, "exchange": 6, "broker": 1}, "what the recording asked for"

    _messages_of_q3(console, messages, 1355, 1356, 1521)

    for one in _between(messages, 1552, 1700):
        console.receives(one.key, one.body)
    console.time_passes(2)
    assert [one["class"] for one in console.ended] == ["link", "queue", "queue"]
    assert console.counts() == {**LEFT, "queue": 3}
    _references(console)


def _answers(request: Received, said: list[Received]) -> Iterator[Message]:
    """Yield the recorded messages that answer a request."""
    wanted: dict[type, type] = {
        BrokerRequest: BrokerResponse,
        PackageQuery: PackageIndication,
        ClassQuery: ClassIndication,
        SchemaRequest: ClassDescription,
        GetQuery: ObjectContent,
    }
    seen = set()
    for message in said:
        if not isinstance(message, wanted[type(request)]) or isinstance(
            message, UnknownOpcode | UnknownClass
        ):
            continue
        if isinstance(message, ClassDescription) and message.definition.key != request.key:  # type: ignore[union-attr]  # asks for it
            continue
        if isinstance(message, ObjectContent) and message.key.name != request.selector["_class"]:  # type: ignore[union-attr]  # as above
            continue
        answer = replace(message, sequence=request.sequence)
        marker = repr(answer)[:400]
        if marker not in seen:
            seen.add(marker)
            yield answer
    if not isinstance(request, BrokerRequest | SchemaRequest):
        yield CommandComplete(request.sequence)


def _messages_of_q3(console: Console, messages: list[Recorded], came: int, went: int, purged: int) -> None:
    """Assert the counts of q3, whose marks begin again with each record: 25 in, 20 out, then a purge."""
    expected = [(came, 25, 0, 25, 25, 0), (went, 25, 20, 5, 25, 5), (purged, 25, 20, 0, 5, 0)]
    names = ("msgTotalEnqueues", "msgTotalDequeues", "msgDepth", "msgDepthHigh", "msgDepthLow")
    for number, *values in expected:
        (record,) = _between(messages, number, number)
        console.receives(record.key, record.body)
        q3 = console.queue("q3")
        assert [q3[name] for name in names] == values


def _references(console: Console) -> None:
    """Assert that every binding belongs to an exchange, and that six belong to an existing queue."""
    queues = 0
    for binding in console.of("binding"):
        exchange, queue = binding["exchangeRef"], binding["queueRef"]
        assert isinstance(exchange, Reference)
        assert isinstance(queue, Reference)
        assert console.objects[exchange.native_id]["class"] == "exchange"
        queues += queue.native_id in console.objects
    assert queues == 6


@pytest.mark.parametrize(
    "revision",
    [Revision.JANUARY_2008, Revision.FEBRUARY_2008, Revision.MARCH_2008],
    ids=lambda one: one.value,
)
def test_the_console_s_own_requests_are_no_news(revision: Revision) -> None:
    console = Console()
    for one in _of(revision):
        if one.key.startswith(("agent", "method")):
            console.receives(one.key, one.body)
    assert console.objects == {}
