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

from gateway.mapping.paths import Json, text_at
from gateway.model.times import MILLISECOND
from gateway.model.values import Value
from gateway.sources.rabbitmq.cluster import Nodes
from gateway.sources.rabbitmq.events import BrokerEvent, Created, Deleted
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.listing import Listing
from gateway.sources.rabbitmq.object_lives import KnownObject
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
        """Return a reading of the object with its name and its owners."""
        properties = list(reading.properties)
        for element, text in self.references.items():
            properties[reader.schema.positions[element]] = text
        return replace(reading, name=self.name, properties=tuple(properties))


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
        return (leaf if name.class_name == _CONNECTION else connection_of_channel(leaf)) in self._later

    def forget_ended(self) -> None:
        """Forget the connections that no listing or event can be about any more."""
        for leaf, later in list(self._later.items()):
            kept = {one: None for one in later if self._may_come(one)}
            if kept:
                self._later[leaf] = kept
            else:
                del self._later[leaf]

    def _may_come(self, name: ObjectName) -> bool:
        known = self._known
        is_known = known.get(name) is not None or known.remembered(name) is not None
        return is_known or known.ends.get(name) is not None

    def restored(self, objects: Iterable[KnownObject]) -> list[KnownObject]:
        """Return distinct objects of before the start, without those whose owner has another's name.

        The log names an owner as the broker does. What is left out is known again when it is listed.
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
        others = [one for one in every if one.name.class_name != _CONNECTION]
        return [*found.values(), *(one for one in others if self._restored_owner(one) not in self._later)]

    def _restored_owner(self, known: KnownObject) -> Value | None:
        """Return the broker's name of the connection of an object; ``None`` for none."""
        if known.name.class_name not in _OWNED:
            return None
        element = _OWNED[known.name.class_name][3]
        return known.properties[self._readers[known.name.class_name].schema.positions[element]]

    # Listings.

    def listed(self, name: ObjectName, item: Mapping[str, Json], listing: Listing) -> Distinguished | None:
        """Return how an object of a listing is distinguished; ``None``, as nearly always, if it is not."""
        if name.class_name == _CONNECTION:
            opened = item.get("connected_at")
            created = opened * MILLISECOND if isinstance(opened, int) else 0
            found = self._connection(name, text_at(item, "node"), created, listing=listing)
            return None if found is name else Distinguished(found)
        details = item.get(_OWNED[name.class_name][0])
        if not isinstance(details, Mapping):
            return None
        text = details.get(_OWNED[name.class_name][1])
        node = text_at(item, "node") or text_at(details, "node")
        if not isinstance(text, str) or not self._is_shared(text, node):
            return None
        channel = text_at(details, "name") if name.class_name == CONSUMER else ""
        return self._owned(name, text, node, channel)

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
        keys = (_behind(name, distinction_of(one.name.leaf)) for one in there)
        alike = tuple(key for key in keys if self._known.get(key) is not None)
        apart = _behind(name, distinguished("", node, 0))
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
    ) -> ObjectName:
        """Return the name of a connection here.

        Args:
            name: as the broker has it.
            node: its node; empty if unknown.
            created: when it was opened (ns); 0 if unknown.
            listing: the listing that shows it, if one does.
            process: the process that serves it; empty if unknown.
        """
        first, later = self._known.get(name), self._later.get(name.leaf) if self._later else None
        if later is None and (first is None or self._is(first, node, created)):
            return name
        apart = ObjectName(_CONNECTION, (distinguished(name.leaf, node, created),))
        if later is not None and apart in later:
            return apart
        if first is None or self._is(first, node, created):
            return name
        if not self._live_both(first, node, created, listing, process):
            return name
        end = self._known.ends.get(name)
        if end is not None and created and end.created == created:
            return name  # a late report of one that had the name before
        self._later.setdefault(name.leaf, {})[apart] = None
        return apart

    def _is(self, first: KnownObject, node: str, created: int) -> bool:
        return 0 < created == first.created and (not node or self._node(first) in (None, node))

    def _live_both(
        self, first: KnownObject, node: str, created: int, listing: Listing | None, process: str
    ) -> bool:
        """Return whether another connection lives beside the first one of its name, and is no successor."""
        if node and self._node(first) not in (None, node):
            return True
        if not (created and first.created):
            return False
        if listing is not None:
            return first.name in listing.seen or first.name.leaf in listing.twice
        # A node reports the end of a connection before the begin of the next one of its name.
        open_as = self._processes.of_connection(first.name.leaf)
        return bool(process and open_as and process != open_as)

    def _living(self, leaf: str) -> list[KnownObject]:
        names = (ObjectName(_CONNECTION, (leaf,)), *self._later.get(leaf, ()))
        return [known for known in map(self._known.get, names) if known is not None]

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
            node = text_at(event.document, "node")
            found = self._connection(name, node, time, process=event.process)
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
        process, node = text_at(headers, "pid"), text_at(headers, "node")
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


def _behind(name: ObjectName, distinction: str) -> ObjectName:
    """Return the name of an object with what distinguishes its connection."""
    place = _OWNED[name.class_name][2]
    part = with_distinction(name.parts[place], distinction)
    return ObjectName(name.class_name, (*name.parts[:place], part, *name.parts[place + 1 :]))


def _node_of(process: str) -> str:
    """Return the node of an Erlang process in an event: ``rabbit@shop`` of ``<rabbit@shop.1.2.3>``."""
    return process.strip("<>").rsplit(".", 3)[0] if process else ""
