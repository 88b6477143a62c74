"""Sources and agents in ``gateway.yaml``: which brokers there are, and how each is reached."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from gateway.config.am01_source import Am01Source
from gateway.config.ami_source import AmiSource
from gateway.config.amqp import AmqpSettings
from gateway.config.cml_source import CmlSource
from gateway.config.operations import SECOND
from gateway.config.types import (
    AmqpName,
    AmqpUrls,
    Duration,
    FilePath,
    HttpUrls,
    Name,
    SecretSource,
    between,
)
from gateway.yaml_documents import StrictModel


def _own_queue(text: str) -> str:
    if not text.startswith("amqp-gateway."):
        raise ValueError("must begin with 'amqp-gateway.': the gateway has rights on such queues only")
    return text


OwnQueueName = Annotated[AmqpName, AfterValidator(_own_queue)]


class EventSettings(StrictModel):
    """How to hear a RabbitMQ's ``amq.rabbitmq.event``; user and password default to the source's.

    Attributes:
        url: of one node, or of several nodes of the cluster.
    """

    url: AmqpUrls
    vhost: AmqpName = "/"


class DurableSettings(StrictModel):
    """A durable subscription: a queue on the broker that is kept for this gateway's return.

    Attributes:
        queue: its name; default: ``amqp-gateway.console.NAME``, of events ``amqp-gateway.events.NAME``, with
            the name of the source.
        expires: the broker deletes it when it has had no consumer for so long.
        max_length: messages; the broker drops the oldest beyond it.
    """

    queue: OwnQueueName | None = None
    expires: Annotated[Duration, between("10s", "30d")] = 3600 * SECOND
    max_length: Annotated[int, Field(ge=1000, le=10_000_000)] = 100_000


class WritingSettings(StrictModel):
    """The account that changes a RabbitMQ, apart from the one that reads it; it needs the tag administrator.

    Attributes:
        lockout: virtual hosts whose ``maxConnections``, and users whose, may be set to 0, which locks out
            everybody: also the gateway's agent.
    """

    user: AmqpName
    password: SecretSource
    lockout: tuple[AmqpName, ...] = ()


class RabbitMqSettings(StrictModel):
    """How our agent reads a RabbitMQ.

    Attributes:
        management: URL of the management API, of one node or of several nodes of the cluster.
        interval: between two readings of a class, where its cost allows.
        budget: share of the time that requests may take; a broker with many queues is read less often.
        show_own: show the gateway's own queues and connections too.
        own_users: further users whose connections are the gateway's own, such as another agent's.
        prometheus: where to read statistics of queues as Prometheus' metrics: where the broker says that the
            plugin ``rabbitmq_prometheus`` listens (``auto``), nowhere (``off``), or the URLs of all nodes.
        writing: who changes the broker; without it every method and setting is refused.
    """

    management: HttpUrls
    user: AmqpName
    password: SecretSource
    ca_file: FilePath | None = None
    events: EventSettings | None = None
    interval: Duration = 5 * SECOND
    budget: Annotated[float, Field(gt=0, le=0.5)] = 0.035
    show_own: bool = False
    own_users: tuple[str, ...] = ()
    prometheus: Literal["auto", "off"] | HttpUrls = "auto"
    writing: WritingSettings | None = None


class RabbitMqSource(RabbitMqSettings):
    """A RabbitMQ that the gateway reads itself; nothing needs to be installed on the broker.

    Attributes:
        durable: keep the broker's events while the gateway is away; needs ``events``.
        same_as: the name of another source that reads the same broker: a report counts it once.
    """

    kind: Literal["rabbitmq"]
    same_as: Name | None = None
    durable: DurableSettings | None = None
    max_objects: Annotated[int, Field(ge=1, le=10_000_000)] = 200_000

    @model_validator(mode="after")
    def _has_events(self) -> RabbitMqSource:
        if self.durable is not None and self.events is None:
            raise ValueError("'durable' keeps the broker's events: say under 'events' where they are")
        return self


class QmfSource(StrictModel):
    """QMF agents on a broker's management exchange.

    Attributes:
        believe: users, as the broker checked them, whose messages are taken for an agent's.
        believe_anyone: take messages without a checked user too, as a Qpid broker's own are.
        heartbeats: whether the broker's agent must be heard each interval (``expected``), or is asked for
            everything when it was silent for two (``none``), or the latter until it has sent one (``auto``).
        durable: keep what agents say while the gateway is away.
        same_as: the name of another source that reads the same broker: a report counts it once.
    """

    kind: Literal["qmf"]
    same_as: Name | None = None
    amqp: AmqpSettings
    believe: tuple[str, ...] = ()
    believe_anyone: bool = False
    exchange: AmqpName = "qpid.management"
    direct_exchange: AmqpName = "amq.direct"
    packages: tuple[str, ...] | None = None
    heartbeats: Literal["auto", "expected", "none"] = "auto"
    heartbeat: Duration = 10 * SECOND
    request_deadline: Duration = 30 * SECOND
    max_queue_length: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    durable: DurableSettings | None = None
    max_objects: Annotated[int, Field(ge=1, le=10_000_000)] = 200_000

    @model_validator(mode="after")
    def _somebody(self) -> QmfSource:
        if not self.believe and not self.believe_anyone:
            raise ValueError("name under 'believe' the users whose messages are an agent's")
        return self


Source = Annotated[
    RabbitMqSource | QmfSource | Am01Source | CmlSource | AmiSource, Field(discriminator="kind")
]


class AgentPublishing(StrictModel):
    """Where an agent process speaks QMF: the virtual host of its management exchange.

    Attributes:
        obey: users, as the broker checked them, whose requests are answered.
    """

    amqp: AmqpSettings
    exchange: AmqpName = "qpid.management"
    direct_exchange: AmqpName = "amq.direct"
    obey: Annotated[tuple[str, ...], Field(min_length=1)]
    interval: Duration = 10 * SECOND


class RabbitMqAgent(RabbitMqSettings):
    """A RabbitMQ's agent as a process of its own (``amqp-gateway agent NAME``)."""

    kind: Literal["rabbitmq"]
    publish: AgentPublishing
