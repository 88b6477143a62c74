"""The configuration of a console session of CML."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.cml.messages import SchemaReply, Spelling
from gateway.dialects.cml.safety import Assurance
from gateway.dialects.cml.schema import IsStatistic
from gateway.model.observations import STALE_AFTER
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND

SYSTEM_EXCHANGE: Final = "amq.system"
ROUTING_KEY: Final = "amq.console"
REPLY_EXCHANGE: Final = "amq.direct"
NOTIFY_EXCHANGE: Final = "amq.notify"


class Matching(enum.Enum):
    """The method by which replies are matched with requests.

    ``MESSAGE_ID``: by the message id, which the peer copies to its reply. ``ONE_AT_A_TIME``: the peer copies
    none, so a reply belongs to the only open request. ``FIND_OUT``: the reply to the
    first request, which is sent alone, decides.
    """

    MESSAGE_ID = "message-id"
    ONE_AT_A_TIME = "one-at-a-time"
    FIND_OUT = "find-out"


class ShortLived(enum.Enum):
    """The time to inspect short-lived objects: OpenAMQ crashes if an object ends in that instant.

    These are connections, queues, which may be private (exclusive or auto-delete), and the objects in
    connections and private queues. ``SECOND_LISTING``: when they were listed twice, so that objects of a
    short life are not inspected. ``NO``: in addition, connections and private queues with all objects in them
    are never inspected. ``YES``: as soon as they are listed.
    """

    NO = "no"
    SECOND_LISTING = "second-listing"
    YES = "yes"


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of polling.

    Attributes:
        rate: requests per second.
        in_flight: requests that may wait for their answers; fewer while answers become slower.
        share: the fraction of time, 0 to 1, that the broker may spend on our requests, as far as the latency
            of answers shows it. Slow answers make requests rare.
    """

    rate: float = 100.0
    in_flight: int = 8
    share: float = 0.25


def _openamq_intervals() -> Mapping[str, int]:
    return {
        "broker": 5 * SECOND,
        "queue": 10 * SECOND,
        "exchange": 10 * SECOND,
        "connection": 10 * SECOND,
        "config": 300 * SECOND,
    }


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals of inspections. Durations are nanoseconds.

    Attributes:
        by_class: the intervals of the objects of a class, by its name.
        others: the interval of the objects of all other classes.
        second_look: the time from a listing with new objects to the next inspection of its parent.
    """

    by_class: Mapping[str, int] = field(default_factory=_openamq_intervals)
    others: int = 30 * SECOND
    second_look: int = 2 * SECOND

    def of(self, class_name: str) -> int:
        """Return the interval of a class, in nanoseconds."""
        return self.by_class.get(class_name, self.others)


def _no_statistics(_: str, __: str, ___: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """The settings of a console session. Durations are nanoseconds.

    Attributes:
        message_id_prefix: the prefix of ids of requests. A client that may publish to the reply exchange
            could forge the reply to a predictable id, so it should be long and random.
        notify_exchange: the topic exchange to which the broker publishes ``notify``; empty for none.
        trusted_users: users, as the transport checked them, whose messages are accepted; ``None`` for all,
            because OpenAMQ's replies have no user.
        spelling: the spelling of requests; replies are read in both.
        agent: the name of the broker in observations.
        package: the package of classes whose schema has no name.
        is_statistic: decides by package, class and element; from the mapping.
        secrets: the rules by which elements are dropped and values masked.
        schema: a schema from before: its classes are known before the broker is queried, and used if it
            cannot be; if the broker's differs, that one is used.
        assured: facts about the broker that it does not report (`safety.Assurance`).
        short_lived_classes: classes whose objects end with a user's connection,
        possibly_short_lived_classes: and classes of which some objects do, which only an inspection shows.
        longest_interval: the longest planned interval to which the budget may lengthen ``intervals``.
        stale_after: the least time after which objects that were not read again are stale.
        request_deadline: the time after which an answer is missing.
        request_attempts: the attempts without an answer after which the broker counts as silent.
        operation_limit: operations that may be under way; more are refused.
        object_limit: the largest number of objects; more are left out, which is reported.
        class_limit: the largest number of classes of a schema.
        retry_interval: the time until an incomplete walk is tried again; doubled each time,
        retry_longest: up to this time.
    """

    message_id_prefix: str = ""
    system_exchange: str = SYSTEM_EXCHANGE
    routing_key: str = ROUTING_KEY
    reply_exchange: str = REPLY_EXCHANGE
    notify_exchange: str = NOTIFY_EXCHANGE
    notify_key: str = "#"
    trusted_users: frozenset[str] | None = None
    spelling: Spelling = Spelling.OPENAMQ
    matching: Matching = Matching.FIND_OUT
    agent: str = "broker"
    package: str = "cml"
    is_statistic: IsStatistic = _no_statistics
    secrets: SecretRules = field(default_factory=SecretRules)
    schema: SchemaReply | None = None
    assured: frozenset[Assurance] = frozenset()
    short_lived: ShortLived = ShortLived.SECOND_LISTING
    short_lived_classes: frozenset[str] = frozenset({"connection", "queue_connection", "connection_queue"})
    possibly_short_lived_classes: frozenset[str] = frozenset({"queue"})
    budget: Budget = field(default_factory=Budget)
    intervals: Intervals = field(default_factory=Intervals)
    longest_interval: int = 900 * SECOND
    stale_after: int = STALE_AFTER
    request_deadline: int = 10 * SECOND
    request_attempts: int = 3
    operation_limit: int = 1_000
    object_limit: int = 100_000
    class_limit: int = 256
    retry_interval: int = 5 * SECOND
    retry_longest: int = 300 * SECOND

    def retry_after(self, attempts: int) -> int:
        """Return how long to wait after this number of incomplete attempts (from 1), in nanoseconds."""
        return min(self.retry_interval << min(attempts - 1, 32), self.retry_longest)
