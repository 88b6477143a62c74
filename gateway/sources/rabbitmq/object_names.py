"""Names of objects (class and index), the gateway's own objects, and the Erlang processes of objects.

RabbitMQ's own names consist of class and index only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from gateway.links.amqp_connection import PRODUCT
from gateway.mapping.paths import Json, text_at

_NATIVE_ID: Final = re.compile("[0-9a-f]{16}")


class ByteName(str):  # noqa: SLOT000  a text with slots cannot have another attribute
    r"""A name that is no UTF-8: names of RabbitMQ are bytes. Each byte that is none is shown as ``\xNN``.

    Attributes:
        octets: the name itself.
    """

    octets: bytes

    @classmethod
    def of(cls, octets: bytes) -> str:
        """Return the text of a name: a `ByteName` only if it is no UTF-8."""
        try:
            return octets.decode()
        except UnicodeDecodeError:
            name = cls(octets.decode(errors="backslashreplace"))
            name.octets = octets
            return name


def recorded_name(text: str) -> str:
    r"""Return a name as the log has it: one with ``\xNN`` is a `ByteName` again, if it can be one."""
    if "\\x" not in text:
        return text
    octets = _ESCAPED_OCTET.sub(lambda match: bytes([int(match[1], 16)]), text.encode("utf-8", "replace"))
    name = ByteName.of(octets)
    return name if isinstance(name, ByteName) and name == text else text


def is_listed_as(name: str, listed: object) -> bool:
    """Return whether a name in an answer may be this one: RabbitMQ 3.10 replaces bytes that are no UTF-8."""
    if isinstance(name, ByteName) and isinstance(listed, str):
        return _as_listed(listed) == _as_listed(name.octets.decode(errors="replace"))
    return listed == name


class ByteNames:
    """Gives names of listings their bytes back.

    RabbitMQ 3.10 lists a name that is no UTF-8 with U+FFFD in the place of some bytes; 4.x cannot list it at
    all. Events have the bytes. A name that several known ones could be stays as it is listed. The latest
    `MAX_BYTE_NAMES` are known: clients choose them.
    """

    def __init__(self) -> None:
        self._names: dict[ByteName, str] = {}  # in the order in which they were last learnt
        self._by_listed: dict[str, set[ByteName]] = {}

    def learn(self, names: Iterable[object]) -> None:
        """Take the names in an event, or of objects that were known before."""
        for name in names:
            if not isinstance(name, ByteName) or len(name.octets) > _MAX_NAME_OCTETS:
                continue
            self.forget(name)
            if len(self._names) >= MAX_BYTE_NAMES:
                self.forget(next(iter(self._names)))
            listed = _as_listed(name.octets.decode(errors="replace"))
            self._names[name] = listed
            self._by_listed.setdefault(listed, set()).add(name)

    def forget(self, name: str) -> None:
        """Forget the name of an object that ended."""
        if isinstance(name, ByteName) and (listed := self._names.pop(name, None)) is not None:
            alike = self._by_listed[listed]
            alike.discard(name)
            if not alike:
                del self._by_listed[listed]

    def named(self, item: Json, depth: int = 0) -> Json:
        """Return an item of a listing with the names that are known.

        ``depth`` is that of the item in its document: a client decides how deep the arguments are nested.
        """
        if not self._by_listed or depth > _DEEPEST_NAME:
            return item
        match item:
            case str() if _REPLACED in item:
                names = self._by_listed.get(_as_listed(item), set())
                return next(iter(names)) if len(names) == 1 else item
            case list():
                return [self.named(one, depth + 1) for one in item]
            case Mapping():
                return {key: self.named(one, depth + 1) for key, one in item.items()}
        return item


_REPLACED: Final = "\ufffd"
_ESCAPED_OCTET: Final = re.compile(rb"\\x([89a-f][0-9a-f])")
MAX_BYTE_NAMES: Final = 10_000
"""Maximum number of names that are no UTF-8 and are given back to listings."""
_MAX_NAME_OCTETS: Final = 1024
"""Maximum length of such a name: those of the broker have 255 bytes, of users and policies more."""

_DEEPEST_NAME: Final = 20
"""Depth in a document up to which names are given back; no value is shown from deeper ones."""


def _as_listed(text: str) -> str:
    """Return a text with one U+FFFD for each run: encoders differ in how many bytes one stands for."""
    return re.sub(f"{_REPLACED}+", _REPLACED, text)


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The name of an object.

    ``parts`` are the texts of the index elements in schema order: virtual host and name, or the name.
    """

    class_name: str
    parts: tuple[str, ...]

    @property
    def leaf(self) -> str:
        """The last part, which is the object's own name."""
        return self.parts[-1]

    @property
    def plain(self) -> ObjectName:
        """The name that the broker gives the object, which others may have, too (`SameNames`)."""
        if not any(isinstance(part, SharedName) for part in self.parts):
            return self
        return ObjectName(self.class_name, tuple(map(plain_text, self.parts)))

    def __str__(self) -> str:
        """Return the name for notes and errors: ``queue orders/incoming``."""
        return f"{self.class_name} {'/'.join(self.plain.parts)}"


