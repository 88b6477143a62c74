"""The role ``qmf`` on an inventory, for a source of any dialect, with a real console at its other end."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from gateway.dialects.qmf.agent import AgentConfig
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.console import ConsoleSession
from gateway.dialects.qmf.console_config import ConsoleConfig
from gateway.dialects.qmf.fields import NO_HASH, ObjectId
from gateway.dialects.qmf.messages import MethodRequest
from gateway.dialects.session import Answered, Delivery, Effect, LinkUp, Observed, Send, TimerExpired
from gateway.feed.operations import (
    InvokeMethod,
    OperationAnswer,
    OperationKind,
    OperationRecord,
    OperationRequest,
    OperationState,
    ReadFresh,
)
from gateway.feed.records import Batch
from gateway.feed.values import ObjectLink
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.model.observations import (
    AgentLost,
    ClassLearned,
    Counting,
    EventLearned,
    EventSeen,
    HeartbeatSeen,
    ObjectSeen,
    Observation,
    ResyncBegan,
    ResyncEnded,
    Severity,
    SourceState,
    SourceStateSeen,
)
from gateway.model.operations import Answer, MethodCall, ObjectFetch, Outcome, Principal
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction, Element, EventSchema, Method
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value, ValueType
from gateway.serving.qmf import QmfRole, RoleConfig, RoleEffect, Submit
from tests.components.opened_index import opened_index

USER = "monitor"
SECONDS_3 = b"\0\0\0\3"
"""The arguments of ``measure(3)``."""
PUMP = ClassSchema(
    ClassKey("plant", "pump", b"v1"),
    properties=(Element("name", ValueType.STRING, index=True), Element("label", ValueType.STRING)),
    statistics=(Element("turns", ValueType.U64),),
    methods=(
        Method(
            "measure",
            (
                Argument("seconds", ValueType.U32, direction=Direction.IN),
                Argument("result", ValueType.U64, direction=Direction.OUT),
            ),
        ),
        Method("join", (Argument("other", ValueType.REFERENCE, direction=Direction.IN),)),
    ),
)
VALVE = ClassSchema(
    ClassKey("plant", "valve", b"v1"), properties=(Element("name", ValueType.STRING, index=True),)
)
PIPE = ClassSchema(
    ClassKey("plant", "pipe", b"v1"),
    properties=(
        Element("pump", ValueType.REFERENCE, index=True, references="pump"),
        Element("name", ValueType.STRING, index=True),
    ),
)
BURST = EventSchema(
    ClassKey("plant", "burst", b"v1"), (Argument("pump", ValueType.REFERENCE, references="pump"),)
)
LOST = EventSchema(
    ClassKey("plant", "eventsLost", b"v1"),
    (
        Argument("since", ValueType.TIME, optional=True),
        Argument("until", ValueType.TIME, optional=True),
        Argument("count", ValueType.U64, optional=True),
        Argument("reason", ValueType.STRING),
    ),
)


def pump(
    native_id: str = "line-1#7",
    *,
    schema: ClassSchema = PUMP,
    label: str = "north",
    turns: int = 5,
    deleted: int = 0,
) -> ObjectSeen:
    name = native_id.partition("#")[0]
    properties: tuple[Value, ...] = (name, label, "more")[: len(schema.properties)]
    return ObjectSeen(schema.key, "a1", native_id, 3 * SECOND, 2 * SECOND, deleted, properties, (turns,))


class Plant:
    """A source of an invented dialect, served by the role, and a console of AM2.

    Attributes:
        seen: observations of the console.
        requests: operations that the role submitted.
        answers: answers to the console's own calls and reads.
        unseen: rows of objects that do not exist for the console.
    """

    def __init__(self, folder: Path, *, numbered_by_facts: bool = False, missed_since: int = 0) -> None:
        self.now = 10 * SECOND
        self._calls = 0
        self.seen: list[Observation] = []
        self.requests: list[OperationRequest] = []
        self.answers: list[Answer] = []
        self.index = opened_index(folder / "index")
        self.inventory = Inventory("gw", 1, ClassRegistry({}), self.index, self._batch)
        self.source = self.inventory.add_source("plant", "ami")
        session = AgentConfig(UUID(int=9), 0, frozenset({USER}), publish_interval=5 * SECOND, rereads=True)
        config = RoleConfig(
            session,
            self.source.identity.number,
            "agent",
            numbered_by_facts=numbered_by_facts,
            missed_since=missed_since,
        )
        self.unseen: set[int] = set()
        self.role = QmfRole(
            config,
            self.source.by_row,
            lambda _principal, _source, _class_name, row: bool(row) and row not in self.unseen,
        )
        self.console = ConsoleSession(ConsoleConfig(trusted_users=frozenset({USER})))
        self.console_does(self.console.handle(LinkUp("reply"), self.now))
        self.do(self.role.handle(LinkUp(""), self.now))

    def observed(self, *observations: Observation) -> None:
        """Observe something at the source, and let time pass until consoles have received it."""
        self.inventory.observed(self.source, observations, self.now)
        self.pass_time()

    def is_read(self, *observations: Observation) -> None:
        """Complete the reading of the source, with these objects."""
        learned = (ClassLearned(PUMP), EventLearned(BURST))
        synchronised = SourceStateSeen(SourceState.SYNCHRONISED)
        heartbeat = HeartbeatSeen("a1", self.now)
        self.observed(
            *learned, ResyncBegan(), *observations, heartbeat, ResyncEnded(complete=True), synchronised
        )

    def pass_time(self, seconds: int = 12) -> None:
        for _ in range(seconds):
            self.now += SECOND
            self.do(self.role.handle(TimerExpired(), self.now))
            self.console_does(self.console.handle(TimerExpired(), self.now))

    def do(self, effects: list[RoleEffect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self.console_does(self.console.handle(self._delivered(effect), self.now))
                case Submit(request):
                    self.requests.append(request)

    def objects(self, class_name: str = "pump") -> list[ObjectSeen]:
        """Return the objects that the console observed."""
        return [one for one in self.seen if isinstance(one, ObjectSeen) and one.key.name == class_name]

    def shown(self) -> tuple[int, Value | None]:
        """Return since when the only pump is stale, and its turns, as the console observed them last."""
        stale = [one.unread_since for one in self.objects() if one.unread_since is not None]
        turns = [one.statistics[0] for one in self.objects() if one.statistics is not None]
        return stale[-1], turns[-1]

    def call(self, *arguments: Value) -> None:
        """Call ``measure`` of the only pump, as the console."""
        target = self.objects()[-1]
        self._calls += 1
        call = MethodCall(
            self._calls, target.key, "1.0", target.native_id, "measure", arguments, self.now + 9 * SECOND
        )
        self.console_does(self.console.handle(call, self.now))

    def answered(
        self, outcome: Outcome, text: str = "", operation_id: str = "gw.1.o1", **values: int
    ) -> None:
        """Report this outcome of the operation that was submitted last."""
        request = self.requests[-1].request
        answer = OperationAnswer(request, operation_id, outcome, text, values=values)
        self.do(self.role.operation_answered(answer, self.now))

    def _batch(self, batch: Batch) -> None:
        self.do(self.role.take(batch.records, self.now))

    def console_does(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self.do(self.role.handle(self._delivered(effect), self.now))
                case Observed(observations):
                    self.seen += observations
                case Answered(answer):
                    self.answers.append(answer)

    def _delivered(self, send: Send) -> Delivery:
        return Delivery(send.exchange, send.routing_key, send.body, send.reply_to, USER)


@pytest.fixture
def make_plant(tmp_path: Path) -> Callable[[], Plant]:
    """Return a function that starts a gateway on one state folder, again and again."""
    return lambda: Plant(tmp_path)


@pytest.fixture
def plant(make_plant: Callable[[], Plant]) -> Plant:
    return make_plant()


def test_an_object_of_any_source_is_published_with_its_values(plant: Plant) -> None:
    plant.is_read(pump())
    reported = plant.objects()[-1]
    assert (reported.key.package, reported.key.name) == ("plant", "pump")
    assert (reported.created, reported.sampled) == (2 * SECOND, 3 * SECOND)
    assert any(one.properties == ("line-1", "north") for one in plant.objects())
    assert any(one.statistics is not None and one.statistics[0] == 5 for one in plant.objects())


def test_a_change_and_an_end_are_published(plant: Plant) -> None:
    plant.is_read(pump())
    reported = len(plant.objects())
    plant.observed(pump(turns=9))
    assert [one.statistics and one.statistics[0] for one in plant.objects()[reported:]] == [9]
    plant.observed(pump(deleted=8 * SECOND))
    assert plant.objects()[-1].deleted == 8 * SECOND


def test_an_object_keeps_its_id_over_restarts_of_the_gateway(make_plant: Callable[[], Plant]) -> None:
    ids = set()
    for native_id in ("line-1#7", "line-1#8"):  # the peer numbers its objects in another way each time
        plant = make_plant()
        plant.is_read(pump(native_id))
        ids.add(plant.objects()[-1].native_id)
        plant.index.close()
    assert len(ids) == 1
    assert ids.pop().startswith("0-0-1-0-"), "sequence 0 says that it outlives restarts"


def test_nothing_is_published_before_everything_was_read(plant: Plant) -> None:
    plant.observed(ClassLearned(PUMP), pump(), SourceStateSeen(SourceState.SYNCHRONISING))
    assert plant.objects() == []
    plant.is_read(pump())
    assert plant.objects()


def test_a_stale_agent_silences_the_role(plant: Plant) -> None:
    plant.is_read(pump())
    reported = len(plant.seen)
    plant.observed(AgentLost("a1", "silent"))
    plant.observed(pump(turns=6))
    assert not [one for one in plant.seen[reported:] if isinstance(one, ObjectSeen | HeartbeatSeen)]
    plant.is_read(pump(turns=6))
    assert [one.statistics for one in plant.objects() if one.statistics is not None][-1][0] == 6


def test_what_its_source_cannot_read_is_stale_and_without_statistics(plant: Plant) -> None:
    plant.is_read(pump())
    since = plant.now
    plant.observed(replace(pump(), unread_since=since))
    assert plant.shown() == (since, None)
    plant.observed(pump())
    assert plant.shown() == (0, 5)


@pytest.mark.parametrize("counting", Counting)
def test_an_object_that_may_count_on_where_another_one_ended_is_marked_as_long_as_it_lives(
    plant: Plant, counting: Counting
) -> None:
    """AM2 cannot say so, and a console takes the first values of a new object for counted."""
    plant.is_read()
    plant.observed(replace(pump(), counting=counting))
    plant.observed(pump(turns=9))
    reported = {one.statistics: one.inherited for one in plant.objects() if one.statistics is not None}
    is_marked = counting is Counting.UNKNOWN
    assert reported == {(5,): is_marked, (9,): is_marked}
    plant.observed(pump(deleted=plant.now))
    plant.observed(pump("line-1#8"))
    assert not plant.objects()[-1].inherited, "another one"


def test_a_class_that_is_not_confirmed_in_time_is_stale_and_without_statistics(plant: Plant) -> None:
    plant.is_read(pump())
    until = plant.now
    plant.observed(HeartbeatSeen("a1", plant.now, {"plant:pump": until}))
    assert plant.shown() == (until, None)
    plant.observed(HeartbeatSeen("a1", plant.now, {"plant:pump": until + SECOND}))
    assert plant.shown() == (until, None), "it was read too late again"
    plant.observed(HeartbeatSeen("a1", plant.now, {"plant:pump": plant.now + 600 * SECOND}))
    assert plant.shown() == (0, 5)


def test_an_object_that_comes_while_its_class_is_not_confirmed_is_stale_from_the_first(plant: Plant) -> None:
    plant.is_read()
    until = plant.now
    plant.observed(HeartbeatSeen("a1", plant.now, {"plant:pump": until}))
    plant.observed(pump())
    assert {one.unread_since for one in plant.objects()} == {until}


def test_a_class_that_is_learned_later_is_announced(plant: Plant) -> None:
    plant.is_read(pump())
    valve = ObjectSeen(VALVE.key, "a1", "v", 3 * SECOND, 0, 0, ("inlet",))
    plant.observed(ClassLearned(VALVE), valve)
    plant.pass_time(30)
    assert [one.properties for one in plant.objects("valve")][-1:] == [("inlet",)]


def test_what_is_named_after_an_unknown_object_is_published_when_that_is_known(plant: Plant) -> None:
    target = Reference("line-1#7", "line-1")
    pipe = ObjectSeen(PIPE.key, "a1", "p", 3 * SECOND, 0, 0, (target, "inlet"))
    plant.is_read(ClassLearned(PIPE), pipe)
    assert plant.objects("pipe") == [], "consoles would name it otherwise"
    plant.observed(pump())
    plant.pass_time(30)
    published = plant.objects("pipe")[-1]
    assert published.properties == (Reference(plant.objects()[-1].native_id), "inlet")


def test_another_version_of_a_class_is_no_end_of_its_objects(plant: Plant) -> None:
    plant.is_read(pump())
    first = plant.objects()[-1].native_id
    more = Element("note", ValueType.STRING)
    newer = ClassSchema(
        ClassKey("plant", "pump", b"v2"), (*PUMP.properties, more), PUMP.statistics, PUMP.methods
    )
    reported = len(plant.objects())
    plant.observed(ClassLearned(newer), pump(schema=newer))
    plant.pass_time(30)
    later = plant.objects()[reported:]
    assert {one.native_id for one in later} == {first}
    assert not [one for one in later if one.deleted]
    assert any(one.properties == ("line-1", "north", "more") for one in later)


def test_another_incarnation_of_a_durable_object_has_another_id(tmp_path: Path) -> None:
    plant = Plant(tmp_path, numbered_by_facts=True)
    plant.is_read(pump("00000000000000aa"))
    first = plant.objects()[-1].native_id
    reported = len(plant.objects())
    # The inventory keeps row and name of a durable object that was made again unheard.
    record = msgspec.structs.replace(next(iter(plant.source.objects())), native_id="00000000000000bb")
    plant.do(plant.role.take([record], plant.now))
    plant.pass_time()
    later = plant.objects()[reported:]
    assert [one.native_id for one in later if one.deleted] == [first]
    assert {one.native_id for one in later if not one.deleted} == {"0-0-1-0-187"}


def test_an_event_refers_to_its_object_also_after_its_end(plant: Plant) -> None:
    plant.is_read(pump())
    target = plant.objects()[-1].native_id
    burst = EventSeen(BURST.key, "a1", 7 * SECOND, Severity.MAJOR, (Reference("line-1#7"),))
    plant.observed(burst, pump(deleted=8 * SECOND), burst)
    events = [one for one in plant.seen if isinstance(one, EventSeen)]
    assert [one.arguments for one in events] == [(Reference(target),)] * 2
    assert {(one.time, one.severity) for one in events} == {(7 * SECOND, Severity.MAJOR)}


def test_what_was_missed_before_the_start_is_reported_once_it_is_over(tmp_path: Path) -> None:
    plant = Plant(tmp_path, missed_since=4 * SECOND)
    plant.observed(EventLearned(LOST), SourceStateSeen(SourceState.SYNCHRONISING))
    read_at = plant.now
    plant.is_read(pump())
    plant.is_read(pump())
    (lost,) = [one for one in plant.seen if isinstance(one, EventSeen)]
    assert (lost.key.name, lost.severity) == ("eventsLost", Severity.WARNING)
    assert lost.arguments == (4 * SECOND, read_at, 0, "the agent was not running")


def test_what_another_agent_published_was_not_missed(tmp_path: Path) -> None:
    plant = Plant(tmp_path, missed_since=4 * SECOND)
    plant.role.stand_by(plant.now)
    plant.is_read(pump())
    assert not [one for one in plant.seen if isinstance(one, EventSeen)]


def test_a_call_is_an_operation_of_its_user(plant: Plant) -> None:
    plant.is_read(pump())
    plant.call(3)
    request = plant.requests[-1]
    assert request.principal == Principal("qmf", USER, "agent")
    assert (request.source, request.class_name, request.row) == (1, "plant:pump", 1)
    assert request.action == InvokeMethod("measure", {"seconds": 3})
    assert 8 * SECOND <= request.timeout <= 30 * SECOND
    plant.answered(Outcome.APPLIED, result=77)
    assert [(one.outcome, one.outputs) for one in plant.answers] == [(Outcome.APPLIED, (77,))]


def test_a_call_is_for_the_life_that_consoles_were_shown(plant: Plant) -> None:
    """The core refuses it, if that ended while the call was on its way."""
    plant.is_read(pump())
    plant.call(3)
    assert plant.requests[-1].ends is None  # nothing has ended
    ends: list[int | None] = []
    for _ in range(2):
        plant.observed(pump(deleted=plant.now))
        plant.observed(pump())
        plant.call(3)
        ends.append(plant.requests[-1].ends)
    assert None not in ends
    assert ends[0] != ends[1]
    record = plant.source.by_row("plant:pump", 1).record  # type: ignore[union-attr]  # it is there
    assert [plant.inventory.ended_since(end or 0, record) for end in ends] == [True, False]


def test_a_call_that_no_rule_allows_is_refused_with_its_reason(plant: Plant) -> None:
    plant.is_read(pump())
    plant.call(3)
    plant.answered(Outcome.REFUSED, "no rule under operations.allow")
    (answer,) = plant.answers
    assert answer.outcome is not Outcome.APPLIED
    assert "no rule under operations.allow" in answer.text


def test_an_object_that_a_console_does_not_see_any_more_is_answered_like_one_that_is_not_there(
    plant: Plant,
) -> None:
    plant.is_read(pump())
    plant.call(3)
    plant.answered(Outcome.OBJECT_GONE, "there is no such object: row 1 of plant:pump", operation_id="")
    (answer,) = plant.answers
    # As qpidd answers an object id that does not exist.
    assert (answer.outcome, answer.text, answer.code) == (Outcome.OBJECT_GONE, "UnknownObject", 1)


@pytest.mark.parametrize(
    ("key", "method", "arguments", "age"),
    [
        (PUMP.key, "measure", SECONDS_3, 0),
        (PUMP.key, "explode", b"", 0),
        (PUMP.key, "measure", b"\0", 0),
        (VALVE.key, "measure", SECONDS_3, 0),
        (ClassKey("sewer", "lid", b"v1"), "open", b"", 0),
        (PUMP.key, "measure", SECONDS_3, 60 * SECOND),
    ],
    ids=["right", "unknown-method", "wrong-arguments", "another-class", "unknown-class", "late"],
)
def test_whatever_is_called_of_an_object_that_a_console_does_not_see_the_answer_is_that_of_no_object(
    plant: Plant, key: ClassKey, method: str, arguments: bytes, age: int
) -> None:
    """The answer must not depend on what the object is, so nothing of the call is checked."""
    plant.is_read(pump())
    seen = ObjectId.parse(plant.objects()[-1].native_id)
    plant.unseen = {1}
    answers: list[list[Send]] = []
    records: list[OperationRequest] = []
    for object_id in (seen, ObjectId.of(sequence=0, number=0xDEAD)):
        request = write(MethodRequest(7, object_id, replace(key, hash=NO_HASH), method, arguments))
        delivery = Delivery("qmf.default.direct", "broker", request, "reply", USER, timestamp=plant.now - age)
        effects = plant.role.handle(delivery, plant.now)
        answers.append([one for one in effects if isinstance(one, Send)])
        records += [one.request for one in effects if isinstance(one, Submit)]
    assert answers[0] == answers[1]
    (reply,) = answers[0]
    assert b"UnknownObject" in reply.body
    # Both cost a record, which is made behind the answer, and names the object where there is one.
    assert [one.row for one in records] == [1, 0]
    assert {one.principal for one in records} == {Principal("qmf", USER, "agent")}
    assert [one.refusal and one.refusal.outcome for one in records] == [Outcome.OBJECT_GONE] * 2


def test_an_argument_that_means_an_object_that_the_console_does_not_see_means_no_object(plant: Plant) -> None:
    plant.is_read(pump(), pump("line-2#8"))
    first, second = map(ObjectId.parse, dict.fromkeys(one.native_id for one in plant.objects()))
    plant.unseen = {2}
    for number, other in enumerate((first, second, ObjectId.of(sequence=0, number=0xDEAD))):
        arguments = struct.pack(">QQ", other.prefix, other.number)
        request = write(MethodRequest(number, first, replace(PUMP.key, hash=NO_HASH), "join", arguments))
        delivery = Delivery("qmf.default.direct", "broker", request, "reply", USER)
        plant.do(plant.role.handle(delivery, plant.now))
    actions = [one.action for one in plant.requests]
    links = [one.arguments["other"] for one in actions if isinstance(one, InvokeMethod)]
    places = [(one.class_name, one.row) for one in links if isinstance(one, ObjectLink)]
    assert places == [("plant:pump", 1), ("", 0), ("", 0)]


def test_an_outcome_that_is_found_out_late_reaches_the_console(plant: Plant) -> None:
    plant.is_read(pump())
    plant.call(3)
    plant.answered(Outcome.UNKNOWN, "no answer in time")
    assert plant.answers == []
    settled = OperationRecord(
        1,
        "gw.1.o1",
        OperationKind.INVOKE,
        OperationState.SETTLED,
        Principal("qmf", USER),
        1,
        "plant:pump",
        1,
        *("line-1", "line-1"),
        found={"result": 5},
        outcome=Outcome.APPLIED,
    )
    plant.do(plant.role.take([settled], plant.now))
    assert [(one.outcome, one.outputs) for one in plant.answers] == [(Outcome.APPLIED, (5,))]


def test_calls_of_unknown_outcome_never_keep_others_from_being_made(plant: Plant) -> None:
    plant.is_read(pump())
    for number in range(300):
        plant.call(number)
        plant.answered(Outcome.UNKNOWN, "no answer in time", operation_id=f"gw.1.o{number}")
    assert len(plant.requests) == 300
    assert {one.outcome for one in plant.answers} == {Outcome.UNKNOWN}
    assert len(plant.answers) == 300 - 128


def test_a_read_that_is_not_answered_is_over(plant: Plant) -> None:
    plant.is_read(pump())
    target = plant.objects()[-1]
    fetch = ObjectFetch(4, target.key, "1.0", target.native_id, plant.now + 9 * SECOND)
    plant.console_does(plant.console.handle(fetch, plant.now))
    plant.answered(Outcome.UNKNOWN, "no answer in time")
    (answer,) = plant.answers
    assert answer.outcome is not Outcome.APPLIED
    assert "no answer in time" in answer.text


def test_a_console_that_asks_for_an_object_has_it_read_again(plant: Plant) -> None:
    plant.is_read(pump())
    target = plant.objects()[-1]
    fetch = ObjectFetch(4, target.key, "1.0", target.native_id, plant.now + 9 * SECOND)
    plant.console_does(plant.console.handle(fetch, plant.now))
    assert plant.requests[-1].action == ReadFresh()
    assert plant.requests[-1].principal.name == USER
    plant.answered(Outcome.APPLIED)
    assert [one.outcome for one in plant.answers] == [Outcome.APPLIED]
