"""A listing in progress, and what follows from its items beyond their own fields; reads of AMQP 1.0 sessions.

The management API shows bindings, queues, consumers and AMQP 1.0 sessions in forms of their own. The
functions here complete such an item by what the mapping reads, below the key ``gateway`` if that is added.
Sessions are listed for one connection at a time; `SessionRounds` decides for which.
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
from gateway.sources.rabbitmq.source_config import SECOND


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


PROTOCOL: Final = "AMQP 1-0"
"""What the management API calls AMQP 1.0."""
MAX_LINKS: Final = 1_000
"""Links of one connection that are shown; it may have 16,000."""

_LINKS: Final = {"incoming": "incoming_links", "outgoing": "outgoing_links"}
_ADDRESSES: Final = ("target_address", "source_address")


@dataclass(slots=True)
class ConnectionSessions:
    """Sessions and links of a connection, each as a JSON object that the mapping's paths read.

    ``/api/connections/NAME/sessions`` shows them since RabbitMQ 4.1. The broker asks the processes of the
    connection for them at that moment, so that what an answer lacks is gone.

    Attributes:
        sessions: of the connection.
        links: of all sessions, at most `MAX_LINKS`.
        left_out: how many links there are beyond these.
    """

    sessions: list[Mapping[str, Json]] = field(default_factory=list)
    links: list[Mapping[str, Json]] = field(default_factory=list)
    left_out: int = 0


def sessions_of(connection: str, virtual_host: str, answer: Json) -> ConnectionSessions | None:
    """What an answer shows of a connection; ``None`` where it is no list of sessions.

    A session is called as RabbitMQ calls a channel: ``CONNECTION (NUMBER)``. A link is known by its session,
    its direction as the broker sees it (incoming: the client sends) and its handle.
    """
    if not isinstance(answer, list):
        return None
    found = ConnectionSessions()
    for session in answer:
        number = session.get("channel_number") if isinstance(session, Mapping) else None
        if not isinstance(session, Mapping) or not isinstance(number, int):
            continue
        name = f"{connection} ({number})"
        found.sessions.append({**session, "gateway": {"name": name, "connection": connection}})
        for direction, key in _LINKS.items():
            links = session.get(key)
            worked_out: dict[str, Json] = {
                "virtual_host": virtual_host,
                "session": name,
                "direction": direction,
            }
            for link in links if isinstance(links, list) else ():
                if len(found.links) >= MAX_LINKS:
                    found.left_out += 1
                elif isinstance(link, Mapping):
                    found.links.append({**link, "gateway": {**worked_out, **_of_link(link)}})
    return found


def _of_link(link: Mapping[str, Json]) -> dict[str, Json]:
    """Address and settle mode, which the two directions spell in different ways."""
    address = next((link[key] for key in _ADDRESSES if isinstance(link.get(key), str)), None)
    mode, settled = link.get("snd_settle_mode"), link.get("send_settled")
    if isinstance(settled, bool):
        mode = "settled" if settled else "unsettled"
    return {"address": address, "settle_mode": mode}


NEVER: Final = 2**63 - 1
"""A time that does not come (ns)."""
MAX_CONNECTIONS: Final = 200
"""Maximum number of connections that are asked, the oldest first; of others no sessions are shown."""
INTERVAL: Final = 10 * SECOND
"""Nanoseconds between two questions to a connection, if their share of time allows."""
_ATTEMPTS: Final = 3
"""Number of connections without sessions after which the broker is taken for one that does not show any."""


class SessionRounds:
    """Decides which AMQP 1.0 connection is asked for its sessions, and when.

    Brokers before 4.1 answer 404. As a connection that has just ended is answered in the same way, several
    are tried; then one is asked every ``missing_pause``.

    Args:
        missing_pause: nanoseconds until a broker that does not show sessions is asked again.
        refused_pause: the same after another failure.
        share: share of time that the questions may take.
    """

    def __init__(self, missing_pause: int, refused_pause: int, share: float) -> None:
        self._share = share
        self._missing_pause = missing_pause
        self._refused_pause = refused_pause
        self._due: dict[str, int] = {}
        self._connections = 0
        self._not_before = 0
        self._attempts = 0
        self._answered = False
        self._cost = 0.0

    @property
    def left_out(self) -> int:
        """The number of connections that are not asked, if the broker shows sessions at all."""
        return max(0, self._connections - MAX_CONNECTIONS) if self._answered else 0

    @property
    def connections(self) -> int:
        """The number of AMQP 1.0 connections."""
        return self._connections

    @property
    def round_time(self) -> int:
        """Nanoseconds from one question to a connection to the next; 0 if none is asked."""
        if not self._due or not self._answered:
            return 0
        return max(INTERVAL, int(len(self._due) * self._cost / self._share))

    def learn(self, connections: Iterable[str]) -> None:
        """Set the connections that exist now, the oldest first."""
        names = list(connections)
        self._connections = len(names)
        kept = {name: due for name, due in self._due.items() if name in set(names)}
        for name in names:
            if len(kept) >= MAX_CONNECTIONS:
                break
            kept.setdefault(name, 0)
        self._due = kept

    def due(self) -> int:
        """Return when to call `next_connection` (ns)."""
        return max(self._not_before, min(self._due.values())) if self._due else NEVER

    def next_connection(self, now: int) -> str | None:
        """Return the connection to ask now."""
        if not self._due or now < self.due():
            return None
        return min(self._due, key=self._due.__getitem__)

    def answered(self, connection: str, began: int, ended: int) -> None:
        """Take note that the connection's sessions were read."""
        self._answered = True
        self._attempts = 0
        self._cost = 0.8 * self._cost + 0.2 * (ended - began) if self._cost else float(ended - began)
        self._not_before = ended + int((ended - began) / self._share)
        if connection in self._due:
            self._due[connection] = ended + INTERVAL

    def not_found(self, connection: str, ended: int) -> None:
        """Take the status 404: the broker does not show sessions, or the connection has ended."""
        self._due.pop(connection, None)
        if self._answered:
            return
        self._attempts += 1
        pause = self._missing_pause if self._attempts >= _ATTEMPTS or not self._due else SECOND
        self._not_before = ended + pause

    def failed(self, connection: str, ended: int) -> None:
        """Take note that the sessions could not be read."""
        self._not_before = ended + self._refused_pause
        if connection in self._due:
            self._due[connection] = ended + INTERVAL

    def retry(self, now: int) -> None:
        """Ask again: the broker may have another version now."""
        self._answered = False
        self._attempts = 0
        self._not_before = min(self._not_before, now)
