"""What a console was given to do: each call or fetch is sent once, answered once, and known a while longer.

A late answer still tells what became of it. Operations are numbered apart from all other requests, which are
asked again and again, and do not wait behind them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.dialects.outbox import NEVER
from gateway.dialects.qmf.console_requests import REQUEST_SEQUENCES
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.object_id import ObjectId
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome

REMEMBERED: Final = 1_000
"""Operations without an answer that are known still, the latest ones."""

OperationRequest: TypeAlias = MethodCall | ObjectModify | ObjectFetch
"""What a console can be given; `ObjectModify` only before AM2, which has no such request."""


@dataclass(slots=True)
class Operation:
    """A call or fetch that was sent, or is about to be.

    Attributes:
        request: what the console was given.
        definition: of the object's class.
        object_id: of the object.
        found: whether a fetch was told of the object already.
        trouble: what of the answer to a fetch could not be understood.
    """

    request: OperationRequest
    definition: ClassDefinition
    object_id: ObjectId
    found: bool = False
    trouble: str = ""

    def answer(self, outcome: Outcome, text: str, code: int | None = None) -> Answer:
        """What came of it, without outputs."""
        return Answer(self.request.token, outcome, text, code)


class Operations:
    """The operations of a session.

    Args:
        limit: those that wait for an answer at once.
        first_sequence: as of `Requests`.
    """

    def __init__(self, limit: int, first_sequence: int) -> None:
        self.limit = limit
        self._number = first_sequence % REQUEST_SEQUENCES
        self._pending: dict[int, Operation] = {}
        self._unanswered: OrderedDict[int, Operation] = OrderedDict()

    @property
    def is_full(self) -> bool:
        """Whether no more can wait for an answer."""
        return len(self._pending) >= self.limit

    def begin(self, operation: Operation) -> int:
        """Wait for an answer from now on; returns the sequence number to ask with."""
        self._number = (self._number + 1) % REQUEST_SEQUENCES
        sequence = REQUEST_SEQUENCES + self._number
        self._pending[sequence] = operation
        return sequence

    def find(self, sequence: int) -> Operation | None:
        """The operation of this number that has no answer yet."""
        return self._pending.get(sequence) or self._unanswered.get(sequence)

    def end(self, sequence: int) -> Operation | None:
        """It has its answer; ``None`` where there is no such operation, or not any more."""
        operation = self._pending.pop(sequence, None)
        return operation or self._unanswered.pop(sequence, None)

    def overdue(self, now: int) -> list[Operation]:
        """Those whose time is over since the last call: they are waited for no longer."""
        return self._give_up([one for one, what in self._pending.items() if what.request.deadline <= now])

    def abandon(self) -> list[Operation]:
        """All that are waited for: they are not any more."""
        return self._give_up(list(self._pending))

    def _give_up(self, sequences: list[int]) -> list[Operation]:
        given_up = [self._pending.pop(sequence) for sequence in sequences]
        self._unanswered.update(zip(sequences, given_up, strict=True))
        while len(self._unanswered) > REMEMBERED:
            self._unanswered.popitem(last=False)
        return given_up

    @property
    def next_deadline(self) -> int:
        """When `overdue` has something to return."""
        return min((one.request.deadline for one in self._pending.values()), default=NEVER)
