"""How a RabbitMQ source behaves."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.sources.rabbitmq.polling import PollingConfig
from gateway.sources.rabbitmq.prometheus_statistics import StatisticsConfig

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class RabbitMqSourceConfig:
    """How a source behaves. Durations are nanoseconds.

    Attributes:
        user: who reads the management API; named in texts for people.
        own_users: the gateway's users beside ``user``, whose own connections are left out.
        show_own: whether the gateway's own queues and connections are shown all the same, but for those that
            the management API opens for each message published through it.
        management_virtual_host: where consoles are served over the broker; empty where none is.
        obeyed: users whose requests are served; empty likewise.
        awaits_events: not all is known before it is known whether events arrive.
        silence_limit: time without an answer after which everything known is stale.
        suspects_asked: objects missing in one listing that are asked for one by one, at most.
        items_at_once: objects of a listing taken in one call of `RabbitMqSource.advance`.
        writer: who changes the broker; empty where nobody does, and then every method is refused.
        statistics: how Prometheus' metrics are read.
        lockout: the virtual hosts and users whose limit of connections may be set to 0.
    """

    user: str
    own_users: frozenset[str] = frozenset()
    show_own: bool = False
    management_virtual_host: str = ""
    obeyed: frozenset[str] = frozenset()
    awaits_events: bool = False
    silence_limit: int = 10 * SECOND
    suspects_asked: int = 50
    items_at_once: int = 20
    writer: str = ""
    lockout: frozenset[str] = frozenset()
    statistics: StatisticsConfig = field(default_factory=lambda: StatisticsConfig(enabled=False))
    polling: PollingConfig = field(default_factory=PollingConfig)
