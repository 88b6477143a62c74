"""A listing in progress, and what follows from its items beyond their own fields.

The management API shows bindings, queues and consumers in forms of their own. The functions here complete
such an item by what the mapping reads, below the key ``gateway`` if that is added.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote_plus

from gateway.mapping.paths import Json
from gateway.model.schema import ClassSchema
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.reading import Reading


@dataclass(slots=True)
class Listing:
    """What arrived of a listing of one class.

    Attributes:
        began: when its first page was asked for (ns).
        seen: the objects that it showed.
        hosts: the virtual hosts that these belong to, where the class lives in virtual hosts.
        items: what arrived and has not been taken yet.
        sampled: when the page that ``items`` are from was read (ns).
        closing: no page comes after these items.
        lean: it is one without statistics, which lacks some properties too.
        single: it is no listing, but one object asked for by itself.
        early: events are still to come that happened before it: what is known stays as it is until then.
    """

    class_name: str
    began: int
    seen: set[ObjectName] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    items: deque[Json] = field(default_factory=deque)
    sampled: int = 0
    closing: bool = False
    lean: bool = False
    single: bool = False
    early: bool = False

    @property
    def waits(self) -> bool:
        """Whether something is to be taken from it, if only its end."""
        return bool(self.items) or self.closing


_STATE: Final = "state"
_LIVE: Final = frozenset({"live", "running"})
"""States that such a listing shows of everything that is not down, stopped, crashed or in a minority."""
_AT_WORK: Final = frozenset({"running", "idle", "flow", "syncing"})
"""What these are in a whole listing."""


def completed_lean(reading: Reading, known: KnownObject | None, schema: ClassSchema) -> Reading:
    """What a listing without statistics shows of an object, completed by what was ``known`` of it.

    ``disable_stats=true`` costs the broker an eighth of a whole listing. It lacks statistics, and the
    properties that RabbitMQ works out together with them. ``enable_queue_totals=true`` is not asked for: the
    broker then questions every queue's process, which costs as much as the statistics.
    """
    properties = list(reading.properties)
    position = schema.positions.get(_STATE)
    if position is not None and properties[position] in _LIVE:
        state = known.properties[position] if known is not None else None
        properties[position] = state if state in _AT_WORK else "running"
    if known is None:
        return replace(reading, properties=tuple(properties), statistics=(None,) * len(reading.statistics))
    completed = (old if new is None else new for old, new in zip(known.properties, properties, strict=True))
    return replace(reading, properties=tuple(completed), statistics=known.statistics)


DEFAULT_EXCHANGE = ""
"""It has a binding to every queue, by the queue's name: no event reports these, and they are not shown."""


def properties_key(routing_key: str) -> str:
    """What RabbitMQ calls a binding without arguments among those between the same two.

    As ``rabbit_mgmt_format:pack_binding_props``: the routing key, encoded as in a form; ``~`` where it is
    empty, because in the names of bindings with arguments a tilde comes before the digest of these.
    """
    return quote_plus(routing_key, safe="", errors="surrogatepass").replace("~", "%7E") or "~"


def completed_binding(document: Mapping[str, Json]) -> dict[str, Json]:
    """A binding, out of a listing or an event's headers, with its destination where its kind belongs.

    An event has the routing key only: `properties_key` of it stands as ``properties_key`` then.
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
"""What is needed of a listing for this."""
MEASURED_TYPES: Final = frozenset({"classic", "quorum"})


def completed_queue(queue: Mapping[str, Json]) -> Mapping[str, Json]:
    """``queue`` with what follows from the rest: its state, and the tag of its single active consumer.

    The tag stands under ``gateway``, if the queue has such a consumer at all: RabbitMQ 4.x fills the tag of
    ordinary quorum queues too. Those of 3.10 spell it in a way of their own.

    Of a queue whose replicas lack a majority, RabbitMQ 4.0 reports ``minority``. 3.10 reports no state, or
    goes on with ``running`` where the leader is left. A stream is ``down`` to the broker while its replicas
    elect a leader, which takes them seconds where a majority is online: its state is ``electing`` then.
    """
    if queue.get("state") in (None, "running") and _lacks_majority(queue):
        queue = {**queue, "state": "minority"}
    elif queue.get("state") == "down" and queue.get("type") == "stream" and _has_majority(queue):
        queue = {**queue, "state": "electing"}
    tag = queue.get("single_active_consumer_tag") or queue.get("single_active_consumer_ctag")
    if not tag or not _has_single_active_consumer(queue):
        return queue
    return {**queue, "gateway": {"single_active_consumer_tag": tag}}


def is_measured(queue: Mapping[str, Json]) -> bool:
    """Whether a counter that the listing of a queue leaves out is one of which there was nothing to count.

    RabbitMQ counts for classic and quorum queues only. For some seconds after a restart it shows neither
    counters nor ``messages``; with these the counters are known.
    """
    return queue.get("type") in MEASURED_TYPES and isinstance(queue.get("messages"), int)


def _has_majority(queue: Mapping[str, Json]) -> bool:
    members, online = queue.get("members"), queue.get("online")
    return isinstance(members, list) and isinstance(online, list) and 2 * len(online) > len(members)


def _lacks_majority(queue: Mapping[str, Json]) -> bool:
    members, online = queue.get("members"), queue.get("online")
    if not isinstance(members, list) or not isinstance(online, list):
        return False
    return bool(members) and 2 * len(online) <= len(members)


def _has_single_active_consumer(queue: Mapping[str, Json]) -> bool:
    arguments, policy = queue.get("arguments"), queue.get("effective_policy_definition")
    asked = isinstance(arguments, Mapping) and arguments.get("x-single-active-consumer") is True
    return asked or (isinstance(policy, Mapping) and policy.get("single-active-consumer") is True)


CONSUMER: Final = "consumer"
_PLACE: Final = 2
"""Where the name of a consumer says what it was started on."""


def is_anonymous(name: ObjectName) -> bool:
    """Whether the broker names neither channel nor connection of a consumer.

    Events of such consumers name it neither, so that only listings say which are there.
    """
    return name.class_name == CONSUMER and (not name.parts[_PLACE] or name.parts[_PLACE].startswith("("))


def placed_consumers(items: Iterable[Json]) -> list[Json]:
    """All consumers of a virtual host or broker, each with what it was started on as ``gateway.channel``.

    A consumer of AMQP 0-9-1 has a channel, by whose name and its tag it is known. A stream or MQTT consumer
    has a connection only (``channel_details.name`` is empty), and of one of AMQP 1.0 the broker says nothing
    but queue and tag (``channel_details`` is ``{}`` or ``[]``). Its tag is the handle of its link, so that
    the first links of any number of clients have the same one.

    That is the name of its channel or else of its connection. Those that have neither and share queue and tag
    are numbered: the first has an empty text, further ones ``(2)``, ``(3)`` and so on. They are taken in the
    order of what else is said of them, so that equal answers in another order give equal names.
    """
    placed: list[Json] = []
    alike: dict[str, list[Mapping[str, Json]]] = {}
    for item in items:
        if not isinstance(item, Mapping):
            continue
        place = _started_on(item)
        if place:
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
    """The same text for equal values; empty for what is nested too deep."""
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        return ""
