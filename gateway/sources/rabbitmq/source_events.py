"""What can happen to a RabbitMQ source, beside the events of every session (`gateway.dialects.session`).

`LinkUp`, `LinkDown`, `BacklogFollows` and `LossSuspected` are about the broker's event exchange here.
Requests to the broker are not effects: their pace is a matter of cost, so that the driver asks for the next
one when the last has ended (`RabbitMqSource.next_request`), and hands in its answer.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from gateway.dialects.session import Event
from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.event_headers import event_time, plain_headers
from gateway.sources.rabbitmq.management_api import Answer, ManagementRequest
from gateway.sources.rabbitmq.management_changes import BrokerAnswer
from gateway.sources.rabbitmq.prometheus_samples import NotScraped, Scraped, ScrapeRequest


@dataclass(frozen=True, slots=True)
class BrokerEventReceived:
    """A message of the event exchange.

    Attributes:
        key: its routing key, which is the event's name.
        headers: what it says, as JSON.
        time: when that happened (ns, the broker's clock); 0 where that is not known.
    """

    key: str
    headers: Mapping[str, Json]
    time: int = 0

    @classmethod
    def of_message(
        cls, key: str, headers: Mapping[str, object], timestamp: datetime | None = None
    ) -> BrokerEventReceived:
        """Return the event of a message as an AMQP client delivers it."""
        plain = plain_headers(headers)
        return cls(key, plain, event_time(plain, timestamp))


@dataclass(frozen=True, slots=True)
class EventsDropped:
    """Events of this time (ns) do not wait for a durable subscription any more, or never did."""

    since: int
    until: int
    reason: str


@dataclass(frozen=True, slots=True)
class ConnectionBlocked:
    """The broker takes no message from a connection of the gateway, although no alarm was reported."""


@dataclass(frozen=True, slots=True)
class RequestSent:
    """The request of `next_request` is made now: silence counts from here, before the request's deadline."""


@dataclass(frozen=True, slots=True)
class AnswerReceived:
    """The answer to a request of `next_request`, which was made at ``began`` (ns)."""

    request: ManagementRequest
    answer: Answer
    began: int


@dataclass(frozen=True, slots=True)
class MetricsReceived:
    """What came of a request of `next_scrape`, which was made at ``began`` (ns)."""

    request: ScrapeRequest
    outcome: Scraped | NotScraped
    began: int


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """The answer to the request of `next_call_request`."""

    answer: BrokerAnswer


class Work(enum.Enum):
    """What a source does in portions, so that others have their turn in between."""

    LISTING = "advance"
    """Objects of the page that arrived; while `RabbitMqSource.busy`."""
    METRICS = "advance-statistics"
    """Metrics of objects; while `RabbitMqSource.takes_metrics`."""
    CALLS = "advance-calls"
    """Operations, until `next_call_request` gives a request, or nothing is due before `call_at`."""


@dataclass(frozen=True, slots=True)
class WorkContinues:
    """The source has its turn with the next portion of some work."""

    work: Work


SourceEvent: TypeAlias = (
    Event
    | BrokerEventReceived
    | EventsDropped
    | ConnectionBlocked
    | RequestSent
    | AnswerReceived
    | MetricsReceived
    | CallAnswered
    | WorkContinues
)
"""All that can happen to a source."""
