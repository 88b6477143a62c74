"""Calls and modifications as the gateway has them done: what a session refuses at once it can say before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from gateway.dialects.effects import Answered
from gateway.model.operations import Answer, MethodCall, ObjectModify


class AskedSession(Protocol):
    """A console session of any dialect."""

    def objection(self, request: MethodCall | ObjectModify, now: int) -> Answer | None: ...

    def call(self, call: MethodCall, now: int) -> Sequence[Any]: ...


def called(session: AskedSession, call: MethodCall, now: int) -> list[Any]:
    """What a call leads to; that it is refused at once has been foreseen, to the letter, and nothing else."""
    foreseen = session.objection(call, now)
    return as_foreseen(foreseen, call, session.call(call, now))


def as_foreseen(
    foreseen: Answer | None, request: MethodCall | ObjectModify, effects: Sequence[Any]
) -> list[Any]:
    """The same effects: they refuse what somebody objected to, and only that."""
    answers = [each.answer for each in effects if isinstance(each, Answered)]
    refused = [answer for answer in answers if answer.token == request.token]
    assert refused == ([] if foreseen is None else [foreseen])
    return list(effects)
