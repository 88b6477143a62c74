"""What a session wants done: the only way out of the code without I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gateway.model.observations import Observation


@dataclass(frozen=True, slots=True)
class Binding:
    """What a link binds its queue to before it says that it is connected."""

    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that arrived over AMQP, or over the loopback that stands for it.

    ``user_id`` is the sender as the broker checked it (AMQP 0-9-1 ``user-id``), empty where there is none.
    ``timestamp`` is the sender's, in nanoseconds, 0 where there is none.
    """

    exchange: str
    routing_key: str
    body: bytes
    reply_to: str = ""
    user_id: str = ""
    content_type: str = ""
    correlation_id: str = ""
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class Send:
    """Publish ``body``; ``expiration`` is milliseconds that the broker may keep it, 0 for no limit.

    ``message_id`` is the same however often a message is sent, so that who receives it twice can tell.
    ``persistent``: what it tells is told once, so that it should outlive a restart of the broker where it
    waits in a durable queue.
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


@dataclass(frozen=True, slots=True)
class Observed:
    """The source told something: apply all of it at once."""

    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call ``tick`` at ``time`` (nanoseconds, the gateway's clock); replaces an earlier wish."""

    time: int


@dataclass(frozen=True, slots=True)
class Note:
    """Something an operator may want to see in the log: ``event`` is a fixed name, ``detail`` for people.

    Links and services count notes by ``event`` and limit their rate.
    """

    event: str
    detail: str = ""


Effect: TypeAlias = Send | Observed | WakeAt | Note
