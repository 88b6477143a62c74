"""The agents of one source: who vouches for its objects, who is lost, and who is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gateway.feed.records import AgentGoneRecord, AgentRecord, Record
from gateway.inventory.event_texts import one_line
from gateway.inventory.events import EventRecorder
from gateway.inventory.own_events import AGENT_BACK, AGENT_LOST
from gateway.model.events import Severity
from gateway.model.observations import AgentLost, ResyncBegan, ResyncEnded


class AgentTable:
    """Keeps a record of each agent and appends to ``out`` one for all that happens to them.

    An agent that spoke vouches for its objects, but one that was lost is believed again only after a resync.

    Args:
        source: number and name of it.
        recorder: makes the events that tell which agent is lost, and that it is back.
        count_of: how many objects an agent has.
        out: where records go, in order.

    Attributes:
        loses: whether it was told already, but is still to be applied, that an agent is lost.
    """

    def __init__(
        self,
        source: tuple[int, str],
        recorder: EventRecorder,
        count_of: Callable[[str], int],
        out: list[Record],
    ) -> None:
        self.loses: Callable[[str], bool] = lambda _agent: False
        self._source, self._source_name = source
        self._recorder = recorder
        self._count_of = count_of
        self._out = out
        self._agents: dict[str, AgentRecord] = {}
        self._lost_in_resync: set[str] = set()
        self._told_lost: set[str] = set()
        self._gone: dict[str, None] = {}

    def __iter__(self) -> Iterator[AgentRecord]:
        return iter(tuple(self._agents.values()))

    def is_fresh(self, agent: str) -> bool:
        """Whether an agent's objects are current."""
        known = self._agents.get(agent)
        return known is not None and known.fresh

    def heard(self, agent: str, now: int, *, believed: bool) -> None:
        """An agent spoke; one that is new is ``believed`` or not."""
        self._lost_in_resync.discard(agent)
        self._gone.pop(agent, None)
        known = self._agents.get(agent)
        if known is None:
            fresh = believed and not self.loses(agent)
            self._agents[agent] = AgentRecord(self._source, agent, fresh, now, now)
            self._out.append(self._agents[agent])
        else:
            self._agents[agent] = AgentRecord(known.source, agent, known.fresh, known.since, now)

    def tell(self, agent: str) -> None:
        """Tell of an agent that was heard as it stands."""
        self._out.append(self._agents[agent])

    def lost(self, lost: AgentLost, now: int) -> None:
        """An agent is silent, hangs, or left; of one beside others an event tells, once until it is back."""
        agent = lost.agent
        self._lost_in_resync.add(agent)
        self._doubt(agent, now)
        if lost.remote and agent in self._agents and agent not in self._told_lost:
            self._told_lost.add(agent)
            text = one_line(f"{self._source_name}: {lost.detail}")
            event = self._recorder.own(AGENT_LOST, (agent, lost.detail), Severity.WARNING, text, now)
            self._out.append(event)

    def doubt(self, now: int) -> None:
        """None of them can be believed."""
        for agent in self._agents:
            self._doubt(agent, now)

    def doubt_lost(self, now: int) -> None:
        """Those that it ``loses`` cannot be believed."""
        for agent in self._agents:
            if self.loses(agent):
                self._doubt(agent, now)

    def resync_began(self, began: ResyncBegan) -> None:
        """Who is lost from here on is not believed after it."""
        if began.agent:
            self._lost_in_resync.discard(began.agent)
        else:
            self._lost_in_resync.clear()

    def resync_ended(self, ended: ResyncEnded, now: int) -> None:
        """Believe those whose objects were told whole; one that had none has answered all the same."""
        agents: Iterable[str] = (ended.agent,) if ended.agent else self._agents
        for agent in agents:
            if agent not in self._lost_in_resync and agent not in ended.without:
                self._believe(agent, now)

    def gone(self, agent: str, now: int) -> None:
        """An agent is no more: it is forgotten behind the last of its objects."""
        self._doubt(agent, now)
        if agent in self._agents:
            self._gone[agent] = None

    def forget_gone(self, now: int) -> None:
        """Forget those of which nothing is left."""
        for agent in [one for one in self._gone if not self._count_of(one)]:
            del self._gone[agent], self._agents[agent]
            self._lost_in_resync.discard(agent)
            self._told_lost.discard(agent)
            self._out.append(AgentGoneRecord(self._source, agent, now))

    def _believe(self, agent: str, now: int) -> None:
        known = self._agents.get(agent)
        if known is None or known.fresh or self.loses(agent):
            return
        self._agents[agent] = AgentRecord(known.source, agent, fresh=True, since=now, confirmed=now)
        self._out.append(self._agents[agent])
        if agent in self._told_lost:
            self._told_lost.discard(agent)
            text = one_line(f"{self._source_name}: agent {agent} was read again")
            self._out.append(self._recorder.own(AGENT_BACK, (agent,), Severity.INFO, text, now))

    def _doubt(self, agent: str, now: int) -> None:
        known = self._agents.get(agent)
        if known is None or not known.fresh:
            return
        self._agents[agent] = AgentRecord(known.source, agent, False, now, known.confirmed)
        self._out.append(self._agents[agent])
