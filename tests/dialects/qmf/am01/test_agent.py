"""The agent session before AM2: what consoles are told and answered, in each revision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from gateway.dialects.effects import Called, Delivery, Effect, ModifyAsked, Note, Send, WakeAt
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.agent_objects import ManagedObject
from gateway.dialects.qmf.am01.agent import Am01AgentConfig, Am01AgentSession
from gateway.dialects.qmf.am01.keys import method_key
from gateway.dialects.qmf.am01.messages import (
    AgentHello,
    AgentIdentity,
    AttachRequest,
    ClassDescription,
    Message,
    MethodRequest,
    Received,
)
from gateway.dialects.qmf.am01.reader import MAX_BODY, read
from gateway.dialects.qmf.am01.revisions import ASKED, BROADCASTING, Revision
from gateway.dialects.qmf.am01.writer import write
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    ClassQuery,
    CommandComplete,
    Content,
    GetQuery,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    PropertyContent,
    SchemaRequest,
    StatisticContent,
)
from gateway.dialects.qmf.object_id import ObjectId
from gateway.model.events import Severity
from gateway.model.schema import Access, ClassKey, ClassSchema, Element
from gateway.model.values import Reference, ValueType
from tests.dialects.qmf.am01.between import CONSOLE_USER, QUEUE, SECOND, START, tank_object
from tests.dialects.qmf.am01.examples import KEY, PROPERTY_OCTETS, STATISTIC_OCTETS, leak, tank

BROKER = UUID(int=7)
ONE = ObjectId(0, 1)
REVISIONS = pytest.mark.parametrize("revision", list(Revision), ids=lambda one: one.value)
HEARD = pytest.mark.parametrize(
    "revision", [one for one in Revision if one not in ASKED], ids=lambda one: one.value
)
ARGUMENTS = b"\0\0\0\x07" + b"\0\0\0\x02ab"


class Scene:
    """An agent session; consoles' messages are written here."""

    def __init__(self, revision: Revision, settings: Mapping[str, object] | None = None) -> None:
        config = Am01AgentConfig(revision, obey=frozenset({CONSOLE_USER}), broker=BROKER, package="shop")
        config = replace(config, **settings or {})  # type: ignore[arg-type]  # its fields
        self.session = Am01AgentSession(config, [tank()], [leak()])
        self.revision = revision
        self.now = START
        (self.key,) = (one.definition.key for one in self.session.objects.classes.values())

    def starts(self) -> list[Effect]:
        self.session.put(tank_object(1))
        return self.session.start(self.now)

    def published(self, seconds: float = 10) -> list[tuple[str, Received]]:
        """Time passes; what is published at the end of it."""
        self.now += int(seconds * SECOND)
        return self.messages(self.session.tick(self.now))

    def messages(self, effects: list[Effect]) -> list[tuple[str, Received]]:
        sends = [one for one in effects if isinstance(one, Send)]
        return [(one.routing_key, self.read(one)) for one in sends]

    def read(self, send: Send) -> Received:
        revisions = frozenset((self.revision,))
        known = self.session.definitions
        return read(send.routing_key, send.body, known, revisions, extended=True).message

    def asks(self, message: Message, key: str = "agent", **delivery: str) -> list[Effect]:
        return self.asks_octets(write(message, self.revision, self.session.definitions), key, **delivery)

    def asks_octets(
        self, body: bytes, key: str = "agent", user: str = CONSOLE_USER, reply_to: str = QUEUE
    ) -> list[Effect]:
        delivery = Delivery("qpid.management", key, body, reply_to, user)
        return self.session.receive(delivery, self.now)

    def calls(
        self,
        method: str = "drain",
        arguments: bytes = ARGUMENTS,
        number: int = 1,
        key: ClassKey = KEY,
        sequence: int = 5,
    ) -> list[Effect]:
        bare = self.revision is Revision.NOVEMBER_2007
        request = MethodRequest(sequence, ObjectId(0, number), key, method, arguments, QUEUE if bare else "")
        return self.asks(request, method_key(self.revision, key, method), reply_to="" if bare else QUEUE)


