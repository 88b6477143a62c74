"""The answers with sessions and links of AMQP 1.0 connections, and those that are left out. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.dialects.session import Effect
from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.amqp10_sessions import MAX_LINKS, PROTOCOL, ConnectionSessions, sessions_of
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.management_api import Answer, Document, NotFound, SessionsRequest, spent_on
from gateway.sources.rabbitmq.object_lives import Change, KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.observation_stream import ObservationStream
from gateway.sources.rabbitmq.polling import PollingPlan
from gateway.sources.rabbitmq.reading import ClassReader
from gateway.sources.rabbitmq.status import Visibility

_CLASSES = ("session", "link")


class SessionAnswers:
    """Takes the answers of connections, one connection at a time.

    Args:
        readers: the reader of each class.
        known: changed by answers.
        stream: publishes what changes.
        plan: decides which connection is requested next.
        visibility: takes the text about omitted sessions and links.
        is_ambiguous: says of which connections an answer may be about another one of the name.
    """

    def __init__(
        self,
        readers: Mapping[str, ClassReader],
        known: KnownObjects,
        stream: ObservationStream,
        plan: PollingPlan,
        visibility: Visibility,
        is_ambiguous: Callable[[ObjectName], bool],
    ) -> None:
        self._is_ambiguous = is_ambiguous
        self._readers = readers
        self._known = known
        self._stream = stream
        self._plan = plan
        self._visibility = visibility
        self._too_many_links: dict[str, int] = {}

    def take(self, request: SessionsRequest, answer: Answer, began: int, ended: int) -> list[Effect]:
        """Take the answer to a request that was sent at ``began`` and ended at ``ended`` (ns)."""
        connection = self._known.get(ObjectName("connection", (request.connection,)))
        owner = ObjectName("connection", (request.connection,))
        if self._is_ambiguous(owner):
            return self.note_left_out(ended)
        found = self._found(request, answer, connection)
        if found is None:
            self._plan.sessions.failed(request.connection, ended)
            return self._stream.apply(self._unread(owner, ended))
        asked = ended - spent_on(answer, began, ended)
        self._plan.sessions_read(request, asked, ended, found=not isinstance(answer, NotFound))
        changes = [] if connection is None else self._changes(connection, found, began, ended)
        self._too_many_links[request.connection] = found.left_out
        return [*self._stream.apply(changes), *self.note_left_out(ended)]

    def _unread(self, connection: ObjectName, now: int) -> list[Change]:
        return [change for one in self._of(connection) for change in self._known.out_of_sight(one.name, now)]

    def note_left_out(self, now: int) -> list[Effect]:
        """Take the connections that are known now, and note which sessions and links are not shown."""
        every = [
            known.name
            for known in self._known.of_class("connection")
            if self._property(known, "protocol") == PROTOCOL
        ]
        # A path has the broker's name. One with a name of its own here was opened beside another one.
        shared = {name: None for name in every if self._is_ambiguous(name) or name.plain is not name}
        connections = [name.leaf for name in every if name not in shared]
        self._plan.sessions.learn(connections)
        self._too_many_links = {
            name: count for name, count in self._too_many_links.items() if count and name in connections
        }
        texts = []
        if unasked := self._plan.sessions.left_out + len(every) - len(connections):
            texts.append(f"sessions of {unasked} of {len(every)} AMQP 1.0 connections are not read")
        if links := sum(self._too_many_links.values()):
            texts.append(f"{links} AMQP 1.0 links beyond {MAX_LINKS} of a connection are not shown")
        self._visibility.left_out = "; ".join(texts)
        return self._stream.apply([change for name in shared for change in self._unread(name, now)])

    def _found(
        self, request: SessionsRequest, answer: Answer, connection: KnownObject | None
    ) -> ConnectionSessions | None:
        """Return the sessions in an answer; none at the status 404, ``None`` if it is no list of sessions."""
        body: Json = answer.body if isinstance(answer, Document) else None
        host = None if connection is None else self._property(connection, "vhost")
        shown = [] if isinstance(answer, NotFound) else body
        return sessions_of(request.connection, host if isinstance(host, str) else "", shown)

    def _changes(
        self, connection: KnownObject, found: ConnectionSessions, began: int, now: int
    ) -> list[Change]:
        """Apply a connection's sessions: those that two answers lack have ended, if these show all there are.

        RabbitMQ counts them as channels of the connection, every 5 s.
        """
        changes: list[Change] = []
        seen: set[ObjectName] = set()
        for class_name, documents in zip(_CLASSES, (found.sessions, found.links), strict=True):
            for document in documents:
                reading = self._readers[class_name].read(document)
                if reading is None:
                    found.unreadable += 1
                else:
                    seen.add(reading.name)
                if reading is not None and not self._known.is_overtaken(reading.name, began):
                    changes += self._known.listed(reading, began, (began + now) // 2, now)
        position = self._readers["connection"].schema.positions["channels"]
        counted = (*connection.properties, *connection.statistics)[position]
        is_partial = bool(found.unreadable) or (isinstance(counted, int) and counted > len(found.sessions))
        for one in self._of(connection.name):
            # A link may have ended with its session.
            if one.name in seen or self._known.get(one.name) is None:
                continue
            if is_partial or (one.name.class_name == "link" and found.left_out):
                changes += self._known.out_of_sight(one.name, now)
            else:
                changes += self._known.lacked(one.name, began, now)
        return changes

    def _of(self, connection: ObjectName) -> list[KnownObject]:
        """Return the known sessions of a connection, each followed by its links."""
        sessions = self._known.dependents(connection, "session")
        return [
            one for session in sessions for one in (session, *self._known.dependents(session.name, "link"))
        ]

    def _property(self, known: KnownObject, element: str) -> object:
        return known.properties[self._readers[known.name.class_name].schema.positions[element]]
