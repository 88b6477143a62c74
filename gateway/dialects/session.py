"""The interface of every session: ``handle(event, now)`` returns effects.

A session is a conversation with peers in one dialect and one role, without I/O: no socket, no clock, no log.
Its inputs are the union `Event`, its outputs the union `Effect`; both are closed. A
driver (`gateway.links.session_driver`) passes events with the time, and carries effects out in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from gateway.dialects.errors import LocalProtocolError
from gateway.model.observations import ObjectSeen, Observation
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import ClassKey
from gateway.model.times import MILLISECOND
from gateway.model.values import Value, Values

NEVER: Final = 1 << 63
"""A time that never comes."""

# Events of a link to an AMQP broker.


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that arrived over AMQP.

    ``user_id`` is the sender as the broker checked it (AMQP 0-9-1 ``user-id``), empty where there is none.
    ``timestamp`` is the sender's, in nanoseconds, 0 where there is none. ``expiration`` is the number of
    milliseconds after it within which the request must be carried out, 0 for no limit. ``message_id`` is the
    sender's; some peers copy that of a request to its reply, instead of a correlation id.
    """

    exchange: str
    routing_key: str
    body: bytes
    reply_to: str = ""
    user_id: str = ""
    content_type: str = ""
    correlation_id: str = ""
    timestamp: int = 0
    expiration: int = 0
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class LinkUp:
    """The session's queue is bound and consumed; its name, ``reply_to``, is the routing key of replies."""

    reply_to: str


@dataclass(frozen=True, slots=True)
class LinkDown:
    """Nothing arrives and nothing can be sent; ``detail`` is the reason, for people.

    Everything that reached the session's queue until ``received_until`` (ns; 0: unknown) was received. What
    was received after that may be old, and something may be missing before it.
    """

    detail: str
    received_until: int = 0


@dataclass(frozen=True, slots=True)
class BacklogFollows:
    """Messages that waited in a durable queue are delivered next, and `LinkUp` follows them.

    Attributes:
        missed: the reason why earlier messages may be lost; empty where none are.
        waiting: the approximate number of messages that wait.
    """

    missed: str
    waiting: int


@dataclass(frozen=True, slots=True)
class LossSuspected:
    """Messages may have been lost in transit, none of them from before ``since`` (ns; 0: none was lost)."""

    reason: str
    since: int = 0


@dataclass(frozen=True, slots=True)
class ReceivedUntil:
    """All that had reached this machine, or the session's queue, at ``until`` (ns) was passed on before.

    Links prove it at intervals, so its absence shows that received messages may be old, whether the broker
    or the gateway is slow. ``connection``: of a listener, the connection that it is about.
    """

    until: int
    connection: int = 0


@dataclass(frozen=True, slots=True)
class NotSent:
    """These messages certainly were not sent and will not be, or were returned; ``reason`` is for people.

    It precedes `LinkDown`, which leaves the fate of all other messages open.
    """

    sends: Sequence[Send]
    reason: str


# Events of a listener for byte streams. Numbers of connections are never used again.


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection.

    Attributes:
        address: an IP address.
        name: the common name of its verified certificate; empty where none is required.
    """

    address: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class ObjectsRestored:
    """These objects were known before the gateway was restarted; it precedes `Listening`.

    Their classes are in the session's configuration. The objects are stale until their agent confirms them.
    """

    objects: Sequence[ObjectSeen]


@dataclass(frozen=True, slots=True)
class Listening:
    """The listener accepts connections."""


@dataclass(frozen=True, slots=True)
class PeerConnected:
    """A connection was accepted."""

    connection: int
    peer: Peer


@dataclass(frozen=True, slots=True)
class BytesReceived:
    """Bytes arrived on a connection, in their order, in pieces of any length."""

    connection: int
    octets: bytes


@dataclass(frozen=True, slots=True)
class PeerDisconnected:
    """A connection has ended, whichever side ended it; ``reason`` is for people. It is reported once."""

    connection: int
    reason: str


@dataclass(frozen=True, slots=True)
class ListenerStops:
    """The listener is about to end: the last chance to write something. Then each connection is closed."""


# Events of any session.


@dataclass(frozen=True, slots=True)
class TimerExpired:
    """The time that the session requested by `WakeAt` has come."""


@dataclass(frozen=True, slots=True)
class PropertiesMissing:
    """The inventory holds statistics of objects whose properties were never received."""


Operation: TypeAlias = MethodCall | ObjectModify | ObjectFetch
"""A user's request. The session answers each by `Answered`, at once or later."""

Event: TypeAlias = (
    Delivery
    | TimerExpired
    | LinkUp
    | LinkDown
    | BacklogFollows
    | LossSuspected
    | ReceivedUntil
    | NotSent
    | PropertiesMissing
    | Operation
    | ObjectsRestored
    | Listening
    | PeerConnected
    | BytesReceived
    | PeerDisconnected
    | ListenerStops
)
"""All inputs of sessions; each session documents which of them it accepts."""

