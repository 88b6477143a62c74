"""The way from operations to the console session of a source."""

from __future__ import annotations

from typing import Protocol

from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify


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
