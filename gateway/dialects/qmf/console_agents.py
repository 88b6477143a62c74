"""The agents that a console hears, and when one of them has been silent for too long."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.messages import Content

SECOND: Final = 1_000_000_000
_AGENT_CLASS: Final = ("org.apache.qpid.broker", "agent")


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


class _Agent:
    __slots__ = ("asked", "beat_heard", "beat_time", "beats", "heard", "interval", "lost", "spoke")

    def __init__(self, heard: int, spoke: int, interval: int) -> None:
        self.heard = heard
        self.spoke = spoke
        self.interval = interval
        self.beats = False
        self.beat_time: int | None = None
        self.beat_heard = 0
        self.lost = False
        self.asked = False


class Agents:
    """What is known of the agents of one source.

    Args:
        rules: when an agent is lost.
        limit: agents known at most; others are not known, because nobody would notice that they are silent.
            The broker's own always is.
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

    def heard_again(self, agent: str, now: int, spoke: int) -> bool:
        """An agent said something at ``spoke`` which only shows that it is still there; else False.

        Nothing has changed then: `heard` is to be called.
        """
        known = self._agents.get(agent)
        if known is None or known.lost or known.asked:
            return False
        known.heard, known.spoke = now, spoke
        return True

    def heard(self, agent: str, now: int, spoke: int) -> int | None:
        """An agent said something at ``spoke``; return since when it had been silent if it had been lost."""
        known = self._agents.get(agent)
        if known is None:
            if agent == BROKER_AGENT or self._has_room():
                self._agents[agent] = _Agent(now, spoke, self._rules.interval)
            return None
        silent_since = known.spoke if known.lost else None
        known.heard, known.spoke, known.lost, known.asked = now, spoke, False, False
        return silent_since

    def _has_room(self) -> bool:
        return len(self._agents) < self._limit

    def to_make_room(self) -> str | None:
        """Return who is to be forgotten for one more: the one lost for longest; ``None`` for nobody."""
        if self._has_room():
            return None
        lost = (agent for agent, known in self._agents.items() if known.lost and agent != BROKER_AGENT)
        return min(lost, key=lambda agent: self._agents[agent].heard, default=None)

    def patience(self, agent: str) -> int:
        """Return for how long an agent may be silent until it is lost, nanoseconds."""
        known = self._agents.get(agent)
        return self._rules.missed * (known.interval if known is not None else self._rules.interval)

    def given_up(self, now: int) -> list[str]:
        """Return those that were not heard for so long that they are gone; the broker's own never is."""
        return [
            agent
            for agent, known in self._agents.items()
            if agent != BROKER_AGENT and now - known.heard >= self._rules.gone
        ]

    def interrupted(self, agent: str) -> None:
        """The agent restarted or lost its connection: the time to its next heartbeat says nothing."""
        known = self._agents.get(agent)
        if known is not None:
            known.beat_time = None

    def beat(self, agent: str, time: int, now: int) -> bool:
        """An agent sent a heartbeat of ``time`` in its own clock; learn its interval from two of them.

        Return whether the next one is expected at another time than before. Neither clock is enough: the
        agent's may jump, and heartbeats that were held up arrive together.
        """
        known = self._agents.get(agent)
        if known is None:
            return False
        before = known.beats, known.interval
        if known.beat_time is not None and time > known.beat_time:
            received = max(now - known.beat_heard, known.interval)
            interval = max(min(time - known.beat_time, received), self._rules.shortest)
            known.interval = min(interval, self._rules.longest)
        known.beats, known.beat_time, known.beat_heard = True, time, now
        return (known.beats, known.interval) != before

    def _deadline(self, agent: str, known: _Agent) -> int | None:
        if known.lost or not (known.beats or agent == BROKER_AGENT):
            return None
        return known.heard + self._rules.missed * known.interval

    def _question(self) -> int | None:
        """When the broker's agent is to be asked, because its silence alone says nothing."""
        known, mode = self._agents.get(BROKER_AGENT), self._rules.mode
        if known is None or known.lost or known.asked or mode is Heartbeats.EXPECTED:
            return None
        if mode is Heartbeats.AUTO and known.beats:
            return None
        return known.heard + max(1, self._rules.missed - 1) * known.interval

    def newly_quiet(self, now: int) -> int | None:
        """Return since when the broker's agent is silent, if it is to be asked and was not yet."""
        asked_at = self._question()
        if asked_at is None or asked_at > now:
            return None
        known = self._agents[BROKER_AGENT]
        known.asked = True
        return known.heard

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
        """When `newly_lost` or `newly_quiet` has something to return, unless agents speak until then."""
        deadlines = [self._deadline(agent, known) for agent, known in self._agents.items()]
        return min((one for one in (*deadlines, self._question()) if one is not None), default=None)


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
