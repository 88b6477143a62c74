"""How far MBeans can be believed: by groups, one for the objects of each agent, one for each source itself.

The virtual machine keeps one word for each group, so that it is one command however many objects there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gateway.feed.freshness import Belief, Freshness
from gateway.feed.freshness import Group as FeedGroup
from gateway.feed.records import AgentGoneRecord, AgentRecord, SourceRecord
from gateway.jmx.commands import Command, SetGroup


@dataclass(slots=True, eq=False)
class Group(FeedGroup):
    """MBeans that are believed, or not, together.

    Attributes:
        number: what the virtual machine knows it by.
        objects: how many there are.
    """

    number: int = 0
    objects: int = 0


class Groups:
    """All groups, judged by what is known of agents and sources. Times are in nanoseconds.

    Args:
        tell: takes the commands.
        serve_stale_for: nanoseconds for which the values of stale objects are still shown.
    """

    def __init__(self, tell: Callable[[Command], None], serve_stale_for: int) -> None:
        self._tell = tell
        self._numbers = itertools.count(1)
        self._belief = Belief(self._new_group, self._changed, serve_stale_for)
        self._of_sources: dict[int, Group] = {}
        self.own = self._new_group(0, "")
        self._set(self.own, Freshness.FRESH)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._belief)

    def of_agent(self, source: int, agent: str, now: int) -> Group:
        """The group of an agent's objects."""
        return self._belief.group(source, agent, now)

    def of_source(self, source: int) -> Group:
        """The group of what tells of the source itself."""
        group = self._of_sources.get(source)
        if group is None:
            group = self._of_sources[source] = self._new_group(source, "")
        return group

    def is_told_whole(self, source: int) -> bool:
        """Whether the source is believed, or will be when all that it did not tell has gone."""
        return self._belief.is_told_whole(source)

    def vouch(self, now: int) -> None:
        """What is shown is what was told: the sources told to be believed are."""
        for source in self._belief.vouch(now):
            self._show_source(source)

    def source_told(self, record: SourceRecord, now: int) -> None:
        """A source as it stands now."""
        self._belief.source_told(record, now)
        self._show_source(record.number)

    def doubt_all(self, now: int) -> None:
        """Nobody vouches for anything until sources are told anew."""
        self._belief.doubt_all(now)
        for source in self._of_sources:
            self._show_source(source)

    def agent_told(self, record: AgentRecord, now: int) -> None:
        """Whether an agent vouches for its objects."""
        self._belief.agent_told(record, now)

    def agent_gone(self, record: AgentGoneRecord, now: int) -> None:
        """An agent is no more."""
        self._belief.agent_gone(record, now)
        self._belief.forget_gone(_has_objects)

    def snapshot_began(self) -> None:
        """Agents that are not told from here on are gone."""
        self._belief.snapshot_began()

    def snapshot_ended(self) -> None:
        """All agents that there are have been told; forget the groups of those without objects."""
        self._belief.keep(_has_objects)
        self._belief.snapshot_ended()

    def forget_agents(self) -> None:
        """A new core has heard of no agent yet."""
        self._belief.forget_agents()

    def remove_source(self, source: int) -> None:
        """The source is not configured any more."""
        del self._of_sources[source]
        self._belief.remove_source(source)

    def tick(self, now: int) -> None:
        """Withhold what has been stale for too long."""
        self._belief.age(now)
        self._belief.forget_gone(_has_objects)

    def _new_group(self, source: int, agent: str) -> Group:
        return Group(source, agent, number=next(self._numbers))

    def _changed(self, group: Group) -> None:
        self._tell(SetGroup(group.number, group.freshness))

    def _show_source(self, source: int) -> None:
        doubted = self._belief.is_doubted(source)
        self._set(self.of_source(source), Freshness.STALE if doubted else Freshness.FRESH)

    def _set(self, group: Group, freshness: Freshness) -> None:
        if group.freshness is not freshness:
            group.freshness = freshness
            self._changed(group)


def _has_objects(group: Group) -> bool:
    return group.objects > 0


def counts(groups: Iterable[Group]) -> dict[str, int]:
    """How many objects there are, and how far they can be believed, by attribute."""
    objects = dict.fromkeys(Freshness, 0)
    for group in groups:
        objects[group.freshness] += group.objects
    return {
        "Objects": sum(objects.values()),
        "StaleObjects": objects[Freshness.STALE] + objects[Freshness.WITHHELD],
        "WithheldObjects": objects[Freshness.WITHHELD],
    }
