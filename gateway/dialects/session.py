"""The interface of every session: ``handle(event, now)`` returns effects.

A session is a conversation with peers in one dialect and one role, without I/O: no socket, no clock, no log.
What happens is one of `Event`, what the session wants done is one of `Effect`; both unions are closed. A
driver (`gateway.links.session_driver`) hands in events with the time, and carries effects out in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from gateway.dialects.errors import LocalProtocolError
from gateway.model.observations import ObjectSeen, Observation
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome
from gateway.model.schema import ClassKey
from gateway.model.values import Value, Values

_MILLISECOND: Final = 1_000_000
NEVER: Final = 1 << 63
"""A time that does not come."""

# Events of a link to an AMQP broker.


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that arrived over AMQP.

    ``user_id`` is the sender as the broker checked it (AMQP 0-9-1 ``user-id``), empty where there is none.
    ``timestamp`` is the sender's, in nanoseconds, 0 where there is none. ``expiration`` is how many
    milliseconds after it the sender wants it no longer carried out, 0 for no limit. ``message_id`` is the
    sender's; some peers put that of a request on its reply, instead of a correlation id.
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
    """The session's queue is bound and consumed; its name, ``reply_to``, is the key for replies."""

    reply_to: str


@dataclass(frozen=True, slots=True)
class LinkDown:
    """Nothing arrives and nothing can be sent; ``detail`` says why, for people."""

    detail: str


@dataclass(frozen=True, slots=True)
class BacklogFollows:
    """Messages that waited in a durable queue are delivered next, and `LinkUp` follows them.

    Attributes:
        missed: why messages before them may be lost; empty where none are.
        waiting: how many messages wait, about.
    """

    missed: str
    waiting: int


@dataclass(frozen=True, slots=True)
class LossSuspected:
    """Messages may have been lost on the way, none of them before ``since`` (nanoseconds; 0: none was)."""

    reason: str
    since: int = 0


@dataclass(frozen=True, slots=True)
class NotSent:
    """These messages certainly were not sent and will not be, or came back; ``reason`` says why, for people.

    It precedes `LinkDown`, which leaves open what became of all other messages.
    """

    sends: Sequence[Send]
    reason: str


# Events of a listener for byte streams. Connections have numbers that are never used again.


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection.

    Attributes:
        address: an IP address.
        name: the common name of its certificate, as checked; empty where none is required.
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
    """A connection has ended, whoever ended it; ``reason`` says why, for people. It comes once."""

    connection: int
    reason: str


@dataclass(frozen=True, slots=True)
class ListenerStops:
    """The listener ends: the last chance to write something. Each connection is closed after it."""


# Events of any session.


@dataclass(frozen=True, slots=True)
class TimerExpired:
    """The time that the session asked for by `WakeAt` has come."""


@dataclass(frozen=True, slots=True)
class PropertiesMissing:
    """The inventory holds statistics of objects whose properties were never received."""


Operation: TypeAlias = MethodCall | ObjectModify | ObjectFetch
"""What a user wants done. The session answers each by `Answered`, in the end and perhaps at once."""

