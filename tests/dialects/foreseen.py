"""Calls and modifications with their precheck: an immediate refusal is known before the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.dialects.session import Answered, ConsoleSession
from gateway.model.operations import Answer, MethodCall, ObjectModify


def called(session: ConsoleSession, call: MethodCall, now: int) -> list[Any]:
    """Return the effects of a call; assert that its precheck predicts an immediate refusal exactly."""
    foreseen = session.precheck(call, now)
    return as_foreseen(foreseen, call, session.handle(call, now))


def as_foreseen(
    foreseen: Answer | None, request: MethodCall | ObjectModify, effects: Sequence[Any]
) -> list[Any]:
    """Return the effects; assert that they refuse the request exactly if the precheck did."""
    answers = [each.answer for each in effects if isinstance(each, Answered)]
    refused = [answer for answer in answers if answer.token == request.token]
    assert refused == ([] if foreseen is None else [foreseen])
    return list(effects)
