"""Objects whose end nobody would notice: their class cannot be listed, and events may be missing."""

from __future__ import annotations

from gateway.dialects.session import Effect
from gateway.sources.rabbitmq.known_objects import KnownObject, KnownObjects
from gateway.sources.rabbitmq.observation_stream import ObservationStream
from gateway.sources.rabbitmq.status import Visibility


class UnheardEnds:
    """Does not let the source vouch for objects for which neither a listing nor events speak.

    Everything is stale until the class is asked for once more. Objects that cannot be listed then either are
    given up, so that the rest is vouched for again.

    Args:
        known: all objects.
        visibility: says which classes cannot be listed, and since when events are whole.
        stream: publishes what changes.

    Attributes:
        awaited: classes with such objects, which are to be asked for once more.
    """

    def __init__(self, known: KnownObjects, visibility: Visibility, stream: ObservationStream) -> None:
        self.awaited: set[str] = set()
        self._known = known
        self._visibility = visibility
        self._stream = stream

    def listed(self, class_name: str) -> None:
        """A whole listing of the class arrived."""
        self.awaited.discard(class_name)

    def judge(self, now: int, refused: str = "") -> list[Effect]:
        """Events are missing or were lost, or the class ``refused`` could not be listed just now."""
        former = self.awaited
        doubtful = {name: self._doubtful(name) for name in self._visibility.unread}
        self.awaited = {name for name, objects in doubtful.items() if objects}
        effects: list[Effect] = []
        if refused in former & self.awaited:
            self.awaited.discard(refused)
            for known in doubtful[refused]:
                if self._known.get(known.name) is not None:  # one that ended with another is known no more
                    effects += self._stream.apply(self._known.ended(known.name, now))
        if self.awaited:
            self._visibility.complete = False
            effects += self._stream.doubted("objects may have ended unnoticed: their class cannot be listed")
        return effects

    def _doubtful(self, class_name: str) -> list[KnownObject]:
        since = self._visibility.unbroken_since
        if since and self._visibility.listed_since(class_name, since):
            return []
        return [known for known in self._known.of_class(class_name) if not since or known.heard < since]
