"""Shovels and federation links, as the management API lists them: states, reasons, and which of them fail.

A listing has each of them with its state. Before RabbitMQ 4.1 a shovel that does not reach its destination is
``starting``, again and again, and looks like one that was made a moment ago.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gateway.mapping.paths import Json
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.object_names import ObjectName

SHOVEL: Final = "shovel"
FEDERATION_LINK: Final = "federationLink"
FORWARDERS: Final = frozenset({SHOVEL, FEDERATION_LINK})
"""The classes of what forwards messages. Each is missing in a listing for a moment while it is restarted."""

FORWARDER_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    SHOVEL: ("vhost", "reason"),
    FEDERATION_LINK: ("exchange", "queue", "error"),
}
"""Columns of a listing that `completed_forwarders` needs."""

STARTS_WITHIN: Final = 8 * SECOND
"""Nanoseconds after which one that is still starting counts as one that fails: less than between listings."""
_RUNNING: Final = "running"
_STARTING: Final = "starting"


def completed_forwarders(items: Iterable[Json]) -> list[Json]:
    """Return shovels or federation links, each once, with names, state and reason below ``gateway``.

    A cluster may list one twice, when a node took it over that had it before: the one that runs counts.
    """
    completed: dict[object, Json] = {}
    for number, item in enumerate(items):
        if not isinstance(item, Mapping):
            completed[number] = item
            continue
        state = _text(item.get("status") or item.get("state"))
        added: dict[str, Json] = {"virtual_host": item.get("vhost", ""), "state": state}
        federated = _federated(item)
        if federated is not None:
            added["federated"] = federated
        reason = reason_of(item.get("error") or item.get("reason"))
        if reason is not None:
            added["reason"] = reason
        which = tuple(_text(item.get(key)) for key in ("vhost", "name", "upstream", "id", "type"))
        which += (_text(federated),)
        if which not in completed or state == _RUNNING:
            completed[which] = {**item, "gateway": added}
    return list(completed.values())


def forwarder_parts(class_name: str, item: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the parts of the name of a shovel or federation link in a listing."""
    if class_name == SHOVEL:
        return _text(item.get("vhost")), _text(item.get("name"))
    return tuple(map(_text, (item.get("vhost"), _federated(item), item.get("upstream"), item.get("id"))))


def _federated(item: Mapping[str, Json]) -> Json:
    """Return the name of the exchange or queue of a federation link."""
    return item.get("exchange") or item.get("queue")


_LONGEST_REASON: Final = 1_000
_MOST_WORDS: Final = 8
_PLAIN: Final = re.compile(r'[^{}\[\]<>"#]*')
_WORD: Final = re.compile(r'[{,\s]*(?:([a-z][\w@]*)|"([^"]*)")')


def reason_of(value: Json) -> str | None:
    """Return a reason that RabbitMQ formatted as an Erlang term, as text: ``auth_failure: ACCESS_REFUSED``.

    These are the words with which the term begins, and the text behind them. The rest (functions with their
    arguments, records, URIs) may contain passwords.
    """
    if not isinstance(value, str):
        return None
    term = value[:_LONGEST_REASON]
    if _PLAIN.fullmatch(term):
        return term.strip()
    words: list[str] = []
    position = 0
    while len(words) < _MOST_WORDS and (found := _WORD.match(term, position)):
        if found[2] is not None:
            said = " ".join(found[2].split())
            return f"{' '.join(words)}: {said}" if words else said
        words.append(found[1])
        position = found.end()
    return " ".join(words) or None


def shovel_of(parameter: ObjectName) -> ObjectName | None:
    """Return the shovel that a runtime parameter makes; ``None`` for any other object."""
    match parameter.class_name, parameter.parts:
        case "parameter", (host, "shovel", leaf):
            return ObjectName(SHOVEL, (host, leaf))
    return None


MAX_LEFT: Final = 1_000
"""Maximum number of deleted shovels that are remembered."""


class ForwarderStates:
    """Knows since when shovels and federation links have been starting, and which shovels were deleted.

    RabbitMQ 4.0 goes on to list a shovel that had terminated when its parameter was deleted.
    """

    def __init__(self) -> None:
        self._starting: dict[ObjectName, int] = {}
        self._deleted: dict[ObjectName, None] = {}

    def shovel_deleted(self, name: ObjectName) -> None:
        """Note that the parameter of a shovel was deleted."""
        self._deleted[name] = None
        if len(self._deleted) > MAX_LEFT:
            del self._deleted[next(iter(self._deleted))]

    def shovel_set(self, name: ObjectName) -> None:
        """Note that the parameter of a shovel was set."""
        self._deleted.pop(name, None)

    def is_left(self, name: ObjectName, state: str) -> bool:
        """Return whether a listed shovel was deleted, and is only still listed with its last state."""
        if name in self._deleted and state not in {"terminated", ""}:
            del self._deleted[name]
        return name in self._deleted

    def is_failing(self, name: ObjectName, state: Json, read_at: int, *, failed: bool) -> bool | None:
        """Return whether one does not forward anything, and not because it was made a moment ago.

        Args:
            name: its name.
            state: its state in a listing.
            read_at: when that was read (ns).
            failed: it failed before, and has not been seen to run since.
        """
        if state != _STARTING:
            self._starting.pop(name, None)
            return None if not state else state != _RUNNING
        return failed or read_at - self._starting.setdefault(name, read_at) >= STARTS_WITHIN

    def retain(self, class_name: str, names: Collection[ObjectName]) -> None:
        """Forget all others of a class."""
        gone = [one for one in self._starting if one.class_name == class_name and one not in names]
        for name in gone:
            del self._starting[name]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
