"""What operations want done: the only way out of the code without I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from gateway.feed.operations import OperationAnswer, OperationRecord
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify

ReplyTo: TypeAlias = Callable[[OperationAnswer], None]
"""Where the answer to a request goes; nothing here calls it."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell every north and the event log of an operation.

    Attributes:
        lasting: say by `OperationManager.recorded` when the log has it on the disk.
    """

    record: OperationRecord
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """Give a call, modification or fetch to the port of a source (its number), once."""

    source: int
    message: MethodCall | ObjectModify | ObjectFetch


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request, behind everything that was told before."""

    to: ReplyTo
    answer: OperationAnswer


Effect: TypeAlias = Tell | Send | Reply


class SourcePort(Protocol):
    """What carries calls, modifications and fetches to one source, each once, never again.

    Each is answered with its token, perhaps before the method returns: ``SOURCE_DOWN`` where it certainly was
    not sent, ``UNKNOWN`` at its deadline or when the link is lost after it was sent; after ``UNKNOWN``
    another answer may follow when it comes late. What each led to is observed before its answer is told.
    Answers go to `Operations.answered`.

    No method waits or raises.
    """

    def call(self, call: MethodCall) -> None:
        """Call a method."""
        ...

    def modify(self, modify: ObjectModify) -> None:
        """Set properties by a request of the dialect's own; ``READ_ONLY`` where it has none."""
        ...

    def fetch(self, fetch: ObjectFetch) -> None:
        """Read an object again."""
        ...

    def objection(self, request: MethodCall | ObjectModify) -> Answer | None:
        """What `call` or `modify` would answer at once if it were asked now; nothing is sent or changed.

        ``None`` where nothing that is known speaks against it.
        """
        ...


class Operations(Protocol):
    """Where sources take their calls from, and bring their answers to."""

    def connect(self, source: int, port: SourcePort) -> None:
        """From now on operations on objects of the source (its number) go through ``port``."""
        ...

    def answered(self, answer: Answer) -> None:
        """What came of a call, modification or fetch; to be given to a `Conversation` as ``answered``."""
        ...


class NoOperations:
    """Where there are none: in tests of sources."""

    def connect(self, source: int, port: SourcePort) -> None:
        """Nothing will ever be asked of it."""

    def answered(self, answer: Answer) -> None:
        """Nobody asked."""
