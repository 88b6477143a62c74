"""The places at which the management API shows one object, and what an answer there must be about. No I/O.

A proxy between gateway and broker may have rules for some paths, and answer about another object, or that
there is none. So each answer is compared with what was asked for; one that lacks the object proves an end
only if that place, or a similar one, is known to arrive at the broker (`Arrivals`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from gateway.mapping.paths import Json, compile_path
from gateway.model.times import MINUTE
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.path_proof import path_of

_DEFAULT_EXCHANGE: Final = "amq.default"
"""The default exchange in a path of the management API: with an empty name it would be a listing."""
_BY_HOST: Final[Mapping[str, str]] = {
    "policy": "vhost",
    "shovel": "vhost",
    "federationLink": "vhost",
    "operatorPolicy": "vhost",
    "consumer": "queue.vhost",
    "streamConsumer": "queue.vhost",
    "streamPublisher": "queue.vhost",
}
"""Classes that are listed by virtual host to monitoring users, and the field with its name."""
_WHOLE: Final = frozenset({"featureFlag", "deprecatedFeature"})
"""Classes whose objects have no place but the listing of all."""
_COMMON_PARTS: Final[Mapping[str, int]] = {
    **dict.fromkeys(_WHOLE, 0),
    **dict.fromkeys(_BY_HOST, 1),
    "topicPermission": 2,
    "binding": 4,
}
"""Classes whose objects are in listings, and how many first parts of their names decide in which one."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path that shows an object: a page of its own, or the smallest listing that has it.

    Attributes:
        path: below ``/api/``, without a query.
        is_listing: it is a listing.
        within: dotted fields that every item of the listing has, and their values.
    """

    path: str
    is_listing: bool = False
    within: tuple[tuple[str, str], ...] = ()

    def target(self, columns: tuple[str, ...]) -> str:
        """Return path and query that request these columns."""
        asked = dict.fromkeys((*columns, *(key for key, _ in self.within)))
        return f"{self.path}?columns={quote(','.join(asked), safe=',')}"

    def items(self, answer: Json) -> list[Json] | None:
        """Return the documents in an answer; ``None`` if it is about something else."""
        if not self.is_listing:
            return [answer] if isinstance(answer, Mapping) else None
        if not isinstance(answer, list):
            return None
        fields = [(compile_path(key), value) for key, value in self.within]
        is_about = all(path.find(item) == value for item in answer for path, value in fields)
        return answer if is_about else None


def place_of(name: ObjectName, collection: str) -> Place:  # noqa: PLR0911  a case for each form
    """Return the place of an object whose class is listed by ``collection``."""
    parts = name.plain.parts
    match name.class_name, parts:
        case "shovel", ("", _):  # of the configuration file: it has no virtual host
            return Place(collection, True)
        case class_name, (host, *_) if class_name in _BY_HOST:
            return Place(f"{collection}/{path_of(host)}", True, ((_BY_HOST[class_name], host),))
        case "topicPermission", (host, user, _):
            return Place(f"{collection}/{path_of(host, user)}", True, (("vhost", host), ("user", user)))
        case "binding", (host, source, kind, destination, _):
            names = ("vhost", host), ("source", source), ("destination", destination)
            path = path_of(collection, host, "e", source, kind[:1], destination)
            return Place(path, True, (*names, ("destination_type", kind)))
        case "parameter", (host, component, leaf):
            return Place(path_of(collection, component, host, leaf))
        case "exchange", (host, ""):
            return Place(path_of(collection, host, _DEFAULT_EXCHANGE))
        case class_name, _ if class_name in _WHOLE:
            return Place(collection, True)
    return Place(f"{collection}/{path_of(*parts)}")


def place_key(name: ObjectName) -> tuple[str, ...]:
    """Return what is equal for objects at the same `Place` only: it costs a thirtieth of the place itself."""
    return name.class_name, *name.parts[: _COMMON_PARTS.get(name.class_name)]


def any_within(class_name: str, host: str, indexes: int) -> ObjectName | None:
    """Return a name whose place has all objects of a class in a virtual host; ``None`` if there is none.

    ``indexes``: the number of parts of its names.
    """
    return ObjectName(class_name, (host, *[""] * (indexes - 1))) if class_name in _BY_HOST else None


ARRIVES: Final = MINUTE
"""Nanoseconds for which a place counts as one that arrives at the broker."""


@dataclass(slots=True)
class Arrivals:
    """The places whose paths arrive at the broker, because an answer had an object that belongs there.

    Objects of one class and virtual host have similar paths: what arrives for one arrives for the others, as
    far as `gateway.sources.rabbitmq.path_proof` finds nothing against their names.
    """

    _by_path: dict[str, int] = field(default_factory=dict)
    _by_kind: dict[tuple[str, str], int] = field(default_factory=dict)

    def shown(self, name: ObjectName, place: Place, now: int) -> None:
        """Note that a place has shown an object."""
        if len(self._by_path) > MAX_PLACES:
            self._by_path = {path: at for path, at in self._by_path.items() if now - at < ARRIVES}
        if len(self._by_path) <= MAX_PLACES:
            self._by_path[place.path] = now
        self._by_kind[_kind(name)] = now

    def arrives(self, name: ObjectName, place: Place, now: int) -> bool:
        """Return whether a place without an object means that the broker does not have it."""
        at = max(self._by_path.get(place.path, -ARRIVES), self._by_kind.get(_kind(name), -ARRIVES))
        return now - at < ARRIVES


MAX_PLACES: Final = 10_000
"""Maximum number of paths that are remembered."""


def _kind(name: ObjectName) -> tuple[str, str]:
    return name.class_name, name.parts[0] if len(name.parts) > 1 else ""
