"""Steps of operations: generators of requests, which get each answer; and the fresh read of one object."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias
from urllib.parse import quote

from gateway.dialects.qmf.messages import Status
from gateway.mapping.paths import Json
from gateway.model.secrets import MASK, SecretRules, mask_uris
from gateway.model.values import Value, Values
from gateway.sources.rabbitmq.amqp10_sessions import sessions_of
from gateway.sources.rabbitmq.listing import placed_consumers
from gateway.sources.rabbitmq.management_changes import Change, Lookup, Purge, path_of
from gateway.sources.rabbitmq.object_names import ObjectName


@dataclass(frozen=True, slots=True)
class Pause:
    """Continue after so many nanoseconds; other operations proceed meanwhile."""

    duration: int


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a method that returns more than its success.

    Attributes:
        text: one line for people.
        outputs: its OUT arguments, in the order of the schema.
        confirmed: the broker has confirmed the outcome, so the caller need not wait until the object shows
            it.
    """

    text: str
    outputs: Values
    confirmed: bool


Step: TypeAlias = Change | Lookup | Purge | Pause
Steps: TypeAlias = Generator[Step, Json, None]
"""The steps of a method.

A `Lookup` is answered with what was found, or ``None``. A `Purge` is answered with the number of messages, or
``None`` if it is unknown; any other step with ``None``. A step that fails ends the method, unless it catches
the `CallFailedError`.
"""

ResultSteps: TypeAlias = Generator[Step, Json, Result | None]
"""The steps of a method that may return a result."""

ReadSteps: TypeAlias = Generator[Lookup, Json, "Mapping[str, Json] | None"]
"""The steps that read one object. They return it as a listing shows it, or ``None`` if it is gone."""