class SharedName(str):  # noqa: SLOT000  a text with slots cannot have another attribute
    """The name of a connection that an earlier one has, too, or of its channel, with what distinguishes it.

    Broker and clients have other texts, whatever is in them: only `distinguished` makes these.

    Attributes:
        plain: the name as the broker has it.
    """

    plain: str


def distinguished(text: str, node: str, created: int) -> str:
    """Return the name of a connection with what distinguishes it from an earlier one that has the name.

    Args:
        text: the name.
        node: the node; empty if unknown.
        created: when it was opened (ns); 0 if unknown.
    """
    return with_distinction(text, f"\0{node}\0{created or ''}")


def with_distinction(text: str, distinction: str) -> str:
    """Return the name of a connection or channel with what distinguishes its connection, if anything."""
    if not distinction:
        return text
    name = SharedName(text + distinction)
    name.plain = text
    return name


def distinction_of(text: str) -> str:
    """Return what `distinguished` has put behind a name; empty for nothing."""
    return text[len(text.plain) :] if isinstance(text, SharedName) else ""


def plain_text(text: str) -> str:
    """Return a name as the broker has it."""
    return text.plain if isinstance(text, SharedName) else text


def connection_of_channel(name: str) -> str:
    """Return the name of the connection of a channel, which RabbitMQ calls ``CONNECTION (NUMBER)``."""
    return with_distinction(plain_text(name).rpartition(" (")[0], distinction_of(name))


def object_number(name: ObjectName, created: int, grounds: Iterable[int] = ()) -> int:
    """Return the number that identifies an object: BLAKE2b-64 of class, stable name and creation facts.

    It needs no state: after a restart the same object gets the same number, if as much is known of its
    creation.

    Args:
        name: the name of the object.
        created: nanoseconds since 1970-01-01 UTC; 0 if the broker does not say.
        grounds: numbers of the objects on which it depends, if the broker does not say when it was created: a
            channel of a connection that was opened again is another channel.
    """
    digest = blake2b(digest_size=8)
    for part in (name.class_name, *name.parts, str(created), *map(str, grounds)):
        octets = part.encode("utf-8", "surrogatepass")
        digest.update(len(octets).to_bytes(4, "big"))
        digest.update(octets)
    return int.from_bytes(digest.digest(), "big")


def native_id(number: int) -> str:
    """Return the native id of the object with a number: 16 hexadecimal digits."""
    return f"{number:016x}"


def number_of(native: str) -> int | None:
    """Return the number in a native id; ``None`` if the text is none."""
    return int(native, 16) if _NATIVE_ID.fullmatch(native) else None


OWN_QUEUES = "amqp-gateway."
"""Prefix of the names of the gateway's own queues."""
PROOF: Final = "amqp-gateway.proof"
"""The argument of bindings that are made and removed to see whether events arrive (`event_proof`)."""
DEFAULT_EXCHANGE: Final = ""
"""The default exchange. No event reports its binding to every queue by name; these are not shown."""
OWN_PRODUCT = PRODUCT
"""The client property ``product`` of the gateway's connections."""

_SHOWN_COMPONENTS = frozenset({"shovel", "federation-upstream"})


def is_shown_component(component: Json) -> bool:
    """Return whether runtime parameters of a component are shown; others are limits and operator policies."""
    return isinstance(component, str) and component in _SHOWN_COMPONENTS


def is_never_shown(name: ObjectName, document: Mapping[str, Json]) -> bool:
    """Return whether an object of such a name, or with such arguments, is never shown."""
    if name.class_name == "parameter":
        return not is_shown_component(name.parts[1])
    if name.class_name != "binding":
        return False
    arguments = document.get("arguments")
    # The binding of a proof lasts for milliseconds, and its events are not taken.
    return name.parts[1] == DEFAULT_EXCHANGE or (isinstance(arguments, Mapping) and PROOF in arguments)


CONSUMER: Final = "consumer"
_PLACE: Final = 2
"""Position of the channel or connection in the name of a consumer."""


