"""Exchanges, queues and bindings of `AmqpPeer`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pamqp import commands as spec

Deliver: TypeAlias = Callable[[str, str, str, spec.Basic.Properties, bytes], None]
"""A function that delivers to a consumer: tag, exchange, routing key, properties, body."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of a queue."""

    tag: str
    to: Deliver

    def deliver(self, exchange: str, key: str, properties: spec.Basic.Properties, body: bytes) -> None:
        """Deliver a message that was routed to the queue."""
        self.to(self.tag, exchange, key, properties, body)


@dataclass(slots=True)
class Queue:
    """An exclusive queue; it is deleted with the connection of its owner.

    Attributes:
        said_to_wait: the number of waiting messages that the broker reports, correct or not.
        looks: how often it was reported.
    """

    owner: object
    consumers: list[Consumer] = field(default_factory=list)
    said_to_wait: int = 0
    looks: int = 0


@dataclass(slots=True)
class Routing:
    """The exchanges, queues and bindings of the broker. A queue exists as long as its owner's connection."""

    exchanges: dict[str, str] = field(
        default_factory=lambda: {"amq.direct": "direct", "amq.notify": "topic", "amq.system": "system"}
    )
    queues: dict[str, Queue] = field(default_factory=dict)
    bindings: set[tuple[str, str, str]] = field(default_factory=set)

    def has_queue(self, name: str) -> bool:
        """Return whether the queue exists."""
        return name in self.queues

    def declare(self, name: str, owner: object) -> None:
        """Add a queue, unless it exists."""
        self.queues.setdefault(name, Queue(owner))

    def waiting(self, name: str) -> int:
        """Return the number of waiting messages that the broker reports of a queue."""
        queue = self.queues[name]
        queue.looks += 1
        return queue.said_to_wait

    def bind(self, exchange: str, key: str, queue: str) -> None:
        """Bind a queue to an exchange, which must exist."""
        if exchange not in self.exchanges:
            raise AssertionError(f"no exchange {exchange}: nobody tests that here")
        self.bindings.add((exchange, key, queue))

    def consume(self, queue: str, consumer: Consumer) -> None:
        """Add a consumer to a queue."""
        self.queues[queue].consumers.append(consumer)

    def forget(self, owner: object) -> None:
        """Remove the queues of a connection that has ended, and their bindings."""
        gone = {name for name, queue in self.queues.items() if queue.owner is owner}
        self.bindings = {binding for binding in self.bindings if binding[2] not in gone}
        for name in gone:
            del self.queues[name]

    def consumers(self, exchange: str, key: str) -> list[Consumer]:
        """Return the consumers that receive a message."""
        queues = {
            bound for at, pattern, bound in self.bindings if at == exchange and self._fits(at, pattern, key)
        }
        return [consumer for name in sorted(queues) for consumer in self.queues[name].consumers]

    def _fits(self, exchange: str, pattern: str, key: str) -> bool:
        if self.exchanges[exchange] != "topic" or pattern == "#":
            return pattern in (key, "#")
        words, found = pattern.split("."), key.split(".")
        return len(words) == len(found) and all(map(_is_word, words, found))


def _is_word(pattern: str, word: str) -> bool:
    return pattern in ("*", word)
