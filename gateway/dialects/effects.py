"""What a session wants done: the only way out of the code without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from gateway.model.observations import Observation
from gateway.model.operations import Answer
from gateway.model.schema import ClassKey
from gateway.model.values import Value, Values

_MILLISECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Binding:
    """What a link binds its queue to before it says that it is connected."""

    exchange: str
    routing_key: str


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
class Send:
    """Publish ``body``; ``expiration`` is milliseconds that the broker may keep it, 0 for no limit.

    ``not_after`` (nanoseconds, the gateway's clock; 0 for no such time) marks what must be carried out once
    or never, and not later: it is not sent after that time, expires then wherever it waits, and is never
    sent again. Its session is told if it certainly was not sent.
    ``message_id`` is the same however often a message is sent, so that who receives it twice can tell.
    ``persistent``: what it tells is told once, so that it should outlive a restart of the broker where it
    waits in a durable queue.
    ``mandatory``: the broker returns it where it leads into no queue; its session is told then that it was
    not sent.
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
    """The source told something: apply all of it at once."""

    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a call or fetch that a console session was given; after what it led to was observed."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Called:
    """A console called a method of one of an agent's objects: carry it out, and tell what came of it.

    Attributes:
        handle: tells calls apart; what came of it is told with it.
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
    """A console gave properties of an object other values: as one, once; tell what came of it.

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
    """A console asked for one object of an agent: read it again, and tell when that is done.

    Attributes as of `Called`.
    """

    handle: int
    key: ClassKey
    number: int
    deadline: int


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call ``tick`` at ``time`` (nanoseconds, the gateway's clock); replaces an earlier wish."""

    time: int


@dataclass(frozen=True, slots=True)
class Rebind:
    """The session's queue must be bound again, and the link begin again for that; ``reason`` says why.

    Some agents tell everything to whoever binds a queue, and can be asked for it in no other way.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something an operator may want to see in the log: ``event`` is a fixed name, ``detail`` for people.

    Links and services count notes by ``event`` and limit their rate.
    """

    event: str
    detail: str = ""


Effect: TypeAlias = Send | Observed | Answered | Called | ModifyAsked | ReadAsked | WakeAt | Rebind | Note
