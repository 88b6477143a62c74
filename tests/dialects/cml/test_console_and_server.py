"""Console and server of CML with each other: the server's objects are observed, in either spelling."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.cml.console import ConsoleSession
from gateway.dialects.cml.messages import Spelling, Status
from gateway.dialects.cml.session_state import State
from gateway.dialects.session import (
    Answered,
    Called,
    Delivery,
    Effect,
    LinkUp,
    ModifyAsked,
    Observed,
    Send,
    TimerExpired,
    WakeAt,
)
from gateway.model.observations import EventSeen, ObjectSeen, Observation, Severity
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.times import SECOND
from gateway.model.values import Reference, Values
from tests.dialects.cml.console_story import CONFIG, key, native
from tests.dialects.cml.playbook import QUEUE, SCHEMA, START, STARTED
from tests.peers.cml_server import ServerConfig, ServerSession
from tests.peers.cml_server_objects import ServedObject

USER = "gateway"


class Pair:
    """A server with the shop's objects, its console, and the transport of their messages."""

    def __init__(self, spelling: Spelling, name: str = "orders", pending: int = 3) -> None:
        self.now = START
        self.wake_at = 0
        self.server = ServerSession(ServerConfig(spelling=spelling, writers=frozenset({USER})), SCHEMA)
        self.console = ConsoleSession(replace(CONFIG, spelling=spelling))
        self.observed: list[Observation] = []
        self.answers: list[Answer] = []
        self.asked: deque[Called | ModifyAsked] = deque()
        self.put(0, "broker", ("shop", STARTED, Reference("1")))
        self.put(1, "config", (Reference("0"), "shop.cfg", "5672", 4, None, None, None, None))
        self.put(7, "queue", (Reference("0"), name, pending, False))
        self.server.start()

    def put(self, number: int, class_name: str, values: Values) -> None:
        self.server.put(ServedObject(number, class_name, values))

    def carry(self, effects: list[Effect]) -> None:
        """Execute effects of both sessions until no message is under way."""
        under_way = deque(effects)
        while under_way:
            effect = under_way.popleft()
            match effect:
                case Send(exchange, routing_key, body):
                    delivery = Delivery(
                        exchange,
                        routing_key,
                        body,
                        effect.reply_to,
                        USER,
                        message_id=effect.message_id,
                        timestamp=self.now,
                        expiration=effect.lifetime(self.now),
                    )
                    receiver = self.server if exchange == "amq.system" else self.console
                    under_way += receiver.handle(delivery, self.now)
                case Observed(observations):
                    self.observed += observations
                case Answered(answer):
                    self.answers.append(answer)
                case Called() | ModifyAsked():
                    self.asked.append(effect)
                case WakeAt(time):
                    self.wake_at = time

    def walks(self) -> None:
        self.carry(self.console.handle(LinkUp(QUEUE), self.now))
        self.now += 3 * SECOND
        self.carry(self.console.handle(TimerExpired(), self.now))
        assert self.console.state is State.SYNCHRONISED

    def values(self, number: int) -> Values | None:
        """Return the properties of an object as observed last."""
        seen = [one for one in self.observed if isinstance(one, ObjectSeen)]
        return next((one.properties for one in reversed(seen) if one.native_id == native(number)), None)


@pytest.fixture(params=Spelling)
def pair(request: pytest.FixtureRequest) -> Pair:
    pair = Pair(request.param)
    pair.walks()
    return pair


@given(
    st.sampled_from(Spelling),
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co")), max_size=60),
    st.integers(0, 2**32 - 1),
)
def test_what_is_reported_is_observed(spelling: Spelling, name: str, pending: int) -> None:
    pair = Pair(spelling, name, pending)
    pair.walks()
    assert pair.values(0) == ("shop", STARTED, Reference(native(1)))
    assert pair.values(7) == (Reference(native(0)), name, pending, False)


def test_a_setting_is_carried_out_once_and_read_back(pair: Pair) -> None:
    deadline = pair.now + 5 * SECOND
    wanted = ObjectModify(1, key("config"), "broker", native(1), {"port": "5673", "limit": 9}, deadline)
    pair.carry(pair.console.handle(wanted, pair.now))
    (asked,) = pair.asked
    assert isinstance(asked, ModifyAsked)
    assert (asked.number, dict(asked.values), asked.user_id) == (1, {"port": "5673", "limit": 9}, USER)
    assert not pair.answers
    pair.put(1, "config", (Reference("0"), "shop.cfg", "5673", 9, None, None, None, None))
    pair.carry(pair.server.done(asked.handle, Status.OK, pair.now, "restart the broker"))
    pair.carry(pair.console.handle(ObjectFetch(2, key("config"), "broker", native(1), deadline), pair.now))
    assert pair.answers == [
        Answer(1, Outcome.APPLIED, "restart the broker", 0),
        Answer(2, Outcome.APPLIED, "", 0),
    ]
    read = pair.values(1)
    assert read is not None
    assert read[2:4] == ("5673", 9)


def test_a_method_that_fails_says_why() -> None:
    """The reason needs the specification's spelling: OpenAMQ's replies have no notice beside a failure."""
    pair = Pair(Spelling.SPECIFICATION)
    pair.walks()
    call = MethodCall(1, key("broker"), "broker", native(0), "lock", (True,), pair.now + 5 * SECOND)
    pair.carry(pair.console.handle(call, pair.now))
    (asked,) = pair.asked
    assert isinstance(asked, Called)
    assert (asked.method, asked.arguments) == ("lock", (True,))
    pair.carry(pair.server.done(asked.handle, Status.INVALID, pair.now, "it is locked already"))
    assert pair.answers == [Answer(1, Outcome.REMOTE_FAILURE, "it is locked already", 3)]


def test_what_ends_at_the_server_ends_at_the_console(pair: Pair) -> None:
    pair.server.delete(7)
    call = MethodCall(1, key("queue"), "broker", native(7), "purge", (), pair.now + 5 * SECOND)
    pair.carry(pair.console.handle(call, pair.now))
    assert pair.answers[0].outcome is Outcome.OBJECT_GONE
    end = pair.observed[-1]
    assert isinstance(end, ObjectSeen)
    assert (end.native_id, end.deleted) == (native(7), pair.now)


@pytest.mark.parametrize(
    ("severity", "received"),
    [
        (Severity.CRITICAL, Severity.MAJOR),
        (Severity.WARNING, Severity.WARNING),
        (Severity.INFO, Severity.INFO),
    ],
)
def test_notices_of_the_server_arrive(pair: Pair, severity: Severity, received: Severity) -> None:
    pair.carry(pair.server.notify(severity, "queue exceeded configured limit of 5000."))
    event = EventSeen(
        key("notify"), "broker", pair.now, received, ("queue exceeded configured limit of 5000.",)
    )
    assert pair.observed[-1] == event