def started(revision: Revision, settings: Mapping[str, object] | None = None) -> Scene:
    scene = Scene(revision, settings)
    scene.starts()
    scene.published()
    return scene


# What is told.


@pytest.mark.parametrize("revision", [Revision.FEBRUARY_2008, Revision.MARCH_2008])
def test_packages_are_announced_by_who_can_be_asked(revision: Revision) -> None:
    scene = Scene(revision)
    told = scene.messages(scene.starts())
    key = "mgmt.schema.package" if revision is Revision.FEBRUARY_2008 else f"mgmt.{BROKER}.schema.package"
    assert told == [(key, PackageIndication(0, "shop"))]


@REVISIONS
def test_everything_is_told_at_the_first_interval_and_what_changed_at_each(revision: Revision) -> None:
    scene = Scene(revision)
    assert scene.starts()[-1] == WakeAt(START + 10 * SECOND)
    told = scene.published()
    kinds = [type(message) for _, message in told]
    schemas = [] if revision in ASKED else [ClassDescription]
    assert kinds == [*schemas, PropertyContent, StatisticContent]
    assert scene.published() == []
    scene.session.put(tank_object(1, fills=8))
    ((key, changed),) = scene.published()
    middle = "shop.tank" if revision is Revision.DESIGN_NOTES else "tank"
    front = f"{BROKER}." if revision is Revision.MARCH_2008 else ""
    assert key == f"mgmt.{front}inst.{middle}"
    assert changed == StatisticContent(0, scene.key, START, START, 0, ONE, None, (8, 50.0, "hi"))


@REVISIONS
def test_an_end_is_told_with_its_time(revision: Revision) -> None:
    scene = started(revision)
    assert scene.session.delete(1, START + 5)
    assert not scene.session.delete(1, START + 5)
    ((_, ended),) = scene.published()
    assert isinstance(ended, PropertyContent)
    assert (ended.deleted, ended.object_id) == (START + 5, ONE)
    assert 1 not in scene.session.objects
    assert len(scene.session.objects) == 0


def test_what_came_and_went_within_an_interval_is_told_with_its_statistics() -> None:
    scene = started(Revision.JANUARY_2008)
    scene.session.put(tank_object(2))
    scene.session.delete(2, START + 5)
    told = [message for _, message in scene.published()]
    assert [(type(one), one.deleted) for one in told if isinstance(one, Content)] == [
        (PropertyContent, START + 5),
        (StatisticContent, START + 5),
    ]


@HEARD
def test_a_queue_that_is_bound_is_told_everything_at_the_next_interval(revision: Revision) -> None:
    scene = started(revision)
    assert scene.session.console_bound(scene.now) == [WakeAt(scene.now + 10 * SECOND)]
    assert [type(message) for _, message in scene.published()] == [
        ClassDescription,
        PropertyContent,
        StatisticContent,
    ]


def test_later_agents_take_no_notice_of_bindings() -> None:
    scene = started(Revision.FEBRUARY_2008)
    scene.session.console_bound(scene.now)
    assert scene.published() == []


@REVISIONS
def test_everything_is_told_at_times_where_that_is_wanted(revision: Revision) -> None:
    scene = started(revision, {"republish_interval": 30 * SECOND})
    assert [len(scene.published()) > 0 for _ in range(6)] == [False, False, True, False, False, True]


def test_nothing_is_told_or_answered_before_the_start_and_while_suspended() -> None:
    scene = Scene(Revision.FEBRUARY_2008)
    key = ClassKey("shop", "tank.leak")
    for _ in range(2):
        assert scene.session.tick(scene.now) == []
        assert scene.session.flush(scene.now) == []
        assert scene.session.console_bound(scene.now) == []
        (note,) = scene.asks(AgentHello())
        assert isinstance(note, Note)
        assert note.event == "not-ready"
        scene.starts()
        scene.session.suspend()
    written = Scene(Revision.DESIGN_NOTES, {"events": True})
    assert written.session.raise_event(key, START, Severity.INFO, (1,)) == []


