"""The meaning of the broker's events: creations and ends of objects, and management events. Without I/O."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gateway.mapping.paths import Json
from gateway.mapping.rules import Mapping as MappingFile
from gateway.sources.rabbitmq.broker_view import WITHIN_VIRTUAL_HOST, BrokerView
from gateway.sources.rabbitmq.cluster import ALARM_EVENTS, ELEMENTS, ResourceAlarms
from gateway.sources.rabbitmq.event_headers import readable_headers
from gateway.sources.rabbitmq.event_making import EventMaker, RaisedEvent
from gateway.sources.rabbitmq.events import (
    OPERATOR_POLICY_SET,
    REMOVALS,
    BrokerEvent,
    Changed,
    Created,
    Deleted,
    EventKinds,
    EventReader,
    Other,
    completed_headers,
)
from gateway.sources.rabbitmq.object_lives import Change, Gone, KnownObject, Put
from gateway.sources.rabbitmq.object_names import ObjectName, claims_to_be_own, plain_text
from gateway.sources.rabbitmq.reading import ClassReader
from gateway.sources.rabbitmq.rights import PERMISSION_EVENTS, host_of_permission
from gateway.sources.rabbitmq.source_events import BrokerEventReceived

_OF_CONSUMERS = frozenset({"consumer.created", "consumer.deleted"})
LOGIN_EVENTS = ("user.authentication.success", "user.authentication.failure")


@dataclass(frozen=True, slots=True)
class EventOutcome:
    """The meaning of an event.

    Attributes:
        event: the object that it is about, if any.
        changes: to the known objects.
        raised: management events, to be published after the changes.
    """

    event: BrokerEvent
    changes: list[Change] = field(default_factory=list)
    raised: list[RaisedEvent] = field(default_factory=list)

    @property
    def ended(self) -> set[ObjectName]:
        """The names of the objects that ended, whether they were known or not."""
        names = {change.object.name for change in self.changes if isinstance(change, Gone)}
        return names | {self.event.name} if isinstance(self.event, Deleted) else names


class BrokerEvents:
    """Interprets the broker's events.

    Args:
        mapping: defines the management events.
        readers: the reader of each class.
        view: changed by the events.
        user: the user who reads the management API.

    Attributes:
        alarms: the nodes' alarms.
        reader: finds out which object an event is about.
        maker: makes the management events.

    Raises:
        MappingError: see `EventMaker`.
    """

    def __init__(
        self, mapping: MappingFile, readers: Mapping[str, ClassReader], view: BrokerView, user: str
    ) -> None:
        self.alarms = ResourceAlarms()
        self.reader = EventReader(readers, view)
        self.maker = EventMaker(mapping, readers)
        self._view = view
        self._user = user
        self._logins = Logins()
        self._kinds = EventKinds()

    @property
    def routing_keys(self) -> tuple[str, ...]:
        """The routing keys of the broker's events that are needed."""
        wanted = (
            *self.reader.routing_keys,
            *self.maker.triggers,
            *LOGIN_EVENTS,
            *ALARM_EVENTS,
            *PERMISSION_EVENTS,
        )
        # Distinguished here, because the broker has no event of that name.
        return tuple(key for key in dict.fromkeys(wanted) if key != OPERATOR_POLICY_SET)

    def lost(self) -> None:
        """Take note that some events may have been lost."""
        self._view.processes.forget()
        self._view.unseen.forget()
        self._view.known.unplaced.clear()
        self._logins.forget()
        self._kinds.forget()

    def take(
        self, received: BrokerEventReceived, now: int, *, recovering: bool = False, waited: bool = False
    ) -> EventOutcome:
        """Take an event that arrived. Never raises.

        Args:
            received: the event.
            now: the time (ns).
            recovering: it is from before any client could connect to a node that was started.
            waited: it may have happened long ago, because a durable subscription kept it.
        """
        plain = received.headers
        key = self._kinds.kind(received.key, plain)
        if key not in LOGIN_EVENTS:  # a stranger chooses their names, and no object has them
            self._view.byte_names.learn(plain.values())
        time = received.time or now
        self.alarms.event(key, plain, min(time, now) if waited else now)
        connection = plain.get("connection_name")
        if key in LOGIN_EVENTS and isinstance(connection, str):
            self._logins.began(connection)
        event = self._view.same_names.reported(self.reader.read(key, plain, received.time), plain)
        self._of_process(key, plain, event, time, now)
        match event:
            case Changed():
                self._view.changed(event)
            case Created(reading):
                again = self._view.is_recovered(event, now, recovering=recovering)
                changes = self._unseen_host(event, now)
                changes += self._view.born(event, now, recovering=recovering)
                shown = self._view.shows(reading.name, event.document) and not again
                if reading.name.class_name == "connection":
                    self._logins.opened(reading.name.leaf, own=not shown)
                return EventOutcome(
                    event, changes, self._raised(key, plain, time, of=reading.name) if shown else []
                )
            case Deleted(name):
                out_of_reach = self._view.failures.went_out_of_reach(name, plain)
                if out_of_reach is not None:
                    return EventOutcome(Changed(name.class_name), out_of_reach)
                known = self._view.known.ending(name)
                shown = self._shows_end(name, plain, known)
                changes = self._view.ended(event, now)
                return EventOutcome(
                    event, changes, self._raised(key, plain, time, known, of=name) if shown else []
                )
        if self._kinds.repeats(key, plain):
            return EventOutcome(event)
        plain = completed_headers(key, plain)
        # Reports on an object that arrive after its end belong to its end.
        subjects = () if key in REMOVALS else self.maker.subjects(key, plain)
        if any(self._view.known.has_ended(subject) for subject in subjects):
            return EventOutcome(event)
        return EventOutcome(event, self._node_of_alarm(key, plain), self._raised(key, plain, time))

    def hosts_in_question(
        self, received: BrokerEventReceived, changes: Iterable[Change], now: int
    ) -> list[str]:
        """Return the virtual hosts of which an event leaves open whether their contents may be read.

        Args:
            received: the event, which has been taken.
            changes: its changes.
            now: the time (ns).
        """
        new = [change.object.name for change in changes if isinstance(change, Put) and change.new]
        hosts = [name.leaf for name in new if name.class_name == "vhost"]
        host = host_of_permission(received.key, received.headers, self._user)
        if host is not None:
            self._view.hosts.reconsider(host, now)
            hosts.append(host)
        return hosts

    def _of_process(
        self, key: str, plain: Mapping[str, Json], event: BrokerEvent, time: int, now: int
    ) -> None:
        """Note the end of a channel's process, and the begin and end of a consumer of an unknown process."""
        process, host, queue = (plain.get(header) for header in ("pid", "vhost", "queue"))
        if key == "channel.closed" and isinstance(process, str):
            self._view.processes.channel_closed(process)
            since = self._view.known.unplaced.ended_with(process)
            if since is not None:
                self._view.known.came_and_went(since, time)
        if key not in _OF_CONSUMERS or not isinstance(host, str) or not isinstance(queue, str):
            return
        which = (host, queue, str(plain.get("consumer_tag")), str(plain.get("channel")))
        if key == "consumer.deleted":
            since = self._view.known.unplaced.ended(which)
            if since is not None and isinstance(event, Other):
                self._view.known.came_and_went(since, time)
        elif isinstance(event, Other) and self._view.shows(ObjectName("queue", (host, queue)), plain):
            self._view.known.unplaced.began(which, time, now)

    def _unseen_host(self, event: Created, now: int) -> list[Change]:
        """Add the virtual host of a new queue or exchange, if the event of its creation was missed.

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
        created = self.reader.read("vhost.created", {"name": host}, 0)
        changes = self._view.born(created, now) if isinstance(created, Created) else []
        return [*changes, *known.unread_alone(vhost, now)]  # nothing but its name is known

    def _node_of_alarm(self, key: str, plain: Mapping[str, Json]) -> list[Change]:
        """Apply an alarm that was set or cleared to its node at once, not when the node is listed."""
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
        self,
        key: str,
        plain: Mapping[str, Json],
        time: int,
        ended: KnownObject | None = None,
        of: ObjectName | None = None,
    ) -> list[RaisedEvent]:
        """Return the management events; ``of``: the object, if the broker's event is about one."""
        shared = of.plain if of is not None and of.plain is not of else None

        def known(name: ObjectName) -> KnownObject | None:
            name = of if of is not None and name == shared else name
            return ended if ended is not None and ended.name == name else self._view.known.get(name)

        raised = self.maker.made(key, plain, time, known)
        if shared is None or of is None:
            return raised
        return [
            replace(one, arguments=tuple(of if value == shared else value for value in one.arguments))
            for one in raised
        ]


