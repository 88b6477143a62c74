"""Helpers for plays of the CML console session: initial states, and the notation of observations."""

from __future__ import annotations

from gateway.dialects.cml.console import ConsoleConfig
from gateway.dialects.cml.console_config import Intervals
from gateway.dialects.cml.session_state import State
from gateway.model.observations import ObjectSeen, SourceState, SourceStateSeen
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value
from tests.dialects.cml.playbook import STARTED, ConsolePlay, Shop, Step, shop

UNSEEN = "what comes and goes between two looks is not seen"
CONNECTING = SourceStateSeen(SourceState.CONNECTING, "asking for the schema on exchange amq.system")
SYNCHRONISING = SourceStateSeen(SourceState.SYNCHRONISING)
SYNCHRONISED = SourceStateSeen(SourceState.SYNCHRONISED, UNSEEN)
MAY_BE_DONE = "it may have been carried out, or may still be"
CONFIG = ConsoleConfig(message_id_prefix="c-", intervals=Intervals({"broker": 5 * SECOND}, 20 * SECOND))


def native(number: int, run: str = STARTED) -> str:
    """Return the native id of the object of a number."""
    return f"{run}/{number}" if run else str(number)


def key(class_name: str) -> ClassKey:
    return ClassKey("shop", class_name)


def seen(
    number: int, class_name: str, *values: Value | None, parent: int | None = 0, run: str = STARTED
) -> ObjectSeen:
    """Return the observation of an object."""
    own = values if parent is None else (Reference(native(parent, run)), *values)
    return ObjectSeen(key(class_name), "broker", native(number, run), 0, 0, 0, own)


def gone(number: int, class_name: str, now: int, run: str = STARTED) -> ObjectSeen:
    """Return the observation of the end of an object."""
    return ObjectSeen(key(class_name), "broker", native(number, run), 0, 0, now)


def the_broker(run: str = STARTED, started: str = STARTED, name: str = "shop") -> ObjectSeen:
    """Return the observation of the shop's broker."""
    config = Reference(native(1, run))
    return ObjectSeen(key("broker"), "broker", native(0, run), 0, 0, 0, (name, started, config))


def synchronised(config: ConsoleConfig = CONFIG, broker: Shop | None = None) -> ConsolePlay:
    """Return a console that has walked the shop's tree."""
    play = ConsolePlay(config, broker or shop())
    play.connects()
    play.time_passes(2)
    play.stands(State.SYNCHRONISED)
    play.left()
    return play


def reported(steps: list[Step]) -> list[str]:
    """Return the numbers of the objects that were observed, ``-`` before those that ended, in order."""
    return [
        f"{'-' if one.deleted else ''}{one.native_id.rpartition('/')[2]}"
        for one in steps
        if isinstance(one, ObjectSeen)
    ]


def states(steps: list[Step]) -> list[SourceStateSeen]:
    """Return the observed states of the source."""
    return [one for one in steps if isinstance(one, SourceStateSeen)]


def fetch(play: ConsolePlay, number: int, class_name: str, token: int = 1, seconds: float = 5) -> ObjectFetch:
    """Return a request to read an object again."""
    return ObjectFetch(token, key(class_name), "broker", native(number), play.now + int(seconds * SECOND))


def modify(
    play: ConsolePlay,
    number: int,
    class_name: str,
    token: int = 1,
    seconds: float = 5,
    **values: Value | None,
) -> ObjectModify:
    """Return a request to set fields."""
    deadline = play.now + int(seconds * SECOND)
    return ObjectModify(token, key(class_name), "broker", native(number), values, deadline)


def call(
    play: ConsolePlay, number: int, class_name: str, method: str, *arguments: Value | None, token: int = 1
) -> MethodCall:
    """Return a request to call a method."""
    deadline = play.now + 5 * SECOND
    return MethodCall(token, key(class_name), "broker", native(number), method, arguments, deadline)


def answer(play: ConsolePlay) -> Answer:
    """Return the only answer that left since the last time."""
    (one,) = [step for step in play.left() if isinstance(step, Answer)]
    return one
