"""Which element of an object is what to a report: the one place that knows how brokers call things.

A queue is an object of a class `QUEUE`, a connection one of a class `CONNECTION`, whatever the package. Of
each thing to be known the elements are named that tell it, those of RabbitMQ, OpenAMQ and Qpid brokers in
this order; an object has one of them, or none, and then it is absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Final

QUEUE: Final = "queue"
CONNECTION: Final = "connection"

BROKERS: Final = ("rabbitmq", "openamq.org.server", "org.apache.qpid.broker")
"""Packages whose queues are known here: nothing of them is told a second time with classes in general."""

MEGABYTE: Final = 1_048_576
"""Octets of what OpenAMQ calls a megabyte."""


@dataclass(frozen=True, slots=True)
class Told:
    """An element that tells something; ``factor`` makes its unit the report's."""

    element: str
    factor: int = 1


def _of(*elements: str) -> tuple[Told, ...]:
    return tuple(Told(element) for element in elements)


FLOWS: Final[dict[str, tuple[Told, ...]]] = {
    "published": _of("messagesPublished", "messages_in", "msgTotalEnqueues"),
    "delivered": _of("messagesDeliveredOrGot", "messages_out", "msgTotalDequeues"),
    "acknowledged": _of("messagesAcknowledged"),
    "redelivered": _of("messagesRedelivered"),
    "delivered_with_ack": _of("messagesDelivered"),
    "delivered_without_ack": _of("messagesDeliveredWithoutAck"),
    "got_with_ack": _of("messagesGot"),
    "got_without_ack": _of("messagesGotWithoutAck"),
    "gets_empty": _of("getsEmpty"),
    "dropped": _of("drop_count", "discardsOverflow"),
    "octets_in": (Told("megabytes_in", MEGABYTE), Told("byteTotalEnqueues")),
    "octets_out": (Told("megabytes_out", MEGABYTE), Told("byteTotalDequeues")),
}
"""Counters of a queue by what they are called in a report.

``delivered`` is all that left it for consumers: of a Qpid broker also what was discarded, which it counts
among what was taken off. ``dropped``: because the queue was full.
"""

DEPTH: Final = ("messages", "pending", "msgDepth")
"""Messages on a queue."""

CONSUMERS: Final = ("consumers", "consumerCount")
"""Consumers of a queue."""

USERS: Final = ("user", "user_name", "authIdentity")
"""Who opened a connection."""

FLOW_ELEMENTS: Final = tuple(told.element for told in chain.from_iterable(FLOWS.values()))
QUEUE_ELEMENTS: Final = (*FLOW_ELEMENTS, *DEPTH, *CONSUMERS)
"""All that a report wants to know of queues."""
