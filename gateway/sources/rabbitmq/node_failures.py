"""What goes out of reach with its node, and is reported or listed as if it had ended. Without I/O.

RabbitMQ 3.10 reports the end of each durable classic queue, and of its bindings, when the node of the queue
goes down. Afterwards it lists the queue as down, and its bindings not at all. While a node of a cluster
starts, the others list what it has neither as running nor as down. All of that is back, unchanged, when the
node is. What was deleted unseen meanwhile is shown until then, without statistics and without a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.mapping.paths import Json
from gateway.model.values import Value
from gateway.sources.rabbitmq.cluster import Nodes
from gateway.sources.rabbitmq.known_objects import Change, KnownObject, KnownObjects
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.reading import ClassReader

RECOVERY: Final = 60 * 1_000_000_000
"""Nanoseconds from the start of a node within which it may still be recovering what it has."""
DOWN: Final = "down"

_INTERNAL_USER: Final = "rmq-internal"
"""Who ends what ends without a request."""
_ACTING_USER: Final = "user_who_performed_action"


class NodeFailures:
    """Tells what is out of reach from what has ended.

    Args:
        readers: the reader of each class.
        known: the objects.
        nodes: which nodes run, and since when.
    """

    def __init__(self, readers: Mapping[str, ClassReader], known: KnownObjects, nodes: Nodes) -> None:
        self._readers = readers
        self._known = known
        self._nodes = nodes

    def went_out_of_reach(self, name: ObjectName, headers: Mapping[str, Json]) -> list[Change] | None:
        """What follows from an event of the end of an object that goes on; ``None`` where it did end.

        Args:
            name: the object of which the event reports the end.
            headers: of the event.
        """
        known = self._known.get(name)
        if known is None or not self._is_kept(known):
            return None
        match name.class_name:
            case "queue" if _ACTING_USER not in headers and headers.get("user") == _INTERNAL_USER:
                return self._without_values(known, DOWN, known.sampled)
            case "binding" if headers.get(_ACTING_USER) == _INTERNAL_USER:
                return []  # one that ended with its queue is gone with that
        return None

    def hides(self, known: KnownObject, now: int) -> bool:
        """Whether listings may lack an object although it goes on."""
        match known.name.class_name:
            case "queue":
                queue: KnownObject | None = known
            case "binding":
                queue = self._queue_of(known)
            case _:
                return False
        if queue is None or not self._is_kept(known):
            return False
        is_listed_as_down = queue is not known and self._property(queue, "state") == DOWN
        return is_listed_as_down or self._nodes.is_unsettled(self._property(queue, "node"), now, RECOVERY)

    def missed(self, seen: set[ObjectName], now: int) -> list[Change]:
        """What is not known any more of queues that a listing lacked, and that may go on."""
        missed = [known for known in self._known.of_class("queue") if known.name not in seen and known.listed]
        return [
            change
            for known in missed
            if self.hides(known, now)
            for change in self._without_values(known, None, now)
        ]

    def _without_values(self, queue: KnownObject, state: str | None, now: int) -> list[Change]:
        """The queue has this state, and its statistics are not known."""
        unmeasured = self._known.without_statistics(queue.name, now)
        left = self._known.get(queue.name) or queue
        return [*unmeasured, *self._known.with_property(left, "state", state)]

    def _queue_of(self, binding: KnownObject) -> KnownObject | None:
        kind, name = (self._property(binding, element) for element in ("destinationType", "destination"))
        if kind != "queue" or not isinstance(name, str):
            return None
        return self._known.get(ObjectName("queue", (binding.name.parts[0], name)))

    def _is_kept(self, known: KnownObject) -> bool:
        """Whether it is a queue or binding that outlives the process of its node."""
        if known.name.class_name not in {"queue", "binding"}:
            return False
        exclusive = known.name.class_name == "queue" and self._property(known, "exclusive") is True
        return self._property(known, "durable") is True and not exclusive

    def _property(self, known: KnownObject, element: str) -> Value | None:
        return known.properties[self._readers[known.name.class_name].schema.positions[element]]