Event: TypeAlias = (
    Delivery
    | TimerExpired
    | LinkUp
    | LinkDown
    | BacklogFollows
    | LossSuspected
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
"""All that can happen to a session; each session documents which of them it takes."""

# Effects.


@dataclass(frozen=True, slots=True)
class Binding:
    """What a link binds its queue to before it says that it is connected."""

    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class Send:
    """Publish ``body``; ``expiration`` is milliseconds that the broker may keep it, 0 for no limit.

    ``not_after`` (nanoseconds, the gateway's clock; 0 for no such time) marks what must be carried out once
    or never, and not later: it is not sent after that time, expires then wherever it waits, and is never
    sent again. Its session gets `NotSent` where it certainly was not sent.
    ``message_id`` is the same however often a message is sent, so that who receives it twice can tell.
    ``persistent``: it is published once, so that it should outlive a restart of the broker where it waits
    in a durable queue.
    ``mandatory``: the broker returns it where it leads into no queue; its session gets `NotSent` then.
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
        """Whether it must not be sent any more."""
        return 0 < self.not_after <= now

    def lifetime(self, sent: int) -> int:
        """Milliseconds that it may live from ``sent`` on, which is the time that travels with it; 0: any.

        An AMQP time counts whole seconds: whoever rounds it down gives the rest here.
        """
        if not self.not_after:
            return self.expiration
        return max(1, (self.not_after - sent) // _MILLISECOND)


@dataclass(frozen=True, slots=True)
class Observed:
    """The source reported this: apply all of it at once."""

    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of an operation that a console session was given; it follows what was observed of it."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Called:
    """A console called a method of one of an agent's objects: carry it out, and report what came of it.

    Attributes:
        handle: distinguishes calls; what came of the call is reported with it.
        key: of the object's class.
        number: of the object within the agent.
        method: of the class.
        arguments: the ``IN`` and ``INOUT`` ones in the schema's order, as the schema allows them; absent
            where an optional one was empty.
        user_id: who called, as the broker checked it.
        deadline: nanoseconds of the clock; it must not be begun later.
    """

    handle: int
    key: ClassKey
    number: int
    method: str
    arguments: Values
    user_id: str
    deadline: int


@dataclass(frozen=True, slots=True)
class ModifyAsked:
    """A console gave properties of an object other values: as one, once; report what came of it.

    Attributes:
        handle, key, number, user_id, deadline: as of `Called`.
        values: by the names of the properties, as the schema allows them.
    """

    handle: int
    key: ClassKey
    number: int
    values: Mapping[str, Value]
    user_id: str
    deadline: int


@dataclass(frozen=True, slots=True)
class ReadAsked:
    """A console asked for one object of an agent: read it again, and report when that is done.

    Attributes as of `Called`.
    """

    handle: int
    key: ClassKey
    number: int
    deadline: int
    user_id: str = ""


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Hand in `TimerExpired` at ``time`` (nanoseconds); this replaces an earlier request."""

    time: int


@dataclass(frozen=True, slots=True)
class Rebind:
    """The session's queue must be bound again, and the link begin again for that; ``reason`` says why.

    Some agents publish everything when a queue is bound, and can be asked for it in no other way.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something an operator may want to see in the log: ``event`` is a fixed name, ``detail`` for people.

    Links and services count notes by ``event`` and limit their rate.
    """

    event: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """Send ``octets`` on a connection, behind what was written before."""

    connection: int
    octets: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """End a connection when all that was written has left; nothing more is received on it."""

    connection: int


@dataclass(frozen=True, slots=True)
class Logged:
    """A line of a session that an application asked to have logged, without secrets and without its end.

    Attributes:
        application: as it logged in; anything, so no name of a file.
        line: octets.
        outgoing: whether we said it.
    """

    application: str
    line: bytes
    outgoing: bool = False


Effect: TypeAlias = (
    Send
    | Observed
    | Answered
    | Note
    | WakeAt
    | Rebind
    | Called
    | ModifyAsked
    | ReadAsked
    | Write
    | Close
    | Logged
)
"""All that a session can want done."""


class EventNotTakenError(LocalProtocolError):
    """The session takes no such event: its role or its transport is another one."""

    def __init__(self, session: object, event: Event) -> None:
        super().__init__(f"{type(session).__name__} takes no {type(event).__name__}")


class Session(Protocol):
    """A conversation in one dialect and role, without I/O."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take in what happened at ``now`` (nanoseconds, the gateway's clock); return what is to be done.

        Whatever peers send, nothing is raised.

        Raises:
            EventNotTakenError: the session takes no such event.
            LocalProtocolError: the event contradicts the session's state.
        """
        ...


class ConsoleSession(Session, Protocol):
    """A session that observes a source, and carries out operations on its objects."""

    def precheck(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """Return what would be answered at once; ``None`` where the request would be sent. Sends nothing."""
        ...


NO_SET: Final = "the source has no request of its own to set properties"


def cannot_be_set(modify: ObjectModify) -> Answer:
    """Return the answer of a console whose dialect has no request to set properties."""
    return Answer(modify.token, Outcome.READ_ONLY, f"not sent: {NO_SET}")
