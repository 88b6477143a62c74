"""Helpers for plays of calls and fetches."""

from __future__ import annotations

import struct
from dataclasses import replace

from gateway.dialects.qmf.codec import read_body
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassKind,
    CommandComplete,
    MethodRequest,
    PackageIndication,
    SchemaResponse,
)
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import Send
from gateway.model.operations import Answer, MethodCall, ObjectFetch, Outcome
from gateway.model.times import SECOND
from tests.dialects.foreseen import called
from tests.dialects.qmf.console_story import got
from tests.dialects.qmf.examples import OBJECT_ID, TANK, shop
from tests.dialects.qmf.playbook import BROKER, ConsolePlay

FIRST = (1 << 31) + 1
"""The sequence number of a console's first operation."""
AGENT_KEY = "agent.1.0"
ARGUMENTS = b"\0\0\0\x07\x02ab"
"""The arguments of ``drain(7, "ab")``."""
OUTPUTS = struct.pack(">d", 2.5) + b"\x02cd"
UNANSWERED = "no answer came in time: it may have been carried out, or may still be"


def drain(play: ConsolePlay, token: int = 1, seconds: float = 10, **changes: object) -> MethodCall:
    deadline = play.now + int(seconds * SECOND)
    call = MethodCall(token, TANK.key, "1.0", str(OBJECT_ID), "drain", (7, "ab"), deadline)
    return replace(call, **changes)  # type: ignore[arg-type]  # fields of it


def calls(play: ConsolePlay, call: MethodCall | None = None) -> None:
    play.take(called(play.session, call or drain(play), play.now))


def fetches(play: ConsolePlay, token: int = 1, seconds: float = 10, **changes: object) -> None:
    fetch = ObjectFetch(token, TANK.key, "1.0", str(OBJECT_ID), play.now + int(seconds * SECOND))
    play.take(play.session.handle(replace(fetch, **changes), play.now))  # type: ignore[arg-type]  # as above


def request(sequence: int = FIRST) -> tuple[str, MethodRequest]:
    return AGENT_KEY, MethodRequest(sequence, OBJECT_ID, TANK.key, "drain", ARGUMENTS)


def unanswered(token: int = 1, text: str = UNANSWERED) -> Answer:
    return Answer(token, Outcome.UNKNOWN, text)


def only_call(play: ConsolePlay) -> Send:
    """Return the only message that was sent as a call."""
    (call,) = [one for one in play.sent if one.not_after]
    return call


def listed_again(play: ConsolePlay, *, connect: bool = False) -> None:
    """Answer all requests as they are sent, until the console is synchronised."""
    if connect:
        play.connects()
    answered = len([one for one in play.sent if not one.not_after]) - 1
    while play.session.state is not State.SYNCHRONISED:
        requests = [one for one in play.sent if not one.not_after]
        assert answered < len(requests)
        (message,) = read_body(requests[answered].body, shop())
        answered += 1
        sequence = message.sequence
        if isinstance(message, BrokerRequest):
            play.arrives(BrokerResponse(sequence, BROKER))
        elif type(message).__name__ == "SchemaRequest":
            play.arrives(SchemaResponse(sequence, ClassDefinition.of(TANK)))
        else:
            answers = {
                "PackageQuery": PackageIndication(sequence, "shop"),
                "ClassQuery": ClassIndication(sequence, ClassKind.OBJECT, TANK.key),
                "GetQuery": got(sequence),
            }
            play.arrives(answers[type(message).__name__])  # type: ignore[arg-type]  # one of them
            play.arrives(CommandComplete(sequence))