# Effects.


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding that a link makes for its queue before it reports that it is connected."""

    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class Send:
    """Publish ``body``; ``expiration`` is milliseconds that the broker may keep it, 0 for no limit.

    ``not_after`` (nanoseconds, the gateway's clock; 0 for no such time) marks a request that must be carried
    out at most once, and not later: it is not sent after that time, expires then wherever it waits, and is
    never sent again. Its session gets `NotSent` where it certainly was not sent.
    ``message_id`` stays the same when a message is sent again, so that the receiver can detect a duplicate.
    ``persistent``: the message is published once, and should outlive a restart of the broker where it waits
    in a durable queue.
    ``mandatory``: the broker returns the message where no queue takes it; its session gets `NotSent` then.
    """

    exchange: str
    routing_key: str
    body: bytes
    reply_to: str = ""
    content_type: str = ""
    correlation_id: str = ""
    expiration: int = 0
    message_id: str = ""
    persistent: bool = False
    not_after: int = 0
    mandatory: bool = False

    def is_too_late(self, now: int) -> bool:
        """Return whether the message must not be sent any more."""
        return 0 < self.not_after <= now

    def lifetime(self, sent: int) -> int:
        """Return the milliseconds that the message may live from ``sent``, its published time; 0: no limit.

        An AMQP timestamp has whole seconds: a caller that rounds it down passes the rounded time.
        """
        if not self.not_after:
            return self.expiration
        return max(1, (self.not_after - sent) // MILLISECOND)


@dataclass(frozen=True, slots=True)
class Observed:
    """Observations of the source, which are applied in their order, and before those of the next event."""

    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome of an operation; it follows the observations that belong to it."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Called:
    """A console called a method of an agent's object: carry it out, and report the outcome.

    Attributes:
        handle: identifies the call; its outcome is reported with it.
        key: the class of the object.
        number: the number of the object within the agent.
        method: the name of the method.
        arguments: the ``IN`` and ``INOUT`` ones in the schema's order, checked against it; optional ones that
            were empty are absent.
        user_id: the caller, as the broker checked it.
        deadline: nanoseconds of the clock; the call must not begin later.
    """

    handle: int
    key: ClassKey
    number: int
    method: str
    arguments: Values
    user_id: str
    deadline: int


@dataclass(frozen=True, slots=True)
class CalledUnseen:
    """A console called a method of an object that does not exist for it: it has the answer, record it.

    Attributes:
        key: the class that the console named.
        number: the number of the object within the agent; ``None`` where there is none.
        method: the name that the console gave.
        user_id: the caller, as the broker checked it.
    """

    key: ClassKey
    number: int | None
    method: str
    user_id: str


@dataclass(frozen=True, slots=True)
class ModifyAsked:
    """A console changes properties of an object, as one change: make it once, and report the outcome.

    Attributes:
        handle, key, number, user_id, deadline: as in `Called`.
        values: the values by the names of the properties, checked against the schema.
    """

    handle: int
    key: ClassKey
    number: int
    values: Mapping[str, Value]
    user_id: str
    deadline: int


@dataclass(frozen=True, slots=True)
class ReadAsked:
    """A console requests one object of an agent: read it again, and report when that is done.

    The attributes are those of `Called`.
    """

    handle: int
    key: ClassKey
    number: int
    deadline: int
    user_id: str = ""


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Pass `TimerExpired` at ``time`` (nanoseconds); this replaces an earlier request."""

    time: int


@dataclass(frozen=True, slots=True)
class Rebind:
    """Bind the session's queue again, with a new connection; ``reason`` is for people.

    Some agents publish everything when a queue is bound, and offer no other request for that.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """A fact for the log: ``event`` is a fixed name, ``detail`` is for people.

    Links and services count notes by ``event`` and limit their rate.
    """

    event: str
    detail: str = ""


REFUSED_BODY: Final = "refused-body-"
"""The beginning of the event of a note about a body that was refused; the reason follows."""


@dataclass(frozen=True, slots=True)
class Write:
    """Send ``octets`` on a connection, after what was written before."""

    connection: int
    octets: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """End a connection when everything written has been sent; nothing more is received on it."""

    connection: int


@dataclass(frozen=True, slots=True)
class Logged:
    """A line of a session whose application requested a log, without secrets and without its end.

    Attributes:
        application: the name under which it logged in; any text, so it is not safe as a file name.
        line: the bytes of the line.
        outgoing: whether the gateway sent it.
    """

    application: str
    line: bytes
    outgoing: bool = False


@dataclass(frozen=True, slots=True)
class PublishRefused:
    """A peer may not publish an object, because no role permits it; for the record.

    Attributes:
        peer: the peer.
        class_name: ``package:class`` of the object.
        text: what was refused, for people; it has the object's name, which the peer chose.
    """

    peer: Peer
    class_name: str
    text: str


@dataclass(frozen=True, slots=True)
class LoginRefused:
    """A peer was not let in, which is to be recorded; ``reason`` is for people.

    Attributes:
        address: the IP address of the peer.
        reason: why, with the names that it gave.
    """

    address: str
    reason: str


Effect: TypeAlias = (
    Send
    | Observed
    | Answered
    | Note
    | WakeAt
    | Rebind
    | Called
    | CalledUnseen
    | ModifyAsked
    | ReadAsked
    | Write
    | Close
    | Logged
    | LoginRefused
    | PublishRefused
)
"""All outputs of sessions."""


class EventNotTakenError(LocalProtocolError):
    """The session does not accept such an event, because its role or its transport is another one."""

    def __init__(self, session: object, event: Event) -> None:
        super().__init__(f"{type(session).__name__} takes no {type(event).__name__}")


class Session(Protocol):
    """A conversation in one dialect and role, without I/O."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event at ``now`` (nanoseconds, the gateway's clock); return the effects.

        Invalid messages of peers never raise an exception.

        Raises:
            EventNotTakenError: the session does not accept such an event.
            LocalProtocolError: the event contradicts the session's state.
            UnsentError: (of an operation) an internal error; nothing of it is sent, now or later.
        """
        ...


class ConsoleSession(Session, Protocol):
    """A session that observes a source, and carries out operations on its objects."""

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """Return an answer that needs no request; ``None`` where a request would be sent. Sends nothing."""
        ...


NO_SET: Final = "the source has no request of its own to set properties"


def cannot_be_set(modify: ObjectModify) -> Answer:
    """Return the answer of a console whose dialect has no request to set properties."""
    return Answer(modify.token, Outcome.READ_ONLY, f"not sent: {NO_SET}")
