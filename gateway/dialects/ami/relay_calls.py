"""Calls of commands that an application has not answered yet.

Each is sent once and answered once. One that is not answered in time is known a while longer: a late
answer still tells what became of it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from gateway.dialects.ami.instructions import Response, ResponseStatus
from gateway.dialects.ami.relay_commands import Unseen
from gateway.dialects.ami.relay_tables import Row
from gateway.model.operations import Answer, MethodCall, Outcome
from gateway.model.secrets import SecretRules
from gateway.model.texts import one_line
from gateway.model.values import Value

REMEMBERED: Final = 1_000
"""Calls without an answer that are known still, the latest ones."""
_DONE: Final = frozenset((ResponseStatus.OKAY, ResponseStatus.CLOSE_AND_UPDATE))
"""The others tell what becomes of a dialog, and not whether something was done."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that was sent.

    Attributes:
        call: what the session was given.
        connection: number of the one that it went over.
        deadline: nanoseconds.
        row: the one object that it is about; ``None`` where there is none, or there are several.
        unseen: what was typed so for it.
    """

    call: MethodCall
    connection: int
    deadline: int
    row: Row | None
    unseen: Unseen


class Calls:
    """The calls of a session.

    Args:
        limit: those that are waited for at once.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._number = 0
        self._open: dict[str, OpenCall] = {}
        self._late: OrderedDict[str, OpenCall] = OrderedDict()

    @property
    def is_full(self) -> bool:
        """Whether no more can be waited for."""
        return len(self._open) >= self._limit

    @property
    def next_id(self) -> str:
        """A request id that was never used; the same until `begin` uses it."""
        return f"g{self._number + 1}"

    def begin(self, request_id: str, call: OpenCall) -> None:
        """Wait for the answer to this, whose id is `next_id`."""
        self._number += 1
        self._open[request_id] = call

    def find(self, request_id: str, connection: int) -> OpenCall | None:
        """The call that is open on a connection, or was given up."""
        found = self._open.get(request_id) or self._late.get(request_id)
        return found if found is not None and found.connection == connection else None

    def end(self, request_id: str) -> None:
        """It is answered."""
        self._open.pop(request_id, None)
        self._late.pop(request_id, None)

    def overdue(self, now: int) -> list[Answer]:
        """Answers for those whose time is over."""
        late = {request_id: one for request_id, one in self._open.items() if one.deadline <= now}
        for request_id in late:
            del self._open[request_id]
        self._late.update(late)
        while len(self._late) > REMEMBERED:
            self._late.popitem(last=False)
        text = "the application has not answered in time"
        return [Answer(one.call.token, Outcome.UNKNOWN, text) for one in late.values()]

    def abandon(self, connection: int, reason: str) -> list[Answer]:
        """Answers for those that went over a connection, which is over."""
        lost = [request_id for request_id, one in self._open.items() if one.connection == connection]
        for request_id in [one for one, late in self._late.items() if late.connection == connection]:
            del self._late[request_id]
        text = f"the connection ended before an answer came: {reason}"
        return [Answer(self._open.pop(one).call.token, Outcome.UNKNOWN, text) for one in lost]

    @property
    def next_deadline(self) -> int:
        """When `overdue` has something to return; 0 for never."""
        return min((one.deadline for one in self._open.values()), default=0)


def answer(call: OpenCall, response: Response, values: dict[str, Value], secrets: SecretRules) -> Answer:
    """What a response says of a call.

    Status 0 is okay, and 3 closes the dialog and changes the row: it was done. 1 and 2 close the dialog or
    keep it open, for whatever reason, and others are nowhere told: nobody can say what was done.
    """
    text = one_line(secrets.masked_uris(response.text or ""))
    outcome = Outcome.APPLIED if response.status in _DONE else Outcome.UNKNOWN
    if outcome is Outcome.UNKNOWN:
        text = f"answered with status {response.status}, which does not tell whether it was done: {text}"
    return Answer(call.call.token, outcome, text.rstrip(": "), response.status, (values or None,))
