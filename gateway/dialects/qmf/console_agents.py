"""The agents that a console receives from: which are silent, which are read, which are gone.

An agent beside the broker's own that hangs, or answers in part only, loses no other: its objects are stale,
and it is asked again by a back-off of its own, first for the objects of one class, so that what it does not
answer holds no other up. One that left the broker, or is silent since the link came back, has a moment to
return before what it had is over: under another bank its objects are the same ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from gateway.dialects.console import Outbox
from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.console_config import SECOND, ConsoleConfig, HeartbeatRules, Heartbeats
from gateway.dialects.qmf.console_requests import ClassName, FetchObjects, Requests
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import Content
from gateway.dialects.session import NEVER
from gateway.model.observations import AgentGone, AgentLost, ResyncBegan, ResyncEnded

_AGENT_CLASS: Final = ("org.apache.qpid.broker", "agent")


class _Agent:
    __slots__ = ("asked", "beat_heard", "beat_time", "beats", "interval", "lost", "received", "spoke")

    def __init__(self, received: int, spoke: int, interval: int) -> None:
        self.received = received
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

    def received_again(self, agent: str, now: int, spoke: int) -> bool:
        """Take in that an agent sent something at ``spoke``; False where that changes how it stands.

        `received` is to be called then.
        """
        known = self._agents.get(agent)
        if known is None or known.lost or known.asked:
            return False
        known.received, known.spoke = now, spoke
        return True

    def received(self, agent: str, now: int, spoke: int) -> int | None:
        """An agent said something at ``spoke``; return since when it had been silent if it had been lost."""
        known = self._agents.get(agent)
        if known is None:
            if agent == BROKER_AGENT or self._has_room():
                self._agents[agent] = _Agent(now, spoke, self._rules.interval)
            return None
        silent_since = known.spoke if known.lost else None
        known.received, known.spoke, known.lost, known.asked = now, spoke, False, False
        return silent_since

    def _has_room(self) -> bool:
        return len(self._agents) < self._limit

    def to_make_room(self) -> str | None:
        """Return who is to be forgotten for one more: the one lost for longest; ``None`` for nobody."""
        if self._has_room():
            return None
        lost = (agent for agent, known in self._agents.items() if known.lost and agent != BROKER_AGENT)
        return min(lost, key=lambda agent: self._agents[agent].received, default=None)

    def patience(self, agent: str) -> int:
        """Return for how long an agent may be silent until it is lost, nanoseconds."""
        known = self._agents.get(agent)
        return self._rules.missed * (known.interval if known is not None else self._rules.interval)

    def given_up(self, now: int) -> list[str]:
        """Return those that were not heard for so long that they are gone; the broker's own never is."""
        return [
            agent
            for agent, known in self._agents.items()
            if agent != BROKER_AGENT and now - known.received >= self._rules.gone
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
        return known.received + self._rules.missed * known.interval

    def _question(self) -> int | None:
        """When the broker's agent is to be asked, because its silence alone says nothing."""
        known, mode = self._agents.get(BROKER_AGENT), self._rules.mode
        if known is None or known.lost or known.asked or mode is Heartbeats.EXPECTED:
            return None
        if mode is Heartbeats.AUTO and known.beats:
            return None
        return known.received + max(1, self._rules.missed - 1) * known.interval

    def newly_quiet(self, now: int) -> int | None:
        """Return since when the broker's agent is silent, if it is to be asked and was not yet."""
        asked_at = self._question()
        if asked_at is None or asked_at > now:
            return None
        known = self._agents[BROKER_AGENT]
        known.asked = True
        return known.received

    def newly_lost(self, now: int) -> list[tuple[str, int]]:
        """Return the agents that are lost since the last call, and since when they are silent."""
        lost = []
        for agent, known in self._agents.items():
            deadline = self._deadline(agent, known)
            if deadline is not None and deadline <= now:
                known.lost = True
                lost.append((agent, known.received))
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


class LivingObjects:
    """The objects of classes without a hash that were told, and not told to be gone.

    Args:
        limit: so many are known at most; those beyond are taken for unknown.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[ObjectId] = set()
        self._confirmed: set[ObjectId] = set()

    def __contains__(self, object_id: ObjectId) -> bool:
        return object_id in self._known

    @property
    def is_full(self) -> bool:
        """Whether there may be more than are known."""
        return len(self._known) >= self._limit

    def forget(self) -> None:
        """None of them is certain to live."""
        self._known.clear()
        self._confirmed.clear()

    def told(self, message: Content) -> None:
        """An object of a class without a hash was told."""
        if message.deleted:
            self._known.discard(message.object_id)
            self._confirmed.discard(message.object_id)
            return
        for objects in (self._known, self._confirmed):
            if len(objects) < self._limit:
                objects.add(message.object_id)

    def resync_began(self) -> None:
        """All that live are told from here on."""
        self._confirmed.clear()

    def resync_completed(self) -> None:
        """All that live were told since it began."""
        self._known = self._confirmed
        self._confirmed = set()


_NAMED: Final = 3
"""Agents that a text names; more are counted."""


@dataclass(slots=True)
class _Doubt:
    """Why an agent's objects are not believed, and how often in a row it was asked in vain.

    ``due_at``: when it is asked next, nanoseconds.
    """

    reason: str
    attempts: int
    due_at: int


class RemoteAgents:
    """What is known of the remote agents of one broker, and how far reading them has come.

    Args:
        config: back-off, bounds.
        agents: those that are heard.
        requests: to the agents, and others.
        out: where observations go.
    """

    def __init__(self, config: ConsoleConfig, agents: Agents, requests: Requests, out: Outbox) -> None:
        self._config = config
        self._agents = agents
        self._requests = requests
        self._out = out
        self._reading: dict[str, deque[ClassName]] = {}
        self._shortcomings: dict[str, str] = {}
        self._doubts: dict[str, _Doubt] = {}
        self._leaving: dict[str, int] = dict.fromkeys(config.former_agents, 0)

    # How they stand.

    @property
    def left_out(self) -> frozenset[str]:
        """Those whose objects a reading of everything neither confirms nor ends."""
        return frozenset((*self._silent(), *self._doubts, *self._reading, *self._leaving))

    @property
    def reading(self) -> Collection[str]:
        """Those that are read on their own."""
        return self._reading.keys()

    def is_doubted(self, agent: str) -> bool:
        """Whether an agent was read in vain, or in part, and not since."""
        return agent in self._doubts

    def to_ask(self) -> tuple[str, ...]:
        """Those that a reading of everything asks, which begins."""
        self._shortcomings.clear()
        out = self.left_out
        return tuple(agent for agent in self._agents if agent != BROKER_AGENT and agent not in out)

    @property
    def trouble(self) -> str:
        """Who is not believed, for people; empty where all are."""
        troubled = sorted({*self._silent(), *self._doubts})
        if not troubled:
            return ""
        if len(troubled) == 1:
            doubt = self._doubts.get(troubled[0])
            return f"agent {troubled[0]} is not believed: {doubt.reason if doubt else 'it is silent'}"
        more = f" and {len(troubled) - _NAMED} more" if len(troubled) > _NAMED else ""
        return f"{len(troubled)} agents are not believed: {', '.join(troubled[:_NAMED])}{more}"

    def next_time(self, *, asks: bool, certain: bool) -> int:
        """When `take_due` or `end_absences` has something to do, nanoseconds; `NEVER` for never.

        Args:
            asks: the console asks agents.
            certain: it hears all that are there.
        """
        doubts = (one.due_at for agent, one in self._doubts.items() if agent not in self._reading)
        return min(*(doubts if asks else ()), *(self._leaving.values() if certain else ()), NEVER, NEVER)

    def _silent(self) -> Iterator[str]:
        return (agent for agent in self._agents if agent != BROKER_AGENT and self._agents.is_lost(agent))

    # Reading.

    def read(self, agent: str, classes: Iterable[ClassName]) -> None:
        """Read an agent on its own: what it had before, under whatever ids, is told again or gone."""
        self._out.observations.append(ResyncBegan(agent))
        self._reading[agent] = waiting = deque(classes)
        self._shortcomings.pop(agent, None)
        # One that was asked in vain before is asked for more when it has answered for one class.
        self._ask(agent, 1 if agent in self._doubts else len(waiting))

    def _ask(self, agent: str, count: int) -> None:
        waiting = self._reading[agent]
        for _ in range(min(count, len(waiting))):
            if not self._requests.add(FetchObjects(agent, *waiting.popleft())):
                self._shortcomings[agent] = "too many requests are waiting"

    def advance(self, now: int) -> None:
        """Go on with the readings, or end them, where nothing is waited for any more."""
        for agent in tuple(self._reading):
            if self._requests.asks_objects_of(agent):
                continue
            if self._reading[agent] and agent not in self._shortcomings:
                self._ask(agent, len(self._reading[agent]))
            else:
                self._end_reading(agent, now)

    def _end_reading(self, agent: str, now: int) -> None:
        del self._reading[agent]
        shortcoming = self._shortcomings.pop(agent, "")
        self._out.observations.append(ResyncEnded(not shortcoming, agent))
        if shortcoming:
            self._doubt(agent, f"it was read incompletely: {shortcoming}", now)
        else:
            self._doubts.pop(agent, None)

    def fall_short(self, agent: str, reason: str) -> None:
        """What is read of an agent, alone or with all others, will not be complete."""
        self._shortcomings.setdefault(agent, reason)

    def fall_short_all(self, reason: str) -> None:
        """The same of all that are read on their own."""
        for agent in self._reading:
            self.fall_short(agent, reason)

    def everything_read(self, now: int) -> None:
        """Everything was read: those of which something is missing are doubted."""
        for agent in [one for one in self._shortcomings if one not in self._reading]:
            self._doubt(agent, f"it was read incompletely: {self._shortcomings.pop(agent)}", now)

    def give_up(self, agent: str, reason: str, now: int) -> None:
        """An agent does not answer: it is not asked for anything else meanwhile."""
        if agent in self._doubts and agent not in self._reading:
            return  # as was said when it did not answer for another class
        self.abandon(agent)
        if agent in self._agents:
            self._doubt(agent, f"it does not answer: {reason}", now)

    def _doubt(self, agent: str, reason: str, now: int) -> None:
        known = self._doubts.get(agent)
        attempts = known.attempts + 1 if known is not None else 1
        delay = self._config.retry_after(attempts)
        # Agents that came to hang together are not asked together.
        delay += delay * (crc32(f"{agent}/{attempts}".encode()) % 256) // 1024
        self._doubts[agent] = _Doubt(reason, attempts, now + delay)
        again = f"asked again in {delay // SECOND} s"
        self._out.observations.append(AgentLost(agent, f"agent {agent}: {reason}; {again}", remote=True))

    def abandon(self, agent: str) -> None:
        """Wait for nothing of this agent any more."""
        self._requests.drop_objects_of(agent)
        self._shortcomings.pop(agent, None)
        if self._reading.pop(agent, None) is not None:
            self._out.observations.append(ResyncEnded(complete=False, agent=agent))

    def abandon_all(self) -> None:
        """The same of all of them."""
        self._shortcomings.clear()
        for agent in tuple(self._reading):
            self.abandon(agent)

    def take_due(self, now: int) -> list[str]:
        """Those that it is time to ask again; they are read next."""
        return [
            agent
            for agent, doubt in self._doubts.items()
            if doubt.due_at <= now and agent not in self._reading and not self._agents.is_lost(agent)
        ]

    # Coming and going.

    def returned(self, agent: str, now: int) -> None:
        """An agent speaks that was silent, or had left."""
        self._leaving.pop(agent, None)
        if agent in self._doubts:
            self._doubts[agent].due_at = now

    def depart(self, agent: str, detail: str, now: int) -> None:
        """An agent left: it has a moment to return, under whatever bank."""
        patience = self._agents.patience(agent)
        if not self._agents.forget(agent):
            return
        self.abandon(agent)
        self._doubts.pop(agent, None)
        self._out.observations.append(AgentLost(agent, detail, remote=True, leaving=True))
        self._leave(agent, now + patience)

    def depart_all(self, now: int) -> None:
        """The link is new: nobody knows which of them are still there."""
        for agent in self._agents:
            if agent != BROKER_AGENT:
                self._leave(agent, now + self._agents.patience(agent))
        self._doubts.clear()
        self._agents.clear()

    def await_again(self, now: int) -> None:
        """Who could not be heard until now has its moment from now on."""
        for agent, gone_at in self._leaving.items():
            self._leaving[agent] = max(gone_at, now + self._agents.patience(agent))

    def _leave(self, agent: str, gone_at: int) -> None:
        self._leaving[agent] = gone_at
        if len(self._leaving) > self._config.agent_limit:
            self._gone(next(iter(self._leaving)), "others came and went since")

    def end_absences(self, now: int) -> None:
        """Those that did not return are gone, and so are those that are silent for all too long."""
        for agent in [one for one, gone_at in self._leaving.items() if gone_at <= now]:
            self._gone(agent, "it left, and did not return")
        for agent in self._agents.given_up(now):
            if self._agents.is_lost(agent) or agent in self._doubts:
                self._gone(agent, "it is silent for all too long")

    def make_room(self) -> None:
        """Where the agents are too many for one more, who is lost for longest is gone."""
        longest = self._agents.to_make_room()
        if longest is not None:
            self._gone(longest, "it is silent, and another one came")

    def _gone(self, agent: str, detail: str) -> None:
        self.abandon(agent)
        self._agents.forget(agent)
        self._doubts.pop(agent, None)
        self._leaving.pop(agent, None)
        self._out.observations.append(AgentGone(agent, f"agent {agent} is gone: {detail}"))
