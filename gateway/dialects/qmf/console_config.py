"""The configuration of a console session."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.console_requests import RequestRules
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.model.observations import STALE_AFTER
from gateway.model.secrets import SecretRules
from gateway.model.times import SECOND


class Heartbeats(enum.Enum):
    """The meaning of silence of the broker's agent. Other agents are lost once they had sent a heartbeat."""

    EXPECTED = "expected"  # it publishes in each interval: silence means that it is lost
    NONE = "none"  # it may have nothing to publish: it is queried, and everything is read again
    AUTO = "auto"  # as none, until it has sent a heartbeat; as expected from then on


@dataclass(frozen=True, slots=True)
class HeartbeatRules:
    """The rules by which an agent counts as lost. Durations are nanoseconds.

    Attributes:
        mode: whether the broker's agent must send heartbeats; the Java broker sends none.
        interval: the time between two heartbeats, until an agent's own is derived from two of them.
        missed: the number of silent intervals after which an agent is lost; a queried one is lost one
            earlier.
        shortest: the lower bound of a derived interval,
        longest: and its upper bound.
        gone: the silence after which an agent is gone, with its objects.
        stale_after: the least time after which an agent's objects are stale, if no message proves more.
    """

    mode: Heartbeats = Heartbeats.EXPECTED
    interval: int = 10 * SECOND
    missed: int = 3
    shortest: int = SECOND
    longest: int = 3600 * SECOND
    gone: int = 86_400 * SECOND
    stale_after: int = STALE_AFTER


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """The settings of a console session. Durations are nanoseconds.

    Attributes:
        trusted_users: users, as the broker checked them, whose messages are accepted.
        trust_anyone: accept every message, from any sender: for peers whose messages have no checked user, as
            those of a Qpid broker, where the broker itself guards its management exchange.
        packages: the packages to read; ``None`` for all.
        secrets: the rules by which elements are dropped and values masked.
        request_deadline: the time after which an answer is missing, and is requested again.
        request_attempts: the attempts after which a request is given up, and the resync is incomplete.
        request_limit: requests that may wait for their turn; more make a resync incomplete.
        operation_limit: calls and fetches that may be under way; more are refused.
        retry_interval: the time until an incomplete resync is tried again; doubled each time,
        retry_longest: up to this time.
        greeting_interval: the shortest time between greetings of agents that announce themselves.
        unnamed_interval: the shortest time between readings for objects without properties.
        class_limit: the largest number of classes and events.
        agent_limit: the largest number of agents.
        object_limit: the largest number of objects of a Java broker whose methods can be called.
        definitions: classes and events from an earlier console, so that waiting messages can be read before
            anything is requested.
        restored_agents: remote agents whose objects are known from an earlier console. Each has a grace
            period to return, as after an interruption of the link, before its objects end.
        complete_until: when an earlier console last received something; 0 where there was none.
        first_sequence: the number before that of the first request. It should be arbitrary, so that answers
            to an earlier console on the same queue match no request.
    """

    trusted_users: frozenset[str] = field(default_factory=frozenset)
    trust_anyone: bool = False
    packages: frozenset[str] | None = None
    management_exchange: str = addresses.MANAGEMENT_EXCHANGE
    direct_exchange: str = addresses.DIRECT_EXCHANGE
    secrets: SecretRules = field(default_factory=SecretRules)
    heartbeats: HeartbeatRules = field(default_factory=HeartbeatRules)
    request_deadline: int = 10 * SECOND
    request_attempts: int = 3
    request_limit: int = 65_536
    operation_limit: int = 1_000
    retry_interval: int = 5 * SECOND
    retry_longest: int = 300 * SECOND
    greeting_interval: int = 2 * SECOND
    unnamed_interval: int = 60 * SECOND
    class_limit: int = 4096
    agent_limit: int = 256
    object_limit: int = 200_000
    definitions: tuple[ClassDefinition | EventDefinition, ...] = ()
    restored_agents: tuple[str, ...] = ()
    complete_until: int = 0
    first_sequence: int = 0

    @property
    def request_rules(self) -> RequestRules:
        """The rules for requests that these settings define."""
        return RequestRules(
            self.request_deadline,
            longest=3 * self.request_deadline,
            attempts=self.request_attempts,
            limit=self.request_limit,
        )

    def includes(self, package: str) -> bool:
        """Return whether ``package`` is to be read."""
        return self.packages is None or package in self.packages

    def retry_after(self, attempts: int) -> int:
        """Return how long to wait after this number of incomplete attempts (from 1), in nanoseconds."""
        return min(self.retry_interval << min(attempts - 1, 32), self.retry_longest)