def is_anonymous(name: ObjectName) -> bool:
    """Return whether the broker names neither channel nor connection of a consumer.

    Events of such consumers do not name them either, so only listings show which of them exist.
    """
    return name.class_name == CONSUMER and (not name.parts[_PLACE] or name.parts[_PLACE].startswith("("))


def without_place(name: ObjectName) -> tuple[str, ...]:
    """Return virtual host, queue and tag of a consumer, which others may have, too."""
    return *name.parts[:_PLACE], name.leaf


def is_own(name: ObjectName, document: Mapping[str, Json], own_users: frozenset[str]) -> bool:
    """Return whether an object belongs to the gateway, as also bindings and consumers of its queues do.

    These are known by name: the queue itself may not have been read, nor reported.

    Args:
        name: the object.
        document: the object in the form of a listing.
        own_users: the gateway's users. Client properties are trusted only of these: otherwise any client
            could hide a connection.
    """
    if _queue_of(name).startswith(OWN_QUEUES):
        return True
    if name.class_name != "connection" or text_at(document, "user") not in own_users:
        return False
    return claims_to_be_own(document.get("client_properties"))


def _queue_of(name: ObjectName) -> str:
    """Return the name of a queue, or of that to which a binding or consumer belongs; empty for none."""
    match name.class_name, name.parts:
        case ("queue", (_, queue)) | ("binding", (_, _, "queue", queue, _)) | ("consumer", (_, queue, _, _)):
            return queue
    return ""


def is_publication(
    name: ObjectName, document: Mapping[str, Json], own_users: frozenset[str], management_virtual_host: str
) -> bool:
    """Return whether it is a connection that the management API opens and closes for an agent's message.

    Such connections are never shown: while an alarm is raised, publishing one would open another, without
    end. Those of other agents in the same management virtual host are not shown either, because they would
    publish ours in turn.

    They say nothing of themselves. Clients of MQTT (3.10) and STOMP have direct connections too, with a
    protocol of their own; those of shovels and federation links have a name.
    """
    if name.class_name != "connection" or document.get("type") != "direct":
        return False
    protocol = document.get("protocol")
    if document.get("client_properties") or (isinstance(protocol, str) and not protocol.startswith("Direct")):
        return False
    host = document.get("vhost")
    return text_at(document, "user") in own_users or (bool(host) and host == management_virtual_host)


def claims_to_be_own(client_properties: Json) -> bool:
    """Return whether a client declares itself as a gateway."""
    return isinstance(client_properties, Mapping) and client_properties.get("product") == OWN_PRODUCT


MAX_PROCESSES = 500_000
"""Maximum number of connections, and of channels, known by process; events of others are not assigned."""


class Processes:
    """The names of connections and channels by their Erlang process, from creation events.

    Events name a connection or channel by its process; the management API never does. Those from before the
    start are not known.
    """

    def __init__(self) -> None:
        self._connections: dict[str, str] = {}
        self._of_connections: dict[str, str] = {}
        self._channels: dict[str, str] = {}
        self._of_channels: dict[str, str] = {}

    def connection(self, process: str) -> str | None:
        """Return the name of the connection that a process serves."""
        return self._connections.get(process)

    def of_connection(self, name: str) -> str | None:
        """Return the process that serves a connection."""
        return self._of_connections.get(name)

    def channel(self, process: str) -> str | None:
        """Return the name of the channel that a process serves."""
        return self._channels.get(process)

    def connection_opened(self, process: str, name: str) -> None:
        """Add the process of a new connection."""
        if len(self._of_connections) < MAX_PROCESSES:
            self._connections[process] = name
            self._of_connections[name] = process

    def connection_closed(self, name: str) -> None:
        """Remove the process of a connection that ended."""
        self._connections.pop(self._of_connections.pop(name, ""), None)

    def channel_opened(self, process: str, name: str) -> None:
        """Add the process of a new channel.

        The former channel of its name has ended, although its process reports that after it has answered the
        client, who may have opened the new one by then.
        """
        self._channels.pop(self._of_channels.pop(name, ""), None)
        if len(self._channels) < MAX_PROCESSES:
            self._channels[process] = name
            self._of_channels[name] = process

    def channel_closed(self, process: str) -> None:
        """Remove the process of a channel that ended."""
        self._of_channels.pop(self._channels.pop(process, ""), None)

    def forget(self) -> None:
        """Remove all: events were lost, so a process may serve another connection now, or none."""
        self._connections.clear()
        self._of_connections.clear()
        self._channels.clear()
        self._of_channels.clear()