def test_nothing_is_published_before_its_time() -> None:
    scene = Scene(Revision.JANUARY_2008)
    scene.starts()
    assert scene.session.tick(START + 1) == [WakeAt(START + 10 * SECOND)]


def test_an_event_travels_under_its_class_and_severity() -> None:
    scene = started(Revision.DESIGN_NOTES, {"events": True})
    key = ClassKey("shop", "tank.leak")
    ((routing_key, _),) = scene.messages(scene.session.raise_event(key, START, Severity.MAJOR, (12,)))
    assert routing_key == "mgmt.event.shop.tank.error"


@pytest.mark.parametrize(
    ("revision", "events", "name"),
    [
        (Revision.DESIGN_NOTES, False, "tank.leak"),
        (Revision.FEBRUARY_2008, True, "tank.leak"),
        (Revision.DESIGN_NOTES, True, "tank.fire"),
        (Revision.DESIGN_NOTES, True, "ship.leak"),
    ],
)
def test_an_event_that_cannot_be_told_is_a_mistake(revision: Revision, name: str, *, events: bool) -> None:
    scene = started(revision, {"events": events})
    with pytest.raises(LocalProtocolError):
        scene.session.raise_event(ClassKey("shop", name), START, Severity.MAJOR, (12,))


# What is asked.


def test_february_2008_answers_without_an_end() -> None:
    scene = started(Revision.FEBRUARY_2008)
    asked: list[Message] = [AgentHello(), PackageQuery(0), ClassQuery(0, "shop"), ClassQuery(0, "dock")]
    answers = [[message for _, message in scene.messages(scene.asks(one))] for one in asked]
    assert answers == [
        [AgentIdentity("Broker ID")],
        [PackageIndication(0, "shop")],
        [ClassIndication(0, ClassKind.OBJECT, scene.key)],
        [],
    ]


def test_march_2008_answers_with_an_end_and_the_number() -> None:
    scene = started(Revision.MARCH_2008)
    asked: list[Message] = [BrokerRequest(1), PackageQuery(2), ClassQuery(3, "shop"), ClassQuery(4, "dock")]
    answers = [[message for _, message in scene.messages(scene.asks(one))] for one in asked]
    assert answers == [
        [BrokerResponse(1, BROKER)],
        [PackageIndication(2, "shop"), CommandComplete(2)],
        [ClassIndication(3, ClassKind.OBJECT, scene.key), CommandComplete(3)],
        [CommandComplete(4)],
    ]


def test_an_answered_request_for_a_schema_is_a_reason_to_tell_everything() -> None:
    scene = started(Revision.FEBRUARY_2008)
    assert scene.asks(SchemaRequest(0, KEY)) == [], "the hash is another"
    assert scene.published() == []
    ((_, described),) = scene.messages(scene.asks(SchemaRequest(0, scene.key)))
    assert isinstance(described, ClassDescription)
    assert described.definition.key == scene.key
    assert len(scene.published()) == 2


def test_march_2008_tells_the_objects_of_a_class() -> None:
    scene = started(Revision.MARCH_2008)
    found, end = (message for _, message in scene.messages(scene.asks(GetQuery(3, {"_class": "tank"}))))
    assert isinstance(found, ObjectContent)
    assert (found.object_id, found.statistics) == (ONE, (7, 50.0, "hi"))
    assert end == CommandComplete(3)
    assert scene.messages(scene.asks(GetQuery(4, {}))) == [(QUEUE, CommandComplete(4))]


@REVISIONS
def test_a_call_is_for_the_program(revision: Revision) -> None:
    scene = started(revision)
    (called,) = scene.calls()
    assert isinstance(called, Called)
    assert (called.number, called.method, called.arguments) == (1, "drain", (7, "ab"))
    ((key, answer),) = scene.messages(scene.session.method_done(called.handle, 0, "OK", (6, 2.5)))
    assert key == QUEUE
    assert isinstance(answer, MethodResponse)
    assert (answer.sequence, answer.status, len(answer.arguments)) == (5, 0, 12)
    assert scene.session.method_done(called.handle, 0, "OK", (6, 2.5)) == []
    (note,) = scene.calls()
    assert isinstance(note, Note)
    assert note.event == "repeated-call"


