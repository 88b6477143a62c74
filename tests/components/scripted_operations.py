"""Scripted answers to the requests of front ends, for tests with a real feed and no core."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.feed.operations import OperationAnswer, OperationRequest
from gateway.feed.server import Reply
from gateway.model.operations import Outcome
from tests.components.waiting import eventually

Script = Callable[[OperationRequest], OperationAnswer | None]
"""A function that returns the answer to a request, or ``None`` to leave it to `ScriptedOperations.answer`."""


def applied(request: OperationRequest) -> OperationAnswer:
    """Answer that the operation was applied."""
    operation_id = "" if request.check_only else f"gw.1.o{request.request}"
    return OperationAnswer(request.request, operation_id, Outcome.APPLIED)


def nothing(_: OperationRequest) -> None:
    """Leave the request unanswered."""


class ScriptedOperations:
    """An operation handler for a `FeedServer` (its ``asked``).

    Args:
        script: returns the immediate answer; its number is set to the request's.

    Attributes:
        requests: the requests in the order in which they arrived.
    """

    def __init__(self, script: Script = applied) -> None:
        self.script = script
        self.requests: list[OperationRequest] = []
        self._replies: dict[int, Reply] = {}

    def asked(self, request: OperationRequest, reply: Reply) -> None:
        """Take a request of a front end."""
        self.requests.append(request)
        self._replies[len(self.requests) - 1] = reply
        answer = self.script(request)
        if answer is not None:
            self.answer(len(self.requests) - 1, answer)

    def answer(self, index: int, answer: OperationAnswer) -> None:
        """Answer the request at ``index`` of `requests`."""
        self._replies.pop(index)(msgspec.structs.replace(answer, request=self.requests[index].request))

    async def until_asked(self, count: int) -> None:
        """Wait until so many requests have arrived."""

        async def has_arrived() -> bool:
            return len(self.requests) >= count

        await eventually(has_arrived, f"{count} requests")
