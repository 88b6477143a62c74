"""The agents of one source, and their states: fresh, lost, or gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from gateway.feed.records import AgentGoneRecord, AgentRecord
from gateway.inventory.events import EventRecorder, one_line
from gateway.inventory.lifecycle import ObjectLifecycle
from gateway.inventory.own_events import AGENT_BACK, AGENT_LOST
from gateway.inventory.scope import SourceScope
from gateway.model.observations import AgentLost, HeartbeatSeen, ResyncBegan, ResyncEnded, Severity

EVERY_AGENT: Final = ""


class AgentTable:
    """Keeps a record of each agent, and publishes each change of one.

    An agent that reported something keeps its objects fresh, but one that was lost is fresh again only after
    a resync.

    Args:
        scope: the scope of the source.
        recorder: makes the events of the loss and of the return of an agent.
        objects: the objects of the source, of which each agent has some.

    Attributes:
        pending_losses: agents whose loss was reported and is still to be applied; the empty name stands for
            all. None of them becomes fresh until then.
        is_source_trusted: whether a new agent is fresh.
        last_received: the time when an agent last reported something; 0 for never.
        leaving: agents that are gone and may still have objects.
    """

    def __init__(self, scope: SourceScope, recorder: EventRecorder, objects: ObjectLifecycle) -> None:
        self.pending_losses: Counter[str] = Counter()
        self.is_source_trusted = False
        self.last_received = 0
        self.leaving: dict[str, None] = {}
        self._source = scope.number
        self._source_name = scope.identity.name
        self._recorder = recorder
        self._objects = objects
        self._out = scope.records
        self._agents: dict[str, AgentRecord] = {}
        self._lost_in_resync: set[str] = set()
        self._reported_lost: set[str] = set()
        self._outdated: dict[str, tuple[str, ...]] = {}

    def __iter__(self) -> Iterator[AgentRecord]:
        return iter(tuple(self._agents.values()))

    def is_fresh(self, agent: str, class_name: str, now: int) -> bool:
        """Return whether an agent's objects of a class (``package:name``) are current."""
        known = self._agents.get(agent)
        return known is not None and known.fresh and not known.outdated_since(class_name, now)

    def restore(self, agent: str, complete_until: int) -> None:
        """Add an agent that had objects before the start, as a stale one."""
        self._agents[agent] = AgentRecord(self._source, agent, False, complete_until, complete_until)

    def received(self, agent: str, now: int) -> None:
        """Note that an agent reported something."""
        self.last_received = now
        known = self._agents.get(agent)
        if known is None:
            fresh = self.is_source_trusted and not self._is_about_to_be_lost(agent)
            self._agents[agent] = AgentRecord(self._source, agent, fresh, now, now)
            self._out.append(self._agents[agent])
        elif known.confirmed != now:  # many objects of one body come at once
            self._agents[agent] = replace(known, confirmed=now)
        if self._lost_in_resync:
            self._lost_in_resync.discard(agent)
        if self.leaving:
            self.leaving.pop(agent, None)

    def confirmed(self, seen: HeartbeatSeen, now: int) -> None:
        """Note and publish that an agent confirmed its objects, and until when that holds."""
        self.received(seen.agent, now)
        known = self._agents[seen.agent]
        until = seen.current_until or known.current_until
        self._agents[seen.agent] = known = replace(known, current_until=until)
        self._outdated[seen.agent] = known.outdated_classes(now)
        self._out.append(known)

    def tick(self, now: int) -> None:
        """Publish the agents of which a class was not confirmed in time, as no report of them may come."""
        for agent, known in self._agents.items():
            outdated = known.outdated_classes(now)
            if outdated != self._outdated.get(agent, ()):
                self._outdated[agent] = outdated
                self._out.append(known)

    def lost(self, lost: AgentLost, now: int) -> None:
        """Mark an agent lost; for one beside others record an event, once until it is back."""
        agent = lost.agent
        self._lost_in_resync.add(agent)
        self._mark_stale(agent, now)
        if lost.remote and agent in self._agents and agent not in self._reported_lost:
            self._reported_lost.add(agent)
            text = one_line(f"{self._source_name}: {lost.detail}")
            event = self._recorder.own(AGENT_LOST, (agent, lost.detail), Severity.WARNING, text, now)
            self._out.append(event)

    def mark_all_stale(self, now: int) -> None:
        """Mark every agent stale."""
        for agent in self._agents:
            self._mark_stale(agent, now)

    def mark_pending_losses(self, now: int) -> None:
        """Mark the agents stale whose loss is still to be applied."""
        for agent in self._agents:
            if self._is_about_to_be_lost(agent):
                self._mark_stale(agent, now)

    def resync_began(self, began: ResyncBegan) -> None:
        """Note that a resync began: an agent that is lost from here on does not become fresh by it."""
        if began.agent:
            self._lost_in_resync.discard(began.agent)
        else:
            self._lost_in_resync.clear()

    def resync_ended(self, ended: ResyncEnded, now: int) -> None:
        """Mark the agents fresh whose objects were read whole; one without objects has answered as well."""
        agents: Iterable[str] = (ended.agent,) if ended.agent else self._agents
        for agent in agents:
            if agent not in self._lost_in_resync and agent not in ended.without:
                self._mark_fresh(agent, now)

    def gone(self, agent: str, now: int) -> None:
        """Mark an agent gone: it is removed behind the last of its objects."""
        self._mark_stale(agent, now)
        if agent in self._agents:
            self.leaving[agent] = None

    def remove_gone(self, now: int) -> None:
        """Remove the agents that are gone and have no object left."""
        for agent in list(self.leaving):
            if self._objects.count_of(agent):
                continue
            del self.leaving[agent], self._agents[agent]
            self._lost_in_resync.discard(agent)
            self._reported_lost.discard(agent)
            self._outdated.pop(agent, None)
            self._out.append(AgentGoneRecord(self._source, agent, now))

    def _is_about_to_be_lost(self, agent: str) -> bool:
        return bool(self.pending_losses[agent] or self.pending_losses[EVERY_AGENT])

    def _mark_fresh(self, agent: str, now: int) -> None:
        known = self._agents.get(agent)
        if known is None or known.fresh or self._is_about_to_be_lost(agent):
            return
        self._agents[agent] = replace(known, fresh=True, since=now, confirmed=now)
        self._out.append(self._agents[agent])
        if agent in self._reported_lost:
            self._reported_lost.discard(agent)
            text = one_line(f"{self._source_name}: agent {agent} was read again")
            self._out.append(self._recorder.own(AGENT_BACK, (agent,), Severity.INFO, text, now))

    def _mark_stale(self, agent: str, now: int) -> None:
        known = self._agents.get(agent)
        if known is None or not known.fresh:
            return
        self._agents[agent] = replace(known, fresh=False, since=now)
        self._out.append(self._agents[agent])
