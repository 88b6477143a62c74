"""A listing in progress, and functions that complete its items.

The management API shows bindings, queues and consumers in special forms. The functions here complete such an
item with the fields that the mapping reads; fields that RabbitMQ does not have are below the key ``gateway``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote_plus

from gateway.mapping.paths import Json, integer_at, text_at
from gateway.model.schema import ClassSchema
from gateway.model.values import Values
from gateway.sources.rabbitmq.forwarders import FORWARDERS, completed_forwarders
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import CONSUMER, ObjectName
from gateway.sources.rabbitmq.reading import Reading


@dataclass(slots=True)
class Listing:
    """A listing of one class in progress.

    Attributes:
        began: when its first page was requested (ns).
        seen: the objects that it showed.
        hosts: the virtual hosts of these objects, if the class has objects in virtual hosts.
        items: items that arrived and have not been taken yet.
        sampled: when the page of ``items`` was read (ns).
        asked: when that page was requested (ns): what it shows may be as old.
        closing: no page follows these items.
        lean: it is a listing without statistics, which lacks some properties, too.
        single: it is no listing, but one object that was requested by itself.
        early: events that happened before it are still to come; known values stay unchanged until then.
        unreadable: the objects whose documents lack something that every object has.
        ambiguous: the objects that one page showed twice, with different values.
        twice: the names that one page showed of several connections.
        held: an item that is taken with the next page, which may show another connection of its name.
        unnamed: the number of documents without a name, and of virtual hosts that it lacks although they may
            be read: any object that seems to be lacking may be among these.
        unlisted: the number of objects that it lacks, as the one before, although others of these exist, or
            that are all of a class of which each broker has some.
    """

    class_name: str
    began: int
    seen: set[ObjectName] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    items: deque[Json] = field(default_factory=deque)
    sampled: int = 0
    asked: int = 0
    closing: bool = False
    lean: bool = False
    single: bool = False
    early: bool = False
    unreadable: set[ObjectName] = field(default_factory=set)
    ambiguous: set[ObjectName] = field(default_factory=set)
    twice: set[str] = field(default_factory=set)
    held: list[Json] = field(default_factory=list)
    unnamed: int = 0
    unlisted: int = 0

    @property
    def waits(self) -> bool:
        """Whether items, or its end, are still to be taken."""
        return bool(self.items) or self.closing


_UNIQUE: Final = frozenset({"vhost", "exchange", "queue", "node"})
"""Classes of which a broker has one object of a name at most, and whose counters go on for long."""


def unambiguous_items(class_name: str, items: list[Json]) -> tuple[list[Json], list[Json]]:
    """Return the items of a page without those of one name that differ, and one of each of these.

    Which of two is right is not known: taken in turn, their counters would rise with each reading.
    """
    found: dict[tuple[str, str], Json] = {}
    differing: dict[tuple[str, str], Json] = {}
    for item in items if class_name in _UNIQUE else ():
        key = _key_of(item)
        if key is not None and found.setdefault(key, item) != item:
            differing[key] = item
    if not differing:  # as in nearly all pages
        return items, []
    return [item for item in items if _key_of(item) not in differing], list(differing.values())


def names_of_several(class_name: str, items: list[Json]) -> set[str]:
    """Return the names that several connections of a page have, which were opened at different times."""
    found: dict[str, Json] = {}
    several: set[str] = set()
    for item in items if class_name == "connection" else ():
        name = item.get("name") if isinstance(item, Mapping) else None
        if isinstance(item, Mapping) and isinstance(name, str):
            opened = item.get("connected_at")
            if found.setdefault(name, opened) != opened:
                several.add(name)
    return several


def _key_of(item: Json) -> tuple[str, str] | None:
    if not isinstance(item, Mapping):
        return None
    host, name = item.get("vhost", ""), item.get("name")
    return (host, name) if isinstance(host, str) and isinstance(name, str) else None


_STATE: Final = "state"
_LIVE: Final = frozenset({"live", "running"})
"""States in a lean listing of all objects that are not down, stopped, crashed or in a minority."""
_AT_WORK: Final = frozenset({"running", "idle", "flow", "syncing"})
"""The states of the same objects in a whole listing."""


class ShownProperties:
    """Completes listings of a class that is listed in two ways, each of which lacks properties of the other.

    A listing with ``disable_stats=true`` costs the broker an eighth of a whole one. It lacks statistics, and
    the properties that RabbitMQ computes together with them. ``enable_queue_totals=true`` is not requested:
    the broker then queries every queue's process, which costs as much as the statistics. A whole listing has
    no state of an MQTT queue with QoS 0, and no policy of a queue that was not measured yet.

    A property keeps the value that one of them has shown, until that one shows it no longer.
    """

    def __init__(self) -> None:
        self._lean: dict[ObjectName, int] = {}  # by object, a bit for each property that the last one showed
        self._whole: dict[ObjectName, int] = {}

    def completed(
        self, reading: Reading, known: KnownObject | None, schema: ClassSchema, listing: Listing
    ) -> Reading:
        """Return an object of a listing, completed with its ``known`` values."""
        name, properties = reading.name, reading.properties
        if not listing.lean and name not in self._lean:
            return reading
        own, other = (self._lean, self._whole) if listing.lean else (self._whole, self._lean)
        before, shown = own.get(name, 0), _present(properties)
        if not listing.single:  # the only answer of its kind shows nothing of what the next one lacks
            own[name] = shown
        if listing.lean:
            reading = _without_statistics(reading, known, schema)
        if known is None:
            return reading
        # An event may have shown what a lean listing lacks.
        lacks = ~(shown | before)
        keeps = lacks if listing.lean else lacks & other.get(name, 0)
        kept = (
            old if new is None and keeps >> position & 1 else new
            for position, (old, new) in enumerate(zip(known.properties, reading.properties, strict=True))
        )
        return replace(reading, properties=tuple(kept))

    def retain(self, names: set[ObjectName]) -> None:
        """Forget all other objects."""
        for shown in (self._lean, self._whole):
            for name in shown.keys() - names:
                del shown[name]


def _present(values: Values) -> int:
    return sum(1 << position for position, value in enumerate(values) if value is not None)


def _without_statistics(reading: Reading, known: KnownObject | None, schema: ClassSchema) -> Reading:
    """Return an object of a lean listing with its known statistics, and its state as a whole one names it."""
    properties = list(reading.properties)
    position = schema.positions.get(_STATE)
    if position is not None and properties[position] in _LIVE:
        state = known.properties[position] if known is not None else None
        properties[position] = state if state in _AT_WORK else "running"
    statistics = known.statistics if known is not None else (None,) * len(reading.statistics)
    return replace(reading, properties=tuple(properties), statistics=statistics)


def properties_key(routing_key: str) -> str:
    """Return RabbitMQ's key of a binding without arguments, among those between the same two objects.

    It is made as in ``rabbit_mgmt_format:pack_binding_props``: the routing key, encoded as in a form; ``~``
    if it is empty, because in the keys of bindings with arguments a tilde precedes the digest of these.
    """
    return quote_plus(routing_key, safe="", errors="surrogatepass").replace("~", "%7E") or "~"


def completed_binding(document: Mapping[str, Json]) -> dict[str, Json]:
    """Return a binding of a listing, or of an event's headers, with its destination in a field by its kind.

    An event has the routing key only, so its ``properties_key`` is set by the function `properties_key`.
    """
    completed = dict(document)
    event = "destination_kind" in document
    kind = document.get("destination_kind" if event else "destination_type")
    name = document.get("destination_name" if event else "destination")
    if isinstance(kind, str) and isinstance(name, str):
        if event:
            completed[f"destination_{kind}"] = name
        else:
            completed["gateway"] = {f"destination_{kind}": name}
    key = document.get("routing_key")
    if event and isinstance(key, str):
        completed["properties_key"] = properties_key(key)
    return completed


QUEUE_COLUMNS: Final = (
    "type",
    "messages",
    "arguments",
    "effective_policy_definition",
    "single_active_consumer_tag",
    "single_active_consumer_ctag",
)
"""Columns of a listing that `completed_queue` and `is_measured` need."""
MEASURED_TYPES: Final = frozenset({"classic", "quorum"})


def completed_queue(queue: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return ``queue`` with computed fields: its state, its single active consumer, and if it lacks replicas.

    The consumer's tag is below ``gateway``, if single active consumers are configured for the queue: RabbitMQ
    4.x also sets the tag of ordinary quorum queues. Quorum queues of 3.10 have another name of the field.

    RabbitMQ 4.0 reports ``minority`` for a queue whose replicas lack a majority. 3.10 reports no state, or
    still ``running`` if the leader is left. The broker reports a stream as ``down`` while its replicas elect
    a leader, which takes them seconds if a majority is online: its state is ``electing`` then.
    """
    if queue.get("state") in (None, "running") and _lacks_majority(queue):
        queue = {**queue, "state": "minority"}
    elif queue.get("state") == "down" and queue.get("type") == "stream" and _has_majority(queue):
        queue = {**queue, "state": "electing"}
    added: dict[str, Json] = {}
    critical = _is_quorum_critical(queue)
    if critical is not None:
        added["quorum_critical"] = critical
    tag = queue.get("single_active_consumer_tag") or queue.get("single_active_consumer_ctag")
    if tag and _has_single_active_consumer(queue):
        added["single_active_consumer_tag"] = tag
    return {**queue, "gateway": added} if added else queue


