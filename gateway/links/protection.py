"""What a link needs of the protection of bodies (`gateway.protection.bodies`)."""

from __future__ import annotations

from typing import Protocol

from gateway.dialects.session import Delivery, Note, Send


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
