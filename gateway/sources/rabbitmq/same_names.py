"""Connections that live with one name, and what belongs to each of them. Without I/O.

RabbitMQ names a connection by addresses and ports. Proxies that report the client's address and port (PROXY
protocol) can give several one name, on two nodes or, as tried with 3.10.8, on one. Listings name the owner of
a channel, consumer, stream consumer or stream publisher by that name, and by the node; events by its process.

The first one that is known has its name. That of a later one has its node and time behind it
(`object_names.distinguished`) in whatever refers to it here: names of objects, and references. It is shown
with the broker's name, as identity's duplicate. What cannot be attributed has no owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.mapping.paths import Json, integer_at, text_at
from gateway.model.times import MILLISECOND
from gateway.sources.rabbitmq.cluster import Nodes
from gateway.sources.rabbitmq.events import BrokerEvent, Changed, Created, Deleted
from gateway.sources.rabbitmq.known_objects import MERGE_WINDOW, KnownObjects
from gateway.sources.rabbitmq.listing import Listing
from gateway.sources.rabbitmq.object_lives import LISTING_LAG, KnownObject
from gateway.sources.rabbitmq.object_names import (
    CONSUMER,
    ObjectName,
    Processes,
    connection_of_channel,
    distinction_of,
    distinguished,
    plain_text,
    with_distinction,
)
from gateway.sources.rabbitmq.reading import ClassReader, Reading

_CONNECTION: Final = "connection"
_CHANNEL: Final = "channel"
_OWNED: Final[Mapping[str, tuple[str, str, int, str]]] = {
    _CHANNEL: ("connection_details", "name", 0, "connection"),
    CONSUMER: ("channel_details", "connection_name", 2, "connectionObject"),
    "streamConsumer": ("connection_details", "name", 2, "connectionObject"),
    "streamPublisher": ("connection_details", "name", 2, "connectionObject"),
}
"""By class: where a listing names the connection, which part of the object's name has its or its channel's
name, and the reference to it."""
_CHANNEL_OBJECT: Final = "channelObject"
_LATEST: Final = 2**63 // MILLISECOND
"""Later times (ms) are none; a hostile number may have thousands of digits."""
DISTINGUISHED: Final = frozenset({_CONNECTION, *_OWNED})
"""The classes whose objects `SameNames` distinguishes."""


@dataclass(frozen=True, slots=True)
class Distinguished:
    """An object that shares its name with another one, or whose connection does.

    Attributes:
        name: its name here.
        references: the references to its connection and channel, by element; ``None`` for no owner.
        alike: the known objects of which it is one; which of them cannot be said.
    """

    name: ObjectName
    references: Mapping[str, str | None] = field(default_factory=dict)
    alike: tuple[ObjectName, ...] = ()

    def applied(self, reading: Reading, reader: ClassReader) -> Reading:
        """Return a reading of the object with its name and its owners; without any it has no statistics.

        It may be several objects, whose counters differ.
        """
        statistics = reading.statistics
        if None in self.references.values():
            statistics = (None,) * len(statistics)
        properties = list(reading.properties)
        for element, text in self.references.items():
            properties[reader.schema.positions[element]] = text
        return replace(reading, name=self.name, properties=tuple(properties), statistics=statistics)


class SameNames:
    """Distinguishes the connections of one name.

    Args:
        readers: the reader of each class.
        known: the known objects.
        processes: the processes of connections and channels.
        nodes: the nodes of the cluster.
    """

    def __init__(
        self, readers: Mapping[str, ClassReader], known: KnownObjects, processes: Processes, nodes: Nodes
    ) -> None:
        self._nodes = nodes
        self._readers = readers
        self._known = known
        self._processes = processes
        self._later: dict[str, dict[ObjectName, None]] = {}  # by the broker's name; hardly ever are there any
        reader = readers.get(_CONNECTION)
        self._node_position = reader.schema.positions["node"] if reader is not None else 0

    def is_ambiguous(self, name: ObjectName) -> bool:
        """Return whether the broker's answer about a connection or channel may be about another one."""
        if not self._later or name.class_name not in (_CONNECTION, _CHANNEL):
            return False
        leaf = name.plain.leaf
        leaf = leaf if name.class_name == _CONNECTION else connection_of_channel(leaf)
        return leaf in self._later and sum(map(self._may_live, self._names(leaf))) > 1

    def forget_ended(self) -> None:
        """Forget the connections that no listing or event can be about any more."""
        for leaf, later in list(self._later.items()):
            kept = {one: None for one in later if self._may_come(one)}
            if kept:
                self._later[leaf] = kept
            else:
                del self._later[leaf]

    def _may_live(self, name: ObjectName) -> bool:
        return self._known.get(name) is not None or self._known.remembered(name) is not None

    def _may_come(self, name: ObjectName) -> bool:
        return self._may_live(name) or self._known.ends.get(name) is not None

    def restored(self, objects: Iterable[KnownObject]) -> list[KnownObject]:
        """Return distinct objects of before the start, without those whose owner has another's name.

        The log names an owner as the broker does. What is left out is known again when it is listed. Channels
        that had no owner have their nodes, with which listings show them.
        """
        every = list(objects)
        found: dict[ObjectName, KnownObject] = {}
        for one in (one for one in every if one.name.class_name == _CONNECTION):
            name = one.name
            if name in found:
                text = distinguished(name.leaf, self._node(one) or "", one.created)
                name = ObjectName(_CONNECTION, (text,))
            if name.plain is not name:
                self._later.setdefault(name.plain.leaf, {})[name] = None
            found[name] = one if name is one.name else replace(one, name=name)
        if not self._later:
            return every
        others = (self._restored(one) for one in every if one.name.class_name != _CONNECTION)
        return [*found.values(), *(one for one in others if one is not None)]

    def _restored(self, known: KnownObject) -> KnownObject | None:
        """Return an object that is no connection; ``None`` if its connection has another's name."""
        name = known.name
        if name.class_name not in _OWNED:
            return known
        _, _, place, element = _OWNED[name.class_name]
        positions = self._readers[name.class_name].schema.positions
        owner = known.properties[positions[element]]
        if owner is not None:
            return known if owner not in self._later else None
        if not {name.parts[place], connection_of_channel(name.parts[place])} & self._later.keys():
            return known
        node = known.properties[positions["node"]] if name.class_name == _CHANNEL else None
        if not isinstance(node, str):
            return None
        return replace(known, name=_behind(name, distinguished("", node, 0)))

    # Listings.

    def listed(self, name: ObjectName, item: Mapping[str, Json], listing: Listing) -> Distinguished | None:
        """Return how an object of a listing is distinguished; ``None``, as nearly always, if it is not."""
        if name.class_name == _CONNECTION:
            found = self._connection(name, text_at(item, "node"), _opened(item), listing=listing)
            if len(found) > 1:
                return Distinguished(name, alike=found)
            return None if found[0] is name else Distinguished(found[0])
        details = item.get(_OWNED[name.class_name][0])
        if not isinstance(details, Mapping):
            return None
        text = details.get(_OWNED[name.class_name][1])
        node = text_at(item, "node") or text_at(details, "node")
        if not isinstance(text, str) or not self._is_shared(text, node):
            return None
        channel = text_at(details, "name") if name.class_name == CONSUMER else ""
        return self._owned(name, text, node, channel)

    def undecided(self, class_name: str, items: list[Json]) -> list[Json]:
        """Return the last item of a page if the next page decides what it is; empty for none.

        It is another connection than the one that is known, which the next page may begin with.
        """
        item = items[-1] if items and class_name == _CONNECTION else None
        name = self._readers[_CONNECTION].name_of(item) if isinstance(item, Mapping) else None
        known = None if name is None else self._known.get(name)
        if known is None or not isinstance(item, Mapping) or _opened(item) in (0, known.created):
            return []
        return [item]

    def _is_shared(self, text: str, node: str) -> bool:
        """Return whether the owner of a name on a node may be another than the first one of the name."""
        if self._later and text in self._later:
            return True
        if len(self._nodes.names) < 2:  # noqa: PLR2004  a cluster
            return False
        first = self._known.get(ObjectName(_CONNECTION, (text,)))
        return first is not None and bool(node) and self._node(first) not in (None, node)

    def _owned(self, name: ObjectName, text: str, node: str, channel: str = "") -> Distinguished | None:
        """Return how an object is distinguished whose connection of this name is on a node.

        If no such connection is known yet, the object waits for it. If several are, it has no owner, unless
        events have named those of its channel: then it is one of these.
        """
        there = [one for one in self._living(text) if not node or self._node(one) in (None, node)]
        if len(there) == 1:
            owner = there[0].name.leaf
            return self._of(name, owner, channel) if distinction_of(owner) else None
        if not there:
            return self._of(name, distinguished(text, node, 0), channel)
        apart = _behind(name, distinguished("", node, 0))
        keys = (*(_behind(name, distinction_of(one.name.leaf)) for one in there), apart)
        alike = tuple(key for key in keys if self._known.get(key) is not None)
        references = {_OWNED[name.class_name][3]: None, **({_CHANNEL_OBJECT: None} if channel else {})}
        return Distinguished(apart, references, alike)

    def _of(self, name: ObjectName, owner: str, channel: str = "") -> Distinguished:
        distinction = distinction_of(owner)
        references: dict[str, str | None] = {_OWNED[name.class_name][3]: owner}
        if channel:
            references[_CHANNEL_OBJECT] = with_distinction(channel, distinction)
        return Distinguished(_behind(name, distinction), references)

    def _connection(
        self, name: ObjectName, node: str, created: int, *, listing: Listing | None = None, process: str = ""
    ) -> tuple[ObjectName, ...]:
        """Return the name of a connection here; several if it may be any of these.

        Args:
            name: as the broker has it.
            node: its node; empty if unknown.
            created: when it was opened (ns); 0 if unknown.
            listing: the listing that shows it, if one does.
            process: the process that serves it; empty if unknown.
        """
        first = self._known.get(name) or self._known.remembered(name)
        later = self._later.get(name.leaf) if self._later else None
        if later is None and (first is None or self._is(first, node, created)):
            return (name,)
        apart = ObjectName(_CONNECTION, (distinguished(name.leaf, node, created),))
        if later is not None and apart in later:
            return (apart,)
        is_vague = later is not None and listing is not None and not (node and created)
        if is_vague and (alike := self._alike(name, node, created)):
            return alike
        if first is None or self._is(first, node, created):
            return (name,)
        if not self._live_both(first, node, created, listing, process):
            return (name,)
        self._later.setdefault(name.leaf, {})[apart] = None
        return (apart,)

    def _is(self, first: KnownObject, node: str, created: int) -> bool:
        return 0 < created == first.created and (not node or self._node(first) in (None, node))

    def _alike(self, name: ObjectName, node: str, created: int) -> tuple[ObjectName, ...]:
        """Return the names here of the living connections that nothing in a document contradicts."""
        return tuple(
            one.name
            for one in self._living(name.leaf)
            if (not node or self._node(one) in (None, node)) and (not created or created == one.created)
        )

    def _live_both(
        self, first: KnownObject, node: str, created: int, listing: Listing | None, process: str
    ) -> bool:
        """Return whether another connection lives beside the first one of its name, and is no successor."""
        # One listing that shows both is right, unless an event has reported the end of one of them.
        together = listing is not None and (first.name in listing.seen or first.name.leaf in listing.twice)
        end = self._known.ends.get(first.name)
        if end is not None and 0 < created == end.created and not (together and end.unreported):
            return False  # a late report of one that had the name before
        if listing is None and 0 < created < first.created - MERGE_WINDOW:
            return False  # an event that is delivered again
        if node and self._node(first) not in (None, node):
            return True
        if not (created and first.created):
            return False
        return self._is_served(first, process) if listing is None else together

    def _is_served(self, first: KnownObject, process: str) -> bool:
        """Return whether the first connection of a name is served by another process than a new one.

        A node reports the end of a connection before the begin of the next one of its name.
        """
        known, open_as = self._known, self._processes.of_connection(first.name.leaf)
        if open_as:
            return bool(process) and process != open_as
        was_listed = first.listed and not first.missed and first.sampled >= known.events_since + LISTING_LAG
        return bool(process) and known.events_arrive and was_listed and not known.is_unconfirmed(first.name)

    def _living(self, leaf: str) -> list[KnownObject]:
        return [known for known in map(self._known.get, self._names(leaf)) if known is not None]

    def _names(self, leaf: str) -> tuple[ObjectName, ...]:
        """Return the names here of the connections with a name."""
        return (ObjectName(_CONNECTION, (leaf,)), *self._later.get(leaf, ()))

    def _node(self, connection: KnownObject) -> str | None:
        node = connection.properties[self._node_position]
        return node if isinstance(node, str) else None

    # Events.

    def reported(self, event: BrokerEvent, headers: Mapping[str, Json]) -> BrokerEvent:
        """Return an event about an object with the name that the object has here."""
        match event:
            case Created(reading=Reading(name=name)):
                found = self._created(name, event, headers)
                if found is None:
                    return event
                if found.alike:  # it may be one that has no owner here
                    return Changed(name.class_name)
                reader = self._readers[name.class_name]
                return replace(event, reading=found.applied(event.reading, reader))
            case Deleted(name=name) if name.class_name == _CONNECTION:
                return replace(event, name=self._closed(name, headers))
            case Deleted(name=name) if name.class_name == CONSUMER and self._later:
                return replace(event, name=_behind(name, self._distinction(headers)))
        return event

    def _created(self, name: ObjectName, event: Created, headers: Mapping[str, Json]) -> Distinguished | None:
        if name.class_name == _CONNECTION:
            time = self._readers[_CONNECTION].created(event.reading)
            node = text_at(event.document, "node") or _node_of(event.process)
            (found,) = self._connection(name, node, time, process=event.process)
            return None if found is name else Distinguished(found)
        if name.class_name == CONSUMER and self._later and (distinction := self._distinction(headers)):
            return Distinguished(_behind(name, distinction))  # its references come from the process
        if name.class_name != _CHANNEL:
            return None
        process = text_at(headers, "connection")
        owner = self._processes.connection(process)
        if owner is not None:
            return self._of(name, owner) if distinction_of(owner) else None
        text, node = connection_of_channel(name.leaf), _node_of(process)
        return self._owned(name, text, node) if self._is_shared(text, node) else None

    def _distinction(self, headers: Mapping[str, Json]) -> str:
        """Return what distinguishes the channel or connection whose process serves a consumer."""
        process = text_at(headers, "channel")
        found = self._processes.channel(process) or self._processes.connection(process)
        return distinction_of(found or "")

    def _closed(self, name: ObjectName, headers: Mapping[str, Json]) -> ObjectName:
        """Return the name here of a connection of which an event reports the end."""
        process = text_at(headers, "pid")
        node = text_at(headers, "node") or _node_of(process)
        leaf = self._processes.connection(process)
        if leaf is not None and plain_text(leaf) == name.leaf:
            return ObjectName(_CONNECTION, (leaf,))
        if not self._is_shared(name.leaf, node):
            return name
        there = [
            one.name
            for one in self._living(name.leaf)
            if self._node(one) == node and self._processes.of_connection(one.name.leaf) is None
        ]
        # Which of several has ended, or that it is one that is not known, listings show.
        return there[0] if len(there) == 1 else ObjectName(_CONNECTION, (distinguished(name.leaf, node, 0),))


def _opened(item: Mapping[str, Json]) -> int:
    """Return when a listed connection was opened (ns); 0 if it does not say, or something else."""
    opened = integer_at(item, "connected_at")
    return opened * MILLISECOND if opened is not None and 0 < opened < _LATEST else 0


def _behind(name: ObjectName, distinction: str) -> ObjectName:
    """Return the name of an object with what distinguishes its connection."""
    place = _OWNED[name.class_name][2]
    part = with_distinction(name.parts[place], distinction)
    return ObjectName(name.class_name, (*name.parts[:place], part, *name.parts[place + 1 :]))


def _node_of(process: str) -> str:
    """Return the node of a process in an event: ``rabbit@shop`` of ``<rabbit@shop.1.2.3>``; else empty."""
    node = process.strip("<>").rsplit(".", 3)[0]
    return node if "@" in node else ""
