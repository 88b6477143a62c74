"""The requests of a console that have no answer yet, found by message id, or as the only one."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.dialects.cml.console_tree import Known
from gateway.dialects.cml.messages import InspectReply, MethodReply, ModifyReply, Request
from gateway.dialects.outbox import NEVER
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome

REMEMBERED: Final = 1_000
"""Operations without an answer that are known still, the latest ones."""

Wanted: TypeAlias = MethodCall | ObjectModify | ObjectFetch
AboutObject: TypeAlias = InspectReply | ModifyReply | MethodReply


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """What users want done: sent once, or never.

    Attributes:
        wanted: what the console was given.
        known: the object.
        request: what is sent.
        reply: what answers it.
        body: of the request.
    """

    wanted: Wanted
    known: Known
    request: Request
    reply: type[AboutObject]
    body: bytes

    def answer(self, outcome: Outcome, text: str, code: int | None = None) -> Answer:
        """What came of it."""
        return Answer(self.wanted.token, outcome, text, code)


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A request that was sent.

    Attributes:
        known: the object asked about; ``None`` for the schema.
        operation: that it is part of; ``None`` where the session asks for itself.
        alongside: how many were in flight with it, itself among them.
        sent: when, nanoseconds.
        deadline: until when its answer is waited for.
    """

    message_id: str
    known: Known | None
    operation: Operation | None
    alongside: int
    sent: int
    deadline: int


class Requests:
    """All that were sent and are waited for; ids are a prefix and a number that is never used twice."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self._polls: OrderedDict[str, Asked] = (
            OrderedDict()
        )  # all have the same patience: in order of deadlines
        self._operations: dict[str, Asked] = {}
        self._unanswered: OrderedDict[str, Asked] = OrderedDict()

    def __len__(self) -> int:
        return len(self._polls) + len(self._operations)

    @property
    def operations(self) -> int:
        """How many operations are waited for."""
        return len(self._operations)

    def next_id(self) -> str:
        """An id for the next request."""
        return f"{self._prefix}{next(self._numbers)}"

    def add(self, asked: Asked) -> None:
        """It was sent: wait for its answer."""
        if asked.operation is None:
            self._polls[asked.message_id] = asked
        else:
            self._operations[asked.message_id] = asked

    def end(self, message_id: str) -> Asked | None:
        """It has its answer, or never left; ``None`` for what is not waited for, nor remembered."""
        asked = self._polls.pop(message_id, None)
        if asked is None:
            asked = self._operations.pop(message_id, None) or self._unanswered.pop(message_id, None)
        return asked

    def only(self) -> Asked | None:
        """The one that is waited for, where there is one."""
        return next(iter((*self._polls.values(), *self._operations.values())), None)

    def forget_polls(self) -> list[Asked]:
        """What the session asked for itself is not waited for any more."""
        forgotten = list(self._polls.values())
        self._polls.clear()
        return forgotten

    def overdue(self, now: int) -> list[Asked]:
        """Those whose time is over: they are waited for no longer."""
        late: list[Asked] = []
        while self._polls and next(iter(self._polls.values())).deadline <= now:
            late.append(self._polls.popitem(last=False)[1])
        over = [one for one in self._operations.values() if one.deadline <= now]
        return [*late, *self._give_up(over)]

    def abandon(self) -> list[Asked]:
        """The operations that are waited for: they are not any more, but known if an answer comes."""
        return self._give_up(list(self._operations.values()))

    def _give_up(self, given_up: list[Asked]) -> list[Asked]:
        for one in given_up:
            del self._operations[one.message_id]
            self._unanswered[one.message_id] = one
        while len(self._unanswered) > REMEMBERED:
            self._unanswered.popitem(last=False)
        return given_up

    @property
    def next_deadline(self) -> int:
        """When `overdue` has something to return."""
        first = next(iter(self._polls.values())).deadline if self._polls else NEVER
        return min((first, *(one.deadline for one in self._operations.values())))
