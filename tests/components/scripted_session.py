"""A session whose answers tests script: each event becomes the call of a method."""

from __future__ import annotations

from typing import Any

from gateway.dialects.session import (
    BacklogFollows,
    BytesReceived,
    Delivery,
    Effect,
    Event,
    EventNotTakenError,
    LinkDown,
    LinkUp,
    ListenerStops,
    Listening,
    LossSuspected,
    NotSent,
    ObjectsRestored,
    PeerConnected,
    PeerDisconnected,
    ReceivedUntil,
    TimerExpired,
)
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify


class ScriptedSession:
    """A session that takes the events for which a subclass has a method with the event's fields and time."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Handle an event as `Session.handle`."""
        name, *fields = _as_call(event)
        method = getattr(self, name, None)
        if method is None:
            raise EventNotTakenError(self, event)
        effects: list[Effect] = method(*fields, now)
        return effects

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:  # noqa: ARG002  as of sessions
        """Return ``None``: no request is refused before it is sent."""
        return None


def _as_call(event: Event) -> tuple[Any, ...]:  # noqa: C901, PLR0911, PLR0912  a case for each event
    match event:
        case Delivery():
            return "receive", event
        case TimerExpired():
            return ("tick",)
        case LinkUp(reply_to):
            return "connected", reply_to
        case LinkDown(detail):
            return "disconnected", detail
        case LossSuspected(reason, since):
            return "loss_suspected", reason, since
        case ReceivedUntil(until, connection):
            return "received_until", until, connection
        case NotSent(sends, reason):
            return "not_sent", sends, reason
        case BacklogFollows(missed, waiting):
            return "backlog_follows", missed, waiting
        case PeerConnected(connection, peer):
            return "opened", connection, peer
        case BytesReceived(connection, octets):
            return "received_bytes", connection, octets
        case PeerDisconnected(connection, reason):
            return "ended", connection, reason
        case ListenerStops():
            return ("stopping",)
        case Listening():
            return ("listening",)
        case ObjectsRestored(objects):
            return "restore", objects
        case MethodCall():
            return "call", event
        case ObjectModify():
            return "modify", event
        case ObjectFetch():
            return "fetch", event
        case _:
            return ("properties_missing",)
