"""The console session for agents before AM2: AM01 in its four forms, and AM1.

`console_conversation` says how each is greeted, listed and read again. Sources: Apache Qpid management design
notes; agents of November 2007 to March 2008.
"""

from __future__ import annotations

from gateway.dialects.qmf.am01.console_config import Am01ConsoleConfig
from gateway.dialects.qmf.am01.console_conversation import Am01Conversation
from gateway.dialects.qmf.am01.console_messages import Am01Listener
from gateway.dialects.qmf.am01.reader import read
from gateway.dialects.qmf.am01.revisions import Revision
from gateway.dialects.qmf.console import ConsoleSession
from gateway.dialects.session import Binding, Delivery

__all__ = ["Am01ConsoleConfig", "Am01ConsoleSession"]


class Am01ConsoleSession(ConsoleSession):
    """A console of one agent before AM2, without I/O; as `ConsoleSession`, which does not catch up."""

    def __init__(self, config: Am01ConsoleConfig) -> None:
        self._am01 = Am01Conversation(config)
        self._hearer = Am01Listener(self._am01)
        super().__init__(config, self._am01, self._hearer)

    @property
    def revisions(self) -> frozenset[Revision]:
        """What the agent may speak, by all that it has said since the link is up."""
        return self._am01.revisions

    def bindings(self, queue: str) -> tuple[Binding, ...]:
        """What the queue of this name must be bound to before `LinkUp`; its name is the reply key."""
        config = self._am01.rules
        return (Binding(config.direct_exchange, queue), Binding(config.management_exchange, "mgmt.#"))

    def _hear(self, delivery: Delivery) -> None:
        talk = self._am01
        reading = read(
            delivery.routing_key,
            delivery.body,
            talk.definitions,
            talk.revisions,
            extended=talk.rules.events,
        )
        self._hearer.take(reading, answers=delivery.routing_key == talk.reply_to)
