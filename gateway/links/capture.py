"""Writes down what a session is told and what it says, so that it can be played to it again.

The tap stands between a session and what surrounds it: it is a session itself, and passes everything on.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Protocol, runtime_checkable

from gateway.dialects.effects import Delivery, Effect, Send
from gateway.dialects.stream_effects import Close, Peer, StreamEffect, StreamSession, Write
from gateway.links.amqp import LinkedSession
from gateway.links.capture_file import CaptureFile, Fields
from gateway.links.capture_operations import operation_fields
from gateway.links.capture_sightings import recorded
from gateway.links.conversation import Session
from gateway.model.observations import ObjectSeen
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify


class MessagingSession(LinkedSession, Session, Protocol):
    """A session that an AMQP link carries, as far as it is captured and replayed."""


class MessagingConsole(MessagingSession, Protocol):
    """A console that an AMQP link carries, as far as it is captured."""

    def call(self, call: MethodCall, now: int) -> list[Effect]:
        """Call a method."""
        ...

    def fetch(self, fetch: ObjectFetch, now: int) -> list[Effect]:
        """Read an object again."""
        ...


@runtime_checkable
class ModifyingConsole(MessagingConsole, Protocol):
    """One whose dialect has a request of its own to set properties."""

    def modify(self, modify: ObjectModify, now: int) -> list[Effect]:
        """Set them."""
        ...


class StreamConsole(StreamSession, Protocol):
    """A session over byte streams of which operators can ask something."""

    def restore(self, sightings: Iterable[ObjectSeen], now: int) -> list[StreamEffect]:
        """Know again what was known before a restart."""
        ...

    def started(self, now: int) -> list[StreamEffect]:
        """It listens."""
        ...

    def call(self, call: MethodCall, now: int) -> list[StreamEffect]:
        """Call a method."""
        ...

    def fetch(self, fetch: ObjectFetch, now: int) -> list[StreamEffect]:
        """Read an object again."""
        ...


@runtime_checkable
class ToldOfUnsent(Protocol):
    """A session that is told what was not sent."""

    def unsent(self, sends: Sequence[Send], reason: str, now: int) -> Iterable[Effect]:
        """These certainly were not sent."""
        ...


@runtime_checkable
class CatchesUp(Protocol):
    """A session over a queue that is kept for its return."""

    def catch_up(self, missed: str, waiting: int, now: int) -> Iterable[Effect]:
        """What waited arrives next."""
        ...


@runtime_checkable
class Foresees(Protocol):
    """A console that can say before why it would not send something; nothing is sent, or changed, by that."""

    def objection(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """What it would answer at once; ``None`` where nothing speaks against it."""
        ...


def _objection_of(console: object, request: MethodCall | ObjectModify, now: int) -> Answer | None:
    """As of the console, where it foresees; not written down, since nothing comes of it."""
    return console.objection(request, now) if isinstance(console, Foresees) else None


class CapturedSession:
    """A session over AMQP, and what is said to it and by it in a file."""

    def __init__(self, session: MessagingSession, file: CaptureFile) -> None:
        self._session = session
        self._file = file
        self._standing: dict[str, object] = {}

    def connected(self, reply_to: str, now: int) -> list[Effect]:
        """As of the session."""
        self._standing = {"reply_to": reply_to}
        self._event(now, "connected", reply_to=reply_to)
        return self._said(self._session.connected(reply_to, now), now)

    def disconnected(self, detail: str, now: int) -> list[Effect]:
        """As of the session."""
        self._standing = {}
        self._event(now, "disconnected", detail=detail)
        return self._said(self._session.disconnected(detail, now), now)

    def resync(self, reason: str, now: int, since: int = 0) -> list[Effect]:
        """As of the session."""
        self._event(now, "resync", reason=reason, since=since)
        return self._said(self._session.resync(reason, now, since), now)

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        """As of the session."""
        self._write(now, {"dir": self._file.directions.received, **message_fields(delivery)})
        return self._said(self._session.receive(delivery, now), now)

    def tick(self, now: int) -> list[Effect]:
        """As of the session."""
        self._event(now, "tick")
        return self._said(self._session.tick(now), now)

    def unsent(self, sends: Sequence[Send], reason: str, now: int) -> list[Effect]:
        """As of the session, where it wants to know."""
        self._event(now, "unsent", reason=reason, sends=[message_fields(send) for send in sends])
        if not isinstance(self._session, ToldOfUnsent):
            return []
        return self._said(list(self._session.unsent(sends, reason, now)), now)

    def catch_up(self, missed: str, waiting: int, now: int) -> list[Effect]:
        """As of the session, where its queue may be kept."""
        self._event(now, "catch-up", missed=missed, waiting=waiting)
        if not isinstance(self._session, CatchesUp):
            return []
        return self._said(list(self._session.catch_up(missed, waiting, now)), now)

    def _said(self, effects: list[Effect], now: int) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Send):
                self._write(now, {"dir": self._file.directions.sent, **message_fields(effect)})
        return effects

    def _event(self, now: int, event: str, **about: object) -> None:
        self._write(now, {"event": event, **about})

    def _write(self, now: int, record: Fields) -> None:
        self._file.write({"ns": now, **record}, now, self._standing)


class CapturedConsole(CapturedSession):
    """As `CapturedSession`, with what operators ask of it, which a replay asks again."""

    def __init__(self, session: MessagingConsole, file: CaptureFile) -> None:
        super().__init__(session, file)
        self._console = session

    def call(self, call: MethodCall, now: int) -> list[Effect]:
        """As of the session."""
        self._write(now, operation_fields(call))
        return self._said(self._console.call(call, now), now)

    def fetch(self, fetch: ObjectFetch, now: int) -> list[Effect]:
        """As of the session."""
        self._write(now, operation_fields(fetch))
        return self._said(self._console.fetch(fetch, now), now)

    def objection(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """As of the session."""
        return _objection_of(self._console, request, now)


class CapturedModifyingConsole(CapturedConsole):
    """As `CapturedConsole`, of a dialect that has a request of its own to set properties."""

    def __init__(self, session: ModifyingConsole, file: CaptureFile) -> None:
        super().__init__(session, file)
        self._modifying = session

    def modify(self, modify: ObjectModify, now: int) -> list[Effect]:
        """As of the session."""
        self._write(now, operation_fields(modify))
        return self._said(self._modifying.modify(modify, now), now)


def captured_console(session: MessagingConsole, file: CaptureFile) -> CapturedConsole:
    """``session``, captured; it can modify where the session can."""
    if isinstance(session, ModifyingConsole):
        return CapturedModifyingConsole(session, file)
    return CapturedConsole(session, file)


class CapturedStreamSession:
    """A session over byte streams, and what is said to it and by it in a file."""

    def __init__(self, session: StreamSession, file: CaptureFile) -> None:
        self._session = session
        self._file = file
        self._open: dict[int, Peer] = {}

    def opened(self, connection: int, peer: Peer, now: int) -> list[StreamEffect]:
        """As of the session."""
        self._write(now, {"event": "opened", **_peer_fields(connection, peer)})
        self._open[connection] = peer
        return self._said(self._session.opened(connection, peer, now), now)

    def received(self, connection: int, octets: bytes, now: int) -> list[StreamEffect]:
        """As of the session."""
        self._write(now, {"dir": self._file.directions.received, **octets_fields(connection, octets)})
        return self._said(self._session.received(connection, octets, now), now)

    def ended(self, connection: int, reason: str, now: int) -> list[StreamEffect]:
        """As of the session."""
        self._write(now, {"event": "ended", "connection": connection, "reason": reason})
        self._open.pop(connection, None)
        return self._said(self._session.ended(connection, reason, now), now)

    def stopping(self, now: int) -> list[StreamEffect]:
        """As of the session."""
        self._write(now, {"event": "stopping"})
        return self._said(self._session.stopping(now), now)

    def tick(self, now: int) -> list[StreamEffect]:
        """As of the session."""
        self._write(now, {"event": "tick"})
        return self._said(self._session.tick(now), now)

    def _said(self, effects: list[StreamEffect], now: int) -> list[StreamEffect]:
        for said in _stream_records(effects):
            self._write(now, {"dir": self._file.directions.sent, **said})
        return effects

    def _write(self, now: int, record: Fields) -> None:
        standing = {"open": [_peer_fields(number, peer) for number, peer in self._open.items()]}
        self._file.write({"ns": now, **record}, now, standing)


class CapturedStreamConsole(CapturedStreamSession):
    """As `CapturedStreamSession`, with what operators ask of it, which a replay asks again."""

    def __init__(self, session: StreamConsole, file: CaptureFile) -> None:
        super().__init__(session, file)
        self._console = session

    def restore(self, sightings: Iterable[ObjectSeen], now: int) -> list[StreamEffect]:
        """As of the session, in as many parts as there are records of it."""
        effects: list[StreamEffect] = []
        for record, part in recorded(sightings):
            self._write(now, {"event": "restored", **record})
            effects += self._said(self._console.restore(part, now), now)
        return effects

    def started(self, now: int) -> list[StreamEffect]:
        """As of the session."""
        self._write(now, {"event": "started"})
        return self._said(self._console.started(now), now)

    def call(self, call: MethodCall, now: int) -> list[StreamEffect]:
        """As of the session."""
        self._write(now, operation_fields(call))
        return self._said(self._console.call(call, now), now)

    def fetch(self, fetch: ObjectFetch, now: int) -> list[StreamEffect]:
        """As of the session."""
        self._write(now, operation_fields(fetch))
        return self._said(self._console.fetch(fetch, now), now)

    def objection(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """As of the session."""
        return _objection_of(self._console, request, now)


def message_fields(message: Delivery | Send) -> dict[str, Any]:
    """A message as JSON: exchange and routing key, the rest where it is not empty, the body in base64."""
    told: dict[str, Any] = {"exchange": message.exchange, "routing_key": message.routing_key}
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name not in ("exchange", "routing_key", "body") and value != field.default:
            told[field.name] = value
    return {**told, "body_b64": base64.b64encode(message.body).decode()}


def octets_fields(connection: int, octets: bytes) -> dict[str, Any]:
    """Octets of a connection as JSON."""
    return {"connection": connection, "body_b64": base64.b64encode(octets).decode()}


def _stream_records(effects: Iterable[StreamEffect]) -> Iterable[dict[str, Any]]:
    for effect in effects:
        record = stream_fields(effect)
        if record is not None:
            yield record


def stream_fields(effect: object) -> dict[str, Any] | None:
    """What a session over byte streams said, as JSON; ``None`` where that is nothing to its peers."""
    match effect:
        case Write(connection, octets):
            return octets_fields(connection, octets)
        case Close(connection):
            return {"connection": connection, "close": True}
        case _:
            return None


def _peer_fields(connection: int, peer: Peer) -> dict[str, Any]:
    return {"connection": connection, "address": peer.address, "name": peer.name}