def is_measured(queue: Mapping[str, Json]) -> bool:
    """Return whether a counter that the listing of a queue omits has counted nothing.

    RabbitMQ counts for classic and quorum queues only. For some seconds after a restart it shows neither
    counters nor ``messages``; as soon as it shows ``messages``, the counters are known.
    """
    return text_at(queue, "type") in MEASURED_TYPES and integer_at(queue, "messages") is not None


def _has_majority(queue: Mapping[str, Json]) -> bool:
    members, online = queue.get("members"), queue.get("online")
    return isinstance(members, list) and isinstance(online, list) and 2 * len(online) > len(members)


def _lacks_majority(queue: Mapping[str, Json]) -> bool:
    members, online = queue.get("members"), queue.get("online")
    if not isinstance(members, list) or not isinstance(online, list):
        return False
    return bool(members) and 2 * len(online) <= len(members)


def _is_quorum_critical(queue: Mapping[str, Json]) -> bool | None:
    """Return whether a queue loses the majority of its replicas with one more node; ``None`` without them.

    So does the health check ``node-is-quorum-critical`` decide, but for the node only that answers it.
    """
    members, online = queue.get("members"), queue.get("online")
    if not isinstance(members, list) or not isinstance(online, list) or len(members) < 2:  # noqa: PLR2004  replicas
        return None
    return 2 * (len(online) - 1) <= len(members)