@REVISIONS
@pytest.mark.parametrize(
    ("what", "status", "text"),
    [
        ({"number": 9}, 1, "UnknownObject"),
        ({"method": "fill"}, 2, "UnknownMethod"),
        ({"method": "get", "arguments": b""}, 2, "UnknownMethod"),
        ({"arguments": b"\0"}, 4, "InvalidParameter"),
        ({"key": ClassKey("shop", "ship")}, 4, "InvalidParameter"),
    ],
)
def test_what_is_not_understood_whole_is_not_carried_out(
    revision: Revision, what: dict[str, object], status: int, text: str
) -> None:
    scene = started(revision)
    ((_, answer),) = scene.messages(scene.calls(**what))  # type: ignore[arg-type]  # its arguments
    assert isinstance(answer, MethodResponse)
    expected = 3 if revision is Revision.NOVEMBER_2007 and status > 3 else status
    assert (answer.status, answer.text.startswith(text), answer.arguments) == (expected, True, b"")


def test_another_package_is_another_class() -> None:
    scene = started(Revision.JANUARY_2008)
    ((_, answer),) = scene.messages(scene.calls(key=ClassKey("other", "tank")))
    assert isinstance(answer, MethodResponse)
    assert answer.status == 4


def test_a_long_text_is_cut_to_what_its_length_can_tell() -> None:
    scene = started(Revision.JANUARY_2008)
    (called,) = scene.calls()
    assert isinstance(called, Called)
    ((_, answer),) = scene.messages(scene.session.method_done(called.handle, 0x10001, "x" * 900))
    assert isinstance(answer, MethodResponse)
    assert (answer.status, answer.text) == (0x10001, "x" * 200)


@REVISIONS
def test_get_and_set_are_served_where_that_is_wanted(revision: Revision) -> None:
    scene = started(revision, {"get_and_set": True})
    ((_, got),) = scene.messages(scene.calls("get", b""))
    assert isinstance(got, MethodResponse)
    assert (got.status, got.arguments) == (0, PROPERTY_OCTETS.replace(b"\x09", b"\0") + STATISTIC_OCTETS)
    (asked,) = scene.calls("set", b"\x04size\0\xc8", sequence=6)
    assert isinstance(asked, ModifyAsked)
    assert (asked.number, asked.values, asked.user_id) == (1, {"size": 200}, CONSOLE_USER)
    ((_, answer),) = scene.messages(scene.session.method_done(asked.handle, 0, "OK"))
    assert answer == MethodResponse(6, 0, "OK")
    (note,) = scene.calls("set", b"\x04size\0\xc8", sequence=6)
    assert isinstance(note, Note)
    ((_, drained),) = scene.messages(scene.calls("get", b"", number=9))
    assert isinstance(drained, MethodResponse)
    assert drained.status == 1


@pytest.mark.parametrize(
    "changes",
    [
        b"\x04name\x02t2",  # read-create
        b"\x04size\0\0",  # less than the minimum
        b"\x04mass\0\0",  # no such property
        b"\x04size\0",
    ],
)
def test_a_set_of_what_cannot_be_set_is_refused(changes: bytes) -> None:
    scene = started(Revision.FEBRUARY_2008, {"get_and_set": True})
    ((_, answer),) = scene.messages(scene.calls("set", changes))
    assert isinstance(answer, MethodResponse)
    assert (answer.status, answer.text.startswith("InvalidParameter: ")) == (4, True)


