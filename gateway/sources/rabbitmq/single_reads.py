"""How one object is read again: which requests, and what they say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from urllib.parse import quote

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.listing import placed_consumers, sessions_of
from gateway.sources.rabbitmq.management_changes import Lookup, path_of
from gateway.sources.rabbitmq.method_steps import ReadSteps
from gateway.sources.rabbitmq.object_names import ObjectName

SingleRead: TypeAlias = Callable[[ObjectName, str, tuple[str, ...]], ReadSteps]
"""Given the object's name, the collection that lists its class, and the columns that are needed."""


def read_directly(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    """Of what the management API has a page of its own for, open to who monitors."""
    query = f"?columns={quote(','.join(columns), safe=',')}"
    found = yield Lookup(path_of(collection, *name.parts) + query)
    return found if isinstance(found, Mapping) else None


def _read_as_writer(path: str, columns: tuple[str, ...]) -> ReadSteps:
    """Of what only an administrator may read."""
    found = yield Lookup(f"{path}?columns={quote(','.join(columns), safe=',')}", as_writer=True)
    return found if isinstance(found, Mapping) else None


def _read_user(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    return _read_as_writer(path_of(collection, name.leaf), columns)


def _read_parameter(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    host, component, leaf = name.parts
    return _read_as_writer(path_of(collection, component, host, leaf), columns)


def _read_among(
    path: str,
    columns: tuple[str, ...],
    is_wanted: Callable[[Mapping[str, Json]], bool],
    completed: Callable[[list[Json]], list[Json]] = list,
) -> ReadSteps:
    """Of what has no page of its own, or none that who monitors may see: out of the smallest listing.

    ``completed`` is what it makes of the listing before one of its objects is chosen.
    """
    items = yield Lookup(f"{path}?columns={quote(','.join(columns), safe=',')}")
    for item in completed(items) if isinstance(items, list) else ():
        if isinstance(item, Mapping) and is_wanted(item):
            return item
    return None


def _read_virtual_host(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    """Read one out of the whole listing, which a monitoring user may see.

    ``/api/vhosts/NAME`` is for administrators, and RabbitMQ 4.x answers 500 to a listing filtered by name.
    """
    return _read_among(collection, columns, lambda item: item.get("name") == name.leaf)


def _read_permission(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    return _read_as_writer(path_of(collection, *name.parts), columns)


def _read_topic_permission(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    host, user, exchange = name.parts
    path = f"{path_of(collection, host, user)}?columns={quote(','.join(columns), safe=',')}"
    items = yield Lookup(path, as_writer=True)
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping) and item.get("exchange") == exchange:
            return item
    return None


def _read_by_name(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    return _read_among(collection, columns, lambda item: item.get("name") == name.leaf)


def _read_stream_client(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    """A consumer or publisher of a stream: out of those of its virtual host."""
    host, stream, connection, number = name.parts

    def is_wanted(item: Mapping[str, Json]) -> bool:
        queue, details = item.get("queue"), item.get("connection_details")
        numbers = (item.get("subscription_id"), item.get("publisher_id"))
        return (
            isinstance(queue, Mapping)
            and isinstance(details, Mapping)
            and (queue.get("name"), details.get("name")) == (stream, connection)
            and number in map(str, numbers)
        )

    return _read_among(f"{collection}/{path_of(host)}", columns, is_wanted)


def _read_policy(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    path = path_of(collection, name.parts[0])
    return _read_by_name(name, path, columns)


def _read_binding(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    host, source, kind, destination, key = name.parts
    path = path_of(collection, host, "e", source, kind[:1], destination)
    return _read_among(path, columns, lambda item: item.get("properties_key") == key)


def _read_consumer(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    host, queue, place, tag = name.parts

    def is_wanted(item: Mapping[str, Json]) -> bool:
        of_queue, worked_out = item.get("queue"), item.get("gateway")
        return (
            isinstance(of_queue, Mapping)
            and isinstance(worked_out, Mapping)
            and (of_queue.get("name"), worked_out.get("channel"), item.get("consumer_tag"))
            == (queue, place, tag)
        )

    return _read_among(path_of(collection, host), columns, is_wanted, placed_consumers)


def _read_session(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:  # noqa: ARG001  as all
    connection = name.leaf.rpartition(" (")[0]
    answer = yield Lookup(path_of("connections", connection, "sessions"))
    found = sessions_of(connection, "", answer)
    return (
        next((one for one in found.sessions if _worked_out(one, "name") == name.leaf), None)
        if found
        else None
    )


def _read_link(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:  # noqa: ARG001  as all
    host, session, direction, handle = name.parts
    answer = yield Lookup(path_of("connections", session.rpartition(" (")[0], "sessions"))
    found = sessions_of(session.rpartition(" (")[0], host, answer)
    for link in found.links if found else ():
        wanted = (_worked_out(link, "session"), _worked_out(link, "direction")) == (session, direction)
        if wanted and str(link.get("handle")) == handle:
            return link
    return None


def _worked_out(document: Mapping[str, Json], key: str) -> Json:
    worked_out = document.get("gateway")
    return worked_out.get(key) if isinstance(worked_out, Mapping) else None


SINGLE_READS: Final[Mapping[str, SingleRead]] = {
    "vhost": _read_virtual_host,
    "user": _read_user,
    "parameter": _read_parameter,
    "policy": _read_policy,
    "operatorPolicy": _read_policy,
    "permission": _read_permission,
    "topicPermission": _read_topic_permission,
    "featureFlag": _read_by_name,
    "deprecatedFeature": _read_by_name,
    "streamConsumer": _read_stream_client,
    "streamPublisher": _read_stream_client,
    "binding": _read_binding,
    "consumer": _read_consumer,
    "session": _read_session,
    "link": _read_link,
}
"""How to read one object of a class, where `read_directly` does not do."""


def read_single(name: ObjectName, collection: str, columns: tuple[str, ...]) -> ReadSteps:
    """Read one object again; what a listing would show of it, or ``None`` where it is gone."""
    return SINGLE_READS.get(name.class_name, read_directly)(name, collection, columns)


def limits_of(answer: Json) -> dict[str, Mapping[str, Json]] | None:
    """Limits by virtual host, out of ``GET /api/vhost-limits``; ``None`` where that is no such answer."""
    if not isinstance(answer, list):
        return None
    limits: dict[str, Mapping[str, Json]] = {}
    for entry in answer:
        host, value = (entry.get("vhost"), entry.get("value")) if isinstance(entry, Mapping) else (None, None)
        if isinstance(host, str) and isinstance(value, Mapping):
            limits[host] = value
    return limits