def _has_single_active_consumer(queue: Mapping[str, Json]) -> bool:
    arguments, policy = queue.get("arguments"), queue.get("effective_policy_definition")
    asked = isinstance(arguments, Mapping) and arguments.get("x-single-active-consumer") is True
    return asked or (isinstance(policy, Mapping) and policy.get("single-active-consumer") is True)


def listed_items(class_name: str, items: list[Json]) -> list[Json]:
    """Return the items of a listing of a class in the form that its reader takes."""
    if class_name in FORWARDERS:
        return completed_forwarders(items)
    return placed_consumers(items) if class_name == CONSUMER else items


def placed_consumers(items: Iterable[Json]) -> list[Json]:
    """Return all consumers of a virtual host or broker, each with ``gateway.channel``.

    This is the name of the consumer's channel, or else of its connection. A consumer of AMQP 0-9-1 has a
    channel, whose name and its tag identify it. A stream or MQTT consumer has a connection only
    (``channel_details.name`` is empty). Of a consumer of AMQP 1.0 the broker shows only queue and tag
    (``channel_details`` is ``{}`` or ``[]``). Its tag is the handle of its link, so that the first links of
    any number of clients have the same tag.

    A new consumer is listed so, too, until the broker shows its channel (`UnreportedCreations`).

    Consumers that have neither and share queue and tag are numbered: the first has an empty text, further
    ones ``(2)``, ``(3)`` and so on. They are sorted by all their fields, so that equal answers in another
    order give equal names.
    """
    placed: list[Json] = []
    alike: dict[str, list[Mapping[str, Json]]] = {}
    for item in items:
        place = _started_on(item) if isinstance(item, Mapping) else ""
        if not isinstance(item, Mapping):
            placed.append(item)
        elif place:
            placed.append({**item, "gateway": {"channel": place}})
        else:
            alike.setdefault(_text([item.get("queue"), item.get("consumer_tag")]), []).append(item)
    for consumers in alike.values():
        ordered = sorted(consumers, key=_text)
        for number, consumer in enumerate(ordered, start=1):
            placed.append({**consumer, "gateway": {"channel": f"({number})" if number > 1 else ""}})
    return placed


def _started_on(consumer: Mapping[str, Json]) -> str:
    details = consumer.get("channel_details")
    if not isinstance(details, Mapping):
        return ""
    names = (details.get("name"), details.get("connection_name"))
    return next((name for name in names if isinstance(name, str) and name), "")


def _text(value: Json) -> str:
    """Return the same text for equal values; empty for a value that is nested too deeply."""
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return ""
