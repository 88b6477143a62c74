"""The agents that a console hears, and when one of them has been silent for too long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.messages import Content
from gateway.dialects.qmf.object_id import ObjectId

SECOND: Final = 1_000_000_000
_AGENT_CLASS: Final = ("org.apache.qpid.broker", "agent")


@dataclass(frozen=True, slots=True)
class HeartbeatRules:
    """When an agent counts as lost. Durations are nanoseconds.

    Attributes:
        expected: whether the broker's agent must send heartbeats at all; the Java broker sends none.
        interval: between two heartbeats, until an agent's own is known from two of them.
        missed: so many intervals without a word, and the agent is lost.
        shortest: an interval learnt is taken as no shorter,
        longest: and as no longer than this.
    """

    expected: bool = True
    interval: int = 10 * SECOND
    missed: int = 3
    shortest: int = SECOND
    longest: int = 3600 * SECOND


class _Agent:
    __slots__ = ("beat_heard", "beat_time", "beats", "heard", "interval", "lost", "spoke")

    def __init__(self, heard: int, spoke: int, interval: int) -> None:
        self.heard = heard
        self.spoke = spoke
        self.interval = interval
        self.beats = False
        self.beat_time: int | None = None
        self.beat_heard = 0
        self.lost = False


class Agents:
    """What is known of the agents of one source.

    Args:
        rules: when an agent is lost.
        limit: agents known at most; more are not watched.
    """

    def __init__(self, rules: HeartbeatRules, limit: int) -> None:
        self._rules = rules
        self._limit = limit
        self._agents: dict[str, _Agent] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._agents))

    def __contains__(self, agent: str) -> bool:
        return agent in self._agents

    def clear(self) -> None:
        """Know of none."""
        self._agents.clear()

    def forget(self, agent: str) -> bool:
        """Stop watching an agent; False if it was not known."""
        return self._agents.pop(agent, None) is not None

    def last_spoke(self, agent: str) -> int | None:
        """Return when an agent said what was last heard of it, ``None`` if that is nothing."""
        known = self._agents.get(agent)
        return known.spoke if known else None

    def is_lost(self, agent: str) -> bool:
        """Whether an agent is silent for longer than it should be."""
        known = self._agents.get(agent)
        return known is not None and known.lost

    def heard(self, agent: str, now: int, spoke: int) -> int | None:
        """An agent said something at ``spoke``; return since when it had been silent if it had been lost."""
        known = self._agents.get(agent)
        if known is None:
            if len(self._agents) < self._limit:
                self._agents[agent] = _Agent(now, spoke, self._rules.interval)
            return None
        silent_since = known.spoke if known.lost else None
        known.heard, known.spoke, known.lost = now, spoke, False
        return silent_since

    def interrupted(self, agent: str) -> None:
        """The agent started anew or lost its connection: the time to its next heartbeat says nothing."""
        known = self._agents.get(agent)
        if known is not None:
            known.beat_time = None

    def beat(self, agent: str, time: int, now: int) -> None:
        """An agent sent a heartbeat of ``time`` in its own clock; learn its interval from two of them.

        Neither clock is enough: the agent's may jump, and heartbeats that were held up arrive together.
        """
        known = self._agents.get(agent)
        if known is None:
            return
        if known.beat_time is not None and time > known.beat_time:
            received = max(now - known.beat_heard, known.interval)
            interval = max(min(time - known.beat_time, received), self._rules.shortest)
            known.interval = min(interval, self._rules.longest)
        known.beats, known.beat_time, known.beat_heard = True, time, now

    def _deadline(self, agent: str, known: _Agent) -> int | None:
        expected = known.beats or (self._rules.expected and agent == BROKER_AGENT)
        if known.lost or not expected:
            return None
        return known.heard + self._rules.missed * known.interval

    def newly_lost(self, now: int) -> list[tuple[str, int]]:
        """Return the agents that are lost since the last call, and since when they are silent."""
        lost = []
        for agent, known in self._agents.items():
            deadline = self._deadline(agent, known)
            if deadline is not None and deadline <= now:
                known.lost = True
                lost.append((agent, known.heard))
        return lost

    @property
    def next_deadline(self) -> int | None:
        """When `newly_lost` has something to return, unless agents speak until then."""
        deadlines = (self._deadline(agent, known) for agent, known in self._agents.items())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)


class Boots:
    """By the ids of its objects, whether the broker's agent was started anew since they were last read.

    A boot sequence alone says nothing: qpidd keeps one object, of number 0, under the first one for ever.
    """

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._in_doubt = False

    def doubt(self) -> None:
        """The agent announced itself, or was out of hearing: it may have been started anew."""
        self._in_doubt = bool(self._known)

    def forget(self) -> None:
        """It was started anew: none of its former ids means anything any more."""
        self._known.clear()
        self._in_doubt = False

    def shows_restart(self, object_id: ObjectId) -> bool:
        """Whether this id, told by the broker's agent, is the first that shows a restart."""
        sequence = object_id.sequence
        if not sequence or not object_id.number or sequence in self._known:
            return False
        restarted = self._in_doubt
        if restarted:
            self.forget()
        self._known.add(sequence)  # of 12 bits: there are no more than 4,095
        return restarted


def agent_described(definition: ClassDefinition, message: Content) -> str | None:
    """Return which remote agent a record is about, if its class is the one by which qpidd shows them."""
    if (definition.key.package, definition.key.name) != _AGENT_CLASS or message.properties is None:
        return None
    positions = definition.schema.positions
    broker_bank, agent_bank = (positions.get(name) for name in ("brokerBank", "agentBank"))
    if broker_bank is None or agent_bank is None:
        return None
    broker, agent = message.properties[broker_bank], message.properties[agent_bank]
    return f"{broker}.{agent}" if isinstance(broker, int) and isinstance(agent, int) else None
