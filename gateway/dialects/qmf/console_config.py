"""How a console session behaves."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.console_requests import RequestRules
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.model.secrets import SecretRules

SECOND: Final = 1_000_000_000


class Heartbeats(enum.Enum):
    """What the silence of the broker's agent says. Other agents are missed once they sent a heartbeat."""

    EXPECTED = "expected"  # it speaks each interval: silence is its loss
    NONE = "none"  # it may have nothing to say: it is asked, and everything is read again
    AUTO = "auto"  # none, until it has sent a heartbeat: expected from then on


@dataclass(frozen=True, slots=True)
class HeartbeatRules:
    """When an agent counts as lost. Durations are nanoseconds.

    Attributes:
        mode: whether the broker's agent must send heartbeats at all; the Java broker sends none.
        interval: between two heartbeats, until an agent's own is known from two of them.
        missed: so many intervals without a word, and the agent is lost; one that is asked is so one earlier.
        shortest: an interval learnt is taken as no shorter,
        longest: and as no longer than this.
        gone: an agent that was not heard for so long is gone, and what it had with it.
    """

    mode: Heartbeats = Heartbeats.EXPECTED
    interval: int = 10 * SECOND
    missed: int = 3
    shortest: int = SECOND
    longest: int = 3600 * SECOND
    gone: int = 86_400 * SECOND


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """All that can be chosen about a console session. Durations are nanoseconds.

    Attributes:
        believed: users, as the broker checked them, whose messages are believed.
        believe_anyone: believe every message, whoever sent it; for peers whose messages carry no checked
            user, as a Qpid broker's own do, where the broker itself guards its management exchange.
        packages: those to learn about; ``None`` for all.
        secrets: which elements are dropped, what is masked.
        request_deadline: an answer is missed after this, and asked for again.
        request_attempts: after so many a request is given up, and the resync is incomplete.
        request_limit: requests that wait for their turn; more make a resync incomplete.
        operation_limit: calls and fetches under way at once; more are refused.
        retry_interval: until a resync that fell short is tried again; doubled each time,
        retry_longest: up to this.
        greeting_interval: agents that announce themselves are greeted no more often than this.
        unnamed_interval: agents are read again for objects without properties no more often than this.
        class_limit: classes and events kept.
        agent_limit: agents watched.
        object_limit: objects of a Java broker that methods can be called of.
        definitions: classes and events known from before: what waited while nobody listened can be read
            before anybody is asked.
        former_agents: remote agents that had objects when a console before this one ended. Each has a
            moment to return, as after an interruption of the link, before what it had is over.
        complete_until: when something was heard last, by a console before this one; 0 where there was none.
        first_sequence: requests are numbered from the one after it. Any, so that answers to a former console
            on the same queue, which may still be on their way, answer none of ours.
    """

    believed: frozenset[str] = field(default_factory=frozenset)
    believe_anyone: bool = False
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
    former_agents: tuple[str, ...] = ()
    complete_until: int = 0
    first_sequence: int = 0

    @property
    def request_rules(self) -> RequestRules:
        """The rules for requests that follow."""
        return RequestRules(
            self.request_deadline,
            longest=3 * self.request_deadline,
            attempts=self.request_attempts,
            limit=self.request_limit,
        )

    def includes(self, package: str) -> bool:
        """Whether to learn about ``package``."""
        return self.packages is None or package in self.packages

    def retry_after(self, attempts: int) -> int:
        """How long to wait after so many attempts (from 1) that fell short."""
        return min(self.retry_interval << min(attempts - 1, 32), self.retry_longest)