MAX_LOGINS = 10_000
"""Maximum number of logins in progress, and of the gateway's own connections, that are kept."""


class Logins:
    """Knows which connections are logging in, and which are not reported.

    RabbitMQ reports the end of every connection, also of those that never logged in, without user and virtual
    host.
    """

    def __init__(self) -> None:
        self._under_way: OrderedDict[str, None] = OrderedDict()
        self._own: OrderedDict[str, None] = OrderedDict()

    def began(self, connection: str) -> None:
        """Note that a client was authenticated on this connection, or was not: it is not open yet."""
        _remember(self._under_way, connection)

    def opened(self, connection: str, *, own: bool) -> None:
        """Note that a connection is open; ``own``: it is the gateway's, and is not reported."""
        self._under_way.pop(plain_text(connection), None)
        if own:
            _remember(self._own, connection)
        else:
            self._own.pop(connection, None)

    def closed(self, connection: str, headers: Mapping[str, Json], *, known: bool) -> bool:
        """Return whether the end of a connection is reported as an event.

        Args:
            connection: the name of the connection.
            headers: the headers of the broker's event, in readable form.
            known: whether it is shown as an object.
        """
        login = plain_text(connection)
        failed = login in self._under_way
        self._under_way.pop(login, None)
        if connection in self._own:
            del self._own[connection]
            return False
        if known:
            return True
        # Its opening was missed, or there was none: a client that got as far as its login has said something
        # of itself before. Whether one that says it is ours is so cannot be checked: that is accepted here.
        properties = headers.get("client_properties")
        return not failed and bool(properties) and not claims_to_be_own(properties)

    def forget(self) -> None:
        """Drop all logins: events were lost, so they may have ended."""
        self._under_way.clear()


def _remember(names: OrderedDict[str, None], name: str) -> None:
    names[name] = None
    names.move_to_end(name)
    if len(names) > MAX_LOGINS:
        names.popitem(last=False)
