"""Writes down what a session is told and what it says, so that it can be played to it again.

The tap stands between a session and what surrounds it: it is a session itself, and passes everything on.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, Protocol

from gateway.dialects.effects import Delivery, Effect, Send
from gateway.dialects.stream_effects import Close, Peer, StreamEffect, StreamSession, Write
from gateway.links.amqp import LinkedSession
from gateway.links.capture_file import CaptureFile, Fields
from gateway.links.conversation import Session, Unsent


class MessagingSession(LinkedSession, Session, Protocol):
    """A session that an AMQP link carries, as far as it is captured and replayed."""


class CapturedSession:
    """A session over AMQP, and what is said to it and by it in a file.

    What it says when it is not told anything, such as a request of an operator, `asked` writes down.
    """

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

    def resync(self, reason: str, now: int, since: int) -> list[Effect]:
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

    def telling_unsent(self, unsent: Unsent) -> Unsent:
        """``unsent`` of the session, captured too."""

        def captured(sends: Sequence[Send], reason: str, now: int) -> Iterable[Effect]:
            self._event(now, "unsent", reason=reason, sends=[message_fields(send) for send in sends])
            return self._said(list(unsent(sends, reason, now)), now)

        return captured

    def catching_up(
        self, catch_up: Callable[[str, int, int], list[Effect]]
    ) -> Callable[[str, int, int], list[Effect]]:
        """``catch_up`` of the session, captured too."""

        def captured(missed: str, waiting: int, now: int) -> list[Effect]:
            self._event(now, "catch-up", missed=missed, waiting=waiting)
            return self._said(catch_up(missed, waiting, now), now)

        return captured

    def asked(self, effects: Iterable[Effect], now: int) -> None:
        """What it wants because somebody asked it: written down, and not expected of a replay."""
        for effect in effects:
            if isinstance(effect, Send):
                fields = message_fields(effect)
                self._write(now, {"dir": self._file.directions.sent, "asked": True, **fields})

    def _said(self, effects: list[Effect], now: int) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Send):
                self._write(now, {"dir": self._file.directions.sent, **message_fields(effect)})
        return effects

    def _event(self, now: int, event: str, **about: object) -> None:
        self._write(now, {"event": event, **about})

    def _write(self, now: int, record: Fields) -> None:
        self._file.write({"ns": now, **record}, now, self._standing)


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

    def asked(self, effects: Iterable[StreamEffect], now: int) -> None:
        """What it wants because somebody asked it: written down, and not expected of a replay."""
        for said in _stream_records(effects):
            self._write(now, {"dir": self._file.directions.sent, "asked": True, **said})

    def _said(self, effects: list[StreamEffect], now: int) -> list[StreamEffect]:
        for said in _stream_records(effects):
            self._write(now, {"dir": self._file.directions.sent, **said})
        return effects

    def _write(self, now: int, record: Fields) -> None:
        standing = {"open": [_peer_fields(number, peer) for number, peer in self._open.items()]}
        self._file.write({"ns": now, **record}, now, standing)


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
