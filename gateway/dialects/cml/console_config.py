"""How a console session of CML behaves."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.cml.messages import SchemaReply, Spelling
from gateway.dialects.cml.safety import Assurance
from gateway.dialects.cml.schema import IsStatistic
from gateway.model.secrets import SecretRules

SECOND: Final = 10**9

SYSTEM_EXCHANGE: Final = "amq.system"
ROUTING_KEY: Final = "amq.console"
REPLY_EXCHANGE: Final = "amq.direct"
NOTIFY_EXCHANGE: Final = "amq.notify"


class Matching(enum.Enum):
    """How replies are matched with requests.

    ``MESSAGE_ID``: by the message id, which the peer puts on its reply. ``ONE_AT_A_TIME``: the peer puts none
    there, so that a reply belongs to the only request that waits for one. ``FIND_OUT``: the reply to the
    first request, which travels alone, decides.
    """

    MESSAGE_ID = "message-id"
    ONE_AT_A_TIME = "one-at-a-time"
    FIND_OUT = "find-out"


class ShortLived(enum.Enum):
    """When objects are inspected that may end at any time: OpenAMQ dies of it in the instant of their end.

    That is connections, queues, which may be private (exclusive or auto-delete), and what is in connections
    and private queues. ``SECOND_LISTING``: when they were listed twice, so that those that come and go at
    once are left alone. ``NO``: besides, connections and private queues with all that is in them are left
    out for good. ``YES``: as soon as they are listed.
    """

    NO = "no"
    SECOND_LISTING = "second-listing"
    YES = "yes"


@dataclass(frozen=True, slots=True)
class Budget:
    """What polling may cost the broker, at most.

    Attributes:
        rate: requests a second.
        in_flight: requests that wait for their answer at once; fewer while answers become slower.
        share: of the time in which the broker may be busy with our requests, 0 to 1, as far as the time that
            answers take shows it. Slow answers make requests rare.
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
    """How often objects are inspected. Durations are nanoseconds.

    Attributes:
        by_class: of the objects of a class, by its name.
        others: of those of all other classes.
        second_look: after a listing that shows new objects, until the next look at who listed them.
    """

    by_class: Mapping[str, int] = field(default_factory=_openamq_intervals)
    others: int = 30 * SECOND
    second_look: int = 2 * SECOND

    def of(self, class_name: str) -> int:
        """The interval of a class."""
        return self.by_class.get(class_name, self.others)


def _no_statistics(_: str, __: str, ___: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """All that can be chosen about a console session. Durations are nanoseconds.

    Attributes:
        message_id_prefix: what ids of requests begin with. Whoever may publish to the reply exchange could
            forge a reply to an id that can be guessed, so it should be long and random.
        notify_exchange: a topic exchange on which the broker publishes ``notify``; empty to listen to none.
        believed: users, as the transport checked them, whose messages are believed; ``None`` for anyone,
            since OpenAMQ's replies carry no user.
        spelling: of requests; replies are read in both.
        agent: what the broker is called in observations.
        package: of classes whose schema has no name.
        is_statistic: told package, class and element; from the mapping.
        secrets: which elements are dropped, what is masked.
        schema: one that was saved: its classes are known before the broker is asked, and used where it cannot
            be; where name or version differ, what the broker tells takes its place.
        assured: what is known of the broker beyond what it tells (`safety.Assurance`).
        short_lived_classes: those whose objects come and go with somebody's connection,
        doubtful_classes: and those of which some do, which only inspecting them tells.
        request_deadline: an answer is missed after this.
        request_attempts: after so many without an answer an object is in doubt.
        operation_limit: calls, modifications and fetches under way at once; more are refused.
        object_limit: objects known; more are left out, which is said.
        class_limit: classes of a schema.
        retry_interval: until another try of what fell short; doubled each time,
        retry_longest: up to this.
    """

    message_id_prefix: str = ""
    system_exchange: str = SYSTEM_EXCHANGE
    routing_key: str = ROUTING_KEY
    reply_exchange: str = REPLY_EXCHANGE
    notify_exchange: str = NOTIFY_EXCHANGE
    notify_key: str = "#"
    believed: frozenset[str] | None = None
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
    doubtful_classes: frozenset[str] = frozenset({"queue"})
    budget: Budget = field(default_factory=Budget)
    intervals: Intervals = field(default_factory=Intervals)
    request_deadline: int = 10 * SECOND
    request_attempts: int = 3
    operation_limit: int = 1_000
    object_limit: int = 100_000
    class_limit: int = 256
    retry_interval: int = 5 * SECOND
    retry_longest: int = 300 * SECOND

    def retry_after(self, attempts: int) -> int:
        """How long to wait after so many attempts (from 1) that fell short."""
        return min(self.retry_interval << min(attempts - 1, 32), self.retry_longest)
