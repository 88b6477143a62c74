"""The agents of a console: which are silent, which are being read, which are gone.

A remote agent that hangs, or answers in part only, affects no other one: its objects are stale, and it is
read again by a back-off of its own, first for the objects of one class, so that a request without an answer
delays no other. One that left the broker, or is silent since the link returned, has a grace period to
return before its objects end: under another bank its objects are the same ones.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from gateway.dialects.console import Outbox
from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.console_config import ConsoleConfig, HeartbeatRules, Heartbeats
from gateway.dialects.qmf.console_requests import REQUEST_SEQUENCES, ClassName, FetchObjects, Requests
from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import Content
from gateway.dialects.session import NEVER
from gateway.model.observations import (
    AgentGone,
    AgentLost,
    HeartbeatSeen,
    ResyncBegan,
    ResyncEnded,
    current_until,
)
from gateway.model.times import SECOND

_AGENT_CLASS: Final = ("org.apache.qpid.broker", "agent")


class _Agent:
    __slots__ = (
        "asked",
        "beat_received",
        "beat_time",
        "beats",
        "confirmed",
        "interval",
        "lost",
        "received",
        "spoke",
        "spoke_after",
    )

    def __init__(self, received: int, spoke: int, interval: int, spoke_after: int) -> None:
        self.received = received
        self.spoke = spoke
        self.spoke_after = spoke_after
        self.confirmed = 0
        self.interval = interval
        self.beats = False
        self.beat_time: int | None = None
        self.beat_received = 0
        self.lost = False
        self.asked = False


class Agents:
    """The state of the agents of one source.

    Args:
        rules: when an agent is lost.
        limit: the largest number of agents; others are ignored, because their silence would not be
            noticed. The broker's own agent is always known.

    Attributes:
        received_until: a time (ns, the gateway's clock) at which no message waited in the session's queue:
            what comes now reached it later, whatever its sender's clock says. 0 while it is not known.
    """

    def __init__(self, rules: HeartbeatRules, limit: int) -> None:
        self._rules = rules
        self._limit = limit
        self._agents: dict[str, _Agent] = {}
        self.received_until = 0

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._agents))

    def __contains__(self, agent: str) -> bool:
        return agent in self._agents

    def clear(self) -> None:
        """Forget all agents, and what was received."""
        self._agents.clear()
        self.received_until = 0

    def forget(self, agent: str) -> bool:
        """Stop watching an agent; return False if it was not known."""
        return self._agents.pop(agent, None) is not None

    def last_spoke(self, agent: str) -> int | None:
        """Return when the last message of an agent was sent; ``None`` if there was none."""
        known = self._agents.get(agent)
        return known.spoke if known else None

    def is_lost(self, agent: str) -> bool:
        """Return whether an agent is silent for longer than it should be."""
        known = self._agents.get(agent)
        return known is not None and known.lost

    def received_again(self, agent: str, now: int, spoke: int) -> bool:
        """Note a message that was sent at ``spoke``; return False if it changes the agent's state.

        `received` must be called then.
        """
        known = self._agents.get(agent)
        if known is None or known.lost or known.asked:
            return False
        known.received, known.spoke, known.spoke_after = now, spoke, self.received_until
        return True

    def received(self, agent: str, now: int, spoke: int) -> int | None:
        """Note a message that was sent at ``spoke``; return since when a lost agent had been silent."""
        known = self._agents.get(agent)
        if known is None:
            if agent == BROKER_AGENT or self._has_room():
                self._agents[agent] = _Agent(now, spoke, self._rules.interval, self.received_until)
            return None
        silent_since = known.spoke if known.lost else None
        known.spoke_after = self.received_until
        known.received, known.spoke, known.lost, known.asked = now, spoke, False, False
        return silent_since

    def confirmations(self) -> list[HeartbeatSeen]:
        """Return until when the objects of agents are current that have spoken later than was reported.

        An agent sends what it publishes, its heartbeats and its answers in one order, which the exchanges
        and the queue keep: its message shows that all before it was received.
        """
        confirmed = []
        for agent, known in self._agents.items():
            if not known.lost and known.spoke_after > known.confirmed:
                known.confirmed = known.spoke_after
                until = current_until(known.confirmed, known.interval, self._rules.stale_after)
                confirmed.append(HeartbeatSeen(agent, known.beat_time or 0, {"": until}))
        return confirmed

    def _has_room(self) -> bool:
        return len(self._agents) < self._limit

    def to_make_room(self) -> str | None:
        """Return the agent to forget for a new one: the one lost for longest; ``None`` if there is room."""
        if self._has_room():
            return None
        lost = (agent for agent, known in self._agents.items() if known.lost and agent != BROKER_AGENT)
        return min(lost, key=lambda agent: self._agents[agent].received, default=None)

    def patience(self, agent: str) -> int:
        """Return how long an agent may be silent before it is lost, in nanoseconds."""
        known = self._agents.get(agent)
        return self._rules.missed * (known.interval if known is not None else self._rules.interval)

    def given_up(self, now: int) -> list[str]:
        """Return the agents that are silent for so long that they are gone; never the broker's own."""
        return [
            agent
            for agent, known in self._agents.items()
            if agent != BROKER_AGENT and now - known.received >= self._rules.gone
        ]

    def interrupted(self, agent: str) -> None:
        """Ignore the time to the agent's next heartbeat: it restarted or lost its connection."""
        known = self._agents.get(agent)
        if known is not None:
            known.beat_time = None

    def beat(self, agent: str, time: int, now: int) -> bool:
        """Note a heartbeat of ``time`` in the agent's clock; derive its interval from two of them.

        Return whether the next one is expected at another time than before. Neither clock is sufficient: the
        agent's may jump, and delayed heartbeats arrive together.
        """
        known = self._agents.get(agent)
        if known is None:
            return False
        before = known.beats, known.interval
        if known.beat_time is not None and time > known.beat_time:
            received = max(now - known.beat_received, known.interval)
            interval = max(min(time - known.beat_time, received), self._rules.shortest)
            known.interval = min(interval, self._rules.longest)
        known.beats, known.beat_time, known.beat_received = True, time, now
        return (known.beats, known.interval) != before

    def _deadline(self, agent: str, known: _Agent) -> int | None:
        if known.lost or not (known.beats or agent == BROKER_AGENT):
            return None
        return known.received + self._rules.missed * known.interval

    def _question(self, agent: str, known: _Agent) -> int | None:
        """Return when to query an agent, because its silence alone is not a fault."""
        mode = self._rules.mode if agent == BROKER_AGENT else Heartbeats.AUTO
        if known.lost or known.asked or mode is Heartbeats.EXPECTED:
            return None
        if mode is Heartbeats.AUTO and known.beats:
            return None
        patience = max(1, self._rules.missed - 1) * known.interval
        if agent != BROKER_AGENT:  # in time before its objects are stale
            patience = max(patience, self._rules.stale_after - known.interval)
        return known.received + patience

    def newly_quiet(self, now: int) -> list[tuple[str, int]]:
        """Return the agents to query, once each, and since when they are silent."""
        quiet = []
        for agent, known in self._agents.items():
            asked_at = self._question(agent, known)
            if asked_at is not None and asked_at <= now:
                known.asked = True
                quiet.append((agent, known.received))
        return quiet

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
        """The time at which `newly_lost` or `newly_quiet` returns something, if no agent publishes first."""
        known = self._agents.items()
        deadlines = [time for one in known for time in (self._deadline(*one), self._question(*one))]
        return min((one for one in deadlines if one is not None), default=None)


def agent_described(definition: ClassDefinition, message: Content) -> str | None:
    """Return the remote agent that a record describes, if its class is qpidd's for agents."""
    if (definition.key.package, definition.key.name) != _AGENT_CLASS or message.properties is None:
        return None
    positions = definition.schema.positions
    broker_bank, agent_bank = (positions.get(name) for name in ("brokerBank", "agentBank"))
    if broker_bank is None or agent_bank is None:
        return None
    broker, agent = message.properties[broker_bank], message.properties[agent_bank]
    return f"{broker}.{agent}" if isinstance(broker, int) and isinstance(agent, int) else None


class LivingObjects:
    """The objects of classes without a hash that were reported and have not ended.

    Args:
        limit: the largest number of objects; further ones are taken for unknown.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[ObjectId] = set()
        self._confirmed: set[ObjectId] = set()

    def __contains__(self, object_id: ObjectId) -> bool:
        return object_id in self._known

    @property
    def is_full(self) -> bool:
        """Whether there may be more objects than are known."""
        return len(self._known) >= self._limit

    def forget(self) -> None:
        """Forget all objects, which may have ended."""
        self._known.clear()
        self._confirmed.clear()

    def object_received(self, message: Content) -> None:
        """Note an object of a class without a hash."""
        if message.deleted:
            self._known.discard(message.object_id)
            self._confirmed.discard(message.object_id)
            return
        for objects in (self._known, self._confirmed):
            if len(objects) < self._limit:
                objects.add(message.object_id)

    def resync_began(self) -> None:
        """Note that all objects are reported from here on."""
        self._confirmed.clear()

    def resync_completed(self) -> None:
        """Forget the objects that were not reported since the resynchronisation began."""
        self._known = self._confirmed
        self._confirmed = set()


ENDED: Final = 10_000
"""Lives whose ends are kept; the oldest is forgotten when another comes."""


class EndedLives:
    """The lives of objects that ended lately, by class, id and time of creation. Bounded in number.

    A record of such a life that is not newer than its end was late, or was delivered twice.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[_Life, tuple[int, Sequence[int]]] = OrderedDict()

    def forget(self) -> None:
        """Forget all ends, because the agent restarted: its ids may mean other objects."""
        self._ends.clear()

    def ended(self, message: Content, asked: Sequence[int]) -> None:
        """Note the end of a life.

        Args:
            message: the record with the end.
            asked: the highest sequence numbers of requests, and of operations, that were sent before.
        """
        life = _life(message)
        self._ends[life] = max(message.deleted, message.sampled), asked
        self._ends.move_to_end(life)
        if len(self._ends) > ENDED:
            self._ends.popitem(last=False)

    def is_late(self, message: Content, answers: int) -> bool:
        """Return whether a record is of an ended life, and not newer than its end; a newer one revives it.

        An answer to a query that was sent after the end is newer, whatever the clocks of the agent say. The
        last statistics may follow the end in a record of their own.

        Args:
            message: the record.
            answers: the sequence number of the query that it answers; 0 for none that is under way.
        """
        end = self._ends.get(_life(message)) if self._ends else None
        if end is None or (message.deleted and message.properties is None):
            return False
        time, asked = end
        was_asked_later = answers > asked[answers >= REQUEST_SEQUENCES]
        if 0 < (message.deleted or message.sampled) <= time and not was_asked_later:
            return True
        del self._ends[_life(message)]
        return False


_Life = tuple[str, str, int, int, int]


def _life(message: Content) -> _Life:
    key, object_id = message.key, message.object_id
    return key.package, key.name, object_id.prefix, object_id.number, message.created


_NAMED: Final = 3
"""Number of agents that a text names; further ones are counted."""


@dataclass(slots=True)
class _Degraded:
    """The reason why an agent's objects are stale, and how often in a row it was read in vain.

    ``due_at``: when it is read next, nanoseconds.
    """

    reason: str
    attempts: int
    due_at: int


class RemoteAgents:
    """The state of the remote agents of one broker, and the progress of reading them.

    Args:
        config: back-off and bounds.
        agents: the agents that publish.
        requests: requests to the agents, and others.
        out: collects the observations.
    """

    def __init__(self, config: ConsoleConfig, agents: Agents, requests: Requests, out: Outbox) -> None:
        self._config = config
        self._agents = agents
        self._requests = requests
        self._out = out
        self._reading: dict[str, deque[ClassName]] = {}
        self._shortcomings: dict[str, str] = {}
        self._degraded: dict[str, _Degraded] = {}
        self._leaving: dict[str, int] = dict.fromkeys(config.restored_agents, 0)

    # State.

    @property
    def left_out(self) -> frozenset[str]:
        """The agents whose objects a reading of everything neither confirms nor ends."""
        return frozenset((*self._silent(), *self._degraded, *self._reading, *self._leaving))

    @property
    def reading(self) -> Collection[str]:
        """The agents that are read separately."""
        return self._reading.keys()

    def is_degraded(self, agent: str) -> bool:
        """Return whether the last reading of an agent failed or was incomplete."""
        return agent in self._degraded

    def to_ask(self) -> tuple[str, ...]:
        """Return the agents that a reading of everything queries, and begin it."""
        self._shortcomings.clear()
        out = self.left_out
        return tuple(agent for agent in self._agents if agent != BROKER_AGENT and agent not in out)

    @property
    def trouble(self) -> str:
        """The agents whose objects are stale, for people; empty where there are none."""
        troubled = sorted({*self._silent(), *self._degraded})
        if not troubled:
            return ""
        if len(troubled) == 1:
            degraded = self._degraded.get(troubled[0])
            return f"agent {troubled[0]} is stale: {degraded.reason if degraded else 'it is silent'}"
        more = f" and {len(troubled) - _NAMED} more" if len(troubled) > _NAMED else ""
        return f"{len(troubled)} agents are stale: {', '.join(troubled[:_NAMED])}{more}"

    def next_time(self, *, asks: bool, certain: bool) -> int:
        """Return when `take_due` or `end_absences` has something to do, nanoseconds; `NEVER` for never.

        Args:
            asks: whether the console queries agents now.
            certain: whether it receives everything that agents publish.
        """
        degraded = (one.due_at for agent, one in self._degraded.items() if agent not in self._reading)
        return min(*(degraded if asks else ()), *(self._leaving.values() if certain else ()), NEVER, NEVER)

    def _silent(self) -> Iterator[str]:
        return (agent for agent in self._agents if agent != BROKER_AGENT and self._agents.is_lost(agent))

    # Readings.

    def read(self, agent: str, classes: Iterable[ClassName]) -> None:
        """Read an agent separately: its objects, under whatever ids, are reported again or gone."""
        self._out.observations.append(ResyncBegan(agent))
        self._requests.drop_objects_of(agent)  # what answers to these reported before does not count
        self._reading[agent] = waiting = deque(classes)
        self._shortcomings.pop(agent, None)
        # An agent that failed before is queried for one class first, and for more when it has answered.
        self._ask(agent, 1 if agent in self._degraded else len(waiting))

    def _ask(self, agent: str, count: int) -> None:
        waiting = self._reading[agent]
        for _ in range(min(count, len(waiting))):
            if not self._requests.add(FetchObjects(agent, *waiting.popleft())):
                self._shortcomings[agent] = "too many requests are waiting"

    def advance(self, now: int) -> None:
        """Continue or end the readings that wait for no answer."""
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
        self._out.observations += self._agents.confirmations()
        self._out.observations.append(ResyncEnded(not shortcoming, agent))
        if shortcoming:
            self._degrade(agent, f"it was read incompletely: {shortcoming}", now)
        else:
            self._degraded.pop(agent, None)

    def fall_short(self, agent: str, reason: str) -> None:
        """Note that a reading of an agent, separately or with all others, is incomplete."""
        self._shortcomings.setdefault(agent, reason)

    def fall_short_all(self, reason: str) -> None:
        """Note that the readings of all agents that are read separately are incomplete."""
        for agent in self._reading:
            self.fall_short(agent, reason)

    def everything_read(self, now: int) -> None:
        """End a reading of everything: agents with an incomplete reading are stale."""
        for agent in [one for one in self._shortcomings if one not in self._reading]:
            self._degrade(agent, f"it was read incompletely: {self._shortcomings.pop(agent)}", now)

    def give_up(self, agent: str, reason: str, now: int) -> None:
        """Note that an agent does not answer: nothing else is requested of it meanwhile."""
        if agent in self._degraded and agent not in self._reading:
            return  # it was reported when it did not answer for another class
        self.abandon(agent)
        if agent in self._agents:
            self._degrade(agent, f"it does not answer: {reason}", now)

    def _degrade(self, agent: str, reason: str, now: int) -> None:
        known = self._degraded.get(agent)
        attempts = known.attempts + 1 if known is not None else 1
        delay = self._config.retry_after(attempts)
        # Agents that failed together are not queried together.
        delay += delay * (crc32(f"{agent}/{attempts}".encode()) % 256) // 1024
        self._degraded[agent] = _Degraded(reason, attempts, now + delay)
        again = f"asked again in {delay // SECOND} s"
        self._out.observations.append(AgentLost(agent, f"agent {agent}: {reason}; {again}", remote=True))

    def abandon(self, agent: str) -> None:
        """Drop all requests to this agent."""
        self._requests.drop_objects_of(agent)
        self._shortcomings.pop(agent, None)
        if self._reading.pop(agent, None) is not None:
            self._out.observations.append(ResyncEnded(complete=False, agent=agent))

    def abandon_all(self) -> None:
        """Drop all requests to all of them."""
        self._shortcomings.clear()
        for agent in tuple(self._reading):
            self.abandon(agent)

    def take_due(self, now: int) -> list[str]:
        """Return the agents that are due to be read again."""
        return [
            agent
            for agent, one in self._degraded.items()
            if one.due_at <= now and agent not in self._reading and not self._agents.is_lost(agent)
        ]

    # Arrivals and departures.

    def returned(self, agent: str, now: int) -> None:
        """Note that an agent publishes that was silent or had left."""
        self._leaving.pop(agent, None)
        if agent in self._degraded:
            self._degraded[agent].due_at = now

    def depart(self, agent: str, detail: str, now: int) -> None:
        """Note that an agent left: it has a grace period to return, under whatever bank."""
        patience = self._agents.patience(agent)
        if not self._agents.forget(agent):
            return
        self.abandon(agent)
        self._degraded.pop(agent, None)
        self._out.observations.append(AgentLost(agent, detail, remote=True, leaving=True))
        self._leave(agent, now + patience)

    def depart_all(self, now: int) -> None:
        """Give all agents a grace period: after a new link it is unknown which of them still exist."""
        for agent in self._agents:
            if agent != BROKER_AGENT:
                self._leave(agent, now + self._agents.patience(agent))
        self._degraded.clear()
        self._agents.clear()

    def await_again(self, now: int) -> None:
        """Restart the grace periods, because no agent could be received until now."""
        for agent, gone_at in self._leaving.items():
            self._leaving[agent] = max(gone_at, now + self._agents.patience(agent))

    def _leave(self, agent: str, gone_at: int) -> None:
        self._leaving[agent] = gone_at
        if len(self._leaving) > self._config.agent_limit:
            self._gone(next(iter(self._leaving)), "others came and went since")

    def end_absences(self, now: int) -> None:
        """End the agents that did not return, and those that are silent for too long."""
        for agent in [one for one, gone_at in self._leaving.items() if gone_at <= now]:
            self._gone(agent, "it left, and did not return")
        for agent in self._agents.given_up(now):
            if self._agents.is_lost(agent) or agent in self._degraded:
                self._gone(agent, "it is silent for all too long")

    def make_room(self) -> None:
        """If there is no room for a new agent, end the one that is lost for longest."""
        longest = self._agents.to_make_room()
        if longest is not None:
            self._gone(longest, "it is silent, and another one came")

    def _gone(self, agent: str, detail: str) -> None:
        self.abandon(agent)
        self._agents.forget(agent)
        self._degraded.pop(agent, None)
        self._leaving.pop(agent, None)
        self._out.observations.append(AgentGone(agent, f"agent {agent} is gone: {detail}"))
