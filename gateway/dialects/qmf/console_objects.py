"""Which objects a peer that tolerates no mistake is known to have.

A Java broker ends the session of whoever names an object that it does not know; it is told by the zeros that
it has for the hashes of its classes. Its ids begin again when it does.
"""

from __future__ import annotations

from gateway.dialects.qmf.messages import Content
from gateway.dialects.qmf.object_id import ObjectId


class LivingObjects:
    """The objects of classes without a hash that were told, and not told to be gone.

    Args:
        limit: so many are known at most; those beyond are taken for unknown.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[ObjectId] = set()
        self._told_again: set[ObjectId] = set()

    def __contains__(self, object_id: ObjectId) -> bool:
        return object_id in self._known

    @property
    def is_full(self) -> bool:
        """Whether there may be more than are known."""
        return len(self._known) >= self._limit

    def forget(self) -> None:
        """None of them is certain to live."""
        self._known.clear()
        self._told_again.clear()

    def told(self, message: Content) -> None:
        """An object of a class without a hash was told."""
        if message.deleted:
            self._known.discard(message.object_id)
            self._told_again.discard(message.object_id)
            return
        for objects in (self._known, self._told_again):
            if len(objects) < self._limit:
                objects.add(message.object_id)

    def resync_began(self) -> None:
        """All that live are told from here on."""
        self._told_again.clear()

    def resync_completed(self) -> None:
        """All that live were told since it began."""
        self._known = self._told_again
        self._told_again = set()
