"""Effects of operations, which are all that the rest of the core carries out, and the port of a source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from gateway.feed.operations import OperationAnswer, OperationRecord
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify

ReplyTo: TypeAlias = Callable[[OperationAnswer], None]
"""Takes the answer to a request; nothing in this package calls it."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish a record of an operation to all front ends and to the event log.

    Attributes:
        lasting: call `OperationManager.recorded` when the log has the record on the disk.
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
    """Answer a request, behind all records that were published before."""

    to: ReplyTo
    answer: OperationAnswer


Effect: TypeAlias = Publish | Send | Reply


class SourcePort(Protocol):
    """Carries calls, modifications and fetches to one source, each at most once.

    Each is answered with its token, perhaps before the method returns: ``SOURCE_DOWN`` where it certainly was
    not sent, ``UNKNOWN`` at its deadline or when the link is lost after it was sent. Another answer
    may follow an ``UNKNOWN``. The observations that an operation led to precede its answer. Answers go to
    `OperationManager.answered`.

    No method waits or raises.
    """

    def call(self, call: MethodCall) -> None:
        """Call a method."""
        ...

    def modify(self, modify: ObjectModify) -> None:
        """Set properties by a request of the dialect's own; ``READ_ONLY`` where the dialect has none."""
        ...

    def fetch(self, fetch: ObjectFetch) -> None:
        """Read an object again."""
        ...

    def precheck(self, request: MethodCall | ObjectModify) -> Answer | None:
        """Return the answer that `call` or `modify` would give at once; nothing is sent or changed.

        ``None`` where nothing that is known speaks against the request.
        """
        ...


class Operations(Protocol):
    """The operations of the core, as a source sees them."""

    def connect(self, source: int, port: SourcePort) -> None:
        """Send operations on objects of the source (its number) through ``port`` from now on."""
        ...

    def answered(self, answer: Answer) -> None:
        """Take the answer to a call, modification or fetch."""
        ...


class NoOperations:
    """Operations for tests of sources: there are none."""

    def connect(self, source: int, port: SourcePort) -> None:
        """Nothing will ever be asked of the source."""

    def answered(self, answer: Answer) -> None:
        """Nothing was asked."""
