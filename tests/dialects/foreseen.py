"""Calls and modifications as the gateway has them done: what a session refuses at once it can say before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.dialects.session import Answered, ConsoleSession
from gateway.model.operations import Answer, MethodCall, ObjectModify


def called(session: ConsoleSession, call: MethodCall, now: int) -> list[Any]:
    """What a call leads to; that it is refused at once has been foreseen, to the letter, and nothing else."""
    foreseen = session.precheck(call, now)
    return as_foreseen(foreseen, call, session.handle(call, now))


def as_foreseen(
    foreseen: Answer | None, request: MethodCall | ObjectModify, effects: Sequence[Any]
) -> list[Any]:
    """The same effects: they refuse what somebody objected to, and only that."""
    answers = [each.answer for each in effects if isinstance(each, Answered)]
    refused = [answer for answer in answers if answer.token == request.token]
    assert refused == ([] if foreseen is None else [foreseen])
    return list(effects)
