"""What a link needs of the protection of bodies (`gateway.protection.bodies`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gateway.dialects.session import Delivery, Note, Send


class Verified(Protocol):
    """A message that a trusted sender signed, which is not accepted yet; times are nanoseconds."""

    @property
    def delivery(self) -> Delivery:
        """The message as its sender signed it."""
        ...

    @property
    def identity(self) -> str:
        """What no other message has, and no broker can change."""
        ...

    def accept(self, now: int, *, waited: bool) -> Delivery | Note:
        """Accept it, or return a note if it is refused.

        Args:
            now: nanoseconds since 1970.
            waited: whether what waited in a durable queue is being read.
        """
        ...

    def has_waited(self, now: int) -> bool:
        """Return whether it would be accepted only as one that waited in a durable queue."""
        ...

    def remember(self, *, is_replay: bool) -> Note | None:
        """Remember it, because the event log has what followed from it; return a note if it was replayed.

        Args:
            is_replay: whether it came again, and not because it was not acknowledged.
        """
        ...


class Protection(Protocol):
    """Seals and opens the bodies of one conversation."""

    def seal(self, send: Send, user: str, now: int) -> Send | Note:
        """Return the message to publish instead; a note if it cannot be protected, and must not be sent.

        Args:
            send: a message of the session.
            user: the user of the connection that it is published on.
            now: nanoseconds since 1970.
        """
        ...

    def open(self, delivery: Delivery, now: int) -> Delivery | Note | None:
        """Return the message that its sender protected; a note if it is refused. ``now`` is nanoseconds.

        Returns ``None`` for a message of this side itself, which nothing is done with.
        """
        ...

    def verify(self, delivery: Delivery, now: int) -> Verified | Note | None:
        """Return a message of a durable queue that a trusted sender signed; otherwise what `open` does."""
        ...

    def backlog_follows(self) -> bool:
        """Note that what waited in a durable queue is read next; return whether it can be accepted."""
        ...

    def commit(self, now: int) -> Callable[[], None]:
        """Return what brings all acceptances so far to the disk, for another thread; it raises `OSError`."""
        ...
