"""How far objects can be believed: by groups, one for the objects of each agent, one for each source itself.

The virtual machine keeps one word for each group, so that it is one command however many objects there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gateway.feed.records import AgentRecord
from gateway.jmx.commands import Command, Freshness, JmxValue, SetGroup


@dataclass(slots=True, eq=False)
class Group:
    """Objects that are believed, or not, together.

    Attributes:
        number: what the virtual machine knows it by.
        freshness: as the virtual machine was told; ``None`` before.
        stale_since: 0 while somebody vouches for them.
        objects: how many there are.
    """

    number: int
    source: int
    agent: str
    freshness: Freshness | None = None
    stale_since: int = 0
    objects: int = 0


class Groups:
    """All groups, judged by what is known of agents and sources. Times are in nanoseconds.

    Args:
        tell: takes the commands.
        serve_stale_for: nanoseconds for which the values of stale objects are still shown.
    """

    def __init__(self, tell: Callable[[Command], None], serve_stale_for: int) -> None:
        self._tell = tell
        self._serve_stale_for = serve_stale_for
        self._numbers = itertools.count(1)
        self._agents: dict[tuple[int, str], AgentRecord] = {}
        self._doubted_since: dict[int, int] = {}
        self._of_sources: dict[int, Group] = {}
        self._of_agents: dict[tuple[int, str], Group] = {}
        self.own = Group(next(self._numbers), 0, "")
        self._set(self.own, Freshness.FRESH)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._of_agents.values())

    def of_agent(self, source: int, agent: str, now: int) -> Group:
        """The group of an agent's objects."""
        group = self._of_agents.get((source, agent))
        if group is None:
            group = self._of_agents[source, agent] = Group(next(self._numbers), source, agent)
            self._judge([group], now)
        return group

    def of_source(self, source: int, now: int) -> Group:
        """The group of what tells of the source itself; a new source is doubted until it is believed."""
        group = self._of_sources.get(source)
        if group is None:
            group = self._of_sources[source] = Group(next(self._numbers), source, "")
            self._doubted_since[source] = now
            self._set(group, Freshness.STALE)
        return group

    def is_doubted(self, source: int) -> bool:
        """Whether nothing of this source is believed now."""
        return bool(self._doubted_since.get(source, 1))

    def believe(self, source: int, now: int) -> None:
        """What the source's agents vouch for holds."""
        self._set_doubt(source, 0, now)

    def doubt(self, source: int, now: int) -> None:
        """Nothing of the source is known to be true any more."""
        self._set_doubt(source, self._doubted_since.get(source) or now, now)

    def doubt_all(self, now: int) -> None:
        """Nothing at all is."""
        for source in self._of_sources:
            self.doubt(source, now)

    def agent_told(self, record: AgentRecord, now: int) -> None:
        """Whether an agent vouches for its objects."""
        self._agents[record.source, record.agent] = record
        group = self._of_agents.get((record.source, record.agent))
        if group is not None:
            self._judge([group], now)

    def forget_agents(self, now: int) -> None:
        """A new core has heard of no agent yet."""
        self._agents.clear()
        self._judge(self._of_agents.values(), now)

    def drop_empty(self) -> None:
        """Forget agents without objects."""
        self._of_agents = {key: group for key, group in self._of_agents.items() if group.objects}

    def remove_source(self, source: int) -> None:
        """The source is not configured any more."""
        del self._of_sources[source], self._doubted_since[source]
        self._of_agents = {key: group for key, group in self._of_agents.items() if key[0] != source}

    def tick(self, now: int) -> None:
        """Withhold what has been stale for too long."""
        self._judge((g for g in self._of_agents.values() if g.freshness is Freshness.STALE), now)

    def _set_doubt(self, source: int, since: int, now: int) -> None:
        if self._doubted_since.get(source) == since:
            return
        self._doubted_since[source] = since
        self._set(self._of_sources[source], Freshness.STALE if since else Freshness.FRESH)
        self._judge((group for group in self._of_agents.values() if group.source == source), now)

    def _judge(self, groups: Iterable[Group], now: int) -> None:
        for group in groups:
            since = self._stale_since(group, now)
            # What is stale for a second reason has been stale since the first.
            group.stale_since = min(group.stale_since or since, since) if since else 0
            freshness = Freshness.FRESH
            if group.stale_since:
                withheld = now - group.stale_since >= self._serve_stale_for
                freshness = Freshness.WITHHELD if withheld else Freshness.STALE
            self._set(group, freshness)

    def _stale_since(self, group: Group, now: int) -> int:
        """Since when nobody vouches for these objects; 0 if somebody does."""
        agent = self._agents.get((group.source, group.agent))
        reasons = (
            self._doubted_since.get(group.source, now),
            agent.since if agent and not agent.fresh else 0,
        )
        return min((since for since in reasons if since), default=0)

    def _set(self, group: Group, freshness: Freshness) -> None:
        if group.freshness is not freshness:
            group.freshness = freshness
            self._tell(SetGroup(group.number, freshness))


def counts(groups: Iterable[Group]) -> dict[str, JmxValue]:
    """How many objects there are, and how far they can be believed, by attribute."""
    objects = dict.fromkeys(Freshness, 0)
    for group in groups:
        objects[group.freshness or Freshness.STALE] += group.objects
    return {
        "Objects": sum(objects.values()),
        "StaleObjects": objects[Freshness.STALE] + objects[Freshness.WITHHELD],
        "WithheldObjects": objects[Freshness.WITHHELD],
    }
