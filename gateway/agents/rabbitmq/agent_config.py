"""How the RabbitMQ agent behaves."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.agents.rabbitmq.polling import PollingConfig
from gateway.agents.rabbitmq.prometheus_statistics import StatisticsConfig
from gateway.dialects.qmf.addresses import MANAGEMENT_EXCHANGE

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class RabbitMqAgentConfig:
    """How the agent behaves. Durations are nanoseconds.

    Attributes:
        user: who reads the management API; named in what people are told.
        own_users: the gateway's users beside ``user``, whose own connections are left out.
        show_own: whether the gateway's own queues and connections are shown all the same, but for those that
            the management API opens for each message published through it.
        management_exchange: where consoles bind.
        management_virtual_host: in which virtual host that is; empty where no console is served over the
            broker.
        obeyed: the users whose requests an agent serves; empty likewise.
        flush_delay: from the first change to its publication by an agent, so that what belongs together
            leaves together.
        awaits_events: not all is known before it is known whether events arrive.
        silence_limit: without an answer for so long everything known is stale.
        suspects_asked: up to so many objects missing in one listing are asked for one by one.
        items_at_once: objects of a listing taken in one call of `RabbitMqAgent.advance`.
        writer: who changes the broker; empty where nobody does, and then every method is refused.
        statistics: how Prometheus' metrics are read.
        lockout: the virtual hosts and users whose limit of connections may be set to 0.
    """

    user: str
    own_users: frozenset[str] = frozenset()
    show_own: bool = False
    management_exchange: str = MANAGEMENT_EXCHANGE
    management_virtual_host: str = ""
    obeyed: frozenset[str] = frozenset()
    awaits_events: bool = False
    flush_delay: int = 20_000_000
    silence_limit: int = 10 * SECOND
    suspects_asked: int = 50
    items_at_once: int = 20
    writer: str = ""
    lockout: frozenset[str] = frozenset()
    statistics: StatisticsConfig = field(default_factory=lambda: StatisticsConfig(enabled=False))
    polling: PollingConfig = field(default_factory=PollingConfig)
