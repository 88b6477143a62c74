"""Console sessions before AM2 as plays: steps that arrive and must leave, with a clock that tests move.

A step that leaves is one of: ``(routing key, message)`` for a message sent, an observation, an answer, the
name of a note, or a request to bind again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from uuid import UUID

from gateway.dialects.qmf.am01.codec import read, write
from gateway.dialects.qmf.am01.console import Am01ConsoleConfig, Am01ConsoleSession
from gateway.dialects.qmf.am01.keys import content_key
from gateway.dialects.qmf.am01.messages import (
    ALL,
    BROADCASTING,
    AgentIdentity,
    ClassDescription,
    Message,
    Received,
    Revision,
)
from gateway.dialects.qmf.console_requests import REQUEST_SEQUENCES
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    MethodResponse,
    ObjectContent,
    PackageIndication,
    PropertyContent,
    StatisticContent,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import (
    Answered,
    Delivery,
    Effect,
    LinkDown,
    LinkUp,
    Note,
    Observed,
    Rebind,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.model.observations import ClassLearned, Observation
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from gateway.model.values import Value
from tests.dialects.foreseen import as_foreseen, called
from tests.dialects.qmf.am01.examples import KEY, NAMED_KEY, OBJECT_ID, PROPERTIES, STATISTICS, shop
from tests.dialects.qmf.playbook import AGENT_USER, QUEUE, START

BROKER = UUID(int=1)
NEXT_BROKER = UUID(int=2)
FIRST = REQUEST_SEQUENCES + 1
"""The number of a console's first operation."""
RECEIVED = (Revision.DESIGN_NOTES, Revision.NOVEMBER_2007, Revision.JANUARY_2008)
"""The revisions whose agents answer no requests but calls."""
NONE_RECEIVED = (
    "nothing received on exchange qpid.management for 12 s: is an agent running there, and does it notice "
    "that a queue is bound?"
)

Step: TypeAlias = tuple[str, Received] | Observation | Answer | Rebind | str


