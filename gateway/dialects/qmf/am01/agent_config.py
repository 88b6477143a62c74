"""How an agent session before AM2 behaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from gateway.dialects.qmf import addresses
from gateway.dialects.qmf.am01.console_config import DEFAULT_PACKAGE, NO_BROKER
from gateway.dialects.qmf.am01.revisions import Revision
from gateway.dialects.qmf.console_config import SECOND


@dataclass(frozen=True, slots=True)
class Am01AgentConfig:
    """How an agent session before AM2 behaves. Durations are nanoseconds.

    Attributes:
        revision: what it speaks.
        obey: the users whose requests are served, as the broker checked them.
        broker: names this incarnation, to consoles of March 2008; a new one at each start.
        package: in keys of calls until January 2008, whose classes have none.
        publish_interval: between two publications of what changed.
        republish_interval: between two publications of everything, for consoles whose binding of a queue
            nobody notices; ``None``: only after `Am01AgentSession.console_bound`, or an answered S.
        get_and_set: serve get and set as we lay them out (`get_and_set`).
        events: send events as we lay them out (`records`).
        call_deadline: a call must be begun so soon after its arrival, if it names no time of its own.
        deletion_limit: deletions kept until they are published; beyond it the oldest are lost.
    """

    revision: Revision
    obey: frozenset[str] = field(default_factory=frozenset)
    broker: UUID = NO_BROKER
    package: str = DEFAULT_PACKAGE
    management_exchange: str = addresses.MANAGEMENT_EXCHANGE
    direct_exchange: str = addresses.DIRECT_EXCHANGE
    publish_interval: int = 10 * SECOND
    republish_interval: int | None = None
    get_and_set: bool = False
    events: bool = False
    call_deadline: int = 30 * SECOND
    deletion_limit: int = 100_000
