"""Fresh reads of one object: which requests are sent, and what their answers say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias
from urllib.parse import quote

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.listing import placed_consumers, sessions_of
from gateway.sources.rabbitmq.management_changes import Lookup, path_of
from gateway.sources.rabbitmq.method_steps import ReadSteps
from gateway.sources.rabbitmq.object_names import ObjectName

_IsWanted: TypeAlias = Callable[[Mapping[str, Json]], bool]


def read_single(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:  # noqa: C901, PLR0911  a case for each form
    """Read one object again; return what a listing would show of it, or ``None`` if it is gone.

    Args:
        name: of the object.
        collection: of the management API, which lists its class.
        columns: that are needed.
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
