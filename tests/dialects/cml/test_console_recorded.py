"""The console with the recorded OpenAMQ: its observations, and the meaning of each recorded reply."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.console import ConsoleConfig
from gateway.dialects.cml.console_config import Budget
from gateway.dialects.cml.messages import InspectReply, MethodReply, ModifyReply, Received
from gateway.dialects.cml.session_state import State
from gateway.dialects.session import Effect
from gateway.model.observations import ObjectSeen, SourceState
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value
from tests.dialects.cml.console_story import reported, states
from tests.dialects.cml.playbook import ConsolePlay
from tests.dialects.cml.recorded_broker import answer
from tests.dialects.cml.recordings import exchanges, replies

PACKAGE = "openamq.org.server"
RUN = "2026-11-20T07:01+00:00"
CONFIG = ConsoleConfig(message_id_prefix="c-", budget=Budget(1_000, 8, 1))


def walked(config: ConsoleConfig = CONFIG) -> ConsolePlay:
    """Return a console that has walked the recorded broker."""
    play = ConsolePlay(config)
    play.connects()
    for _ in range(20):
        while play.waiting:
            send = play.waiting.popleft()
            play.arrives(answer(play.read(send)), send.message_id)
        play.time_passes(0.5, answering=False)
    play.stands(State.SYNCHRONISED)
    return play


def ref(number: int) -> Reference:
    return Reference(f"{RUN}/{number}")


@pytest.mark.parametrize(
    ("number", "class_name", "values"),
    [
        (0, "broker", ("OpenAMQ 1.4c1", RUN, False, "0K", "2K", 7, 4, 14, ref(1))),
        (4, "exchange", (ref(0), "amq.direct", "direct", 4, 33, 33, 0, 0)),
        (16, "binding", (ref(2), "auto.0", "", 1, True)),
        (22, "queue", (ref(0), "q.shared", 3, False, "", "", "", "", "", False, 0, 3, 0, 0, 0, 0)),
        (26, "queue_binding", (ref(22), "rk.shared", "amq.direct", "direct", "", False)),
        (
            14,
            "connection",
            (
                *(ref(0), "0-2", 0, "127.0.0.1:32826", "guest", "worker1", RUN, 3, 0, 0, 0),
                *("cmlprobe", "1", "python", "probe", 0),
            ),
        ),
        (19, "connection_queue", (ref(14), "auto.0", "0", True, "", "", "", "", True, 1, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_objects_are_observed_as_the_broker_showed_them(
    number: int, class_name: str, values: tuple[Value, ...]
) -> None:
    seen = [
        one for one in walked().left() if isinstance(one, ObjectSeen) and one.native_id == f"{RUN}/{number}"
    ]
    assert seen[0] == ObjectSeen(ClassKey(PACKAGE, class_name), "broker", f"{RUN}/{number}", 0, 0, 0, values)


def test_what_was_not_recorded_is_not_there() -> None:
    steps = walked().left()
    assert not [one for one in steps if isinstance(one, ObjectSeen) and one.deleted]
    assert states(steps)[-1].state is SourceState.SYNCHRONISED
    assert len(set(reported(steps))) == 28


def outcome_of(message: Received, own: type, number: int) -> Outcome:
    """Return the outcome of a request for ``own`` about object ``number``, given a recorded reply."""
    if not isinstance(message, own) or not isinstance(message, InspectReply | ModifyReply | MethodReply):
        return Outcome.UNKNOWN
    if message.object_id not in (None, number):
        return Outcome.UNKNOWN
    return {
        "ok": Outcome.APPLIED,
        "notfound": Outcome.OBJECT_GONE,
        "noaccess": Outcome.REMOTE_FAILURE,
        "invalid": Outcome.REMOTE_FAILURE,
    }[message.status]


def _fetched(play: ConsolePlay) -> list[Effect]:
    key, deadline = ClassKey(PACKAGE, "queue"), play.now + SECOND
    return play.session.handle(ObjectFetch(1, key, "broker", f"{RUN}/22", deadline), play.now)


def _set(play: ConsolePlay) -> list[Effect]:
    key, deadline = ClassKey(PACKAGE, "config"), play.now + SECOND
    wanted = ObjectModify(1, key, "broker", f"{RUN}/1", {"trace": 1}, deadline)
    return play.session.handle(wanted, play.now)


def _called(play: ConsolePlay) -> list[Effect]:
    key, deadline = ClassKey(PACKAGE, "broker"), play.now + SECOND
    wanted = MethodCall(1, key, "broker", f"{RUN}/0", "verbose", (True,), deadline)
    return play.session.handle(wanted, play.now)


@pytest.mark.parametrize(
    ("ask", "own", "number"),
    [(_fetched, InspectReply, 22), (_set, ModifyReply, 1), (_called, MethodReply, 0)],
)
def test_every_recorded_reply_says_what_became_of_an_operation(
    ask: Callable[[ConsolePlay], list[Effect]], own: type, number: int
) -> None:
    assert len(exchanges()) == 705
    play = walked()
    for body in replies():
        play.take(ask(play))
        play.left()
        request = play.waiting.pop()
        class_name = read_class(request.body)
        play.arrives(body, request.message_id)
        play.time_passes(0.5, answering=False)  # the effect of a call is read before its answer is given
        (given,) = [one for one in play.left() if isinstance(one, Answer)]
        message = read_message(body)
        assert given.outcome is outcome_of(message, own, number), body
        as_before = isinstance(message, own) and getattr(message, "class_name", "") == class_name
        if given.outcome is not Outcome.UNKNOWN and not as_before:
            play = walked()  # the object is gone, or is another one


def read_class(body: bytes) -> str:
    """Return the class of the object that a request is about."""
    return getattr(read_message(body), "class_name", "")


def test_requests_are_as_the_recorded_shell_sends_them() -> None:
    """Requests have the octets of the recorded shell, which sends no message id."""
    recorded = {each.request for each in exchanges() if each.by_shell}
    sent = {send.body for send in walked().sent}
    assert len(sent & recorded) > 10
