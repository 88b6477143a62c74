"""How an agent session behaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from gateway.dialects.qmf import addresses

SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """How an agent session behaves. Durations are nanoseconds.

    Attributes:
        broker: names this incarnation; a new one at each start of the agent, or consoles miss the restart.
        boot: how often the agent was started; goes into the object ids. 0 where a number means the same
            object after a restart of the agent: its ids outlive restarts, and say so.
        obey: the users whose requests are served, as the broker checked them.
        publish_interval: between two publications of what changed, each closed by a heartbeat.
        request_deadline: a request older than this is refused, if it carries a time.
        deletion_limit: deletions kept while nothing can be published; beyond it the oldest are lost, and
            consoles find out by the resync that the next start asks them for.
        call_deadline: a call must be begun so soon after its arrival, if it names no time of its own.
        reads_anew: the program reads an object again when a console asks for it by its id.
    """

    broker: UUID
    boot: int
    obey: frozenset[str] = field(default_factory=frozenset)
    management_exchange: str = addresses.MANAGEMENT_EXCHANGE
    direct_exchange: str = addresses.DIRECT_EXCHANGE
    publish_interval: int = 10 * SECOND
    request_deadline: int = 30 * SECOND
    deletion_limit: int = 100_000
    call_deadline: int = 30 * SECOND
    reads_anew: bool = False
