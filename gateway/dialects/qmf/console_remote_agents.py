"""The agents beside the broker's own: read each for itself, doubted each for itself, and gone in the end.

An agent that hangs, or answers in part only, loses nobody else: its objects are stale, and it is asked again
by a back-off of its own, first for the objects of one class, so that what it does not answer holds nobody up.
One that left the broker, or is not heard any more since the link came back, has a moment to return before
what it had is over: under another bank its objects are the same ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from gateway.dialects.outbox import NEVER, Outbox
from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.console_agents import SECOND, Agents
from gateway.dialects.qmf.console_config import ConsoleConfig
from gateway.dialects.qmf.console_order import ClassName
from gateway.dialects.qmf.console_requests import FetchObjects, Requests
from gateway.model.observations import AgentGone, AgentLost, ResyncBegan, ResyncEnded

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
        self._leaving: dict[str, int] = {}

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
