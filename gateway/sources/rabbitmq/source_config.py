"""The settings of a RabbitMQ source: the objects that it reads and shows, and the load of its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.model.observations import STALE_AFTER
from gateway.model.times import SECOND

RARELY = 60 * SECOND
"""Shortest interval between listings of classes that hardly change."""
_SLOW = {
    **dict.fromkeys(("vhost", "exchange", "consumer", "streamConsumer", "streamPublisher"), 10 * SECOND),
    **dict.fromkeys(("shovel", "federationLink"), 10 * SECOND),
    **dict.fromkeys(("binding", "policy", "operatorPolicy", "user", "parameter"), 30 * SECOND),
    **dict.fromkeys(("permission", "topicPermission"), RARELY),
    **dict.fromkeys(("featureFlag", "deprecatedFeature"), 5 * RARELY),
}
"""Intervals between listings of classes of which hardly anything changes that no event reports."""
LONGEST_INTERVAL: Final = 900 * SECOND
"""`PollingConfig.longest_interval` if nothing else is configured."""
DEFAULT_BUDGET: Final = 0.035
"""Share of time that requests to a broker may take if nothing else is configured."""


@dataclass(frozen=True, slots=True)
class PollingConfig:
    """The settings of polling. Durations are nanoseconds.

    Attributes:
        budget: share of time that all requests together may take. The broker's processor time was measured at
            0.9 to 1.2 of a request's time: 0.035 stays below 5 % of a core, and below 4 % of one if there are
            many queues and metrics.
        interval: the time between listings of a class, if its cost allows.
        slow: the same for the classes named here.
        overview: the time between readings of the overview and of the users.
        lean: the time between listings without statistics of a class whose statistics come from elsewhere,
            and between its listings with statistics, which show values that neither of the others shows.
        refused_users: the time until a request that needs an administrator is repeated after a refusal, which
            the broker logs each time.
        refused_pause: the pause after a refusal or failure of one request, before the next of its class;
            doubled for each further one, because the broker may write a crash report each time.
        longest_refused_pause: maximum of ``refused_pause``.
        missing_pause: the time until a collection that the broker does not have is requested again.
        first_pause: the pause after the first failure; doubled for each further one up to ``longest_pause``.
        urgent_share: share of time that listings may take while objects are unconfirmed, and questions about
            virtual hosts and about objects that a listing lacks.
        longest_interval: the longest time to which ``budget`` may lengthen the time between two readings of
            the same values.
        stale_after: the least time after which values that were not read again are stale.
        first_time: time that the first reading may take without pauses; after that the pages of a listing
            leave the broker as much time for others as they took, as later ones do.
    """

    budget: float = DEFAULT_BUDGET
    interval: int = 5 * SECOND
    slow: Mapping[str, int] = field(default_factory=lambda: dict(_SLOW))
    overview: int = 60 * SECOND
    lean: int = 15 * SECOND
    refused_users: int = 3600 * SECOND
    refused_pause: int = 30 * SECOND
    longest_refused_pause: int = 900 * SECOND
    missing_pause: int = 600 * SECOND
    first_pause: int = SECOND
    longest_pause: int = 30 * SECOND
    urgent_share: float = 0.25
    longest_interval: int = LONGEST_INTERVAL
    stale_after: int = STALE_AFTER
    first_time: int = 30 * SECOND


METRICS_SHARE: Final = 2 / 3
"""Share of a source's budget for metrics of queues, if there are any."""
SESSIONS_SHARE: Final = 1 / 10
"""The same for sessions and links of AMQP 1.0."""
LEADERS_SHARE: Final = 1 / 20
"""The same for Raft figures."""
TOTALS_SHARE: Final = 1 / 20
"""The same for totals by protocol. Listings get what all these do not need: 2/15 of the budget at least."""


@dataclass(frozen=True, slots=True)
class StatisticsConfig:
    """The settings of Prometheus' metrics. Durations are nanoseconds.

    Attributes:
        management: URL of the management API, whose host is used if a listener names no address.
        enabled: whether to read metrics at all.
        urls: the URLs of the nodes' metrics; if empty, the listeners that the broker reports.
        has_login: whether a login is sent for them.
        interval: the time between two readings, if their cost allows.
        share: the share of time that they may take.
        longest_interval: as `PollingConfig.longest_interval`.
        first_pause: the pause after the first failure; doubled for each further one up to ``longest_pause``.
    """

    management: str = ""
    enabled: bool = True
    urls: tuple[str, ...] = ()
    has_login: bool = False
    interval: int = 5 * SECOND
    share: float = METRICS_SHARE * DEFAULT_BUDGET
    longest_interval: int = LONGEST_INTERVAL
    first_pause: int = 15 * SECOND
    longest_pause: int = 600 * SECOND


@dataclass(frozen=True, slots=True)
class RabbitMqSourceConfig:
    """The settings of a source. Durations are nanoseconds.

    Attributes:
        user: the user who reads the management API; named in texts for people.
        own_users: the gateway's users beside ``user``, whose own connections are left out.
        show_own: whether the gateway's own queues and connections are shown all the same, but for those that
            the management API opens for each message published through it.
        management_virtual_host: the virtual host in which consoles are served; empty if none are.
        allowed_users: users whose requests are served; empty likewise.
        awaits_events: the source is not complete before it is known whether events arrive.
        silence_limit: time without an answer after which everything known is stale.
        suspects_asked: maximum number of objects missing in one listing that are requested one by one.
        items_at_once: objects of a listing that are taken for one event `WorkContinues`.
        writer: the user who changes the broker; empty for none, and then every method is refused.
        statistics: the settings of Prometheus' metrics.
        lockout: the virtual hosts and users whose limit of connections may be set to 0.
    """

    user: str
    own_users: frozenset[str] = frozenset()
    show_own: bool = False
    management_virtual_host: str = ""
    allowed_users: frozenset[str] = frozenset()
    awaits_events: bool = False
    silence_limit: int = 10 * SECOND
    suspects_asked: int = 50
    items_at_once: int = 20
    writer: str = ""
    lockout: frozenset[str] = frozenset()
    statistics: StatisticsConfig = field(default_factory=lambda: StatisticsConfig(enabled=False))
    polling: PollingConfig = field(default_factory=PollingConfig)