class Play:
    """A console session; the messages of its agent are written in the form of ``revision``."""

    def __init__(
        self, revision: Revision, settings: Mapping[str, object] | None = None, *, known: bool = True
    ) -> None:
        config = Am01ConsoleConfig(
            trusted_users=frozenset({AGENT_USER}),
            package="shop",
            revisions=frozenset((revision,)) if known else ALL,
        )
        self.session = Am01ConsoleSession(replace(config, **settings or {}))  # type: ignore[arg-type]  # its fields
        self.revision = revision
        self.now = START
        self.wake_at = 0
        self.sent: list[Send] = []
        self.reported: list[Observation] = []
        self._known = shop()
        self._steps: list[Step] = []

    @property
    def key(self) -> ClassKey:
        """The key of the tank's class in the messages of the agent."""
        return NAMED_KEY if self.revision in BROADCASTING else KEY

    @property
    def class_key(self) -> ClassKey:
        """The key of the class as the console reported it last."""
        return next(one.schema.key for one in reversed(self.reported) if isinstance(one, ClassLearned))

    # What happens.

    def take(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case WakeAt(time):
                    self.wake_at = time
                case Send():
                    self.sent.append(effect)
                    self._steps.append((effect.routing_key, self.read(effect)))
                case Observed(observations):
                    self.reported.extend(observations)
                    self._steps.extend(observations)
                case Answered(answer):
                    self._steps.append(answer)
                case Note(event):
                    self._steps.append(event)
                case Rebind():
                    self._steps.append(effect)
                case _:
                    raise AssertionError(effect)

    def read(self, send: Send) -> Received:
        return read(send.routing_key, send.body, self._known).message

    def connects(self) -> None:
        self.take(self.session.handle(LinkUp(QUEUE), self.now))

    def disconnects(self) -> None:
        self.take(self.session.handle(LinkDown("connection reset"), self.now))

    def arrives(self, *messages: Message, key: str = QUEUE, user: str = AGENT_USER) -> None:
        """Pass messages to the session, one in each body."""
        for message in messages:
            self.arrives_octets(write(message, self.revision, self._known, extended=True), key=key, user=user)

    def arrives_octets(self, body: bytes, key: str = QUEUE, user: str = AGENT_USER) -> None:
        exchange = "amq.direct" if key == QUEUE else "qpid.management"
        self.take(self.session.handle(Delivery(exchange, key, body, user_id=user), self.now))

    def publishes(self, *messages: PropertyContent | StatisticContent | ClassDescription) -> None:
        """Pass messages that the agent publishes unasked."""
        for message in messages:
            kind = "inst" if isinstance(message, StatisticContent) else "config"
            kind = "schema" if isinstance(message, ClassDescription) else kind
            key = message.definition.key if isinstance(message, ClassDescription) else message.key
            self.arrives(message, key=content_key(self.revision, kind, key, BROKER))

    def time_passes(self, seconds: float) -> None:
        """Advance the clock, and wake the session whenever it asked to be woken."""
        until = self.now + int(seconds * SECOND)
        while self.now < self.wake_at <= until:
            self.now = self.wake_at
            self.take(self.session.handle(TimerExpired(), self.now))
        self.now = until

    def leaves(self, *expected: Step) -> None:
        """Assert that these steps are all that left since the last time."""
        steps, self._steps = self._steps, []
        assert steps == list(expected)

    def left(self) -> list[Step]:
        """Return all that left since the last time, for tests that look at a part of it."""
        steps, self._steps = self._steps, []
        return steps

    def message(self) -> tuple[str, Received]:
        """Return the message that is the only step that left."""
        (step,) = self.left()
        assert isinstance(step, tuple)
        return step

    def answers(self) -> list[Answer]:
        return [step for step in self.left() if isinstance(step, Answer)]

    def notes(self) -> list[str]:
        return [step for step in self.left() if isinstance(step, str)]

    # What the agent says.

    def described(self, sequence: int = 0) -> ClassDescription:
        definition = self._known.find_class(self.key)
        assert isinstance(definition, ClassDefinition)
        event = next(
            one for one in self._known if isinstance(one, EventDefinition) and one.key.hash == self.key.hash
        )
        return ClassDescription(sequence, definition, (event,))

    def config(self, deleted: int = 0, object_id: ObjectId = OBJECT_ID) -> PropertyContent:
        return PropertyContent(0, self.key, START, START, deleted, object_id, PROPERTIES)

    def inst(self, deleted: int = 0, object_id: ObjectId = OBJECT_ID) -> StatisticContent:
        return StatisticContent(0, self.key, START, START, deleted, object_id, None, STATISTICS)

    def got(self, sequence: int, object_id: ObjectId = OBJECT_ID) -> ObjectContent:
        return ObjectContent(sequence, self.key, START, START, 0, object_id, PROPERTIES, STATISTICS)

    def listed(self) -> None:
        """Connect, and answer everything up to the objects, which are awaited next."""
        self.connects()
        match self.revision:
            case Revision.MARCH_2008:
                self.arrives(BrokerResponse(1, BROKER))
                self.arrives(PackageIndication(2, "shop"), CommandComplete(2))
                self.arrives(ClassIndication(3, ClassKind.OBJECT, KEY), CommandComplete(3))
                self.arrives(self.described(4))
            case Revision.FEBRUARY_2008:
                self.arrives(AgentIdentity("Broker ID"), PackageIndication(0, "shop"))
                self.arrives(ClassIndication(0, ClassKind.OBJECT, KEY), self.described())
                self.time_passes(2)
            case _:
                self.publishes(self.described())
        self.left()

    def synchronised(self) -> None:
        """Bring the session to the state in which the one tank and the agent's revision are known."""
        self.listed()
        if self.revision is Revision.MARCH_2008:
            self.arrives(self.got(5), CommandComplete(5))
        else:
            if self.revision is Revision.FEBRUARY_2008:
                self.arrives(self.described())
            self.publishes(self.config(), self.inst())
            if len(self.session.revisions) > 1:
                self.arrives(MethodResponse(0, 1, "UnknownObject"))
            self.time_passes(12)
        assert self.session.state is State.SYNCHRONISED
        self.left()

    # What users want.

    def calls(self, token: int = 1, seconds: float = 10, changes: Mapping[str, object] | None = None) -> None:
        call = MethodCall(
            token, self.class_key, "1.0", str(OBJECT_ID), "drain", (7, "ab"), self.now + int(seconds * SECOND)
        )
        changed = replace(call, **changes or {})  # type: ignore[arg-type]  # its fields
        self.take(called(self.session, changed, self.now))

    def modifies(self, values: dict[str, Value | None], token: int = 1, seconds: float = 10) -> None:
        deadline = self.now + int(seconds * SECOND)
        modify = ObjectModify(token, self.class_key, "1.0", str(OBJECT_ID), values, deadline)
        foreseen = self.session.precheck(modify, self.now)
        self.take(as_foreseen(foreseen, modify, self.session.handle(modify, self.now)))

    def fetches(self, token: int = 1, seconds: float = 30) -> None:
        deadline = self.now + int(seconds * SECOND)
        fetch = ObjectFetch(token, self.class_key, "1.0", str(OBJECT_ID), deadline)
        self.take(self.session.handle(fetch, self.now))


def synchronised(revision: Revision, settings: Mapping[str, object] | None = None) -> Play:
    """Return a play whose console knows the one tank."""
    play = Play(revision, settings)
    play.synchronised()
    return play
