"""The gateway's own queues of other sources, and the policies that reach them, as listings show them. No I/O.

A source that has only AMQP cannot see the policies of its queue. A source of kind ``rabbitmq`` that reads the
same broker lists that queue, with the policies in force, its consumer, and the connection of that, whose
client properties name the source. The queue of a source's own events is looked at more closely
(`event_proof`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias, TypeVar

from gateway.mapping.paths import Json, integer_at, text_at
from gateway.sources.rabbitmq.object_names import OWN_QUEUES, ObjectName, claims_to_be_own
from gateway.sources.rabbitmq.own_queue_policies import SPARE_OWN, reaching

_PASSING: Final = tuple(f"{OWN_QUEUES}{purpose}." for purpose in ("events", "check", "same"))
"""Beginnings of names of queues that last for seconds, or are those of a source of this kind."""
_NO_BOUND: Final = 2**63
_MOST: Final = 1_000
"""Maximum number of queues, consumers and connections of the gateway that are kept of one broker."""
_NAMED: Final = 3
"""Maximum number of queues that a text names."""
_LONGEST_SOURCE: Final = 64

_Place: TypeAlias = tuple[str, str]
"""Virtual host and name of a queue."""
_Key = TypeVar("_Key")


class OwnQueues:
    """Knows which policies reach queues of the gateway, and of which sources these are."""

    def __init__(self) -> None:
        self._sources: dict[str, str] = {}  # by connection
        self._consumers: dict[_Place, str] = {}  # connections, by queue
        self._reached: dict[_Place, str] = {}  # the policies, by queue
        self._texts: tuple[tuple[_Place, str], ...] | None = ()

    def shown(self, name: ObjectName, document: Mapping[str, Json]) -> None:
        """Take a queue, consumer or connection of a listing; any other object is ignored."""
        match name.class_name:
            case "queue" if _is_other(name.leaf):
                self._queue(name, document)
            case "consumer" if _is_other(name.parts[1]):
                connection = text_at(_inner(document, "channel_details"), "connection_name")
                self._put(self._consumers, (name.parts[0], name.parts[1]), connection)
            case "connection" if claims_to_be_own(document.get("client_properties")):
                self._put(self._sources, name.leaf, text_at(_inner(document, "client_properties"), "source"))

    def _queue(self, name: ObjectName, document: Mapping[str, Json]) -> None:
        declared = integer_at(_inner(document, "arguments"), "x-max-length")
        found = reaching(_NO_BOUND if declared is None else declared, document)
        if found is not None:  # a listing without statistics may not show it
            effects, named = found
            self._put(self._reached, (name.parts[0], name.leaf), named if effects else "")

    def _put(self, kept: dict[_Key, str], key: _Key, value: str | None) -> None:
        if kept.get(key, "") == (value or ""):
            return
        self._texts = None
        if not value:
            del kept[key]
        elif key in kept or len(kept) < _MOST:
            kept[key] = value

    def listed(self, class_name: str, seen: Collection[ObjectName]) -> None:
        """Take the end of a listing of a class, which showed these objects."""
        match class_name:
            case "queue":
                self._retain(self._reached, lambda place: ObjectName("queue", place) in seen)
            case "consumer":
                places = {name.parts[:2] for name in seen if _is_other(name.parts[1])}
                self._retain(self._consumers, places.__contains__)
            case "connection":
                self._retain(self._sources, lambda name: ObjectName("connection", (name,)) in seen)

    def _retain(self, kept: dict[_Key, str], stays: Callable[[_Key], bool]) -> None:
        for key in [key for key in kept if not stays(key)]:
            del kept[key]
            self._texts = None

    def remark(self, said: str) -> str:
        """Return one line for people about policies that reach such queues; empty if none does.

        Args:
            said: what is said of the source's own queue, which is not repeated.
        """
        if not self._reached:
            return ""
        if self._texts is None:
            self._texts = tuple((place, self._named(place)) for place in sorted(self._reached))
        others = [(place, text) for place, text in self._texts if place[1] not in said]
        if not others:
            return ""
        queues = [text for _, text in others[:_NAMED]]
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        policies = list(dict.fromkeys(self._reached[place] for place, _ in others))
        named = f"{policies[0]}, among others," if len(policies) > 1 else policies[0]
        one = "queue" if len(others) == 1 else "queues"
        return (
            f"{named} reaches the gateway's own {one} {', '.join(queues)}{more}, which may lose messages:"
            f" {SPARE_OWN}"
        )

    def _named(self, place: _Place) -> str:
        host, queue = place
        source = self._sources.get(self._consumers.get(place, ""), "")
        of = f" of source {source[:_LONGEST_SOURCE]!r}" if source else ""
        return f"{queue}{of} in virtual host {host!r}"


def _inner(document: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    found = document.get(key)
    return found if isinstance(found, Mapping) else {}


def _is_other(queue: str) -> bool:
    """Return whether a queue is one of the gateway that a source of another kind, or an agent, consumes."""
    return queue.startswith(OWN_QUEUES) and not queue.startswith(_PASSING)
