"""The events of a RabbitMQ source, beside those of every session (`gateway.dialects.session`).

`LinkUp`, `LinkDown`, `BacklogFollows` and `LossSuspected` concern the connection to the broker's event
exchange.

Requests to the broker are not effects, because their pace depends on their cost: the driver takes the next
one when the last has ended (`RabbitMqSource.next_request`), and passes in its answer.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
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
        headers: its contents, as JSON.
        time: when the event happened (ns, the broker's clock); 0 if unknown.
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
class BrokerReached:
    """A channel for the broker's events is open, and what may be missing is still to be asked."""


@dataclass(frozen=True, slots=True)
class EventsDropped:
    """The events of this time (ns) were not kept, or were dropped, by a durable subscription."""

    since: int
    until: int
    reason: str


@dataclass(frozen=True, slots=True)
class EventsReceived:
    """Every event that the broker had published until ``until`` (ns) was received.

    Attributes:
        until: a time of the gateway's clock (ns); 0 if no other is proved.
        remark: one line for people on policies by which the broker may drop events, or on why that all were
            received is not proved; empty for none.
        took: nanoseconds that the last proof took: the next ones come as much later.
    """

    until: int
    remark: str = ""
    took: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ConnectionBlocked:
    """The broker blocks a connection of the gateway, although no alarm was reported."""


@dataclass(frozen=True, slots=True)
class PauseDemanded:
    """A server demands that nothing is sent for ``pause`` (ns), in answer to a request beside the plan."""

    pause: int


@dataclass(frozen=True, slots=True)
class RequestSent:
    """The request of `next_request` is sent now: silence begins here, before the request's deadline."""


@dataclass(frozen=True, slots=True)
class AnswerReceived:
    """The answer to a request of `next_request`, which was sent at ``began`` (ns)."""

    request: ManagementRequest
    answer: Answer
    began: int


@dataclass(frozen=True, slots=True)
class MetricsReceived:
    """The answer to a request of `next_scrape`, which was sent at ``began`` (ns)."""

    request: ScrapeRequest
    outcome: Scraped | NotScraped
    began: int


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """The answer to the request of `next_call_request`."""

    answer: BrokerAnswer


class Work(enum.Enum):
    """Work that a source does in portions, so that others can run in between."""

    LISTING = "advance"
    """Objects of the page that arrived; while `RabbitMqSource.busy`."""
    METRICS = "advance-statistics"
    """Metrics of objects; while `RabbitMqSource.takes_metrics`."""
    CALLS = "advance-calls"
    """Operations, until `next_call_request` gives a request, or nothing is due before `call_at`."""


@dataclass(frozen=True, slots=True)
class WorkContinues:
    """The source does the next portion of some work."""

    work: Work


SourceEvent: TypeAlias = (
    Event
    | BrokerEventReceived
    | BrokerReached
    | EventsDropped
    | EventsReceived
    | ConnectionBlocked
    | PauseDemanded
    | RequestSent
    | AnswerReceived
    | MetricsReceived
    | CallAnswered
    | WorkContinues
)
"""All events of a source."""
