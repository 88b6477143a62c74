"""What an operation wants next as the message that goes to its source, and what speaks against sending it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify
from gateway.operations.operation import Operation
from gateway.operations.reconciler import fetch_of
from gateway.operations.refusals import Refusal
from gateway.operations.steps import CallNext, ModifyNext, ReadNext

Objection: TypeAlias = Callable[["MethodCall | ObjectModify"], "Answer | None"]
"""What a source would answer at once if this were asked of it now; ``None`` where it would send it."""


def message_of(
    operation: Operation, token: int, step: CallNext | ModifyNext | ReadNext
) -> MethodCall | ObjectModify | ObjectFetch | None:
    """The message of a step; ``None`` where the object cannot be named any more."""
    fetch = fetch_of(operation.plan.target, token, operation.deadline)
    if fetch is None or isinstance(step, ReadNext):
        return fetch
    which = (fetch.token, fetch.key, fetch.agent, fetch.native_id)
    if isinstance(step, ModifyNext):
        return ObjectModify(*which, step.values, fetch.deadline)
    return MethodCall(*which, step.method, step.arguments, fetch.deadline)


def check_with_source(operation: Operation, objection: Objection) -> None:
    """Whether the source would send what would be asked of it, the object being as it is known to be.

    Schema and policy know nothing of what a dialect, or a peer of it, cannot be told.

    Raises:
        Refusal: it would not.
    """
    for element, step in operation.foreseen():
        message = message_of(operation, 0, step)
        found = None if message is None or isinstance(message, ObjectFetch) else objection(message)
        if found is not None:
            raise Refusal(found.outcome, found.text, element)
