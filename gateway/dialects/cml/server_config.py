"""How a CML server behaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.dialects.cml.console_config import (
    NOTIFY_EXCHANGE,
    REPLY_EXCHANGE,
    ROUTING_KEY,
    SYSTEM_EXCHANGE,
)
from gateway.dialects.cml.messages import Spelling

SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How a server session behaves. Durations are nanoseconds.

    Attributes:
        spelling: of replies; requests are read in either.
        system_exchange: requests are published to it, with `routing_key`.
        reply_exchange: replies are, with the request's reply-to as the key.
        notify_exchange: notifications are.
        readers: users, as the broker checked them, who may ask for schema and objects; ``None`` for anybody,
            also senders that nothing was checked of.
        writers: users who may set fields and call methods; ``None`` for anybody who may read.
        call_deadline: what changes something must be begun so soon after its arrival, if it names no time of
            its own, and ended in as much again, else it is not answered. OpenAMQ's shell waits 10 s.
    """

    spelling: Spelling = Spelling.SPECIFICATION
    system_exchange: str = SYSTEM_EXCHANGE
    routing_key: str = ROUTING_KEY
    reply_exchange: str = REPLY_EXCHANGE
    notify_exchange: str = NOTIFY_EXCHANGE
    readers: frozenset[str] | None = None
    writers: frozenset[str] | None = frozenset()
    call_deadline: int = 4 * SECOND

    def may_read(self, user: str) -> bool:
        """Whether ``user`` may ask for anything at all."""
        return self.readers is None or user in self.readers

    def may_write(self, user: str) -> bool:
        """Whether ``user`` may change anything."""
        return self.may_read(user) and (self.writers is None or user in self.writers)