def test_a_reference_to_nothing_is_not_set() -> None:
    schema = ClassSchema(
        ClassKey("shop", "tank"), (Element("owner", ValueType.REFERENCE, access=Access.READ_WRITE),)
    )
    config = Am01AgentConfig(Revision.FEBRUARY_2008, obey=frozenset({CONSOLE_USER}), get_and_set=True)
    session = Am01AgentSession(config, [schema])
    session.put(ManagedObject(schema.key, 1, START, (Reference("0-0-0-0-4"),), (), START))
    session.start(START)
    request = MethodRequest(5, ONE, schema.key, "set", b"\x05owner" + bytes(8))
    body = write(request, Revision.FEBRUARY_2008)
    (send,) = session.receive(
        Delivery("qpid.management", "agent.method.shop.tank.set", body, QUEUE, CONSOLE_USER), START
    )
    assert isinstance(send, Send)
    assert b"InvalidParameter" in send.body


def test_too_many_calls_at_once_are_refused() -> None:
    scene = started(Revision.FEBRUARY_2008, {"get_and_set": True})
    for sequence in range(256):
        scene.calls(sequence=sequence)
    for effects in (
        scene.calls(sequence=300),
        scene.calls("set", b"\x04size\0\xc8", sequence=301),
    ):
        ((_, answer),) = scene.messages(effects)
        assert isinstance(answer, MethodResponse)
        assert answer.text.startswith("not carried out: 256 calls are under way")


# What is refused.


@pytest.mark.parametrize(
    ("delivery", "note"),
    [
        ({"user": "guest"}, "refused-sender"),
        ({"reply_to": ""}, "protocol-error"),
        ({"body": b"AM01P"}, "protocol-error"),
        ({"body": b"x" * (MAX_BODY + 1)}, "protocol-error"),
        ({"body": write(AttachRequest(0, "label", 1), Revision.FEBRUARY_2008)}, "unserved-message"),
    ],
)
def test_what_is_not_answered_leaves_a_note(delivery: dict[str, object], note: str) -> None:
    scene = started(Revision.FEBRUARY_2008)
    body = write(PackageQuery(0), Revision.FEBRUARY_2008)
    (effect,) = scene.asks_octets(**{"body": body, **delivery})  # type: ignore[arg-type]  # its arguments
    assert isinstance(effect, Note)
    assert effect.event == note


# The program's mistakes.


@REVISIONS
def test_what_does_not_fit_a_class_is_a_mistake_and_changes_nothing(revision: Revision) -> None:
    scene = started(revision)
    mistakes = [
        replace(tank_object(2), key=ClassKey("shop", "ship")),
        replace(tank_object(2), properties=("t2",)),
        replace(tank_object(2), statistics=(1, 2.0, "x" * MAX_BODY)),
        replace(tank_object(2), number=-1),
    ]
    for mistake in mistakes:
        with pytest.raises(LocalProtocolError):
            scene.session.put(mistake)
    assert list(scene.session.objects) == [1]
    assert scene.published() == []


def test_an_object_does_not_change_its_class() -> None:
    ship = ClassSchema(ClassKey("shop", "ship"), (Element("ready", ValueType.BOOL),))
    session = Am01AgentSession(Am01AgentConfig(Revision.FEBRUARY_2008), [tank(), ship])
    session.put(tank_object(1))
    with pytest.raises(LocalProtocolError, match="another class"):
        session.put(ManagedObject(ship.key, 1, START, (True,), (), START))


@REVISIONS
def test_a_class_is_served_once(revision: Revision) -> None:
    other = replace(tank(), key=ClassKey("dock", "tank"))
    config = Am01AgentConfig(revision)
    with pytest.raises(LocalProtocolError, match="given twice"):
        Am01AgentSession(config, [tank(), tank()])
    if revision in BROADCASTING:
        with pytest.raises(LocalProtocolError, match="given twice"):
            Am01AgentSession(config, [tank(), other])
    else:
        Am01AgentSession(config, [tank(), other])


def test_bindings_are_what_consoles_ask_under() -> None:
    keys = {one: [each.routing_key for each in Scene(one).session.bindings()] for one in Revision}
    asked = ["agent", "agent.method.#"]
    assert keys == {one: asked if one in ASKED else ["method.#"] for one in Revision}
