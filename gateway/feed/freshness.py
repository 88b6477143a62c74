"""How far what a feed told can be believed: by source, by agent, and by how long that has lasted.

Every north judges alike. Objects are believed while their source is synchronised or degraded and their agent
is fresh; else they are stale, and after a while their values are withheld. What is stale for a second reason
has been stale since the first. No clock in here: times are in nanoseconds since 1970-01-01 UTC.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.feed.records import AgentGoneRecord, AgentRecord, SourceRecord
from gateway.model.observations import BELIEVED, SourceState

_NOT_BELIEVED = frozenset({SourceState.CONNECTING, SourceState.DOWN})


class Freshness(enum.IntEnum):
    """How far values can be believed.

    ``FRESH``: somebody vouches for them. ``STALE``: nobody does at present; they are the last ones known.
    ``WITHHELD``: nobody has for so long that they are not shown any more.
    """

    FRESH = 1
    STALE = 2
    WITHHELD = 3


@dataclass(slots=True, eq=False)
class Group:
    """The objects that one agent of one source vouches for; ``stale_since`` is 0 while it does."""

    source: int
    agent: str
    freshness: Freshness = Freshness.STALE
    stale_since: int = 0


AnyGroup = TypeVar("AnyGroup", bound=Group)


class Belief(Generic[AnyGroup]):
    """All sources and agents, and a group for the objects of each agent.

    Args:
        new_group: makes the group of a source's agent.
        changed: told of a group whose freshness is another now.
        serve_stale_for: nanoseconds for which the values of stale objects are still shown.
    """

    def __init__(
        self,
        new_group: Callable[[int, str], AnyGroup],
        changed: Callable[[AnyGroup], None],
        serve_stale_for: int,
    ) -> None:
        self._new_group = new_group
        self._changed = changed
        self._serve_stale_for = serve_stale_for
        self._doubted_since: dict[int, int] = {}
        self._awaited: set[int] = set()
        self._agents: dict[tuple[int, str], AgentRecord] = {}
        self._groups: dict[tuple[int, str], AnyGroup] = {}
        self._gone: set[tuple[int, str]] = set()
        self._untold: set[tuple[int, str]] = set()

    def __iter__(self) -> Iterator[AnyGroup]:
        return iter(tuple(self._groups.values()))

    @property
    def sources(self) -> tuple[int, ...]:
        """The sources told, by number."""
        return tuple(self._doubted_since)

    def source_told(self, record: SourceRecord, now: int) -> bool:
        """A source as it stands now, doubted until `vouch` is called; whether that changes belief."""
        known = record.number in self._doubted_since
        former = self._doubted_since.setdefault(record.number, now)
        if record.state in BELIEVED:
            if former or not known:
                self._awaited.add(record.number)
        elif record.state in _NOT_BELIEVED:
            self._awaited.discard(record.number)
            self._doubted_since[record.number] = former or now
        if known and bool(self._doubted_since[record.number]) == bool(former):
            return False
        self._judge(self.of_source(record.number), now)
        return True

    def is_told_whole(self, source: int) -> bool:
        """Whether the source is believed, or will be once `vouch` is called."""
        return source in self._awaited or not self.is_doubted(source)

    def vouch(self, now: int) -> list[int]:
        """Believe the sources that were told to be believed; which these are.

        To be called when what is shown of them is what was told of them: after a snapshot, and when all that
        it did not tell has been taken away. Before, values from before the snapshot would be shown as fresh.
        """
        vouched = sorted(self._awaited)
        self._awaited.clear()
        for number in vouched:
            self._doubted_since[number] = 0
            self._judge(self.of_source(number), now)
        return vouched

    def agent_told(self, record: AgentRecord, now: int) -> bool:
        """An agent as it stands now; whether that changes belief in it."""
        key = record.source, record.agent
        former = self._agents.get(key)
        self._agents[key] = record
        self._gone.discard(key)
        self._untold.discard(key)
        group = self._groups.get(key)
        if group is not None:
            self._judge([group], now)
        return former is None or former.fresh is not record.fresh

    def agent_gone(self, record: AgentGoneRecord, now: int) -> bool:
        """An agent is no more; what is left of its objects is stale. Whether that changes belief in it."""
        key = record.source, record.agent
        if key not in self._agents:
            return False
        stale = AgentRecord(record.source, record.agent, fresh=False, since=record.gone, confirmed=0)
        changes = self.agent_told(stale, now)
        self._gone.add(key)
        return changes

    def snapshot_began(self) -> None:
        """Agents that are not told from here on are gone."""
        self._untold = set(self._agents)

    def snapshot_ended(self) -> None:
        """All agents that there are have been told."""
        self._gone |= self._untold
        self._untold = set()

    def forget_gone(self, is_wanted: Callable[[AnyGroup], bool]) -> list[int]:
        """Forget agents that are gone, and their groups unless they are wanted still; of which sources."""
        over = []
        for key in self._gone:
            group = self._groups.get(key)
            if group is None or not is_wanted(group):
                over.append(key)
        for key in over:
            self._gone.discard(key)
            self._agents.pop(key, None)
            self._groups.pop(key, None)
        return sorted({source for source, _ in over})

    def doubt_all(self, now: int) -> None:
        """Nobody vouches for anything until sources are told anew."""
        self._awaited.clear()
        for number, since in self._doubted_since.items():
            self._doubted_since[number] = since or now
        self._judge(self, now)

    def forget_agents(self) -> None:
        """A new core has heard of no agent yet; `doubt_all` goes before."""
        self._agents.clear()
        self._gone.clear()
        self._untold.clear()

    def is_doubted(self, source: int) -> bool:
        """Whether nothing of the source is believed."""
        return bool(self._doubted_since.get(source, 1))

    def has_doubts(self, source: int) -> bool:
        """Whether the source, or one of its agents, is not believed."""
        return self.is_doubted(source) or any(
            not agent.fresh for (number, _), agent in self._agents.items() if number == source
        )

    def group(self, source: int, agent: str, now: int) -> AnyGroup:
        """The objects of an agent; a source not told yet is doubted from now on."""
        group = self._groups.get((source, agent))
        if group is None:
            group = self._groups[source, agent] = self._new_group(source, agent)
            self._judge([group], now)
        return group

    def of_source(self, source: int) -> list[AnyGroup]:
        """The groups of a source."""
        return [group for group in self._groups.values() if group.source == source]

    def keep(self, is_wanted: Callable[[AnyGroup], bool]) -> None:
        """Agents come and go: forget the groups of those that no object names."""
        self._groups = {key: group for key, group in self._groups.items() if is_wanted(group)}

    def remove_source(self, source: int) -> None:
        """A source is not configured any more."""
        del self._doubted_since[source]
        self._awaited.discard(source)
        self._gone.update(key for key in self._agents if key[0] == source)
        self._groups = {key: group for key, group in self._groups.items() if group.source != source}

    def age(self, now: int) -> None:
        """Withhold what has been stale for too long."""
        self._judge((group for group in self if group.freshness is Freshness.STALE), now)

    def _judge(self, groups: Iterable[AnyGroup], now: int) -> None:
        for group in groups:
            since = self._stale_since(group, now)
            group.stale_since = min(group.stale_since or since, since) if since else 0
            freshness = Freshness.FRESH
            if group.stale_since:
                withheld = now - group.stale_since >= self._serve_stale_for
                freshness = Freshness.WITHHELD if withheld else Freshness.STALE
            if freshness is not group.freshness:
                group.freshness = freshness
                self._changed(group)

    def _stale_since(self, group: AnyGroup, now: int) -> int:
        """Since when nobody vouches for these objects; 0 if somebody does."""
        agent = self._agents.get((group.source, group.agent))
        reasons = (
            self._doubted_since.get(group.source, now),
            agent.since if agent and not agent.fresh else 0,
        )
        return min((since for since in reasons if since), default=0)