class CallFailedError(Exception):
    """A call ends with this status; the text is one line for people."""

    def __init__(self, status: Status, text: str) -> None:
        self.status = status
        self.text = " ".join(text.split())
        super().__init__(self.text)


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call in the form that its method receives.

    Attributes:
        target: the object.
        created: when it was created, nanoseconds; 0 if unknown.
        arguments: the arguments by name; absent ones are left out.
        lockout: the virtual hosts and users whom the configuration allows to be locked out.
    """

    target: ObjectName
    created: int = 0
    arguments: Mapping[str, Value] = field(default_factory=dict)
    lockout: frozenset[str] = frozenset()

    def text(self, name: str) -> str:
        """Return an argument of type string; empty if it is absent."""
        value = self.arguments.get(name, "")
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int:
        """Return an argument of an integer type; 0 if it is absent."""
        value = self.arguments.get(name, 0)
        return value if isinstance(value, int) else 0

    def flag(self, name: str) -> bool:
        """Return an argument of type bool; false if it is absent."""
        return self.arguments.get(name) is True


def _always(_document: Mapping[str, Json]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Method:
    """The steps of a method, and the signs of its effect.

    Attributes:
        steps: the requests that it sends.
        ends: the object is gone after it.
        settled: whether the broker shows the effect on the object. The object is read repeatedly for some
            seconds, because the broker shows statistics late.
        unsettled: added to the answer if it does not show the effect by then, as a warning to readers of the
            object.
        lists: classes of which other objects change, too, and which are listed soon.
    """

    steps: Callable[[Invocation], ResultSteps]
    ends: bool = False
    settled: Callable[[Mapping[str, Json]], bool] = _always
    unsettled: str = ""
    lists: tuple[str, ...] = ()


_SECRETS = SecretRules()


def json_of(value: Value) -> Json:
    """Return ``value`` as JSON.

    Raises:
        CallFailedError: JSON has no such value.
    """
    if isinstance(value, Mapping):
        return {key: json_of(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [json_of(inner) for inner in value]
    if isinstance(value, str | int | float):
        return value
    raise CallFailedError(Status.INVALID_PARAMETER, f"JSON knows no {type(value).__name__}")


def unmasked(written: Json, present: Json) -> Json:
    """Return ``written`` with its masked parts replaced by those of ``present``, which was shown with masks.

    A password is kept only if the rest of its text is unchanged: a user who may not read it could otherwise
    have it sent to another host.

    Raises:
        CallFailedError: a masked part was not there before.
    """
    if isinstance(written, Mapping):
        before = present if isinstance(present, Mapping) else {}
        kept = {key: inner for key, inner in before.items() if _SECRETS.hides(key) and key not in written}
        return {**kept, **{key: unmasked(inner, before.get(key)) for key, inner in written.items()}}
    if isinstance(written, list):
        return [_unmasked_text(item, present) if isinstance(item, str) else item for item in written]
    return _unmasked_text(written, present) if isinstance(written, str) else written


def _unmasked_text(written: str, present: Json) -> str:
    if not _SECRETS.shows_mask(written):
        return written
    for text in present if isinstance(present, list) else [present]:
        if isinstance(text, str) and mask_uris(text) == written:
            return text
    raise CallFailedError(
        Status.INVALID_PARAMETER,
        f"the password behind {MASK} is kept only where nothing else of the text is changed: write it again",
    )


_IsWanted: TypeAlias = Callable[[Mapping[str, Json]], bool]


def read_single(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:  # noqa: C901, PLR0911  a case for each form
    """Read one object again; return it as a listing shows it, or ``None`` if it is gone.

    Args:
        name: the name of the object.
        collection: the collection of the management API that lists its class.
        columns: the columns that are needed.
    """
    parts, query = name.parts, f"?columns={quote(','.join(columns), safe=',')}"
    match name.class_name:
        case "user":
            return _read(path_of(collection, name.leaf) + query, as_writer=True)
        case "permission":
            return _read(path_of(collection, *parts) + query, as_writer=True)
        case "parameter":
            host, component, leaf = parts
            return _read(path_of(collection, component, host, leaf) + query, as_writer=True)
        case "topicPermission":
            host, user, exchange = parts
            path = path_of(collection, host, user) + query
            return _read_among(path, lambda item: item.get("exchange") == exchange, as_writer=True)
        case "vhost" | "featureFlag" | "deprecatedFeature":
            # The page of one virtual host is for administrators, and RabbitMQ 4.x answers 500 to a listing
            # that is filtered by name.
            return _read_among(collection + query, lambda item: item.get("name") == name.leaf)
        case "policy" | "operatorPolicy":
            path = path_of(collection, parts[0]) + query
            return _read_among(path, lambda item: item.get("name") == name.leaf)
        case "streamConsumer" | "streamPublisher":
            path = f"{collection}/{path_of(parts[0])}{query}"
            return _read_among(path, partial(_is_stream_client, parts))
        case "binding":
            host, exchange, kind, destination, key = parts
            path = path_of(collection, host, "e", exchange, kind[:1], destination) + query
            return _read_among(path, lambda item: item.get("properties_key") == key)
        case "consumer":
            path = path_of(collection, parts[0]) + query
            return _read_among(path, partial(_is_consumer, parts), placed_consumers)
        case "session":
            return _read_session(name.leaf)
        case "link":
            return _read_link(parts)
    return _read(path_of(collection, *parts) + query)


def _read(path: str, *, as_writer: bool = False) -> ReadSteps:
    """Read an object that has a page of its own; with ``as_writer`` one that only administrators see."""
    found = yield Lookup(path, as_writer=as_writer)
    return found if isinstance(found, Mapping) else None


def _read_among(
    path: str,
    is_wanted: _IsWanted,
    completed: Callable[[list[Json]], list[Json]] = list,
    *,
    as_writer: bool = False,
) -> ReadSteps:
    """Read an object from the smallest listing: its page is missing, or closed to monitoring users.

    ``completed`` completes the listing before the object is selected.
    """
    items = yield Lookup(path, as_writer=as_writer)
    for item in completed(items) if isinstance(items, list) else ():
        if isinstance(item, Mapping) and is_wanted(item):
            return item
    return None


def _is_stream_client(parts: tuple[str, ...], item: Mapping[str, Json]) -> bool:
    _, stream, connection, number = parts
    queue, details = item.get("queue"), item.get("connection_details")
    numbers = (item.get("subscription_id"), item.get("publisher_id"))
    return (
        isinstance(queue, Mapping)
        and isinstance(details, Mapping)
        and (queue.get("name"), details.get("name")) == (stream, connection)
        and number in map(str, numbers)
    )


def _is_consumer(parts: tuple[str, ...], item: Mapping[str, Json]) -> bool:
    _, queue, place, tag = parts
    of_queue = item.get("queue")
    return isinstance(of_queue, Mapping) and (
        (of_queue.get("name"), _worked_out(item, "channel"), item.get("consumer_tag")) == (queue, place, tag)
    )


def _read_session(session: str) -> ReadSteps:
    connection = session.rpartition(" (")[0]
    answer = yield Lookup(path_of("connections", connection, "sessions"))
    found = sessions_of(connection, "", answer)
    sessions = found.sessions if found else ()
    return next((one for one in sessions if _worked_out(one, "name") == session), None)


def _read_link(parts: tuple[str, ...]) -> ReadSteps:
    host, session, direction, handle = parts
    connection = session.rpartition(" (")[0]
    answer = yield Lookup(path_of("connections", connection, "sessions"))
    found = sessions_of(connection, host, answer)
    for link in found.links if found else ():
        wanted = (_worked_out(link, "session"), _worked_out(link, "direction")) == (session, direction)
        if wanted and str(link.get("handle")) == handle:
            return link
    return None


def _worked_out(document: Mapping[str, Json], key: str) -> Json:
    worked_out = document.get("gateway")
    return worked_out.get(key) if isinstance(worked_out, Mapping) else None


def limits_of(answer: Json) -> dict[str, Mapping[str, Json]] | None:
    """Return limits by virtual host, from ``GET /api/vhost-limits``; ``None`` if that is no such answer."""
    if not isinstance(answer, list):
        return None
    limits: dict[str, Mapping[str, Json]] = {}
    for entry in answer:
        host, value = (entry.get("vhost"), entry.get("value")) if isinstance(entry, Mapping) else (None, None)
        if isinstance(host, str) and isinstance(value, Mapping):
            limits[host] = value
    return limits
