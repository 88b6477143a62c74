"""What an event of the broker means: objects that come and go, management events to be told. Without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gateway.mapping.paths import Json
from gateway.mapping.rules import Mapping as MappingFile
from gateway.sources.rabbitmq.broker_view import WITHIN_VIRTUAL_HOST, BrokerView
from gateway.sources.rabbitmq.event_kinds import OPERATOR_POLICY_SET, REMOVALS, EventKinds, completed_headers
from gateway.sources.rabbitmq.event_making import EventMaker, RaisedEvent
from gateway.sources.rabbitmq.events import BrokerEvent, Changed, Created, Deleted, EventReader
from gateway.sources.rabbitmq.headers import event_time, plain_headers, readable_headers
from gateway.sources.rabbitmq.known_objects import Change, KnownObject
from gateway.sources.rabbitmq.logins import Logins
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.reading import ClassReader
from gateway.sources.rabbitmq.resource_alarms import ALARM_EVENTS, ELEMENTS, ResourceAlarms

LOGIN_EVENTS = ("user.authentication.success", "user.authentication.failure")


@dataclass(frozen=True, slots=True)
class Heard:
    """What an event means.

    Attributes:
        event: which object it is about, if any.
        changes: of what is known.
        raised: to be told to consoles, after the changes.
    """

    event: BrokerEvent
    changes: list[Change] = field(default_factory=list)
    raised: list[RaisedEvent] = field(default_factory=list)


class BrokerEvents:
    """Understands the broker's events.

    Args:
        mapping: which management events are made of them.
        readers: the reader of each class.
        view: changed by them.

    Attributes:
        alarms: the nodes' alarms.
        reader: understands which object an event is about.
        maker: makes the management events.

    Raises:
        MappingError: as `EventMaker`.
    """

    def __init__(self, mapping: MappingFile, readers: Mapping[str, ClassReader], view: BrokerView) -> None:
        self.alarms = ResourceAlarms()
        self.reader = EventReader(readers, view)
        self.maker = EventMaker(mapping, readers)
        self._view = view
        self._logins = Logins()
        self._kinds = EventKinds()

    @property
    def routing_keys(self) -> tuple[str, ...]:
        """The broker's events that matter here."""
        wanted = (*self.reader.routing_keys, *self.maker.triggers, *LOGIN_EVENTS, *ALARM_EVENTS)
        # Told apart here, so that the broker has no event of that name.
        return tuple(key for key in dict.fromkeys(wanted) if key != OPERATOR_POLICY_SET)

    def lost(self) -> None:
        """Some events may have been lost."""
        self._view.processes.forget()
        self._logins.forget()
        self._kinds.forget()

    def take(
        self,
        key: str,
        headers: Mapping[str, object],
        timestamp: datetime | None,
        now: int,
        *,
        recovering: bool = False,
    ) -> Heard:
        """An event arrived: its routing key, its headers and its AMQP timestamp. Never raises.

        ``recovering``: it is from before any client could connect to a node that was started.
        """
        plain = plain_headers(headers)
        key = self._kinds.kind(key, plain)
        time = event_time(plain, timestamp) or now
        self.alarms.event(key, plain, now)
        connection = plain.get("connection_name")
        if key in LOGIN_EVENTS and isinstance(connection, str):
            self._logins.began(connection)
        event = self.reader.read(key, plain, timestamp)
        process = plain.get("pid")
        if key == "channel.closed" and isinstance(process, str):
            self._view.processes.channel_closed(process)
        match event:
            case Changed():
                self._view.changed(event)
            case Created(reading):
                again = self._view.is_told_again(event, now, recovering=recovering)
                changes = self._unseen_host(event, now)
                changes += self._view.born(event, now, recovering=recovering)
                shown = self._view.shows(reading.name, event.document) and not again
                if reading.name.class_name == "connection":
                    self._logins.opened(reading.name.leaf, own=not shown)
                return Heard(event, changes, self._raised(key, plain, time) if shown else [])
            case Deleted(name):
                out_of_reach = self._view.failures.went_out_of_reach(name, plain)
                if out_of_reach is not None:
                    return Heard(Changed(name.class_name), out_of_reach)
                known = self._view.known.ending(name)
                shown = self._shows_end(name, plain, known)
                changes = self._view.ended(event, now)
                return Heard(event, changes, self._raised(key, plain, time, known) if shown else [])
        if self._kinds.repeats(key, plain):
            return Heard(event)
        plain = completed_headers(key, plain)
        # Whatever else is told of an object after its end belongs to its end.
        subjects = () if key in REMOVALS else self.maker.subjects(key, plain)
        if any(self._view.known.has_ended(subject) for subject in subjects):
            return Heard(event)
        return Heard(event, self._alarm_told(key, plain), self._raised(key, plain, time))

    def _unseen_host(self, event: Created, now: int) -> list[Change]:
        """The virtual host of a new queue or exchange, if the event of its creation was missed.

        It exists, because something was created in it. Without it the queue would be named after a native id
        until virtual hosts can be listed, and a guess at that id can be wrong.
        """
        name = event.reading.name
        if name.class_name not in WITHIN_VIRTUAL_HOST or not self._view.shows(name, event.document):
            return []
        host, known = name.parts[0], self._view.known
        vhost = ObjectName("vhost", (host,))
        is_listed = any(True for _ in known.of_class("vhost"))  # otherwise their listing is about to come
        if not is_listed or known.get(vhost) is not None or known.remembered(vhost) is not None:
            return []
        created = self.reader.read("vhost.created", {"name": host}, None)
        return self._view.born(created, now) if isinstance(created, Created) else []

    def _alarm_told(self, key: str, plain: Mapping[str, Json]) -> list[Change]:
        """The node of an alarm that was set or cleared shows it at once, not when it is listed."""
        node, resource = plain.get("node"), plain.get("source")
        element = ELEMENTS.get(resource) if isinstance(resource, str) else None
        if key not in ALARM_EVENTS or element is None or not isinstance(node, str):
            return []
        known = self._view.known.get(ObjectName("node", (node,)))
        return [] if known is None else self._view.known.with_property(known, element, ALARM_EVENTS[key])

    def _shows_end(self, name: ObjectName, plain: Mapping[str, Json], known: KnownObject | None) -> bool:
        if name.class_name != "connection":
            return self._view.shows(name, plain)
        return self._logins.closed(name.leaf, readable_headers(plain), known=known is not None)

    def _raised(
        self, key: str, plain: Mapping[str, Json], time: int, ended: KnownObject | None = None
    ) -> list[RaisedEvent]:
        def known(name: ObjectName) -> KnownObject | None:
            return ended if ended is not None and ended.name == name else self._view.known.get(name)

        return self.maker.made(key, plain, time, known)
